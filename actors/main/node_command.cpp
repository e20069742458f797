#include "main/node_command.hpp"

#include "main/command_settings.hpp"
#include "main/device_choice.hpp"
#include "main/logging.hpp"
#include "main/member_process.hpp"
#include "main/output_file.hpp"
#include "main/ready_file.hpp"
#include "main/scheduling_settings.hpp"
#include "main/signals.hpp"
#include "main/tracing.hpp"

#include <godwit/runtime/version.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

namespace godwit::main {

namespace {

struct node_command_options {
  command_settings settings;
  std::string join;
  int parent = 0; ///< the process that started this one, and that it must not outlive; 0: none
};

std::string ids(const actors::member_state& state, std::uint32_t count) {
  const auto first = state.first.value();
  if (count == 1) return "instance " + std::to_string(first);
  return "instances " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

bool takes_requests(const actors::member_state& state) {
  return state.joined &&
         std::ranges::any_of(state.pairs, [](const auto& p) { return p.ready && !p.draining && !p.stopped; });
}

int run_node(node_command_options& options) {
  signals stop(true); // before any thread
  if (options.parent != 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::prctl(PR_SET_NAME, "godwit"); // for ps; it was started by another name of the same file, /proc/self/exe
    if (::getppid() != options.parent) return 1; // it has ended already
  }
  if (!options.settings.gather()) return 2;
  if (options.settings.print_config) {
    std::cout << options.settings.text();
    return all_written(0);
  }
  auto& settings = options.settings.values;
  const auto head = parse_head(options.join);
  if (!head) return fail(head.error(), 2);
  if (settings.instances.count == 0) return fail("--instances: a node without instances has nothing to bring", 2);
  if (const auto wrong = wrong_with_roles(settings, settings.instances.count); !wrong.empty()) return fail(wrong, 2);
  auto log = open_log(settings);
  if (!log) return fail(log.error(), 2);
  stop.on_hangup([&log] { reopen_log(*log); });
  auto starting = std::make_optional<unasked_signals>(stop, 1);
  if (const auto& file = settings.runtime.ready_file; !file.empty())
    if (const auto why = why_not_writable(file))
      return fail("runtime.ready_file: cannot write '" + file + "': " + *why, 2);
  ready_file ready(settings.runtime.ready_file, *log);
  auto model = open_served_model(options.settings.model, settings.model.quantization);
  if (!model) return fail(model.error().line, model.error().exit_code);
  warn_of_kv_scales(settings, *model, log->component("device"));
  tell_of_images(*model, log->component("device"));
  auto device = choose_device_for(model->configuration, settings, log->component("device"));
  if (!device) return fail(device.error().line, device.error().exit_code);
  tracing records(settings, {"node", process_name(settings), options.settings.model}, log->component("trace"));
  auto started = member_process::start(settings, *head, std::move(*model), *log, &records, std::move(*device));
  if (!started) return fail(started.error().line, started.error().exit_code);
  auto node = std::move(*started);
  starting.reset();
  const auto told_to_stop = [&] { return stop.received(); };
  int code = 0; // told to stop
  const auto failed = [&](const std::optional<start_error>& error) {
    if (!error) return false;
    if (!error->line.empty()) code = fail(error->line, error->exit_code);
    return true;
  };
  if (failed(node->wait_joined(told_to_stop))) return code;
  const life_lines life(settings, *log);
  life.tell("joined " + options.join + " as " + ids(node->state(), settings.instances.count),
            {{"version", std::string(runtime::version())}});
  bool served = false; // by the first of its instances
  const auto wait = [&] {
    const bool takes = takes_requests(node->state());
    ready.set(takes);
    served = served || takes;
    return stop.received();
  };
  const bool not_ready = failed(node->wait_ready(wait));
  if (not_ready && (code != 0 || !served)) {
    ready.set(false);
    node->leave();
    return code;
  }
  if (!not_ready) {
    life.tell("ready");
    for (; !wait(); std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
      if (node->alive()) continue;
      ready.set(false);
      life.warn(actors_ended_line);
      return 1;
    }
  }
  ready.set(false);
  // Whoever is told to by a head that scales has drained already, or ends with it.
  if (options.parent == 0) {
    life.tell("draining; a second signal ends that");
    (void)node->drain(settings.runtime.drain_timeout, told_to_stop);
  }
  life.tell("leaving");
  const unasked_signals ending(stop, 0);
  node->leave();
  node.reset();
  if (const auto file = records.end()) life.tell(describe(*file));
  life.tell("ended");
  log->flush();
  return 0;
}

/// What concerns HTTP, requests and dispatch is the head's business. A file that sets it is accepted all the same, so
/// that a cluster can share one.
bool concerns_members(const runtime::config::setting& s) {
  for (const char* table : {"http.", "control.", "frontend.", "scaling."})
    if (s.name.starts_with(table)) return false;
  for (const char* name :
       {"model.name", "model.aliases", "model.chat_template", "model.reasoning_parser", "scheduler.policy",
        "scheduler.migration", "scheduler.migration_interval", "scheduler.migrate_below", "scheduler.migrate_above",
        "scheduler.stale_after", "runtime.drain_delay", "log.load_interval", "trace.slow_request"})
    if (s.name == name) return false;
  return true;
}

} // namespace

void add_node_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<node_command_options>();
  auto* command = app.add_subcommand("node", "Add this machine's instances to a running godwit serve");
  command->add_option("--join", options->join, "Control port of the godwit serve to join")->type_name("HOST:PORT");
  command->add_option("--parent", options->parent, "")->group(""); // said by a head that scales, to its children
  options->settings.add_to(*command, concerns_members);
  command->callback([options, &result] { result.run = [options] { return run_node(*options); }; });
}

} // namespace godwit::main
