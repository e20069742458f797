#pragma once

#include <atomic>
#include <cstdint>

namespace godwit::main {

/// What a device has not ended when the process ends, since it hangs: an executor that was dropped and is not free yet,
/// or who asks for one. Threads are then within NVIDIA's libraries, whose own end would wait for them or run into them,
/// so main() ends without.
class device_hold {
public:
  device_hold() noexcept { ++count_; }
  ~device_hold() { --count_; }
  device_hold(const device_hold&) = delete;
  device_hold& operator=(const device_hold&) = delete;
  [[nodiscard]] static bool any() noexcept { return count_ != 0; }

private:
  static inline std::atomic<std::uint32_t> count_ = 0;
};

} // namespace godwit::main
