#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/kv_store_settings.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/swap_space.hpp>
#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>
#include <godwit/protocols/kv/sequence_blocks.hpp>
#include <godwit/protocols/policy/own_policies.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::actors {

class kv_memory;

/// Finds the blocks that `auto` headroom means, by running made-up decode steps before the instance takes requests
/// (protocols::headroom_profile).
struct headroom_profile_options {
  bool enabled = false;    ///< false: `auto` means none
  double tolerance = 0.05; ///< a step may take this much longer than unloaded
  /// No step begins after it; what was found by then counts.
  std::chrono::nanoseconds time_max{std::chrono::seconds(2)};
};

/// A request that lost its blocks to others.
struct preemption {
  protocols::request_id request;
  std::uint32_t answer_tokens = 0; ///< that it has; the last of them may still be on their way to its home
  bool swapped = false;            ///< its KV goes to the host's memory
  /// For whoever wants to know no more.
  operator protocols::request_id() const noexcept { return request; }
};

/// With a `node` or a `member` above it, that fills in the first six and `load_timeout`.
struct llumlet_options {
  protocols::instance_id id;
  std::uint64_t generation = 1;
  std::uint32_t restarts = 0;
  std::string node_address;
  runtime::handle<instance_interface> instance;
  runtime::handle<pair_keeper_interface> node; ///< told when the instance is ready, or why not; may be null
  /// blocks, swap_slots, context_length, vocabulary and eos are filled in from what the instance says; a context_length
  /// given here is an upper bound, and eos given here are taken instead.
  protocols::planner_settings planner;
  std::chrono::nanoseconds load_timeout{std::chrono::minutes(30)};
  /// A step that takes longer, or a copy of a portion of KV to the host, means that the instance hangs.
  std::chrono::nanoseconds step_timeout{std::chrono::minutes(2)};
  /// Reports go out this often when nothing happens ...
  std::chrono::nanoseconds report_interval{std::chrono::milliseconds(100)};
  /// ... and no more often than this when much happens.
  std::chrono::nanoseconds report_gap{std::chrono::milliseconds(5)};
  /// Sees every report, on the llumlet's context; for metrics. Must only store. May be empty.
  std::function<void(const protocols::load_report&)> on_report;
  /// The same for each request that is preempted, as it loses its blocks.
  std::function<void(const preemption&)> on_preempted;
  migration_environment migration;
  protocols::instance_role role = protocols::instance_role::mixed; ///< for whoever dispatches and pairs
  protocols::selection_settings selection;                         ///< of the requests that a mark moves
  /// In the place of a part of that selection. One that throws moves nothing, and the log says why. Empty: the built-in
  /// rule.
  protocols::move_policy move;
  /// Hears of each failure of it that the log tells, on the llumlet's context. Must only store. Empty: the log alone,
  /// or the system's report function where the log does not have it.
  std::function<void(std::string_view)> on_failure;
  headroom_profile_options profile;
  kv_store_settings store; ///< with a fabric, as migrations
  /// KV that is swapped out frees its blocks in portions of this size.
  std::uint64_t swap_portion_bytes = std::uint64_t{16} << 20U;
  /// How long a request waits for its adapter before its home hears that this instance is not ready for it, and tries
  /// again. Less than a home waits for an admission.
  std::chrono::nanoseconds adapter_wait{std::chrono::seconds(2)};
  /// Recounts the planner's books after each step and for each status; what does not add up ends the llumlet. For
  /// searches of faults: it costs as much as there are blocks.
  bool recount = false;
  runtime::log::logger log;
};

/// Owns the requests of one instance: queue, batch, blocks. Drives the instance step by step and sends the tokens to
/// the requests' homes.
///
/// Requests leave and come by live migration (docs/design/migration.md): a coordinator of its own runs each one, this
/// actor holds the requests and the blocks, so that a coordinator's death loses neither.
///
/// What to run is protocols::planner's decision. This actor ends when its instance fails, which its node takes for the
/// end of both; the homes then dispatch its requests elsewhere.
class llumlet final : public runtime::actor<llumlet_interface> {
public:
  llumlet(runtime::actor_context context, llumlet_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "llumlet"; }
  [[nodiscard]] runtime::behavior_of<llumlet_interface> make_behavior() override;
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;
  void on_stop() override;

private:
  using home = runtime::handle<home_interface>;
  struct home_books {
    std::uint32_t requests = 0;
    std::uint64_t monitor = 0;
  };

  /// What a request has of its adapter while it is here; nothing where it has none.
  struct held_adapter {
    protocols::adapter_ref which;
    std::shared_ptr<const void> held;
  };
  struct adapter_answer {
    protocols::refusal reason = protocols::refusal::none;
    held_adapter adapter;
    std::string why;
  };
  /// Of the time that a request is here.
  struct stay {
    std::optional<std::chrono::nanoseconds> moved; ///< when it came by migration, or a move of it failed
    bool move_failed = false;
    std::chrono::nanoseconds since{0};  ///< when it came
    std::chrono::nanoseconds queued{0}; ///< before that, in other queues; and, once it is in the batch, in this one
  };
  /// Brings an adapter here; `not_ready` where that takes longer.
  runtime::async::task<adapter_answer> hold(protocols::adapter_ref which, std::chrono::nanoseconds timeout);
  void warn_of_adapter(const protocols::adapter_ref& which, const std::string& why);

  runtime::async::task<void> bring_up();
  /// It will not come up; its keeper hears why.
  void give_up(const std::string& why);
  /// The blocks that `auto` headroom means here; empty when a step fails.
  runtime::async::task<std::optional<std::uint32_t>> profile_headroom(protocols::planner_settings settings);
  runtime::async::task<void> run_steps();
  runtime::async::task<void> heartbeat();
  runtime::async::task<protocols::admission> take_in(generate_order order);
  [[nodiscard]] protocols::admission admit(generate_order order, std::uint32_t stored, held_adapter adapter);
  void cancel(const protocols::cancel_request& order);
  void home_down(const home& whom);
  /// Requests of which nobody wants the tokens any more.
  template <class Which> void drop_those(const Which& which);
  /// Those of other processes that the head names now.
  void know_homes(const std::vector<frontend_entry>& named);
  void settle(protocols::step_effects effects);
  /// It comes now. Gives the stay of an earlier epoch of it, for the case that the planner wants that one.
  stay note_home(protocols::request_id id, const home& whom, held_adapter adapter);
  void forget_home(protocols::request_id id);
  void refuse_home(protocols::request_id id, const stay& before);
  /// One request less for this home.
  void leave(const home& whom);
  void wake();
  /// As many as may be in flight, and as there is something to compute for.
  void begin_steps();
  void recount() const;
  void report_soon();
  void report_now();
  [[nodiscard]] protocols::load_report load();
  [[nodiscard]] protocols::instance_status status(bool with_requests);

  // What the KV store has and gets, llumlet_store.cpp:
  /// One shard, and until when nobody asks it.
  struct store_shard {
    store_entry entry;
    std::chrono::nanoseconds silent_until{0};
  };
  /// A request that waits for what the store has of it, or for its adapter, before it is admitted.
  struct looking {
    protocols::request_id request;
    protocols::epoch epoch;
    std::uint64_t dispatch = 0; ///< its number; 0: none
    bool cancelled = false;
  };
  /// KV on its way here: what it lands in, with a reference each.
  struct loading {
    std::uint64_t transfer = 0; ///< 0: it comes from the swap space
    std::vector<protocols::block_id> blocks;
  };
  /// KV on its way to the store, out of blocks to which this holds references.
  struct putting {
    protocols::sequence_blocks blocks;
    bool let_go = false; ///< they are needed here, and may be written again
  };
  /// Chunks whose place is at one shard: by index, in order.
  struct shard_share {
    store_entry entry;
    std::vector<std::uint32_t> chunks;
  };
  /// What shards were asked at the same time, and said.
  struct store_round;
  /// One shard's part of a put.
  struct put_part;
  void know_stores(const std::vector<store_entry>& stores);
  /// Once the instance and the shards are known.
  void review_store();
  [[nodiscard]] bool uses_store() const { return planner_ && planner_->settings().store; }
  [[nodiscard]] protocols::chunk_shape shape_of_chunks() const;
  [[nodiscard]] std::vector<protocols::chunk_name> names_of(std::span<const protocols::token_id> tokens,
                                                            std::uint64_t salt) const;
  /// Of [first, names.size()), without those of silent shards.
  [[nodiscard]] std::vector<shard_share> shares_of(std::span<const protocols::chunk_name> names,
                                                   std::uint32_t first) const;
  void note_silence(const store_entry& whom);
  runtime::async::task<void> all_of(std::shared_ptr<store_round> round);
  /// How many leading chunks the store has.
  runtime::async::task<std::uint32_t> look_up(std::vector<protocols::chunk_name> names);
  runtime::async::task<void> look_at(shard_share share, std::shared_ptr<store_round> round);
  runtime::async::task<void> load_kv(protocols::load_order order);
  runtime::async::task<void> fetch_from(shard_share share, std::uint32_t first, std::uint64_t transfer,
                                        std::shared_ptr<store_round> round);
  void put_later(protocols::computed_kv what);
  runtime::async::task<void> put_queued();
  runtime::async::task<void> put(protocols::computed_kv what);
  runtime::async::task<void> offer_to(shard_share share, std::shared_ptr<store_round> round);
  runtime::async::task<void> send_parts(std::shared_ptr<store_round> round, std::list<putting>::iterator from);
  /// What is on its way to the store is not worth that a request waits for its blocks.
  bool let_go_of_puts(); ///< whether some had something
  void withdraw_loads();

  // KV that waits in the host's memory, llumlet_swap.cpp:
  void swap_out_later(protocols::swap_order order);
  runtime::async::task<void> swap_out_queued();
  runtime::async::task<void> swap_out(protocols::swap_order order);
  void swap_in_later(protocols::load_order order);
  void drop_swaps();
  runtime::async::task<void> swap_in_queued();
  runtime::async::task<void> swap_in(protocols::load_order order);
  [[nodiscard]] std::size_t blocks_per_copy() const;
  /// A copy has taken longer than any step may.
  void hangs();

  // What the scheduler wants, llumlet_policy.cpp:
  struct destination : mark_destination { ///< `load`: its report, and what it got since
    // Of what is handed over:
    std::uint32_t busy_steps = 0;  ///< until it is asked again
    std::uint32_t busy_pause = 0;  ///< what that was last; doubles, up to busy_pause_max, until it takes one
    bool full = false;             ///< until the next mark
    std::set<std::uint64_t> lacks; ///< adapters; likewise
  };
  /// The requests of a mark go one after the other; what is handed over, as many at a time as may leave.
  struct mark {
    std::uint64_t round = 0;
    protocols::migration_cause::kind why = protocols::migration_cause::kind::freeness;
    std::chrono::nanoseconds ends{0};
    std::vector<destination> destinations; ///< at least one
    bool failed = false;                   ///< a move did: the next mark begins anew
  };
  struct arrival {
    std::chrono::nanoseconds at{0};
    protocols::instance_id to;
    protocols::move_choice what;
  };
  struct next_move {
    protocols::instance_id to;
    runtime::handle<llumlet_interface> llumlet;
    protocols::move_choice choice;
  };
  static constexpr std::uint32_t busy_pause_max = 16;
  void take_mark(migration_mark& order);
  /// Without a scheduler, or a destination that takes requests, no mark holds.
  void review_mark(const topology& news);
  [[nodiscard]] bool marked() const;
  void move_by_mark();
  /// Of a prefill instance, at the end of a step.
  void hand_over();
  runtime::async::task<void> move_marked();
  /// Of the mark that holds now. Null: none of it.
  [[nodiscard]] destination* destination_of(protocols::instance_id id);
  /// Whether a mark's work goes on after a move that came to nothing.
  [[nodiscard]] bool goes_on_after(const protocols::migration_report& report);
  [[nodiscard]] std::optional<next_move> choose();
  [[nodiscard]] std::optional<protocols::move_choice> choose_among(const std::vector<protocols::move_candidate>& some,
                                                                   const protocols::load_report& here,
                                                                   const protocols::load_report& there);
  /// Says why a move_policy failed; the same not again, and what is another thing each time not each time.
  void blame(std::string why);
  void forget_deliveries();
  void drain(const drain_order& order);
  void take_role(protocols::instance_role role);
  /// Migrations at a time: away from here, and towards it.
  [[nodiscard]] std::uint32_t out_max() const noexcept;
  [[nodiscard]] std::uint32_t in_max() const noexcept;
  /// Tells the keeper, once for each order to drain.
  void tell_when_drained();
  [[nodiscard]] bool empty() const;

  /// A request on its way to another instance.
  struct outgoing {
    protocols::migration_id migration;
    protocols::epoch epoch;
    protocols::instance_id to;
    home wanted_by;
    std::chrono::nanoseconds began{0};
    runtime::handle<source_coordinator_interface> coordinator;
    std::uint64_t monitor = 0;
    protocols::migration_status status;
    protocols::migration_cause cause;
    std::optional<runtime::completer<bool>> parked; ///< waits until it is out of the batch
    /// What the last copy reads, with a reference each: whatever becomes of the request meanwhile, nobody else writes
    /// there until the copy has ended.
    std::vector<protocols::block_id> held;
    std::vector<runtime::completer<protocols::migration_report>> done;
  };
  /// Room for a request on its way here.
  struct incoming {
    runtime::handle<destination_coordinator_interface> coordinator;
    std::uint64_t monitor = 0;
    std::uint64_t transfer = 0;
    std::uint32_t stages = 0; ///< that may have a landing place
    std::vector<protocols::block_id> blocks;
    bool place = false;    ///< in the batch
    bool mixed_kv = false; ///< it comes from another number of devices
    held_adapter adapter;
    std::chrono::nanoseconds began{0};
  };
  // The source's side, llumlet_migration.cpp:
  runtime::async::task<protocols::migration_report> migrate(migrate_order order);
  [[nodiscard]] protocols::migration_reason may_leave(const migrate_order& order) const;
  [[nodiscard]] look_answer look(const look_order& order);
  runtime::async::task<park_answer> park(park_order order);
  void resume(const resume_order& order);
  void release(const release_order& order);
  runtime::async::task<settle_answer> settle_ownership(settle_order order);
  void let_go(protocols::request_id id);
  void end_overdue_migrations();
  void source_ended_with(const protocols::migration_report& report);
  void source_down(protocols::request_id id, protocols::migration_id migration, runtime::stop_reason reason);
  runtime::async::task<void> settle_orphan(protocols::migration_report report, protocols::epoch epoch);
  void tell_coordinators(const std::vector<protocols::request_id>& finished, const protocols::step_effects& effects);
  // The destination's:
  runtime::async::task<migration_opened> open(open_migration wish);
  /// Whether a request may come so; none: it may.
  [[nodiscard]] protocols::migration_reason may_come(const open_migration& wish);
  [[nodiscard]] migration_opened open_for(open_migration& wish, held_adapter adapter);
  [[nodiscard]] reserve_answer reserve(const reserve_order& order);
  void give_back(const return_order& order);
  void drop(incoming in);
  runtime::async::task<void> take_back(protocols::migration_id id, runtime::stop_reason reason);
  runtime::async::task<adopt_answer> adopt(adopt_order order);
  [[nodiscard]] bool take_over(protocols::moved_request moved, protocols::epoch epoch, const home& whom, incoming& in);

  llumlet_options options_;
  std::optional<protocols::planner> planner_; // once the instance has said what it offers
  instance_facts facts_;
  std::shared_ptr<gpu::adapter_store> adapters_; // the instance's; null: it has none
  /// A request admitted again with a later epoch counts until the planner has let go of both.
  struct wanted : stay {
    home by;
    held_adapter adapter;
    std::uint32_t admissions = 0;
  };
  std::unordered_map<protocols::request_id, wanted> homes_; ///< looked up for each token
  std::map<home, home_books> books_;
  runtime::handle<scheduler_interface> scheduler_;
  std::uint64_t topology_version_ = 0;
  std::uint64_t reports_ = 0;
  std::uint64_t dispatched_ = 0; ///< number of the last dispatch that came from the head's front end
  std::map<std::uint16_t, std::uint64_t> dispatched_elsewhere_; ///< of those that came from others, by home
  std::set<std::uint16_t> named_homes_;                         ///< by the last topology
  std::chrono::nanoseconds last_report_{0};
  std::chrono::nanoseconds started_{0};
  std::uint32_t steps_ = 0; ///< run_steps that run
  bool planning_ = false;   ///< one of them does, and has not sent its step yet
  std::chrono::nanoseconds step_ended_{0};
  std::shared_ptr<const kv_memory> memory_;        // null without a fabric
  std::shared_ptr<const kv_memory> stored_memory_; // the same for the KV store; null: it is of no use to that
  bool store_is_of_no_use_ = false;                // and that has been said
  std::uint64_t kv_kind_ = 0;                      // of load reports
  std::vector<store_shard> stores_;                // by id
  std::vector<std::uint64_t> store_ids_;           // of these
  std::list<looking> looking_;
  std::list<looking> fetching_; // for the adapter
  std::optional<std::chrono::nanoseconds> adapter_warned_;
  std::map<std::uint64_t, loading> loading_; // by the planner's number
  std::shared_ptr<gpu::swap_space> swap_;    // the instance's; null: it has none
  std::deque<protocols::swap_order> to_swap_out_;
  std::deque<protocols::load_order> to_swap_in_;
  bool swaps_out_ = false, swaps_in_ = false; // swap_out_queued, swap_in_queued that run
  std::deque<protocols::computed_kv> to_put_;
  std::list<putting> putting_;
  std::uint32_t putters_ = 0; // put_queued that run
  std::map<protocols::request_id, outgoing> outgoing_;
  std::map<protocols::migration_id, incoming> incoming_;
  std::uint32_t adopting_ = 0; // came in, and wait for their home's word
  std::uint32_t opening_ = 0;  // wait for the adapter of a request that is to come
  std::uint32_t migrations_begun_ = 0;
  std::optional<mark> mark_;
  std::uint32_t movers_ = 0;   ///< move_marked that run
  std::list<arrival> leaving_; ///< by mark, and still under way
  struct failed_choice {
    std::string why;
    std::chrono::nanoseconds at{0};
  };
  std::optional<failed_choice> blamed_; ///< of a move_policy, as it was said last
  std::deque<arrival> delivered_;       ///< lately, so that the destination's reports may not count them yet
  bool terminating_ = false;
  bool drained_told_ = false;     ///< since the last order to drain
  std::uint64_t drain_order_ = 0; ///< the last one's number
};

} // namespace godwit::actors

/// Of an adapter that was asked for: whether it came. Read in a replay, it is nothing that could be computed with.
template <> struct godwit::runtime::trace::recorded_form<godwit::gpu::adapter_outcome> {
  static void write(wire_writer& out, const gpu::adapter_outcome& x);
  static gpu::adapter_outcome read(wire_reader& in);
};
