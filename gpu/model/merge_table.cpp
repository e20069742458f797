#include "model/merge_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

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
  token_id id;
  std::uint32_t previous;
  std::uint32_t next;
  std::uint32_t rank; ///< of merging with the next; no_rank where they do not, or this has gone into its left neighbour
  token_id into;
};

/// Places by rank, then from the left. A long run has many places of few ranks, which come in order: then neither
/// putting in nor taking out costs more than a look at the rank.
class merge_queue {
public:
  void push(std::uint32_t rank, std::uint32_t at) {
    auto& places = by_rank_[rank];
    if (places.empty()) ranks_.push(rank);
    places.push(at);
  }
  [[nodiscard]] bool empty() const { return ranks_.empty(); }
  std::pair<std::uint32_t, std::uint32_t> pop() {
    const auto rank = ranks_.top();
    auto& places = by_rank_.find(rank)->second;
    const auto at = places.pop();
    if (places.empty()) ranks_.pop();
    return {rank, at};
  }

private:
  /// In order while they come in order, otherwise a heap.
  class place_list {
  public:
    [[nodiscard]] bool empty() const { return first_ == places_.size(); }
    void push(std::uint32_t at) {
      if (!heap_ && !places_.empty() && at < places_.back()) {
        places_.erase(places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
        heap_ = true; // a sorted list is one
      }
      places_.push_back(at);
      if (heap_) std::push_heap(places_.begin(), places_.end(), std::greater<>());
    }
    std::uint32_t pop() {
      std::uint32_t at = places_[first_];
      if (heap_) {
        std::pop_heap(places_.begin(), places_.end(), std::greater<>());
        places_.pop_back();
      } else {
        ++first_;
      }
      if (empty()) {
        places_.clear();
        first_ = 0;
        heap_ = false;
      }
      return at;
    }

  private:
    std::vector<std::uint32_t> places_;
    std::size_t first_ = 0;
    bool heap_ = false;
  };

  std::unordered_map<std::uint32_t, place_list> by_rank_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_; ///< those with places
};

void merge_many(std::span<const token_id> in, const merge_table& merges, std::vector<token_id>& out) {
  constexpr auto none = ~0U;
  const auto count = static_cast<std::uint32_t>(in.size());
  std::vector<linked_symbol> symbols(count);
  merge_queue pending;
  const auto look = [&](std::uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank = no_rank;
    if (symbol.next == none) return;
    const auto found = merges.find(symbol.id, symbols[symbol.next].id);
    symbol.rank = found.rank;
    symbol.into = found.into;
    if (found.rank != no_rank) pending.push(found.rank, at);
  };
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {in[i], i == 0 ? none : i - 1, i + 1 == count ? none : i + 1, no_rank, -1};
  for (std::uint32_t i = 0; i < count; ++i) look(i);
  while (!pending.empty()) {
    const auto [rank, at] = pending.pop();
    auto& left = symbols[at];
    if (left.rank != rank) continue; // it has merged otherwise meanwhile
    auto& right = symbols[left.next];
    left.id = left.into;
    left.next = right.next;
    right.rank = no_rank;
    if (left.next != none) symbols[left.next].previous = at;
    if (left.previous != none) look(left.previous);
    look(at);
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
