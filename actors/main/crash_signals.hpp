#pragma once

#include <csignal>
#include <string_view>

namespace godwit::main {

/// While it lives, a signal that ends this process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, and std::terminate with
/// it) first wakes a thread, which has two seconds to save what it can. Then the signal takes the course that it would
/// have taken without this.
///
/// Only one at a time: the handlers of signals are the process's. Make it when libraries that have handlers of their
/// own are loaded (UCX has), so that theirs come after ours.
class crash_signals {
public:
  /// `wake`: an eventfd that the thread waits for.
  explicit crash_signals(int wake);
  ~crash_signals();
  crash_signals(const crash_signals&) = delete;
  crash_signals& operator=(const crash_signals&) = delete;

  /// For that thread: the signal that came; 0: none.
  [[nodiscard]] int signal() const noexcept;
  /// It has saved what it could, or it is the one that crashes.
  void saved() noexcept;
};

/// "sigsegv"
[[nodiscard]] std::string_view name_of_signal(int number) noexcept;

} // namespace godwit::main
