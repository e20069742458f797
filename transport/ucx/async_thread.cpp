#include "ucx/async_thread.hpp"

#include <ucs/async/async_fwd.h>

#include <algorithm>
#include <future>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

namespace godwit::transport::ucx {

namespace {
struct job {
  const std::function<void()>* what;
  std::promise<void> ended;
};

void run_once(int fd, ucs_event_set_types_t /*events*/, void* argument) {
  auto& one = *static_cast<job*>(argument);
  eventfd_t count = 0;
  if (::eventfd_read(fd, &count) != 0) return; // it ran before
  (*one.what)();
  one.ended.set_value();
}

/// Readable from the beginning, and of a number that no socket has had lately; negative where none is left.
///
/// UCX 1.13.1 keeps events that it could not tell a worker at once by their descriptor's number only, and aborts the
/// process where the worker then finds somebody else's handler under it. A socket's number, the lowest that is free,
/// may still stand there after the socket was closed.
int readable_eventfd() {
  const int low = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  rlimit most{};
  if (low < 0 || ::getrlimit(RLIMIT_NOFILE, &most) != 0) return low;
  constexpr rlim_t far_from_sockets = 1 << 16;
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, static_cast<int>(std::min(most.rlim_cur / 2, far_from_sockets)));
  if (high < 0) return low;
  ::close(low);
  return high;
}
} // namespace

void run_on_async_thread(const std::function<void()>& what) {
  job one{&what, {}};
  auto ended = one.ended.get_future();
  const int fd = readable_eventfd();
  const bool handed_over = fd >= 0 && ucs_async_set_event_handler(UCS_ASYNC_MODE_THREAD, fd, UCS_EVENT_SET_EVREAD,
                                                                  &run_once, &one, nullptr) == UCS_OK;
  if (handed_over) {
    ended.wait();
    ucs_async_remove_handler(fd, 1); // waits until `run_once` has returned
  } else {
    what();
  }
  if (fd >= 0) ::close(fd);
}

} // namespace godwit::transport::ucx
