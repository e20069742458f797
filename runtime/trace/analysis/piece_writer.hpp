#pragma once

#include <godwit/runtime/trace/analysis/exports.hpp>

#include <godwit/protocols/openai/json_text.hpp>

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace godwit::runtime::trace::analysis {

/// Writes JSON into a sink, in pieces of some size. Knows nothing of its grammar but strings and numbers.
class piece_writer {
public:
  explicit piece_writer(const sink& out) : out_(out) {}
  piece_writer(const piece_writer&) = delete;
  piece_writer& operator=(const piece_writer&) = delete;

  piece_writer& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  piece_writer& string(std::string_view text) {
    protocols::openai::append_json_string(text_, text);
    return *this;
  }
  template <class Number> piece_writer& number(Number n) {
    static_assert(std::is_integral_v<Number>);
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
    text_.append(digits.data(), end);
    return *this;
  }
  /// ns as us, exact.
  piece_writer& microseconds(std::int64_t ns) {
    if (ns < 0) {
      text_ += '-';
      ns = -ns;
    }
    number(ns / 1000);
    const auto rest = static_cast<int>(ns % 1000);
    if (rest == 0) return *this;
    text_ += '.';
    for (auto digit = 100; digit > 0; digit /= 10) text_ += static_cast<char>('0' + rest / digit % 10);
    return *this;
  }

  /// To be called between things, often. False: the sink has enough.
  bool pass_on() { return text_.size() < 64 * 1024 || flush(); }
  bool flush() {
    if (open_ && !text_.empty()) open_ = out_(text_);
    text_.clear();
    return open_;
  }

private:
  const sink& out_;
  std::string text_;
  bool open_ = true;
};

} // namespace godwit::runtime::trace::analysis
