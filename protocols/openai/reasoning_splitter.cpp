#include <godwit/protocols/openai/reasoning_splitter.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols::openai {

namespace {

using grammar::reasoning_tracker;

std::string_view without_white_start(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(reasoning_tracker::white);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::size_t end_without_white(std::string_view text) noexcept {
  const auto last = text.find_last_not_of(reasoning_tracker::white);
  return last == std::string_view::npos ? 0 : last + 1;
}

} // namespace

reasoning_start reasoning_splitter::behind(std::string_view prompt) noexcept {
  const auto said = prompt.substr(0, end_without_white(prompt));
  if (said.ends_with(reasoning_tracker::opening)) return start::thinking;
  return said.ends_with(reasoning_tracker::closing) ? start::off : start::answer;
}

reasoning_splitter::reasoning_splitter(start where) : tracker_(where) {}

reasoning_splitter::emission reasoning_splitter::push(std::string_view piece) {
  emission out;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const auto was = tracker_.where();
    if (was == tracker::part::answer) {
      out.text += piece.substr(i);
      break;
    }
    tracker_.push(piece.substr(i, 1));
    take(was, piece[i], out);
  }
  if (tracker_.where() == tracker::part::within) think(held_.size() - tracker_.matched(), out);
  return out;
}

void reasoning_splitter::take(tracker::part was, char byte, emission& out) {
  held_ += byte;
  const auto now = tracker_.where();
  if (was == tracker::part::within && now == tracker::part::behind) think(held_.size() - tracker::closing.size(), out);
  if (now == tracker::part::answer) out.text += held_;
  if (was != now || now == tracker::part::behind) {
    held_.clear();
    white_ = 0;
  }
}

/// Gives out the first `bytes` of what is held, but for white space around what is thought.
void reasoning_splitter::think(std::size_t bytes, emission& out) {
  const auto all = std::string_view(held_).substr(0, bytes);
  const auto known = std::min(white_, bytes); // an answer may be white space to its end: no byte is looked at twice
  const auto from = thought_ ? 0 : bytes - without_white_start(all).size();
  const auto said = end_without_white(all.substr(known));
  const auto to = said == 0 ? 0 : known + said;
  if (from < to) {
    out.reasoning += all.substr(from, to - from);
    thought_ = true;
  }
  held_.erase(0, thought_ ? to : from);
  white_ = thought_ ? bytes - to : 0;
}

reasoning_splitter::emission reasoning_splitter::finish() {
  emission out;
  if (tracker_.where() == tracker::part::before) out.text = std::exchange(held_, {});
  if (tracker_.where() == tracker::part::within) think(held_.size(), out);
  tracker_ = tracker();
  held_.clear();
  white_ = 0;
  return out;
}

void reasoning_counter::push(std::string_view token) {
  using part = reasoning_tracker::part;
  if (tracker_.over()) return;
  const auto bytes = [this] { return tracker_.thought() + tracker_.matched(); };
  const bool within = tracker_.where() == part::within;
  const auto begun = within ? bytes() : 0;
  tracker_.push(token);
  if (within || tracker_.thought() > 0 || (tracker_.where() == part::within && tracker_.matched() > 0))
    begun_at_.push_back(begun);
  tokens_ += static_cast<std::uint32_t>(std::erase_if(begun_at_, [&](auto at) { return at < tracker_.thought(); }));
  if (tracker_.over()) begun_at_.clear();
}

void reasoning_counter::finish() {
  tokens_ += static_cast<std::uint32_t>(begun_at_.size());
  begun_at_.clear();
}

} // namespace godwit::protocols::openai
