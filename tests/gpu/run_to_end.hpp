#pragma once

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/executor.hpp>

#include <string>
#include <utility>

namespace godwit::gpu::testing {

/// Runs a step's layers and waits; its error, empty where there was none.
inline std::string run_to_end(forward& step) {
  const event ran;
  std::string error;
  step.advance(step.layers(), [&](std::string what) {
    error = std::move(what);
    ran.set();
  });
  ran.wait();
  return error;
}

/// Advances a step to layer 2 and, while it waits for another rank, does something: the error that the step hears.
template <class Action> std::string error_after(forward& waits, const Action& happens) {
  const event ran;
  std::string error;
  waits.advance(2, [&](std::string what) {
    error = std::move(what);
    ran.set();
  });
  happens();
  ran.wait();
  return error;
}

} // namespace godwit::gpu::testing
