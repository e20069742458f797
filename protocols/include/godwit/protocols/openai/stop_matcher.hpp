#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Finds stop strings in a text that arrives in pieces, and holds back what may become one.
///
/// The answer ends at the first byte at which any stop string is complete (of several the longest), whatever the pieces
/// were. Pieces are whole UTF-8 characters, so are the stop strings; then what comes out is, too.
class stop_matcher {
public:
  struct emission {
    std::string text;                   ///< for the client
    std::optional<std::size_t> matched; ///< which stop string ended the answer; nothing comes out after it
  };
  /// Stop strings are not empty. `include_stop` leaves the stop string in the text.
  explicit stop_matcher(std::vector<std::string> stops = {}, bool include_stop = false);

  [[nodiscard]] emission push(std::string_view piece);
  /// The answer ended otherwise: what was held back.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  [[nodiscard]] const std::vector<std::string>& stops() const noexcept { return stops_; }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_.size(); }

private:
  std::vector<std::string> stops_;
  std::vector<std::vector<std::uint32_t>> fallback_; ///< Knuth-Morris-Pratt
  std::vector<std::uint32_t> state_;                 ///< bytes of stop i matched at the end of the text
  std::string held_;
  bool include_stop_;
  bool stopped_ = false;
};

} // namespace godwit::protocols::openai
