#pragma once

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/kv/prefix_marks.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <vector>

namespace godwit::protocols {

/// What a KV store keeps and moves at a time: so many tokens of one prefix. Larger ones than blocks, so that a lookup
/// names few of them and a network's messages are long; as far apart as the marks by which instances are chosen.
inline constexpr std::uint32_t tokens_per_chunk = tokens_per_mark;
inline constexpr std::uint32_t blocks_per_chunk = tokens_per_chunk / tokens_per_block;

/// Names the KV of one chunk and of everything before it, everywhere in a cluster.
///
/// Problem: a store has the chunk, not what came before it, so it cannot compare all tokens as block_ledger does; a
/// collision would give one request another's KV. So names are 128 bits of a keyed hash (SipHash-2-4) over the name
/// before and the chunk's tokens. The key is the tenant's salt, which nobody outside knows (cache_salt.hpp), and the
/// KV's layout: nobody can look for collisions beforehand, and among n chunks one comes by chance with a probability of
/// n^2 / 2^129.
struct chunk_name {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  chunk_name() noexcept = default;
  chunk_name(std::uint64_t l, std::uint64_t h) noexcept : low(l), high(h) {}
  friend auto operator<=>(const chunk_name&, const chunk_name&) noexcept = default;
  auto fields() { return std::tie(low, high); }
};

/// Of the whole chunks of `tokens`, in order. `layout`: a hash of everything but tokens that KV depends on: model,
/// precision, order of bytes.
[[nodiscard]] std::vector<chunk_name> chunk_names(std::span<const token_id> tokens, std::uint64_t salt,
                                                  std::uint64_t layout);

/// Which of these shards keeps the chunk: an index into `shards` (their ids, none twice; not empty). By rendezvous
/// hashing (Thaler and Ravishankar 1996): everybody who knows the same shards finds the same one, chunks spread evenly,
/// and a shard that comes or goes changes the place of its own share alone. O(shards).
[[nodiscard]] std::size_t shard_of(const chunk_name& name, std::span<const std::uint64_t> shards);

} // namespace godwit::protocols

template <> struct std::hash<godwit::protocols::chunk_name> {
  std::size_t operator()(const godwit::protocols::chunk_name& name) const noexcept {
    return static_cast<std::size_t>(name.low);
  }
};
