#pragma once

#include "http/readers.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace godwit::bench {

/// The whole front end, from HTTP to the instances' actors, over devices that cost nothing.
class front {
public:
  struct options {
    unsigned http_threads = 2;
    std::uint32_t instances = 1;
    std::uint32_t sequences_max = 256; ///< an instance
    /// Between two steps of an instance; 0: as fast as they come. Instances take turns.
    std::chrono::microseconds step{0};
  };
  explicit front(const options& wanted);
  ~front();
  front(const front&) = delete;
  front& operator=(const front&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;
  /// When the device had token `index` of the stream that `request_of` numbered so.
  [[nodiscard]] bench_clock::time_point made_at(std::size_t stream, std::size_t index) const;
  void expect(std::size_t streams, std::size_t tokens);

  /// A streamed completion of so many tokens.
  [[nodiscard]] static std::string request_of(std::size_t stream, std::size_t tokens);

private:
  class impl;
  std::unique_ptr<impl> impl_;
};

} // namespace godwit::bench
