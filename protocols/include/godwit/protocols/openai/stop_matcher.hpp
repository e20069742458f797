#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Stop strings, made ready once for all answers of a call: there may be many of both.
class stop_patterns {
public:
  /// No stop string is empty. The server's `own` end an answer as the end of its sequence does: nobody asked for them,
  /// so nobody is told, and they are never left in the text.
  explicit stop_patterns(std::vector<std::string> asked_for = {}, std::vector<std::string> own = {});
  [[nodiscard]] std::size_t size() const noexcept { return stops_.size(); }
  [[nodiscard]] const std::string& operator[](std::size_t i) const noexcept { return stops_[i]; }
  [[nodiscard]] bool asked_for(std::size_t i) const noexcept { return i < asked_for_; }

private:
  friend class stop_matcher;
  std::vector<std::string> stops_;
  std::vector<std::vector<std::uint32_t>> fallback_; ///< Knuth-Morris-Pratt
  std::size_t asked_for_;
};

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
  /// `include_stop` leaves the stop string in the text, where it was asked for. Null: there are none.
  explicit stop_matcher(std::shared_ptr<const stop_patterns> stops, bool include_stop = false);

  [[nodiscard]] emission push(std::string_view piece);
  /// The answer ended otherwise: what was held back.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  /// Null where it was given none.
  [[nodiscard]] const std::shared_ptr<const stop_patterns>& stops() const noexcept { return stops_; }
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_.size(); }

private:
  std::shared_ptr<const stop_patterns> stops_;
  std::vector<std::uint32_t> state_; ///< bytes of stop i matched at the end of the text
  std::string held_;
  bool include_stop_;
  bool stopped_ = false;
};

} // namespace godwit::protocols::openai
