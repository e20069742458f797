#pragma once

#include "cuda/kernels.hpp"

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <vector>

namespace godwit::gpu::cuda {

/// What sampling kernels read of a step's slices: a row for each row of logits, with its lists in arrays of all rows.
struct sampling_input {
  std::vector<sampling_row> rows;
  std::vector<std::uint32_t> masks;
  std::vector<std::uint32_t> forbidden;
  std::vector<bias_entry> biases;
  std::vector<token_count> counts;

  void clear();
  /// A row that neither draws nor scores; `draw` and `score` then say more of the last row added.
  void add(std::uint32_t logits_row);
  /// The slice's token is drawn from it. `allowed`: what a schema leaves, null: everything. Ids outside the vocabulary
  /// are left out, as model::sampler leaves them.
  void draw(const protocols::step_slice& slice, std::uint32_t vocabulary, const model::token_mask* allowed);
  /// The log-probability of a token that is there already, with the `top` most probable ones.
  void score(protocols::token_id token, std::int32_t top);

private:
  void count_tokens(const protocols::step_slice& slice, std::uint32_t vocabulary);
  std::vector<std::uint32_t> times_; ///< by token; zero between slices
};

} // namespace godwit::gpu::cuda
