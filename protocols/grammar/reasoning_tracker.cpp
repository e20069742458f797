#include <godwit/protocols/grammar/reasoning_tracker.hpp>

namespace godwit::protocols::grammar {

reasoning_tracker::reasoning_tracker(reasoning_start start) noexcept
    : where_(start == reasoning_start::off      ? part::answer
             : start == reasoning_start::answer ? part::before
                                                : part::within) {}

void reasoning_tracker::push(std::string_view bytes) noexcept {
  for (const char byte : bytes) {
    if (where_ == part::answer) return;
    push(byte);
  }
}

void reasoning_tracker::push(char byte) noexcept {
  const bool is_white = white.find(byte) != white.npos;
  switch (where_) {
  case part::before:
    if (matched_ == 0 && is_white) return;
    if (byte != opening[matched_]) {
      where_ = part::answer;
      matched_ = 0;
    } else if (++matched_ == opening.size()) {
      where_ = part::within;
      matched_ = 0;
    }
    return;
  case part::within:
    if (byte == closing[matched_]) {
      if (++matched_ == closing.size()) {
        where_ = part::behind;
        matched_ = 0;
      }
      return;
    }
    // Nothing but its first byte begins the marker anew.
    thought_ += matched_;
    matched_ = byte == closing.front() ? 1 : 0;
    thought_ += 1 - matched_;
    return;
  case part::behind:
    if (!is_white) where_ = part::answer;
    return;
  case part::answer:
    return;
  }
}

} // namespace godwit::protocols::grammar
