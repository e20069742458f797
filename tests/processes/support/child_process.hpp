#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace godwit::test {

/// A process of its own, whose output goes to files that the test reads. Ends with the test, however that ends: the
/// destructor kills it, stopped or not, and the kernel does where the test is killed.
class child_process {
public:
  using milliseconds = std::chrono::milliseconds;

  child_process(std::string program, std::vector<std::string> arguments);
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;
  ~child_process();

  /// SIGTERM, SIGKILL, SIGSTOP, SIGCONT. Nothing happens where it has ended.
  void signal(int number) const;
  [[nodiscard]] bool running();
  /// By SIGSTOP, until SIGCONT.
  [[nodiscard]] bool stopped() const;
  /// Its exit code, or 128 and the signal that ended it; nothing at the timeout.
  [[nodiscard]] std::optional<int> wait_exit(milliseconds timeout);

  /// The rest of the first line on standard output that begins with `prefix`. Nothing where none comes in time, or the
  /// process ends without.
  [[nodiscard]] std::optional<std::string> wait_line(const std::string& prefix, milliseconds timeout);
  /// Whether standard error says `text`, `times` times at least.
  [[nodiscard]] bool wait_log(const std::string& text, milliseconds timeout, std::size_t times = 1);
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
  std::string directory_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

/// Looks every few milliseconds; false at the timeout.
template <class Condition> [[nodiscard]] bool wait_until(std::chrono::milliseconds timeout, Condition condition);
void pause_briefly();

template <class Condition> bool wait_until(std::chrono::milliseconds timeout, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return condition();
    pause_briefly();
  }
  return true;
}

} // namespace godwit::test
