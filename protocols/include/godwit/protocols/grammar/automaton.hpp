#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

/// Which texts an answer may be: schemas and patterns compiled to automata over bytes.
/// Pure; no clock, no tokens. What follows from it for a vocabulary is gpu/model's.
namespace godwit::protocols::grammar {

class term_table;
struct compiled;

/// The texts that a schema, a list of choices or a pattern allows (json_schema.hpp makes them). Immutable, thread-safe,
/// cheap to copy.
class text_grammar {
public:
  explicit text_grammar(std::shared_ptr<const compiled> from) : from_(std::move(from)) {}
  [[nodiscard]] const compiled& get() const noexcept { return *from_; }
  [[nodiscard]] std::size_t terms() const noexcept; ///< size, for figures
  /// True if `text` is one of the texts.
  [[nodiscard]] bool accepts(std::string_view text) const;

private:
  std::shared_ptr<const compiled> from_;
};

/// Where in a text one stands: a name for everything that may still follow. Equal states allow the same texts.
using state = std::uint32_t;
inline constexpr state dead = 0; ///< nothing can follow, not even the end

/// Follows a text byte by byte.
///
/// Problem: JSON nests without bound, so no table of states is complete. So a state is a term (a description of what
/// may follow), and a byte leads to its derivative (Brzozowski 1964); terms are shared, so that equal descriptions are
/// one state, and every transition is computed once and kept.
///
/// Contract: `advance` gives `dead` exactly where no text of the grammar goes on like this, so a state that is not dead
/// has a byte that may follow, or the text may end. States belong to one automaton. It grows as texts go new ways:
/// `crowded()` tells that it should be replaced by a new one. A description that explodes is dead, too, and
/// `exhausted()` is true from then on. Not thread-safe.
class automaton {
public:
  explicit automaton(text_grammar of);
  ~automaton();
  automaton(automaton&&) noexcept;

  [[nodiscard]] state start() const noexcept;
  [[nodiscard]] state advance(state from, std::uint8_t byte) {
    const auto row = from < rows_.size() ? rows_[from] : 0;
    const auto next = row != 0 ? table_[(row - 1) * classes_ + class_of_[byte]] : unknown;
    return next != unknown ? next : derive_byte(from, byte);
  }
  [[nodiscard]] state advance(state from, std::string_view text);
  [[nodiscard]] bool may_end(state at) const noexcept;
  [[nodiscard]] std::array<bool, 256> following(state at);

  /// A state as alternatives of first part and rest: its texts are those of the first, then those of the second. At
  /// least one; the rest may be the empty text (`only_end()`). For caching what belongs to the first parts.
  [[nodiscard]] std::vector<std::pair<state, state>> split(state at) const;
  [[nodiscard]] static constexpr state only_end() noexcept { return 1; }
  /// A state that allows the same continuations as `at` up to `bytes_max` bytes; the same one for many (a string that
  /// may have 900 more characters is like one that may have 901).
  [[nodiscard]] state within(state at, std::uint32_t bytes_max);

  [[nodiscard]] bool crowded() const noexcept;
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }
  /// What has been done to find transitions, in parts of states looked at: no clock, so the same everywhere. Beyond
  /// `limit_work` it is exhausted.
  [[nodiscard]] std::uint64_t work() const noexcept;
  void limit_work(std::uint64_t work_max) noexcept;
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

private:
  static constexpr state unknown = 0xFFFFFFFFU;
  [[nodiscard]] state derive_byte(state from, std::uint8_t byte);
  [[nodiscard]] state derive(state from, std::uint32_t by_class);
  [[nodiscard]] state derive_anew(state from, std::uint32_t by_class);
  [[nodiscard]] state clamp(state at, std::uint32_t bytes_max, std::uint32_t depth);

  text_grammar grammar_;
  std::unique_ptr<term_table> terms_;
  const std::array<std::uint8_t, 256>& class_of_; ///< in the grammar
  std::size_t classes_;
  std::vector<std::uint32_t> rows_; ///< by state: one above its row in the table; 0: none yet
  std::vector<state> table_;
  std::unordered_map<state, state> clamped_;
  std::uint32_t clamped_to_ = 0;
  bool exhausted_ = false;
};

} // namespace godwit::protocols::grammar
