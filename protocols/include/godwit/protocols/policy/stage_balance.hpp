#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace godwit::protocols {

struct stage_balance_settings {
  /// Layers move where the slowest stage would take less time by this share; 0: never.
  double gain_min = 0.1;
  /// For so long the slowest stage has computed before anything is decided, and between two moves.
  std::int64_t window_ns = 5'000'000'000;
};

/// Other numbers of layers for the stages, and what they are expected to bring.
struct layer_move {
  std::vector<std::uint32_t> layers; ///< of each stage
  std::int64_t slowest_ns = 0;       ///< what a step takes the slowest stage now, in the mean
  std::int64_t expected_ns = 0;      ///< and then
};

/// Problem: one model's layers lie on several devices that are not equally fast, or not equally free, and not always
/// equally; a pipeline is as fast as its slowest stage. Which layers should move?
///
/// BanaServe's migration of layers (algorithm 4-1, spec banaserve.md) for a chain of devices. Every step runs on every
/// stage, so the time that the same steps take each is the load there (memory follows the layers). As there, layers go
/// from where the load is high to where it is low until no further one brings anything: with any number of layers the
/// stage that would be the least loaded gets the next one, which gives the lowest load of the most loaded stage. Since
/// layers are alike and stages in a chain, all borders between the two shift. Moves begin where that gains `gain_min`
/// and end where it gains less than half of that. Where a move takes back what the one before did, the next one waits
/// for twice as many windows, up to `waits_max`, and goes by their mean; for half as many again after a while without
/// moves.
class stage_balance {
public:
  /// `layers`: of each stage now, at least one. `beside`: what each does for a row whose logits are computed, in layers
  /// for a row (pipeline::layer_division); as many.
  stage_balance(std::vector<std::uint32_t> layers, std::vector<double> beside, stage_balance_settings settings);

  /// A step of so many rows, of some of which logits were computed (`drawn`), has run on all stages; how long on each,
  /// one number a stage.
  void ran(std::span<const std::int64_t> busy_ns, std::uint64_t rows, std::uint64_t drawn);
  /// After each step.
  [[nodiscard]] std::optional<layer_move> review();
  /// They have moved.
  void moved(std::vector<std::uint32_t> layers);
  [[nodiscard]] const std::vector<std::uint32_t>& layers() const noexcept { return layers_; }

  /// Before anything is decided.
  static constexpr std::uint64_t steps_min = 32;
  static constexpr std::uint32_t waits_max = 16;
  /// Without a move, before the wait is halved.
  static constexpr std::uint32_t calm_reviews = 4;

private:
  /// What a stage does with so many layers, in layers and rows.
  [[nodiscard]] double work(std::size_t stage, std::uint32_t layers) const noexcept;
  void begin_window();
  /// The best numbers where so much work takes each stage so long.
  [[nodiscard]] std::vector<std::uint32_t> best_for(const std::vector<double>& work_ns) const;

  stage_balance_settings settings_;
  std::vector<std::uint32_t> layers_;
  std::vector<double> beside_;
  std::vector<std::int64_t> last_change_; ///< of each stage, by the last move
  // Since the window began:
  std::vector<std::int64_t> busy_ns_;
  std::uint64_t steps_ = 0, rows_ = 0, drawn_ = 0;
  std::uint32_t waits_ = 1; ///< windows before anything is decided
  std::uint32_t calm_ = 0;  ///< reviews since the last move
  bool settled_ = true;     ///< the last review found nothing to move
};

} // namespace godwit::protocols
