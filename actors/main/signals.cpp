#include "main/signals.hpp"

#include <ctime>

#include <pthread.h>

namespace godwit::main {

signals::signals(bool with_hangup) {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  ends_ = set_;
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
  for (auto kept = kept_.load(); kept > 0;)
    if (kept_.compare_exchange_weak(kept, kept - 1)) return true;
  const timespec at_once{0, 0};
  for (;;) {
    const int which = sigtimedwait(&set_, nullptr, &at_once);
    if (which != SIGHUP && which != SIGUSR1) return which > 0;
    if (on_hangup_) on_hangup_();
  }
}

void signals::let_go() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

unasked_signals::unasked_signals(signals& of, int kept_max)
    : of_(of), kept_max_(kept_max), thread_([this] { watch(); }) {}

unasked_signals::~unasked_signals() {
  over_ = true;
  thread_.join();
}

void unasked_signals::watch() {
  const timespec a_moment{0, 20'000'000};
  int came = 0;
  while (!over_) {
    const int which = sigtimedwait(&of_.ends_, nullptr, &a_moment);
    if (which <= 0) continue;
    if (++came > kept_max_) { // what whoever waits for this process takes for the signal's doing
      std::signal(which, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &of_.ends_, nullptr);
      pthread_kill(pthread_self(), which);
    }
    ++of_.kept_;
  }
}

} // namespace godwit::main
