#include "main/sim_flags.hpp"

#include "main/number_range.hpp"
#include "main/request_flags.hpp"
#include "main/sim_policy.hpp"

#include <godwit/gpu/sim/profile.hpp>
#include <godwit/runtime/config/command_line.hpp>

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::main {

namespace {

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
  for (const std::string_view other : {"scheduler.policy", "scaling.provisioner", "scaling.command_out",
                                       "scaling.command_in", "kv_store.disk_directory", "speculation.draft_model"})
    if (s.name == other) return false;
  for (const std::string_view table :
       {"scheduler.", "scaling.", "migration.", "priorities.", "llumlet.", "speculation.", "kv_store.", "admission."})
    if (s.name.starts_with(table)) return true;
  for (const std::string_view one :
       {"model.context_max", "instances.roles", "instances.pipeline_parallel", "instances.pipeline_rows",
        "instances.pipeline_steps", "instances.pipeline_balance", "instances.pipeline_balance_window",
        "instances.step_timeout", "instances.restart_backoff_min", "instances.restart_backoff_max",
        "frontend.attempts_max", "frontend.placement_timeout", "frontend.request_timeout"})
    if (s.name == one) return true;
  return records(s) || joins_processes(s);
}

/// Whoever says that something is off, as it is anyway, expects nothing of it.
bool says_no(const runtime::config::setting& s, const std::string& text) {
  using runtime::config::value_kind;
  const bool is_word = s.kind == value_kind::boolean || s.kind == value_kind::choice;
  return text == s.default_text && (is_word || text.starts_with('0'));
}

/// What this run lacks for a setting of simulations to do anything. Empty: nothing.
std::string lacks(const sim_options& options, const runtime::config::setting& s) {
  if (joins_processes(s) && !options.faults) return "is of processes that fail; it needs --faults SPEC";
  if (s.name == "speculation.draft_max" && options.draft_profile.empty())
    return "is of a draft model; it needs --draft-profile NAME";
  const auto& set = options.settings;
  const bool objectives = set.admission.ttft.count() > 0 || set.admission.tpot.count() > 0 || options.deadlines;
  if (s.name == "admission.early_rejection" && !objectives)
    return "refuses what misses its objective, of which the server knows none; it needs --admission-ttft or "
           "--admission-tpot (--slo-ttft and --slo-tpot are the report's)";
  if (s.name.starts_with("scaling.") && s.name != "scaling.mode" && set.scaling.mode == protocols::scaling_mode::off)
    return "is of autoscaling; it needs --scaling on";
  const bool of_roles =
      s.name == "scheduler.roles" || s.name == "scheduler.role_hold" || s.name == "scheduler.role_load_min";
  if (of_roles && set.instances.roles.empty() && !options.tries_roles)
    return "is of roles that change, of which there are none; it needs --roles";
  if (s.name.starts_with("kv_store.") && s.name != "kv_store.bytes" && set.kv_store.bytes == 0)
    return "is of the KV store; it needs --kv-store-bytes";
  if (s.name.starts_with("instances.pipeline_") && s.name != "instances.pipeline_parallel" &&
      set.instances.pipeline_parallel == 1)
    return "is of several stages; it needs --pipeline-parallel N";
  if (records(s) && options.record.empty()) return "is of a recording; it needs --record FILE";
  return {};
}

/// As a shell takes it for one word.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,=+-@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string profiles() {
  std::string out;
  for (const auto& name : gpu::sim::profile_names()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

void add_workload_flags(CLI::App& command, bench_options& load) {
  add_request_flags(command, load);
  command.add_option("--requests", load.requests, "How many; a trace is played whole unless this says otherwise, or 0")
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

} // namespace

bool sim_flags::gather() {
  if (const auto& file = options.config_file; !file.empty()) {
    const auto found = registry.load_file(file);
    problems.insert(problems.end(), found.begin(), found.end());
  }
  using runtime::config::source;
  if (problems.empty()) problems = registry.validate();
  const bool valid = problems.empty();
  for (const auto& s : registry.settings())
    if (auto what = valid ? lacks(options, s) : std::string();
        s.set_by.from == source::flag && !says_no(s, registry.text(s)) && !what.empty())
      problems.push_back(s.set_by.where + " " + what);
  for (const auto& line : problems) std::cerr << "godwit: " << line << '\n';
  const auto* const migration = registry.find("scheduler.migration");
  options.migration_told = migration->set_by.from != source::built_in;
  std::string of_no_use;
  for (const auto& s : registry.settings()) {
    auto text = registry.text(s);
    if (text == s.default_text || s.name == "scheduler.policy") continue; // that is the report's policy
    if (!simulated(s) || !lacks(options, s).empty())
      of_no_use += (of_no_use.empty() ? "" : ", ") + s.name;
    else if (!records(s)) {
      options.changed_flags += ' ' + s.flag + ' ' + shell_word(text);
      options.changed.emplace_back(s.name, std::move(text));
    }
  }
  if (options.deadlines) options.changed.emplace_back("deadlines", *options.deadlines);
  if (options.central) options.changed.emplace_back("central_scheduler", *options.central);
  if (options.disk_rate) options.changed.emplace_back("kv_store_disk_rate", fmt::format("{}", *options.disk_rate));
  if (options.length_accuracy)
    options.changed.emplace_back("length_accuracy", fmt::format("{}", *options.length_accuracy));
  if (options.pipeline_speeds) options.changed.emplace_back("pipeline_speeds", *options.pipeline_speeds);
  if (options.draft_acceptance > 0)
    options.changed.emplace_back("draft_acceptance", fmt::format("{}", options.draft_acceptance));
  if (!options.draft_profile.empty()) options.changed.emplace_back("draft_profile", options.draft_profile);
  if (problems.empty() && !of_no_use.empty())
    std::cerr << "godwit: " << options.config_file << ": this run has no use for " << of_no_use << '\n';
  return problems.empty();
}

void add_simulation_flags(CLI::App& command, sim_flags& flags) {
  auto& o = flags.options;
  command.add_option("--instances", o.instances, "Instances at the start")
      ->type_name("N")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str();
  command
      .add_option("--policy", o.policy, "How requests are scheduled: " + bundle_names() + ", or one of --policy-plugin")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--profile", o.profile, "The device: " + profiles() + ", or a file")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  add_workload_flags(command, o.load);
  command
      .add_option("--draft-acceptance", o.draft_acceptance,
                  "How often a drafted token is right, with speculation; 0: answers repeat nothing")
      ->type_name("SHARE")
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--draft-profile", o.draft_profile,
                  "A draft model beside that of each instance, on its device: a profile, as for --profile")
      ->type_name("NAME|FILE");
  command
      .add_option(
          "--central-scheduler", o.central,
          "One scheduler plans the steps of all instances in turn, and they stand still meanwhile: microseconds "
          "for each step and for each of its requests")
      ->type_name("STEP[,REQUEST]");
  command
      .add_option("--pipeline-speeds", o.pipeline_speeds,
                  "How fast the device of each stage is beside the profile's, with --pipeline-parallel: 1,1,0.5,1")
      ->type_name("LIST");
  command
      .add_option("--kv-store-disk-rate", o.disk_rate,
                  "What each host's disk reads and writes, with --kv-store-disk-bytes; 3e9 if not given")
      ->type_name("BYTES/S");
  command
      .add_option("--length-accuracy", o.length_accuracy,
                  "How often the class of an answer's length is known when its request comes (powers of two); without "
                  "it: as the front end learns from the answers before")
      ->type_name("SHARE")
      ->check(between(0.0, 1.0));
  command
      .add_option("--deadlines", o.deadlines,
                  "Each request wants its whole answer within a time drawn between these; the server is told that as "
                  "its objective for the first token, for --queue-order edf and static batches")
      ->type_name("SECONDS-SECONDS");
  command.add_flag("--json", o.json, "One JSON object on stdout and nothing else there");
  command.add_option("--config", o.config_file, "TOML file with settings; those of a simulation are used")
      ->type_name("FILE");
  declare(flags.registry, o.settings);
  runtime::config::bind(flags.registry, command, flags.problems, simulated);
}

void note_given(const CLI::App& command, sim_flags& flags) {
  // A trace is played whole unless somebody says otherwise.
  if (!flags.options.load.trace.empty() && command.count("--requests") == 0) flags.options.load.requests = 0;
  if (flags.options.load.trace.empty() && flags.options.load.requests == 0)
    throw CLI::ValidationError("--requests", "0 is all of a trace, and there is none; give --trace FILE, or how many");
  flags.options.policy_told = command.count("--policy") > 0;
}

} // namespace godwit::main
