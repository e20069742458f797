#include <godwit/actors/node.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <algorithm>
#include <utility>

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

} // namespace

std::string node_options::validate() const {
  if ((std::max(instances, capacity) > 0 || provision_here) && !instance.make_executor)
    return "nothing makes the executors of its instances (instance.make_executor)";
  for (const auto& [name, make] : scheduler.dispatchers) {
    if (!make) return "nothing makes the dispatch policy '" + name + "'";
    if (among(protocols::dispatcher_names(), name))
      return "a built-in dispatch policy is called '" + name + "' already";
  }
  if (const auto known = scheduler.dispatcher_names(); !among(known, scheduler.policies.dispatch))
    return unknown("dispatch policy", scheduler.policies.dispatch, known);
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
  if (wanted == current) return answer;
  current = wanted; // a restarted scheduler begins with them
  answer.now = wanted;
  options_.log.info("policies: dispatch {}, migration {}{}, scaling {}", wanted.dispatch, to_string(wanted.migration),
                    wanted.migration_paused ? " (paused)" : "", to_string(wanted.scaling));
  if (scheduler_) tell(scheduler_, wanted);
  return answer;
}

task<protocols::request_history> node::history(history_query query) {
  if (!frontend_) co_return protocols::request_history{};
  auto found = co_await ask(frontend_, options_.frontend.ask_timeout, std::move(query));
  co_return found ? std::move(*found) : protocols::request_history{};
}

} // namespace godwit::actors
