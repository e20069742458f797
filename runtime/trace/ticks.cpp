#include "trace/ticks.hpp"

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace godwit::runtime::trace::detail {

namespace {

/// Whether the counter runs at one rate whatever the processor does.
bool even_counter() noexcept {
#if defined(__x86_64__)
  constexpr unsigned leaves = 0x80000000U, power_leaf = 0x80000007U, invariant_bit = 8;
  unsigned a = leaves, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
  if (a < power_leaf) return false;
  a = power_leaf;
  c = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> invariant_bit & 1U) != 0;
#else
  return false;
#endif
}

/// The kernel knows whether processors agree, and watches it.
bool kernel_uses_it() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
}

} // namespace

tick_source::tick_source(const runtime::clock* simulated)
    : simulated_(simulated), counter_(!simulated && even_counter() && kernel_uses_it()) {
  if (!counter_) return;
  first_ = last_ = look();
  std::this_thread::sleep_for(std::chrono::milliseconds(1)); // once: a first rate, good to some 100 ppm
  adjust();
}

// The thread may be interrupted between the two readings: the closest of a few counts.
tick_source::anchor tick_source::look() const noexcept {
  anchor best;
  std::int64_t closest = -1;
  for (int i = 0; i < 5; ++i) {
    const auto before = now();
    const auto ns = now_ns();
    const auto between = now() - before;
    if (closest >= 0 && between >= closest) continue;
    closest = between;
    best = {before + between / 2, ns};
  }
  return best;
}

// The rate is taken over all the time that has passed, and becomes exact with it; the last anchor keeps what is left of
// its error, and what the clock was slewed by, out of recent times.
void tick_source::adjust() {
  if (!counter_) return;
  constexpr std::int64_t apart_min = 2'000'000;
  const std::lock_guard lock(mutex_);
  const auto current = look();
  if (ns_per_tick_ != 0 && current.ns - last_.ns < apart_min) return;
  ns_per_tick_ = static_cast<double>(current.ns - first_.ns) / static_cast<double>(current.ticks - first_.ticks);
  last_ = current;
}

std::int64_t tick_source::to_ns(std::int64_t ticks) const {
  if (!counter_) return ticks;
  const std::lock_guard lock(mutex_);
  return last_.ns + static_cast<std::int64_t>(static_cast<double>(ticks - last_.ticks) * ns_per_tick_);
}

} // namespace godwit::runtime::trace::detail
