#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/backend.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace godwit::runtime::log {

struct file_settings {
  std::string file; ///< appended to; empty: standard error
  format style = format::text;
  /// Lines waiting for the writing thread. When it is full the oldest is lost and counted, and its writer goes on:
  /// a full disk must not stop an actor.
  std::uint32_t queue_lines_max = 8192;
};

struct open_error {
  std::string message; ///< one line that names the file
};

/// Writes lines to a file or to standard error from a thread of its own, with the system's time.
[[nodiscard]] protocols::expected<std::shared_ptr<backend>, open_error> open_file(const file_settings& settings);

} // namespace godwit::runtime::log
