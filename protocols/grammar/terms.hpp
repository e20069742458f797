#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::grammar {

/// A set of bytes.
using byte_set = std::array<std::uint64_t, 4>;
[[nodiscard]] constexpr bool holds(const byte_set& set, std::uint8_t byte) noexcept {
  return (set[byte >> 6U] >> (byte & 63U) & 1U) != 0;
}
[[nodiscard]] byte_set byte_range(std::uint8_t first, std::uint8_t last) noexcept;

/// Index of a term in its `term_table`. Terms are built from smaller ones only, so a child's index is below its
/// parent's (a rule's body excepted).
using term_id = std::uint32_t;

/// A description of texts: which ones it stands for.
struct term {
  enum class kind : std::uint8_t {
    nothing,  ///< no text at all
    empty,    ///< the empty text only
    bytes,    ///< one byte of the set `a`
    sequence, ///< `a`, then `b`; `a` itself is no sequence
    choice,   ///< any of the `b` terms from `a` on in the list of choices
    repeat,   ///< `a`, from `least` to `most` times
    rule,     ///< what rule `a` stands for; never the empty text
  };
  kind what = kind::nothing;
  bool nullable = false; ///< the empty text is among them
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  friend bool operator==(const term&, const term&) = default;
};

inline constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();

/// Thrown where a bound of the table is reached; caught at the edge of protocols/grammar.
struct too_complex : std::exception {
  const char* what() const noexcept override { return "it is too complex"; }
};

/// All terms of one grammar, each once.
///
/// Problem: an automaton whose states are descriptions of what may still follow (Brzozowski's derivatives) is finite
/// where it can be, and its states can be told apart, only if equal descriptions are the same object. So the makers
/// below bring terms into a normal form (sequences lean to the right, choices are flat, sorted sets, what stands for no
/// text vanishes) and give the same index for the same term. A term other than `nothing` stands for at least one text
/// as soon as every rule does.
class term_table {
public:
  static constexpr term_id nothing = 0;
  static constexpr term_id empty = 1;

  explicit term_table(std::size_t terms_max);

  [[nodiscard]] term_id bytes(const byte_set& set);
  [[nodiscard]] term_id byte(std::uint8_t value) {
    auto& known = single_[value];
    if (known == nothing) known = bytes(byte_range(value, value));
    return known;
  }
  [[nodiscard]] term_id literal(std::string_view text);
  [[nodiscard]] term_id sequence(term_id first, term_id second);
  [[nodiscard]] term_id sequence(std::initializer_list<term_id> all);
  [[nodiscard]] term_id choice(std::span<const term_id> all);
  [[nodiscard]] term_id choice(std::initializer_list<term_id> all) {
    return choice(std::span(all.begin(), all.size()));
  }
  [[nodiscard]] term_id repeat(term_id what, std::uint32_t least, std::uint32_t most);
  [[nodiscard]] term_id optional(term_id what) { return repeat(what, 0, 1); }
  [[nodiscard]] term_id rule(std::uint32_t index);

  [[nodiscard]] const term& at(term_id id) const noexcept { return terms_[id]; }
  [[nodiscard]] std::span<const term_id> choices(const term& t) const noexcept {
    return std::span(choices_).subspan(t.a, t.b);
  }
  [[nodiscard]] const byte_set& set(const term& t) const noexcept { return sets_[t.a]; }
  [[nodiscard]] std::span<const byte_set> sets() const noexcept { return sets_; }
  [[nodiscard]] std::size_t size() const noexcept { return terms_.size(); }
  [[nodiscard]] std::size_t choices() const noexcept { return choices_.size(); } ///< of all terms together
  [[nodiscard]] std::size_t memory_bytes() const noexcept;
  /// Where makers of larger terms keep what they have made, by a key of theirs; `nothing` at first.
  [[nodiscard]] term_id& made(const std::u32string& key) { return made_[key]; }
  void forget_made() { made_.clear(); }
  void limit(std::size_t terms_max) noexcept { terms_max_ = terms_max; }
  /// What has been done so far: terms looked up and alternatives put together. Beyond a limit the makers throw
  /// too_complex.
  [[nodiscard]] std::uint64_t work() const noexcept { return work_; }
  void limit_work(std::uint64_t work_max) noexcept { work_max_ = work_max; }
  /// Counts work that makes few terms, by those who do it (sets of characters put together, patterns read).
  void spend(std::size_t work) {
    work_ += work;
    if (work_ > work_max_) throw too_complex{};
  }

private:
  [[nodiscard]] term_id intern(const term& t);
  [[nodiscard]] term_id intern_choice(std::span<const term_id> sorted, bool nullable);
  [[nodiscard]] std::size_t hash_of(const term& t) const noexcept;
  [[nodiscard]] bool same(const term& a, const term& b) const noexcept;
  void grow();

  std::size_t terms_max_;
  std::uint64_t work_ = 0;
  std::uint64_t work_max_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<term> terms_;
  std::vector<term_id> choices_;
  std::vector<byte_set> sets_;
  std::map<byte_set, std::uint32_t> set_index_;
  std::map<std::u32string, term_id> made_;
  std::array<term_id, 256> single_{}; ///< of each byte
  std::vector<term_id> slots_;        ///< open addressing; `nothing` marks a free one
};

} // namespace godwit::protocols::grammar
