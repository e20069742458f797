#pragma once

#include <cstddef>
#include <string>

namespace godwit::bench {

/// UCX's own benchmark, from the package ucx-utils: active messages from one process to another.
class perftest {
public:
  explicit perftest(std::string transports) : transports_(std::move(transports)) {}
  /// GB/s of `count` messages of `bytes` each.
  [[nodiscard]] double bandwidth(std::size_t bytes, std::size_t count) const;

private:
  std::string transports_;
};

} // namespace godwit::bench
