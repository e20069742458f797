#include <godwit/runtime/log/string_backend.hpp>

namespace godwit::runtime::log {

string_backend::string_backend(clock time, format style, std::size_t bytes_max)
    : clock_(std::move(time)), style_(style), bytes_max_(bytes_max) {}

std::chrono::nanoseconds string_backend::now() { return clock_ ? clock_() : std::chrono::nanoseconds(0); }

void string_backend::write(const record& r) {
  const auto line = to_line(r, style_);
  const auto lock = std::lock_guard(mutex_);
  if (text_.size() + line.size() + 1 > bytes_max_) {
    ++dropped_;
    return;
  }
  text_.append(line).push_back('\n');
}

std::uint64_t string_backend::dropped() const {
  const auto lock = std::lock_guard(mutex_);
  return dropped_;
}

std::string string_backend::text() const {
  const auto lock = std::lock_guard(mutex_);
  return text_;
}

} // namespace godwit::runtime::log
