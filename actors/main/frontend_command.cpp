#include "main/frontend_command.hpp"

#include "main/command_settings.hpp"
#include "main/frontend_process.hpp"
#include "main/logging.hpp"
#include "main/output_file.hpp"
#include "main/ready_file.hpp"
#include "main/signals.hpp"
#include "main/tracing.hpp"

#include <godwit/runtime/version.hpp>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace godwit::main {

namespace {

struct frontend_command_options {
  command_settings settings;
  std::string join;
};

int run_frontend(frontend_command_options& options) {
  signals stop(true); // before any thread
  if (!options.settings.gather()) return 2;
  if (options.settings.print_config) {
    std::cout << options.settings.text();
    return all_written(0);
  }
  auto& settings = options.settings.values;
  settings.instances.count = 0; // a file that a cluster shares may set it
  const auto head = parse_head(options.join);
  if (!head) return fail(head.error(), 2);
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
  tracing records(settings, {"frontend", process_name(settings), options.settings.model}, log->component("trace"));
  auto started = frontend_process::start(settings, *head, std::move(*model), *log, &records);
  if (!started) return fail(started.error().line, started.error().exit_code);
  auto front = std::move(*started);
  starting.reset();
  const life_lines life(settings, *log);
  life.tell("listening on " + front->url(),
            {{"version", std::string(runtime::version())}, {"model", front->model_name()}});
  if (const auto error = front->wait_joined([&] { return stop.received(); })) {
    if (!error->line.empty()) return fail(error->line, error->exit_code);
    life.tell("ended"); // told to stop before it had joined
    return 0;
  }
  life.tell("joined " + options.join);
  for (; !stop.received(); std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    if (!front->alive()) {
      ready.set(false);
      life.warn(actors_ended_line);
      return 1;
    }
    ready.set(front->takes_requests());
  }
  ready.set(false);
  bool hurried = false; // by the second signal, whatever it comes in
  const auto hurry = [&] { return hurried = hurried || stop.received(); };
  if (settings.runtime.drain_delay.count() > 0) {
    life.tell("going on, but unwell; a second signal ends it at once");
    front->linger(settings.runtime.drain_delay, hurry);
  }
  life.tell("draining; a second signal ends it at once");
  const bool drained = front->drain(settings.runtime.drain_timeout, hurry);
  if (!drained) life.warn("running requests were cut off");
  const unasked_signals ending(stop, 0);
  front.reset();
  if (const auto file = records.end()) life.tell(describe(*file));
  life.tell("ended");
  log->flush();
  return drained ? 0 : 1;
}

/// What concerns instances and scheduling is others' business. A file that sets it is accepted all the same, so that a
/// cluster can share one.
bool concerns_frontends(const runtime::config::setting& s) {
  for (const char* table : {"model.", "http.", "frontend.", "admission.", "runtime.", "cluster.", "log.", "trace."})
    if (s.name.starts_with(table)) return s.name != "log.load_interval";
  for (const char* name :
       {"priorities.execution", "scheduler.policy_plugin", "scheduler.policy_arguments", "lora.directory"})
    if (s.name == name) return true;
  return false;
}

} // namespace

void add_frontend_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<frontend_command_options>();
  auto* command = app.add_subcommand("frontend", "Serve HTTP for a running godwit serve, in a process of its own");
  command->add_option("--join", options->join, "Control port of the godwit serve to join")->type_name("HOST:PORT");
  options->settings.add_to(*command, concerns_frontends);
  command->callback([options, &result] { result.run = [options] { return run_frontend(*options); }; });
}

} // namespace godwit::main
