#include "explore/scenario.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace godwit::explore {

using std::chrono::nanoseconds;

namespace {

constexpr std::size_t number_max = 10'000;

std::string milliseconds(nanoseconds t) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", std::chrono::duration<double, std::milli>(t).count());
  return text;
}

template <class Parts> std::set<std::size_t> numbers_of(const Parts& parts) {
  std::set<std::size_t> out;
  for (const auto& part : parts) out.insert(part.first);
  return out;
}

std::string machine_name(std::uint32_t machine) { return machine == 0 ? "head" : "machine-" + std::to_string(machine); }

} // namespace

std::string_view to_string(fault_kind kind) noexcept {
  switch (kind) {
  case fault_kind::cut:
    return "cut";
  case fault_kind::cut_one_way:
    return "cut one way";
  case fault_kind::cut_blocks:
    return "cut for blocks";
  case fault_kind::delay:
    return "delay";
  case fault_kind::lost_acknowledgements:
    return "lost acknowledgements";
  case fault_kind::late_blocks:
    return "late blocks";
  case fault_kind::slow_writes:
    return "slow writes";
  case fault_kind::post_fails:
    return "fabric fails";
  case fault_kind::freeze:
    return "freeze";
  case fault_kind::crash:
    return "crash";
  case fault_kind::vanish:
    return "vanish";
  case fault_kind::clock_jump:
    return "clock jump";
  case fault_kind::slow_device:
    return "slow device";
  case fault_kind::stuck_device:
    return "stuck device";
  case fault_kind::step_fails:
    return "step fails";
  case fault_kind::load_fails:
    return "load fails";
  case fault_kind::kill_instance:
    return "kill instance";
  case fault_kind::coordinator:
    return "coordinator fails";
  case fault_kind::stop_scheduler:
    return "scheduler dies";
  case fault_kind::stop_frontend:
    return "front end dies";
  case fault_kind::stop_member:
    return "member dies";
  case fault_kind::orders_fail:
    return "orders fail";
  case fault_kind::client_leaves:
    return "client leaves";
  case fault_kind::migrate:
    return "migrate";
  case fault_kind::drain:
    return "drain";
  case fault_kind::policies:
    return "policies";
  case fault_kind::role:
    return "role";
  }
  return "unknown";
}

std::string to_string(const fault& f) {
  auto out = milliseconds(f.at) + " + " + std::to_string(f.steps) + " messages: " + std::string(to_string(f.kind));
  using enum fault_kind;
  switch (f.kind) {
  case cut:
  case cut_blocks:
    return out + " " + machine_name(f.machine) + " - " + machine_name(f.other) + " for " + milliseconds(f.lasts);
  case cut_one_way:
    return out + " " + machine_name(f.machine) + " > " + machine_name(f.other) + " for " + milliseconds(f.lasts);
  case delay:
    return out + " " + machine_name(f.machine) + " - " + machine_name(f.other) + " by " +
           milliseconds(nanoseconds(f.amount)) + " for " + milliseconds(f.lasts);
  case lost_acknowledgements:
  case post_fails:
    return out + " of " + machine_name(f.machine) + ", " + std::to_string(f.amount);
  case late_blocks:
  case slow_writes:
    return out + " to " + machine_name(f.machine) + " by " + milliseconds(nanoseconds(f.amount)) + " for " +
           milliseconds(f.lasts);
  case step_fails:
    return out + " on " + machine_name(f.machine) + ", stretch " + std::to_string(f.amount);
  case freeze:
  case stuck_device:
    return out + " " + machine_name(f.machine) + " for " + milliseconds(f.lasts);
  case crash:
  case vanish:
  case stop_member:
    return out + " " + machine_name(f.machine) + ", back after " + milliseconds(f.lasts);
  case clock_jump:
    return out + " " + machine_name(f.machine) + " by " + milliseconds(nanoseconds(f.amount));
  case slow_device:
    return out + " " + machine_name(f.machine) + ", " + std::to_string(f.amount) + " times, for " +
           milliseconds(f.lasts);
  case kill_instance:
    return out + ", number " + std::to_string(f.amount) + " of those there";
  case coordinator:
    return out + " at its pass " + std::to_string(f.amount) +
           (f.subject > 0 ? " of " + std::string(coordinator_places[f.subject]) : "");
  case stop_scheduler:
  case stop_frontend:
    return out;
  case orders_fail:
  case load_fails:
    return out + ", " + std::to_string(f.amount);
  case client_leaves:
    return out + " request " + std::to_string(f.subject);
  case migrate:
    return out + " request " + std::to_string(f.subject) + " to number " + std::to_string(f.amount) +
           " of the instances there";
  case drain:
    return out + " number " + std::to_string(f.amount) + " of the instances there, for " + milliseconds(f.lasts);
  case policies:
    return out + " by " + std::to_string(f.amount);
  case role:
    return out + " of number " + std::to_string(f.amount) +
           " of the instances there: " + std::string(to_string(role_given(f)));
  }
  return out;
}

protocols::instance_role role_given(const fault& f) noexcept {
  return protocols::instance_roles[f.subject % protocols::instance_roles.size()].first;
}

std::optional<std::set<std::size_t>> parse_numbers(std::string_view text) {
  std::set<std::size_t> out;
  if (text == "none") return out;
  const auto number = [](std::string_view& rest) -> std::optional<std::size_t> {
    std::size_t value = 0;
    const auto [end, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (wrong != std::errc{} || value > number_max) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
  };
  for (;;) {
    const auto first = number(text);
    if (!first) return std::nullopt;
    auto last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = number(text);
      if (!last || *last < *first) return std::nullopt;
    }
    for (auto i = *first; i <= *last; ++i) out.insert(i);
    if (text.empty()) return out;
    if (!text.starts_with(',')) return std::nullopt;
    text.remove_prefix(1);
  }
}

std::string to_string(const std::set<std::size_t>& numbers) {
  std::string out;
  for (auto at = numbers.begin(); at != numbers.end();) {
    auto last = *at, first = *at;
    while (++at != numbers.end() && *at == last + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(first);
    if (last > first) out += "-" + std::to_string(last);
  }
  return out.empty() ? "none" : out;
}

std::string replay_line(const scenario& s, const scenario& whole) {
  auto out = "./run explore --scenario " + s.name + " --seed " + std::to_string(s.seed);
  const auto part = [&out](const char* flag, const auto& kept, const auto& all) {
    if (kept.size() != all.size()) out += std::string(" --") + flag + " " + to_string(numbers_of(kept));
  };
  part("faults", s.faults, whole.faults);
  part("requests", s.requests, whole.requests);
  part("settings", s.settings, whole.settings);
  return out;
}

nanoseconds longest_delay(const scenario& s) {
  std::uint64_t longest = 0;
  for (const auto& [number, f] : s.faults)
    if (f.kind == fault_kind::delay) longest = std::max(longest, f.amount);
  return nanoseconds(longest);
}

std::string describe(const scenario& s) {
  std::string out = "  cluster: head with " + std::to_string(s.head_instances) + " instances";
  for (std::size_t i = 0; i < s.machines.size(); ++i)
    out += ", " + machine_name(static_cast<std::uint32_t>(i) + 1) + " with " + std::to_string(s.machines[i]);
  out += "; " + std::to_string(s.blocks) + " blocks each; dispatch " + s.dispatch +
         (s.scales ? "; autoscaling on, " + std::to_string(s.instances_min) + " to " + std::to_string(s.instances_max) +
                         " instances"
                   : "") +
         (s.work.count() > 0 ? "; a message takes up to " + std::to_string(s.work.count() / 1000) + " us" : "") + "\n";
  for (const auto& [index, high] : s.settings)
    out += "  setting " + std::to_string(index) + ": " + knobs()[index].name + (high ? ", high" : ", low") + "\n";
  for (const auto& [number, r] : s.requests) {
    out += "  request " + std::to_string(number) + ": kind " + std::to_string(r.kind) + " at " + milliseconds(r.at);
    if (r.execution_level > 0) out += ", high";
    if (r.priority != 0) out += ", first in line";
    if (r.goes_after) out += ", its client leaves after " + std::to_string(*r.goes_after) + " tokens";
    if (r.enough) out += ", complete after " + std::to_string(*r.enough) + " tokens";
    out += "\n";
  }
  auto faults = s.faults;
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
  for (const auto& [number, f] : faults) out += "  fault " + std::to_string(number) + ": " + to_string(f) + "\n";
  return out;
}

} // namespace godwit::explore
