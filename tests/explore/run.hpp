#pragma once

#include "explore/effects.hpp"
#include "explore/scenario.hpp"

#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/sim/event_log.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace godwit::explore {

struct outcome {
  std::string broken;     ///< which promise, in a word or two; empty: none. What shrinking keeps
  std::string details;    ///< one line
  std::uint64_t hash = 0; ///< of every message and its time
  std::uint64_t events = 0;
  std::uint32_t answered = 0, failed = 0, gone = 0; ///< requests
  std::uint32_t migrations = 0;                     ///< committed, of those that were ordered
  std::uint64_t redispatches = 0, moves = 0;
  std::chrono::nanoseconds took{0}; ///< virtual
  effects seen;
};

struct run_options {
  std::function<void(const runtime::sim::event&)> on_event; ///< every delivery; may be empty
  runtime::log::logger log;                                 ///< of the actors
  runtime::trace::file_writer* record = nullptr;            ///< every message with its content; null: none
};

/// Runs the scenario to its end: faults as they come, then everything mended, until nothing is left. What is promised
/// (docs/explore.md) is checked all along and at the end.
[[nodiscard]] outcome run(const scenario& s, const run_options& options = {});

} // namespace godwit::explore
