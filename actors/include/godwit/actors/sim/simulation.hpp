#pragma once

#include <godwit/actors/answer_sink.hpp>
#include <godwit/actors/sim/fault_injector.hpp>
#include <godwit/actors/sim/gap_counts.hpp>
#include <godwit/actors/sim/simulated_cluster.hpp>
#include <godwit/protocols/lengths/length_predictor.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Experiments with a cluster that nobody has: the production actors serve a workload on virtual time.
///
/// A run is a function of its options: the same build with the same math library gives the same result on every
/// machine.
namespace godwit::actors::sim {

/// What became of a request. Times in ns since the run began.
struct request_record {
  std::int64_t arrival_ns = 0;      ///< -1: the run ended before
  std::int64_t first_token_ns = -1; ///< -1: none came
  std::int64_t last_token_ns = -1;
  std::int64_t longest_gap_ns = 0; ///< between two of its tokens, or what came at once; 0: it had less than two
  std::int64_t ended_ns = -1;      ///< -1: unfinished
  std::int64_t dispatched_ns = -1; ///< -1: no instance took it
  std::int64_t expected_ns = 0;    ///< from then until the first token, as the scheduler expected; 0: nobody knew
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0;     ///< that came
  std::uint32_t cached_tokens = 0;     ///< of the prompt, found in the prefix cache
  protocols::length_forecast forecast; ///< of its answer, as it came
  std::uint8_t priority = 0;           ///< of the workload
  std::int64_t deadline_ns = 0;        ///< of the workload
  std::optional<failure_kind> failed;
  std::optional<protocols::instance_id> instance; ///< that had it last
  std::uint32_t preemptions = 0;
  std::uint32_t swaps = 0;             ///< of these, those whose KV went to the host's memory
  std::int64_t preemption_loss_ns = 0; ///< from each preemption to the next token: queueing and recomputation
  std::uint32_t migrations = 0;        ///< committed
  std::int64_t stall_ns = 0;           ///< out of the batch for their sake
  std::uint32_t losses = 0;            ///< of its instance; each time it was dispatched again
  std::int64_t interrupted_ns = 0;     ///< between the client's tokens before and after these

  [[nodiscard]] bool answered() const noexcept { return ended_ns >= 0 && !failed; }
  friend bool operator==(const request_record&, const request_record&) = default;
};

/// How far a run is.
struct run_progress {
  std::int64_t time_ns = 0;  ///< virtual, since it began
  std::int64_t clock_ns = 0; ///< of the world, as recordings have it
  std::size_t ended = 0;     ///< requests
  std::size_t submitted = 0; ///< requests that have arrived
  /// All, in the order of their arrivals; of those that have not ended, what is known by now. Valid during the call.
  std::span<const request_record> requests;
};

struct simulation_options {
  simulated_cluster_options cluster;
  /// In the order of their arrivals. Where one has a deadline, the cluster is told that as the objective for its first
  /// token.
  std::vector<protocols::workload::workload_request> requests;
  fault_plan faults; ///< times since the workload began. Not empty: the cluster's processes are separate
  /// The length of an answer is its request's max_tokens, which `cluster.node.frontend.lengths` therefore does not get
  /// to see. With a value, in [0, 1], something else expects lengths: it knows the class of that share of the answers,
  /// and is one or two classes off with the others.
  std::optional<double> length_accuracy;
  /// Requests of a workload priority above 0 go first, with this execution level. Without a value all are alike.
  std::optional<std::uint8_t> high_level;
  /// `token_gaps` are of requests that arrive in [first, second) ns. Without a value of all.
  std::optional<std::pair<std::int64_t, std::int64_t>> gaps_of;
  std::chrono::nanoseconds sample_interval{std::chrono::seconds(1)}; ///< above 0
  /// Where a run has so many samples, every other one is dropped, and half as many are kept from then on; and so again.
  std::size_t samples_max = 100'000;
  /// When no request has got a token, nor ended, for so long while some are open, the run ends, and they count as
  /// unfinished: the cluster hangs.
  std::chrono::nanoseconds patience{std::chrono::hours(1)}; // above 0
  /// Asked once each `sample_interval`. False: the run ends there, and what is open counts as unfinished. Empty: it
  /// goes on.
  std::function<bool(const run_progress&)> goes_on;
};

/// Memory that is free and of no use, as Llumnix (OSDI '24, figures 5 and 12) counts it: the first in line of an
/// instance waits because its demand is more than the instance has free, though the free blocks of all instances
/// together would hold it. Counted are as many such heads of line, smallest first, as the whole cluster's free blocks
/// would hold at once. Blocks that only the prefix cache uses are free; those that an instance's running requests lack
/// and take first are not.
struct fragmentation {
  std::uint64_t blocks = 0;  ///< that the heads of line which would fit demand
  std::uint32_t heads = 0;   ///< that find too little on their instances
  std::uint32_t fitting = 0; ///< of these, would fit
  friend bool operator==(const fragmentation&, const fragmentation&) = default;
};
[[nodiscard]] fragmentation fragmentation_of(std::span<const protocols::load_report> loads);

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
  std::uint64_t blocks_headroom = 0; ///< kept free for execution priorities
  fragmentation fragmented;
  std::uint32_t prefill = 0; ///< instances that have this role, of those that have reported; the others are mixed
  std::uint32_t decode = 0;
  friend bool operator==(const cluster_sample&, const cluster_sample&) = default;
};

/// What came of a simulation. Times in ns since the workload began, unless said otherwise.
struct simulation_result {
  std::string trouble; ///< one line that says why there was no run; empty: there was
  std::vector<request_record> requests;
  std::vector<cluster_sample> samples;                       ///< at equal distances, and one at the end
  std::map<std::string, std::uint64_t> migrations_committed; ///< by cause
  std::map<std::string, std::uint64_t> migrations_aborted;   ///< by reason; refused and lost ones included
  std::map<std::string, std::uint64_t> role_changes;         ///< by the new one
  std::uint64_t swapped_out_tokens = 0;                      ///< whose KV went to the hosts' memory
  std::uint64_t swapped_in_tokens = 0;                       ///< and came back from there
  protocols::store_report store;                             ///< all shards of the KV store, as they reported last
  std::uint64_t store_query_tokens = 0;                      ///< that the prefix caches lacked, looked up there
  std::uint64_t store_hit_tokens = 0;                        ///< of these, loaded from there
  std::uint64_t moved_waiting = 0;               ///< of the committed: requests that had nothing to copy yet
  std::uint64_t moved_blocks = 0;                ///< KV blocks of the others
  std::uint64_t known_blocks = 0;                ///< of these, such as the destination had already
  std::map<std::uint32_t, std::uint64_t> stages; ///< of the other committed ones: how many took so many
  std::vector<std::int64_t> stalls_ns;           ///< of these: from the batch until the commit's answer
  std::vector<std::int64_t> gaps_ns;             ///< of these: between the client's tokens before and after
  gap_counts token_gaps;                         ///< between the tokens of a request, of all requests together
  slowed_steps slowed;                           ///< for the sake of migrations
  gpu::sim::step_books steps;
  layer_books layers;
  std::optional<gpu::sim::central_scheduler> central; ///< as it was at the end
  double migrating_seconds = 0;                       ///< of all instances, with a migration from or to them under way
  std::int64_t duration_ns = 0;                       ///< virtual, until the last request ended, or the run
  double instance_seconds = 0;
  std::uint32_t instances_max = 0;
  std::uint64_t orders_given_up = 0;             ///< of autoscaling: they failed, or did not come in time
  std::map<std::string, std::uint64_t> failures; ///< of requests, by what their clients were told
  fault_books faults;
  instance_books instances; ///< at the end
  std::uint64_t events = 0; ///< messages that were consumed and timers that fired
  std::vector<std::string> complaints;
  std::optional<std::int64_t> interrupted_at_ns; ///< by `goes_on`, on the world's clock; empty: it came to its end
};

/// What `godwit sim` gives the node where it is told nothing: batches and queues of a large server, execution levels
/// normal and high, migrations as fast as the link allows. For figures to be compared with those of the command; what
/// is not set so has the library's defaults.
[[nodiscard]] node_options node_of_the_command();

/// Runs the workload on a cluster of the production actors in virtual time, until all requests have ended, the cluster
/// hangs (`simulation_options::patience`) or `goes_on` says no. Equal options give equal results, but for what other
/// threads do. Errors: `simulation_result::trouble`, options that cannot be used among them. `frontend.requests_max` is
/// at least the number of requests; `frontend.home` is 0.
[[nodiscard]] simulation_result simulate(simulation_options options);

/// How long at least one of these lasts; they may be in any order. [begin, end) in ns.
[[nodiscard]] std::int64_t covered_ns(std::vector<std::pair<std::int64_t, std::int64_t>> spans);

/// The prompt that stands for a request of a workload: what two requests share by their prefix hashes they share here,
/// and nothing else.
[[nodiscard]] std::vector<protocols::token_id> prompt_of(const protocols::workload::workload_request& request,
                                                         std::size_t index, std::uint32_t vocabulary,
                                                         std::uint64_t seed);

} // namespace godwit::actors::sim
