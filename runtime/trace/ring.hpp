#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace godwit::runtime {
struct message_type;
}

namespace godwit::runtime::trace::detail {

/// A delivery, or a message that left, as its thread notes it: two cache lines, no allocation.
struct slot {
  std::uint64_t id = 0;
  std::uint64_t cause = 0;
  std::uint64_t sender = 0;
  std::uint64_t receiver = 0;
  const message_type* type = nullptr;
  std::int64_t queued = 0; ///< ticks (recorder_core::ticks), as those that follow; below 0: ~ns of the clock
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t request = 0;
  std::uint64_t wait = 0;
  std::uint64_t first = 0;
  std::uint32_t made = 0;
  std::uint32_t bytes = 0;
  std::uint32_t depth = 0;
  std::uint16_t process = 0;
  std::uint16_t cause_process = 0;
  std::uint16_t sender_process = 0;
  std::uint16_t receiver_process = 0;
  std::uint8_t kind = 0;    ///< event_kind
  std::uint8_t message = 0; ///< message_kind
  bool outside = false;
  bool resumed = false;
  std::array<std::uint64_t, 2> spare{};
};
static_assert(std::is_trivially_copyable_v<slot> && sizeof(slot) == 128);

/// The last events of one thread. One writer, which never waits and overwrites the oldest; readers notice what they
/// missed.
class ring {
public:
  /// `size` is a power of two.
  explicit ring(std::size_t size) : mask_(size - 1), slots_(std::make_unique<stored[]>(size)) {}

  void put(const slot& what) noexcept {
    words copy;
    std::memcpy(copy.data(), &what, sizeof what);
    const auto n = head_.load(std::memory_order_relaxed);
    begun_.store(n + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    auto& to = slots_[n & mask_];
    for (std::size_t i = 0; i < copy.size(); ++i) to[i].store(copy[i], std::memory_order_relaxed);
    head_.store(n + 1, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t head() const noexcept { return head_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t size() const noexcept { return mask_ + 1; }
  /// The n-th ever written, n < head(). False: it was overwritten.
  [[nodiscard]] bool get(std::uint64_t n, slot& out) const noexcept {
    words copy;
    const auto& from = slots_[n & mask_];
    for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = from[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (begun_.load(std::memory_order_relaxed) > n + size()) return false;
    std::memcpy(static_cast<void*>(&out), copy.data(), sizeof out);
    return true;
  }

private:
  using words = std::array<std::uint64_t, sizeof(slot) / sizeof(std::uint64_t)>;
  using stored = std::array<std::atomic<std::uint64_t>, sizeof(slot) / sizeof(std::uint64_t)>;
  const std::size_t mask_;
  const std::unique_ptr<stored[]> slots_;
  alignas(64) std::atomic<std::uint64_t> begun_{0}; ///< writes that were begun
  std::atomic<std::uint64_t> head_{0};              ///< writes that are over
};

} // namespace godwit::runtime::trace::detail
