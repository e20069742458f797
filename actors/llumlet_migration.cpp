#include "migration/destination_coordinator.hpp"
#include "migration/source_coordinator.hpp"

#include <godwit/actors/llumlet.hpp>

#include <algorithm>
#include <utility>

/// The llumlet's part in live migrations: it holds the requests and the blocks, and knows what to do with them when a
/// coordinator, a peer or a home is gone.
namespace godwit::actors {

using protocols::migration_outcome;
using protocols::migration_reason;
using protocols::migration_source;
using runtime::async::error_code;
using runtime::async::task;

// ---- Source -------------------------------------------------------------------------------------------------------

task<protocols::migration_report> llumlet::migrate(migrate_order order) {
  const auto id = order.request;
  protocols::migration_report refusal;
  refusal.request = id;
  refusal.epoch = order.epoch;
  refusal.source = options_.id;
  refusal.destination = order.to;
  refusal.cause = order.cause;
  refusal.reason = may_leave(order);
  if (refusal.reason != migration_reason::none) co_return refusal;
  const auto view = planner_->view(id, order.epoch);
  auto& out = outgoing_[id];
  out.migration = protocols::make_migration_id(options_.id, options_.generation, ++migrations_begun_);
  out.epoch = order.epoch;
  out.to = order.to;
  out.cause = order.cause;
  out.status.migration = out.migration;
  out.status.request = id;
  out.status.source = options_.id;
  out.status.destination = order.to;
  out.status.phase = "preparing";

  source_task what;
  what.migration = out.migration;
  what.order = std::move(order);
  what.source = options_.id;
  what.start = {view->computed, view->preemptions};
  what.blocks_most = view->blocks_most;
  what.llumlet = self();
  what.home = out.wanted_by = homes_.at(id).by;
  what.adapter = homes_.at(id).adapter.which;
  auto kv = planner_->complete_kv(id, out.epoch);
  what.tokens = std::move(kv.tokens);
  what.cache_salt = kv.cache_salt;
  out.began = now();
  what.memory = memory_;
  what.kv_layout = facts_.kv_layout;
  what.environment = options_.migration;
  out.coordinator = spawn<source_coordinator>(std::move(what));
  out.monitor = monitor(out.coordinator, [this, id, migration = out.migration](runtime::stop_reason reason) {
    source_down(id, migration, reason);
  });
  options_.migration.log.request(id).debug("migration {} to instance {} begins", out.migration.value(), out.to.value());
  auto wait = [this, id](runtime::completer<protocols::migration_report> done) {
    if (const auto found = outgoing_.find(id); found != outgoing_.end()) found->second.done.push_back(std::move(done));
  };
  auto report = co_await callback<protocols::migration_report>(wait);
  if (report) co_return std::move(*report);
  refusal.reason = migration_reason::stopped;
  co_return refusal;
}

migration_reason llumlet::may_leave(const migrate_order& order) const {
  if (!planner_) return migration_reason::request_unknown;
  if (!options_.migration.fabric || !memory_) return migration_reason::no_fabric;
  if (order.to == options_.id) return migration_reason::same_instance;
  if (!order.destination) return migration_reason::destination_not_ready;
  if (outgoing_.contains(order.request)) return migration_reason::request_busy;
  if (!planner_->view(order.request, order.epoch)) return migration_reason::request_unknown;
  if (outgoing_.size() >= out_max()) return migration_reason::source_busy;
  return migration_reason::none;
}

look_answer llumlet::look(const look_order& order) {
  look_answer answer;
  auto view = planner_->view(order.request, order.epoch);
  if (!view) return answer;
  answer.here = true;
  answer.now = {view->computed, view->preemptions};
  answer.blocks = std::move(view->blocks);
  return answer;
}

task<park_answer> llumlet::park(park_order order) {
  const auto id = order.request;
  const auto parking = planner_->park(id, order.epoch);
  if (parking == protocols::planner::parking::unknown) co_return park_answer{};
  settle(planner_->take_effects());
  if (parking == protocols::planner::parking::parked_after_step) {
    auto wait = [this, id](runtime::completer<bool> done) {
      if (const auto found = outgoing_.find(id); found != outgoing_.end())
        found->second.parked.emplace(std::move(done));
    };
    const auto parked = co_await callback<bool>(wait);
    if (!parked || !*parked) co_return park_answer{};
  }
  park_answer answer;
  auto view = planner_->view(id, order.epoch);
  const auto found = homes_.find(id);
  if (!view || found == homes_.end()) co_return answer;
  // Taken back meanwhile: the order to resume overtook the news that it was out.
  if (view->state != protocols::request_state::migrating) co_return answer;
  answer.parked = true;
  answer.now = {view->computed, view->preemptions};
  answer.blocks = std::move(view->blocks);
  answer.state = planner_->snapshot(id, order.tail_from);
  answer.home = found->second.by;
  const auto here = answer.state.started ? std::chrono::nanoseconds{0} : now() - found->second.since;
  answer.state.queued_ns = (found->second.queued + here).count();
  if (const auto out = outgoing_.find(id); out != outgoing_.end()) {
    out->second.held = answer.blocks;
    for (const auto block : out->second.held) planner_->ledger().share(block);
  }
  wake(); // the others go on
  co_return answer;
}

// A request that goes on here writes into its blocks again; nobody else can be given it.
void llumlet::let_go(protocols::request_id id) {
  const auto found = outgoing_.find(id);
  if (found == outgoing_.end()) return;
  auto held = std::exchange(found->second.held, {});
  for (auto block = held.rbegin(); block != held.rend(); ++block) planner_->ledger().release(*block);
}

void llumlet::resume(const resume_order& order) {
  let_go(order.request);
  // Where it has gone meanwhile, its blocks are free only now, and others may wait for them.
  if (planner_->unpark(order.request, order.epoch, order.epoch)) settle(planner_->take_effects());
  report_soon();
  wake();
}

void llumlet::release(const release_order& order) {
  planner_->cancel({order.request, order.epoch});
  settle(planner_->take_effects());
  report_soon();
  wake();
}

task<settle_answer> llumlet::settle_ownership(settle_order order) {
  using action = protocols::ownership_reclaim::action;
  using settlement = migration_source::settlement;
  const auto id = order.request;
  const auto found = homes_.find(id);
  if (found == homes_.end() || !planner_->view(id, order.epoch)) co_return settle_answer{settlement::ended};
  const auto whom = found->second.by;
  protocols::ownership_reclaim machine{options_.migration.settings.claims_max};
  auto next = machine.begin();
  while (next == action::ask) {
    auto answer =
        co_await ask(whom, options_.migration.settings.claim_timeout, protocols::reclaim_request{id, order.epoch});
    if (!planner_->view(id, order.epoch)) co_return settle_answer{settlement::ended}; // cancelled meanwhile
    if (answer)
      next = machine.answered(answer->how, answer->epoch);
    else
      next = answer.error().code == error_code::down ? machine.home_down() : machine.unanswered();
  }
  if (next == action::resume) let_go(id);
  if (next == action::resume && planner_->unpark(id, order.epoch, machine.granted())) {
    settle(planner_->take_effects());
    wake();
    co_return settle_answer{settlement::resumed};
  }
  release({id, order.epoch});
  if (next == action::release_moved) co_return settle_answer{settlement::moved};
  if (next == action::release_ended) co_return settle_answer{settlement::ended};
  options_.migration.log.request(id).warning("its home does not answer; this instance lets go of it");
  tell(whom, protocols::disown_request{id, order.epoch, options_.id});
  co_return settle_answer{settlement::lost};
}

void llumlet::source_ended_with(const protocols::migration_report& report) {
  const auto found = outgoing_.find(report.request);
  if (found == outgoing_.end() || found->second.migration != report.migration) return;
  if (!found->second.held.empty()) {
    let_go(report.request);
    report_soon();
    wake(); // they may be what others wait for
  }
  auto out = std::move(found->second);
  outgoing_.erase(found);
  demonitor(out.monitor);
  // Another destination may have its adapter: of those that have not, the mark knows.
  const bool rests = !report.committed() && report.reason != migration_reason::no_adapter;
  if (const auto here = homes_.find(report.request); here != homes_.end() && rests) {
    here->second.moved = now();
    here->second.move_failed = true;
  }
  tell(out.wanted_by, report);
  options_.migration.log.request(report.request)
      .debug("migration {} to instance {} ended: {} ({}), {} stages, {} bytes, {} of {} blocks known, stall {} us",
             report.migration.value(), report.destination.value(), to_string(report.outcome), to_string(report.reason),
             report.stages, report.bytes, report.known, report.blocks, report.stall_ns / 1000);
  for (const auto& done : out.done) done(report);
  tell_when_drained();
}

// The coordinator died. Where its request is out of the batch, the destination may have it by now: the home knows.
void llumlet::source_down(protocols::request_id id, protocols::migration_id migration, runtime::stop_reason reason) {
  const auto found = outgoing_.find(id);
  if (found == outgoing_.end() || found->second.migration != migration) return;
  options_.migration.log.request(id).warning("migration {}: its coordinator is down ({})", migration.value(),
                                             to_string(reason));
  protocols::migration_report report;
  report.migration = migration;
  report.request = id;
  report.epoch = found->second.epoch;
  report.source = options_.id;
  report.destination = found->second.to;
  report.cause = found->second.cause;
  report.outcome = migration_outcome::aborted;
  report.reason = migration_reason::stopped;
  start(settle_orphan(std::move(report), found->second.epoch));
}

task<void> llumlet::settle_orphan(protocols::migration_report report, protocols::epoch epoch) {
  if (const auto view = planner_->view(report.request, epoch)) {
    if (view->state == protocols::request_state::migrating) {
      const auto answer = co_await settle_ownership({report.request, epoch});
      using settlement = migration_source::settlement;
      if (answer.how == settlement::moved) report.outcome = migration_outcome::committed;
      if (answer.how == settlement::resumed) report.outcome = migration_outcome::reclaimed;
      if (answer.how == settlement::lost) report.outcome = migration_outcome::lost;
    } else {
      resume({report.request, epoch}); // takes an order to park back
    }
  }
  // Its last copy may still be on its way.
  if (const auto found = outgoing_.find(report.request); found != outgoing_.end() && !found->second.held.empty())
    co_await sleep_for(options_.migration.settings.last_timeout);
  source_ended_with(report);
}

// Coordinators bound every wait of theirs. Should one not, it is as good as dead.
void llumlet::end_overdue_migrations() {
  const auto oldest = now() - options_.migration.settings.age_max();
  for (const auto& [id, out] : outgoing_)
    if (out.began < oldest) stop(out.coordinator, runtime::stop_reason::killed);
  for (const auto& [id, in] : incoming_)
    if (in.began < oldest) stop(in.coordinator, runtime::stop_reason::killed);
}

void llumlet::tell_coordinators(const std::vector<protocols::request_id>& finished,
                                const protocols::step_effects& effects) {
  if (outgoing_.empty()) return;
  const auto ended = [&](protocols::request_id id) { return std::ranges::find(finished, id) != finished.end(); };
  for (const auto id : effects.parked) {
    const auto found = outgoing_.find(id);
    if (found == outgoing_.end() || !found->second.parked) continue;
    std::exchange(found->second.parked, std::nullopt)->operator()(true);
  }
  for (const auto id : effects.preempted) {
    const auto found = outgoing_.find(id);
    if (found != outgoing_.end())
      tell(found->second.coordinator, request_gone{migration_reason::request_preempted, false});
  }
  for (const auto id : effects.gone) {
    const auto found = outgoing_.find(id);
    if (found == outgoing_.end() || planner_->view(id, found->second.epoch)) continue; // an earlier epoch's remains
    if (found->second.parked) std::exchange(found->second.parked, std::nullopt)->operator()(false);
    tell(found->second.coordinator,
         request_gone{ended(id) ? migration_reason::request_finished : migration_reason::request_cancelled, true});
  }
}

// ---- Destination --------------------------------------------------------------------------------------------------

task<migration_opened> llumlet::open(open_migration wish) {
  auto why = may_come(wish);
  held_adapter adapter;
  if (why == migration_reason::none && wish.adapter) {
    ++opening_;
    auto answer = co_await hold(wish.adapter, options_.migration.settings.answer_timeout / 2);
    --opening_;
    tell_when_drained(); // it may have been the last thing
    if (answer.reason == protocols::refusal::no_adapter)
      options_.migration.log.request(wish.request).debug("migration {}: {}", wish.migration.value(), answer.why);
    why = answer.reason == protocols::refusal::none ? may_come(wish) : migration_reason::no_adapter;
    adapter = std::move(answer.adapter);
  }
  if (why != migration_reason::none) co_return migration_opened{why};
  co_return open_for(wish, std::move(adapter));
}

migration_reason llumlet::may_come(const open_migration& wish) {
  if (!planner_ || terminating_) return migration_reason::destination_not_ready;
  if (!options_.migration.fabric || !memory_) return migration_reason::no_fabric;
  if (wish.kv_layout != facts_.kv_layout) return migration_reason::incompatible;
  if (wish.source == options_.id) return migration_reason::same_instance;
  if (incoming_.contains(wish.migration)) return migration_reason::request_busy;
  if (incoming_.size() + adopting_ + opening_ >= in_max()) return migration_reason::destination_busy;
  // With what it has of them already, as far as that is in use (open_for).
  const auto known = planner_->ledger().known_prefix(wish.tokens, wish.cache_salt);
  if (wish.blocks > known + planner_->ledger().available()) let_go_of_puts();
  if (wish.blocks > known + planner_->ledger().available()) return migration_reason::destination_full;
  // One without KV joins the queue.
  if (wish.blocks == 0 && planner_->waiting() >= planner_->settings().waiting_max)
    return migration_reason::destination_full;
  return migration_reason::none;
}

migration_opened llumlet::open_for(open_migration& wish, held_adapter adapter) {
  auto memory = memory_->common_with(wish.devices);
  if (!memory) return migration_opened{migration_reason::incompatible};
  auto known = planner_->reserve_known(wish.tokens, wish.cache_salt);
  if (wish.blocks > known.size() + planner_->ledger().available()) {
    planner_->give_back(known);
    return migration_opened{migration_reason::destination_full};
  }
  wish.tokens.clear();
  const auto id = wish.migration;
  auto& in = incoming_[id];
  in.blocks = known;
  if (!known.empty()) report_soon();
  in.transfer = runtime::trace::input<std::uint64_t>("transfer", [&] { return ++*options_.migration.transfers; });
  in.began = now();
  in.adapter = std::move(adapter);
  in.mixed_kv = wish.devices != memory_->devices();
  destination_task what;
  what.opened = std::move(wish);
  what.transfer = in.transfer;
  what.blocks_max = facts_.blocks;
  what.known = std::move(known);
  what.llumlet = self();
  what.memory = std::move(memory);
  what.environment = options_.migration;
  in.coordinator = spawn<destination_coordinator>(std::move(what));
  in.monitor = monitor(in.coordinator, [this, id](runtime::stop_reason reason) { start(take_back(id, reason)); });
  auto address =
      runtime::trace::input<std::string>("fabric.address", [&] { return options_.migration.fabric->address(); });
  migration_opened answer{in.coordinator, std::move(address), in.transfer, memory_->devices()};
  answer.known = static_cast<std::uint32_t>(in.blocks.size());
  return answer;
}

reserve_answer llumlet::reserve(const reserve_order& order) {
  const auto found = incoming_.find(order.migration);
  if (found == incoming_.end() || terminating_) return {};
  auto& in = found->second;
  if (!in.place) in.place = planner_->hold_place();
  if (!in.place) return {};
  auto blocks = planner_->reserve(order.blocks);
  if (!blocks && !putting_.empty()) {
    let_go_of_puts();
    blocks = planner_->reserve(order.blocks);
  }
  if (!blocks) return {};
  in.blocks.insert(in.blocks.end(), blocks->begin(), blocks->end());
  in.stages = order.stage + 1;
  report_soon();
  return reserve_answer{std::move(*blocks)};
}

void llumlet::give_back(const return_order& order) {
  const auto found = incoming_.find(order.migration);
  if (found == incoming_.end()) return;
  auto in = std::move(found->second);
  incoming_.erase(found);
  demonitor(in.monitor);
  options_.migration.log.debug("migration {}: {} blocks are given back ({})", order.migration.value(), in.blocks.size(),
                               to_string(order.reason));
  drop(std::move(in));
}

void llumlet::drop(incoming in) {
  planner_->give_back(in.blocks);
  if (in.place) planner_->free_place();
  settle(planner_->take_effects());
  report_soon();
  wake(); // the blocks may be what others wait for
  tell_when_drained();
}

// The coordinator ended without giving its blocks back. They are free when the fabric says that nothing can be written
// into them any more.
task<void> llumlet::take_back(protocols::migration_id id, runtime::stop_reason reason) {
  auto found = incoming_.find(id);
  if (found == incoming_.end()) co_return;
  const auto stages = found->second.stages;
  const auto transfer = found->second.transfer;
  if (reason != runtime::stop_reason::normal)
    options_.migration.log.warning("migration {}: its coordinator is down ({})", id.value(), to_string(reason));
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    auto withdraw = [this, transfer, stage](runtime::completer<bool> done) {
      options_.migration.fabric->withdraw({transfer, stage}, [done] { done(true); });
    };
    (void)co_await callback<bool>(withdraw);
  }
  found = incoming_.find(id);
  if (found == incoming_.end()) co_return;
  auto in = std::move(found->second);
  incoming_.erase(found);
  drop(std::move(in));
}

task<adopt_answer> llumlet::adopt(adopt_order order) {
  using action = protocols::ownership_claim::action;
  const auto found = incoming_.find(order.migration);
  if (found == incoming_.end()) co_return adopt_answer{false};
  // From here on the coordinator's death has no consequence: what it reserved is this coroutine's.
  auto in = std::move(found->second);
  incoming_.erase(found);
  demonitor(in.monitor);
  auto& moved = order.commit.request;
  const auto id = moved.request;
  const auto from = moved.epoch;
  const auto whom = order.commit.home;
  ++adopting_;
  protocols::ownership_claim machine{options_.migration.settings.claims_max};
  auto next = machine.begin();
  while (next == action::ask) {
    auto claim = protocols::claim_request{id, from, options_.id, options_.generation, moved.tail_index, moved.tail};
    if (moved.tail_index == 0 && !moved.tail.empty()) {
      claim.prompt_scores = moved.prompt_scores;
      claim.queued_ns = moved.queued_ns;
    }
    claim.prediction_accepted = moved.prediction_accepted;
    claim.prediction_rejected = moved.prediction_rejected;
    const auto answer = co_await ask(whom, options_.migration.settings.claim_timeout, std::move(claim));
    if (answer)
      next = machine.answered(answer->granted, answer->epoch);
    else
      next = answer.error().code == error_code::down ? machine.home_down() : machine.unanswered();
  }
  --adopting_;
  if (next == action::adopt && take_over(std::move(moved), machine.granted(), whom, in)) {
    options_.migration.pass("destination.adopted");
    co_return adopt_answer{true};
  }
  drop(std::move(in));
  if (next == action::adopt || next == action::disown) tell(whom, protocols::disown_request{id, from, options_.id});
  co_return adopt_answer{false};
}

bool llumlet::take_over(protocols::moved_request moved, protocols::epoch epoch,
                        const runtime::handle<home_interface>& whom, incoming& in) {
  const auto id = moved.request;
  const auto needed = protocols::blocks_for(moved.computed);
  if (needed > in.blocks.size() || moved.adapter != in.adapter.which) return false;
  std::vector<protocols::block_id> own(in.blocks.begin(), in.blocks.begin() + needed);
  const bool runs = moved.computed > 0;
  if (runs && !in.place) return false;
  moved.mixed_kv = moved.mixed_kv || in.mixed_kv;
  const auto before = note_home(id, whom, std::move(in.adapter));
  homes_.at(id).moved = now();
  homes_.at(id).queued = std::chrono::nanoseconds{moved.queued_ns};
  const auto answer = planner_->adopt(std::move(moved), epoch, own);
  settle(planner_->take_effects());
  if (!answer.accepted()) {
    options_.migration.log.request(id).warning("cannot be taken over: {}", to_string(answer.reason));
    refuse_home(id, before);
    return false;
  }
  in.blocks.erase(in.blocks.begin(), in.blocks.begin() + needed);
  if (runs) in.place = false; // the request has it
  drop(std::exchange(in, {}));
  return true;
}

} // namespace godwit::actors
