#include "model/merge_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t few = 48;
constexpr auto no_rank = ~0U;

void merge_few(std::span<const token_id> in, const merge_table& merges, std::vector<token_id>& out) {
  // Of symbols i and i + 1: their rank, and what they become. Left uninitialised: only the first `count` are read.
  std::array<token_id, few> symbols;    // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint32_t, few> ranks; // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<token_id, few> into;       // NOLINT(cppcoreguidelines-pro-type-member-init)
  auto count = in.size();
  std::copy(in.begin(), in.end(), symbols.begin());
  const auto look = [&](std::size_t i) {
    const auto found = merges.find(symbols[i], symbols[i + 1]);
    ranks[i] = found.rank;
    into[i] = found.into;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    auto lowest = ranks[0];
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < lowest) {
        lowest = ranks[i];
        best = i;
      }
    }
    if (lowest == no_rank) break;
    symbols[best] = into[best];
    --count;
    for (auto i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i - 1] = ranks[i];
      into[i - 1] = into[i];
    }
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
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

void merge_many(std::span<const token_id> in, const merge_table& merges, std::vector<token_id>& out) {
  constexpr auto none = ~0U;
  const auto count = static_cast<std::uint32_t>(in.size());
  std::vector<linked_symbol> symbols(count);
  for (std::uint32_t i = 0; i < count; ++i) symbols[i] = {in[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1};
  std::vector<pending_merge> first;
  first.reserve(count);
  const auto look = [&](std::uint32_t at) -> pending_merge {
    if (at == none || symbols[at].next == none) return {no_rank, at, -1, -1, -1};
    const auto left = symbols[at].id;
    const auto right = symbols[symbols[at].next].id;
    const auto found = merges.find(left, right);
    return {found.rank, at, left, right, found.into};
  };
  for (std::uint32_t i = 0; i < count; ++i)
    if (const auto one = look(i); one.rank != no_rank) first.push_back(one);
  std::priority_queue<pending_merge> pending({}, std::move(first)); // a heap in linear time
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
    for (const auto at : {left.previous, best.at})
      if (const auto one = look(at); one.rank != no_rank) pending.push(one);
  }
  for (std::uint32_t i = 0; i != none; i = symbols[i].next) out.push_back(symbols[i].id);
}

} // namespace

merge_table::merge_table(std::size_t count)
    : slots_(std::bit_ceil(count * 2 + 2)), mask_(slots_.size() - 1),
      shift_(64U - static_cast<unsigned>(std::countr_zero(slots_.size()))) {}

void merge_table::add(token_id left, token_id right, merge what) {
  const auto key = key_of(left, right);
  auto at = place(key);
  while (slots_[at].key != key && slots_[at].key != free_key) at = (at + 1) & mask_;
  slots_[at] = {key, what};
}

void merge_symbols(std::span<const token_id> symbols, const merge_table& merges, std::vector<token_id>& out) {
  if (symbols.empty()) return;
  if (symbols.size() <= few)
    merge_few(symbols, merges, out);
  else
    merge_many(symbols, merges, out);
}

} // namespace godwit::gpu::model
