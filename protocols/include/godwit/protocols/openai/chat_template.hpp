#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/jinja/template.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>
#include <godwit/protocols/openai/tool_parser.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// From a conversation to the text that the model reads.
namespace godwit::protocols::openai {

inline constexpr std::string_view chatml_start = "<|im_start|>";
inline constexpr std::string_view chatml_end = "<|im_end|>"; ///< ends every answer where the template writes it

/// A piece of a prompt. Only markup may become special tokens: what users write is text, whatever it looks like.
struct prompt_piece {
  std::string text;
  bool markup = false;
  friend bool operator==(const prompt_piece&, const prompt_piece&) = default;
};

/// The built-in ChatML-like template, for models that bring none:
///   <|im_start|>role\ncontent<|im_end|>\n ... <|im_start|>assistant\n
[[nodiscard]] std::vector<prompt_piece> chatml_pieces(const std::vector<chat_message>& messages,
                                                      bool add_generation_prompt = true);

/// A model's own template (Jinja), or the built-in one. Immutable: any number of threads may use it at once.
class chat_template {
public:
  /// What a model directory says.
  struct source {
    std::string text;                     ///< Jinja
    std::optional<std::string> for_tools; ///< the one named "tool_use": used in place of `text` where tools are given
    std::vector<std::pair<std::string, std::string>> tokens; ///< "bos_token" -> "<s>", ...: markup
  };

  /// The built-in one.
  chat_template() = default;
  /// The error is a line that says where the template is wrong.
  [[nodiscard]] static expected<chat_template, std::string> compile(source from);

  /// The conversation as the model reads it. A template that refuses it (raise_exception) or fails on it is a 400 with
  /// its message; so are tools where the template shows none. `now_s`: Unix time, for templates that tell the date.
  [[nodiscard]] expected<std::vector<prompt_piece>, api_error> pieces(const chat_request& request,
                                                                      std::int64_t now_s) const;

  /// True where the template's text has this in it.
  [[nodiscard]] bool writes(std::string_view marker) const;
  [[nodiscard]] bool shows_tools() const;
  /// True where the model has no template of its own.
  [[nodiscard]] bool built_in() const noexcept { return !compiled_; }
  /// How the model writes its calls, as far as the template tells.
  [[nodiscard]] tool_format calls() const noexcept { return calls_; }

private:
  struct compiled {
    jinja::compiled_template plain;
    std::optional<jinja::compiled_template> for_tools;
    jinja::variables tokens;
  };
  std::optional<compiled> compiled_;
  tool_format calls_ = tool_format::none;
};

} // namespace godwit::protocols::openai
