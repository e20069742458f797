#pragma once

#include <cstdint>

/// What only the machine can say. For the outermost layer of a program, which hands it to actors and decisions: they
/// ask for neither time nor chance themselves, or a simulation would differ from run to run.
namespace godwit::runtime {

/// Seconds since 1970, by the system's clock.
[[nodiscard]] std::int64_t unix_time_s();

/// Drawn anew at each call, for seeds and keys that nobody may foresee. May block for a moment, right after the
/// machine's start.
[[nodiscard]] std::uint64_t entropy();

} // namespace godwit::runtime
