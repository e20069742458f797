#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::transport::http::test {

using namespace std::chrono_literals;

/// A client without manners: sends exactly the bytes that a test wants, and reads what comes.
class raw_socket {
public:
  explicit raw_socket(std::uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    auto address = sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~raw_socket() { close(); }
  raw_socket(const raw_socket&) = delete;
  raw_socket& operator=(const raw_socket&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  /// False if the peer has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  /// Reads until `end` has come in full, the peer closes or `within` has passed; what was read so far stays.
  const std::string& read_until(std::string_view end, std::chrono::milliseconds within = 5s) {
    const auto limit = std::chrono::steady_clock::now() + within;
    while (got_.find(end) == std::string::npos && !closed_ && read_some(limit)) {
    }
    return got_;
  }
  const std::string& read_to_end(std::chrono::milliseconds within = 5s) {
    const auto limit = std::chrono::steady_clock::now() + within;
    while (!closed_ && read_some(limit)) {
    }
    return got_;
  }
  /// The peer has closed; after reading.
  [[nodiscard]] bool closed() const { return closed_; }
  void forget() { got_.clear(); }

  void half_close() const { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Without the usual goodbye: the peer gets a reset.
  void reset() {
    const auto at_once = linger{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }

private:
  bool read_some(std::chrono::steady_clock::time_point limit) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    auto wait = pollfd{fd_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) return false;
    char buffer[65536];
    const auto n = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (n <= 0)
      closed_ = true;
    else
      got_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

  int fd_;
  bool connected_ = false;
  bool closed_ = false;
  std::string got_;
};

/// Waits for something that happens on another thread.
template <class Condition> bool eventually(Condition condition, std::chrono::milliseconds within = 5s) {
  const auto limit = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

inline std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}
inline std::string post(std::string_view target, std::string_view body) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

} // namespace godwit::transport::http::test
