#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace godwit::transport::ucx {

/// "godwit-fabric/1/ucx/HOST:PORT/IDENTITY"
struct address {
  std::string host;
  std::uint16_t port = 0;
  std::string identity;
};
[[nodiscard]] std::string to_string(const address& a);
[[nodiscard]] std::optional<address> parse_address(const std::string& text);

} // namespace godwit::transport::ucx
