#pragma once

#include <time.h>

namespace godwit::bench {

[[nodiscard]] inline double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Processor time of all threads of this process, in seconds: what it took of a core, whatever others on the machine
/// take meanwhile. On a machine with nothing else to do it is the time that went by.
[[nodiscard]] inline double processor_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

/// Of the calling thread: where others of this process look for work of their own, as CAF's idle workers do.
[[nodiscard]] inline double thread_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

} // namespace godwit::bench
