#pragma once

#include <godwit/protocols/kv/chunk_name.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What llumlets and the shards of a KV store say to each other (docs/design/kv_store.md).
namespace godwit::protocols {

/// How an instance cuts its KV: a chunk is `regions` pieces of equal size, whose bytes, one after the other, are the
/// same on every instance of one KV layout.
struct chunk_shape {
  std::uint64_t bytes = 0;
  std::uint32_t regions = 0;
  chunk_shape() noexcept = default;
  chunk_shape(std::uint64_t size, std::uint32_t pieces) noexcept : bytes(size), regions(pieces) {}
  auto fields() { return std::tie(bytes, regions); }
};

/// Which of these chunks has the shard?
struct store_look {
  std::vector<chunk_name> names;
  store_look() = default;
  explicit store_look(std::vector<chunk_name> which) : names(std::move(which)) {}
  auto fields() { return std::tie(names); }
};
struct store_found {
  std::vector<std::uint8_t> filed; ///< for each name: 1, or 0; empty: they were too many
  store_found() = default;
  auto fields() { return std::tie(filed); }
};

/// Send chunks into a posting of the caller's. Answered when all of that has ended.
struct store_fetch {
  struct place {
    chunk_name name;
    std::uint32_t first_region = 0; ///< of the posting
    place() noexcept = default;
    place(const chunk_name& which, std::uint32_t first) noexcept : name(which), first_region(first) {}
    auto fields() { return std::tie(name, first_region); }
  };
  std::string fabric; ///< the caller's address
  std::uint64_t transfer = 0;
  chunk_shape shape;
  std::vector<place> chunks;
  store_fetch() = default;
  auto fields() { return std::tie(fabric, transfer, shape, chunks); }
};
struct store_fetched {
  std::vector<std::uint8_t> landed; ///< for each chunk: 1, or 0
  store_fetched() = default;
  auto fields() { return std::tie(landed); }
};

/// The caller has these chunks, and would send them.
struct store_offer {
  chunk_shape shape;
  std::vector<chunk_name> names; ///< of one prefix, in order
  store_offer() = default;
  auto fields() { return std::tie(shape, names); }
};
/// Those that the shard wants: by index of the offer, in the order of their places in the posting `transfer`. To be
/// followed by `store_settled`, within the shard's lease. None wanted: there is nothing to settle.
struct store_room {
  std::string fabric; ///< the shard's address
  std::uint64_t transfer = 0;
  std::vector<std::uint32_t> wanted;
  store_room() = default;
  auto fields() { return std::tie(fabric, transfer, wanted); }
};
/// The first so many of the wanted chunks were sent, whole and while they were what they were offered as; no more will
/// be.
struct store_settled {
  std::uint64_t transfer = 0;
  std::uint32_t chunks = 0;
  store_settled() noexcept = default;
  store_settled(std::uint64_t key, std::uint32_t sent) noexcept : transfer(key), chunks(sent) {}
  auto fields() { return std::tie(transfer, chunks); }
};

/// A shard, as its process tells the head. Gauges unless named `total`, which count since the shard's start.
struct store_report {
  std::uint64_t bytes = 0; ///< that it may take
  std::uint64_t bytes_used = 0;
  std::uint64_t looked_up_total = 0; ///< chunks
  std::uint64_t found_total = 0;     ///< of these
  std::uint64_t loaded_total = 0;    ///< chunks that instances got
  std::uint64_t filed_total = 0;     ///< chunks that instances brought
  std::uint64_t evicted_total = 0;   ///< for others
  std::uint64_t failed_total = 0;    ///< transfers, either way
  std::uint64_t disk_bytes = 0;      ///< 0: there is no disk
  std::uint64_t disk_bytes_used = 0;
  std::uint64_t disk_written_total = 0; ///< chunks
  std::uint64_t disk_read_total = 0;    ///< chunks that were in memory again
  std::uint64_t disk_evicted_total = 0; ///< chunks, for others
  std::uint64_t disk_failed_total = 0;  ///< reads and writes
  store_report() noexcept = default;
  friend bool operator==(const store_report&, const store_report&) noexcept = default;
  auto fields() {
    return std::tie(bytes, bytes_used, looked_up_total, found_total, loaded_total, filed_total, evicted_total,
                    failed_total, disk_bytes, disk_bytes_used, disk_written_total, disk_read_total, disk_evicted_total,
                    disk_failed_total);
  }
};

} // namespace godwit::protocols
