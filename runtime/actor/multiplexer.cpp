#include "actor/multiplexer.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace godwit::runtime::detail {

namespace {

/// A process's table of descriptors is as long as its greatest number.
constexpr rlim_t numbers_max = 1U << 16U;

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
  return default_multiplexer::new_scribe(socket);
}

} // namespace godwit::runtime::detail
