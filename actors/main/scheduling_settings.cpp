#include "main/scheduling_settings.hpp"

#include "main/policy_plugins.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

namespace godwit::main {

namespace {

/// Blocks per running request: more than any pool has.
constexpr double freeness_limit = 1e9;

void declare_scheduler(runtime::config::registry& r, serve_settings& s) {
  r.add("scheduler.policy", s.scheduler.policy,
        {.doc = "How requests are dispatched to instances: freeness (the one with the most memory left per running "
                "request), infaas (least memory in use or asked for), least_requests, power_of_two, round_robin, "
                "cache_aware (least memory in use or asked for, and prompt to be computed anew) or ttft (the least "
                "expected time to the first token); or one of scheduler.policy_plugin.",
         .flag = "--policy"});
  r.add("scheduler.migration", s.scheduler.migration,
        {{"freeness", protocols::migration_policy::freeness},
         {"defrag", protocols::migration_policy::defrag},
         {"none", protocols::migration_policy::none},
         {"never", protocols::migration_policy::never}},
        {.doc =
             "Which requests migrate by themselves. freeness: away from instances that run out of memory. defrag: "
             "only from those whose next request waits for memory. none: only by hand, to drain an instance, and from "
             "prefill to decode instances. never: only by hand; an instance that drains answers its requests itself.",
         .flag = "--migration"});
  r.add("scheduler.migration_interval", s.scheduler.migration_interval,
        {.doc = "Between two rounds in which instances are paired for migration, and autoscaling looks at the load.",
         .unit = "ms",
         .min = 10,
         .max = 60'000});
  r.add("scheduler.migrate_below", s.scheduler.migrate_below,
        {.doc = "Requests migrate away from instances whose freeness is below. Freeness is the memory that is left, in "
                "KV blocks for each running request; a block lasts for 16 steps.",
         .unit = "blocks",
         .min = -freeness_limit,
         .max = freeness_limit});
  r.add("scheduler.migrate_above", s.scheduler.migrate_above,
        {.doc = "Requests migrate to instances whose freeness is above.",
         .unit = "blocks",
         .min = -freeness_limit,
         .max = freeness_limit});
  r.add("scheduler.move_cooldown", s.scheduler.move_cooldown,
        {.doc = "A running request that came to an instance stays there for so long, and one whose migration failed "
                "waits so long for the next.",
         .unit = "ms",
         .min = 0,
         .max = hour_ms});
  r.add("scheduler.move_gain", s.scheduler.move_gain,
        {.doc = "A request migrates by policy only where that makes the fuller of the two instances freer by this "
                "much, counted over the source's running requests.",
         .unit = "blocks",
         .min = 0,
         .max = freeness_limit});
  r.add("scheduler.report_interval", s.scheduler.report_interval,
        {.doc = "How often an instance reports its load when nothing changes; changes are reported sooner.",
         .unit = "ms",
         .min = 1,
         .max = 60'000});
  r.add("scheduler.stale_after", s.scheduler.stale_after,
        {.doc = "An instance that has not reported for so long gets no requests until it does. When all are silent, "
                "requests are dispatched in turn. At least twice the report interval.",
         .unit = "ms",
         .min = 10,
         .max = hour_ms});
  r.add("scheduler.roles", s.scheduler.roles,
        {{"fixed", protocols::role_policy::fixed}, {"balance", protocols::role_policy::balance}},
        {.doc =
             "Whether instances for prefill and for decoding (instances.roles) keep their roles, or get the other one "
             "where that phase is short of what the other can spare.",
         .flag = "--role-policy"});
  r.add("scheduler.role_hold", s.scheduler.role_hold,
        {.doc = "How long the load of the two phases is averaged, and the least pause between two changes of roles.",
         .unit = "ms",
         .min = 100,
         .max = 24 * hour_ms});
  r.add("scheduler.role_load_min", s.scheduler.role_load_min,
        {.doc = "A phase whose load is below gets no instances of the other, unless it has none. 1 is as much as is "
                "good for its instances.",
         .min = 0,
         .max = 1});
  r.add("scheduler.policy_plugin", s.scheduler.policy_plugin,
        {.doc = "A shared library with scheduling policies of your own (docs/embedding.md, section 8), whose dispatch "
                "policies scheduler.policy may name; its other ones are used without a word. Each process loads its "
                "own. Empty: none.",
         .flag = "--policy-plugin"});
  r.add("scheduler.policy_arguments", s.scheduler.policy_arguments,
        {.doc = "A text for scheduler.policy_plugin, which says what it may be.", .flag = "--policy-arguments"});
}

void declare_priorities(runtime::config::registry& r, serve_settings& s) {
  r.add("priorities.execution", s.priorities.execution,
        {.doc = "Execution priorities that requests may name, lowest first: NAME=HEADROOM,... The first is what they "
                "get otherwise. Headroom is what an instance that runs such a request keeps free, in KV blocks, so "
                "that it decodes as if it were alone; auto: found out when the instance starts."});
  r.add("priorities.profile", s.priorities.profile,
        {.doc = "Measure at an instance's start how much load leaves its decode steps within 5 % of their unloaded "
                "time, where an execution priority has the headroom auto. false: auto means none."});
  r.add("priorities.profile_time_max", s.priorities.profile_time_max,
        {.doc = "Longest time of that measurement; what was found by then counts.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
}

void declare_scaling(runtime::config::registry& r, serve_settings& s) {
  r.add("scaling.mode", s.scaling.mode,
        {{"off", protocols::scaling_mode::off},
         {"dry_run", protocols::scaling_mode::dry_run},
         {"on", protocols::scaling_mode::on}},
        {.doc = "Whether the number of instances follows the load. dry_run: only say in log and status what would be "
                "done.",
         .flag = "--scaling"});
  r.add("scaling.rule", s.scaling.rule,
        {{"mean", protocols::scaling_rule::mean}, {"total", protocols::scaling_rule::total}},
        {.doc =
             "What the number of instances follows. mean: the mean of their freeness, over scaling.hold, one instance "
             "at a time. total: the free blocks of all together for each request, as Llumnix's public artifact: looked "
             "at once per scaling.hold; below scaling.freeness_min as many are started as are missing, above "
             "scaling.freeness_max one leaves where the others would still be above."});
  r.add("scaling.freeness_min", s.scaling.freeness_min,
        {.doc = "When the mean freeness of the instances is below for scaling.hold, one more is started.",
         .unit = "blocks",
         .min = -freeness_limit,
         .max = freeness_limit});
  r.add("scaling.freeness_max", s.scaling.freeness_max,
        {.doc = "When it is above for scaling.hold, the instance with the fewest running requests is drained and "
                "stopped.",
         .unit = "blocks",
         .min = -freeness_limit,
         .max = freeness_limit});
  r.add("scaling.hold", s.scaling.hold,
        {.doc = "How long the mean must be out of its bounds, and the pause between two decisions.",
         .unit = "ms",
         .min = 0,
         .max = 24 * hour_ms});
  r.add("scaling.instances_min", s.scaling.instances_min,
        {.doc = "Instances that stay, however little there is to do.", .unit = "instances", .min = 1, .max = 65'536});
  r.add("scaling.instances_max", s.scaling.instances_max,
        {.doc = "Instances that there may be, those that joined included.",
         .unit = "instances",
         .min = 1,
         .max = 65'536});
  r.add("scaling.provisioner", s.scaling.provisioner,
        {{"in_process", provisioner_choice::in_process},
         {"process", provisioner_choice::process},
         {"command", provisioner_choice::command}},
        {.doc = "Where another instance comes from. in_process: this process, which shares its weights and cores. "
                "process: a child process on this machine, with the same model and settings. command: "
                "scaling.command_out."});
  r.add("scaling.command_out", s.scaling.command_out,
        {.doc = "Shell command that has an instance started somewhere: it should run 'godwit node --join $GODWIT_HEAD "
                "--name $GODWIT_NODE' there. Exit code 0: it will come."});
  r.add("scaling.command_in", s.scaling.command_in,
        {.doc = "Shell command that takes the process $GODWIT_NODE away; its instance $GODWIT_INSTANCE is drained and "
                "stopped. $GODWIT_INSTANCE is empty when the process never joined. Empty: nothing is done."});
  r.add("scaling.provision_timeout", s.scaling.provision_timeout,
        {.doc = "An ordered instance that takes no requests by then is given up. Bounds the commands too.",
         .unit = "ms",
         .min = 100,
         .max = 24 * hour_ms});
}

std::optional<std::string> wrong_with_scheduler(const serve_settings& s) {
  const auto own = load_own_policies(s);
  if (!own) return own.error();
  std::vector<std::string_view> policies = protocols::dispatcher_names();
  for (const auto& [name, make] : own->dispatchers) policies.push_back(name);
  if (std::find(policies.begin(), policies.end(), s.scheduler.policy) == policies.end()) {
    std::string names;
    for (const auto name : policies) names += (names.empty() ? "" : ", ") + std::string(name);
    return "scheduler.policy: no policy is called '" + s.scheduler.policy + "'; known are " + names;
  }
  if (s.scheduler.migrate_below > s.scheduler.migrate_above)
    return "scheduler.migrate_below is above scheduler.migrate_above: an instance would be source and destination";
  if (s.scheduler.stale_after < 2 * s.scheduler.report_interval)
    return "scheduler.stale_after is less than twice scheduler.report_interval";
  if (const auto levels = protocols::parse_execution_levels(s.priorities.execution); !levels)
    return "priorities.execution: " + levels.error();
  return std::nullopt;
}

std::optional<std::string> wrong_with_scaling(const serve_settings& s) {
  if (s.scaling.freeness_min >= s.scaling.freeness_max) return "scaling.freeness_min is not below scaling.freeness_max";
  if (s.scaling.instances_min > s.scaling.instances_max) return "scaling.instances_min is above scaling.instances_max";
  if (s.scaling.provisioner == provisioner_choice::command && s.scaling.command_out.empty())
    return "scaling.provisioner is command and scaling.command_out is empty";
  if (s.scaling.provisioner != provisioner_choice::command &&
      !(s.scaling.command_out.empty() && s.scaling.command_in.empty()))
    return "scaling.command_out and scaling.command_in are for scaling.provisioner command only";
  if (s.scaling.provisioner != provisioner_choice::in_process && s.scaling.mode != protocols::scaling_mode::off &&
      s.control.listen.empty())
    return "control.listen is empty, so no process that scaling starts could join; scaling.provisioner in_process "
           "needs none";
  return std::nullopt;
}

constexpr std::size_t roles_max = 65'536; ///< more than a cluster has instances

protocols::expected<std::vector<protocols::instance_role>, std::string> parse_roles(const serve_settings& s) {
  std::vector<protocols::instance_role> roles;
  for (const std::string_view item : s.instances.roles) {
    const auto colon = item.find(':');
    const auto role = protocols::parse_instance_role(item.substr(0, colon));
    std::uint32_t count = 1;
    bool counted = true;
    if (colon != std::string_view::npos) {
      const auto* const end = item.data() + item.size();
      const auto read = std::from_chars(item.data() + colon + 1, end, count);
      counted = read.ec == std::errc{} && read.ptr == end && count > 0;
    }
    if (!role || !counted)
      return protocols::unexpected("instances.roles: '" + std::string(item) +
                                   "' is none of prefill, decode and mixed, nor one of them with a number of "
                                   "instances, such as prefill:2");
    if (count > roles_max - roles.size())
      return protocols::unexpected("instances.roles names more than " + std::to_string(roles_max) + " instances");
    roles.insert(roles.end(), count, *role);
  }
  return roles;
}

std::optional<std::string> wrong_with_roles_alone(const serve_settings& s) {
  const auto roles = parse_roles(s);
  if (!roles) return roles.error();
  const auto is_mixed = [](protocols::instance_role role) { return role == protocols::instance_role::mixed; };
  if (std::ranges::all_of(*roles, is_mixed)) return std::nullopt;
  if (s.fabric.backend == fabric_choice::none)
    return "instances.roles: with fabric.backend none no request leaves the instance that prefilled it";
  return std::nullopt;
}

} // namespace

std::vector<protocols::instance_role> roles_of(const serve_settings& settings) {
  auto roles = parse_roles(settings);
  return roles ? std::move(*roles) : std::vector<protocols::instance_role>{};
}

std::string wrong_with_roles(const serve_settings& settings, std::uint32_t instances) {
  const auto roles = roles_of(settings);
  // A process without instances says what those are for that it orders.
  if (roles.size() > std::max(instances, 1U))
    return "instances.roles names " + std::to_string(roles.size()) + " instances, and there are " +
           std::to_string(instances) + " (--instances)";
  if (settings.scheduler.migration == protocols::migration_policy::never &&
      std::ranges::find(roles, protocols::instance_role::prefill) != roles.end())
    return "instances.roles: by the migration policy never no request leaves the instance that prefilled it; none, "
           "defrag and freeness let them go";
  return {};
}

void declare_scheduling(runtime::config::registry& registry, serve_settings& settings) {
  declare_scheduler(registry, settings);
  declare_priorities(registry, settings);
  declare_scaling(registry, settings);
  registry.relate([&settings] { return wrong_with_scheduler(settings); });
  registry.relate([&settings] { return wrong_with_scaling(settings); });
  registry.relate([&settings] { return wrong_with_roles_alone(settings); });
}

std::vector<protocols::execution_level> execution_levels(const serve_settings& settings) {
  auto levels = protocols::parse_execution_levels(settings.priorities.execution);
  return levels ? std::move(*levels) : std::vector<protocols::execution_level>{{"normal", 0}};
}

} // namespace godwit::main
