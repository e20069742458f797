#include "actor/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <system_error>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::detail {

namespace {

/// Of one name.
constexpr std::size_t addresses_max = 16;

/// poll's, whatever interrupts it. 0: not until the deadline.
int poll_until(std::chrono::steady_clock::time_point deadline, pollfd* first, std::size_t count) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto ms = std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max());
    const auto ready = ::poll(first, count, static_cast<int>(ms));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

async::error down(std::string why) { return async::error{async::error_code::down, std::move(why)}; }

/// Connections that begin, one for each address of a host.
class attempts {
public:
  attempts() = default;
  attempts(const attempts&) = delete;
  attempts& operator=(const attempts&) = delete;
  ~attempts() {
    for (const auto& one : open_) ::close(one.fd);
  }

  void begin(const async::socket_address& to) {
    const int fd = ::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error_ = errno;
    } else if (::connect(fd, reinterpret_cast<const sockaddr*>(&to.bytes), to.size) != 0 && errno != EINPROGRESS) {
      error_ = errno;
      ::close(fd);
    } else { // one that is there at once is writable at once
      open_.push_back({fd, POLLOUT, 0});
    }
  }
  /// The first that is accepted, which is the caller's; -1: none, see `error`.
  [[nodiscard]] int wait(std::chrono::steady_clock::time_point deadline) {
    while (!open_.empty()) {
      const auto ready = poll_until(deadline, open_.data(), open_.size());
      if (ready <= 0) {
        error_ = ready == 0 ? ETIMEDOUT : errno;
        return -1;
      }
      for (std::size_t i = 0; i < open_.size();) {
        if (open_[i].revents == 0) {
          ++i;
          continue;
        }
        int failure = 0;
        socklen_t size = sizeof failure;
        ::getsockopt(open_[i].fd, SOL_SOCKET, SO_ERROR, &failure, &size);
        const int fd = open_[i].fd;
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
        if (failure == 0) return fd;
        error_ = failure;
        ::close(fd);
      }
    }
    return -1;
  }
  [[nodiscard]] std::string error() const { return std::generic_category().message(error_); }

private:
  std::vector<pollfd> open_;
  int error_ = EADDRNOTAVAIL;
};

} // namespace

async::expected<async::descriptor> open_connection(const std::string& host, std::uint16_t port,
                                                   std::chrono::steady_clock::time_point deadline,
                                                   async::name_resolver& names) {
  auto found = names.find_by(host, port, deadline);
  if (!found) return std::move(found).error();
  if (found->size() > addresses_max) found->resize(addresses_max);
  attempts all;
  for (const auto& one : *found) all.begin(one);
  async::descriptor first(all.wait(deadline));
  if (first.get() < 0) return down(all.error());
  return first;
}

async::expected<async::descriptor> await_words(async::descriptor connection,
                                               std::chrono::steady_clock::time_point deadline) {
  pollfd one{connection.get(), POLLIN, 0};
  if (poll_until(deadline, &one, 1) <= 0) return down("it accepts connections and says nothing");
  char word = 0;
  const auto read = ::recv(connection.get(), &word, 1, MSG_PEEK | MSG_DONTWAIT);
  if (read == 0) return down("it leaves without a word; perhaps it speaks TLS, or has no descriptors left");
  if (read < 0 && errno != EAGAIN) return down("it leaves without a word: " + std::generic_category().message(errno));
  return connection;
}

} // namespace godwit::runtime::detail
