#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace godwit::runtime::trace {

/// Numbers pairs (process, id) in the order in which they are first seen; forgets all of them at once, cheaply.
/// An open hash table: two looks per event must cost a few ns each.
class local_table {
public:
  local_table() : slots_(64) {}

  void clear() noexcept {
    size_ = 0;
    if (++round_ != 0) return;
    for (auto& each : slots_) each.round = 0; // the counter came round: stale slots would look fresh
    round_ = 1;
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// Its number, and whether it is new.
  [[nodiscard]] std::pair<std::uint32_t, bool> find_or_add(std::uint32_t process, std::uint64_t id) {
    if (2 * (size_ + std::size_t{1}) > slots_.size()) grow();
    auto& found = look(process, id);
    if (found.round == round_) return {found.number, false};
    found = {id, process, size_, round_};
    return {size_++, true};
  }

private:
  struct slot {
    std::uint64_t id = 0;
    std::uint32_t process = 0;
    std::uint32_t number = 0;
    std::uint32_t round = 0;
  };
  [[nodiscard]] slot& look(std::uint32_t process, std::uint64_t id) noexcept {
    const auto hash = (id + process * 0x9E3779B97F4A7C15ULL) * 0xD6E8FEB86659FD93ULL;
    const auto mask = slots_.size() - 1;
    for (auto i = static_cast<std::size_t>(hash >> 32U) & mask;; i = (i + 1) & mask) {
      auto& at = slots_[i];
      if (at.round != round_ || (at.id == id && at.process == process)) return at;
    }
  }
  void grow() {
    auto old = std::exchange(slots_, std::vector<slot>(slots_.size() * 2));
    for (const auto& each : old)
      if (each.round == round_) look(each.process, each.id) = each;
  }

  std::vector<slot> slots_; // a power of two
  std::uint32_t size_ = 0;
  std::uint32_t round_ = 1;
};

} // namespace godwit::runtime::trace
