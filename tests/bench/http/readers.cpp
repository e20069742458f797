#include "http/readers.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::bench {

namespace {

constexpr std::string_view event_begin = "data: {";
constexpr std::string_view stream_end = "\r\n0\r\n\r\n";

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
  return fd;
}

struct one {
  int fd = -1;
  std::string tail; // the last bytes: what is looked for may be cut
};

/// What `bytes` add to what was seen; an event that began in `tail` counts with its last byte.
void take(one& c, read_stream& s, std::string_view bytes, const read_options& options) {
  s.bytes += bytes.size();
  if (options.text) s.text += bytes;
  const auto kept = c.tail.size();
  std::string joined;
  std::string_view seen = bytes;
  if (kept > 0) {
    joined = c.tail;
    joined += bytes;
    seen = joined;
  }
  const auto now = options.arrivals ? bench_clock::now() : bench_clock::time_point();
  for (auto at = seen.find(event_begin); at != std::string_view::npos; at = seen.find(event_begin, at + 1)) {
    if (at + event_begin.size() <= kept) continue;
    ++s.events;
    if (options.arrivals) s.arrivals.push_back(now);
  }
  s.whole = seen.ends_with(stream_end);
  c.tail = seen.substr(seen.size() - std::min(seen.size(), stream_end.size()));
}

} // namespace

read_result read_streams(std::uint16_t port, const std::vector<std::string>& requests, read_options options) {
  read_result out;
  out.streams.resize(requests.size());
  std::vector<one> all(requests.size());
  const int poller = ::epoll_create1(0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].fd = connect_to(port);
    const int on = 1;
    ::setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u64 = i;
    ::epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &e);
  }
  const auto began = bench_clock::now();
  const auto limit = began + std::chrono::minutes(1);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (::send(all[i].fd, requests[i].data(), requests[i].size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(requests[i].size()))
      throw std::runtime_error("cannot send a request");
  std::array<epoll_event, 256> events{};
  std::vector<char> buffer(256 * 1024);
  std::size_t open = all.size();
  while (open > 0 && bench_clock::now() < limit) {
    const int n = ::epoll_wait(poller, events.data(), static_cast<int>(events.size()), 1000);
    for (int k = 0; k < n; ++k) {
      const auto i = events[static_cast<std::size_t>(k)].data.u64;
      const auto got = ::recv(all[i].fd, buffer.data(), buffer.size(), 0);
      if (got > 0) take(all[i], out.streams[i], {buffer.data(), static_cast<std::size_t>(got)}, options);
      if (got > 0 && !out.streams[i].whole) continue;
      ::epoll_ctl(poller, EPOLL_CTL_DEL, all[i].fd, nullptr);
      --open;
    }
  }
  out.seconds = std::chrono::duration<double>(bench_clock::now() - began).count();
  out.whole = std::all_of(out.streams.begin(), out.streams.end(), [](const read_stream& s) { return s.whole; });
  for (const auto& c : all) ::close(c.fd);
  ::close(poller);
  return out;
}

idle_connections::idle_connections(std::uint16_t port, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sockets_.push_back(connect_to(port));
}

idle_connections::~idle_connections() {
  for (const int fd : sockets_) ::close(fd);
}

} // namespace godwit::bench
