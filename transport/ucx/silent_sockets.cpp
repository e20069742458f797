#include "ucx/silent_sockets.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::transport::ucx {

namespace {

/// UCX's tcp begins with a number of 8 bytes, its listener's callers with a longer word.
constexpr std::uint64_t first_word_bytes = 8;
constexpr std::uint8_t established = 1; // the kernel's; netinet/tcp.h names it and does not have tcpi_bytes_received
/// Listening sockets are made early.
constexpr int listening_max = 1 << 16;

int descriptors_max() {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return 0;
  return static_cast<int>(std::min<rlim_t>(most.rlim_cur, std::numeric_limits<int>::max()));
}

/// All below it are in use.
int lowest_free() {
  const int found = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (found < 0) return errno == EMFILE ? descriptors_max() : 0;
  ::close(found);
  return found;
}

/// Those that are open; where nobody says, all that may be.
std::vector<int> descriptors() {
  std::vector<int> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir("/proc/self/fd"), &::closedir);
  while (const auto* const entry = open ? ::readdir(open.get()) : nullptr) {
    int fd = -1;
    const char* const name = entry->d_name;
    const auto [end, error] = std::from_chars(name, name + std::strlen(name), fd);
    if (error == std::errc{} && *end == 0) out.push_back(fd);
  }
  if (out.empty())
    for (int fd = 0, end = std::min(descriptors_max(), listening_max); fd < end; ++fd) out.push_back(fd);
  return out;
}

/// Of this end; 0: no socket of TCP.
std::uint16_t port_of(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  if (own.ss_family != AF_INET && own.ss_family != AF_INET6) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port); // at the same place for both families
}

bool listens(int socket) {
  int yes = 0;
  socklen_t size = sizeof yes;
  return ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

bool is_silent(int socket, std::chrono::milliseconds age) {
  tcp_info known{};
  socklen_t size = sizeof known;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &known, &size) == 0 && known.tcpi_state == established &&
         known.tcpi_bytes_received < first_word_bytes && std::chrono::milliseconds(known.tcpi_last_data_recv) > age;
}

} // namespace

std::set<std::uint16_t> listening_ports() {
  std::set<std::uint16_t> out;
  for (const int fd : descriptors())
    if (const auto port = port_of(fd); port != 0 && listens(fd)) out.insert(port);
  return out;
}

bool descriptors_run_short() { return lowest_free() > descriptors_max() / 2; }

std::size_t end_silent(const std::set<std::uint16_t>& ports, std::chrono::milliseconds age) {
  std::size_t ended = 0;
  for (int fd = 0, end = lowest_free(); fd < end; ++fd)
    if (ports.contains(port_of(fd)) && is_silent(fd, age) && ::shutdown(fd, SHUT_RDWR) == 0) ++ended;
  return ended;
}

} // namespace godwit::transport::ucx
