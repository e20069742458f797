#include "grammar/terms.hpp"

#include <algorithm>

namespace godwit::protocols::grammar {

namespace {

constexpr std::size_t choices_max = 8192; ///< of one term
constexpr std::size_t choices_per_term = 8;

std::size_t mix(std::size_t seed, std::uint64_t value) noexcept {
  std::uint64_t x = (seed ^ value) * 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(x ^ (x >> 29U));
}

} // namespace

byte_set byte_range(std::uint8_t first, std::uint8_t last) noexcept {
  byte_set set{};
  for (unsigned b = first; b <= last; ++b) set[b >> 6U] |= std::uint64_t{1} << (b & 63U);
  return set;
}

term_table::term_table(std::size_t terms_max) : terms_max_(terms_max), slots_(1024, nothing) {
  terms_.push_back({term::kind::nothing, false, 0, 0, 0, 0});
  terms_.push_back({term::kind::empty, true, 0, 0, 0, 0});
}

std::size_t term_table::hash_of(const term& t) const noexcept {
  std::size_t hash = mix(static_cast<std::size_t>(t.what), t.nullable ? 1 : 0);
  if (t.what == term::kind::choice) {
    for (const auto child : choices(t)) hash = mix(hash, child);
    return hash;
  }
  return mix(mix(mix(mix(hash, t.a), t.b), t.least), t.most);
}

bool term_table::same(const term& a, const term& b) const noexcept {
  if (a.what != term::kind::choice) return a == b;
  return b.what == term::kind::choice && a.nullable == b.nullable && std::ranges::equal(choices(a), choices(b));
}

void term_table::grow() {
  std::vector<term_id> larger(slots_.size() * 2, nothing);
  for (const auto id : slots_) {
    if (id == nothing) continue;
    auto slot = hash_of(terms_[id]) & (larger.size() - 1);
    while (larger[slot] != nothing) slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = id;
  }
  slots_ = std::move(larger);
}

term_id term_table::intern(const term& t) {
  spend(1);
  auto slot = hash_of(t) & (slots_.size() - 1);
  for (; slots_[slot] != nothing; slot = (slot + 1) & (slots_.size() - 1))
    if (same(terms_[slots_[slot]], t)) return slots_[slot];
  if (terms_.size() >= terms_max_) throw too_complex{};
  const auto id = static_cast<term_id>(terms_.size());
  terms_.push_back(t);
  slots_[slot] = id;
  if (terms_.size() * 2 > slots_.size()) grow();
  return id;
}

term_id term_table::bytes(const byte_set& set) {
  if (set == byte_set{}) return nothing;
  const auto [place, added] = set_index_.try_emplace(set, static_cast<std::uint32_t>(sets_.size()));
  if (added) sets_.push_back(set);
  return intern({term::kind::bytes, false, place->second, 0, 0, 0});
}

term_id term_table::literal(std::string_view text) {
  term_id all = empty;
  for (auto i = text.size(); i-- > 0;) all = sequence(byte(static_cast<std::uint8_t>(text[i])), all);
  return all;
}

term_id term_table::sequence(term_id first, term_id second) {
  if (first == nothing || second == nothing) return nothing;
  if (first == empty) return second;
  if (second == empty) return first;
  const auto joined = [this](term_id a, term_id b) {
    return intern({term::kind::sequence, terms_[a].nullable && terms_[b].nullable, a, b, 0, 0});
  };
  if (terms_[first].what != term::kind::sequence) return joined(first, second);
  // A loop, since sequences are as long as texts.
  std::vector<term_id> front;
  while (terms_[first].what == term::kind::sequence) {
    front.push_back(terms_[first].a);
    first = terms_[first].b;
  }
  front.push_back(first);
  for (; !front.empty(); front.pop_back()) second = joined(front.back(), second);
  return second;
}

term_id term_table::sequence(std::initializer_list<term_id> all) {
  term_id whole = empty;
  for (auto it = all.end(); it != all.begin();) whole = sequence(*--it, whole);
  return whole;
}

term_id term_table::choice(std::span<const term_id> all) {
  std::vector<term_id> flat;
  byte_set set{};
  bool nullable = false, needs_empty = false;
  const auto add = [&](term_id id) {
    const auto& t = terms_[id];
    nullable = nullable || t.nullable;
    if (t.what == term::kind::bytes)
      for (std::size_t i = 0; i < set.size(); ++i) set[i] |= sets_[t.a][i];
    else if (id == empty)
      needs_empty = true;
    else if (id != nothing)
      flat.push_back(id);
  };
  for (const auto id : all) {
    if (terms_[id].what != term::kind::choice) {
      add(id);
      continue;
    }
    for (const auto child : choices(terms_[id])) add(child);
  }
  if (set != byte_set{}) flat.push_back(bytes(set));
  spend(all.size() + flat.size());
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (needs_empty && std::ranges::none_of(flat, [&](term_id id) { return terms_[id].nullable; }))
    flat.insert(flat.begin(), empty);
  if (flat.empty()) return nothing;
  if (flat.size() == 1) return flat.front();
  if (flat.size() > choices_max) throw too_complex{};
  return intern_choice(flat, nullable);
}

term_id term_table::intern_choice(std::span<const term_id> sorted, bool nullable) {
  if (choices_.size() > choices_per_term * terms_max_) throw too_complex{};
  const auto first = static_cast<std::uint32_t>(choices_.size());
  const auto before = terms_.size();
  choices_.insert(choices_.end(), sorted.begin(), sorted.end());
  const auto id = intern({term::kind::choice, nullable, first, static_cast<std::uint32_t>(sorted.size()), 0, 0});
  if (terms_.size() == before) choices_.resize(first);
  return id;
}

term_id term_table::repeat(term_id what, std::uint32_t least, std::uint32_t most) {
  if (what == empty || most == 0) return empty;
  if (what == nothing) return least == 0 ? empty : nothing;
  if (least == 1 && most == 1) return what;
  if (terms_[what].nullable) least = 0;
  return intern({term::kind::repeat, least == 0, what, 0, least, most});
}

term_id term_table::rule(std::uint32_t index) { return intern({term::kind::rule, false, index, 0, 0, 0}); }

std::size_t term_table::memory_bytes() const noexcept {
  return terms_.capacity() * sizeof(term) + choices_.capacity() * sizeof(term_id) +
         sets_.size() * (2 * sizeof(byte_set) + 64) + slots_.capacity() * sizeof(term_id);
}

} // namespace godwit::protocols::grammar
