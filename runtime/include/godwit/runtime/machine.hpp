#pragma once

#include <cstdint>

/// What only the machine can say. For the outermost layer of a program, which hands it to actors and decisions: they
/// ask for neither time nor chance themselves, or a simulation would differ from run to run.
namespace godwit::runtime {

/// Seconds since 1970, by the system's clock.
[[nodiscard]] std::int64_t unix_time_s();

} // namespace godwit::runtime
