#pragma once

#include "cpu/packed_adapter.hpp"
#include "cpu/packed_model.hpp"

#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace godwit::gpu::cpu {

/// A slice with its place among the step's rows. One row is one token.
struct planned_slice {
  const protocols::step_slice* slice = nullptr;
  std::vector<std::uint32_t> blocks;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
};

/// The tokens of one slice that fall into one KV block; written by one thread.
struct block_piece {
  std::uint32_t slice = 0;
  std::uint32_t first_token = 0; ///< within the slice
  std::uint32_t tokens = 0;
};

/// Query rows of one slice that one thread takes, for one kv head.
struct query_piece {
  std::uint32_t slice = 0;
  std::uint32_t first_query_row = 0; ///< token * group + head within group
  std::uint32_t rows = 0;
};

/// A row whose logits are computed.
struct logits_place {
  std::uint32_t row = 0;
  std::uint32_t slice = 0;
  bool samples = false;
  std::uint32_t draw = 0;          ///< which of the slice's, where it samples
  std::uint32_t scored = no_score; ///< which of the step's scored tokens follows this row
  static constexpr std::uint32_t no_score = ~0U;
};

/// The rows that one adapter changes: computed together, wherever in the step they are.
struct adapter_rows {
  std::shared_ptr<const adapter_parts> adapter;
  std::vector<std::uint32_t> rows; ///< rising
  std::uint32_t first = 0;         ///< of as many rows of all adapters, each from a tile on
};

/// What a step's phases loop over.
struct step_plan {
  protocols::step_input input;
  std::vector<planned_slice> slices;
  std::vector<block_piece> pieces;
  std::vector<query_piece> query_pieces;
  std::vector<logits_place> logits;
  std::vector<adapter_rows> adapted;
  std::uint32_t rows = 0;
  std::uint32_t sampled = 0;
  std::uint32_t scored = 0; ///< tokens whose log-probabilities are wanted, over all slices
  /// Every slice is one token: a head's KV can be written and attended to in one go.
  bool decodes_only = true;
};

/// Checks the input and plans it. Throws std::invalid_argument on a caller's bug.
/// `logits_of_all_rows`: for tools that compare logits. `adapter_of`: null where there is none of that id.
[[nodiscard]] step_plan
plan_step(protocols::step_input input, const model::config& config, std::uint32_t blocks, bool logits_of_all_rows,
          const std::function<std::shared_ptr<const adapter_parts>(std::uint64_t)>& adapter_of = {});

} // namespace godwit::gpu::cpu
