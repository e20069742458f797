#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/// Whoever connects to a node's port and is none.
namespace godwit::runtime::test {

/// A connection to loopback.
inline int connect_to(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

/// Whether the other side ends the connection within `limit`.
inline bool ends(int fd, std::chrono::milliseconds limit) {
  pollfd one{fd, POLLIN, 0};
  bool left = false;
  for (char bytes[4096]; !left && ::poll(&one, 1, static_cast<int>(limit.count())) > 0;)
    left = ::recv(fd, bytes, sizeof bytes, 0) <= 0;
  return left;
}

} // namespace godwit::runtime::test
