#pragma once

#include <godwit/runtime/async/timer_source.hpp>
#include <godwit/transport/disk.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::transport::sim {

struct disk_settings {
  std::uint32_t slots = 0;
  std::size_t slot_bytes = 0;
  double bytes_per_second = 3e9; ///< of reads and writes together, one after the other
  std::chrono::nanoseconds latency{100'000};
  /// How much longer the read, or else the write, of this slot takes that begins now. May be empty.
  std::function<std::chrono::nanoseconds(bool reads, std::uint32_t slot)> late = {};
  /// What goes wrong with the one that ends now; empty: nothing.
  std::function<std::string(bool reads, std::uint32_t slot)> fails = {};
};

/// A disk that takes simulated time. What it does depends on the calls and their times only. The timers outlive it;
/// what is open when it ends is never heard of again.
[[nodiscard]] std::shared_ptr<disk> make_disk(disk_settings settings, runtime::async::timer_source& timers);

} // namespace godwit::transport::sim
