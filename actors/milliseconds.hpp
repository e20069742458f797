#pragma once

#include <chrono>
#include <cstdint>

namespace godwit::actors {

/// For lines of the log; what is left of a millisecond is dropped.
inline std::int64_t milliseconds_of(std::chrono::nanoseconds t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t).count();
}

} // namespace godwit::actors
