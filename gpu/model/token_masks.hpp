#pragma once

#include "model/token_trie.hpp"

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/protocols/grammar/automaton.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

/// The masks of one grammar over one vocabulary, as they are asked for. Not thread-safe.
class token_masks {
public:
  token_masks(protocols::grammar::text_grammar grammar, const token_trie& trie, std::vector<protocols::token_id> ends,
              std::size_t vocabulary, constraint_limits limits);

  [[nodiscard]] protocols::grammar::state start() const noexcept { return run_.start(); }
  [[nodiscard]] protocols::grammar::state advance(protocols::grammar::state from, std::string_view text) {
    return run_.advance(from, text);
  }
  [[nodiscard]] std::shared_ptr<const token_mask> at(protocols::grammar::state state);

  [[nodiscard]] bool exhausted() const noexcept { return run_.exhausted(); }
  /// Gives what follows so much to do, in units of constraint_limits::work_max; beyond it `too_much()`, and states and
  /// masks mean nothing.
  void begin_work(std::uint64_t work_max) noexcept;
  [[nodiscard]] bool too_much() const noexcept { return work_done() > work_max_; }
  /// True where the automaton has been replaced by a new one: states from before mean nothing any more. To be called
  /// between two answers, before states are used.
  [[nodiscard]] bool renew();
  [[nodiscard]] std::size_t memory_bytes() const noexcept;
  [[nodiscard]] const constraint_counts& counts() const noexcept { return counts_; }

private:
  /// What the first part of a state allows, whatever follows it.
  struct first_mask {
    std::vector<std::uint64_t> words;
    /// Nodes before which the first part may end, and in whose subtree it does not allow everything; by their byte.
    std::vector<std::uint32_t> exits;
    std::array<std::uint32_t, 257> exits_of{};
    std::uint64_t used = 0;
  };
  struct whole_mask {
    std::shared_ptr<const token_mask> mask;
    std::uint64_t used = 0;
  };

  [[nodiscard]] const first_mask& first(protocols::grammar::state part);
  [[nodiscard]] first_mask walk(protocols::grammar::state part);
  /// Below one node, whose byte has been taken already.
  void walk_below(std::uint32_t node, protocols::grammar::state at, std::vector<std::uint64_t>& words);
  [[nodiscard]] bool put_together(protocols::grammar::state state, std::vector<std::uint64_t>& words);
  void allow(std::uint32_t node, std::vector<std::uint64_t>& words) const;
  [[nodiscard]] std::uint64_t work_done() const noexcept {
    return visits_ + work_per_part * (run_.work() - parts_before_);
  }

  /// What deriving a part of a state costs beside following a known transition; measured, rounded.
  static constexpr std::uint64_t work_per_part = 8;

  protocols::grammar::text_grammar grammar_;
  protocols::grammar::automaton run_;
  const token_trie& trie_;
  std::vector<protocols::token_id> ends_;
  std::size_t vocabulary_;
  constraint_limits limits_;
  std::unordered_map<protocols::grammar::state, std::unique_ptr<first_mask>> firsts_;
  std::unordered_map<protocols::grammar::state, whole_mask> wholes_;
  std::uint64_t clock_ = 0; ///< counts uses
  std::size_t exit_count_ = 0;
  std::size_t work_ = 0;                        ///< nodes looked at for one mask besides the walks
  std::vector<protocols::grammar::state> path_; ///< by depth
  std::vector<char> may_end_;
  std::uint64_t visits_ = 0; ///< nodes since begin_work
  std::uint64_t parts_before_ = 0;
  std::uint64_t work_max_ = 0;
  constraint_counts counts_;
};

} // namespace godwit::gpu::model
