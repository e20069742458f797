#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace godwit::runtime::trace::analysis {

enum class difference : std::uint8_t {
  only_in_first,  ///< an event of the first recording has no counterpart in the second
  only_in_second, ///< and the reverse
  content         ///< counterparts differ in their content or attributes
};

struct divergence {
  difference what = difference::content;
  position first = nowhere;       ///< in the first recording
  position second = nowhere;      ///< in the second
  position first_cause = nowhere; ///< counterparts that made them; nowhere: both are roots
  position second_cause = nowhere;
  std::string detail; ///< what differs, for people: harmless
};

struct diff_options {
  bool content = true; ///< compare it where both have it
  std::size_t list_max = 10;
};

struct diff_result {
  std::size_t matched = 0;
  std::size_t differences = 0;         ///< of which effects of a divergence are not counted
  std::vector<divergence> divergences; ///< the earliest first, at most `list_max`
  [[nodiscard]] bool equal() const noexcept { return differences == 0; }
};

/// Where two runs part. Events are counterparts when their causes are, and they are, among all effects of their cause,
/// the n-th with the same receiver's name, type and kind. So neither ids nor times matter, nor what order unrelated
/// messages come in.
[[nodiscard]] diff_result diff(const index& first, const index& second, diff_options options = {});

} // namespace godwit::runtime::trace::analysis
