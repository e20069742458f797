#include "ucx/address.hpp"

#include <charconv>
#include <string_view>

namespace godwit::transport::ucx {

namespace {
constexpr std::string_view prefix = "godwit-fabric/1/ucx/";
}

std::string to_string(const address& a) {
  return std::string(prefix) + a.host + ":" + std::to_string(a.port) + "/" + a.identity;
}

std::optional<address> parse_address(const std::string& text) {
  if (text.size() > 4096 || !text.starts_with(prefix)) return std::nullopt;
  const auto rest = std::string_view(text).substr(prefix.size());
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto colon = rest.substr(0, slash).rfind(':'); // an IPv6 address has more
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  address out;
  out.host = rest.substr(0, colon);
  const auto digits = rest.substr(colon + 1, slash - colon - 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
  if (error != std::errc{} || end != digits.data() + digits.size() || out.port == 0) return std::nullopt;
  out.identity = rest.substr(slash + 1);
  if (out.identity.empty() || out.identity.size() > 64) return std::nullopt;
  return out;
}

} // namespace godwit::transport::ucx
