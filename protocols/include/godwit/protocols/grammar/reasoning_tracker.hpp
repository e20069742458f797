#pragma once

#include <godwit/protocols/messages/sampling.hpp>

#include <cstdint>
#include <string_view>

namespace godwit::protocols::grammar {

/// Follows where in an answer a model thinks and where it answers: `<think>...</think>`, as Qwen3 and DeepSeek-R1 write
/// it, then what it says.
///
/// Problem: the client wants the two apart, a grammar binds the second only, and a request that moves must be taken on
/// in the middle of either. So where an answer stands is a function of how it began and of its bytes, however they were
/// cut into pieces; whether a marker is one token of the vocabulary or several makes no difference.
///
/// Contract: an answer thinks only if it begins with `<think>`, white space before it left aside, or if the prompt
/// ended within; and once. A value: copying it copies all it knows.
class reasoning_tracker {
public:
  static constexpr std::string_view opening = "<think>";
  static constexpr std::string_view closing = "</think>";
  static constexpr std::string_view white = " \t\r\n";

  enum class part : std::uint8_t {
    before, ///< it may still begin with `<think>`
    within, ///< it thinks
    behind, ///< `</think>` was the last, white space left aside
    answer
  };
  reasoning_tracker() noexcept = default; ///< all is answer
  explicit reasoning_tracker(reasoning_start start) noexcept;

  void push(std::string_view bytes) noexcept;
  [[nodiscard]] part where() const noexcept { return where_; }
  /// Bytes at the end that are the beginning of the marker awaited, `before` and `within`.
  [[nodiscard]] std::uint32_t matched() const noexcept { return matched_; }
  /// Bytes between the markers, `matched()` left aside, which may turn out to be the second one's.
  [[nodiscard]] std::uint64_t thought() const noexcept { return thought_; }
  [[nodiscard]] bool over() const noexcept { return where_ == part::behind || where_ == part::answer; }

private:
  void push(char byte) noexcept;

  part where_ = part::answer;
  std::uint32_t matched_ = 0;
  std::uint64_t thought_ = 0;
};

} // namespace godwit::protocols::grammar
