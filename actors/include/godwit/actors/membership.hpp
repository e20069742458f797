#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/role.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/runtime/handle.hpp>
#include <godwit/runtime/interface.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// How processes make one cluster.
///
/// A **member** supervises the instances of one process and joins the **head**, the node actor of the process that
/// schedules. The head's own instances belong to a member too, which joins it like any other. A member may bring a
/// front end, with instances or without: its process then takes clients' requests too.
namespace godwit::actors {

struct llumlet_interface;
struct kv_store_interface;
struct member_interface;
struct frontend_interface;

/// Two instances may serve the same requests only where all of this is equal: then their tokens are.
struct model_identity {
  std::string fingerprint;          ///< of configuration and weights (gpu::model); behind a + that of the draft model
  std::string kv_type;              ///< precision of the KV cache: "bf16", "f32", "fp8"
  std::uint64_t kv_block_bytes = 0; ///< one block of tokens_per_block tokens, K and V, all layers
  std::uint32_t context_length = 0; ///< longest prompt plus answer, in tokens

  model_identity() = default;
  model_identity(std::string model_hash, std::string kv_precision, std::uint64_t block_bytes, std::uint32_t context)
      : fingerprint(std::move(model_hash)), kv_type(std::move(kv_precision)), kv_block_bytes(block_bytes),
        context_length(context) {}
  friend bool operator==(const model_identity&, const model_identity&) = default;
  auto fields() { return std::tie(fingerprint, kv_type, kv_block_bytes, context_length); }
};

/// A member asks the head to take it in.
struct join_cluster {
  std::string version;         ///< of godwit: messages of different versions cannot be read
  std::uint64_t key = 0;       ///< of the member's process, drawn at its start; tells a return from a newcomer
  std::string address;         ///< of its process, for status and logs
  std::uint32_t instances = 0; ///< that it can bring; some may be stopped
  std::uint16_t home = 0;      ///< of the front end that it brings, by its own choice; 0: it brings none
  std::vector<std::string> execution_levels; ///< that its front end knows: requests name them by number
  model_identity model;
  runtime::handle<member_interface> member;

  join_cluster() = default;
  join_cluster(std::string program_version, std::uint64_t process_key, std::string where, std::uint32_t count,
               model_identity serves, runtime::handle<member_interface> who)
      : version(std::move(program_version)), key(process_key), address(std::move(where)), instances(count),
        model(std::move(serves)), member(std::move(who)) {}
  auto fields() { return std::tie(version, key, address, instances, home, execution_levels, model, member); }
};

/// The head's answer. The member's instances get the ids `first`, `first` + 1, ...: the same as before for one that
/// comes back, fresh ones for a newcomer. Their generations must be above `generation_floor`, so nothing of an earlier
/// membership is ever taken for something of this one.
struct join_answer {
  std::string refusal; ///< why not, in one line; empty: joined
  protocols::instance_id first;
  std::uint64_t generation_floor = 0;
  /// Of its front end: what it has chosen, unless somebody else has that already; 0: it brings none.
  std::uint16_t home = 0;
  std::int64_t clock_ns = 0; ///< what the head's clock shows

  join_answer() = default;
  explicit join_answer(std::string why_not) : refusal(std::move(why_not)) {}
  join_answer(protocols::instance_id first_instance, std::uint64_t floor)
      : first(first_instance), generation_floor(floor) {}
  [[nodiscard]] bool joined() const noexcept { return refusal.empty(); }
  auto fields() { return std::tie(refusal, first, generation_floor, home, clock_ns); }
};

/// One instance and its llumlet as their member sees them.
struct pair_entry {
  std::uint64_t generation = 0;
  bool ready = false;    ///< takes requests, unless it drains
  bool draining = false; ///< its requests leave, then it stops
  bool stopped = false;  ///< by order: not there, and not to be restarted
  protocols::instance_role role = protocols::instance_role::mixed;
  std::uint64_t order = 0;                    ///< of the head about it, the last that this is after; 0: none
  runtime::handle<llumlet_interface> llumlet; ///< null while the pair is down
  std::string error;                          ///< why its last start failed; empty: none did since it was last ready

  pair_entry() = default;
  pair_entry(std::uint64_t raised, bool takes_requests, runtime::handle<llumlet_interface> owner)
      : generation(raised), ready(takes_requests), llumlet(std::move(owner)) {}
  auto fields() { return std::tie(generation, ready, draining, stopped, role, order, llumlet, error); }
};

/// A member tells the head of all its pairs, in the order of their ids, whenever one changes. Never partial, so a lost
/// one does no harm.
struct member_news {
  std::uint64_t key = 0;
  std::uint64_t number = 0; ///< counts up; an older one is dropped
  std::vector<pair_entry> pairs;
  runtime::handle<kv_store_interface> store;    ///< its shard of the KV store; null: it has none
  runtime::handle<frontend_interface> frontend; ///< null: it brings none, or not now

  member_news() = default;
  member_news(std::uint64_t process_key, std::uint64_t count, std::vector<pair_entry> all)
      : key(process_key), number(count), pairs(std::move(all)) {}
  auto fields() { return std::tie(key, number, pairs, store, frontend); }
};

/// A member goes, by its own decision. Answered when the head counts on its instances no more.
struct leave_cluster {
  std::uint64_t key = 0;
  leave_cluster() = default;
  explicit leave_cluster(std::uint64_t process_key) : key(process_key) {}
  auto fields() { return std::tie(key); }
};

/// For the member's own process: leave the head and stop the instances.
struct retire {
  retire() noexcept {}
  auto fields() { return std::tie(); }
};

/// An instance has loaded its model and takes requests.
struct instance_ready {
  protocols::instance_id instance;
  std::uint64_t generation = 0;
  instance_ready() = default;
  instance_ready(protocols::instance_id id, std::uint64_t raised) : instance(id), generation(raised) {}
  auto fields() { return std::tie(instance, generation); }
};

/// An instance cannot start, and ends: it is tried again.
struct instance_failed {
  protocols::instance_id instance;
  std::uint64_t generation = 0;
  std::string why; ///< one line
  instance_failed() = default;
  instance_failed(protocols::instance_id id, std::uint64_t raised, std::string reason)
      : instance(id), generation(raised), why(std::move(reason)) {}
  auto fields() { return std::tie(instance, generation, why); }
};

/// An instance that was told to drain has no request left, and takes none.
struct instance_drained {
  protocols::instance_id instance;
  std::uint64_t generation = 0;
  std::uint64_t order = 0; ///< the drain_order's; it may have taken requests between that one and the next
  instance_drained() = default;
  instance_drained(protocols::instance_id id, std::uint64_t raised, std::uint64_t number)
      : instance(id), generation(raised), order(number) {}
  auto fields() { return std::tie(instance, generation, order); }
};

/// Whoever keeps a pair and wants to hear how it goes.
struct pair_keeper_interface : runtime::interface<void(instance_ready), void(instance_failed), void(instance_drained)> {
};

} // namespace godwit::actors
