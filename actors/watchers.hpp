#pragma once

#include <godwit/runtime/context.hpp>

#include <exception>
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

} // namespace godwit::actors
