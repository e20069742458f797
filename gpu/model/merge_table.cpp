#include "model/merge_table.hpp"

#include <algorithm>
#include <bit>
#include <queue>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t short_word = 48;

std::uint64_t key_of(token_id left, token_id right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) | static_cast<std::uint32_t>(right);
}

void merge_short(const std::vector<token_id>& bytes, const merge_table& merges, std::vector<token_id>& out) {
  std::array<token_id, short_word> symbols{};
  std::array<merge_table::merge, short_word> pairs{}; // pairs[i]: symbols i and i + 1
  auto count = bytes.size();
  std::copy(bytes.begin(), bytes.end(), symbols.begin());
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == ~0U) break;
    symbols[best] = pairs[best].into;
    for (auto i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = i + 2 < count ? pairs[i + 1] : merge_table::merge{};
    }
    --count;
    if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    pairs[best] = best + 1 < count ? merges.find(symbols[best], symbols[best + 1]) : merge_table::merge{};
  }
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

struct linked_symbol {
  token_id id; ///< -1: merged into its left neighbour
  std::uint32_t previous;
  std::uint32_t next;
};

struct pending_merge {
  std::uint32_t rank;
  std::uint32_t at;
  token_id left, right, into;                                             ///< stale when the symbols are others by now
  friend bool operator<(const pending_merge& a, const pending_merge& b) { // for a heap with the lowest in front
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

void merge_long(const std::vector<token_id>& bytes, const merge_table& merges, std::vector<token_id>& out) {
  constexpr auto none = ~0U;
  const auto count = static_cast<std::uint32_t>(bytes.size());
  std::vector<linked_symbol> symbols(count);
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {bytes[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1};
  std::priority_queue<pending_merge> pending;
  const auto consider = [&](std::uint32_t at) {
    if (at == none || symbols[at].next == none) return;
    const auto left = symbols[at].id;
    const auto right = symbols[symbols[at].next].id;
    if (const auto found = merges.find(left, right); found.rank != ~0U)
      pending.push({found.rank, at, left, right, found.into});
  };
  for (std::uint32_t i = 0; i < count; ++i) consider(i);
  while (!pending.empty()) {
    const auto best = pending.top();
    pending.pop();
    auto& left = symbols[best.at];
    if (left.id != best.left || left.next == none || symbols[left.next].id != best.right) continue;
    auto& right = symbols[left.next];
    left.id = best.into;
    left.next = right.next;
    right.id = -1;
    if (left.next != none) symbols[left.next].previous = best.at;
    consider(left.previous);
    consider(best.at);
  }
  for (std::uint32_t i = 0; i != none; i = symbols[i].next) out.push_back(symbols[i].id);
}

} // namespace

merge_table::merge_table(std::size_t count) : slots_(std::bit_ceil(count * 2 + 2)) {}

std::size_t merge_table::place(std::uint64_t key) const noexcept {
  const auto mask = slots_.size() - 1;
  auto at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20U) & mask;
  while (slots_[at].key != key && slots_[at].key != ~std::uint64_t{0}) at = (at + 1) & mask;
  return at;
}

bool merge_table::add(token_id left, token_id right, merge what) {
  auto& found = slots_[place(key_of(left, right))];
  if (found.what.into >= 0) return false;
  found = {key_of(left, right), what};
  return true;
}

merge_table::merge merge_table::find(token_id left, token_id right) const noexcept {
  return slots_[place(key_of(left, right))].what;
}

void merge_word(std::string_view word, const std::array<token_id, 256>& byte_tokens, const merge_table& merges,
                std::vector<token_id>& out) {
  std::vector<token_id> bytes;
  bytes.reserve(word.size());
  for (const char c : word) bytes.push_back(byte_tokens[static_cast<std::uint8_t>(c)]);
  if (bytes.size() <= short_word)
    merge_short(bytes, merges, out);
  else
    merge_long(bytes, merges, out);
}

} // namespace godwit::gpu::model
