#pragma once

#include "device/leavable_threads.hpp"

#include <godwit/gpu/event.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace godwit::gpu {

/// What of an executor was left to a thread, and not done with yet.
enum class left_part : std::uint8_t {
  work,  ///< a step or a copy, which may never end
  memory ///< which is being given back; a healthy device takes a while for what is large
};

/// How a part of an executor goes. Whoever drops it waits for a while, for the parts of an executor together, and then
/// leaves it to a thread.
struct going {
  std::shared_ptr<void> keep = {}; ///< held until the part's memory is free; goes last
  std::chrono::nanoseconds patience = std::chrono::seconds(2);
  std::chrono::nanoseconds memory_patience = std::chrono::seconds(60); ///< until memory that does not go is told
  std::function<void(const std::string&)> warn = {};
  std::function<void(left_part, int)> count = {}; ///< more of them, or fewer
  /// Nanoseconds that were waited, of all parts. Steps that end in time do not count.
  std::shared_ptr<std::atomic<std::int64_t>> waited = std::make_shared<std::atomic<std::int64_t>>(0);

  /// What is left of the patience, and a little where nothing is: most parts go at once.
  [[nodiscard]] std::chrono::nanoseconds wait_max() const {
    return std::max(patience - std::chrono::nanoseconds(*waited), patience / 64);
  }
  void count_left(left_part what, int more) const {
    if (count) count(what, more);
  }
  void tell(const std::string& line) const {
    if (warn) warn(line);
  }
  /// For the parts that go after one that was left.
  void is_left() const { *waited = std::chrono::nanoseconds(patience).count(); }
};

/// `ends` waits for the part's work, `frees` gives back its memory, with what it owns. `work_left`: the line for work
/// that does not end. The part may be gone before this returns, so its name is a copy.
inline void let_go(const std::shared_ptr<const going>& how, std::string name, const std::string& work_left,
                   std::function<void()> ends, std::function<void()> frees) {
  struct progress {
    std::mutex mutex;
    bool ended = false, gone = false;
    std::optional<left_part> counted;
    event freed;
  };
  const auto state = std::make_shared<progress>();
  const auto begin = std::chrono::steady_clock::now();
  leavable_threads one;
  one.start([how, state, ends = std::move(ends), frees = std::move(frees)]() mutable {
    ends();
    ends = {};
    {
      const std::lock_guard lock(state->mutex);
      state->ended = true;
    }
    frees();
    frees = {};
    {
      const std::lock_guard lock(state->mutex);
      state->gone = true;
      if (state->counted) how->count_left(*state->counted, -1);
    }
    state->freed.set();
  });
  const bool in_time = one.join(how->wait_max()) == 0;
  *how->waited += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  if (in_time) return;
  left_part what = left_part::work;
  {
    const std::lock_guard lock(state->mutex);
    if (state->gone) return;
    if (state->ended) what = left_part::memory;
    state->counted = what;
    how->count_left(what, 1);
  }
  how->is_left();
  if (what == left_part::work) return how->tell(name + ": " + work_left);
  leavable_threads().start(
      [freed = state->freed, wait_max = how->memory_patience, warn = how->warn, name = std::move(name)] {
        if (!freed.wait_for(wait_max) && warn)
          warn(name + ": does not give back an executor's memory; it is left to itself, and nothing new begins there " +
               "before it has");
      });
}

} // namespace godwit::gpu
