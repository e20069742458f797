#pragma once

#include <time.h>

namespace godwit::bench {

/// Processor time of all threads of this process, in seconds: what it took of a core, whatever others on the machine
/// take meanwhile. On a machine with nothing else to do it is the time that went by.
[[nodiscard]] inline double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

} // namespace godwit::bench
