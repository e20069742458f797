#pragma once

#include <godwit/actors/sim/simulation.hpp>

#include <cstddef>
#include <cstdint>

namespace godwit::bench {

/// What `godwit sim --lengths M-M --rate R --instances I --requests N` plays, where R is `rate_of_16` requests/s for
/// every 16 instances; 0: all at once.
[[nodiscard]] actors::sim::simulation_options simulated_load(std::uint32_t instances, std::size_t requests,
                                                             double rate_of_16 = 7.5);

} // namespace godwit::bench
