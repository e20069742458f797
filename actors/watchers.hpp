#pragma once

#include <godwit/runtime/context.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

namespace godwit::actors {

/// Within a `catch`: says what was thrown, after `what`. Without it where there is no memory for that.
inline void report_caught(const runtime::actor_context& of, std::string_view what) noexcept {
  try {
    of.report(std::string(what) + ": " + runtime::detail::describe(std::current_exception()).message);
  } catch (...) {
    of.report(what);
  }
}

/// Calls what an embedder has to watch an actor with. What it throws is said, and nobody else's affair.
template <class Call> void tell_watcher(const runtime::actor_context& of, std::string_view what, const Call& call) {
  try {
    call();
  } catch (...) {
    of.report(std::string(what) + " threw: " + runtime::detail::describe(std::current_exception()).message);
  }
}

/// Between two things that are said of one part of an embedder's.
inline constexpr std::chrono::seconds blame_pause{10};

/// Tells of something of an embedder's that failed: its log, and `on_failure`, or where there is neither, the system's
/// report function.
inline void tell_failure(const runtime::actor_context& of, const runtime::log::logger& log,
                         const std::function<void(std::string_view)>& on_failure, std::string_view line) {
  const bool logs = log.enabled(runtime::log::level::error);
  if (on_failure)
    tell_watcher(of, "on_failure", [&] { on_failure(line); });
  else if (!logs)
    of.report(line);
  if (logs) log.error("{}", line);
}

} // namespace godwit::actors
