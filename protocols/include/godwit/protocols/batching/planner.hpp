#pragma once

#include <godwit/protocols/batching/copy_meter.hpp>
#include <godwit/protocols/batching/draft_depth.hpp>
#include <godwit/protocols/batching/pace_meter.hpp>
#include <godwit/protocols/batching/settings.hpp>
#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/kv/block_ledger.hpp>
#include <godwit/protocols/kv/sequence_blocks.hpp>
#include <godwit/protocols/kv/swap_ledger.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/moved_request.hpp>
#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/messages/tokens.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::protocols {

struct planned_request;

/// A request starts, and a KV store, or the swap space, has more of its KV than the prefix cache: the caller loads that
/// into these blocks, and says how it went by `planner::loaded`. Until then the request has its place and its blocks,
/// and is not planned.
struct load_order {
  std::uint64_t number = 0; ///< of this load; counts up
  std::uint64_t serial = 0; ///< the planner's, of the request
  request_id request;
  std::uint64_t cache_salt = 0;
  std::vector<token_id> tokens; ///< [0, upto)
  std::uint32_t first = 0;      ///< token; the beginning of a chunk, or of a block that was swapped out
  std::uint32_t upto = 0;
  std::vector<block_id> blocks; ///< of [first, upto)
  std::uint64_t swap = 0;       ///< number of the swap_order that took it out; 0: it comes from the store
  std::vector<swap_slot> slots; ///< of these, where each of the blocks is
};

/// The KV of a request that lost its blocks: the caller copies them to the slots, the last ones first, and says of each
/// portion by `planner::swapped_out` that it is there, or by `planner::swap_failed` that nothing more comes of it. The
/// blocks are free for others from the one on, portion by portion.
struct swap_order {
  std::uint64_t number = 0; ///< of this order; counts up
  request_id request;
  std::uint32_t first = 0;      ///< token: what is before it others hold too, and stays in the pool with them
  std::vector<block_id> blocks; ///< whole ones, in the order of the tokens
  std::vector<swap_slot> slots; ///< one for each
};

/// Tokens whose KV is in the pool and may go to a store: of a prompt that is computed, or of a request that has ended,
/// whose blocks are cached as yet.
struct computed_kv {
  request_id request;
  std::uint64_t cache_salt = 0;
  std::vector<token_id> tokens;
  std::uint32_t stored = 0; ///< leading ones that are thought to be there already
};

/// What the caller of a planner has to do after a call, in order.
struct step_effects {
  std::vector<token_update>
      updates; ///< send to the homes (home_of(update.request)); the last one of a request has `finish` set
  std::vector<request_id> gone;      ///< left the planner: finished, cancelled or superseded; their blocks are free
  std::vector<request_id> preempted; ///< lost their blocks and wait; a migration of one has nothing left to move
  std::vector<request_id> parked;    ///< are out of queue and batch now, see planner::park
  std::vector<request_id> begun;     ///< are in the batch for the first time: their time in the queue is over
  std::vector<load_order> loads;
  std::vector<swap_order> swaps;
  std::vector<computed_kv> computed; ///< only with planner_settings::store
  [[nodiscard]] bool empty() const noexcept {
    return updates.empty() && gone.empty() && preempted.empty() && parked.empty() && begun.empty() && loads.empty() &&
           swaps.empty() && computed.empty();
  }
};

/// How far a request is, for those who copy its KV while it runs.
struct request_view {
  request_state state = request_state::waiting; ///< migrating: parked
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0;
  std::uint32_t computed = 0;    ///< leading tokens whose KV is there
  std::uint32_t blocks_most = 0; ///< that it can ever have
  std::uint32_t preemptions = 0; ///< when it changes, the KV is not what it was
  bool in_flight = false;        ///< part of a running step, which may write behind `computed`
  std::vector<block_id> blocks;  ///< of the computed tokens; the full ones stay what they are while the request runs
  [[nodiscard]] std::uint32_t full_blocks() const noexcept { return computed / tokens_per_block; }
};

/// Decides the steps of one instance: which requests run, how many tokens of each, in which KV blocks.
///
/// Problem: many requests share a fixed pool of blocks and a bounded step, arrive and leave at any time, and none may
/// be lost, stall for ever, or see a token twice. Contract: `plan` -> run the step -> `complete`, one step in flight at
/// a time, or up to `steps_max`, which run and complete in the order in which they were planned; `admit` and `cancel`
/// at any moment, also between the two. After each call take the effects (`complete` returns them, `take_effects` gives
/// those of the other calls).
/// * Order: by priority (lower first), then arrival, then admission. Whoever lacks blocks takes them from the last
/// running request in this order, which is preempted: it loses its blocks, waits, and is recomputed later from prompt
/// and answer so far. While a step computes that one, who lacks blocks waits for the step's end. The first request in
/// the order can therefore always go on: no livelock.
/// * Queue: in the same order, or by another rule among requests of one priority that have not run yet (queue_order).
/// Waiting requests start in the queue's order without overtaking.
/// * With a swap space (`swap_slots`), a preempted request's KV may go to the host's memory instead, and come back
/// when it starts again. While it goes, who lacks blocks waits for those on their way out before it preempts another.
/// * A waiting request of a higher priority (a lower number) than a running one has takes its place in the batch, or
/// its blocks, where it needs them: the last in order is preempted. Never for one of the same priority, so that nobody
/// takes turns; never in a static batch; never requests that are parked, nor for blocks that would not suffice.
/// * Decodes are served before prompts; prompts share what is left of the budget in chunks.
/// * With speculation, decodes bring drafts of what may follow, or want some of a draft model, as far as the budget and
/// free blocks go; those that the model draws, too, are part of the answer. An update may then have several tokens.
/// * A token is sent once: after preemption and re-dispatch the next token has index answer.size().
/// * The answer does not depend on pool size, budget, preemptions or prefix hits (given a model that does not).
/// * Of steps in flight each has other requests or further chunks of a prompt, of those that decode about as many as
/// the others.
/// * Cancelled: blocks are freed at once, or, when a step in flight uses them, as it completes; those on their way to
/// the swap space with the caller's next word of them.
/// * Moving (Llumnix, OSDI '24, section 4.2): `park` takes a request out with its blocks; `snapshot` is what moves
/// besides them; then `cancel` or `unpark`. At the other end `hold_place` and `reserve` make room, and `adopt` lets the
/// request go on. Parked requests keep their place in batch or queue; with those held and the running ones they are
/// never more than running_max. Blocks reserved outside and those of parked requests are nobody's to take: requests
/// that need them wait, so whoever reserves or parks must end it in bounded time, and call `plan` again then.
/// * Ends: end-of-sequence or stop token (`stop`), max_tokens or context length (`length`), more blocks than the pool
/// has (`error`).
class planner {
public:
  /// Throws contract_violation when settings.validate() finds fault.
  explicit planner(planner_settings settings);
  ~planner();
  planner(planner&&) noexcept;
  planner& operator=(planner&&) noexcept;

  /// Takes the request into the queue. An earlier epoch of the same request is dropped (its blocks are freed).
  /// `stored`: leading tokens of prompt and answer whose KV a store has, as far as anybody knows; whole chunks.
  [[nodiscard]] admission admit(generate_request request, std::uint32_t stored = 0);

  /// How a load went: the KV of all tokens before `upto` is there, nothing is written to its blocks any more, and the
  /// caller holds no reference to them. At least the order's `first`, at most its `upto`. The request goes on from
  /// there, if it has not gone, or been parked, meanwhile. `took_ns`: of a load from the swap space, if it was
  /// measured.
  void loaded(const load_order& order, std::uint32_t upto, std::int64_t took_ns = 0);

  /// Of a swap_order: nothing but its first `left` blocks still has to be copied, and what was copied since the last
  /// word took so long. With 0 it is done. Then call `plan` again: others may have waited for the blocks.
  void swapped_out(std::uint64_t swap, std::uint32_t left, std::int64_t took_ns = 0);
  /// Whether its request is still here and waits for it; if not, it may be told at once that nothing has come.
  [[nodiscard]] bool load_wanted(const load_order& order) const;
  /// Nothing of it is read any more, and the request is computed anew.
  void swap_failed(std::uint64_t swap);
  /// Whether its request is still here and wants it; if not, what is left is to be told to be done without being
  /// copied: its blocks are free with that word only, since a portion may be under way.
  [[nodiscard]] bool swap_wanted(std::uint64_t swap) const;

  /// The next step; empty when there is nothing to run, or when what is there waits for blocks held outside
  /// (transfers), or is part of steps that are in flight. Up to `planner_settings::steps_max` steps may be in flight,
  /// and run one behind the other, as in a pipeline.
  [[nodiscard]] std::optional<step_input> plan();
  /// The oldest step in flight, which has run. `took_ns`: how long it took, planning included, as the caller measured;
  /// 0: as the device did. `alone_ns`: the part of that in which it was the oldest one; below 0: all of it.
  [[nodiscard]] step_effects complete(const step_output& output, std::int64_t took_ns = 0, std::int64_t alone_ns = -1);

  enum class cancellation : std::uint8_t { unknown, freed, freed_after_step };
  /// Drops a request whose epoch is not later than the named one. No update is sent for it; it is named in `gone` once
  /// its blocks are free.
  cancellation cancel(const cancel_request& order);

  /// Empty when the request is not here under this epoch. Parked ones are.
  [[nodiscard]] std::optional<request_view> view(request_id id, epoch under) const;

  enum class parking : std::uint8_t { unknown, parked, parked_after_step };
  /// Takes the request out of queue or batch. It keeps its blocks and computed tokens, is not planned and not
  /// preempted. While it is part of a step in flight it leaves as the step completes (whose token is sent as ever).
  /// Named in `parked` once it is out, or in `gone` when it ended before.
  parking park(request_id id, epoch under);
  /// What moves of a parked request besides its KV. `tail_from`: how much of the answer the home has. The tail begins
  /// there, or where this planner's knowledge of log-probabilities begins, which is what the home had at its admission.
  [[nodiscard]] moved_request snapshot(request_id id, std::uint32_t tail_from) const;
  /// The tokens of the complete blocks that a request here has; none where prefixes are not shared, or it has none.
  [[nodiscard]] computed_kv complete_kv(request_id id, epoch under) const;
  /// The request goes on here, with its KV, under an epoch that may be later; also takes back an order to park. False
  /// when it is not here under `from`.
  bool unpark(request_id id, epoch from, epoch to);

  /// Keeps one place in the batch for a request that comes with its KV. False: there is none, or those who wait need
  /// it, or the batch is static, which nobody joins.
  [[nodiscard]] bool hold_place();
  void free_place();
  [[nodiscard]] std::uint32_t places_held() const noexcept { return places_held_; }
  /// Blocks for KV that comes from outside, or none at all where less is left than the running requests and the first
  /// waiting one need next. The caller holds them until `give_back` or `adopt`.
  [[nodiscard]] std::optional<std::vector<block_id>> reserve(std::uint32_t blocks);
  /// The blocks that hold the KV of the first of these tokens already, for a request that comes with them: as many as
  /// are known here, less what is not in use and others need next (as in `reserve`). The caller holds them likewise.
  [[nodiscard]] std::vector<block_id> reserve_known(std::span<const token_id> tokens, std::uint64_t salt);
  /// In the order in which they were reserved, or the last of these.
  void give_back(const std::vector<block_id>& blocks);
  /// The request goes on here under `under`. With KV, of moved.computed tokens, which reserved `blocks` hold (as many
  /// as that needs, in order: first those of `reserve_known`), it takes up a held place; without (blocks empty) it
  /// joins the queue by its arrival. An earlier epoch of it is dropped. Refused like in `admit`, and as `invalid` where
  /// the parts of `moved` and `blocks` disagree; the blocks and the place are then still the caller's.
  [[nodiscard]] admission adopt(moved_request moved, epoch under, std::vector<block_id> blocks);

  /// Effects of all calls but complete since they were last taken.
  [[nodiscard]] step_effects take_effects();

  [[nodiscard]] bool step_in_flight() const noexcept { return !in_flight_.empty(); }
  [[nodiscard]] std::size_t steps_in_flight() const noexcept { return in_flight_.size(); }
  /// No requests and no step in flight.
  [[nodiscard]] bool idle() const noexcept { return requests_.empty(); }
  /// True when `plan` may have something to run.
  [[nodiscard]] bool has_work() const noexcept { return !waiting_.empty() || !running_.empty(); }
  /// How many requests are in the queue.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  /// The figures of a report, O(running requests); instance, generation, sequence and ready are the caller's to fill
  /// in.
  [[nodiscard]] load_report load() const;
  /// Tokens of the request's answer so far; 0 where it is not here.
  [[nodiscard]] std::uint32_t answer_tokens(request_id id) const;
  [[nodiscard]] std::vector<request_status> requests() const;
  /// Requests that could move elsewhere now: those that decode, and the head of line. Whoever knows how long they have
  /// been here fills in `settled_ns` and `failed`.
  [[nodiscard]] std::vector<move_candidate> move_candidates() const;
  [[nodiscard]] const planner_settings& settings() const noexcept { return settings_; }
  /// From now on there is a KV store, or none.
  void use_store(bool is_there) noexcept { settings_.store = is_there; }
  /// Those who wait or run lack blocks, and cannot go on before somebody gives some back.
  [[nodiscard]] bool lacks_blocks() const;
  /// For transfers that hold blocks of the same pool.
  [[nodiscard]] block_ledger& ledger() noexcept { return ledger_; }
  /// Verifies every invariant, O(requests + blocks); for tests and drills. Throws contract_violation. `held`: a block
  /// for each reference that the caller has taken at the ledger by itself.
  void check(std::span<const block_id> held = {}) const;

private:
  /// That it can ever have.
  [[nodiscard]] std::uint32_t blocks_at_most(const planned_request& r) const noexcept;
  /// First in line first.
  struct rank {
    std::int32_t priority = 0;
    std::int64_t arrival_ns = 0;
    std::uint64_t serial = 0; ///< of the admission
    friend auto operator<=>(const rank&, const rank&) = default;
  };
  using line = std::map<rank, planned_request*>;
  using queue = std::map<queue_place, planned_request*>;
  /// The same, side by side: each step reads all of it. As far as it goes, what a map offers.
  class batch {
  public:
    using entry = std::pair<rank, planned_request*>;
    [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
    [[nodiscard]] auto end() const noexcept { return entries_.end(); }
    [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] const entry& operator[](std::size_t place) const noexcept { return entries_[place]; }
    [[nodiscard]] const entry& last() const noexcept { return entries_.back(); }
    [[nodiscard]] bool contains(const rank& who) const noexcept;
    void emplace(const rank& who, planned_request* r);
    std::size_t erase(const rank& who) noexcept; ///< how many that were, 0 or 1

  private:
    [[nodiscard]] std::vector<entry>::const_iterator place_of(const rank& who) const noexcept;
    std::vector<entry> entries_;
  };
  struct share { ///< of a step
    planned_request* who = nullptr;
    std::uint32_t tokens = 0;
    std::uint8_t drafted = 0; ///< besides
    bool asks = false;        ///< the draft model for them
    bool prefill = false;
    bool samples = false;
    bool scores = false;
    bool predicted = false; ///< what is drafted
  };
  struct step_under_way {
    std::uint64_t step = 0;
    std::vector<share> shares;
    std::vector<token_id> drafts; ///< one request's behind the other's
    std::vector<block_id> holds; ///< a reference each, until it has run: sources of its copies, blocks of former tables
  };
  class outline;
  /// Why the head of line did not start, for as long as that is so.
  struct shortage {
    std::uint64_t serial = 0; ///< of the request; 0: nobody's
    std::uint64_t cache_version = 0;
    std::optional<block_id> prefix_end; ///< the last block of what is known of it
    std::uint32_t prefix_tokens = 0;    ///< that are known
    std::uint32_t prefix_cached = 0;    ///< blocks of these that nobody uses
    std::uint64_t needed = 0;           ///< blocks, those that it would take up from the cached ones included
  };

  /// KV of a preempted request that leaves the pool, is in the swap space, or comes back.
  struct swapped_kv {
    enum class phase : std::uint8_t { leaves, kept, comes };
    std::uint64_t serial = 0; ///< of the request; 0: nobody wants it any more
    phase where = phase::leaves;
    std::uint32_t first = 0; ///< token; what is before it was in the pool with others
    std::uint32_t left = 0;  ///< leading ones of the order's blocks that are still to be copied out
    sequence_blocks blocks;  ///< while it leaves: these, and those before them
    std::vector<swap_slot> slots;
  };

  [[nodiscard]] static rank rank_of(const planned_request& r) noexcept;
  [[nodiscard]] bool knows(token_id token) const noexcept;
  [[nodiscard]] refusal judge(const generate_request& request, bool queues, std::uint64_t& limit) const;
  [[nodiscard]] bool supersede(request_id id, epoch by);
  /// What others need next of the available blocks: the running requests and the first waiting one.
  [[nodiscard]] std::uint64_t blocks_spoken_for() const;
  /// Blocks of others at the front of a request's table are what its tokens say.
  [[nodiscard]] bool known_agree(const moved_request& moved, std::span<const block_id> blocks) const;
  void end_reservation(block_id block);
  planned_request& enter(generate_request request);
  [[nodiscard]] planned_request* find(request_id id, epoch under) const;
  void set_aside(planned_request& r, step_effects& effects);
  /// For others to share, unless it is for nobody else.
  void seal(planned_request& r, std::vector<block_id>* replaced = nullptr);
  [[nodiscard]] std::size_t places_taken() const noexcept { return running_.size() + parked_running_ + places_held_; }
  [[nodiscard]] std::size_t parked_waiting() const noexcept { return parked_.size() - parked_running_; }
  void continue_running(outline& d, bool decodes);
  void start_outranking(outline& d);
  void start_waiting(outline& d);
  void end_as_too_large(planned_request& r);
  bool start(planned_request& r, outline& d, bool schedules);
  [[nodiscard]] planned_request* sibling_of(const planned_request& r) const;
  [[nodiscard]] bool waits_for_sibling(const planned_request& r) const;
  [[nodiscard]] bool lacks_memory_as_before(const planned_request& r, std::uint64_t outstanding) const;
  std::uint32_t take_up_prefix(planned_request& r);
  [[nodiscard]] std::uint32_t loadable(const planned_request& r, std::uint32_t matched) const;
  void begin_load(planned_request& r, std::uint32_t upto, bool from_swap);
  void end_load(planned_request& r);
  void tell_computed(planned_request& r, bool ended, step_effects& effects) const;
  [[nodiscard]] bool outranks_running(const planned_request& r) const;
  /// The blocks that are on their way out are enough for it to start.
  [[nodiscard]] bool waits_for_swaps(const planned_request& r) const;
  [[nodiscard]] bool suffices_to_preempt_for(const planned_request& r) const;
  [[nodiscard]] bool batch_is_closed() const noexcept;
  [[nodiscard]] std::uint64_t demand_of_head(std::uint64_t outstanding) const;
  [[nodiscard]] std::vector<queue_part> queue_parts() const;
  [[nodiscard]] std::vector<std::uint32_t> running_by_level() const;
  void schedule(planned_request& r, outline& d);
  void speculate(outline& d);
  [[nodiscard]] std::uint64_t spare_blocks() const;
  [[nodiscard]] bool may_draft(const planned_request& r) const noexcept;
  [[nodiscard]] std::uint32_t drafts_for(const planned_request& r, std::uint32_t limit, std::uint64_t blocks) const;
  void note_drafting(const step_under_way& ran, const step_output& output, std::int64_t took_ns);
  void guess(const planned_request& r, share& part, std::uint32_t room, std::vector<token_id>& drafts) const;
  [[nodiscard]] std::vector<std::uint32_t> ask_draft_model(const outline& d);
  void preempt(planned_request& victim, outline& d);
  /// Blocks of it, from `first` on, that swapping would take out; none where it does not pay.
  struct swap_range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };
  [[nodiscard]] swap_range swap_worth(const planned_request& victim);
  /// Beside so many tokens that the prefix cache has.
  [[nodiscard]] static bool swap_is_of_use(const planned_request& r, std::uint32_t matched) noexcept;
  void swap_out(planned_request& victim, swap_range what);
  /// What of its KV is in the swap space, or goes there, is not wanted any more. No effect where there is nothing.
  void drop_swap(planned_request& r);
  void free_swap(std::uint64_t number);
  /// References that are given up when what leaves has been copied.
  [[nodiscard]] std::unordered_map<block_id, std::uint32_t> references_that_leave() const;
  /// Blocks that are free once they have been copied to the swap space: nobody else has them, as it is now. O(blocks
  /// that leave).
  [[nodiscard]] std::uint32_t leaving() const;
  [[nodiscard]] static std::uint32_t tokens_to_compute(const planned_request& r) noexcept;
  [[nodiscard]] static double pairs_to_compute(const planned_request& r) noexcept;
  void check_swap_of(const planned_request& r) const;
  /// Counts the references to blocks that leave.
  void check_swaps(std::vector<std::uint32_t>& references) const;
  void join_queue(planned_request& r);
  void leave_queue(planned_request& r); ///< no effect where it is not in it
  [[nodiscard]] std::uint32_t tokens_that_fit(const planned_request& r) const;
  /// What a request needs that has nothing yet. Does not change while it waits.
  [[nodiscard]] std::uint64_t blocks_to_start(const planned_request& r) const;
  [[nodiscard]] std::uint64_t blocks_to_reserve(const planned_request& r) const;
  [[nodiscard]] std::uint64_t blocks_outstanding() const;
  [[nodiscard]] step_slice slice_of(const planned_request& r, const share& part,
                                    std::span<const token_id> drafts) const;
  [[nodiscard]] std::vector<sampled_token> accept(planned_request& r, const share& part,
                                                  std::span<const sampled_token> drawn,
                                                  std::span<const token_id> drafts, finish_reason& end);
  [[nodiscard]] finish_reason end_of(const planned_request& r) const;
  [[nodiscard]] static token_update update_of(const planned_request& r, std::vector<sampled_token> drawn,
                                              finish_reason end);
  void finish(planned_request& r, token_update update, step_effects& effects);
  void remove(planned_request& r, step_effects& effects);
  cancellation drop(planned_request& r);
  /// How many of those that decode a step takes, where several are under way at once.
  [[nodiscard]] std::size_t decodes_at_most() const noexcept;
  /// Who loses its blocks next: the last of the batch. Null: a step computes it, and it can when that has ended.
  [[nodiscard]] planned_request* next_victim() const noexcept;

  planner_settings settings_;
  block_ledger ledger_;
  swap_ledger swap_slots_;
  std::map<std::uint64_t, swapped_kv> swaps_; ///< by number
  std::uint64_t swaps_begun_ = 0;
  std::uint32_t swapped_ = 0;       ///< of these, those that somebody waits with
  std::uint32_t leaving_held_ = 0;  ///< blocks that are held while they are copied to the swap space
  std::uint32_t swaps_refused_ = 0; ///< by their cost, since one was tried all the same
  copy_meter copies_out_, copies_in_;
  std::unordered_map<std::uint64_t, std::unique_ptr<planned_request>> requests_; ///< by serial
  std::unordered_map<request_id, std::uint64_t> by_id_;                          ///< the current epoch's serial
  queue waiting_;
  std::uint64_t waiting_blocks_ = 0; ///< that all of them need to start
  std::uint64_t waiting_tokens_ = 0; ///< of all of them
  double waiting_pairs_ = 0;         ///< attention_pairs of these
  shortage shortage_;
  batch running_;
  line parked_;
  std::size_t loading_ = 0;        ///< of these, those whose KV is loaded from a store
  std::size_t parked_running_ = 0; ///< of the parked ones, those that were in the batch: they keep their places
  std::uint32_t places_held_ = 0;  ///< for requests that come
  std::unordered_map<block_id, std::uint32_t> reserved_; ///< outside, with how many references
  std::vector<step_under_way> in_flight_;                ///< the oldest first
  step_effects pending_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_step_ = 1;
  std::uint64_t loads_begun_ = 0;
  load_report totals_;
  pace_meter meter_;
  draft_meter draft_meter_;
  std::int64_t blocks_granted_ = 0; ///< since the last step; less those given back
  std::int64_t places_granted_ = 0;
};

} // namespace godwit::protocols
