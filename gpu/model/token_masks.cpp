#include "model/token_masks.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace godwit::gpu::model {

namespace grammar = protocols::grammar;

namespace {

/// Makes room for one more.
template <class Map, class Used> void evict(Map& from, std::size_t keep, const Used& used) {
  while (!from.empty() && from.size() >= keep)
    from.erase(std::ranges::min_element(from, {}, [&](const auto& entry) { return used(entry.second); }));
}

} // namespace

token_masks::token_masks(grammar::text_grammar allowed, const token_trie& trie, std::vector<protocols::token_id> ends,
                         std::size_t vocabulary, constraint_limits limits)
    : grammar_(std::move(allowed)), run_(grammar_), trie_(trie), ends_(std::move(ends)), vocabulary_(vocabulary),
      limits_(limits), path_(trie.depth_max + 1U), may_end_(trie.depth_max + 1U) {}

void token_masks::begin_work(std::uint64_t work_max) noexcept {
  visits_ = 0;
  parts_before_ = run_.work();
  work_max_ = work_max;
  run_.limit_work(parts_before_ + work_max / work_per_part);
}

bool token_masks::renew() {
  if (!run_.crowded()) return false;
  std::destroy_at(&run_);
  std::construct_at(&run_, grammar_);
  firsts_.clear();
  wholes_.clear();
  exit_count_ = 0;
  return true;
}

void token_masks::allow(std::uint32_t node, std::vector<std::uint64_t>& words) const {
  for (auto i = trie_.nodes[node].first_token; i < trie_.nodes[node + 1].first_token; ++i) {
    const auto id = static_cast<std::size_t>(trie_.tokens[i]);
    words[id / 64] |= std::uint64_t{1} << (id % 64);
  }
}

token_masks::first_mask token_masks::walk(grammar::state part) {
  ++counts_.walks;
  first_mask out;
  out.words.assign((vocabulary_ + 63) / 64, 0);
  std::vector<std::uint32_t> exits;
  path_[0] = part;
  may_end_[0] = 0; // what follows an empty first part is looked at by itself
  for (std::uint32_t i = 1; i < trie_.size();) {
    if (++visits_ > work_max_) break;
    const auto& node = trie_.nodes[i];
    const auto above = node.depth - 1U;
    if (may_end_[above] != 0) exits.push_back(i);
    const auto next = run_.advance(path_[above], node.byte);
    if (next == grammar::dead) {
      i = node.end;
      continue;
    }
    path_[node.depth] = next;
    may_end_[node.depth] = run_.may_end(next) ? 1 : 0;
    allow(i, out.words);
    ++i;
  }
  // Where everything below is allowed already, what follows can add nothing.
  std::vector<std::uint32_t> refused(trie_.tokens.size() + 1, 0); // up to each place
  for (std::size_t i = 0; i < trie_.tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(trie_.tokens[i]);
    refused[i + 1] = refused[i] + ((out.words[id / 64] >> (id % 64) & 1U) != 0 ? 0U : 1U);
  }
  std::erase_if(exits, [&](std::uint32_t i) {
    const auto& node = trie_.nodes[i];
    return refused[node.first_token] == refused[trie_.nodes[node.end].first_token];
  });
  std::ranges::stable_sort(exits, {}, [&](std::uint32_t i) { return trie_.nodes[i].byte; });
  for (const auto i : exits) ++out.exits_of[trie_.nodes[i].byte + 1U];
  for (std::size_t b = 0; b < 256; ++b) out.exits_of[b + 1] += out.exits_of[b];
  exits.shrink_to_fit();
  out.exits = std::move(exits);
  return out;
}

const token_masks::first_mask& token_masks::first(grammar::state part) {
  // No token is longer than the tree is deep.
  part = run_.within(part, trie_.depth_max);
  auto found = firsts_.find(part);
  if (found == firsts_.end()) {
    evict(firsts_, limits_.first_masks_max, [](const auto& entry) { return entry->used; });
    found = firsts_.emplace(part, std::make_unique<first_mask>(walk(part))).first;
    exit_count_ = 0;
    for (const auto& [state, mask] : firsts_) exit_count_ += mask->exits.size();
  }
  found->second->used = ++clock_;
  return *found->second;
}

void token_masks::walk_below(std::uint32_t top, grammar::state at, std::vector<std::uint64_t>& words) {
  allow(top, words);
  path_[trie_.nodes[top].depth] = at;
  for (auto i = top + 1; i < trie_.nodes[top].end;) {
    if (++visits_ > work_max_) break;
    const auto& node = trie_.nodes[i];
    const auto next = run_.advance(path_[node.depth - 1U], node.byte);
    if (next == grammar::dead) {
      i = node.end;
      continue;
    }
    path_[node.depth] = next;
    allow(i++, words);
    ++work_;
  }
}

/// From what the first parts allow, kept from before. False: too much of it, for a state of very many parts.
bool token_masks::put_together(grammar::state state, std::vector<std::uint64_t>& words) {
  constexpr std::size_t parts_max = 64;
  work_ = 0;
  std::size_t parts = 0;
  std::vector<grammar::state> open{state};
  std::unordered_set<grammar::state> seen{state};
  while (!open.empty()) {
    const auto from = open.back();
    open.pop_back();
    for (const auto& [part, rest] : run_.split(from)) {
      if (++parts > parts_max) return false;
      if (too_much() || run_.exhausted()) return true;
      const auto& allowed = first(part);
      for (std::size_t i = 0; i < words.size(); ++i) words[i] |= allowed.words[i];
      if (rest == grammar::automaton::only_end()) continue;
      for (unsigned byte = 0; byte < 256; ++byte) {
        if (allowed.exits_of[byte] == allowed.exits_of[byte + 1]) continue;
        const auto next = run_.advance(rest, static_cast<std::uint8_t>(byte));
        if (next == grammar::dead) continue;
        for (auto i = allowed.exits_of[byte]; i < allowed.exits_of[byte + 1]; ++i) {
          walk_below(allowed.exits[i], next, words);
          ++visits_;
          if (++work_ > trie_.nodes.size()) return false;
        }
      }
      if (run_.may_end(part) && seen.insert(rest).second) open.push_back(rest);
    }
  }
  return true;
}

std::shared_ptr<const token_mask> token_masks::at(grammar::state state) {
  if (const auto known = wholes_.find(state); known != wholes_.end()) {
    known->second.used = ++clock_;
    return known->second.mask;
  }
  ++counts_.masks;
  auto mask = std::make_shared<token_mask>();
  auto& words = mask->words;
  words.assign((vocabulary_ + 63) / 64, 0);
  if (!put_together(state, words)) words = walk(state).words;
  mask->must_end = std::ranges::all_of(words, [](auto word) { return word == 0; });
  if (run_.may_end(state))
    for (const auto id : ends_)
      if (id >= 0 && static_cast<std::size_t>(id) < vocabulary_)
        words[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << (static_cast<std::size_t>(id) % 64);
  if (too_much() || run_.exhausted()) return mask; // not to be used
  evict(wholes_, limits_.masks_max, [](const auto& entry) { return entry.used; });
  wholes_.emplace(state, whole_mask{mask, ++clock_});
  return mask;
}

std::size_t token_masks::memory_bytes() const noexcept {
  return run_.memory_bytes() + (firsts_.size() + wholes_.size()) * (vocabulary_ / 8 + 1200) +
         exit_count_ * sizeof(std::uint32_t);
}

} // namespace godwit::gpu::model
