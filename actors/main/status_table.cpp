#include "main/status_table.hpp"
#include "main/units.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace godwit::main {

using protocols::instance_state;

namespace {

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string scheduling_lines(const protocols::scheduling_status& c) {
  auto out = fmt::format("dispatch {}, migration {}{}, scaling {}\n", c.dispatch_policy, c.migration_policy,
                         c.migration_paused ? " (paused)" : "", c.scaling);
  if (!c.scheduler_up)
    out += "the scheduler is away: requests go to the instances in turn, nothing migrates by policy\n";
  if (!c.pairs.empty()) {
    out += "migrating:";
    for (const auto& [from, to] : c.pairs) out += fmt::format(" {} -> {}", from.value(), to.value());
    out += '\n';
  }
  if (c.provisioning > 0)
    out += fmt::format("{} ordered, {}{:.0f} s ago\n",
                       c.provisioning == 1 ? "1 instance" : std::to_string(c.provisioning) + " instances",
                       c.provisioning == 1 ? "" : "the first ", seconds(c.provisioning_ns));
  if (!c.scaling_last.empty()) out += fmt::format("scaling: {}\n", c.scaling_last);
  if (c.phases_known)
    out += fmt::format("roles {}: prefill load {:.2f}, decode load {:.2f}\n", c.roles, c.prefill_load, c.decode_load);
  if (!c.roles_last.empty()) out += fmt::format("last change of roles: {}\n", c.roles_last);
  return out;
}

std::string state_of(const protocols::instance_status& i) {
  if (i.state == instance_state::starting) return fmt::format("starting {:.0f} s", seconds(i.uptime_ns));
  std::string out(to_string(i.state));
  if (i.load.role != protocols::instance_role::mixed) out += ", " + std::string(to_string(i.load.role));
  return out;
}

std::string freeness_of(const protocols::instance_status& i) {
  if (i.state != instance_state::ready || i.load.terminating) return "-";
  return fmt::format("{:.1f}", protocols::finite(protocols::freeness(i.load)));
}

constexpr auto columns = "{:>8}  {:<17} {:>8} {:>8} {:>14} {:>8} {:>9} {:>12} {:>9}  {:<22} {}\n";

std::string row(const protocols::instance_status& i) {
  if (i.state == instance_state::stopped)
    return fmt::format(columns, i.instance.value(), "stopped", "-", "-", "-", "-", "-", "-", "-", i.node, "-");
  return fmt::format(columns, i.instance.value(), state_of(i), i.load.running, i.load.waiting,
                     fmt::format("{} / {}", i.load.blocks_used, i.load.blocks_total), protocols::virtual_usage(i.load),
                     freeness_of(i), i.load.preemptions_total, i.restarts, i.node, i.device);
}

} // namespace

std::vector<const protocols::instance_status*> by_id(const protocols::cluster_status& c) {
  std::vector<const protocols::instance_status*> all;
  for (const auto& i : c.instances) all.push_back(&i);
  for (const auto& i : c.stopped) all.push_back(&i);
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->instance < b->instance; });
  return all;
}

std::string status_table(const protocols::cluster_status& c) {
  auto out = fmt::format("{} · godwit {} · up {:.0f} s\nrequests: {} open, {} finished, {} failed, {} re-dispatched, "
                         "{} moved\n",
                         c.model, c.version, seconds(c.uptime_ns), c.requests_open, c.requests_finished_total,
                         c.requests_failed_total, c.redispatches_total, c.moves_total);
  out += scheduling_lines(c.scheduling) + '\n';
  out += fmt::format(columns, "instance", "state", "running", "waiting", "KV blocks", "V", "F", "preemptions",
                     "restarts", "node", "device");
  for (const auto* i : by_id(c)) out += row(*i);
  for (const auto& [node, s] : c.stores) {
    out += fmt::format("KV store at {}: {:.0f} of {:.0f} MiB, {} of {} chunks found, {} loaded, {} filed, {} evicted\n",
                       node, mib(s.bytes_used), mib(s.bytes), s.found_total, s.looked_up_total, s.loaded_total,
                       s.filed_total, s.evicted_total);
    if (s.disk_bytes > 0)
      out += fmt::format("  its disk: {:.0f} of {:.0f} MiB, {} chunks written, {} read, {} evicted, {} failures\n",
                         mib(s.disk_bytes_used), mib(s.disk_bytes), s.disk_written_total, s.disk_read_total,
                         s.disk_evicted_total, s.disk_failed_total);
  }
  for (const auto& f : c.frontends) {
    if (c.frontends.size() < 2) break; // the first lines are about it
    out += f.answers ? fmt::format("front end at {}: {} requests open, {} finished, {} failed\n", f.node,
                                   f.requests_open, f.requests_finished_total, f.requests_failed_total)
                     : fmt::format("front end at {}: it does not answer\n", f.node);
  }
  for (const auto& i : c.instances)
    if (!i.last_error.empty()) out += fmt::format("instance {} did not start: {}\n", i.instance.value(), i.last_error);
  for (const auto& i : c.instances)
    for (const auto& r : i.requests)
      out += fmt::format("request {:>6} {} epoch {} on instance {}: {}, {} prompt + {} answer tokens, {} blocks, "
                         "priority {}, execution priority {}\n",
                         r.request.value(), r.client_id, r.epoch.value(), i.instance.value(), to_string(r.state),
                         r.prompt_tokens, r.answer_tokens, r.blocks, r.priority, r.execution_priority);
  for (const auto& i : c.instances)
    for (const auto& m : i.migrations)
      out += fmt::format("migration {}: request {} from instance {} to {}: {}, stage {}, {:.1f} MiB, stall {:.2f} ms, "
                         "{:.1f} ms old\n",
                         m.migration.value(), m.request.value(), m.source.value(), m.destination.value(), m.phase,
                         m.stage, mib(m.bytes), ms(m.stall_ns), ms(m.age_ns));
  return out;
}

} // namespace godwit::main
