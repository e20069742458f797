#include <godwit/actors/llumlet.hpp>

#include "watchers.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The llumlet's part in scheduling: which requests leave while its instance is marked as a source, and how an instance
/// becomes empty.
namespace godwit::actors {

using protocols::migration_cause;
using runtime::async::task;

void llumlet::take_mark(migration_mark& order) {
  const auto before = std::exchange(mark_, std::nullopt);
  if (!planner_) return;
  if (order.why == migration_cause::kind::handoff && options_.role != protocols::instance_role::prefill)
    return; // any more
  mark fresh;
  fresh.round = order.round;
  fresh.why = order.why;
  fresh.ends = now() + std::chrono::nanoseconds(order.lease_ns);
  // A destination tells of what came to it, but the mark's report may be older than that.
  forget_deliveries();
  for (auto& one : order.destinations) {
    if (!one.llumlet || one.to == options_.id) continue;
    for (const auto& sent : delivered_)
      if (sent.to == one.to) account_arrival(one.load, sent.what);
    auto& there = fresh.destinations.emplace_back();
    if (before)
      for (const auto& known : before->destinations)
        if (known.to == one.to) there.busy_steps = known.busy_steps, there.busy_pause = known.busy_pause;
    static_cast<mark_destination&>(there) = std::move(one);
  }
  if (fresh.destinations.empty()) return;
  mark_ = std::move(fresh);
  move_by_mark();
}

void llumlet::forget_deliveries() {
  while (!delivered_.empty() && delivered_.front().at < now() - options_.report_interval) delivered_.pop_front();
}

void llumlet::review_mark(const topology& news) {
  if (!mark_) return;
  if (!news.scheduler) return mark_.reset();
  std::erase_if(mark_->destinations, [&](const destination& one) {
    const auto* entry = news.find(one.to);
    return entry == nullptr || !entry->takes_requests() || entry->llumlet != one.llumlet;
  });
  if (mark_->destinations.empty()) mark_.reset();
}

bool llumlet::marked() const { return mark_ && now() < mark_->ends; }

// What is prefilled has no reason to wait for what leaves before it.
void llumlet::move_by_mark() {
  const bool hands_over = mark_->why == migration_cause::kind::handoff;
  const auto most = hands_over ? out_max() : 1;
  while (movers_ < most) {
    ++movers_;
    const auto before = outgoing_.size();
    start(move_marked());
    if (outgoing_.size() == before) break; // nothing more is to move
  }
}

// A prompt may be ready, and a destination that was busy may be no longer.
void llumlet::hand_over() {
  if (!marked() || mark_->failed || mark_->why != migration_cause::kind::handoff) return;
  for (auto& one : mark_->destinations)
    if (one.busy_steps > 0) --one.busy_steps;
  move_by_mark();
}

// Until nothing is worth moving, or a move fails: the next round's mark, with fresh numbers, begins anew.
task<void> llumlet::move_marked() {
  while (auto next = choose()) {
    const auto& choice = next->choice;
    auto order = migrate_order{choice.request, choice.epoch, next->to, next->llumlet};
    order.cause.what = terminating_ ? migration_cause::kind::drain : mark_->why;
    order.cause.round = mark_->round;
    order.cause.source_before = protocols::finite(choice.source_before);
    order.cause.source_after = protocols::finite(choice.source_after);
    order.cause.destination_before = protocols::finite(choice.destination_before);
    order.cause.destination_after = protocols::finite(choice.destination_after);
    const auto on_the_way = leaving_.insert(leaving_.end(), {now(), next->to, choice});
    const auto report = co_await migrate(std::move(order));
    const auto sent = *on_the_way;
    leaving_.erase(on_the_way);
    if (!report.committed() && !goes_on_after(report)) break;
    if (!report.committed()) continue;
    forget_deliveries();
    delivered_.push_back({now(), sent.to, sent.what});
    // A mark that came meanwhile has its numbers from before this arrival.
    if (auto* const there = destination_of(sent.to)) {
      account_arrival(there->load, sent.what);
      there->busy_pause = 0;
    }
  }
  --movers_;
}

llumlet::destination* llumlet::destination_of(protocols::instance_id id) {
  if (!mark_) return nullptr;
  const auto found = std::ranges::find(mark_->destinations, id, &destination::to);
  return found == mark_->destinations.end() ? nullptr : &*found;
}

// What is handed over may have ended, or go elsewhere; other failures may be anybody's.
bool llumlet::goes_on_after(const protocols::migration_report& report) {
  using enum protocols::migration_reason;
  if (!mark_) return false;
  if (report.reason == no_adapter) { // others have other ones, or none
    auto* const there = destination_of(report.destination);
    const auto here = homes_.find(report.request);
    if (there != nullptr && here != homes_.end()) there->lacks.insert(here->second.adapter.which.id);
    return there != nullptr;
  }
  if (mark_->why == migration_cause::kind::handoff) {
    if (report.reason == request_finished || report.reason == request_cancelled || report.reason == request_preempted)
      return true;
    if (auto* const there = destination_of(report.destination)) {
      there->full = there->full || report.reason == destination_full;
      if (report.reason == destination_busy && there->busy_steps == 0)
        there->busy_steps = there->busy_pause = std::clamp(2 * there->busy_pause, 1U, busy_pause_max);
      if (report.reason == destination_busy || report.reason == destination_full) return true;
    }
  }
  if (report.cause.round == mark_->round) mark_->failed = true;
  return false;
}

std::optional<llumlet::next_move> llumlet::choose() {
  if (!marked() || outgoing_.size() >= out_max()) return std::nullopt;
  std::vector<protocols::move_candidate> candidates;
  for (auto& c : planner_->move_candidates()) {
    const auto here = homes_.find(c.request);
    if (here == homes_.end() || outgoing_.contains(c.request)) continue;
    if (here->second.moved) c.settled_ns = (now() - *here->second.moved).count();
    c.failed = here->second.move_failed;
    candidates.push_back(c);
  }
  auto load_here = planner_->load();
  load_here.ready = true;
  load_here.terminating = terminating_;
  load_here.role = options_.role;
  std::vector<mark_destination> open;
  for (const auto& one : mark_->destinations) {
    const auto goes_there = [&](const arrival& other) { return other.to == one.to; };
    if (one.busy_steps > 0 || one.full) continue;
    if (one.busy_pause > 0 && std::ranges::any_of(leaving_, goes_there)) continue; // one asks for all
    auto& there = open.emplace_back(one);
    for (const auto& other : leaving_)
      if (other.to == one.to) account_arrival(there.load, other.what);
  }
  std::ranges::stable_sort(open, std::greater{}, [](const auto& one) { return protocols::freeness(one.load); });
  for (const auto& there : open) {
    const auto& lacks = destination_of(there.to)->lacks;
    auto some = candidates;
    if (!lacks.empty())
      std::erase_if(some, [&](const auto& c) { return lacks.contains(homes_.at(c.request).adapter.which.id); });
    if (auto choice = choose_among(some, load_here, there.load)) return next_move{there.to, there.llumlet, *choice};
  }
  return std::nullopt;
}

// Who has to leave, and what is handed over, does so by the built-in rule.
std::optional<protocols::move_choice> llumlet::choose_among(const std::vector<protocols::move_candidate>& some,
                                                            const protocols::load_report& here,
                                                            const protocols::load_report& there) {
  if (!options_.move || terminating_ || mark_->why == migration_cause::kind::handoff)
    return choose_move(some, here, there, options_.selection);
  const auto moves = possible_moves(some, here, there, options_.selection);
  if (moves.empty()) return std::nullopt;
  try {
    const auto chosen = options_.move(moves, here, there);
    if (!chosen) return std::nullopt;
    if (*chosen < moves.size()) return moves[*chosen].outcome;
    blame("it chose what is none of the moves");
  } catch (...) {
    blame(runtime::detail::describe(std::current_exception()).message);
  }
  return std::nullopt;
}

void llumlet::blame(std::string why) {
  if (blamed_ && (blamed_->why == why || now() - blamed_->at < blame_pause)) return;
  blamed_ = failed_choice{std::move(why), now()};
  tell_failure(context(), options_.log, options_.on_failure,
               "instance " + std::to_string(options_.id.value()) +
                   ": the choice of what moves failed: " + blamed_->why);
}

// What it has of its former role goes on: prompts are computed, and what decodes leaves a prefill instance by the next
// mark. One that holds was about the former role.
void llumlet::take_role(protocols::instance_role role) {
  if (role == options_.role) return;
  options_.log.info("instance {}: for {} now, no longer for {}", options_.id.value(), to_string(role),
                    to_string(options_.role));
  options_.role = role;
  if (mark_ && mark_->why == migration_cause::kind::handoff) mark_.reset();
  report_now();
}

std::uint32_t llumlet::out_max() const noexcept {
  const auto& bounds = options_.migration.settings;
  return options_.role == protocols::instance_role::prefill ? std::max(bounds.out_max, bounds.handoff_max)
                                                            : bounds.out_max;
}

std::uint32_t llumlet::in_max() const noexcept {
  const auto& bounds = options_.migration.settings;
  return options_.role == protocols::instance_role::decode ? std::max(bounds.in_max, bounds.handoff_max)
                                                           : bounds.in_max;
}

void llumlet::drain(const drain_order& order) {
  if (order.drains != terminating_)
    options_.log.info("instance {}: {}", options_.id.value(),
                      order.drains ? "takes no more requests, and ends when it has none" : "takes requests again");
  terminating_ = order.drains;
  drain_order_ = order.order;
  drained_told_ = false;
  report_now();
  tell_when_drained();
}

bool llumlet::empty() const {
  return (!planner_ || planner_->idle()) && steps_ == 0 && outgoing_.empty() && incoming_.empty() && adopting_ == 0 &&
         opening_ == 0 && looking_.empty() && fetching_.empty() && loading_.empty();
}

void llumlet::tell_when_drained() {
  if (!terminating_ || drained_told_ || !empty()) return;
  drained_told_ = true;
  options_.log.info("instance {}: has no requests left", options_.id.value());
  if (options_.node) tell(options_.node, instance_drained{options_.id, options_.generation, drain_order_});
}

} // namespace godwit::actors
