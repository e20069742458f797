#include "main/signals.hpp"

#include <ctime>

#include <pthread.h>

namespace godwit::main {

signals::signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  auto blocked = set_;
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGPIPE, SIG_IGN); // a client that went away is an error of write(), not our end
}

bool signals::received() noexcept {
  const timespec at_once{0, 0};
  return sigtimedwait(&set_, nullptr, &at_once) > 0;
}

} // namespace godwit::main
