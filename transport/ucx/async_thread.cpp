#include "ucx/async_thread.hpp"

#include <ucs/async/async_fwd.h>

#include <future>
#include <utility>

#include <sys/eventfd.h>
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
} // namespace

void run_on_async_thread(const std::function<void()>& what) {
  job one{&what, {}};
  auto ended = one.ended.get_future();
  const int fd = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); // readable from the beginning
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
