#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace godwit::protocols {

/// Who has which slot of an instance's swap space: memory of the host, in slots of a KV block each. O(slots taken).
class swap_ledger {
public:
  explicit swap_ledger(std::uint32_t slots = 0);
  [[nodiscard]] std::uint32_t total() const noexcept { return static_cast<std::uint32_t>(taken_.size()); }
  [[nodiscard]] std::uint32_t used() const noexcept { return total() - static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] std::uint32_t available() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  /// All of them, or nothing where fewer are free.
  [[nodiscard]] std::optional<std::vector<swap_slot>> take(std::uint32_t count);
  void give_back(const std::vector<swap_slot>& slots);
  [[nodiscard]] bool taken(swap_slot slot) const { return taken_.at(slot.value()); }

private:
  std::vector<swap_slot> free_; ///< the next one last
  std::vector<bool> taken_;
};

} // namespace godwit::protocols
