#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace godwit::protocols {

/// How often the drafts of one request are right, by its last ones; hopeful where little is known, and again where none
/// has been tried for long.
class draft_record {
public:
  /// Of so many drafts the first `right` ones were.
  void took(std::uint32_t right, std::uint32_t drafted) noexcept;
  /// A step without drafts.
  void rested() noexcept;
  /// That the next one is right, given that those before it are; above 0 and below 1.
  [[nodiscard]] double chance() const noexcept;

private:
  double right_ = 0, wrong_ = 0; ///< the older, the less they count
};

/// How many tokens a draft model had better guess for each request of a step: so many that the tokens that are expected
/// of the step are most for the time that it takes.
///
/// Each guess is a pass of the draft model for the whole batch, one after the other, and one more that computes the
/// last guess; then the model checks all, a row for each. With k guesses that are right with probability a each, a
/// request gets 1 + a + ... + a^k tokens (Leviathan et al. 2023). What passes and rows take is measured, since it
/// depends on device, models and load: a row costs a GPU that waits for its memory next to nothing, and a CPU a good
/// deal.
class draft_meter {
public:
  /// A step of decodes alone, with so many drafts besides: what its `passes` of the draft model took, and then the
  /// model.
  void took(std::uint32_t passes, std::int64_t drafting_ns, std::uint32_t decodes, std::uint32_t drafts,
            std::int64_t step_ns) noexcept;
  /// For each of these chances, at most `most`, in a step with so many decodes. Before anything is known of rows, four
  /// for the first one, to find out; and of eight steps one has half of what is best, since what a row takes is the
  /// difference between steps. All together no more than twice as many as there have been lately: what they take is
  /// not known so far out.
  [[nodiscard]] std::vector<std::uint32_t> depths(std::span<const double> chances, std::uint32_t decodes,
                                                  std::uint32_t most);

private:
  struct prices {                       ///< in time
    double none = 0, row = 0, pass = 0; ///< of a step without drafts; of each draft; of each pass for one
  };
  struct choice {
    std::vector<std::uint32_t> depths;
    double tokens = 0; ///< that the drafts are expected to bring
    double time = 0;
  };
  void learn_row() noexcept;
  void bound(std::vector<std::uint32_t>& depths) const noexcept;
  [[nodiscard]] static choice worth_at(double rate, std::span<const double> chances, std::uint32_t most,
                                       const prices& cost);
  // Of the last steps, the older ones counting less:
  double weight_ = 0, pass_ns_ = 0, rows_ = 0, rows2_ = 0, step_ns_ = 0, rows_step_ns_ = 0;
  std::optional<double> row_ns_; ///< as it was when the number of rows last varied
  double drafts_ = 0;            ///< most in a step, lately
  std::uint64_t asked_ = 0;      ///< times
};

} // namespace godwit::protocols
