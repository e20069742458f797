#pragma once

#include "cpu/kernels/table.hpp"
#include "cpu/packed_model.hpp"

#include <cstdint>
#include <vector>

namespace godwit::gpu::cpu {

/// Rows of logits that are computed and drawn from at once; bounds their memory.
inline constexpr std::uint32_t logits_rows_max = 64;
/// Up to so many rows every thread norms all rows for itself, which is cheaper than waiting for the others.
inline constexpr std::uint32_t private_rows_max = 4;
/// Panels of a matrix that a thread takes at once: eight streams for the prefetchers.
inline constexpr std::uint32_t panels_per_piece = 8;

/// What one thread needs for itself.
struct thread_scratch {
  float* y = nullptr; ///< [gemm rows][panels_per_piece * 16]
  std::byte* gemm = nullptr;
  std::byte* decoded = nullptr; ///< of weights in codes only
  std::byte* rounded = nullptr; ///< up to private_rows_max rows of the deepest product, of such only as round them
  float* attention = nullptr;
  std::byte* normed = nullptr; ///< packed activations of up to private_rows_max rows
};

/// The same, for what adapters add.
struct adapter_scratch {
  float* y = nullptr;        ///< [16][panels_per_piece * 16]
  std::byte* tile = nullptr; ///< packed activations of 16 rows of the deepest product
  std::byte* gemm = nullptr; ///< of 16 rows
};

/// Memory of a step, grown to the largest step so far.
class activations {
public:
  activations(memory_pool& memory, const packed_model& model, storage kv, isa kind, std::uint32_t threads);

  /// Makes room for a step. Throws out_of_memory.
  void reserve(std::uint32_t rows, std::uint32_t logits_rows);

  /// Makes room for what adapters add to `rows` rows, each adapter's from a tile on; the deepest has `ranks`. Throws
  /// out_of_memory.
  void reserve_adapted(std::uint32_t rows, std::uint32_t ranks);

  /// Rows that one gemm call gets.
  [[nodiscard]] std::uint32_t gemm_rows() const noexcept { return gemm_rows_; }
  [[nodiscard]] thread_scratch of_thread(std::uint32_t index) const noexcept;
  [[nodiscard]] adapter_scratch adapter_of_thread(std::uint32_t index) const noexcept;

  float* residual = nullptr;     ///< [rows][width]
  float* qkv = nullptr;          ///< [rows][qkv_stride]
  std::byte* normed = nullptr;   ///< packed [rows][width]
  std::byte* queries = nullptr;  ///< for each kv head and slice packed [tokens * group][head width]
  std::byte* attended = nullptr; ///< packed [rows][attention width]
  std::byte* inner = nullptr;    ///< packed [rows][mlp width]; of experts [routed rows][mlp width], expert by expert
  std::byte* rounded = nullptr;  ///< those of the product under way, where codes want them so
  float* cosine = nullptr;       ///< [rows][half width]
  float* sine = nullptr;
  float* window_cosine = nullptr; ///< likewise, where layers with a window turn otherwise
  float* window_sine = nullptr;
  float* last = nullptr; ///< residuals of the rows whose logits are computed
  std::byte* last_normed = nullptr;
  float* logits = nullptr; ///< [logits_rows_max][logits_stride]
  // Of a mixture of experts only; a row is routed to as many as the router chooses:
  float* router = nullptr;       ///< [rows][router_stride]: what the router says of each expert
  std::byte* gathered = nullptr; ///< packed [routed rows][width], expert by expert
  std::uint32_t router_stride = 0;
  /// [rows][width]: this device's part of a sum, then the sum. Of a model that is divided among devices, or whose sums
  /// are normed, only.
  float* partial = nullptr;
  // Of a model that is divided among devices only:
  float* own_logits = nullptr; ///< [logits_rows_max][vocabulary width of a part]
  float* all_logits = nullptr; ///< those of each rank in turn
  // With adapters only:
  std::byte* lowered = nullptr;    ///< for each row that has one as many packed activations as its adapter's ranks
  std::uint32_t lowered_depth = 0; ///< room for so many of each row
  std::uint32_t qkv_stride = 0;
  std::uint32_t half_width = 0;
  std::uint32_t logits_stride = 0;

private:
  memory_pool& memory_;
  const packed_model& model_;
  storage kv_;
  std::uint32_t threads_;
  std::uint32_t gemm_rows_;
  std::uint32_t rows_ = 0;
  std::uint32_t logits_rows_ = 0;
  std::uint32_t adapted_rows_ = 0;
  bool tiles_ = false;
  std::uint32_t deepest_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::size_t y_bytes_ = 0, gemm_bytes_ = 0, attention_bytes_ = 0, normed_bytes_ = 0, rounded_bytes_ = 0;
  allocation step_memory_;
  allocation logits_memory_;
  allocation scratch_memory_;
  std::size_t adapter_tile_bytes_ = 0, adapter_scratch_bytes_ = 0;
  allocation adapter_memory_;
};

} // namespace godwit::gpu::cpu
