#include "http/wire.hpp"

#include <boost/beast/http/status.hpp>

#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <initializer_list>

namespace godwit::transport::http {

namespace {

// RFC 9110, 5.6.7. strftime is not used: its names of days depend on the locale.
std::string http_date(std::time_t now) {
  static constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  auto t = std::tm{};
  gmtime_r(&now, &t);
  auto text = std::array<char, 64>{};
  const auto n = std::snprintf(
      text.data(), text.size(), "%s, %02d %s %d %02d:%02d:%02d GMT", days[static_cast<std::size_t>(t.tm_wday)],
      t.tm_mday, months[static_cast<std::size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
  return {text.data(), static_cast<std::size_t>(n)};
}

// A value may hold what a client sent (a model's name); a line break in it would begin a field of the client's choice.
void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) out.push_back((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f' ? ' ' : c);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out.append(": ");
  append_clean(out, value);
  out.append("\r\n");
}

void append_fields(std::string& out, const headers& fields, std::initializer_list<std::string_view> ours) {
  for (const auto& f : fields) {
    auto skip = false;
    for (const auto name : ours) skip = skip || equal_without_case(f.name, name);
    if (!skip) append_field(out, f.name, f.value);
  }
}

std::string begin_head(int status, const headers& fields, const answer_form& form, bool keep_alive) {
  namespace beast = boost::beast::http;
  const auto reason = beast::obsolete_reason(beast::int_to_status(static_cast<unsigned>(status)));
  auto out = std::string();
  out.reserve(256);
  // Always 1.1: the version is the server's own, not the one of this exchange (RFC 9110, 2.5).
  out.append("HTTP/1.1 ").append(std::to_string(status)).push_back(' ');
  out.append(reason.data(), reason.size()).append("\r\n");
  append_field(out, "Date", http_date(std::time(nullptr)));
  append_fields(out, fields, {"Date", "Connection", "Content-Length", "Transfer-Encoding"});
  if (!keep_alive)
    append_field(out, "Connection", "close");
  else if (form.version < 11)
    append_field(out, "Connection", "keep-alive");
  return out;
}

} // namespace

bool bodiless(int status) noexcept { return status / 100 == 1 || status == 204 || status == 304; }

std::string serialize(const response& answer, const answer_form& form, bool keep_alive) {
  auto out = begin_head(answer.status, answer.fields, form, keep_alive);
  if (!bodiless(answer.status)) {
    if (!answer.content_type.empty() && !answer.fields.contains("Content-Type"))
      append_field(out, "Content-Type", answer.content_type);
    append_field(out, "Content-Length", std::to_string(answer.body.size()));
  }
  out.append("\r\n");
  if (!form.head && !bodiless(answer.status)) out.append(answer.body);
  return out;
}

std::string serialize_stream_head(int status, const headers& fields, const answer_form& form, bool keep_alive) {
  auto out = begin_head(status, fields, form, keep_alive);
  if (form.version >= 11 && !bodiless(status)) append_field(out, "Transfer-Encoding", "chunked");
  return out.append("\r\n");
}

void append_chunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return; // a chunk of length 0 would end the body
  auto digits = std::array<char, 16>{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16).ptr;
  out.append(digits.data(), end).append("\r\n").append(bytes).append("\r\n");
}

std::string serialize_request(std::string_view method, std::string_view target, std::string_view host,
                              const headers& fields, std::string_view body) {
  auto out = std::string();
  out.reserve(256 + body.size());
  append_clean(out, method);
  out.push_back(' ');
  append_clean(out, target);
  out.append(" HTTP/1.1\r\n");
  append_field(out, "Host", host);
  append_fields(out, fields, {"Host", "Connection", "Content-Length", "Transfer-Encoding"});
  if (!body.empty() || method == "POST" || method == "PUT" || method == "PATCH")
    append_field(out, "Content-Length", std::to_string(body.size()));
  return out.append("\r\n").append(body);
}

} // namespace godwit::transport::http
