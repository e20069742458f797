#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/trace/file.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

/// From a recorder into a file.
namespace godwit::runtime::trace {

/// Moves what a recorder has kept since the last time into a file. One thread at a time; a simulation calls it between
/// steps.
class file_feed {
public:
  file_feed(recorder& from, file_writer& to);
  file_feed(const file_feed&) = delete;
  file_feed& operator=(const file_feed&) = delete;
  ~file_feed();
  void pump();

private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Why nothing more gets into a file.
struct file_end {
  std::uint64_t bytes = 0; ///< of the file
  std::string error;       ///< of writing; empty: file_settings::bytes_max is reached
};

struct file_recorder_settings {
  std::chrono::milliseconds interval{20}; ///< between two looks; a ring must last that long
  std::chrono::milliseconds flush_interval{250};
  file_settings file;
  /// Called once, on the recorder's thread, when nothing more gets into the file, which is looked at with each flush.
  /// What comes then is counted as lost.
  std::function<void(const file_end&)> on_end = {};
};

/// Stores all that a recorder sees in a file, by a thread of its own. What comes faster than it can write is lost,
/// counted, and a gap in the file; no actor ever waits.
class file_recorder {
public:
  /// Errors: failed, with the operating system's reason.
  static async::expected<std::unique_ptr<file_recorder>> start(std::shared_ptr<recorder> from, const std::string& path,
                                                               file_recorder_settings settings = {});
  file_recorder(const file_recorder&) = delete;
  file_recorder& operator=(const file_recorder&) = delete;
  /// As `stop`.
  ~file_recorder();

  /// Writes what is left and closes the file. The first error, if there was one.
  async::expected<void> stop();
  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] std::uint64_t events() const noexcept;
  [[nodiscard]] std::uint64_t lost() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] std::uint64_t raw_bytes() const noexcept; ///< before compression

private:
  struct state;
  explicit file_recorder(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

} // namespace godwit::runtime::trace
