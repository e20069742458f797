#pragma once

#include <cstddef>
#include <string>

namespace godwit::bench {

/// UCX's own benchmark, from the package ucx-utils: active messages from one process to another.
class perftest {
public:
  explicit perftest(std::string transports) : transports_(std::move(transports)) {}
  /// GB/s of `count` messages of `bytes` each, after `warm_up` of them.
  [[nodiscard]] double bandwidth(std::size_t bytes, std::size_t count, std::size_t warm_up) const;

private:
  std::string transports_;
};

} // namespace godwit::bench
