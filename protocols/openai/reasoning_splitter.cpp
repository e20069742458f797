#include <godwit/protocols/openai/reasoning_splitter.hpp>

#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::string_view opening = "<think>";
constexpr std::string_view closing = "</think>";
constexpr std::string_view white = " \t\r\n";

std::string_view without_white_start(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(white);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::size_t end_without_white(std::string_view text) noexcept {
  const auto last = text.find_last_not_of(white);
  return last == std::string_view::npos ? 0 : last + 1;
}

} // namespace

reasoning_splitter::start reasoning_splitter::behind(std::string_view prompt) noexcept {
  return prompt.substr(0, end_without_white(prompt)).ends_with(opening) ? start::thinking : start::answer;
}

reasoning_splitter::reasoning_splitter(start where)
    : state_(where == start::off      ? state::answer
             : where == start::answer ? state::before
                                      : state::within),
      closing_({std::string(closing)}) {}

reasoning_splitter::emission reasoning_splitter::push(std::string_view piece) {
  emission out;
  switch (state_) {
  case state::before:
    begin(piece, out);
    break;
  case state::within:
    think(piece, out);
    break;
  case state::behind:
  case state::answer:
    answer(piece, out);
    break;
  }
  return out;
}

void reasoning_splitter::begin(std::string_view piece, emission& out) {
  held_ += piece;
  const auto said = without_white_start(held_);
  if (said.size() < opening.size() && opening.starts_with(said)) return;
  auto all = std::exchange(held_, {});
  if (!without_white_start(all).starts_with(opening)) {
    state_ = state::answer;
    out.text = std::move(all);
    return;
  }
  state_ = state::within;
  think(without_white_start(all).substr(opening.size()), out);
}

void reasoning_splitter::think(std::string_view piece, emission& out) {
  // The matcher says where the marker ended by what it gives out, and is told nothing behind it.
  std::size_t at = 0;
  std::string thought;
  for (; at < piece.size() && !closing_.stopped(); ++at) thought += closing_.push(piece.substr(at, 1)).text;
  add_thought(thought, out);
  if (!closing_.stopped()) return;
  held_.clear();
  state_ = state::behind;
  answer(piece.substr(at), out);
}

void reasoning_splitter::add_thought(std::string_view thought, emission& out) {
  if (!thought_) thought = without_white_start(thought);
  if (thought.empty()) return;
  thought_ = true;
  held_ += thought;
  const auto end = end_without_white(held_);
  out.reasoning.append(held_, 0, end);
  held_.erase(0, end);
}

void reasoning_splitter::answer(std::string_view piece, emission& out) {
  if (state_ == state::behind) {
    piece = without_white_start(piece);
    if (piece.empty()) return;
    state_ = state::answer;
  }
  out.text += piece;
}

reasoning_splitter::emission reasoning_splitter::finish() {
  emission out;
  if (state_ == state::before) out.text = std::exchange(held_, {});
  if (state_ == state::within) add_thought(closing_.finish(), out);
  state_ = state::answer;
  return out;
}

} // namespace godwit::protocols::openai
