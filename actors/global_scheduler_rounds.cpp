#include <godwit/actors/global_scheduler.hpp>

#include "recorded_decisions.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Rounds: which instances exchange requests, and whether there should be more or fewer of them.
namespace godwit::actors {

using protocols::migration_pair;
using protocols::migration_policy;
using runtime::async::task;

namespace {

/// Rounds that a mark outlasts a scheduler that died, or one whose message was late.
constexpr int lease_rounds = 3;

/// Takes out what an embedder's pairing should not have said. Gives the first of it, in one line; empty: nothing.
std::string strike_out_nonsense(std::vector<migration_pair>& pairs, const std::vector<protocols::load_report>& known) {
  std::string said;
  std::set<protocols::instance_id> sources;
  std::optional<migration_pair> before; // that stays
  std::size_t together = 0;             // that stay, of its source
  std::erase_if(pairs, [&](const migration_pair& pair) {
    const auto there = [&](protocols::instance_id id) {
      return std::ranges::binary_search(known, id, {}, &protocols::load_report::instance);
    };
    const auto load_of = [&](protocols::instance_id id) {
      return std::ranges::lower_bound(known, id, {}, &protocols::load_report::instance);
    };
    const auto hands_over = [&](const migration_pair& one) {
      return protocols::hands_over(*load_of(one.source), *load_of(one.destination));
    };
    std::string wrong;
    if (!there(pair.source) || !there(pair.destination))
      wrong = "there is no instance " + std::to_string((there(pair.source) ? pair.destination : pair.source).value());
    else if (pair.source == pair.destination)
      wrong = "it pairs instance " + std::to_string(pair.source.value()) + " with itself";
    else if (!sources.insert(pair.source).second && !(before && before->source == pair.source && hands_over(*before) &&
                                                      hands_over(pair) && together < protocols::handoff_destinations))
      wrong = "instance " + std::to_string(pair.source.value()) + " is the source of two pairs";
    if (wrong.empty()) {
      together = before && before->source == pair.source ? together + 1 : 1;
      before = pair;
    }
    if (said.empty()) said = wrong;
    return !wrong.empty();
  });
  return said;
}

} // namespace

task<void> global_scheduler::run_rounds() {
  for (;;) {
    co_await sleep_for(options_.migration_interval);
    ++rounds_;
    if (options_.metrics) options_.metrics->rounds.increment();
    guarded("a round", [this] { // the next one may go better
      expire();
      auto known = loads();
      pair_up(known);
      balance_roles(known);
      scale(std::move(known));
    });
  }
}

std::vector<protocols::load_report> global_scheduler::loads() const {
  std::vector<protocols::load_report> out;
  out.reserve(instances_.size());
  for (const auto& [id, books] : instances_) {
    if (!books.reported()) continue;
    out.push_back(books.report);
    out.back().terminating = out.back().terminating || books.draining;
  }
  return out;
}

void global_scheduler::pair_up(const std::vector<protocols::load_report>& known) {
  auto settings = options_.pairing;
  settings.policy = options_.policies.migration;
  if (options_.policies.migration_paused && settings.policy != migration_policy::never)
    settings.policy = migration_policy::none; // drains go on
  settings.handoff = options_.policies.hands_over();
  const auto before = std::exchange(marked_, {});
  guarded("the pairing", [&] {
    marked_ =
        options_.pair ? options_.pair(known, settings, rounds_) : protocols::pair_instances(known, settings, rounds_);
  });
  if (options_.pair)
    if (auto wrong = strike_out_nonsense(marked_, known); !wrong.empty()) blame("the pairing", std::move(wrong));
  note_pairing(rounds_, settings.policy, before, marked_, known);
  const auto is_source = [this](protocols::instance_id id) {
    return std::any_of(marked_.begin(), marked_.end(), [id](const auto& pair) { return pair.source == id; });
  };
  for (const auto& pair : before)
    if (!is_source(pair.source)) unmark(pair.source);
  // Those of a source are together.
  for (auto first = marked_.begin(); first != marked_.end();) {
    const auto end =
        std::find_if(first, marked_.end(), [first](const auto& pair) { return pair.source != first->source; });
    mark({first, end}, before);
    first = end;
  }
}

void global_scheduler::mark(std::span<const migration_pair> pairs, const std::vector<migration_pair>& before) {
  const auto source = instances_.find(pairs.front().source);
  if (source == instances_.end() || !source->second.llumlet) return;
  auto load = source->second.report;
  load.terminating = load.terminating || source->second.draining;
  migration_mark message;
  message.round = rounds_;
  message.lease_ns = (options_.migration_interval * lease_rounds).count();
  for (const auto& pair : pairs) {
    const auto found = instances_.find(pair.destination);
    if (found == instances_.end()) continue;
    const auto& books = found->second;
    message.why = protocols::mark_cause(load, books.report);
    message.destinations.emplace_back(pair.destination, books.llumlet, books.report);
    if (std::find(before.begin(), before.end(), pair) != before.end()) continue;
    ++marks_;
    if (options_.metrics) options_.metrics->marks.with({std::string(to_string(message.why))}).increment();
    options_.log.debug("instance {} moves requests to instance {} ({})", pair.source.value(), pair.destination.value(),
                       to_string(message.why));
  }
  tell(source->second.llumlet, std::move(message));
}

void global_scheduler::unmark(protocols::instance_id source) {
  const auto found = instances_.find(source);
  if (found == instances_.end() || !found->second.llumlet) return;
  migration_mark over;
  over.round = rounds_;
  tell(found->second.llumlet, std::move(over));
}

void global_scheduler::balance_roles(const std::vector<protocols::load_report>& known) {
  auto decisions = balancer_.step(now().count(), known); // has the loads, too
  if (options_.metrics) options_.metrics->tell(balancer_.loads());
  if (options_.balance) {
    decisions.clear();
    if (follows_load()) guarded("the balance of roles", [&] { decisions = options_.balance(now().count(), known); });
  }
  for (auto& decision : decisions) {
    // Who is not there, or has that role, is nobody's business; an embedder may say the same each round.
    std::erase_if(decision.instances, [&](protocols::instance_id id) {
      const auto load = std::ranges::lower_bound(known, id, {}, &protocols::load_report::instance);
      return load == known.end() || load->instance != id || load->role == decision.to;
    });
    if (decision.instances.empty()) continue;
    note_roles(decision, known);
    if (options_.node)
      tell(options_.node, role_wish{decision.to, std::move(decision.instances), std::move(decision.why)});
  }
}

// Where roles follow the load, instances that have just changed theirs may be all that was missing.
std::optional<protocols::scaling_roles> global_scheduler::roles_for_scaling() const {
  if (!follows_load() || options_.balance) return std::nullopt;
  protocols::scaling_roles out;
  out.settling = balancer_.settling();
  if (const auto phases = balancer_.loads()) out.prefill = phases->prefill;
  if (const auto phases = balancer_.loads_with(-1)) out.prefill_with_less = phases->prefill;
  out.prefill_missing = balancer_.prefill_missing();
  out.measured_since = balancer_.measured_since();
  return out;
}

// Whom an autoscaler of one's own has drained may not have said yet that it leaves.
std::optional<protocols::scaling_decision> global_scheduler::within_bounds(protocols::scaling_decision decision,
                                                                           protocols::scaling_view view) {
  for (auto& load : view.loads) {
    const auto leaving = leaving_.find(load.instance);
    if (leaving != leaving_.end() && !load.terminating && now() < leaving->second)
      load.terminating = true;
    else if (leaving != leaving_.end())
      leaving_.erase(leaving);
  }
  std::erase_if(leaving_, [&](const auto& one) {
    return std::ranges::count(view.loads, one.first, &protocols::load_report::instance) == 0;
  });
  return protocols::within_bounds(std::move(decision), view);
}

void global_scheduler::scale(std::vector<protocols::load_report> known) {
  protocols::scaling_view view;
  view.now_ns = now().count();
  view.ordered = ordered_;
  view.refused = std::exchange(crowded_out_, 0);
  view.loads = std::move(known);
  view.roles = roles_for_scaling();
  view.instances_min = options_.scaling.instances_min;
  view.instances_max = options_.scaling.instances_max;
  // Down for the moment or loading: there, but nobody knows what it means.
  for (const auto& [id, books] : instances_) {
    if (books.reported()) continue;
    if (books.ready && books.report.sequence > 0)
      view.silent.push_back(id);
    else
      ++view.starting;
  }
  auto decision = autoscaler_.step(view); // has the mean, too
  if (const auto mode = options_.policies.scaling; options_.scale) {
    decision.reset();
    if (mode != protocols::scaling_mode::off) guarded("the autoscaling", [&] { decision = options_.scale(view); });
    if (decision) decision = within_bounds(*decision, view);
    if (decision) decision->dry = mode == protocols::scaling_mode::dry_run;
    if (decision && !decision->dry && decision->what == protocols::scaling_decision::kind::in)
      leaving_[decision->instance] = now() + std::chrono::nanoseconds(options_.scaling.hold_ns);
    if (decision && !decision->dry && decision->what == protocols::scaling_decision::kind::keep)
      leaving_.erase(decision->instance);
  }
  if (!decision || decision->count == 0) return;
  if (decision->count > 1) decision->why += " (" + std::to_string(decision->count) + " instances)";
  note_scaling(*decision, view.loads);
  const std::string name(to_string(decision->what));
  if (options_.metrics) options_.metrics->scaling.with({name, decision->dry ? "true" : "false"}).increment();
  scaling_last_ = name + (decision->dry ? " (dry run): " : ": ") + decision->why;
  if (!decision->dry) {
    dry_said_.clear();
    options_.log.info("scaling {}", scaling_last_);
    for (std::uint32_t i = 0; options_.node && i < decision->count; ++i)
      tell(options_.node, scaling_wish{decision->what, decision->instance, decision->why});
    return;
  }
  auto said = name + " " + std::to_string(decision->instance.value()) + " " + std::to_string(decision->count);
  if (said == dry_said_) return; // once, not every time that the hold has passed
  dry_said_ = std::move(said);
  options_.log.info("scaling {}", scaling_last_);
}

} // namespace godwit::actors
