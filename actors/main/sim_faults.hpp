#pragma once

#include "main/latency_stats.hpp"

#include <godwit/actors/sim/simulation.hpp>

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// What went wrong in a simulation, and what became of it.
struct fault_report {
  std::vector<std::pair<std::string, std::string>> faults; ///< as a plan has them; why not, empty for those that struck
  std::map<std::string, std::uint64_t> struck;             ///< by kind
  std::uint64_t missed = 0;
  std::uint64_t early_end = 0;   ///< planned ones that came after the end
  std::uint64_t losses = 0;      ///< of a request's instance; each time it was dispatched again
  std::size_t requests_lost = 0; ///< that lost theirs at least once
  latency_stats interrupted_ms;  ///< between the tokens before and after, of requests that had any; by request
  std::map<std::string, std::uint64_t> failures; ///< what clients were told
  // Availability:
  double answered_share = 0; ///< of the requests
  double ready_share = 0;    ///< of the time of all instances that were wanted: in which they took requests
  double none_s = 0;         ///< in which no instance took any
};

[[nodiscard]] fault_report make_fault_report(const actors::sim::simulation_result& run);
/// A few lines for people. Of many faults the first ones.
[[nodiscard]] std::string to_table(const fault_report& report);
[[nodiscard]] boost::json::object to_object(const fault_report& report);

} // namespace godwit::main
