#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/kv_store_settings.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/protocols/kv/chunk_store.hpp>
#include <godwit/protocols/kv/read_queue.hpp>
#include <godwit/protocols/messages/kv_store.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::actors {

class arrivals;

struct kv_store_shard_options {
  std::uint64_t bytes = 0;       ///< of host memory, which it takes as it fills
  std::uint64_t block_bytes = 0; ///< of tokens_per_block tokens; above 0
  kv_store_settings settings;
  std::shared_ptr<transport::fabric> fabric; ///< not null; as in migration_environment
  std::shared_ptr<std::atomic<std::uint64_t>> transfers;
  runtime::handle<store_keeper_interface> keeper; ///< hears how it stands; may be null
  /// Recounts its books after each change. For searches of faults.
  bool recount = false;
  std::shared_ptr<void> keep; ///< as in migration_environment
  runtime::log::logger log;
};

/// Keeps KV of prefixes in the host's memory for the instances of the whole cluster: one shard of the KV store, in one
/// process (Mooncake, MemServe; docs/design/kv_store.md).
///
/// Which shard has a chunk everybody knows by its name (protocols::shard_of); what lies where in the shard's memory
/// protocols::chunk_store decides. Bytes come and go over the fabric, and never through messages: a llumlet that lacks
/// a prefix posts where it may land and asks for it, one that has computed some offers it and sends what is wanted.
/// A shard knows of no instance and of no request, and nobody depends on it: what it does not say in time, or has lost,
/// is computed.
///
/// Bounded: transfers either way at a time, and each in time; a sender that does not settle within a lease loses its
/// places. A slot is taken for another chunk only when nothing reads it and nothing can land there any more.
///
/// With a disk (`settings.disk`) it keeps there what was used longest ago, before memory is taken for others, and reads
/// it again for whoever looks for it, which may be long before it is fetched. A disk that fails or stands still costs
/// what is on it.
class kv_store_shard final : public runtime::actor<kv_store_interface> {
public:
  kv_store_shard(runtime::actor_context context, kv_store_shard_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "kv_store_shard"; }
  [[nodiscard]] runtime::behavior_of<kv_store_interface> make_behavior() override;
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;
  void on_stop() override;

private:
  using slot = protocols::chunk_store::slot;
  /// Places for chunks on their way here.
  struct incoming {
    std::vector<slot> slots; ///< in the order of the posting
    std::shared_ptr<arrivals> landed;
    std::uint32_t regions_per_chunk = 0;
    std::optional<std::uint32_t> sent; ///< chunks, as the sender said; it has settled
    std::chrono::nanoseconds until{0}; ///< of its lease
    bool closing = false;
  };
  /// Chunks on their way from here, for one fetch.
  struct outgoing {
    std::size_t open = 0;
    protocols::store_fetched answer;
    std::unique_ptr<runtime::completer<bool>> complete;
  };

  [[nodiscard]] protocols::store_found look(const protocols::store_look& what);
  runtime::async::task<protocols::store_fetched> fetch(protocols::store_fetch order);
  /// One chunk of a fetch, from where it is pinned in memory, or by way of memory.
  runtime::async::task<void> serve(std::shared_ptr<outgoing> round, std::size_t index, std::optional<slot> from,
                                   std::shared_ptr<const protocols::store_fetch> order, std::uint64_t since);
  runtime::async::task<bool> send(std::size_t index, slot from, std::shared_ptr<const protocols::store_fetch> order,
                                  std::chrono::nanoseconds timeout);
  [[nodiscard]] protocols::store_room make_room(const protocols::store_offer& offer);
  void settle(const protocols::store_settled& news);
  runtime::async::task<void> guard_leases();
  /// Files what has come, once nothing can land any more.
  runtime::async::task<void> close(std::uint64_t transfer);
  runtime::async::task<void> report();

  // kv_store_disk.cpp
  void open_disk();
  /// There is one, and it does not keep anybody waiting.
  [[nodiscard]] bool disk_works() const;
  /// Who waits for a chunk that is to be read from the disk.
  struct reader {
    explicit reader(runtime::completer<bool> when_read) : done(std::move(when_read)) {}
    runtime::completer<bool> done;
    std::optional<slot> pinned; ///< for it, before it is told
  };
  /// The chunk, which is on the disk, pinned in memory; or nothing by then.
  runtime::async::task<std::optional<slot>> from_disk(protocols::chunk_name name, std::uint64_t since,
                                                      std::chrono::nanoseconds until);
  /// What the disk does next, as far as it may.
  void use_disk();
  void read_more();
  runtime::async::task<void> read(protocols::read_queue::order what);
  /// Copies to the disk what would be lost next.
  void write_more();
  runtime::async::task<void> write(slot from, slot to);
  void note_failure(const std::string& what, const std::string& error);

  /// Whether an instance's chunks are ours, cut so.
  [[nodiscard]] bool fits(const protocols::chunk_shape& shape) const noexcept;
  /// Where the pieces of a slot lie.
  void append_regions(slot which, std::uint32_t regions, std::vector<protocols::memory_region>& out) const;
  void recount() const;

  kv_store_shard_options options_;
  std::uint64_t chunk_bytes_;
  std::shared_ptr<std::byte[]> memory_; ///< null: there was none
  protocols::chunk_store chunks_;
  std::map<std::uint64_t, incoming> incoming_; ///< by transfer
  bool guarding_ = false;                      ///< their leases
  std::uint32_t fetches_ = 0;                  ///< that run
  protocols::chunk_store on_disk_{0};
  protocols::read_queue reads_{0, 0};
  std::unordered_map<protocols::chunk_name, std::vector<std::shared_ptr<reader>>> readers_; ///< until it is read
  std::multiset<std::chrono::nanoseconds> disk_since_; ///< when what the disk does now began
  std::uint32_t reading_ = 0, writing_ = 0;            ///< that it does now
  std::chrono::nanoseconds no_writes_until_{0}, retry_at_{0};
  std::optional<slot> on_trial_; ///< a place of the disk that could not be written, and is in use again
  protocols::store_report figures_;
};

} // namespace godwit::actors
