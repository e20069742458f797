// How a session reads a request. Apart from session.cpp, which says what happens around it.
#include "http/session.hpp"

#include <boost/beast/http/error.hpp>

#include <optional>
#include <utility>

namespace godwit::transport::http {

namespace {

namespace beast = boost::beast::http;

// A connection that lies idle keeps no more than a usual head takes.
constexpr std::size_t kept_bytes_max = 2048;

headers copy_fields(const beast::fields& from) {
  auto out = headers();
  for (const auto& f : from)
    out.add(std::string(f.name_string().data(), f.name_string().size()),
            std::string(f.value().data(), f.value().size()));
  return out;
}

// "http://host/path?query" (to a proxy) and "/path?query" name the same thing.
void split_target(std::string_view sent, request& out) {
  if (const auto scheme = sent.find("://"); !sent.starts_with('/') && scheme != std::string_view::npos) {
    const auto path = sent.find_first_of("/?", scheme + 3);
    sent = path == std::string_view::npos ? std::string_view("/") : sent.substr(path);
  }
  const auto mark = sent.find('?');
  out.target = sent.substr(0, mark);
  if (mark != std::string_view::npos) out.query = sent.substr(mark + 1);
  if (out.target.empty()) out.target = "/";
}

request head_of(const beast::request<beast::string_body>& read) {
  auto out = request();
  out.fields = copy_fields(read.base());
  const auto target = read.target();
  split_target({target.data(), target.size()}, out);
  const auto method = read.method_string();
  out.method.assign(method.data(), method.size());
  return out;
}

// Leading empty lines are tolerated (RFC 9112, 2.2): some clients end a body with one more line than they count.
void skip_empty_lines(boost::beast::flat_buffer& in) {
  while (in.size() > 0) {
    const auto* p = static_cast<const char*>(in.data().data());
    if (p[0] == '\n')
      in.consume(1);
    else if (p[0] == '\r' && in.size() > 1 && p[1] == '\n')
      in.consume(2);
    else
      break;
  }
}

/// Where it is known for as long as this lives.
class known_head {
public:
  known_head(const request*& place, const request& head) : place_(place) { place_ = &head; }
  known_head(const known_head&) = delete;
  known_head& operator=(const known_head&) = delete;
  ~known_head() { place_ = nullptr; }

private:
  const request*& place_;
};

int status_of(const error_code& ec) {
  if (ec == beast::error::header_limit) return 431;
  if (ec == beast::error::body_limit) return 413;
  return 400;
}

std::string explain(const error_code& ec, const server_settings& s) {
  if (ec == beast::error::header_limit)
    return "the request's head is longer than " + std::to_string(s.header_bytes_max) + " bytes";
  if (ec == beast::error::body_limit)
    return "the request's body is longer than " + std::to_string(s.body_bytes_max) + " bytes";
  if (ec == beast::error::bad_version) return "the request is not HTTP/1.1 or HTTP/1.0";
  return "the request is not well-formed HTTP: " + ec.message();
}

} // namespace

awaitable<bool> session::read_header(parser& p) {
  if (in_.size() == 0 && in_.capacity() > kept_bytes_max) in_.shrink_to_fit();
  if (core_->draining.load(std::memory_order_relaxed) && in_.size() == 0) co_return false;
  expect_within(core_->settings.idle_timeout);
  if (in_.size() == 0) {
    set_idle(true);
    const auto some = co_await more();
    set_idle(false);
    if (!some) co_return false;
  }
  expect_within(core_->settings.header_timeout);
  auto begun = false;
  auto taken = std::size_t{0}; // the parser's own limit forgets the lines that it has taken
  while (!p.is_header_done()) {
    if (!begun) skip_empty_lines(in_);
    auto ec = error_code();
    if (in_.size() > 0) {
      begun = true;
      const auto n = p.put(in_.data(), ec);
      in_.consume(n);
      taken += n;
      if (taken > core_->settings.header_bytes_max) ec = beast::error::header_limit;
    }
    if (ec && ec != beast::error::need_more) {
      auto head = request();
      auto known = std::optional<known_head>();
      if (ec == beast::error::body_limit) { // by its Content-Length: the head itself is whole
        head = head_of(p.get());
        known.emplace(head_, head);
      }
      co_return co_await reject(status_of(ec), explain(ec, core_->settings));
    }
    if (p.is_header_done()) break;
    const auto got = co_await more();
    if (got) continue;
    if (late_ && !aborted_) co_return co_await reject(408, "the request's head did not arrive in time");
    if (end_ && begun && !aborted_) co_return co_await reject(400, "the request ends within its head");
    co_return false;
  }
  co_return true;
}

awaitable<bool> session::read_body(parser& p) {
  expect_within(core_->settings.body_timeout);
  p.eager(true);
  while (!p.is_done()) {
    auto ec = error_code();
    if (in_.size() > 0) in_.consume(p.put(in_.data(), ec));
    if (ec && ec != beast::error::need_more) co_return co_await reject(status_of(ec), explain(ec, core_->settings));
    if (p.is_done()) break;
    if (!count_body(p.get().body().size())) co_return co_await reject(503, "too many bodies are being received");
    // Bytes of a body are consumed as they come: what stays is a line of chunks or trailers that does not end.
    if (in_.size() >= unparsed_bytes_max())
      co_return co_await reject(431, "the fields behind the request's body are too long");
    const auto got = co_await more();
    if (got) continue;
    if (late_ && !aborted_) co_return co_await reject(408, "the request's body did not arrive in time");
    if (end_ && !aborted_) co_return co_await reject(400, "the request ends within its body");
    co_return false;
  }
  co_return true;
}

awaitable<std::optional<session::incoming>> session::read_request() {
  auto p = parser();
  p.header_limit(core_->settings.header_bytes_max);
  p.body_limit(core_->settings.body_bytes_max);
  const auto has_header = co_await read_header(p);
  if (!has_header) co_return std::nullopt;

  auto out = incoming();
  out.wanted = head_of(p.get());
  const auto known = known_head(head_, out.wanted);
  out.form.version = p.get().version();
  out.form.keep_alive = p.get().keep_alive();
  const auto& fields = out.wanted.fields;
  // RFC 9112, 6.1: whoever passed such a request on may not have known where its body ends.
  if (out.form.version < 11 && fields.contains("Transfer-Encoding")) out.form.keep_alive = false;

  auto status = 0;
  auto message = std::string();
  const auto expectation = fields.find("Expect");
  if (const auto hosts = fields.count("Host"); hosts > 1 || (hosts == 0 && out.form.version >= 11)) {
    status = 400;
    message = "the request needs exactly one Host field";
  } else if (const auto encoding = fields.find("Transfer-Encoding");
             encoding && (fields.count("Transfer-Encoding") > 1 || !equal_without_case(*encoding, "chunked") ||
                          fields.contains("Content-Length"))) {
    // Two readings of where a body ends are how requests are smuggled.
    status = fields.contains("Content-Length") ? 400 : 501;
    message = "of the transfer encodings only chunked is supported, and not with Content-Length";
  } else if (const auto length = p.content_length(); length && *length > core_->settings.body_bytes_max) {
    status = 413;
    message = explain(beast::error::body_limit, core_->settings);
  } else if (expectation && out.form.version >= 11 && !equal_without_case(*expectation, "100-continue")) {
    status = 417;
    message = "of the expectations only 100-continue is supported";
  }
  if (status != 0) {
    co_await reject(status, message);
    co_return std::nullopt;
  }
  if (core_->settings.on_head && !p.is_done()) {
    if (auto refused = core_->settings.on_head(out.wanted)) {
      co_await reject(std::move(*refused));
      co_return std::nullopt;
    }
  }
  if (expectation && out.form.version >= 11 && !p.is_done() && in_.size() == 0) {
    const auto sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return std::nullopt;
  }
  const auto has_body = co_await read_body(p);
  if (!has_body) co_return std::nullopt;
  expect_nothing();

  out.wanted.body = std::move(p.release().body());
  out.wanted.peer = peer_;
  if (out.wanted.method == "HEAD") {
    out.wanted.method = "GET";
    out.wanted.head = out.form.head = true;
  }
  co_return out;
}

} // namespace godwit::transport::http
