#pragma once

#include "cpu/step_plan.hpp"
#include "cuda/device_model.hpp"
#include "cuda/kernels.hpp"

#include <cstdint>
#include <tuple>

namespace godwit::gpu::cuda {

/// Logits that are computed and drawn from at once; bounds their memory.
inline constexpr std::uint32_t logits_rows_max = 256;

/// All that the launches of a step depend on, besides what lies in device memory. Two steps of equal shapes launch the
/// same kernels with the same arguments: one graph serves both.
struct step_shape {
  std::uint32_t rows = 0;          ///< of tokens, padding included
  std::uint32_t single_slices = 0; ///< of one row, padding included
  std::uint32_t long_slices = 0;   ///< of more rows
  std::uint32_t long_rows_max = 0;
  std::uint32_t single_positions_max = 0; ///< rounded up
  std::uint32_t long_positions_max = 0;
  attention_split split; ///< of the single slices
  bool decodes_only = false;

  friend bool operator<(const step_shape& a, const step_shape& b) noexcept {
    return std::tie(a.rows, a.single_positions_max) < std::tie(b.rows, b.single_positions_max);
  }
};

/// Rows of a batch that decodes, rounded up: 1, 2, 4, 8, 16, 32, then multiples of 32.
[[nodiscard]] std::uint32_t bucket_of(std::uint32_t rows) noexcept;

/// Positions of one part of a row's attention in deterministic mode: a function of the model's length alone.
[[nodiscard]] std::uint32_t fixed_part_tokens(std::uint32_t positions_max) noexcept;

/// How the positions of rows that decode are shared among blocks of threads: so that every multiprocessor has as many
/// as it holds at once, no block waits for another one's end, and none of the parts is too small to be worth it.
struct decode_shape {
  std::uint32_t slices = 1, positions_max = 1, heads = 1, kv_heads = 1;
  std::uint32_t places = 1;       ///< blocks of threads that the device holds at once: decode_places
  std::uint32_t fixed_tokens = 0; ///< of a part, in deterministic mode; 0: as it suits
};
[[nodiscard]] attention_split decode_split(const decode_shape& shape) noexcept;
/// Of heads of this size, on such a device.
[[nodiscard]] std::uint32_t decode_places(const device_properties& device, std::uint32_t head_size);
/// Parts of all rows together, at most, of any batch outside of the deterministic mode that is divided at all.
[[nodiscard]] std::uint32_t decode_parts_max(const decode_shape& shape) noexcept;

/// `decodes_only` steps are padded to their bucket.
[[nodiscard]] step_shape shape_of(const cpu::step_plan& plan, const device_model& model, bool deterministic);

/// Of a step that does nothing: a row of padding with a slice of each kind, divided as one that sees `positions`.
[[nodiscard]] step_shape shape_of_padding(const device_model& model, std::uint32_t positions, bool deterministic);

/// Of steps of up to `tokens`, to take memory for; of decodes of up to 64 requests.
[[nodiscard]] step_shape largest_shape(const device_model& model, std::uint32_t tokens, bool deterministic);

} // namespace godwit::gpu::cuda
