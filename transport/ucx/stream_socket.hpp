#pragma once

#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sys/uio.h>

namespace godwit::transport::ucx {

/// A TCP connection of our own beside those of UCX, which reads and writes where the caller's memory is. Never waits:
/// where nothing moves it calls `wake` once something will. On the fabric's thread only.
class stream_socket : public std::enable_shared_from_this<stream_socket> {
public:
  using protocol = boost::asio::ip::tcp;

  stream_socket(protocol::socket connected, std::function<void()> wake);
  stream_socket(const stream_socket&) = delete;
  stream_socket& operator=(const stream_socket&) = delete;

  /// Bytes moved. 0: none now, or `error` says why never again.
  [[nodiscard]] std::size_t read(std::span<iovec> into);
  /// `more`: something follows at once, so the kernel need not send a short packet.
  [[nodiscard]] std::size_t write(std::span<iovec> from, bool more);
  /// Nothing says that it would move nothing.
  [[nodiscard]] bool readable() const noexcept { return readable_; }
  [[nodiscard]] bool writable() const noexcept { return writable_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// The error is that the peer has closed the stream, or is no more.
  [[nodiscard]] bool gone() const noexcept { return gone_; }

private:
  void close_told();
  [[nodiscard]] std::size_t moved(ssize_t result, protocol::socket::wait_type direction, bool& possible);
  void watch(protocol::socket::wait_type direction, bool& possible);

  protocol::socket socket_;
  std::function<void()> wake_;
  bool readable_ = true, writable_ = true;
  std::string error_;
  bool gone_ = false;
};

} // namespace godwit::transport::ucx
