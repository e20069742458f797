#include <godwit/transport/http/url.hpp>

#include <algorithm>
#include <charconv>
#include <optional>

namespace godwit::transport::http {

namespace {

url_error wrong(std::string_view text, const std::string& what) {
  return {"\"" + std::string(text) + "\" is not a usable URL: " + what +
          "; expected http://HOST:PORT/PATH or https://"};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  auto port = std::uint16_t{0};
  const auto* last = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), last, port);
  if (ec != std::errc{} || end != last || port == 0) return std::nullopt;
  return port;
}

// Whatever could end the request line or a header field early.
bool unsafe(char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; }

} // namespace

std::string url::authority() const {
  const auto name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return name + ":" + std::to_string(port);
}

std::string url::origin() const { return (encrypted ? "https://" : "http://") + authority(); }

std::variant<url, url_error> parse_url(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), unsafe)) return wrong(text, "it holds a blank or a control character");
  const auto encrypted = text.starts_with("https://");
  if (!encrypted && !text.starts_with("http://")) return wrong(text, "it begins with neither http:// nor https://");
  auto rest = text.substr(text.find("//") + 2);
  const auto path = rest.find_first_of("/?#");
  auto authority = rest.substr(0, path);
  auto target = path == std::string_view::npos ? std::string_view{} : rest.substr(path);
  target = target.substr(0, target.find('#'));

  auto out = url{};
  out.encrypted = encrypted;
  if (encrypted) out.port = 443;
  if (authority.find('@') != std::string_view::npos) return wrong(text, "user names are not supported");
  auto port = std::string_view{};
  auto has_port = false;
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return wrong(text, "the ] of the address is missing");
    out.host = authority.substr(1, end - 1);
    const auto after = authority.substr(end + 1);
    if (!after.empty() && after.front() != ':') return wrong(text, "something other than a port follows the address");
    has_port = !after.empty();
    port = has_port ? after.substr(1) : after;
  } else {
    const auto colon = authority.find(':');
    out.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
  }
  if (out.host.empty()) return wrong(text, "the host is missing");
  if (has_port) {
    const auto number = parse_port(port);
    if (!number) return wrong(text, "the port is not a number from 1 to 65535");
    out.port = *number;
  }
  out.target = target.starts_with('/') ? std::string(target) : "/" + std::string(target);
  return out;
}

} // namespace godwit::transport::http
