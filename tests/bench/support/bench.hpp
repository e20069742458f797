#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// What the benchmarks share: interleaved repetitions, medians, one line per figure.
///
/// The machine drifts by a factor of two within minutes, so a figure is a ratio of things measured in turns in one run;
/// absolute numbers are for orientation.
namespace godwit::bench {

[[nodiscard]] double median(std::vector<double> values);

/// Medians of interleaved runs; the ratio is the median of the ratios of neighbours.
struct comparison {
  double ours = 0;
  double reference = 0;
  double ratio = 0;
};
/// Runs both `repetitions` times in turns (the order swaps every time), after one warm-up of each.
[[nodiscard]] comparison interleave(int repetitions, const std::function<double()>& ours,
                                    const std::function<double()>& reference);

struct figure {
  std::string name; ///< "actors/ask"
  double value = 0;
  std::string unit;
  std::optional<double> reference;
  std::optional<double> ratio; ///< ours / reference
  enum class direction { at_most, at_least };
  struct goal_type {
    direction way = direction::at_most;
    double bound = 0;
    double reached = 0; ///< what is held against the bound
  };
  std::optional<goal_type> goal;
  [[nodiscard]] bool ok() const;
};

/// For orientation: without a goal.
[[nodiscard]] figure told(std::string name, const comparison& c, std::string unit);
[[nodiscard]] figure compare(std::string name, const comparison& c, std::string unit, figure::direction way,
                             double bound);

/// The command line of every benchmark: --json, --repetitions N, NAME_PART (only figures whose name has it).
class session {
public:
  session(int argc, char** argv, int default_repetitions);
  [[nodiscard]] int repetitions() const noexcept { return repetitions_; }
  [[nodiscard]] bool wants(const std::string& name) const;
  /// Prints at once, as a JSON line or a row.
  void add(const figure& f);
  /// The exit code: 1 where a goal was missed.
  [[nodiscard]] int result() const noexcept { return missed_ ? 1 : 0; }

private:
  bool json_ = false;
  bool header_ = false;
  bool missed_ = false;
  int repetitions_;
  std::string filter_;
};

} // namespace godwit::bench
