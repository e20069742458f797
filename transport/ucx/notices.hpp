#pragma once

#include <godwit/transport/ucx/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace godwit::transport::ucx {

/// Why connections ended, for whoever wants to write it down. A peer that connects again and again and does wrong each
/// time fills no disk: of ten seconds ten ends are told, and the next one says how many were not.
class notices {
public:
  using time = std::chrono::steady_clock::time_point;
  explicit notices(std::function<void(const link_end&)> to) : to_(std::move(to)) {}
  void tell(link_end what, time now);

private:
  std::function<void(const link_end&)> to_;
  time since_{};
  std::uint32_t told_ = 0, left_out_ = 0;
};

} // namespace godwit::transport::ucx
