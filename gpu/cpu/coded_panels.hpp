#pragma once

#include "cpu/kernels/table.hpp"
#include "cpu/matrix_source.hpp"
#include "model/coded_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Matrices of files that are quantized, packed: in the codes that they have where the kernels can read those, else as
/// what they mean.
namespace godwit::gpu::cpu {

/// In which codes a matrix can be kept: those of all its parts, where 32 columns always have one scale, or 16 of those
/// that the kernels know so. none: as what it means.
[[nodiscard]] coding coding_of(const matrix_source& source);

/// A row of a matrix in codes, from one of its columns on; null: zeros.
struct coded_row {
  const model::coded_matrix* of = nullptr;
  std::uint64_t row = 0, first_column = 0;
};
[[nodiscard]] coded_row coded_row_of(const matrix_source& source, std::uint64_t column);

/// Packs 16 rows into one panel of codes (layout: kernels/table.hpp). Nothing follows `depth` up to its next multiple
/// of 32.
void pack_coded_panel(coding code, std::span<const coded_row, lanes> rows, std::uint32_t depth, std::byte* out);

/// What a row of packed codes means, as weights of this kind: bf16, or f32.
void unpack_coded_row(coding code, storage kind, const std::byte* packed, std::uint32_t row, std::uint32_t depth,
                      float* out) noexcept;

/// What some columns of a row mean, as weights of this kind.
void decode_row(const coded_row& from, storage kind, std::uint32_t depth, std::vector<float>& room, std::byte* to);

} // namespace godwit::gpu::cpu
