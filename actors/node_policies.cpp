#include <godwit/actors/node.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <utility>
#include <vector>

// Options and policies: what can be used; and policies by name, which survive the scheduler, and what befell a request.
namespace godwit::actors {

using runtime::async::task;

namespace {

template <class Names> std::string unknown(const char* what, const std::string& name, const Names& known) {
  std::string list;
  for (const std::string_view one : known) list.append(list.empty() ? "" : ", ").append(one);
  return std::string("no ") + what + " is called '" + name + "'; known are " + list;
}

template <class Names> bool among(const Names& known, std::string_view name) {
  return std::find(known.begin(), known.end(), name) != known.end();
}

/// Empty where the embedder's factory gives one, or none is asked for.
std::string cannot_make(const scheduler_options& options, std::string_view name) {
  const auto own = options.dispatchers.find(name);
  if (own == options.dispatchers.end()) return {};
  const auto who = "the dispatch policy '" + own->first + "'";
  if (!own->second) return "nothing makes " + who;
  try {
    if (own->second()) return {};
  } catch (...) {
    return who + " cannot be made: " + runtime::detail::describe(std::current_exception()).message;
  }
  return "what makes " + who + " gave none";
}

/// "normal=0, high=auto".
std::string said(const std::vector<protocols::execution_level>& levels) {
  std::string out;
  for (const auto& one : levels)
    out += (out.empty() ? "" : ", ") + one.name + "=" + (one.headroom ? std::to_string(*one.headroom) : "auto");
  return out;
}

/// Who says nothing of execution levels has one.
std::vector<protocols::execution_level> or_normal(std::vector<protocols::execution_level> levels) {
  if (levels.empty()) levels.push_back({"normal", 0});
  return levels;
}

std::string levels_differ(const node_options& options, bool runs_instances) {
  const auto levels = or_normal(options.scheduler.levels);
  if (const auto theirs = or_normal(options.llumlet.planner.execution_levels); runs_instances && theirs != levels)
    return "the execution levels of scheduler.levels (" + said(levels) +
           ") are not those of llumlet.planner.execution_levels (" + said(theirs) + ")";
  auto names = options.frontend.execution_levels;
  if (names.empty()) names.emplace_back("normal");
  if (std::ranges::equal(names, levels, {}, {}, &protocols::execution_level::name)) return {};
  std::string list;
  for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
  return "the execution levels of scheduler.levels (" + said(levels) +
         ") are not those of frontend.execution_levels (" + list + ")";
}

/// Loops that would spin, and bounds that leave nothing.
std::string without_sense(const node_options& o) {
  const auto none = std::chrono::nanoseconds{0};
  const auto positive = [](const char* what) { return std::string(what) + " must be above 0"; };
  if (o.scheduler.migration_interval <= none) return positive("scheduler.migration_interval");
  if (o.scheduler.queries_max == 0) return positive("scheduler.queries_max");
  if (o.frontend.retry_pause <= none) return positive("frontend.retry_pause");
  if (o.frontend.retry_pause_max <= none) return positive("frontend.retry_pause_max");
  if (o.frontend.attempts_max == 0) return positive("frontend.attempts_max");
  if (o.frontend.placement_timeout <= none) return positive("frontend.placement_timeout");
  if (o.backoff_min < none || o.backoff_max < none) return "backoff_min and backoff_max must not be below 0";
  if (o.load_timeout <= none) return positive("load_timeout");
  if (o.scheduler.stale_after <= none) return positive("scheduler.stale_after");
  const auto& balance = o.instance.pipeline_balance;
  constexpr auto window_max = std::chrono::nanoseconds(std::chrono::hours(24 * 365)).count();
  if (!(balance.gain_min >= 0 && balance.gain_min <= 1) || balance.window_ns < 0 || balance.window_ns > window_max)
    return "instance.pipeline_balance is a share from 0 to 1, measured for up to a year";
  const auto& scaling = o.scheduler.scaling;
  const bool scales = o.scheduler.policies.scaling != protocols::scaling_mode::off;
  if (scales && scaling.instances_min > scaling.instances_max)
    return "scheduler.scaling.instances_min must be at most instances_max";
  if (!(scaling.freeness_min <= scaling.freeness_max))
    return "scheduler.scaling.freeness_min must be at most freeness_max";
  const auto& pairing = o.scheduler.pairing;
  if (std::isnan(pairing.source_below) || std::isnan(pairing.destination_above))
    return "scheduler.pairing must be of numbers";
  if (o.frontend.objectives.ttft_ns < 0 || o.frontend.objectives.tpot_ns < 0)
    return "frontend.objectives must not be below 0";
  if (!(o.frontend.objectives_margin >= 0 && o.frontend.objectives_margin < 1))
    return "frontend.objectives_margin must be at least 0 and below 1";
  if (o.llumlet.report_interval <= none) return positive("llumlet.report_interval");
  if (o.llumlet.step_timeout <= none) return positive("llumlet.step_timeout");
  if (o.members_max == 0) return positive("members_max");
  const auto most = std::min(o.member_instances_max, o.instances_max);
  if (const auto own = std::max(o.instances, o.capacity); own > most)
    return "a process may have " + std::to_string(most) + " instances, and not " + std::to_string(own) +
           " (member_instances_max, instances_max)";
  return {};
}

} // namespace

void node_options::log_to(const runtime::log::logger& all) {
  log = all.component("node");
  scheduler.log = all.component("scheduler");
  frontend.log = all.component("frontend");
  llumlet.log = all.component("llumlet");
  llumlet.migration.log = all.component("migration");
  instance.log = all.component("instance");
}

std::string node_options::validate() const {
  const bool runs_instances = std::max(instances, capacity) > 0 || provision_here;
  if (runs_instances && !instance.make_executor)
    return "nothing makes the executors of its instances (instance.make_executor)";
  for (const auto& [name, make] : scheduler.dispatchers) {
    if (among(protocols::dispatcher_names(), name))
      return "a built-in dispatch policy is called '" + name + "' already";
    if (auto wrong = cannot_make(scheduler, name); !wrong.empty()) return wrong;
  }
  if (const auto known = scheduler.dispatcher_names(); !among(known, scheduler.policies.dispatch))
    return unknown("dispatch policy", scheduler.policies.dispatch, known);
  if (auto wrong = levels_differ(*this, runs_instances); !wrong.empty()) return wrong;
  if (auto wrong = without_sense(*this); !wrong.empty()) return wrong;
  auto planner = llumlet.planner;
  planner.blocks = std::max(planner.blocks, 1U); // the device says
  if (planner.context_length == 0) planner.context_length = 2;
  return planner.validate();
}

// All of an order or nothing.
policy_answer node::set_policies(const policy_order& order) {
  policy_answer answer;
  auto& current = options_.scheduler.policies;
  answer.now = current;
  auto wanted = current;
  const auto refuse = [&](std::string why) {
    answer.error = std::move(why);
    return answer;
  };
  if (!order.dispatch.empty()) {
    const auto known = options_.scheduler.dispatcher_names();
    if (!among(known, order.dispatch)) return refuse(unknown("dispatch policy", order.dispatch, known));
    if (order.dispatch != current.dispatch)
      if (auto wrong = cannot_make(options_.scheduler, order.dispatch); !wrong.empty()) return refuse(std::move(wrong));
    wanted.dispatch = order.dispatch;
  }
  if (!order.migration.empty()) {
    const auto policy = protocols::parse_migration_policy(order.migration);
    if (!policy) return refuse(unknown("migration policy", order.migration, protocols::migration_policy_names()));
    wanted.migration = *policy;
  }
  if (!order.paused.empty()) {
    if (order.paused != "yes" && order.paused != "no")
      return refuse("migration is paused (yes) or not (no), and not '" + order.paused + "'");
    wanted.migration_paused = order.paused == "yes";
  }
  if (!order.scaling.empty()) {
    const auto mode = protocols::parse_scaling_mode(order.scaling);
    if (!mode) return refuse(unknown("scaling mode", order.scaling, protocols::scaling_mode_names()));
    wanted.scaling = *mode;
  }
  if (!order.roles.empty()) {
    const auto policy = protocols::parse_role_policy(order.roles);
    if (!policy) return refuse(unknown("role policy", order.roles, protocols::role_policy_names()));
    wanted.roles = *policy;
  }
  if (wanted == current) return answer;
  const bool handed_over = current.hands_over();
  current = wanted; // a restarted scheduler begins with them
  if (handed_over != wanted.hands_over()) announce();
  answer.now = wanted;
  options_.log.info("policies: dispatch {}, migration {}{}, scaling {}, roles {}", wanted.dispatch,
                    to_string(wanted.migration), wanted.migration_paused ? " (paused)" : "", to_string(wanted.scaling),
                    to_string(wanted.roles));
  if (scheduler_) tell(scheduler_, wanted);
  return answer;
}

task<role_answer> node::set_role(role_order order) {
  role_answer answer;
  const auto* const m = keeper_of(order.instance);
  if (m == nullptr) {
    answer.error = "there is no instance " + std::to_string(order.instance.value());
    co_return answer;
  }
  auto given = co_await ask(m->member, options_.frontend.ask_timeout, order);
  if (!given) {
    answer.error = "the process of instance " + std::to_string(order.instance.value()) +
                   " does not answer: " + given.error().message;
    co_return answer;
  }
  answer = std::move(*given);
  if (answer.error.empty() && answer.before != order.role && options_.metrics)
    options_.metrics->role_changes.with({std::string(to_string(order.role))}).increment();
  const auto& policies = options_.scheduler.policies;
  if (!policies.hands_over())
    answer.note = "roles do not count as long as requests do not migrate";
  else if (policies.roles == protocols::role_policy::balance && order.role != protocols::instance_role::mixed)
    answer.note = "the role policy is balance, which may change it again";
  co_return answer;
}

task<void> node::give_role(role_order order) {
  const auto answer = co_await set_role(order);
  if (!answer.error.empty()) options_.log.warning("roles: {}", answer.error);
}

void node::carry_out(role_wish wish) {
  options_.log.info("roles: {}", wish.why);
  roles_last_ = std::move(wish.why);
  for (const auto instance : wish.instances) start(give_role({instance, wish.role}));
}

task<protocols::request_history> node::history(history_query query) {
  protocols::request_history out;
  for (const auto& home : homes_of(query.request, !query.client_id.empty())) {
    auto found = co_await ask(home.frontend, options_.frontend.ask_timeout, query);
    if (!found || !found->found) continue;
    if (!found->ended) co_return std::move(*found);
    if (!out.found) out = std::move(*found); // unless another one has an open one of that name
  }
  co_return out;
}

} // namespace godwit::actors
