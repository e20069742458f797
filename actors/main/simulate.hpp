#pragma once

#include "main/bench_options.hpp"
#include "main/bench_workload.hpp"
#include "main/settings.hpp"
#include "main/sim_report.hpp"

#include <godwit/actors/sim/simulation.hpp>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// What `godwit sim` can be told. docs/simulation.md says what each is for.
struct sim_options {
  std::uint32_t instances = 16;
  std::string policy = "llumnix";
  bool policy_told = false;    ///< --policy was given
  bool tries_roles = false;    ///< the command does, whatever the settings say
  bool migration_told = false; ///< the settings say which requests migrate, and not the policy
  std::string profile = "llama-7b-a10";
  double draft_acceptance = 0;                ///< how often a drafted token is right
  std::string draft_profile;                  ///< of a draft model beside each instance's; empty: none
  std::optional<std::string> central;         ///< "STEP[,REQUEST]" in us: a scheduler that plans the steps of all
  std::optional<std::string> pipeline_speeds; ///< of the stages' devices: "1,0.5"
  std::optional<double> disk_rate;            ///< bytes per second of each host's disk
  std::optional<double> length_accuracy;      ///< how often the class of an answer's length is known beforehand
  std::optional<std::string> deadlines;       ///< "LEAST-MOST" in seconds
  std::optional<std::string> window;          ///< "FROM-TO" or "FROM-" in seconds: what is reported
  std::string config_file;                    ///< that the settings were read from; empty: none
  bench_options load; ///< lengths, trace, requests, rate, cv, scale, seed, priority_share and the objectives
  std::optional<std::string> faults; ///< what goes wrong, and when
  serve_settings settings;
  std::vector<std::pair<std::string, std::string>> changed; ///< settings that are not the defaults, for the report
  std::string changed_flags;                                ///< the same as `godwit serve` takes them
  bool json = false;
  std::string csv;     ///< a file for one line per request; empty: none
  std::string samples; ///< a file for one line per sample
  std::string svg;     ///< a folder for plots
  std::string record;  ///< a file for every message
  /// Of the world's clock: where a run that is replayed was interrupted; far away where it was not. Without a value it
  /// is no replay.
  std::optional<std::int64_t> end_at_ns;
};

/// Of a replayed run that a signal ended; no exit code of the command.
inline constexpr int sim_interrupted = 130;

/// Defaults of simulations where they differ from those of `godwit serve`: queues without bounds and requests without a
/// deadline, since what is measured is how long requests wait, and migrations that copy as fast as the link allows, in
/// large portions, as suits a device that copies beside its computing.
[[nodiscard]] serve_settings sim_defaults();

/// The head and its instances, as `godwit serve` would make them of the settings.
[[nodiscard]] actors::node_options sim_node(const serve_settings& settings);

/// Simulates and reports. The exit code: 0 where every request was answered. `goes_on` is asked now and then; once it
/// says no, the run ends there, and what there is of it is reported.
[[nodiscard]] int run_sim(const sim_options& options, std::ostream& out, std::ostream& err,
                          std::function<bool(const actors::sim::run_progress&)> goes_on = {});

/// One run and what came of it, without a word to anybody: what the runtime complained about is an error, too. Once
/// `goes_on` says no, the run ends there, and the report says so.
[[nodiscard]] protocols::expected<sim_report, bench_error>
simulate_once(const sim_options& options,
              const std::function<bool(const sim_setup&, const actors::sim::run_progress&)>& goes_on = {});

} // namespace godwit::main
