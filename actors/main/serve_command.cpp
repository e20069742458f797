#include "main/serve_command.hpp"

#include "main/command_settings.hpp"
#include "main/device_choice.hpp"
#include "main/load_line.hpp"
#include "main/logging.hpp"
#include "main/output_file.hpp"
#include "main/ready_file.hpp"
#include "main/scheduling_settings.hpp"
#include "main/serving.hpp"
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

/// Until a signal comes, or its actors end without one: false.
bool serve_until(const serving& node, const serve_settings& settings, const runtime::log::logger& log, signals& stop,
                 ready_file& ready) {
  using clock = std::chrono::steady_clock;
  const auto load_log = log.component("load");
  const auto interval = settings.log.load_interval;
  load_line line;
  for (auto told = clock::now(); !stop.received(); std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    if (!node.alive()) return false;
    ready.set(node.takes_requests());
    const std::chrono::duration<double> since = clock::now() - told;
    if (interval.count() == 0 || since < interval) continue;
    told = clock::now();
    if (const auto text = line.next(node.load(), since.count())) load_log.info("{}", *text);
  }
  return true;
}

int serve(command_settings& options) {
  signals stop(true); // before any thread
  if (!options.gather()) return 2;
  if (options.print_config) {
    std::cout << options.text();
    return all_written(0);
  }
  auto& settings = options.values;
  if (const auto wrong = wrong_with_roles(settings, settings.instances.count); !wrong.empty()) {
    std::cerr << "godwit: " << wrong << '\n';
    return 2;
  }
  auto log = open_log(settings);
  if (!log) {
    std::cerr << "godwit: " << log.error() << '\n';
    return 2;
  }
  stop.on_hangup([&log] { reopen_log(*log); });
  auto starting = std::make_optional<unasked_signals>(stop, 1);
  if (const auto& file = settings.runtime.ready_file; !file.empty())
    if (const auto why = why_not_writable(file)) {
      std::cerr << "godwit: runtime.ready_file: cannot write '" << file << "': " << *why << '\n';
      return 2;
    }
  ready_file ready(settings.runtime.ready_file, *log);
  auto model = open_served_model(options.model, settings.model.quantization);
  if (!model) {
    std::cerr << "godwit: " << model.error().line << '\n';
    return model.error().exit_code;
  }
  warn_of_kv_scales(settings, *model, log->component("device"));
  tell_of_images(*model, log->component("device"));
  auto device = choose_device_for(model->configuration, settings, log->component("device"));
  if (!device) {
    std::cerr << "godwit: " << device.error().line << '\n';
    return device.error().exit_code;
  }
  const auto name = settings.cluster.name.empty() ? settings.control.listen : settings.cluster.name;
  tracing records(settings, {"serve", name.empty() ? host_and_pid() : name, options.model}, log->component("trace"));
  auto started = serving::start(settings, std::move(*model), *log, &records, {options.model, options.variables()},
                                std::move(*device));
  if (!started) {
    std::cerr << "godwit: " << started.error().line << '\n';
    return started.error().exit_code;
  }
  auto node = std::move(*started);
  starting.reset();
  const life_lines life(settings, *log);
  life.tell("listening on " + node->url(),
            {{"version", std::string(runtime::version())}, {"model", node->model_name()}});
  if (!node->control().empty()) life.tell("control on " + node->control());
  bool served = false; // by members, or by the first of its own instances
  const auto error = node->wait_ready([&] {
    const bool takes = node->takes_requests();
    ready.set(takes);
    served = served || takes;
    return stop.received();
  });
  if (error && !error->line.empty()) {
    std::cerr << "godwit: " << error->line << '\n';
    return error->exit_code;
  }
  if (error && !served) { // told to stop before it was ready
    life.tell("ended");
    return 0;
  }
  if (!error) {
    if (settings.instances.count == 0)
      life.tell("ready for members: godwit node --join " + node->advertised());
    else
      life.tell("ready: " + node->model_name() + " on " + std::to_string(settings.instances.count) +
                (settings.instances.count == 1 ? " instance" : " instances"));
    if (!serve_until(*node, settings, *log, stop, ready)) {
      ready.set(false);
      life.warn(actors_ended_line);
      return 1;
    }
  }
  ready.set(false);
  bool hurried = false; // by the second signal, whatever it comes in
  const auto hurry = [&] { return hurried = hurried || stop.received(); };
  node->end_soon();
  if (settings.runtime.drain_delay.count() > 0) {
    life.tell("going on, but unwell; a second signal ends it at once");
    node->linger(settings.runtime.drain_delay, hurry);
  }
  life.tell("draining; a second signal ends it at once");
  const bool drained = node->drain(settings.runtime.drain_timeout, hurry);
  if (!drained) life.warn("running requests were cut off");
  const unasked_signals ending(stop, 0);
  node.reset();
  if (const auto file = records.end()) life.tell(describe(*file));
  life.tell("ended");
  log->flush();
  return drained ? 0 : 1;
}

} // namespace

void add_serve_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<command_settings>();
  auto* command = app.add_subcommand("serve", "Serve a model over an OpenAI-style HTTP endpoint");
  options->add_to(*command);
  command->callback([options, &result] { result.run = [options] { return serve(*options); }; });
}

void add_settings_command(CLI::App& app, command_result& result) {
  auto* command = app.add_subcommand("settings", "Print the reference page of all settings as Markdown");
  command->callback([&result] {
    result.run = [] {
      serve_settings settings;
      runtime::config::registry registry;
      declare(registry, settings);
      std::cout << registry.reference_markdown();
      return 0;
    };
  });
}

} // namespace godwit::main
