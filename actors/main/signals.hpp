#pragma once

#include <csignal>
#include <functional>
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
  std::function<void()> on_hangup_;
  sigset_t set_;
};

} // namespace godwit::main
