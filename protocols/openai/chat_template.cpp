#include <godwit/protocols/openai/chat_template.hpp>

namespace godwit::protocols::openai {

std::vector<prompt_piece> chatml_pieces(const std::vector<chat_message>& messages, bool add_generation_prompt) {
  std::vector<prompt_piece> pieces;
  pieces.reserve(messages.size() * 4 + 2);
  for (const auto& message : messages) {
    pieces.push_back({std::string{chatml_start}, true});
    pieces.push_back({std::string{to_string(message.who)} + "\n" + message.content, false});
    pieces.push_back({std::string{chatml_end}, true});
    pieces.push_back({"\n", false});
  }
  if (add_generation_prompt) {
    pieces.push_back({std::string{chatml_start}, true});
    pieces.push_back({std::string{to_string(role::assistant)} + "\n", false});
  }
  return pieces;
}

std::string chatml_text(const std::vector<chat_message>& messages, bool add_generation_prompt) {
  std::string text;
  for (const auto& piece : chatml_pieces(messages, add_generation_prompt)) text += piece.text;
  return text;
}

} // namespace godwit::protocols::openai
