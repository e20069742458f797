#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>
#include <utility>

namespace godwit::main {

/// SIGINT and SIGTERM as something to ask for. Make it before any thread is started: they inherit the mask, so that no
/// thread dies of the signals and they wait here. SIGUSR2 is blocked too, for main::trace_dumper; without one it does
/// nothing. With SIGHUP, for a process that lasts, that is no end but something to do; SIGUSR1 is the same, as
/// those send it who rotate logs of other servers.
class signals {
public:
  explicit signals(bool with_hangup = false);
  /// What is done on SIGHUP and SIGUSR1: by `received`, on its caller's thread.
  void on_hangup(std::function<void()> act) { on_hangup_ = std::move(act); }
  /// True once for each SIGINT and SIGTERM that has come since. Does not wait.
  [[nodiscard]] bool received();
  /// From now on they do to this thread what they do by default.
  void let_go();

private:
  friend class unasked_signals;
  std::function<void()> on_hangup_;
  std::atomic<int> kept_ = 0; ///< by unasked_signals, for `received`
  sigset_t set_, ends_;
};

/// While it lives nobody asks for signals, as where a driver or a file system is waited for that may never answer: a
/// thread keeps the first SIGINT or SIGTERM for `received`, and the one after `kept_max` such ends the process by
/// itself.
class unasked_signals {
public:
  unasked_signals(signals& of, int kept_max);
  ~unasked_signals();
  unasked_signals(const unasked_signals&) = delete;
  unasked_signals& operator=(const unasked_signals&) = delete;

private:
  void watch();
  signals& of_;
  const int kept_max_;
  std::atomic<bool> over_ = false;
  std::thread thread_; ///< last: it uses the rest
};

} // namespace godwit::main
