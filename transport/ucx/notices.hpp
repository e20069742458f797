#pragma once

#include <godwit/transport/ucx/fabric.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::transport::ucx {

/// Why connections ended and what goes a slower way, for whoever wants to write it down. A peer that connects again and
/// again and does wrong each time fills no disk: of ten seconds ten are told, and the next one says how many were not.
class notices {
public:
  using time = std::chrono::steady_clock::time_point;
  explicit notices(std::function<void(const link_end&)> to) : to_(std::move(to)) {}
  void tell(link_end what, time now);
  /// Of what goes on: once for each `what` and `whom`, as far as these are remembered.
  void tell_once(std::string_view what, const std::string& whom, const std::string& peer, std::string text, time now);

private:
  std::function<void(const link_end&)> to_;
  time since_{};
  std::uint32_t told_ = 0, left_out_ = 0;
  std::set<std::pair<std::string, std::string>> known_; ///< what was told of whom
};

} // namespace godwit::transport::ucx
