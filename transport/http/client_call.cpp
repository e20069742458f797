#include "http/client_call.hpp"

#include "http/wire.hpp"
#include "tls/peer.hpp"

#include <boost/asio/connect.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <variant>

namespace godwit::transport::http {

namespace {
namespace beast = boost::beast::http;

std::string words_of(const std::exception_ptr& thrown) {
  if (!thrown) return "there is no memory for it";
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "a callback failed";
  }
}

} // namespace

/// Ends its call exactly once, since whoever waits for `on_done` may wait for ever: when the coroutine has ended, or,
/// destroyed, when that has not begun or was given up by Asio. Both for want of memory.
struct client_call::ending {
  explicit ending(std::shared_ptr<client_call> call) noexcept : of(std::move(call)) {}
  ending(ending&&) noexcept = default;
  ending& operator=(ending&&) = delete;
  ~ending() {
    if (!of) return;
    try {
      of->done(of->thrown_out(nullptr));
    } catch (...) { // on_done's own: it has been called
    }
  }
  void operator()(const std::exception_ptr& thrown, failure result) {
    const auto call = std::exchange(of, nullptr);
    if (thrown) result = call->thrown_out(thrown);
    call->done(std::move(result));
  }
  std::shared_ptr<client_call> of;
};

client_call::client_call(executor on, client_lane& lane, const client_settings& settings, client_request request,
                         client_callbacks callbacks)
    : on_(on), lane_(lane), settings_(settings), request_(std::move(request)), callbacks_(std::move(callbacks)),
      deadline_(on) {
  handle_->running_ = this;
}

void client_call::start() {
  auto held = ending(shared_from_this()); // first: what follows may throw
  lane_.calls.insert(this);
  if (lane_.closing) closed_ = client_error_kind::cancelled;
  if (settings_.total_timeout.count() > 0) total_at_ = std::chrono::steady_clock::now() + settings_.total_timeout;
  deadline_.expect([self = shared_from_this()] { self->on_deadline(); });
  asio::co_spawn(on_, run(), std::move(held));
}

void call_handle::cancel() {
  const auto lock = std::lock_guard(mutex_);
  if (running_ == nullptr) return;
  asio::post(running_->on_, [call = running_->shared_from_this()] { call->close(client_error_kind::cancelled); });
}

void client_call::end_handle() {
  const auto lock = std::lock_guard(handle_->mutex_);
  handle_->running_ = nullptr;
}

void client_call::close(client_error_kind why) {
  if (closed_) return;
  closed_ = why;
  if (looking_) {
    lane_.names.forget(looking_->number);
    looking_->over.cancel();
  }
  if (stream_) stream_->close();
}

void client_call::on_deadline() { close(client_error_kind::timeout); }

void client_call::expect_within(std::chrono::milliseconds d) {
  using clock = std::chrono::steady_clock;
  const auto silence = d.count() > 0 ? clock::now() + d : clock::time_point::max();
  const auto at = std::min(silence, total_at_);
  if (at == clock::time_point::max())
    deadline_.none();
  else
    deadline_.in(at - clock::now());
}

client_error client_call::fail(client_error_kind kind, const std::string& what) const {
  return {kind, url_.authority() + ": " + what};
}

client_error client_call::failed(client_error_kind kind, const error_code& ec) const {
  if (closed_ == client_error_kind::cancelled) return fail(*closed_, "the call was cancelled");
  if (closed_ == client_error_kind::timeout)
    return fail(*closed_, kind == client_error_kind::connect || kind == client_error_kind::resolve
                              ? "could not connect in time"
                              : "the server did not answer in time");
  if (ec == asio::error::eof || ec == ssl::error::stream_truncated || ec == beast::error::end_of_stream ||
      ec == beast::error::partial_message)
    return fail(client_error_kind::closed, "the server closed the connection before the end of its answer");
  return fail(kind, ec.message());
}

client_error client_call::thrown_out(const std::exception_ptr& thrown) const noexcept {
  try {
    return fail(client_error_kind::protocol, words_of(thrown));
  } catch (const std::exception&) {
    return {client_error_kind::protocol, "no memory"}; // which lies in the string itself
  }
}

void client_call::done(failure result) {
  deadline_.cancel();
  if (looking_) lane_.names.forget(looking_->number); // it was given up
  if (stream_) stream_->close();
  lane_.calls.erase(this);
  end_handle(); // after this no other thread reaches us
  const auto callbacks = std::exchange(callbacks_, {});
  if (callbacks.on_done) callbacks.on_done(std::move(result));
}

awaitable<client_call::failure> client_call::run() {
  auto parsed = parse_url(request_.url);
  if (const auto* wrong = std::get_if<url_error>(&parsed))
    co_return client_error{client_error_kind::bad_url, wrong->message};
  url_ = std::get<url>(std::move(parsed));
  reused_ = take_idle();
  while (true) {
    if (!stream_) {
      auto problem = co_await connect();
      if (problem) co_return problem;
    }
    auto problem = co_await exchange();
    // A server may close an idle connection just as it is used again. Safe to repeat only where a repeat does no harm.
    const auto again = problem && problem->kind == client_error_kind::closed && reused_ && !heard_ && !closed_ &&
                       (request_.method == "GET" || request_.method == "HEAD");
    if (!again) co_return problem;
    stream_.reset();
    in_.clear();
    reused_ = false;
  }
}

awaitable<client_call::failure> client_call::connect() {
  if (closed_) co_return failed(client_error_kind::connect, {});
  expect_within(settings_.connect_timeout);
  auto endpoints = std::vector<tcp::endpoint>();
  auto numeric = error_code();
  const auto address = asio::ip::make_address(url_.host, numeric);
  if (!numeric) {
    endpoints.emplace_back(address, url_.port);
  } else {
    auto problem = co_await resolve(endpoints);
    if (problem) co_return problem;
  }
  auto last = error_code();
  for (const auto& e : endpoints) {
    stream_ = std::make_unique<client_stream>(on_);
    const auto [ec] = co_await stream_->get().async_connect(e, as_value);
    last = ec;
    if (!ec || closed_) break;
  }
  if (last || closed_) co_return failed(client_error_kind::connect, last);
  stream_->get().set_option(tcp::no_delay(true), last);
  if (url_.encrypted) co_return co_await encrypt();
  co_return std::nullopt;
}

awaitable<client_call::failure> client_call::resolve(std::vector<tcp::endpoint>& found) {
  looking_ = std::make_shared<look_up>(on_);
  auto told = [on = on_, waits = std::weak_ptr(looking_)](runtime::async::name_resolver::answer what) {
    asio::post(on, [waits, what = std::move(what)]() mutable {
      const auto in = waits.lock();
      if (!in) return;
      in->found = std::move(what);
      in->over.cancel();
    });
  };
  looking_->number = lane_.names.find(url_.host, url_.port, std::move(told));
  co_await looking_->over.async_wait(as_value);
  const auto looked = std::exchange(looking_, {});
  if (closed_) co_return failed(client_error_kind::resolve, {});
  if (!looked->found) co_return fail(client_error_kind::resolve, looked->found.error().message);
  for (const auto& one : *looked->found) {
    auto& made = found.emplace_back();
    std::memcpy(made.data(), &one.bytes, std::min<std::size_t>(one.size, made.capacity()));
    made.resize(one.size);
  }
  co_return std::nullopt;
}

awaitable<client_call::failure> client_call::encrypt() {
  try {
    if (!lane_.tls) {
      auto made = load_tls(settings_.tls);
      if (const auto* wrong = std::get_if<std::string>(&made)) co_return fail(client_error_kind::connect, *wrong);
      lane_.tls = std::get<std::shared_ptr<ssl::context>>(std::move(made));
    }
    stream_->encrypt(lane_.tls);
  } catch (const boost::system::system_error& thrown) { // no memory, or a configuration of OpenSSL's without TLS
    co_return fail(client_error_kind::connect, std::string("TLS: ") + thrown.what());
  }
  auto& tls = *stream_->tls();
  if (!tls::expect_host(tls.native_handle(), url_.host))
    co_return fail(client_error_kind::connect, "no certificate can be for '" + url_.host + "'");
  const auto [ec] = co_await tls.async_handshake(ssl::stream_base::client, as_value);
  if (closed_) co_return failed(client_error_kind::connect, ec);
  if (ec) co_return fail(client_error_kind::connect, "TLS: " + tls::explain(ec, tls.native_handle()));
  co_return std::nullopt;
}

awaitable<client_call::failure> client_call::exchange() {
  expect_within(settings_.idle_timeout);
  const auto bytes = serialize_request(request_.method, url_.target, url_.authority(), request_.fields, request_.body);
  auto sent = error_code();
  if (auto* tls = stream_->tls())
    std::tie(sent, std::ignore) = co_await asio::async_write(*tls, asio::buffer(bytes), as_value);
  else
    std::tie(sent, std::ignore) = co_await asio::async_write(stream_->get(), asio::buffer(bytes), as_value);
  if (closed_) co_return failed(client_error_kind::closed, {});
  head_bytes_ = 0;
  // A server that refuses a body answers and closes while we still write, so a failed write is followed by reading.
  while (true) {
    auto p = parser();
    p.header_limit(settings_.header_bytes_max);
    p.body_limit(boost::none);
    p.eager(true);
    if (request_.method == "HEAD") p.skip(true);
    auto reusable = false;
    auto problem = co_await read(p, reusable);
    if (problem && sent && !heard_) co_return failed(client_error_kind::closed, sent);
    if (problem) co_return problem;
    if (interim(p)) continue;
    if (reusable && !sent) give_back();
    co_return std::nullopt;
  }
}

awaitable<client_call::failure> client_call::read(parser& p, bool& reusable) {
  auto told = false;
  while (true) {
    auto ec = error_code();
    if (in_.size() > 0) {
      const auto of_head = !p.is_header_done();
      const auto n = p.put(in_.data(), ec);
      in_.consume(n);
      // The parser's own limit forgets the lines that it has taken, and the interim answers before this one.
      if (of_head && (!p.is_header_done() || interim(p))) head_bytes_ += n;
      if (head_bytes_ > settings_.header_bytes_max) ec = beast::error::header_limit;
    }
    if (ec && ec != beast::error::need_more) co_return failed(client_error_kind::protocol, ec);
    if (in_.size() > std::size_t{settings_.header_bytes_max} + 64 * 1024)
      co_return fail(client_error_kind::protocol,
                     "a chunk's line, or the fields behind the answer's body, are too long");
    if (p.is_header_done() && !told && !interim(p)) {
      told = true;
      auto fields = headers();
      for (const auto& f : p.get().base())
        fields.add(std::string(f.name_string().data(), f.name_string().size()),
                   std::string(f.value().data(), f.value().size()));
      if (callbacks_.on_head) callbacks_.on_head(static_cast<int>(p.get().result_int()), fields);
    }
    if (auto& body = p.get().body(); !body.empty()) {
      if (callbacks_.on_data) callbacks_.on_data(body);
      body.clear();
    }
    if (p.is_done()) break;
    expect_within(settings_.idle_timeout);
    auto failed_to_read = error_code();
    auto n = std::size_t{0};
    const auto into = in_.prepare(16 * 1024);
    if (auto* tls = stream_->tls())
      std::tie(failed_to_read, n) = co_await tls->async_read_some(into, as_value);
    else
      std::tie(failed_to_read, n) = co_await stream_->get().async_read_some(into, as_value);
    in_.commit(n);
    if (n > 0) heard_ = true;
    if (closed_) co_return failed(client_error_kind::closed, {});
    if (failed_to_read == asio::error::eof && p.need_eof() && p.is_header_done()) {
      p.put_eof(ec);
      if (!ec) break;
    }
    if (failed_to_read) co_return failed(client_error_kind::closed, failed_to_read);
  }
  reusable = p.keep_alive() && !p.need_eof() && in_.size() == 0;
  co_return std::nullopt;
}

bool client_call::interim(const parser& p) { return p.get().result_int() / 100 == 1; }

bool client_call::take_idle() {
  const auto found = lane_.idle.find(url_.origin());
  if (found == lane_.idle.end()) return false;
  auto& streams = found->second;
  while (!streams.empty()) {
    auto candidate = std::move(streams.back());
    streams.pop_back();
    if (!candidate->idle()) continue;
    stream_ = std::move(candidate);
    return true;
  }
  return false;
}

void client_call::give_back() {
  if (settings_.idle_connections_max == 0) return stream_.reset();
  forget_closed();
  auto& streams = lane_.idle[url_.origin()];
  if (streams.size() >= settings_.idle_connections_max) streams.erase(streams.begin());
  streams.push_back(std::move(stream_));
}

// To look at all of them costs a system call each.
void client_call::forget_closed() {
  constexpr std::chrono::seconds every{1};
  const auto now = std::chrono::steady_clock::now();
  if (now - lane_.looked < every) return;
  lane_.looked = now;
  for (auto at = lane_.idle.begin(); at != lane_.idle.end();) {
    std::erase_if(at->second, [](const auto& stream) { return !stream->idle(); });
    at = at->second.empty() ? lane_.idle.erase(at) : std::next(at);
  }
}

} // namespace godwit::transport::http
