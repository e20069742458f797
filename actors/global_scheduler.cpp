#include <godwit/actors/global_scheduler.hpp>

#include "milliseconds.hpp"
#include "recorded_decisions.hpp"
#include "watchers.hpp"

#include <godwit/protocols/kv/prefix_marks.hpp>
#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

struct scheduler_metrics::phases {
  std::mutex mutex;
  std::optional<protocols::phase_loads> now;
  runtime::metrics::registry::registration registration;
};

scheduler_metrics::scheduler_metrics(runtime::metrics::registry& registry)
    : rounds(registry.add_counter("godwit_scheduler_rounds_total", "Rounds of migration and autoscaling.")),
      marks(registry.add_counter_family(
          "godwit_scheduler_marks_total",
          "Pairs of instances marked for migration, counted when they were not paired the round before.", {"policy"})),
      scaling(registry.add_counter_family("godwit_scaling_decisions_total",
                                          "Decisions of autoscaling; dry ones are only said.", {"decision", "dry"})),
      phases_(std::make_shared<phases>()) {
  phases_->registration = registry.add_callback_gauges(
      "godwit_phase_load",
      "How much is asked of the instances for prefill, and of those that decode; 1 is as much as is good. Absent as "
      "long as it is not known.",
      [p = phases_.get()] {
        runtime::metrics::registry::samples out;
        const std::lock_guard lock(p->mutex);
        if (p->now) out = {{{{"phase", "prefill"}}, p->now->prefill}, {{{"phase", "decode"}}, p->now->decode}};
        return out;
      });
  for (const auto what : {protocols::scaling_decision::kind::out, protocols::scaling_decision::kind::in})
    for (const auto* dry : {"false", "true"}) (void)scaling.with({std::string(to_string(what)), dry});
  using why = protocols::migration_cause::kind;
  for (const auto what : {why::freeness, why::defrag, why::drain, why::handoff})
    (void)marks.with({std::string(to_string(what))});
}

void scheduler_metrics::tell(std::optional<protocols::phase_loads> loads) noexcept {
  const std::lock_guard lock(phases_->mutex);
  phases_->now = loads;
}

global_scheduler::global_scheduler(runtime::actor_context context, scheduler_options options)
    : actor(context), options_(std::move(options)), dispatcher_(dispatcher_called(options_.policies.dispatch)),
      line_(options_.queries_max), autoscaler_(options_.scaling), balancer_(options_.roles) {
  autoscaler_.set_mode(options_.policies.scaling);
  tell_of_policies();
}

std::vector<std::string_view> scheduler_options::dispatcher_names() const {
  auto names = protocols::dispatcher_names();
  for (const auto& [name, make] : dispatchers) names.emplace_back(name);
  return names;
}

std::unique_ptr<protocols::dispatcher> global_scheduler::dispatcher_called(const std::string& name) const {
  auto made = protocols::make_dispatcher(name);
  if (const auto own = options_.dispatchers.find(name); !made && own != options_.dispatchers.end())
    made = own->second();
  if (!made) throw std::invalid_argument("no dispatch policy is called " + name);
  return made;
}

runtime::behavior_of<scheduler_own_interface> global_scheduler::make_behavior() {
  // A predecessor has made fewer decisions than nanoseconds went by, so that no report counts one of ours for one of
  // its.
  dispatches_from_ = static_cast<std::uint64_t>(now().count());
  start(run_rounds());
  return {[this](protocols::load_report& report) { take_report(report); },
          [this](dispatch_query& query) { return respond(stand_in_line(query)); },
          [this](decide_queued&) { decide_all(); },
          [this](topology& news) { adopt(news); },
          [this](status_query&) { return view(); },
          [this](scheduling_policies& wish) { switch_policies(wish); }};
}

// --- what is known

void global_scheduler::take_report(const protocols::load_report& report) {
  // The last report of an instance that died may come after the news of its death.
  auto* const found = find(report.instance);
  if (found == nullptr) return;
  auto& books = *found;
  if (!books.ready || books.generation != report.generation || report.sequence <= books.report.sequence) return;
  books.report = report;
  books.heard = now();
  feed(books);
  if (options_.on_report) tell_watcher(context(), "on_report", [&] { options_.on_report(report); });
}

// The head's word that an instance drains counts before the instance's own.
void global_scheduler::feed(instance_books& books) {
  auto report = books.report;
  report.terminating = report.terminating || books.draining;
  // Its numbers are the dispatcher's own, from 1.
  if (report.dispatched != protocols::load_report{}.dispatched)
    report.dispatched -= std::min(report.dispatched, dispatches_from_);
  for (auto& [home, number] : report.dispatched_elsewhere) number -= std::min(number, dispatches_from_);
  std::erase_if(report.held_back, [this](std::uint64_t number) { return number <= dispatches_from_; });
  for (auto& number : report.held_back) number -= dispatches_from_;
  dispatcher_->report(report);
  books.fresh = true;
}

// A thousand instances report many times a second: searched for in a dense list, not along a tree.
global_scheduler::instance_books* global_scheduler::find(protocols::instance_id id) noexcept {
  const auto at = std::ranges::lower_bound(by_id_, id, {}, [](const auto& entry) { return entry.first; });
  return at != by_id_.end() && at->first == id ? at->second : nullptr;
}

void global_scheduler::adopt(const topology& news) {
  if (news.version <= topology_version_) return;
  topology_version_ = news.version;
  ordered_ = news.ordered;
  std::set<protocols::instance_id> there;
  for (const auto& entry : news.instances) there.insert(entry.instance);
  for (auto known = instances_.begin(); known != instances_.end();) {
    if (!there.contains(known->first)) {
      dispatcher_->remove(known->first);
      known = instances_.erase(known);
    } else {
      ++known;
    }
  }
  for (const auto& entry : news.instances) {
    auto& books = instances_[entry.instance];
    const bool other = books.generation != entry.generation || books.ready != entry.ready;
    const bool turned = books.draining != entry.draining;
    books.generation = entry.generation;
    books.ready = entry.ready;
    books.draining = entry.draining;
    books.llumlet = entry.llumlet;
    if (!other && !turned) continue;
    dispatcher_->remove(entry.instance); // takes what is not newer only for one that it does not know
    if (other) {
      // Idle, until its first report says otherwise.
      books.report = {entry.instance, entry.generation, 0, true};
      books.report.role = entry.role;
      books.heard = now();
    }
    if (entry.ready && (other || books.fresh)) feed(books);
    if (!entry.ready) books.fresh = false;
  }
  by_id_.clear();
  for (auto& [id, books] : instances_) by_id_.emplace_back(id, &books);
}

void global_scheduler::expire() {
  expired_ = now();
  for (auto& [id, books] : instances_) {
    if (!books.fresh || now() - books.heard < options_.stale_after) continue;
    books.fresh = false;
    dispatcher_->set_stale(id, true);
    options_.log.warning("instance {} has not reported for {} ms", id.value(), milliseconds_of(now() - books.heard));
  }
}

void global_scheduler::switch_policies(scheduling_policies wish) {
  if (wish == options_.policies) return;
  if (wish.dispatch != options_.policies.dispatch) {
    std::unique_ptr<protocols::dispatcher> next;
    if (guarded("making of the dispatch policy " + wish.dispatch, [&] { next = dispatcher_called(wish.dispatch); })) {
      next->take_over(*dispatcher_);
      dispatcher_ = std::move(next);
    } else { // the rest of the wish is none the worse for it
      wish.dispatch = options_.policies.dispatch;
    }
  }
  const bool pairing =
      wish.migration != options_.policies.migration || wish.migration_paused != options_.policies.migration_paused;
  options_.policies = wish;
  tell_of_policies();
  autoscaler_.set_mode(wish.scaling);
  if (pairing) pair_up(loads());
}

void global_scheduler::tell_of_policies() {
  dispatcher_->set_handoff(options_.policies.hands_over());
  dispatcher_->set_moves(options_.policies.makes_room());
  // Of an embedder who decides, it only measures.
  balancer_.set_policy(follows_load() && !options_.balance ? protocols::role_policy::balance
                                                           : protocols::role_policy::fixed);
}

scheduler_view global_scheduler::view() const {
  scheduler_view out;
  auto& s = out.scheduling;
  s.scheduler_up = true;
  s.dispatch_policy = options_.policies.dispatch;
  s.migration_policy = to_string(options_.policies.migration);
  s.migration_paused = options_.policies.migration_paused;
  s.scaling = to_string(options_.policies.scaling);
  s.rounds_total = rounds_;
  s.marks_total = marks_;
  s.mean_freeness = protocols::finite(autoscaler_.mean_freeness());
  s.scaling_last = scaling_last_;
  s.roles = to_string(options_.policies.roles);
  if (const auto phases = balancer_.loads()) {
    s.phases_known = true;
    s.prefill_load = phases->prefill;
    s.decode_load = phases->decode;
  }
  for (const auto& pair : marked_) {
    const auto source = instances_.find(pair.source), destination = instances_.find(pair.destination);
    if (source == instances_.end() || destination == instances_.end()) continue;
    const auto& load = source->second.report; // what would hand over if it had something says nothing
    const bool idle = std::uint64_t{load.running} + load.waiting + load.migrating == 0;
    if (!idle || !protocols::hands_over(load, destination->second.report))
      s.pairs.emplace_back(pair.source, pair.destination);
  }
  for (const auto& [id, books] : instances_) {
    if (books.ready) out.reports.push_back(books.report);
    const auto picked = dispatcher_->picked(id);
    if (picked == protocols::dispatcher::picked_load{}) continue;
    auto& load = out.under_way.emplace_back();
    load.instance = id;
    load.requests = picked.requests;
    load.blocks = picked.blocks;
    load.headroom = picked.headroom;
  }
  return out;
}

void global_scheduler::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  quit(runtime::stop_reason::failed);
}

// --- dispatch

task<dispatch_decision> global_scheduler::stand_in_line(dispatch_query query) {
  const auto stand = [this, &query](runtime::completer<dispatch_decision> done) {
    if (line_.empty()) tell(self(), decide_queued{}); // behind all that are in the mailbox now
    const auto too_many = line_.push(query.priority, query.arrival_ns, {std::move(query), std::move(done)});
    if (!too_many) return;
    dispatch_decision full;
    full.overloaded = true;
    too_many->done(std::move(full));
  };
  auto decision = co_await callback<dispatch_decision>(stand);
  if (decision) co_return std::move(*decision);
  dispatch_decision none; // of one that fails
  none.stale = true;
  co_return none;
}

void global_scheduler::decide_all() {
  if (now() - expired_ >= options_.stale_after / 8) expire();
  while (const auto next = line_.pop()) {
    auto decision = decide(next->query);
    note_dispatch(next->query, decision, dispatcher_->reports());
    next->done(std::move(decision));
  }
}

dispatch_decision global_scheduler::decide(const dispatch_query& query) {
  protocols::dispatch_demand demand;
  demand.tokens = query.prompt_tokens;
  demand.execution_level = query.execution_level;
  demand.home = query.home;
  // Not where it has just failed to get to.
  if (query.failed == 0 || query.refused)
    demand.prefix = std::span(query.prefix).first(std::min(query.prefix.size(), protocols::prefix_marks_max));
  if (const auto count = options_.levels.size(); count > 0) { // beyond the last one counts as the last, as everywhere
    demand.execution_level = static_cast<std::uint8_t>(std::min<std::size_t>(query.execution_level, count - 1));
    demand.headroom = options_.levels[demand.execution_level].headroom;
  }
  demand.objectives = query.objectives;
  demand.request = query.request;
  demand.answer_tokens_max = query.answer_tokens_max;
  demand.adapter = query.adapter;
  demand.salt = query.salt;
  demand.in_queue = protocols::queued_request{.priority = query.priority,
                                              .arrival_ns = query.arrival_ns,
                                              .begun = query.begun,
                                              .prompt_tokens = query.prompt_tokens,
                                              .expected_tokens = query.expected_tokens,
                                              .ttft_ns = query.ttft_ns};
  // It was counted as load where it never came to, and who tries again soon fills a queue by itself.
  if (query.failed > dispatches_from_) dispatcher_->take_back(query.failed_at, query.failed - dispatches_from_, demand);
  using lack = protocols::dispatcher::lack;
  std::optional<protocols::dispatch_choice> picked;
  auto why = lack::sense;
  const bool decided = guarded("the dispatch policy", [&] {
    picked = dispatcher_->pick(demand);
    if (!picked) why = dispatcher_->why_none();
  });
  if (picked) {
    const auto* const found = find(picked->instance);
    if (found == nullptr) return {};
    auto decision = dispatch_decision{picked->instance, found->generation};
    decision.number = dispatches_from_ + picked->number;
    decision.why = std::move(picked->why);
    return decision;
  }
  dispatch_decision none;
  none.overloaded = why == lack::full;
  none.late = why == lack::late;
  if (none.late) {
    const auto expected = dispatcher_->least_expected();
    none.ttft_ns = static_cast<std::int64_t>(expected.ttft_ns);
    none.tpot_ns = static_cast<std::int64_t>(expected.tpot_ns);
    crowded_out_ += expected.alone ? 1 : 0;
  }
  none.stale = why == lack::stale || why == lack::sense; // homes dispatch without it
  if (decided && why == lack::sense)
    blame("the dispatch policy", "it chose what is no place, or not eligible, or gave no finite rating");
  return none;
}

// Of what an embedder wrote. The same is not said again, and what is wrong in another way each time not each time.
void global_scheduler::blame(std::string_view what, std::string why) {
  const auto known = blamed_.find(what);
  if (known != blamed_.end() && (known->second.why == why || now() - known->second.at < blame_pause)) return;
  const auto& said = blamed_.insert_or_assign(std::string(what), failed_part{std::move(why), now()}).first->second.why;
  const auto line = std::string(what) + " failed: " + said;
  tell_failure(context(), options_.log, options_.on_failure, line);
}

} // namespace godwit::actors
