#pragma once

#include <godwit/runtime/context.hpp>

#include <exception>
#include <string>
#include <string_view>

namespace godwit::actors {

/// Calls what an embedder has to watch an actor with. What it throws is said, and nobody else's affair.
template <class Call> void tell_watcher(const runtime::actor_context& of, std::string_view what, const Call& call) {
  try {
    call();
  } catch (...) {
    of.report(std::string(what) + " threw: " + runtime::detail::describe(std::current_exception()).message);
  }
}

} // namespace godwit::actors
