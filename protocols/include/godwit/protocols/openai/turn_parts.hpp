#pragma once

#include <godwit/protocols/openai/response.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::protocols::openai {

/// Tells the pieces of a choice as parts, for endpoints whose answers are lists of such: what is thought, what is said,
/// what is called, in the order in which the model wrote them.
///
/// The parts follow from the answer alone, however it comes in pieces, and one ends where the next begins. White space
/// in front of a call is no part, nor is an empty text.
class turn_parts {
public:
  enum class kind : std::uint8_t { thought, text, call };
  /// What comes to the last part, or to one that begins.
  struct step {
    kind what = kind::text;
    bool begins = false;
    std::string text; ///< of a call its arguments; may be empty where it begins
    std::string id;   ///< of a call that begins
    std::string name; ///< the same
  };

  [[nodiscard]] std::vector<step> take(const choice& piece);
  /// White space that has become no part, in an answer that is over and has none.
  [[nodiscard]] const std::string& white() const noexcept { return white_; }
  /// True where this is what the last part is.
  [[nodiscard]] bool at(kind what) const noexcept { return last_ == what; }

private:
  void think(std::vector<step>& out, const std::string& text);
  void say(std::vector<step>& out, std::string text);
  void call(std::vector<step>& out, const tool_call_delta& delta);

  std::optional<kind> last_;
  std::string white_; ///< that may be of a text
};

} // namespace godwit::protocols::openai
