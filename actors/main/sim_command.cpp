#include "main/sim_command.hpp"

#include "main/huge_heap.hpp"
#include "main/request_flags.hpp"
#include "main/signals.hpp"
#include "main/sim_policy.hpp"

#include <godwit/gpu/sim/profile.hpp>
#include <godwit/runtime/config/command_line.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace godwit::main {

namespace {

/// Everything between the flags and a run. Lives until the command has run.
struct sim_flags {
  sim_options options;
  runtime::config::registry registry;
  runtime::config::problems problems;

  sim_flags() {
    options.settings = sim_defaults();
    options.load.requests = 1000;
  }
  [[nodiscard]] bool gather();
};

/// How the run is recorded, which does not change it.
bool records(const runtime::config::setting& s) {
  return s.name == "trace.level" || s.name == "trace.prompts" || s.name == "trace.file_bytes_max";
}

/// How soon processes that fail are noticed, and come back: without faults there is one process.
bool joins_processes(const runtime::config::setting& s) {
  return s.name == "cluster.heartbeat_interval" || s.name == "cluster.connection_timeout" ||
         s.name == "cluster.rejoin_pause_max";
}

/// The settings that a simulation has: what it is about, and nothing of sockets, processes and devices. The policies
/// are the command's own flag.
bool simulated(const runtime::config::setting& s) {
  for (const std::string_view other :
       {"scheduler.policy", "scaling.provisioner", "scaling.command_out", "scaling.command_in"})
    if (s.name == other) return false;
  for (const std::string_view table : {"scheduler.", "scaling.", "migration.", "priorities.", "llumlet."})
    if (s.name.starts_with(table)) return true;
  for (const std::string_view one : {"model.context_max", "instances.roles", "instances.step_timeout",
                                     "instances.restart_backoff_min", "instances.restart_backoff_max",
                                     "frontend.attempts_max", "frontend.placement_timeout", "frontend.request_timeout"})
    if (s.name == one) return true;
  return records(s) || joins_processes(s);
}

/// What this run lacks for a setting of simulations to do anything. Empty: nothing.
std::string lacks(const sim_options& options, const runtime::config::setting& s) {
  if (joins_processes(s) && !options.faults) return "is of processes that fail; it needs --faults SPEC";
  if (records(s) && options.record.empty()) return "is of a recording; it needs --record FILE";
  return {};
}

bool sim_flags::gather() {
  if (const auto& file = options.config_file; !file.empty()) {
    const auto found = registry.load_file(file);
    problems.insert(problems.end(), found.begin(), found.end());
  }
  using runtime::config::source;
  if (problems.empty()) problems = registry.validate();
  for (const auto& s : registry.settings())
    if (auto what = lacks(options, s); s.set_by.from == source::flag && !what.empty())
      problems.push_back(s.flag + " " + what);
  for (const auto& line : problems) std::cerr << "godwit: " << line << '\n';
  const auto* const migration = registry.find("scheduler.migration");
  options.migration_told = migration->set_by.from != source::built_in;
  std::string of_no_use;
  for (const auto& s : registry.settings()) {
    auto text = registry.text(s);
    if (text == s.default_text || s.name == "scheduler.policy") continue; // that is the report's policy
    if (!simulated(s) || !lacks(options, s).empty())
      of_no_use += (of_no_use.empty() ? "" : ", ") + s.name;
    else if (!records(s))
      options.changed.emplace_back(s.name, std::move(text));
  }
  if (problems.empty() && !of_no_use.empty())
    std::cerr << "godwit: " << options.config_file << ": this run has no use for " << of_no_use << '\n';
  return problems.empty();
}

std::string profiles() {
  std::string out;
  for (const auto& name : gpu::sim::profile_names()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

void add_workload_flags(CLI::App& command, bench_options& load) {
  add_request_flags(command, load);
  command.add_option("--requests", load.requests, "How many; 0: 100, or the whole trace")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{10'000'000}))
      ->capture_default_str();
  load.scale_flag = "--rate-scale";
  command.add_option("--rate-scale,--scale", load.scale, "Play a trace this many times as fast")
      ->type_name("FACTOR")
      ->capture_default_str();
  add_seed_flag(command, load.seed, "Of arrivals, lengths, prompts and the order of events");
  command
      .add_option("--priority-share", load.priority_share,
                  "This share of the requests, at random, has this execution priority and goes first")
      ->type_name("NAME=SHARE");
  add_objective_flags(command, load);
}

/// Ends the run at the first SIGINT or SIGTERM, or where the run that is replayed ended, and tells somebody who looks
/// on how far it is. In a replay signals wait already, and go on to do so.
class listener {
public:
  /// `interrupted` is set where a signal has come.
  listener(std::optional<std::int64_t> end_at_ns, bool& interrupted)
      : end_at_ns_(end_at_ns), interrupted_(interrupted) {}
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() {
    if (!stop_ || end_at_ns_) return;
    bool more = true; // that came after the last look: there is a report all the same
    while (more) more = stop_->received();
    stop_->let_go();
  }
  bool operator()(const actors::sim::run_progress& at) {
    if (end_at_ns_ && at.clock_ns >= *end_at_ns_) return false;
    if (!stop_ && !interrupted_) stop_.emplace(); // not before: until there is a report they end the command as usual
    if (stop_ && stop_->received()) {
      interrupted_ = true;
      if (!end_at_ns_) stop_->let_go(); // a second one ends the command
      stop_.reset();
      return false;
    }
    const auto now = clock::now();
    if (!seen_ || now - told_ < std::chrono::seconds(5)) return true;
    told_ = now;
    std::cerr << fmt::format("{:.0f} virtual s, {} requests ended, {} open\n", static_cast<double>(at.time_ns) * 1e-9,
                             at.ended, at.submitted - at.ended);
    return true;
  }

private:
  using clock = std::chrono::steady_clock;
  const std::optional<std::int64_t> end_at_ns_;
  bool& interrupted_;
  std::optional<signals> stop_;
  const bool seen_ = ::isatty(STDERR_FILENO) == 1;
  clock::time_point told_ = clock::now();
};

int run_and_listen(const sim_options& options) {
  bool interrupted = false;
  auto listens = std::make_shared<listener>(options.end_at_ns, interrupted); // ends with the simulation
  const auto code =
      run_sim(options, std::cout, std::cerr, [listens = std::move(listens)](const auto& at) { return (*listens)(at); });
  return interrupted && options.end_at_ns ? sim_interrupted : code;
}

} // namespace

void add_sim_command(CLI::App& app, command_result& result) {
  auto f = std::make_shared<sim_flags>();
  auto& o = f->options;
  auto* command = app.add_subcommand("sim", "Simulate a cluster: the same actors on virtual time, with a device "
                                            "profile and a workload");
  command->add_option("--instances", o.instances, "Instances at the start")
      ->type_name("N")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str();
  command->add_option("--policy", o.policy, "How requests are scheduled: " + bundle_names())
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--profile", o.profile, "The device: " + profiles() + ", or a file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  add_workload_flags(*command, o.load);
  command
      ->add_option("--faults", o.faults,
                   "What goes wrong, and when, on virtual time: crash:instance-0@120s+30s, vanish:..., "
                   "cut:head/instance-2@60s+5s, freeze:instance-1@40s+2s, slow:instance-1x4@10s+60s, random:12/h, "
                   "joined by commas; without +DURATION for good")
      ->type_name("SPEC");
  command->add_flag("--json", o.json, "One JSON object on stdout and nothing else there");
  command->add_option("--csv", o.csv, "Write one line per request")->type_name("FILE");
  command
      ->add_option("--samples", o.samples,
                   "Write one line per virtual second (of runs beyond a day: per two, four, ...)")
      ->type_name("FILE");
  command->add_option("--svg", o.svg, "Write plots")->type_name("DIR");
  command->add_option("--record", o.record, "Record every message, for godwit trace (--trace-level content: whole)")
      ->type_name("FILE");
  command->add_option("--end-at-ns", o.end_at_ns)->group(""); // for replays
  command->add_option("--config", o.config_file, "TOML file with settings; those of a simulation are used")
      ->type_name("FILE");
  declare(f->registry, o.settings);
  runtime::config::bind(f->registry, *command, f->problems, simulated);
  command->callback([f, command, &result] {
    // A trace is played whole unless somebody says otherwise.
    if (!f->options.load.trace.empty() && command->count("--requests") == 0) f->options.load.requests = 0;
    f->options.policy_told = command->count("--policy") > 0;
    result.run = [f] {
      use_huge_pages();
      return f->gather() ? run_and_listen(f->options) : 2;
    };
  });
}

} // namespace godwit::main
