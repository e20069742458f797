#pragma once

#include <godwit/actors/answer_sink.hpp>
#include <godwit/actors/sim/simulated_cluster.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Experiments with a cluster that nobody has: the production actors serve a workload on virtual time.
///
/// A run is a function of its options: same options, same result, on every machine.
namespace godwit::actors::sim {

struct simulation_options {
  simulated_cluster_options cluster;
  std::vector<protocols::workload::workload_request> requests; ///< in the order of their arrivals
  /// Requests of a workload priority above 0 go first, with this execution level. Without a value all are alike.
  std::optional<std::uint8_t> high_level;
  std::chrono::nanoseconds sample_interval{std::chrono::seconds(1)};
  /// When no request has got a token, nor ended, for so long while some are open, the run ends, and they count as
  /// unfinished: the cluster hangs.
  std::chrono::nanoseconds patience{std::chrono::hours(1)};
};

/// What became of a request. Times in ns since the run began.
struct request_record {
  std::int64_t arrival_ns = 0;
  std::int64_t first_token_ns = -1; ///< -1: none came
  std::int64_t last_token_ns = -1;
  std::int64_t ended_ns = -1; ///< -1: unfinished
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0; ///< that came
  std::uint32_t cached_tokens = 0; ///< of the prompt, found in the prefix cache
  std::uint8_t priority = 0;       ///< of the workload
  std::optional<failure_kind> failed;
  std::uint32_t preemptions = 0;
  std::int64_t preemption_loss_ns = 0; ///< from each preemption to the next token: queueing and recomputation
  std::uint32_t migrations = 0;        ///< committed
  std::int64_t stall_ns = 0;           ///< out of the batch for their sake

  [[nodiscard]] bool answered() const noexcept { return ended_ns >= 0 && !failed; }
  friend bool operator==(const request_record&, const request_record&) = default;
};

/// The cluster at one moment.
struct cluster_sample {
  std::int64_t time_ns = 0;
  std::uint32_t instances = 0; ///< paid for: loading, serving, draining, and ordered ones
  std::uint32_t ready = 0;
  std::uint32_t open = 0; ///< requests that arrived and have not ended
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint64_t blocks_total = 0;
  std::uint64_t blocks_used = 0;
  std::uint64_t blocks_fragmented = 0; ///< see `fragmented_blocks`
  friend bool operator==(const cluster_sample&, const cluster_sample&) = default;
};

struct simulation_result {
  std::string trouble; ///< one line that says why there was no run; empty: there was
  std::vector<request_record> requests;
  std::vector<cluster_sample> samples;
  std::map<std::string, std::uint64_t> migrations_committed; ///< by cause
  std::map<std::string, std::uint64_t> migrations_aborted;   ///< by reason; refused and lost ones included
  std::vector<std::int64_t> stalls_ns;                       ///< of the committed ones
  std::int64_t duration_ns = 0;                              ///< virtual, until the last request ended
  double instance_seconds = 0;
  std::uint32_t instances_max = 0;
  std::uint64_t events = 0; ///< messages that were consumed and timers that fired
  std::vector<std::string> complaints;
};

[[nodiscard]] simulation_result simulate(simulation_options options);

/// Memory that is free and of no use, in blocks, as Llumnix (OSDI '24, figures 5 and 12) counts it: the first in line
/// of an instance waits because its demand is more than the instance has free, though the free blocks of all instances
/// together would hold it. Counted are the demands of as many such heads of line, smallest first, as the whole
/// cluster's free blocks would hold at once. Blocks that only the prefix cache uses are free.
[[nodiscard]] std::uint64_t fragmented_blocks(std::span<const protocols::load_report> loads);

/// The prompt that stands for a request of a workload: what two requests share by their prefix hashes they share here,
/// and nothing else.
[[nodiscard]] std::vector<protocols::token_id> prompt_of(const protocols::workload::workload_request& request,
                                                         std::size_t index, std::uint32_t vocabulary,
                                                         std::uint64_t seed);

} // namespace godwit::actors::sim
