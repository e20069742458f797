#include "fabric/identity.hpp"

#include <cstdint>
#include <cstdio>
#include <random>

namespace godwit::transport {

std::string random_identity() {
  std::random_device device;
  const auto bits = std::uint64_t{device()} << 32U | device();
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

} // namespace godwit::transport
