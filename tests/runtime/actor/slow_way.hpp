#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::test {

/// A socket that listens on loopback, and for which nobody accepts.
inline int listen_in_vain(int backlog, sockaddr_in& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener, backlog), 0);
  EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return listener;
}

/// A way to loopback's `port` on which the first word from there takes its time, and which may be blocked.
class slow_way {
public:
  slow_way(std::uint16_t port, std::chrono::milliseconds delay) : listener_(listen_in_vain(5, address_)) {
    to_.sin_family = AF_INET;
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to_.sin_port = htons(port);
    accepts_ = std::jthread([this, delay](const std::stop_token& over) {
      while (!over.stop_requested()) {
        pollfd one{listener_, POLLIN, 0};
        if (::poll(&one, 1, 10) <= 0) continue;
        const int from = ::accept(listener_, nullptr, nullptr);
        passes_.emplace_back([this, from, delay](const std::stop_token& end) { pass(from, delay, end); });
      }
    });
  }
  ~slow_way() {
    accepts_ = {};
    passes_.clear();
    ::close(listener_);
  }
  [[nodiscard]] std::uint16_t port() const { return ntohs(address_.sin_port); }
  /// From here on nothing that is sent arrives, and the connections stay open.
  void block() { blocked_ = true; }

private:
  void pass(int from, std::chrono::milliseconds delay, const std::stop_token& over) const {
    const int to = ::socket(AF_INET, SOCK_STREAM, 0);
    (void)::connect(to, reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
    std::this_thread::sleep_for(delay);
    pollfd both[] = {{from, POLLIN, 0}, {to, POLLIN, 0}};
    std::vector<char> bytes(65536);
    for (bool open = true; open && !over.stop_requested();) {
      if (blocked_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      if (::poll(both, 2, 10) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        const auto n = ::recv(both[i].fd, bytes.data(), bytes.size(), 0);
        open = open && n > 0 && ::send(both[1 - i].fd, bytes.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) == n;
      }
    }
    ::close(from);
    ::close(to);
  }
  sockaddr_in address_{}, to_{};
  int listener_;
  std::atomic<bool> blocked_{false};
  std::vector<std::jthread> passes_;
  std::jthread accepts_;
};

} // namespace godwit::runtime::test
