#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// Of some durations or sizes. Percentiles are values that occurred (nearest rank).
struct summary {
  std::size_t count = 0;
  double mean = 0;
  std::int64_t p50 = 0;
  std::int64_t p99 = 0;
  std::int64_t max = 0;
  std::int64_t sum = 0;
};
[[nodiscard]] summary summarise(std::vector<std::int64_t> values);

struct type_stats {
  std::string name;                       ///< qualified; of what has none its kind, like `timer`
  event_kind kind = event_kind::delivery; ///< a delivery or a span
  summary queue_ns;                       ///< nothing for spans
  summary handling_ns;                    ///< or the span's time
  std::uint64_t bytes = 0;
  std::uint64_t failures = 0; ///< answers that are errors
};

struct actor_stats {
  actor_id who;
  std::uint64_t messages = 0;
  std::int64_t lived_ns = 0; ///< within the recording
  std::int64_t busy_ns = 0;
  summary queue_ns;
  summary handling_ns;
  summary depth; ///< of the mailbox, met by messages when they were queued
  [[nodiscard]] double busy() const noexcept {
    return lived_ns > 0 ? static_cast<double>(busy_ns) / static_cast<double>(lived_ns) : 0;
  }
};

struct recording_stats {
  std::vector<type_stats> types;   ///< by time spent in handling, the most first, and by count
  std::vector<actor_stats> actors; ///< likewise
};

/// Of these events (see `select`).
[[nodiscard]] recording_stats stats(const index& of, const std::vector<position>& events);

} // namespace godwit::runtime::trace::analysis
