#pragma once

#include <godwit/protocols/openai/stop_matcher.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::protocols::openai {

/// Tells what a model thinks before it answers from its answer: `<think>...</think>`, as Qwen3 and DeepSeek-R1 write
/// it.
///
/// Text that arrives in pieces goes through at once but for what may become a marker, and white space around the two
/// parts, which belongs to neither. The same text gives the same two parts however it was cut. Pieces are whole UTF-8
/// characters, so is what comes out.
class reasoning_splitter {
public:
  enum class start : std::uint8_t {
    off,     ///< all is answer
    answer,  ///< it may begin with `<think>`
    thinking ///< the prompt ended with `<think>`: it begins within
  };
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

private:
  enum class state : std::uint8_t { before, within, behind, answer };
  void begin(std::string_view piece, emission& out);
  void think(std::string_view piece, emission& out);
  void add_thought(std::string_view thought, emission& out);
  void answer(std::string_view piece, emission& out);

  state state_;
  std::string held_;     ///< before: what may be the opening marker; within: white space that may be the last
  bool thought_ = false; ///< something, besides white space
  stop_matcher closing_;
};

} // namespace godwit::protocols::openai
