#pragma once

#include "ucx/stream_socket.hpp"
#include "ucx/wire.hpp"

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace godwit::transport::ucx {

/// The sending end of a stream. Blocks go out of the memory in which they lie; little waits here, so that what is given
/// up before it begins is not sent.
class stream_writer {
public:
  /// `token` is said first.
  stream_writer(std::shared_ptr<stream_socket> to, std::uint64_t token);

  [[nodiscard]] bool full() const noexcept { return waiting_.size() >= frames_max; }
  [[nodiscard]] bool writable() const noexcept { return !waiting_.empty() && socket_->writable(); }
  [[nodiscard]] const std::string& error() const noexcept { return socket_->error(); }
  [[nodiscard]] bool gone() const noexcept { return socket_->gone(); }
  /// `keep` is held until `memory` is not read any more.
  void add(const wire::blocks& m, const std::vector<protocols::memory_region>& memory, std::shared_ptr<void> keep);
  /// Whether bytes of this one are still to be written.
  [[nodiscard]] bool holds(std::uint64_t number) const noexcept;
  /// One write, of so much at most.
  void step(std::size_t bytes_max);

private:
  static constexpr std::size_t frames_max = 2;
  struct frame {
    std::uint64_t number = 0; ///< 0: the greeting
    std::string header;
    std::vector<iovec> parts; ///< the header and the memory
    std::size_t next = 0;     ///< of the parts that are not out
    std::shared_ptr<void> keep;
  };
  std::shared_ptr<stream_socket> socket_;
  std::deque<frame> waiting_;
  std::size_t bytes_ = 0; ///< of those
};

} // namespace godwit::transport::ucx
