#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace godwit::transport::http {

/// http://host[:port][/path][?query], or https://
struct url {
  std::string host;        ///< without the brackets of an IPv6 address
  std::uint16_t port = 80; ///< of https 443, where none is said
  std::string target;      ///< path and query, never empty: "/v1/models?x=1"
  bool encrypted = false;  ///< https

  /// "host:port", as the Host field wants it.
  [[nodiscard]] std::string authority() const;
  /// The same with the scheme: where a connection leads.
  [[nodiscard]] std::string origin() const;
  friend bool operator==(const url&, const url&) = default;
};

struct url_error {
  std::string message; ///< one line that names the text and what is wrong with it
};

[[nodiscard]] std::variant<url, url_error> parse_url(std::string_view text);

} // namespace godwit::transport::http
