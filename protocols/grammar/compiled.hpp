#pragma once

#include "grammar/terms.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace godwit::protocols::grammar {

/// What a text_grammar holds.
struct compiled {
  explicit compiled(term_table table) : terms(std::move(table)) {}
  term_table terms;
  std::vector<term_id> rules; ///< bodies
  term_id start = term_table::nothing;
  /// Bytes that no set of the grammar tells apart are one class.
  std::array<std::uint8_t, 256> class_of{};
  std::vector<std::uint8_t> representatives; ///< of each class
};

/// Fills class_of and representatives.
void classify_bytes(compiled& grammar);

/// Removes what stands for no text (a rule that only leads to itself), so that no automaton runs into a dead end.
/// False: nothing is left.
[[nodiscard]] bool remove_unproductive(compiled& grammar);

/// A rule that begins with itself; its derivative would not end. -1: none.
[[nodiscard]] std::int64_t left_recursive_rule(const compiled& grammar);

} // namespace godwit::protocols::grammar
