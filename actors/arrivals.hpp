#pragma once

#include <godwit/runtime/operations.hpp>
#include <godwit/transport/fabric.hpp>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace godwit::actors {

/// What has landed of one posting, for who waits for so much of it.
///
/// A sender may hear that its bytes are there before the receiver counts them: memory that was read out of another
/// process counts once its sender has said that it had not given it up (docs/design/fabric.md). So who was told that
/// all is sent still waits, in bounded time, before it withdraws the posting.
class arrivals {
public:
  /// The fabric's, on its thread.
  void landed(const transport::landing& news) {
    std::optional<runtime::completer<bool>> done;
    {
      const std::lock_guard lock(mutex_);
      regions_ = std::max(regions_, news.regions);
      dead_ = dead_ || !news.error.empty();
      if (waiter_ && (regions_ >= wanted_ || dead_)) done = std::exchange(waiter_, std::nullopt);
    }
    if (done) (*done)(true);
  }
  /// `done` when so many regions are there, or no more will come. At most one waits at a time.
  void when(std::uint64_t regions, runtime::completer<bool> done) {
    {
      const std::lock_guard lock(mutex_);
      if (regions_ < regions && !dead_) {
        wanted_ = regions;
        waiter_.emplace(std::move(done));
        return;
      }
    }
    done(true);
  }
  [[nodiscard]] std::uint64_t regions() const {
    const std::lock_guard lock(mutex_);
    return regions_;
  }

private:
  mutable std::mutex mutex_;
  std::uint64_t regions_ = 0;
  std::uint64_t wanted_ = 0;
  bool dead_ = false; ///< the posting: no more will come
  std::optional<runtime::completer<bool>> waiter_;
};

} // namespace godwit::actors
