#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Follows a JSON object byte by byte, and says where it ends or is none any more.
class call_reader {
public:
  /// How many bytes at the beginning of `text` belong to the object.
  [[nodiscard]] std::size_t take(std::string_view text);
  [[nodiscard]] bool done() const noexcept { return state_ == state::done; }
  [[nodiscard]] bool broken() const noexcept { return state_ == state::broken; }

private:
  enum class state : std::uint8_t {
    begin,      ///< before {
    value,      ///< before a value
    first_item, ///< after [
    first_key,  ///< after {
    key,        ///< after , in an object
    colon,
    next, ///< after a value
    string,
    escape,
    digits, ///< of \u
    scalar, ///< in a number, true, false or null
    done,
    broken
  };
  bool byte(char c);
  void ended();
  state state_ = state::begin;
  bool of_key_ = false;    ///< the string is a key
  int digits_ = 0;         ///< of \u, so far
  std::vector<char> open_; ///< { and [
  std::string scalar_;
};

/// What stands where a call should.
struct call_head {
  enum class kind : std::uint8_t {
    more,     ///< cannot be told yet
    none,     ///< no call
    streamed, ///< {"name": "x", "arguments": and then the arguments' {
    whole,    ///< the call, complete
  };
  kind found = kind::more;
  std::size_t bytes = 0; ///< of the text: up to the arguments, or of the whole call
  std::string name;
  std::string arguments;
};
/// `text` begins with what should be a call's {. "parameters" is another word for "arguments"; a call without either
/// has none, unless they are `required`.
[[nodiscard]] call_head read_call_head(std::string_view text, bool required);

} // namespace godwit::protocols::openai
