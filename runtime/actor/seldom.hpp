#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace godwit::runtime::detail {

/// For what others can cause as often as they like: it is told once a second at most, with how often it was not told
/// before. Not for several threads.
class seldom {
public:
  /// What to add to the words; nullopt: they are left out.
  [[nodiscard]] std::optional<std::string> tell(std::chrono::nanoseconds now) {
    if (told_ && now - *told_ < every) {
      ++left_out_;
      return std::nullopt;
    }
    told_ = now;
    const auto before = std::exchange(left_out_, 0);
    return before == 0 ? std::string() : " (and " + std::to_string(before) + " others before it)";
  }

private:
  static constexpr std::chrono::seconds every{1};
  std::optional<std::chrono::nanoseconds> told_;
  std::uint64_t left_out_ = 0;
};

} // namespace godwit::runtime::detail
