#pragma once

#include <godwit/protocols/openai/request.hpp>

#include <string>
#include <string_view>
#include <vector>

/// The built-in ChatML-like template, for models that bring none:
///   <|im_start|>role\ncontent<|im_end|>\n ... <|im_start|>assistant\n
namespace godwit::protocols::openai {

inline constexpr std::string_view chatml_start = "<|im_start|>";
inline constexpr std::string_view chatml_end = "<|im_end|>"; ///< a stop string of every answer

/// A piece of a prompt. Only markup may become special tokens: what users write is text, whatever it looks like.
struct prompt_piece {
  std::string text;
  bool markup = false;
  friend bool operator==(const prompt_piece&, const prompt_piece&) = default;
};

[[nodiscard]] std::vector<prompt_piece> chatml_pieces(const std::vector<chat_message>& messages,
                                                      bool add_generation_prompt = true);
/// The pieces joined, for tokenizers without these markers.
[[nodiscard]] std::string chatml_text(const std::vector<chat_message>& messages, bool add_generation_prompt = true);

} // namespace godwit::protocols::openai
