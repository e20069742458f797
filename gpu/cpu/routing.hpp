#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace godwit::gpu::cpu {

/// Rows that are routed to one expert: `count` entries from `first` on.
struct expert_rows {
  std::uint32_t expert = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Of a layer that is a mixture of experts: which of them each row of a step goes to, and what they weigh. A row's part
/// is a function of what the router says of it, to the last bit, whatever rows are beside it.
class routing {
public:
  /// All the memory that a step needs. `rows` of it; of a plain MLP nothing.
  routing(const model::mixture_config& of, std::uint32_t rows);

  /// One row's experts: those with the highest logits, of equal ones the first. The weights are the softmax over all
  /// experts, those of the chosen normed to one where the model has it so. `logits`: as many as experts, in memory of
  /// `padded` ones, which are overwritten; `exponential`: of `padded` values. Rows may be done by several threads.
  void choose(std::uint32_t row, std::span<float> logits, std::uint32_t padded,
              void (*exponential)(const float*, float*, std::uint32_t));
  /// Once all rows have chosen.
  void group();

  /// Those that have rows, rising.
  [[nodiscard]] std::span<const expert_rows> experts() const noexcept { return {experts_.data(), used_}; }
  /// Rows, expert by expert, each expert's rising; and the weight of each.
  [[nodiscard]] std::span<const std::uint32_t> rows() const noexcept { return rows_; }
  [[nodiscard]] std::span<const float> weights() const noexcept { return weights_; }

private:
  struct choice {
    std::uint32_t expert = 0;
    float weight = 0;
  };
  model::mixture_config of_;
  std::vector<choice> chosen_; ///< [rows][of_.chosen], each row's rising
  std::vector<expert_rows> experts_;
  std::size_t used_ = 0;
  std::vector<std::uint32_t> first_; ///< of each expert, while they are grouped
  std::vector<std::uint32_t> rows_;
  std::vector<float> weights_;
};

} // namespace godwit::gpu::cpu
