#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace godwit::runtime::sim::detail {

/// Things by the time at which they are due; those of one time in the order in which they were added.
///
/// Adding and taking out cost the logarithm of how many there are, and as many steps as moving the numbers of
/// those due first takes: instances in step have a thousand timers due at once.
template <class T> class due_queue {
public:
  using time = std::chrono::nanoseconds;
  using id = std::uint64_t; ///< never 0

  id add(time due, T value) {
    const auto at = free_slot();
    auto& s = slots_[at];
    s.value = std::move(value);
    s.number = ++added_;
    if (!burst_.empty() && due == burst_due_) {
      s.place = in_burst;
      burst_.push_back(at);
    } else {
      heap_.push_back({});
      up(heap_.size() - 1, {due, s.number, at});
    }
    return id_of(at);
  }

  /// Null where it was taken. Valid until something is added.
  [[nodiscard]] T* find(id which) noexcept {
    const auto at = static_cast<std::uint32_t>(which);
    const bool there = at < slots_.size() && slots_[at].generation == which >> 32U && slots_[at].place != is_free;
    return there ? &slots_[at].value : nullptr;
  }

  /// One that is there.
  T take(id which) {
    const auto at = static_cast<std::uint32_t>(which);
    if (slots_[at].place == in_burst)
      burst_.erase(std::ranges::lower_bound(burst_, slots_[at].number, {},
                                            [this](std::uint32_t one) { return slots_[one].number; }));
    else
      remove(slots_[at].place);
    return release(at);
  }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty() && burst_.empty(); }
  [[nodiscard]] time earliest() const noexcept {
    if (burst_.empty()) return heap_.front().due;
    return heap_.empty() ? burst_due_ : std::min(burst_due_, heap_.front().due);
  }
  /// How many are due first.
  [[nodiscard]] std::size_t count_first() {
    gather();
    return burst_.size();
  }
  /// The one of that number, from 0, among those due first.
  [[nodiscard]] id first(std::size_t number = 0) {
    gather();
    return id_of(burst_[number]);
  }

private:
  struct slot {
    T value{};
    std::uint64_t number = 0;     ///< of its adding
    std::uint32_t generation = 1; ///< tells it from what the slot held before
    std::uint32_t place = is_free;
  };
  struct entry {
    time due{};
    std::uint64_t number = 0;
    std::uint32_t slot = 0;
    [[nodiscard]] bool before(const entry& other) const noexcept {
      return due != other.due ? due < other.due : number < other.number;
    }
  };
  // What a place may be, other than an index in the heap:
  static constexpr std::uint32_t is_free = ~std::uint32_t{0};
  static constexpr std::uint32_t in_burst = is_free - 1;

  [[nodiscard]] id id_of(std::uint32_t at) const noexcept { return id{slots_[at].generation} << 32U | at; }
  std::uint32_t free_slot() {
    if (free_.empty()) {
      slots_.emplace_back();
      return static_cast<std::uint32_t>(slots_.size() - 1);
    }
    const auto at = free_.back();
    free_.pop_back();
    return at;
  }
  T release(std::uint32_t at) {
    auto& s = slots_[at];
    s.place = is_free;
    ++s.generation;
    free_.push_back(at);
    return std::exchange(s.value, T{});
  }

  /// Those due first leave the heap, so that one of them can be had by its number.
  void gather() {
    if (!burst_.empty()) {
      if (heap_.empty() || heap_.front().due > burst_due_) return;
      for (const auto at : std::exchange(burst_, {})) { // something was added that is due earlier
        heap_.push_back({});
        up(heap_.size() - 1, {burst_due_, slots_[at].number, at});
      }
    }
    burst_due_ = heap_.front().due;
    while (!heap_.empty() && heap_.front().due == burst_due_) {
      slots_[heap_.front().slot].place = in_burst;
      burst_.push_back(heap_.front().slot);
      remove(0);
    }
  }

  void put(std::size_t at, entry e) noexcept {
    slots_[e.slot].place = static_cast<std::uint32_t>(at);
    heap_[at] = e;
  }
  void up(std::size_t at, entry e) noexcept {
    for (; at > 0 && e.before(heap_[(at - 1) / 2]); at = (at - 1) / 2) put(at, heap_[(at - 1) / 2]);
    put(at, e);
  }
  void down(std::size_t at, entry e) noexcept {
    for (;;) {
      auto child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(e)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, e);
  }
  void remove(std::size_t at) noexcept {
    const auto last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    if (at > 0 && last.before(heap_[(at - 1) / 2]))
      up(at, last);
    else
      down(at, last);
  }

  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<entry> heap_;
  std::vector<std::uint32_t> burst_; ///< slots of those due first, in order; may be empty
  time burst_due_{0};
  std::uint64_t added_ = 0;
};

} // namespace godwit::runtime::sim::detail
