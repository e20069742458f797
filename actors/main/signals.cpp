#include "main/signals.hpp"

#include <ctime>

#include <pthread.h>

namespace godwit::main {

signals::signals(bool with_hangup) {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  if (with_hangup) {
    sigaddset(&set_, SIGHUP);
    sigaddset(&set_, SIGUSR1);
  }
  auto blocked = set_;
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGPIPE, SIG_IGN); // a client that went away is an error of write(), not our end
}

bool signals::received() {
  const timespec at_once{0, 0};
  for (;;) {
    const int which = sigtimedwait(&set_, nullptr, &at_once);
    if (which != SIGHUP && which != SIGUSR1) return which > 0;
    if (on_hangup_) on_hangup_();
  }
}

void signals::let_go() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

} // namespace godwit::main
