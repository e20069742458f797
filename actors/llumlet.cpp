#include "migration/kv_memory.hpp"
#include "watchers.hpp"

#include <godwit/actors/llumlet.hpp>
#include <godwit/runtime/message.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace godwit::actors {

using runtime::async::task;

llumlet::llumlet(runtime::actor_context context, llumlet_options options)
    : actor(context), options_(std::move(options)) {}

runtime::behavior_of<llumlet_interface> llumlet::make_behavior() {
  started_ = now();
  start(bring_up());
  return {[this](generate_order& order) { return respond(take_in(std::move(order))); },
          [this](protocols::cancel_request& order) { cancel(order); },
          [this](topology& news) {
            if (news.version <= topology_version_) return;
            topology_version_ = news.version;
            scheduler_ = news.scheduler;
            review_mark(news);
            know_stores(news.stores);
            know_homes(news.frontends);
            report_now(); // a new scheduler knows nothing of us
          },
          [this](status_query& query) { return status(query.with_requests); },
          [this](migrate_order& order) { return respond(migrate(std::move(order))); },
          [this](open_migration& wish) { return respond(open(std::move(wish))); },
          [this](look_order& order) { return look(order); },
          [this](park_order& order) { return respond(park(order)); },
          [this](resume_order& order) { resume(order); },
          [this](release_order& order) { release(order); },
          [this](settle_order& order) { return respond(settle_ownership(order)); },
          [this](migration_news& news) {
            const auto found = outgoing_.find(news.status.request);
            if (found != outgoing_.end() && found->second.migration == news.status.migration)
              found->second.status = std::move(news.status);
          },
          [this](source_ended& news) { source_ended_with(news.report); },
          [this](reserve_order& order) { return reserve(order); },
          [this](return_order& order) { give_back(order); },
          [this](adopt_order& order) { return respond(adopt(std::move(order))); },
          [this](migration_mark& order) { take_mark(order); },
          [this](drain_order& order) { drain(order); },
          [this](role_order& order) { take_role(order.role); }};
}

// A planner that met its own bug, or a coroutine that failed, leaves books that nobody can trust.
void llumlet::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  quit(runtime::stop_reason::failed);
}

void llumlet::on_stop() { withdraw_loads(); }

task<void> llumlet::bring_up() {
  auto facts = co_await ask(options_.instance, options_.load_timeout, load_model{});
  if (!facts) co_return give_up(facts.error().message);
  facts_ = std::move(*facts);
  if (facts_.executor) {
    adapters_ = facts_.executor->adapters();
    swap_ = facts_.executor->swap();
  }
  auto settings = options_.planner;
  settings.blocks = facts_.blocks;
  settings.swap_slots = swap_ ? swap_->slots() : 0;
  settings.vocabulary = facts_.vocabulary;
  if (!facts_.drafts) settings.speculation.model_max = 0;
  settings.steps_max = std::max(facts_.steps_max, 1U);
  if (settings.eos.empty()) settings.eos = facts_.eos;
  settings.context_length =
      settings.context_length == 0 ? facts_.positions_max : std::min(settings.context_length, facts_.positions_max);
  const auto profiled = co_await profile_headroom(settings);
  if (!profiled) co_return;
  settings.headroom_profiled = *profiled;
  settings.load_min = options_.store.load_min;
  if (const auto wrong = settings.validate(); !wrong.empty()) co_return give_up(wrong);
  planner_.emplace(std::move(settings));
  if (options_.migration.fabric && facts_.executor)
    memory_ = std::make_shared<const kv_memory>(std::exchange(facts_.executor, nullptr));
  if (memory_) stored_memory_ = memory_->even();
  kv_kind_ =
      runtime::detail::fnv1a(memory_ ? facts_.kv_layout : "none of instance " + std::to_string(options_.id.value()));
  review_store();
  options_.log.info("instance {}: {}, {} KV blocks of {} tokens, context {}", options_.id.value(), facts_.device,
                    facts_.blocks, protocols::tokens_per_block, planner_->settings().context_length);
  const auto tokens = std::uint64_t{facts_.blocks} * protocols::tokens_per_block;
  if (tokens < planner_->settings().context_length)
    options_.log.warning(
        "instance {}: its KV cache holds {} tokens; a request that grows beyond them ends with an error "
        "there, though the context has {}",
        options_.id.value(), tokens, planner_->settings().context_length);
  if (options_.node) tell(options_.node, instance_ready{options_.id, options_.generation});
  start(heartbeat());
}

void llumlet::give_up(const std::string& why) {
  if (options_.node)
    tell(options_.node, instance_failed{options_.id, options_.generation, why});
  else
    options_.log.error("instance {} cannot start: {}", options_.id.value(), why);
  quit(runtime::stop_reason::failed);
}

task<void> llumlet::heartbeat() {
  for (;;) {
    report_now();
    end_overdue_migrations();
    co_await sleep_for(options_.report_interval);
  }
}

protocols::admission llumlet::admit(generate_order order, std::uint32_t stored, held_adapter adapter) {
  const auto id = order.request.request;
  if (!planner_ || terminating_) return {id, order.request.epoch, protocols::refusal::not_ready, 0};
  // Before the planner is asked: it may end an earlier epoch of this request, or this one, at once.
  const auto before = note_home(id, order.home, std::move(adapter));
  const auto answer = planner_->admit(std::move(order.request), stored);
  auto effects = planner_->take_effects();
  const bool freed = !effects.gone.empty(); // an earlier epoch of it, whose blocks others may wait for
  settle(std::move(effects));
  if (!answer.accepted()) {
    refuse_home(id, before);
    if (!freed) return answer;
  }
  report_soon();
  wake();
  return answer;
}

llumlet::stay llumlet::note_home(protocols::request_id id, const home& whom, held_adapter adapter) {
  auto& entry = homes_[id];
  if (entry.admissions++ > 0) leave(entry.by);
  entry.by = whom;
  entry.adapter = std::move(adapter);
  const auto before = std::exchange(static_cast<stay&>(entry), {});
  entry.since = now();
  auto& books = books_[whom];
  if (books.requests++ == 0) books.monitor = monitor(whom, [this, whom](runtime::stop_reason) { home_down(whom); });
  return before;
}

void llumlet::cancel(const protocols::cancel_request& order) {
  if (!planner_) return;
  for (auto* waiting : {&looking_, &fetching_})
    for (auto& one : *waiting)
      if (one.request == order.request && one.epoch <= order.epoch) one.cancelled = true;
  planner_->cancel(order);
  settle(planner_->take_effects());
  report_soon();
  wake(); // its blocks may be what others wait for
  tell_when_drained();
}

void llumlet::home_down(const home& whom) {
  options_.log.warning("a home is gone; dropping its requests");
  drop_those([&whom](protocols::request_id, const auto& entry) { return entry.by == whom; });
}

template <class Which> void llumlet::drop_those(const Which& which) {
  std::vector<protocols::request_id> theirs;
  for (const auto& [id, entry] : homes_)
    if (which(id, entry)) theirs.push_back(id);
  if (theirs.empty()) return;
  std::ranges::sort(theirs); // simulated runs must not depend on hashing
  for (const auto id : theirs) {
    planner_->cancel({id, protocols::epoch{~std::uint32_t{0}}});
    settle(planner_->take_effects());
  }
  wake();
  tell_when_drained();
}

// Whoever has asked before it was named is not among those that are gone. That a home's actor is down is heard as well,
// but not where it came back in time for its handle to be taken for the one before.
void llumlet::know_homes(const std::vector<frontend_entry>& named) {
  std::set<std::uint16_t> now_named;
  for (const auto& entry : named) now_named.insert(entry.home);
  for (const auto home : named_homes_) {
    if (now_named.contains(home)) continue;
    dispatched_elsewhere_.erase(home);
    drop_those([home](protocols::request_id id, const auto&) { return protocols::home_of(id) == home; });
  }
  named_homes_ = std::move(now_named);
}

void llumlet::wake() {
  if (planner_->has_work()) begin_steps();
}

// Not while one is being planned: steps are to reach the instance in their order.
void llumlet::begin_steps() {
  while (!planning_ && steps_ < planner_->settings().steps_max) {
    const auto before = steps_++;
    start(run_steps());
    if (steps_ == before) break; // there was none
  }
}

task<void> llumlet::run_steps() {
  for (;;) {
    planning_ = true;
    if (!putting_.empty() && planner_->lacks_blocks()) let_go_of_puts();
    const auto began = now();
    auto input = planner_->plan();
    // Whoever was preempted may have had blocks that a put has, too: nobody else has them now.
    if (!input && !putting_.empty() && planner_->lacks_blocks() && let_go_of_puts()) input = planner_->plan();
    if (!input) break;
    settle(planner_->take_effects());
    planning_ = false;
    const auto steps_max = planner_->settings().steps_max;
    auto output = co_await ask(options_.instance, options_.step_timeout * steps_max, std::move(*input));
    if (!output) {
      options_.log.error("instance {} failed in a step: {}", options_.id.value(), output.error().message);
      quit(runtime::stop_reason::failed);
      co_return;
    }
    const auto alone = now() - std::max(began, std::exchange(step_ended_, now()));
    planning_ = true; // first this one's end
    settle(planner_->complete(*output, (now() - began).count(), steps_max == 1 ? -1 : alone.count()));
    hand_over();
    if (options_.recount) recount();
    report_soon();
    if (steps_max == 1) continue;
    planning_ = false;
    --steps_; // others may have waited for what this one had
    begin_steps();
    co_return;
  }
  settle(planner_->take_effects());
  planning_ = false;
  if (--steps_ > 0) co_return;
  report_now();
  tell_when_drained();
}

void llumlet::settle(protocols::step_effects effects) {
  if (effects.empty()) return;
  if (options_.on_preempted)
    for (const auto id : effects.preempted) {
      const bool swapped = std::ranges::find(effects.swaps, id, &protocols::swap_order::request) != effects.swaps.end();
      tell_watcher(context(), "on_preempted", [&] {
        options_.on_preempted({id, planner_->answer_tokens(id), swapped});
      });
    }
  for (const auto id : effects.begun)
    if (const auto found = homes_.find(id); found != homes_.end()) found->second.queued += now() - found->second.since;
  std::map<home, protocols::token_updates> letters;
  std::vector<protocols::request_id> finished;
  for (auto& update : effects.updates) {
    if (update.finished()) finished.push_back(update.request);
    const auto found = homes_.find(update.request);
    if (found == homes_.end()) continue;
    if (update.first_index == 0) update.queue_ns = found->second.queued.count();
    auto& letter = letters[found->second.by];
    letter.instance = options_.id;
    if (letter.updates.empty()) letter.updates.reserve(effects.updates.size()); // most often there is one home
    letter.updates.push_back(std::move(update));
  }
  for (auto& [whom, letter] : letters) tell(whom, std::move(letter));
  const bool swaps = !to_swap_out_.empty() || !to_swap_in_.empty();
  if (swaps && (!effects.gone.empty() || !effects.parked.empty())) drop_swaps();
  tell_coordinators(finished, effects);
  for (const auto id : effects.gone) forget_home(id);
  for (auto& news : effects.computed) put_later(std::move(news));
  for (auto& order : effects.swaps) swap_out_later(std::move(order));
  for (auto& order : effects.loads) {
    if (order.swap != 0)
      swap_in_later(std::move(order));
    else
      start(load_kv(std::move(order)));
  }
}

void llumlet::forget_home(protocols::request_id id) {
  const auto found = homes_.find(id);
  if (found == homes_.end() || --found->second.admissions > 0) return;
  leave(found->second.by);
  homes_.erase(found);
}

void llumlet::refuse_home(protocols::request_id id, const stay& before) {
  forget_home(id);
  if (const auto found = homes_.find(id); found != homes_.end()) static_cast<stay&>(found->second) = before;
}

void llumlet::leave(const home& whom) {
  const auto books = books_.find(whom);
  if (books == books_.end() || --books->second.requests > 0) return;
  demonitor(books->second.monitor);
  books_.erase(books);
}

void llumlet::report_soon() {
  if (now() - last_report_ >= options_.report_gap) report_now();
}

void llumlet::report_now() {
  if (!planner_) return;
  last_report_ = now();
  const auto report = load();
  if (options_.on_report) tell_watcher(context(), "on_report", [&] { options_.on_report(report); });
  if (scheduler_) tell(scheduler_, report);
}

protocols::load_report llumlet::load() {
  auto report = planner_ ? planner_->load() : protocols::load_report{};
  report.instance = options_.id;
  report.generation = options_.generation;
  report.sequence = ++reports_;
  report.dispatched = dispatched_;
  for (const auto& [from, number] : dispatched_elsewhere_) report.dispatched_elsewhere.emplace_back(from, number);
  auto& held = report.held_back;
  for (const auto* waiting : {&looking_, &fetching_})
    for (const auto& one : *waiting)
      if (one.dispatch != 0) held.push_back(one.dispatch);
  std::ranges::sort(held);
  if (constexpr auto most = protocols::load_report::held_back_max; held.size() > most) {
    const auto counted = held[most] - 1; // the rest, and what came after them, as if they were on their way
    report.dispatched = std::min(report.dispatched, counted);
    for (auto& [from, number] : report.dispatched_elsewhere) number = std::min(number, counted);
    held.resize(most);
  }
  report.ready = planner_.has_value();
  report.terminating = terminating_;
  report.kv_kind = kv_kind_;
  report.role = options_.role;
  return report;
}

void llumlet::recount() const {
  std::vector<protocols::block_id> held;
  for (const auto& [id, out] : outgoing_) held.insert(held.end(), out.held.begin(), out.held.end());
  for (const auto& [number, in] : loading_) held.insert(held.end(), in.blocks.begin(), in.blocks.end());
  for (const auto& out : putting_) held.insert(held.end(), out.blocks.table().begin(), out.blocks.table().end());
  planner_->check(held);
}

protocols::instance_status llumlet::status(bool with_requests) {
  protocols::instance_status out;
  out.instance = options_.id;
  out.state = terminating_ ? protocols::instance_state::draining
              : planner_   ? protocols::instance_state::ready
                           : protocols::instance_state::starting;
  out.node = options_.node_address;
  out.device = facts_.device;
  out.restarts = options_.restarts;
  out.uptime_ns = (now() - started_).count();
  out.load = load();
  out.headroom_profiled = planner_ ? planner_->settings().headroom_profiled : 0;
  if (options_.recount && planner_) recount();
  if (with_requests && planner_) out.requests = planner_->requests();
  for (const auto& [id, migration] : outgoing_) out.migrations.push_back(migration.status);
  return out;
}

} // namespace godwit::actors
