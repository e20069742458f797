#pragma once

#include <godwit/protocols/expected.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Execution priorities: a request of such a level has headroom on its instance, memory that is kept free of others, so
/// that it decodes as fast as if it were alone (Llumnix section 4.4.2).
namespace godwit::protocols {

struct execution_level {
  std::string name;
  /// Blocks kept free on an instance that runs a request of this level, whatever their number. Empty: found by
  /// profiling the instance.
  std::optional<std::uint32_t> headroom;
  friend bool operator==(const execution_level&, const execution_level&) = default;
};

/// "normal=0,high=auto": names with blocks or `auto`, in order; the first is what requests get that name none. One line
/// of error otherwise.
[[nodiscard]] expected<std::vector<execution_level>, std::string> parse_execution_levels(std::string_view text);

/// GetHeadroom summed over an instance's requests: for each level with running requests its headroom, once.
/// `running[i]` counts those of level i; levels beyond the last count as the last. `profiled` stands for `auto`.
[[nodiscard]] std::uint64_t headroom_of(const std::vector<execution_level>& levels,
                                        const std::vector<std::uint32_t>& running, std::uint32_t profiled) noexcept;

/// One measurement of a profile: decode steps of a batch that holds so many blocks.
struct profile_point {
  std::uint32_t sequences = 0;
  std::uint32_t blocks_each = 0;
  [[nodiscard]] std::uint32_t blocks() const noexcept { return sequences * blocks_each; }
};

/// Finds the largest load at which a decode step takes at most (1 + tolerance) of its unloaded time.
///
/// Drive it: `next` gives a batch to run, `took` its time (the median of several steps is the caller's business), until
/// `next` is empty. Batches are of equal sequences, as long as those of a full batch that fills the pool are on
/// average; unloaded means one of them. Their number doubles, then the gap is halved; so there are at most
/// 2 log2(sequences_max) + 2 points. Ended early, it knows the largest load that was found harmless by then.
class headroom_profile {
public:
  headroom_profile(std::uint32_t blocks_total, std::uint32_t sequences_max, std::uint32_t sequence_blocks_max,
                   double tolerance = 0.05);
  [[nodiscard]] std::optional<profile_point> next() const;
  void took(std::int64_t step_ns);
  /// Blocks that a batch may hold without harm: the largest load measured within the tolerance. All, where the largest
  /// batch is.
  [[nodiscard]] std::uint32_t harmless() const noexcept;
  /// M minus that; 0 where nothing was measured.
  [[nodiscard]] std::uint32_t headroom() const noexcept { return good_ == 0 ? 0 : total_ - harmless(); }

private:
  [[nodiscard]] profile_point point(std::uint32_t sequences) const noexcept { return {sequences, each_}; }

  std::uint32_t total_ = 0;
  std::uint32_t sequences_max_ = 0;
  std::uint32_t each_ = 1; ///< blocks of a sequence
  double tolerance_ = 0;
  std::int64_t unloaded_ns_ = 0;
  std::uint32_t good_ = 0; ///< sequences
  std::optional<std::uint32_t> bad_;
};

} // namespace godwit::protocols
