#pragma once

#include <godwit/actors/sim/simulation.hpp>

#include <cstddef>
#include <cstdint>

namespace godwit::bench {

/// What `godwit sim --lengths M-M --rate R --instances I --requests N` plays, where R is `rate_of_16` requests/s for
/// every 16 instances; 0: all at once.
[[nodiscard]] actors::sim::simulation_options simulated_load(std::uint32_t instances, std::size_t requests,
                                                             double rate_of_16 = 7.5);

/// Runs it. Where not every request was answered the figures would be of something else: the process then ends with
/// exit code 1 and a line that says why.
[[nodiscard]] actors::sim::simulation_result serve_all(actors::sim::simulation_options load);

} // namespace godwit::bench
