#pragma once

#include <godwit/protocols/grammar/reasoning_tracker.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Tells what a model thinks before it answers from its answer: `<think>...</think>`, as Qwen3 and DeepSeek-R1 write
/// it.
///
/// Text that arrives in pieces goes through at once but for what may become a marker, and white space around the two
/// parts, which belongs to neither. The same text gives the same two parts however it was cut. Pieces are whole UTF-8
/// characters, so is what comes out.
class reasoning_splitter {
public:
  using start = reasoning_start;
  /// How an answer behind this prompt begins: templates open what is thought, or close it at once where none is wanted.
  [[nodiscard]] static start behind(std::string_view prompt) noexcept;

  struct emission {
    std::string reasoning;
    std::string text;
    [[nodiscard]] bool empty() const noexcept { return reasoning.empty() && text.empty(); }
  };
  explicit reasoning_splitter(start where = start::off);

  [[nodiscard]] emission push(std::string_view piece);
  /// The answer is over: what was held back.
  [[nodiscard]] emission finish();

  /// What comes next is thought, or a marker behind it, or white space.
  [[nodiscard]] bool thinks() const noexcept {
    return tracker_.where() == tracker::part::within || tracker_.where() == tracker::part::behind;
  }

private:
  using tracker = grammar::reasoning_tracker;
  void take(tracker::part was, char byte, emission& out);
  void think(std::size_t bytes, emission& out);

  tracker tracker_;
  std::string held_; ///< before: what may be the opening marker; within: what may be the closing one, or white space
  std::size_t white_ = 0; ///< bytes at its beginning that are known to be white space
  bool thought_ = false;  ///< something, besides white space
};

/// Counts the tokens of an answer that its model thought, as vLLM does: those between the markers, white space too. A
/// token that has a byte of what is thought is one, also where it begins or ends a marker that the vocabulary has not
/// as one token.
class reasoning_counter {
public:
  explicit reasoning_counter(reasoning_start where = reasoning_start::off) : tracker_(where) {}
  /// The bytes of the answer's next token; the end-of-sequence token is none of them.
  void push(std::string_view token);
  /// The answer is over: what might have been a marker is none.
  void finish();
  [[nodiscard]] std::uint32_t tokens() const noexcept { return tokens_; } ///< never falls

private:
  grammar::reasoning_tracker tracker_;
  std::vector<std::uint64_t> begun_at_; ///< of tokens that may turn out to be the closing marker's: bytes before them
  std::uint32_t tokens_ = 0;
};

} // namespace godwit::protocols::openai
