#include "actor/multiplexer.hpp"

#include <caf/io/network/scribe_impl.hpp>
#include <caf/make_counted.hpp>

#include <algorithm>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::runtime::detail {

namespace {

/// A process's table of descriptors is as long as its greatest number.
constexpr rlim_t numbers_max = 1U << 16U;

/// Ours are of a few MB at most: a request that moves, with a long context and all its log-probabilities.
constexpr std::size_t message_bytes_max = std::size_t{256} << 20U;

class bounded_scribe final : public caf::io::network::scribe_impl {
public:
  using scribe_impl::scribe_impl;
  void configure_read(caf::io::receive_policy::config what) override {
    if (what.second > message_bytes_max) { // CAF finds the connection ended, or what it reads too short
      ::shutdown(stream_.fd(), SHUT_RDWR);
      what = caf::io::receive_policy::exactly(1);
    }
    scribe_impl::configure_read(what);
  }
};

} // namespace

caf::io::scribe_ptr multiplexer::new_scribe(caf::io::network::native_socket socket) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // The numbers of the upper half one after the other; all else in the process takes the lowest ones.
  const auto last = static_cast<int>(std::min(limit.rlim_cur, numbers_max));
  const int first = last / 2;
  int from = next_.load();
  if (from < first || from >= last) from = first;
  int copy = ::fcntl(socket, F_DUPFD_CLOEXEC, from);
  if (copy < 0 && from != first) copy = ::fcntl(socket, F_DUPFD_CLOEXEC, first);
  if (copy >= 0) {
    next_.store(copy + 1);
    ::close(socket);
    socket = copy;
  } // else all of them are in use
  (void)caf::io::network::keepalive(socket, true);
  return caf::make_counted<bounded_scribe>(*this, socket);
}

} // namespace godwit::runtime::detail
