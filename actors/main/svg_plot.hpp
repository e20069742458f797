#pragma once

#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// A chart of lines over numbers. Axes without a logarithm begin at 0, or below where there are such values.
struct svg_plot {
  struct line {
    std::string name; ///< in the legend; empty: not in it
    std::vector<std::pair<double, double>> points;
    bool steps = false; ///< a value holds until the next point
    bool marks = false; ///< a dot at each point
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<line> lines;
  bool log_x = false; ///< points at or below 0 are left out
  bool log_y = false;
  bool legend_below = false; ///< at the lower right, where rising lines leave room; else at the upper left
};

/// A file that stands alone. The same plot gives the same bytes.
[[nodiscard]] std::string to_svg(const svg_plot& plot);

} // namespace godwit::main
