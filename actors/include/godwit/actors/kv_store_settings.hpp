#pragma once

#include <godwit/transport/disk.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace godwit::actors {

/// The KV store, as an instance uses it and as a process keeps its shard of it.
struct kv_store_settings {
  /// Of the host's memory, for the shard of this process. 0: it has none, and its instances use those of others.
  std::uint64_t bytes = 0;
  /// Below that memory, with slots of one chunk each; null: none. It ends as the fabric does: after the actors, and
  /// before the host.
  std::shared_ptr<transport::disk> disk;
  /// Tokens that a request has to gain over what its instance has, or it computes them.
  std::uint32_t load_min = 64;
  /// A request waits so long at most for what the shards have of its prompt. A shard that is silent for so long is left
  /// in peace for `silence`.
  std::chrono::nanoseconds lookup_timeout{std::chrono::milliseconds(100)};
  std::chrono::nanoseconds silence{std::chrono::seconds(1)};
  /// ... and then, with its blocks, for that to be there.
  std::chrono::nanoseconds load_timeout{std::chrono::seconds(2)};
  /// From an instance's offer to its last chunk's arrival.
  std::chrono::nanoseconds put_timeout{std::chrono::seconds(30)};
  std::chrono::nanoseconds report_interval{std::chrono::seconds(1)};
  std::uint32_t puts_max = 2;         ///< of an instance at a time
  std::uint32_t puts_queued_max = 64; ///< of an instance; of more the oldest is dropped
  std::uint32_t offers_max = 256;     ///< of a shard, open at a time
  /// Of all these together, each an entry of the fabric's books. What an offer has beyond them is not wanted.
  std::uint64_t offered_regions_max = std::uint64_t{1} << 24U;
  std::uint32_t fetches_max = 256;  ///< of a shard, at a time
  std::uint32_t disk_reads_max = 8; ///< of a shard's disk, at a time; more wait for these
  std::uint32_t disk_writes_max = 2;
  /// A disk of which one call takes longer is taken for one that is not there, until it has ended.
  std::chrono::nanoseconds disk_patience{std::chrono::seconds(2)};
  /// After a write that failed there is none for so long, and its place is not tried again for as long as this.
  std::chrono::nanoseconds disk_pause{std::chrono::seconds(1)};
  std::chrono::nanoseconds disk_retry{std::chrono::seconds(60)};
  /// A shard waits so long for a sender's last word, who may have waited for other shards' answers first.
  [[nodiscard]] std::chrono::nanoseconds lease() const noexcept { return put_timeout + 2 * load_timeout; }

  /// Of one shard, and of one message.
  static constexpr std::uint64_t chunks_max = std::uint64_t{1} << 28U;
  static constexpr std::size_t names_max = 65'536;
  /// In one cluster: as many as its topology has room to name.
  static constexpr std::size_t shards_max = 256;
};

} // namespace godwit::actors
