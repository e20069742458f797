#pragma once

#include "main/latency_stats.hpp"
#include "main/sim_faults.hpp"

#include <godwit/actors/sim/simulation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// What a simulation was, for the head of its report.
struct sim_setup {
  std::string policy; ///< as it was asked for; where a file said the dispatch alone, that
  std::string dispatch;
  std::string migration;
  std::string scaling;
  std::string profile;
  bool deadlines = false;         ///< requests have them
  bool expects_lengths = false;   ///< of answers, and does something with that
  bool copies_slow_steps = false; ///< the profile says what a migration takes from them
  std::string workload;           ///< "M-M", "trace azure.csv"
  std::string arrivals;           ///< "Poisson, 7.5 requests/s"
  std::uint32_t instances = 0;
  std::uint32_t stages = 1; ///< of each instance
  std::uint32_t context = 0;
  std::uint64_t seed = 0;
  std::string faults;                 ///< the plan; empty: none
  std::string first_level = "normal"; ///< the execution priority of the others
  std::string priority;               ///< the execution priority of requests of priority 1; empty: there are none
  std::size_t shortened = 0;
  std::size_t skipped = 0; ///< lines of the trace that name no tokens
  std::size_t missing = 0; ///< requests that were asked for, and that the trace does not have
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  /// Requests that arrive in [first, second) ns count, and what was then. Without a value all of the run.
  std::optional<std::pair<std::int64_t, std::int64_t>> window;
  std::vector<std::pair<std::string, std::string>> settings; ///< that are not the defaults
};

/// Of a request that has ended.
[[nodiscard]] bool meets_objectives(const sim_setup& setup, const actors::sim::request_record& request);

/// "unavailable"
[[nodiscard]] std::string name_of(actors::failure_kind kind);

/// A run in figures. Latencies are those of answered requests.
struct sim_report {
  struct latencies {
    latency_stats e2e_ms;     ///< from the arrival to the end
    latency_stats prefill_ms; ///< from the arrival to the first token: queueing is part of it
    latency_stats decode_ms;  ///< of a token after the first, on average over its request; of requests of two and more
    latency_stats loss_ms;    ///< by preemptions, of every request: 0 for those never preempted
    latency_stats stall_ms;   ///< for migrations, of every request
  };
  /// Of the KV memory, over the time of the run.
  struct memory_shares {
    double used = 0;            ///< on average
    double fragmented = 0;      ///< on average
    double fragmented_max = 0;  ///< at most
    double fragmented_time = 0; ///< of the time, in which any is
  };
  struct level {
    std::string name;
    std::size_t requests = 0;
    std::size_t answered = 0;
    latencies times;
    double attainment = 0;
  };
  std::size_t requests = 0;
  std::size_t answered = 0;
  std::size_t unfinished = 0;
  std::size_t not_arrived = 0; ///< when it was interrupted
  bool interrupted = false;
  std::map<std::string, std::size_t> failed; ///< by kind
  latencies times;
  latency_stats token_gap_ms; ///< between tokens that come one after the other, of all requests together
  std::vector<level> levels;  ///< normal, then high; empty without priorities
  double duration_s = 0;
  double requests_per_s = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t answer_tokens = 0;

  std::uint64_t preemptions = 0;
  std::size_t preempted = 0; ///< requests
  std::uint64_t swapped_out_tokens = 0, swapped_in_tokens = 0;
  std::uint64_t swaps = 0; ///< of the preemptions, those whose KV went to the host's memory
  double loss_s = 0;       ///< in all

  /// Of the KV store, where there is one.
  struct store_figures {
    std::uint64_t query_tokens = 0; ///< that no prefix cache had, looked up there
    std::uint64_t hit_tokens = 0;   ///< of these, loaded from there
    protocols::store_report shards; ///< all together, as they reported last
  };
  std::optional<store_figures> store;

  std::uint64_t migrations = 0;
  std::map<std::string, std::uint64_t> committed; ///< by cause
  std::map<std::string, std::uint64_t> aborted;   ///< by reason
  std::uint64_t moved_waiting = 0;                ///< of the committed: requests that had nothing to copy yet
  std::uint64_t moved_blocks = 0;                 ///< KV blocks of the others
  std::uint64_t known_blocks = 0;                 ///< of these, such as the destination had already
  std::map<std::uint32_t, std::uint64_t> stages;  ///< of the other committed ones
  latency_stats stall_ms;                         ///< of these: out of the batch, until the commit's answer
  latency_stats gap_ms;                           ///< of these: between the client's tokens before and after
  double migrating_share = 0;                     ///< of an instance's time, with a migration under way
  std::uint64_t slowed_steps = 0;                 ///< that only decode, while KV left or arrived
  double slowed_by = 0;                           ///< share of these steps' time without it, together
  double slowed_by_max = 0;                       ///< of one of them

  /// Of all devices, whatever the window.
  struct step_figures {
    std::uint64_t count = 0;
    double requests = 0; ///< of a step, on average
    double tokens = 0;   ///< likewise
    double busy = 0;     ///< share of the instances' time
  };
  step_figures steps;
  /// Of pipelines whose layers may move, where some have.
  std::uint64_t layer_moves = 0;
  std::map<std::uint32_t, std::vector<std::uint32_t>> layers; ///< of each instance, by stage, at the end
  /// Where one scheduler plans all steps: what a step waits for it, on average and at most.
  std::optional<std::pair<double, double>> central_stall_ms;

  std::optional<memory_shares> memory; ///< nothing: too few samples to tell
  double instances = 0;                ///< on average
  std::uint32_t instances_max = 0;
  double instance_s = 0; ///< the cost
  std::uint64_t orders_given_up = 0;

  /// Where instances have roles, how many have each, on average over the samples.
  struct role_counts {
    double prefill = 0, decode = 0;
    std::uint32_t prefill_least = 0, prefill_most = 0;
    std::map<std::string, std::uint64_t> changes; ///< by the new role
  };
  std::optional<role_counts> roles;

  /// How long requests took from their first dispatch to their first token, as a multiple of what the scheduler
  /// expected; of those of which it expected something.
  latency_stats over_expected;
  double expected_wrong_by = 0; ///< the differences of the two, together, as a share of what it took

  /// Of answers whose lengths were forecast, as they are complete; where that matters.
  struct length_figures {
    std::size_t answers = 0;
    double exact = 0;    ///< share whose most likely class was theirs
    double near = 0;     ///< share of those that were off by one class
    double wrong_by = 0; ///< the differences in tokens, together, as a share of all tokens
  };
  std::optional<length_figures> lengths;

  double attainment = 0; ///< share of all requests that met every objective (answered ones, without objectives)
  double goodput = 0;    ///< these per second
  std::optional<fault_report> faults;
  std::uint64_t events = 0;
};

/// Of fewer samples that hold for a while (one a virtual second) a report says nothing about memory.
inline constexpr std::size_t memory_samples_min = 10;

[[nodiscard]] sim_report make_report(const sim_setup& setup, const actors::sim::simulation_result& run);

[[nodiscard]] std::string to_table(const sim_setup& setup, const sim_report& report);
/// One line, without its end. The same run gives the same bytes.
[[nodiscard]] std::string to_json(const sim_setup& setup, const sim_report& report);

inline constexpr std::array plot_names{"latency.svg", "requests.svg", "memory.svg", "instances.svg"};
/// One line for each request, with a header. With faults it says what they did to it.
[[nodiscard]] std::string requests_csv(const actors::sim::simulation_result& run, bool with_faults = false);
/// One line for each sample, with a header.
[[nodiscard]] std::string samples_csv(const actors::sim::simulation_result& run);
/// Plots, by file name.
[[nodiscard]] std::map<std::string, std::string> plots(const sim_setup& setup,
                                                       const actors::sim::simulation_result& run);

} // namespace godwit::main
