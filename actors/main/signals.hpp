#pragma once

#include <csignal>

namespace godwit::main {

/// SIGINT and SIGTERM as something to ask for. Make it before any thread is started: they inherit the mask, so that no
/// thread dies of the signals and they wait here. SIGUSR2 is blocked too, for main::trace_dumper; without one it does
/// nothing.
class signals {
public:
  signals();
  /// True once for each signal that has come since. Does not wait.
  [[nodiscard]] bool received() noexcept;

private:
  sigset_t set_;
};

} // namespace godwit::main
