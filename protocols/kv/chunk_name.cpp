#include <godwit/protocols/kv/chunk_name.hpp>

#include "kv/sip_hash.hpp"

#include <godwit/protocols/ensure.hpp>

namespace godwit::protocols {

namespace {

chunk_name name_behind(const chunk_name& before, std::span<const token_id> tokens, std::uint64_t salt,
                       std::uint64_t layout) {
  sip_hash hash(salt, layout, sip_hash::width::bits128);
  hash.take(before.low);
  hash.take(before.high);
  for (std::size_t i = 0; i < tokens.size(); i += 2)
    hash.take(static_cast<std::uint32_t>(tokens[i]) | std::uint64_t{static_cast<std::uint32_t>(tokens[i + 1])} << 32U);
  constexpr std::uint64_t bytes = 2 * sizeof(std::uint64_t) + tokens_per_chunk * sizeof(token_id);
  hash.take((bytes & 0xffU) << 56U);
  chunk_name out;
  out.low = hash.first();
  out.high = hash.second();
  return out;
}

// splitmix64's finaliser.
std::uint64_t mixed(std::uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

} // namespace

std::vector<chunk_name> chunk_names(std::span<const token_id> tokens, std::uint64_t salt, std::uint64_t layout) {
  std::vector<chunk_name> out;
  out.reserve(tokens.size() / tokens_per_chunk);
  chunk_name name;
  for (std::size_t at = 0; at + tokens_per_chunk <= tokens.size(); at += tokens_per_chunk)
    out.push_back(name = name_behind(name, tokens.subspan(at, tokens_per_chunk), salt, layout));
  return out;
}

std::size_t shard_of(const chunk_name& name, std::span<const std::uint64_t> shards) {
  ensure(!shards.empty(), "shard_of: there is a shard");
  std::size_t best = 0;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto weight = mixed(name.high ^ mixed(shards[i]));
    if (i > 0 && weight <= most) continue;
    best = i;
    most = weight;
  }
  return best;
}

} // namespace godwit::protocols
