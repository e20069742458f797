#pragma once

#include <godwit/protocols/workload/arrivals.hpp>
#include <godwit/protocols/workload/lengths.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::protocols::workload {

struct workload_spec {
  std::size_t requests = 0;
  arrival_process arrivals;
  length_spec lengths;
  double high_priority_share = 0.0; ///< of the requests, at random, get priority 1; in [0, 1]
  std::uint64_t seed = 0;
};

[[nodiscard]] std::vector<workload_request> make_workload(const workload_spec& spec);

/// Gives the requests, in their order, arrivals of that process in place of those that they have.
void draw_arrivals(std::vector<workload_request>& requests, const arrival_process& process, std::uint64_t seed);

/// Gives the requests such lengths in place of those that they have; their prompts then share nothing.
void draw_lengths(std::vector<workload_request>& requests, const length_spec& lengths, std::uint64_t seed);

/// Gives that share of the requests, at random, priority 1, and the others 0. `share` in [0, 1].
void draw_priorities(std::vector<workload_request>& requests, double share, std::uint64_t seed);

/// Gives each request a deadline between these, uniformly. 0 < `least_ns` <= `most_ns`.
void draw_deadlines(std::vector<workload_request>& requests, std::int64_t least_ns, std::int64_t most_ns,
                    std::uint64_t seed);

/// Makes the requests arrive `factor` times as fast. `factor` > 0 and finite, else a caller's bug.
void scale_rate(std::vector<workload_request>& requests, double factor);

/// Shortens what does not fit into a context of that many tokens: an answer to no less than half of it, then the
/// prompt. Prompt + answer <= context afterwards, each at least 1 (`context` >= 2). Returns how many requests were
/// shortened.
std::size_t clamp_to_context(std::vector<workload_request>& requests, std::uint32_t context);

} // namespace godwit::protocols::workload
