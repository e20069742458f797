// A server gets any bytes over a connection, in two pieces: it answers in HTTP or not at all, closes in time, and
// answers the next client.
#include <godwit/transport/http/server.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

namespace http = godwit::transport::http;

void check(bool good) {
  if (!good) std::abort();
}

http::server_settings settings() {
  http::server_settings out;
  out.threads = 1;
  out.body_bytes_max = 16 * 1024;
  out.header_bytes_max = 4096;
  return out;
}

/// Answers with the body at once, or in pieces.
void answer(http::request r, const std::shared_ptr<http::exchange>& e) {
  check(r.body.size() <= 16 * 1024 && !r.target.empty());
  if (r.body.size() % 2 == 0) {
    http::response whole;
    whole.body = std::move(r.body);
    return e->respond(std::move(whole));
  }
  e->begin_stream(200, {{"Content-Type", r.target}});
  e->write(r.body);
  e->write("end");
  e->finish();
}

class connection {
public:
  explicit connection(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const linger reset{1, 0}; // closed at once: thousands a second would use up the ports otherwise
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    const timeval limit{5, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    check(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  ~connection() { ::close(fd_); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return; // it has heard enough
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void end() const { ::shutdown(fd_, SHUT_WR); }
  [[nodiscard]] std::string read() const {
    std::string out;
    char buffer[4096];
    for (;;) {
      const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
      check(n >= 0 || errno == ECONNRESET); // not: nothing for five seconds
      if (n <= 0) return out;
      out.append(buffer, static_cast<std::size_t>(n));
    }
  }

private:
  int fd_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static http::server server(settings(), answer);
  static const bool listens = !server.listen("127.0.0.1", 0).has_value();
  static std::uint64_t runs = 0;
  // libFuzzer's clock would interrupt this thread's reads and connects; what takes too long ends by the limit on reads.
  static const bool undisturbed = [] {
    sigset_t clock;
    sigemptyset(&clock);
    sigaddset(&clock, SIGALRM);
    return ::pthread_sigmask(SIG_BLOCK, &clock, nullptr) == 0;
  }();
  check(listens && undisturbed);
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto cut = text.size() * data[0] / 256;
  {
    const connection c(server.local_port());
    c.send(text.substr(0, cut));
    if (data[0] % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    c.send(text.substr(cut));
    c.end();
    const auto got = c.read();
    check(got.empty() || got.starts_with("HTTP/1.1 "));
  }
  if (++runs % 256 == 0) {
    const connection good(server.local_port());
    good.send("POST /x HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 4\r\n\r\nping");
    check(good.read().ends_with("\r\n\r\nping"));
    check(server.stats().connections < 64);
  }
  return 0;
}
