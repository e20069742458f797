#pragma once

#include "cpu/step_plan.hpp"
#include "cuda/area.hpp"
#include "cuda/kernels.hpp"
#include "cuda/step_shape.hpp"

#include <cstdint>

namespace godwit::gpu::cuda {

/// How many entries the lists of a step's draws have, all rows together.
struct sampling_lists {
  std::uint64_t forbidden = 0, biases = 0, counts = 0, mask_words = 0;
};

/// Memory of a step: what it is told, what it works on, what comes of it. Grows to the largest step so far; versions
/// tell how often something moved that a graph has baked in.
///
/// Devices that share a model capture their graphs together, so their versions have to be the same: all take what the
/// largest part needs, and what only rank 0 has, who draws, is in no graph of theirs and does not count. Nothing is
/// given back while they work together (area.hpp), and what can be bounded is taken from the start.
class workspace {
public:
  /// With room for steps of so many tokens.
  workspace(driver& from, const device_model& model, bool deterministic, std::uint32_t step_tokens);

  /// Makes room for a step. Throws out_of_memory. Only while no step is under way.
  void reserve(const step_shape& shape, std::uint64_t table_entries, std::uint64_t moves, std::uint32_t logits_rows,
               std::uint32_t top_stride);
  /// Room for the lists of a step's draws, where tokens are drawn. Throws out_of_memory. Likewise.
  void reserve_lists(const sampling_lists& lists);
  /// Room for tables of so many blocks together.
  void reserve_table(std::uint64_t blocks);
  /// That activations, and logits, have room for, rounded up as products' are.
  [[nodiscard]] std::uint32_t rows_room() const noexcept { return rows_; }
  [[nodiscard]] std::uint32_t logits_rows_room() const noexcept { return logits_rows_; }
  /// Of all that the layers' launches name.
  [[nodiscard]] std::uint64_t layers_version() const noexcept;
  /// Of all that the launches for logits name, with those for draws where one graph has both.
  [[nodiscard]] std::uint64_t logits_version() const noexcept;

  /// Sections of `input`, in the order in which they are uploaded.
  enum input_section : std::size_t { tokens, positions, slots, single_slices, long_slices, block_table };
  enum draw_section : std::size_t { take, rows };
  enum list_section : std::size_t { forbidden, biases, counts, masks };
  enum result_section : std::size_t { sampled, top };
  area input, moves, draws, lists, results;

  // Activations; rows are rounded up, so that products may be of more rows than the step has.
  float* residual = nullptr; ///< [rows][hidden]
  void* normed = nullptr;    ///< [rows][hidden]
  void* qkv = nullptr;       ///< [rows][qkv columns], of `inner_type`
  void* queries = nullptr;   ///< [rows][heads * head size]
  void* attended = nullptr;  ///< [rows][heads * head size]
  // Of a mixture of experts an entry for each that a row chooses, in the place of a row:
  void* gate_up = nullptr; ///< [rows][2 * intermediate], of `inner_type`
  void* inner = nullptr;   ///< [rows][intermediate]
  float* added = nullptr;  ///< [rows][hidden]; null where products are added to the residual stream at once
  float* gathered =
      nullptr; ///< [devices][rows][hidden], in deterministic mode: each device's `added`; null: one device
  // Of a mixture of experts:
  float* router = nullptr;             ///< [rows][router rows]
  std::uint32_t* experts_of = nullptr; ///< [entries], as `route_job` has them
  float* weights_of = nullptr;
  std::uint32_t* entries = nullptr;
  std::uint32_t* rows_of = nullptr;
  expert_tile* tiles = nullptr;
  void* of_experts = nullptr;       ///< [entries][hidden], of `inner_type`
  void* last_normed = nullptr;      ///< [logits rows][hidden]
  float* part_logits = nullptr;     ///< [logits rows][head rows]; null: one device
  float* all_logits = nullptr;      ///< [devices][logits rows][head rows]; likewise
  float* logits = nullptr;          ///< [logits rows][logits stride]; null: another device draws
  void* sampling_scratch = nullptr; ///< of `sampling_rows` rows, or of fewer logits rows
  float* attention_scratch = nullptr;
  model::data_type inner_type; ///< of products that a kernel reads next
  std::uint32_t top_stride = 0;
  std::uint32_t sampling_rows; ///< that are drawn from side by side

private:
  void place();

  const device_model& model_;
  bool deterministic_;
  std::uint32_t rows_ = 0, logits_rows_ = 0;
  area activations_, logits_, attention_, drawn_;
};

/// Rows that a product is made of: few numbers, so that plans are few, and each is what the hardware likes.
[[nodiscard]] std::uint32_t product_rows(std::uint32_t rows) noexcept;

} // namespace godwit::gpu::cuda
