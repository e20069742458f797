#include <godwit/actors/llumlet.hpp>

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <utility>

/// The llumlet's part in scheduling: which requests leave while its instance is marked as a source, and how an instance
/// becomes empty.
namespace godwit::actors {

using protocols::migration_cause;
using runtime::async::task;

void llumlet::take_mark(migration_mark& order) {
  if (!order.destination || order.to == options_.id || !planner_) {
    mark_.reset();
    return;
  }
  mark fresh;
  fresh.ends = now() + std::chrono::nanoseconds(order.lease_ns);
  fresh.destination = order.load;
  fresh.order = std::move(order);
  // The destination tells of what came to it, but the mark's report may be older than that.
  forget_deliveries();
  for (const auto& sent : delivered_)
    if (sent.to == fresh.order.to) account_arrival(fresh.destination, sent.what);
  mark_ = std::move(fresh);
  move_by_mark();
}

void llumlet::forget_deliveries() {
  while (!delivered_.empty() && delivered_.front().at < now() - options_.report_interval) delivered_.pop_front();
}

void llumlet::review_mark(const topology& news) {
  if (!mark_) return;
  const auto* entry = news.find(mark_->order.to);
  const bool there = entry != nullptr && entry->takes_requests() && entry->llumlet == mark_->order.destination;
  if (!news.scheduler || !there) mark_.reset();
}

const llumlet::mark* llumlet::marked() const { return mark_ && now() < mark_->ends ? &*mark_ : nullptr; }

bool llumlet::hands_over() const {
  return marked() != nullptr && !terminating_ && mark_->order.why == migration_cause::kind::handoff;
}

// What has been prefilled has no reason to wait for what leaves before it.
void llumlet::move_by_mark() {
  const auto most = hands_over() ? options_.migration.settings.out_max : 1;
  while (movers_ < most) {
    ++movers_;
    const auto before = outgoing_.size();
    start(move_marked());
    if (outgoing_.size() == before) break; // nothing more is to move
  }
}

// Until nothing is worth moving, or a move fails: the next round's mark, with fresh numbers, begins anew.
task<void> llumlet::move_marked() {
  while (auto choice = choose()) {
    auto order = migrate_order{choice->request, choice->epoch, mark_->order.to, mark_->order.destination};
    order.cause.what = terminating_ ? migration_cause::kind::drain : mark_->order.why;
    order.cause.round = mark_->order.round;
    order.cause.source_before = protocols::finite(choice->source_before);
    order.cause.source_after = protocols::finite(choice->source_after);
    order.cause.destination_before = protocols::finite(choice->destination_before);
    order.cause.destination_after = protocols::finite(choice->destination_after);
    const auto to = order.to;
    const auto report = co_await migrate(std::move(order));
    if (!report.committed()) {
      if (mark_) mark_->failed = true;
      break;
    }
    forget_deliveries();
    delivered_.push_back({now(), to, *choice});
    // A mark that came meanwhile has its numbers from before this arrival.
    if (mark_ && mark_->order.to == to) account_arrival(mark_->destination, *choice);
  }
  --movers_;
}

std::optional<protocols::move_choice> llumlet::choose() {
  const auto* const now_marked = marked();
  if (now_marked == nullptr || outgoing_.size() >= options_.migration.settings.out_max) return std::nullopt;
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
  return choose_move(candidates, load_here, now_marked->destination, options_.selection);
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
  return (!planner_ || planner_->idle()) && !stepping_ && outgoing_.empty() && incoming_.empty() && adopting_ == 0;
}

void llumlet::tell_when_drained() {
  if (!terminating_ || drained_told_ || !empty()) return;
  drained_told_ = true;
  options_.log.info("instance {}: has no requests left", options_.id.value());
  if (options_.node) tell(options_.node, instance_drained{options_.id, options_.generation, drain_order_});
}

} // namespace godwit::actors
