#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// How a model writes calls of tools into its answer.
enum class tool_format : std::uint8_t {
  none,      ///< text is text
  hermes,    ///< <tool_call>{"name": ..., "arguments": {...}}</tool_call>, between text (Hermes, Qwen)
  mistral,   ///< [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], after text
  llama,     ///< the whole answer {"name": ..., "parameters": {...}}, maybe after <|python_tag|>, several with ";"
  list,      ///< the whole answer [{"name": ..., "parameters": {...}}, ...]: what a schema made of it; none is text
  arguments, ///< the whole answer is the arguments of a function known before
  harmony,   ///< messages to functions, in channels (gpt-oss): harmony_parser reads them, to a tool_parser text is text
};

/// Which of them a template's text speaks of.
[[nodiscard]] tool_format tool_format_of(std::string_view template_text) noexcept;

/// A call, or as far as one chunk adds to it.
struct tool_call_delta {
  std::uint32_t index = 0;
  std::string id;              ///< with the first delta of a call only; the parser leaves it to whoever knows ids
  std::string name;            ///< the same
  std::string arguments;       ///< JSON; the deltas of a call make one object
  std::size_t text_before = 0; ///< so many bytes of the text that comes with it stand before it
  friend bool operator==(const tool_call_delta&, const tool_call_delta&) = default;
};

/// Finds calls in an answer that arrives in pieces.
///
/// Text goes through at once but for what may become a marker. A call is told as soon as its name is known and its
/// arguments begin; these go through as they come, checked as JSON on the way. What does not turn out to be a call
/// stays text. The same answer gives the same calls and the same text however it was cut.
class tool_parser {
public:
  struct emission {
    std::string text;
    std::vector<tool_call_delta> calls;
    [[nodiscard]] bool empty() const noexcept { return text.empty() && calls.empty(); }
  };
  struct options {
    std::uint32_t calls_max = 128; ///< further calls are left out
    std::string function;          ///< tool_format::arguments: whose
    /// tool_format::llama, which marks no call: those that there are; another's name is text. Empty: any.
    std::vector<std::string> functions;
  };

  explicit tool_parser(tool_format format);
  tool_parser(tool_format format, options how);
  tool_parser(tool_parser&&) noexcept;
  tool_parser& operator=(tool_parser&&) noexcept;
  ~tool_parser();

  [[nodiscard]] emission push(std::string_view piece);
  /// The answer is over.
  [[nodiscard]] emission finish();
  /// Calls told so far.
  [[nodiscard]] std::uint32_t calls() const noexcept;

private:
  class state;
  std::unique_ptr<state> state_;
};

} // namespace godwit::protocols::openai
