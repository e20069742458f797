#include "main/status_command.hpp"

#include "main/settings.hpp"
#include "main/signals.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>
#include <string>
#include <thread>

namespace godwit::main {

namespace {

using std::chrono::milliseconds;

struct status_options {
  std::string control = "127.0.0.1:7070";
  bool requests = false;
  bool watch = false;
  bool json = false;
};

boost::json::object to_json(const protocols::request_status& r) {
  return {{"id", r.request.value()},          {"client_id", r.client_id},
          {"epoch", r.epoch.value()},         {"state", std::string(to_string(r.state))},
          {"priority", r.priority},           {"prompt_tokens", r.prompt_tokens},
          {"answer_tokens", r.answer_tokens}, {"kv_blocks", r.blocks},
          {"preemptions", r.preemptions}};
}

boost::json::object to_json(const protocols::migration_status& m) {
  return {{"id", m.migration.value()},
          {"request", m.request.value()},
          {"from", m.source.value()},
          {"to", m.destination.value()},
          {"phase", m.phase},
          {"stage", m.stage},
          {"bytes", m.bytes},
          {"stall_ms", static_cast<double>(m.stall_ns) / 1e6},
          {"age_ms", static_cast<double>(m.age_ns) / 1e6}};
}

boost::json::object to_json(const protocols::instance_status& s, bool with_requests) {
  boost::json::object out{{"id", s.instance.value()},
                          {"state", std::string(to_string(s.state))},
                          {"node", s.node},
                          {"device", s.device},
                          {"restarts", s.restarts},
                          {"uptime_s", static_cast<double>(s.uptime_ns) / 1e9},
                          {"running", s.load.running},
                          {"waiting", s.load.waiting},
                          {"kv_blocks", s.load.blocks_total},
                          {"kv_blocks_used", s.load.blocks_used},
                          {"kv_blocks_cached", s.load.blocks_cached},
                          {"steps", s.load.steps_total},
                          {"preemptions", s.load.preemptions_total},
                          {"prompt_tokens", s.load.prompt_tokens_total},
                          {"generated_tokens", s.load.generated_tokens_total}};
  if (with_requests) {
    boost::json::array list;
    for (const auto& r : s.requests) list.push_back(to_json(r));
    out["requests"] = std::move(list);
  }
  boost::json::array migrations;
  for (const auto& m : s.migrations) migrations.push_back(to_json(m));
  out["migrations"] = std::move(migrations);
  return out;
}

std::string json_of(const protocols::cluster_status& c, bool with_requests) {
  boost::json::array instances;
  for (const auto& i : c.instances) instances.push_back(to_json(i, with_requests));
  const boost::json::object out{{"version", c.version},
                                {"model", c.model},
                                {"dispatch_policy", c.scheduling.dispatch_policy},
                                {"uptime_s", static_cast<double>(c.uptime_ns) / 1e9},
                                {"requests_open", c.requests_open},
                                {"requests_finished", c.requests_finished_total},
                                {"requests_failed", c.requests_failed_total},
                                {"redispatches", c.redispatches_total},
                                {"moves", c.moves_total},
                                {"instances", std::move(instances)}};
  return boost::json::serialize(out);
}

std::string table_of(const protocols::cluster_status& c) {
  auto out = fmt::format("{} · godwit {} · up {:.0f} s · policy {}\nrequests: {} open, {} finished, {} failed, {} "
                         "re-dispatched, {} moved\n\n",
                         c.model, c.version, static_cast<double>(c.uptime_ns) / 1e9, c.scheduling.dispatch_policy,
                         c.requests_open, c.requests_finished_total, c.requests_failed_total, c.redispatches_total,
                         c.moves_total);
  out += fmt::format("{:>8}  {:<9} {:>8} {:>8} {:>16} {:>12} {:>9}  {:<22} {}\n", "instance", "state", "running",
                     "waiting", "KV blocks", "preemptions", "restarts", "node", "device");
  for (const auto& i : c.instances)
    out +=
        fmt::format("{:>8}  {:<9} {:>8} {:>8} {:>16} {:>12} {:>9}  {:<22} {}\n", i.instance.value(), to_string(i.state),
                    i.load.running, i.load.waiting, fmt::format("{} / {}", i.load.blocks_used, i.load.blocks_total),
                    i.load.preemptions_total, i.restarts, i.node, i.device);
  for (const auto& i : c.instances)
    for (const auto& r : i.requests)
      out += fmt::format(
          "request {:>6} {} epoch {} on instance {}: {}, {} prompt + {} answer tokens, {} blocks, priority {}\n",
          r.request.value(), r.client_id, r.epoch.value(), i.instance.value(), to_string(r.state), r.prompt_tokens,
          r.answer_tokens, r.blocks, r.priority);
  for (const auto& i : c.instances)
    for (const auto& m : i.migrations)
      out += fmt::format("migration {}: request {} from instance {} to {}: {}, stage {}, {:.1f} MiB, stall {:.2f} ms, "
                         "{:.1f} ms old\n",
                         m.migration.value(), m.request.value(), m.source.value(), m.destination.value(), m.phase,
                         m.stage, static_cast<double>(m.bytes) / (1 << 20), static_cast<double>(m.stall_ns) / 1e6,
                         static_cast<double>(m.age_ns) / 1e6);
  return out;
}

int show(const status_options& options) {
  signals stop;
  const auto endpoint = parse_endpoint(options.control);
  if (!endpoint) {
    std::cerr << "godwit: --control: '" << options.control << "' is not HOST:PORT, such as 127.0.0.1:7070\n";
    return 2;
  }
  runtime::actor_system_settings settings;
  settings.network = true;
  settings.connection_timeout = std::chrono::seconds(10); // a busy head is not a dead one
  settings.report = [](std::string_view, std::string_view) {};
  runtime::actor_system system(std::move(settings));
  const auto node = system.remote<actors::node_interface>(endpoint->host, endpoint->port);
  if (!node) {
    std::cerr << "godwit: no godwit answers at " << options.control << " (" << node.error().message
              << "); start one with 'godwit serve', or name its control port with --control\n";
    return 1;
  }
  do {
    auto status = system.ask(*node, std::chrono::seconds(10), actors::status_query{options.requests});
    if (!status) {
      std::cerr << "godwit: " << options.control << " does not answer: " << status.error().message << '\n';
      return 1;
    }
    if (options.watch && !options.json) std::cout << "\x1b[H\x1b[2J";
    std::cout << (options.json ? json_of(*status, options.requests) + "\n" : table_of(*status)) << std::flush;
    for (int i = 0; options.watch && i < 20; ++i) {
      if (stop.received()) return 0;
      std::this_thread::sleep_for(milliseconds(50));
    }
  } while (options.watch);
  return 0;
}

} // namespace

void add_status_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<status_options>();
  auto* command = app.add_subcommand("status", "Show instances, load and requests of a running godwit");
  command->add_option("--control", options->control, "Control port of the node")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_flag("--requests", options->requests, "List the requests too");
  command->add_flag("--watch", options->watch, "Show it again every second");
  command->add_flag("--json", options->json, "One JSON object (with --watch: one a line)");
  command->callback([options, &result] { result.run = [options] { return show(*options); }; });
}

} // namespace godwit::main
