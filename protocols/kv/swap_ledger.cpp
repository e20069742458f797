#include <godwit/protocols/kv/swap_ledger.hpp>

#include <godwit/protocols/ensure.hpp>

namespace godwit::protocols {

swap_ledger::swap_ledger(std::uint32_t slots) : taken_(slots, false) {
  free_.reserve(slots);
  for (auto i = slots; i > 0; --i) free_.emplace_back(i - 1);
}

std::optional<std::vector<swap_slot>> swap_ledger::take(std::uint32_t count) {
  if (count > free_.size()) return std::nullopt;
  std::vector<swap_slot> out;
  out.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    out.push_back(free_.back());
    free_.pop_back();
    taken_[out.back().value()] = true;
  }
  return out;
}

void swap_ledger::give_back(const std::vector<swap_slot>& slots) {
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    ensure(slot->value() < taken_.size() && taken_[slot->value()], "swap_ledger: a slot that is given back was taken");
    taken_[slot->value()] = false;
    free_.push_back(*slot);
  }
}

} // namespace godwit::protocols
