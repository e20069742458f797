#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/model/config.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// One model on several devices, each with a part of every matrix (docs/design/tensor_parallel.md).
namespace godwit::gpu::tensor_parallel {

/// Which of how many.
struct place {
  std::uint32_t rank = 0;
  std::uint32_t degree = 1;
};

/// One line that says why a model cannot be divided so, and what would do. Empty: it can.
[[nodiscard]] std::string refuse_degree(const model::config& config, std::uint32_t degree);

/// A piece of a dimension.
struct range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const range&, const range&) = default;
};
/// What of `total` falls to a rank. Borders lie at multiples of `unit` where every rank gets one; the pieces follow
/// each other in the order of the ranks, and differ by one unit at most.
[[nodiscard]] range part_of(std::uint32_t total, std::uint32_t unit, place where) noexcept;

/// Units in which the MLP's columns and the vocabulary are divided: what kernels take at once.
inline constexpr std::uint32_t inner_unit = 32;
inline constexpr std::uint32_t vocabulary_unit = 16;

/// A rank's part of a model: rows of the projections that make something, columns of those that sum it up.
struct model_part {
  range queries;    ///< rows of Q, columns of the output projection
  range keys;       ///< rows of K and V
  range inner;      ///< rows of gate and up, columns of down
  range vocabulary; ///< rows of the head
};
/// The first rank's parts are the largest.
[[nodiscard]] model_part part_of(const model::config& whole, place where) noexcept;

/// The devices of one instance as one executor. `whole` is what it says of itself. Each of `ranks` has its heads' share
/// of every block under the same id; rank 0 draws the tokens.
///
/// Its steps run on all ranks at once; whoever has a thread of control for each device (actors::instance) runs them on
/// `shards()` instead. After a step that failed or was abandoned none can be begun.
[[nodiscard]] std::unique_ptr<executor> join_ranks(executor_info whole, std::vector<std::shared_ptr<executor>> ranks);

} // namespace godwit::gpu::tensor_parallel
