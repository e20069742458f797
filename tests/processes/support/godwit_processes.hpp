#pragma once

#include "processes/support/child_process.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::test {

/// The `godwit` command that was built with this test.
[[nodiscard]] std::string godwit_program();

/// True where the build has the model that is compiled in; a test without it skips.
[[nodiscard]] bool has_default_model();

/// Arguments of a process among others of which none dies: one that gets no time on a busy machine is not taken for
/// dead.
[[nodiscard]] std::vector<std::string> patient(std::vector<std::string> arguments = {});

/// Whether what `godwit migrate` printed says that the request ended before the command came, or while it moved; then
/// its home may be the first to know. That is nobody's fault: on a busy machine a command takes its time to start.
[[nodiscard]] bool says_it_ended(const std::string& printed);
/// ... that the request goes on where it was, on a machine that has no time for one of the two sides; another command
/// may move it.
[[nodiscard]] bool says_it_goes_on(const std::string& printed);

/// What stands in `godwit status --json`, as far as tests ask for it.
struct instance_line {
  std::uint32_t id = 0;
  std::string state;
  std::string node;
  std::uint32_t restarts = 0;
  std::uint64_t running = 0;
  std::uint64_t kv_blocks_used = 0;
  std::uint64_t generated_tokens = 0;
};
struct status_page {
  std::uint64_t requests_open = 0;
  std::uint64_t requests_failed = 0;
  std::uint64_t redispatches = 0;
  std::vector<instance_line> instances;
  std::string json;
  [[nodiscard]] std::size_t ready() const;
  [[nodiscard]] std::uint64_t blocks_used() const;
};

/// `godwit serve` on free ports.
class served {
public:
  /// Starts it; see `wait_ready`. Among `arguments` may be --control; else a free port is taken.
  explicit served(std::vector<std::string> arguments = {});

  /// Until it says that it is ready. False: it did not, see `process.err()`.
  [[nodiscard]] bool wait_ready(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  [[nodiscard]] const std::string& url() const noexcept { return url_; }         ///< http://127.0.0.1:PORT
  [[nodiscard]] const std::string& control() const noexcept { return control_; } ///< 127.0.0.1:PORT
  /// Nothing where it does not answer.
  [[nodiscard]] std::optional<status_page> status() const;
  /// Until so many instances take requests, and no other is there.
  [[nodiscard]] bool wait_instances(std::size_t count, std::chrono::milliseconds timeout);

  child_process process;

private:
  std::string url_;
  std::string control_;
};

/// `godwit node --join CONTROL`.
class joined {
public:
  explicit joined(const std::string& control, std::vector<std::string> arguments = {});
  [[nodiscard]] bool wait_ready(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  child_process process;
};

/// `godwit frontend --join CONTROL`, on a free port.
class fronted {
public:
  explicit fronted(const std::string& control, std::vector<std::string> arguments = {});
  /// Until it has joined, and some instance takes requests. False: it did not, see `process.err()`.
  [[nodiscard]] bool wait_ready(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// The status of GET /health; 0 where nothing answers.
  [[nodiscard]] int health() const;
  [[nodiscard]] const std::string& url() const noexcept { return url_; }
  child_process process;

private:
  std::string url_;
};

} // namespace godwit::test
