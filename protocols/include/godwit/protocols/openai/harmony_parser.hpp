#pragma once

#include <godwit/protocols/openai/tool_parser.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Tells the parts of an answer in the harmony format, OpenAI's of gpt-oss:
///
///   <|channel|>analysis<|message|>what it thinks<|end|>
///   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
///   <|start|>assistant<|channel|>final<|message|>what it says<|return|>
///
/// Each message has a header, which names a channel and perhaps whom it is for, then a body. What is said in `analysis`
/// or to a tool that is no function is thought; what is said to a function is a call; all else is the answer's text,
/// `commentary` to nobody, too.
///
/// Text goes through at once but for what may become a marker; a call is told when its arguments begin, and these are
/// checked as JSON on the way. An answer that begins without a header is text; a header that breaks off, where another
/// message begins or its own ends, is left out. The same answer gives the same parts
/// however it was cut. Nothing is kept but a header, of at most some kilobytes, and what may become a marker.
class harmony_parser {
public:
  enum class start : std::uint8_t {
    header,  ///< behind "<|start|>assistant", where templates end
    thought, ///< within a message of the channel `analysis`
    text,    ///< within one of another
    between, ///< behind a message's end
  };
  /// How an answer behind this prompt begins. `continues`: the prompt's last message, which goes on.
  [[nodiscard]] static start behind(std::string_view prompt, bool continues) noexcept;
  /// What a prompt that ends in a header goes on with where the answer is nothing but text, or but a function's
  /// arguments: a schema binds it, and no thoughts come first.
  [[nodiscard]] static std::string opening_of_text();
  [[nodiscard]] static std::string opening_of_call(std::string_view function);

  struct options {
    start where = start::header;
    bool takes_calls = true;       ///< else what is said to functions is text
    std::uint32_t calls_max = 128; ///< further calls are left out
    /// Those that there are: calls where the header leaves out "functions.", too.
    std::vector<std::string> functions = {};
  };
  struct emission {
    std::string reasoning;
    std::string text;
    std::vector<tool_call_delta> calls;
    [[nodiscard]] bool empty() const noexcept { return reasoning.empty() && text.empty() && calls.empty(); }
  };

  harmony_parser();
  explicit harmony_parser(options how);
  harmony_parser(harmony_parser&&) noexcept;
  harmony_parser& operator=(harmony_parser&&) noexcept;
  ~harmony_parser();

  [[nodiscard]] emission push(std::string_view piece);
  /// The answer is over.
  [[nodiscard]] emission finish();
  /// Calls told so far.
  [[nodiscard]] std::uint32_t calls() const noexcept;
  /// What comes next is thought.
  [[nodiscard]] bool thinks() const noexcept;

private:
  class state;
  std::unique_ptr<state> state_;
};

} // namespace godwit::protocols::openai
