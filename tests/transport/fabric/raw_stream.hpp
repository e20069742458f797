#pragma once

#include "ucx/stream_listener.hpp"

#include <cstdint>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::transport::testing {

/// The stream's end that sends, in our own hands.
class raw_stream {
public:
  raw_stream(const std::string& host, std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;
  ~raw_stream() { ::close(fd_); }
  [[nodiscard]] bool connected() const { return connected_; }
  void say(const std::string& bytes) const { (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void greet(std::uint64_t token) const {
    const ucx::stream_greeting greeting{ucx::stream_magic, token};
    say({reinterpret_cast<const char*>(&greeting), sizeof greeting});
  }
  /// Whether the other side shuts it within `timeout_ms`.
  [[nodiscard]] bool shut(int timeout_ms) const {
    pollfd readable{fd_, POLLIN, 0};
    char byte = 0;
    return ::poll(&readable, 1, timeout_ms) == 1 && ::recv(fd_, &byte, 1, 0) <= 0;
  }

private:
  int fd_;
  bool connected_ = false;
};

/// Lets streams connect, and reads nothing of what they bring.
class deaf_listener {
public:
  deaf_listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int small = 4096; // so that little is lost in the kernel's buffers
    (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&at), size) == 0 && ::listen(fd_, 8) == 0 &&
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) == 0)
      port_ = ntohs(at.sin_port);
  }
  deaf_listener(const deaf_listener&) = delete;
  deaf_listener& operator=(const deaf_listener&) = delete;
  ~deaf_listener() { ::close(fd_); }
  [[nodiscard]] std::uint16_t port() const { return port_; } ///< 0: it has none

private:
  int fd_;
  std::uint16_t port_ = 0;
};

} // namespace godwit::transport::testing
