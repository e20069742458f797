#include <godwit/protocols/openai/turn_parts.hpp>

#include <godwit/protocols/ensure.hpp>

#include <cstddef>
#include <string_view>
#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::string_view white_space = " \t\r\n";

} // namespace

std::vector<turn_parts::step> turn_parts::take(const choice& piece) {
  std::vector<step> out;
  std::size_t said = 0;
  auto delta = piece.calls.begin();
  // A call that is open goes on before anything else: one step may end it and begin the next thought.
  for (; delta != piece.calls.end() && delta->name.empty(); ++delta) call(out, *delta);
  think(out, piece.reasoning);
  for (; delta != piece.calls.end(); ++delta) {
    say(out, piece.text.substr(said, delta->text_before - said));
    said = delta->text_before;
    call(out, *delta);
  }
  say(out, piece.text.substr(said));
  return out;
}

void turn_parts::think(std::vector<step>& out, const std::string& text) {
  if (text.empty()) return;
  out.push_back({kind::thought, !at(kind::thought), text, {}, {}});
  last_ = kind::thought;
}

void turn_parts::say(std::vector<step>& out, std::string text) {
  if (text.empty()) return;
  const bool begins = !at(kind::text);
  if (begins) {
    white_ += text;
    if (white_.find_first_not_of(white_space) == std::string::npos) return;
    text = std::exchange(white_, {});
  }
  out.push_back({kind::text, begins, std::move(text), {}, {}});
  last_ = kind::text;
}

void turn_parts::call(std::vector<step>& out, const tool_call_delta& delta) {
  const bool begins = !delta.name.empty();
  if (begins) white_.clear();
  ensure(begins || at(kind::call), "turn_parts: arguments without a call");
  if (begins || !delta.arguments.empty()) out.push_back({kind::call, begins, delta.arguments, delta.id, delta.name});
  last_ = kind::call;
}

} // namespace godwit::protocols::openai
