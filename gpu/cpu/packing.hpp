#pragma once

#include "cpu/kernels/table.hpp"
#include "model/narrow.hpp"
#include "model/widen.hpp"

#include <godwit/gpu/model/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace godwit::gpu::cpu {

[[nodiscard]] constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}
[[nodiscard]] constexpr std::size_t bytes_of(storage kind) noexcept {
  return kind == storage::f32 ? 4 : kind == storage::fp8 ? 1 : 2;
}
/// What queries are that meet K of this kind.
[[nodiscard]] constexpr storage queries_for(storage kv) noexcept { return kv == storage::fp8 ? storage::bf16 : kv; }
[[nodiscard]] constexpr storage storage_of(model::data_type type) noexcept {
  return type == model::data_type::bf16 ? storage::bf16 : type == model::data_type::f16 ? storage::f16 : storage::f32;
}
[[nodiscard]] constexpr model::data_type type_of(storage kind) noexcept {
  return kind == storage::bf16  ? model::data_type::bf16
         : kind == storage::f16 ? model::data_type::f16
                                : model::data_type::f32;
}
/// What activations that meet such weights are.
[[nodiscard]] constexpr storage activations_for(storage weights) noexcept {
  return weights == storage::bf16 ? storage::bf16 : storage::f32;
}

using model::narrow_to_bf16;
using model::narrow_to_f16;
using model::widen;
/// As weights of this kind are stored.
inline void narrow(storage kind, float value, std::byte* to) noexcept { model::narrow(type_of(kind), value, to); }

/// `count` values of a tensor as f32.
void widen_values(model::data_type type, const std::byte* from, float* to, std::size_t count) noexcept;

/// A row of a weight matrix as it lies in the file, not necessarily aligned; null: zeros.
struct source_row {
  const std::byte* data = nullptr;
  model::data_type type = model::data_type::bf16;
};

/// Packs 16 rows of a weight matrix [rows][depth] into one panel (layout: kernels/table.hpp). Zeros follow `depth` up
/// to its next multiple of 32. Rows are widened where `to` is f32, else they have its type: nothing is rounded.
void pack_panel(storage to, std::span<const source_row, lanes> rows, std::uint32_t depth, std::byte* out) noexcept;

/// One row of a packed matrix, widened: the embedding of a token when the output matrix is shared with it.
void unpack_row(storage kind, const std::byte* packed, std::uint32_t row, std::uint32_t depth, float* out) noexcept;

/// Where value k of a row lies in packed activations of `rows` rows; k and those behind it up to the next multiple of
/// 32 lie together.
[[nodiscard]] constexpr std::size_t packed_place(std::uint32_t row, std::uint32_t k, std::uint32_t rows,
                                                 std::uint32_t depth) noexcept {
  const std::uint32_t top = row / lanes * lanes, tall = rows - top < lanes ? rows - top : lanes;
  return std::size_t{top} * depth + (std::size_t{k / tile_depth} * tall + row % lanes) * tile_depth + k % tile_depth;
}

/// Up to 16 rows of packed activations of `rows` rows, wherever they are, as a tile of their own.
void gather_tile(storage kind, const std::byte* packed, std::uint32_t rows, std::uint32_t depth,
                 std::span<const std::uint32_t> wanted, std::byte* out) noexcept;

/// Row-major f32 [rows][depth] into packed activations; for tests and benchmarks, the kernels write theirs packed.
void pack_activations(storage kind, const float* from, std::uint32_t rows, std::uint32_t depth, void* out) noexcept;

} // namespace godwit::gpu::cpu
