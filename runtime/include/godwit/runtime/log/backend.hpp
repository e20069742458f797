#pragma once

#include <godwit/runtime/log/level.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::runtime::log {

enum class format : std::uint8_t { text, json };

struct field {
  std::string key;
  std::string value;
};

struct record {
  std::chrono::nanoseconds time{0}; ///< since 1970 UTC, or since the start of a simulation
  level severity = level::info;
  std::string_view component;
  const std::vector<field>* fields = nullptr; ///< request=..., instance=...; may be null
  std::string_view message;
};

/// One line without its newline. Whatever a client put into a message or a field stays within the line and within its
/// quotes: control characters, line separators and bidirectional overrides are escaped, invalid UTF-8 is replaced.
[[nodiscard]] std::string to_line(const record& r, format f);

/// Where log lines go, and whose time they bear. Thread-safe; never blocks its caller.
class backend {
public:
  virtual ~backend() = default;
  [[nodiscard]] virtual std::chrono::nanoseconds now() = 0;
  virtual void write(const record& r) = 0;
  /// Returns when everything written so far has arrived.
  virtual void flush() = 0;
  /// Opens its file anew by its path: whoever renamed it finds it complete, but for lines that are still waiting, and
  /// later ones go into a new one. Blocks as opening does. One line that says why not; empty: done.
  [[nodiscard]] virtual std::string reopen() { return "the log goes to no file"; }
  /// Lines lost because a bounded queue was full.
  [[nodiscard]] virtual std::uint64_t dropped() const = 0;
};

} // namespace godwit::runtime::log
