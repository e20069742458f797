#pragma once

#include <godwit/runtime/async/scope.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace godwit::runtime::detail {

/// The deadlines of one actor's waits: a binary heap whose entries can be removed.
///
/// CAF's clock is one thread behind a lock and never forgets a timeout. An actor keeps its deadlines here instead and
/// sets one alarm at CAF's clock, for the earliest; an ask that is answered in time never gets there.
class deadlines {
public:
  using time_point = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] time_point earliest() const noexcept { return heap_.front().time; }
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }

  void add(async::wait_id wait, time_point time);
  /// Nothing happens where the wait has none.
  void remove(async::wait_id wait) noexcept;
  async::wait_id pop() noexcept;

private:
  struct entry {
    time_point time;
    std::uint64_t order; ///< equal times: as they were added
    async::wait_id wait;
    bool operator<(const entry& other) const noexcept {
      return time != other.time ? time < other.time : order < other.order;
    }
  };
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};
  void place(std::size_t at, entry e) noexcept;
  void up(std::size_t at, entry e) noexcept;
  void down(std::size_t at, entry e) noexcept;
  void remove_at(std::size_t at) noexcept;
  std::vector<entry> heap_;
  std::vector<std::uint32_t> position_; ///< by slot
  std::uint64_t added_ = 0;
};

} // namespace godwit::runtime::detail
