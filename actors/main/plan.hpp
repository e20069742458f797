#pragma once

#include "main/simulate.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

/// What `godwit plan` can be told: a simulation, but for its rate, which is what is sought.
struct plan_options {
  sim_options sim; ///< with at least one objective
  double attainment = 0.9;
  std::vector<std::uint32_t> step_tokens{256, 512, 1024, 2048}; ///< to be tried for llumlet.step_tokens_max
  double seconds = 60;         ///< of arrivals in each run, at least; and ten times what the longest requests take
  bool exact_requests = false; ///< as many as sim.load.requests instead
  double precision = 0.05;
};

/// Where a plan is made for more instances, some divisions are left out.
inline constexpr std::uint32_t plan_all_up_to = 9;
inline constexpr std::uint32_t plan_instances_max = 128;
/// One in a hundred of fewer is nobody.
inline constexpr std::size_t plan_requests_min = 100;

/// One way to run the cluster, and how much it bears.
struct plan_entry {
  std::string roles; ///< as `--roles` takes them; empty: all are mixed
  std::uint32_t step_tokens = 0;
  double rate = 0;      ///< requests/s of the whole cluster; 0: it meets the objectives at no rate that was tried
  bool bounded = true;  ///< a higher one was tried, and was too much
  bool settled = false; ///< the run lasted long enough for its longest requests
  double attainment = 0;
  double ttft_p99_ms = 0;
  double tpot_p99_ms = 0;
};

/// All ways to divide the instances into those for prefill and those that decode, with each size of a step, the one
/// that bears most first (DistServe, OSDI '24, section 4: placements are chosen by simulation for the highest rate per
/// device within the objectives; the parallelism of each phase, which is searched there, is given here). `told` hears
/// of each one as it is found. Once `goes_on` says no, it is about those that were found by then.
[[nodiscard]] protocols::expected<std::vector<plan_entry>, bench_error>
make_plan(const plan_options& options, const std::function<void(std::size_t done, std::size_t of)>& told = {},
          const std::function<bool()>& goes_on = {});

/// The exit code: 0 where something meets the objectives.
[[nodiscard]] int run_plan(const plan_options& options, std::ostream& out, std::ostream& err,
                           const std::function<void(std::size_t done, std::size_t of)>& told = {},
                           const std::function<bool()>& goes_on = {});

} // namespace godwit::main
