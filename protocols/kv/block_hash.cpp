#include <godwit/protocols/kv/block_hash.hpp>

namespace godwit::protocols {

namespace {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection whose every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;

} // namespace

block_hash hash_block(block_hash parent, std::span<const token_id> tokens, std::uint64_t salt) noexcept {
  auto state = mix(parent + golden) ^ mix(salt + 2 * golden);
  for (const auto token : tokens) state = mix((state ^ static_cast<std::uint32_t>(token)) + golden);
  return state;
}

} // namespace godwit::protocols
