#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace godwit::bench {

/// What streams cost where nothing stands behind them: a server of Boost.Beast that reads a request, and sends each of
/// `events` as a chunk of its own. A connection stays on one of its threads.
class bare_server {
public:
  /// With a pace, the k-th event is sent at `due(request's body, k)`, and not before; `made` is told when that is.
  struct pace {
    std::function<std::chrono::steady_clock::time_point(const std::string& body, std::size_t k)> due;
    std::function<void(const std::string& body, std::size_t k)> made;
  };
  bare_server(unsigned threads, std::string head, std::vector<std::string> events, pace paced = {});
  ~bare_server();
  bare_server(const bare_server&) = delete;
  bare_server& operator=(const bare_server&) = delete;
  [[nodiscard]] std::uint16_t port() const noexcept;

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace godwit::bench
