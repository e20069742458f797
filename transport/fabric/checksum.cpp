#include "fabric/checksum.hpp"

#include <cstring>

namespace godwit::transport {

std::uint64_t checksum(const std::byte* data, std::size_t bytes, std::uint64_t seed) noexcept {
  constexpr std::uint64_t prime = 0x9E3779B97F4A7C15ULL;
  std::uint64_t lanes[4] = {seed ^ prime, seed + prime, ~seed, seed * prime + bytes};
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32)
    for (std::size_t lane = 0; lane < 4; ++lane) {
      std::uint64_t word;
      std::memcpy(&word, data + i + lane * 8, 8);
      lanes[lane] = (lanes[lane] ^ word) * prime;
      lanes[lane] ^= lanes[lane] >> 29U;
    }
  std::uint64_t sum = bytes;
  for (const auto lane : lanes) sum = (sum ^ lane) * prime, sum ^= sum >> 31U;
  for (; i < bytes; ++i) sum = (sum ^ static_cast<std::uint64_t>(data[i])) * prime, sum ^= sum >> 31U;
  return sum;
}

} // namespace godwit::transport
