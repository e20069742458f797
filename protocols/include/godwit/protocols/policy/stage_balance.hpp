#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace godwit::protocols {

struct stage_balance_settings {
  /// Layers move where the slowest stage would take less time by this share; 0: never.
  double gain_min = 0.1;
  /// What is averaged, and the least time between two moves.
  std::int64_t window_ns = 5'000'000'000;
};

/// Other numbers of layers for the stages, and what they are expected to bring.
struct layer_move {
  std::vector<std::uint32_t> layers; ///< of each stage
  std::int64_t slowest_ns = 0;       ///< what a part of a step takes on the slowest stage now, in the mean
  std::int64_t expected_ns = 0;      ///< and then
};

/// Problem: one model's layers lie on several devices that are not equally fast, or not equally free, and not always
/// equally; a pipeline is as fast as its slowest stage. Which layers should move?
///
/// BanaServe's migration of layers (algorithm 4-1, spec banaserve.md) for a chain of devices. All parts of all steps
/// run on every stage, so the mean time of a part on each is the load there (memory follows the layers), and a layer
/// takes a stage its time divided by its layers. As there, layers go from where the load is high to where it is low
/// until no further one brings anything: with any number of layers the stage that would be the least loaded gets the
/// next one, which gives the lowest load of the most loaded stage. Since layers are alike and stages in a chain, all
/// borders between the two shift. Moves begin where that gains `gain_min` and end where it gains less than half of
/// that. Where a move takes back what the one before did, the next one waits for twice as many windows, up to
/// `waits_max`, and goes by their mean; for half as many again after a while without moves.
///
/// What a stage does beside its layers, as the last one's logits, counts as its layers': it gets too few of them by one
/// move, and the others' next ones see what they brought.
class stage_balance {
public:
  /// `layers`: of each stage now, at least one.
  stage_balance(std::vector<std::uint32_t> layers, stage_balance_settings settings);

  /// A part of a step has run there, and took so long.
  void ran(std::size_t stage, std::int64_t duration_ns);
  /// After each step; times never go back.
  [[nodiscard]] std::optional<layer_move> review(std::int64_t now_ns);
  /// They have moved.
  void moved(std::vector<std::uint32_t> layers, std::int64_t now_ns);
  [[nodiscard]] const std::vector<std::uint32_t>& layers() const noexcept { return layers_; }

  /// Of each stage, before anything is said of them.
  static constexpr std::uint64_t parts_min = 32;
  static constexpr std::uint32_t waits_max = 16;
  /// Without a move, before the wait is halved.
  static constexpr std::uint32_t calm_reviews = 4;

private:
  struct measured {
    std::int64_t busy_ns = 0;
    std::uint64_t parts = 0;
  };
  void begin_window(std::int64_t now_ns);
  /// The best numbers where a layer takes so long on each stage.
  [[nodiscard]] std::vector<std::uint32_t> best_for(const std::vector<double>& layer_ns) const;

  stage_balance_settings settings_;
  std::vector<std::uint32_t> layers_;
  std::vector<std::int64_t> last_change_; ///< of each stage, by the last move
  std::vector<measured> window_;
  std::optional<std::int64_t> since_; ///< when the window began
  std::uint32_t waits_ = 1;           ///< windows before anything is decided
  std::uint32_t calm_ = 0;            ///< reviews since the last move
  bool settled_ = true;               ///< the last review found nothing to move
};

} // namespace godwit::protocols
