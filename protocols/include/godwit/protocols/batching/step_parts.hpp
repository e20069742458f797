#pragma once

#include <godwit/protocols/batching/step.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// Of a step, at most; and the most that wait between two stages, of all steps together.
inline constexpr std::uint32_t step_parts_max = 64;

/// Into how many parts a step of so many rows is best cut for devices that run them one behind the other.
///
/// With S stages and M parts of `rows` rows together a step takes M + S - 1 times what a part takes on a stage, which
/// is reading the stage's weights and computing the part's rows. `rows_of_weights` rows compute for as long as the
/// weights are read. That is least for M = sqrt((S - 1) * rows / rows_of_weights): steps of few rows, which are bound
/// by reading, stay whole, and long prompts fill the pipeline. (GPipe, section 2.3, counts the same bubble; Mooncake,
/// section 5.1, cuts prompts for it.)
[[nodiscard]] std::uint32_t step_parts_for(std::uint32_t rows, std::uint32_t stages, std::uint32_t rows_of_weights);

/// Cuts a step into at most `count` parts of about as many tokens, each a step of its own with the same number. Parts
/// run in their order, each stage one after the other, and mean what the whole would: a chunk of a prompt may be cut,
/// and then its last piece draws; what is drafted, scored or decoded stays together. Copies of blocks come with the
/// first part. `count` >= 1.
[[nodiscard]] std::vector<step_input> cut_step(step_input input, std::uint32_t count);

/// What the whole step has drawn, from what its parts have, in their order. Without a duration.
[[nodiscard]] step_output join_parts(std::vector<step_output> parts);

/// Which part may run on which stage, when. A stage runs one part at a time, in order; a part runs on one stage after
/// the other, and a stage that has got far ahead of the next one waits. Steps may follow each other into the pipeline,
/// as Orca has its batches (OSDI '22, section 4.2): the first stage begins the next one's parts while later stages have
/// this one's. They leave it in the order in which they came.
class stage_schedule {
public:
  /// At least 1.
  explicit stage_schedule(std::uint32_t stages);

  /// One more step of so many parts, at least 1, behind all others. Returns its first part's number; parts are numbered
  /// through.
  std::uint64_t add(std::uint32_t parts);

  struct turn {
    std::uint32_t stage = 0;
    std::uint64_t part = 0;
    friend bool operator==(const turn&, const turn&) = default;
  };
  /// What may begin now; each is told once.
  [[nodiscard]] std::vector<turn> begin();
  /// It has run, and took so long.
  void ended(turn what, std::int64_t duration_ns);
  /// All parts before this one have run on all stages.
  [[nodiscard]] std::uint64_t done() const noexcept { return stages_.back().next; }
  /// Forgets the oldest step, whose so many parts are done. Returns the time from its first turn's begin to its last
  /// one's end, if it began as soon as the first stage had ended what was before it; later, it has taken less.
  std::int64_t take(std::uint32_t parts);

private:
  struct stage_state {
    std::uint64_t next = 0; ///< part
    bool busy = false;
    std::int64_t free_at = 0;
  };
  struct part_state {
    std::uint32_t stage = 0; ///< its next
    std::int64_t begun_at = 0;
    std::int64_t there_at = 0; ///< at its next stage, or at the end
  };
  [[nodiscard]] part_state& state_of(std::uint64_t part) { return parts_[part - taken_]; }
  std::vector<stage_state> stages_;
  std::uint64_t taken_ = 0;      ///< parts
  std::deque<part_state> parts_; ///< those after them
};

} // namespace godwit::protocols
