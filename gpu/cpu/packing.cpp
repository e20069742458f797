#include "cpu/packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace godwit::gpu::cpu {

namespace {

using model::data_type;

std::uint16_t load16(const std::byte* p) noexcept {
  std::uint16_t value = 0;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Position of (column, odd) in a pair's 32 values.
std::size_t unit_offset(storage kind, std::uint32_t column, std::uint32_t odd) noexcept {
  return kind == storage::bf16 ? column * 2 + odd : odd * lanes + column;
}

std::size_t packed_offset(storage kind, std::uint32_t row, std::uint32_t k, std::uint32_t depth) noexcept {
  const std::size_t panel = std::size_t{row / lanes} * round_up(depth, tile_depth) * lanes;
  return panel + std::size_t{k / 2} * 32 + unit_offset(kind, row % lanes, k % 2);
}

/// bf16 stays bf16: pairs move as 32-bit words, 16 of each row at a time, or each row's line would be fetched for every
/// pair.
void pack_bf16_panel(std::span<const source_row, lanes> rows, std::uint32_t depth, std::byte* out) noexcept {
  constexpr std::uint32_t pairs = tile_depth / 2;
  for (std::uint32_t k = 0; k < depth; k += tile_depth, out += std::size_t{pairs} * lanes * 4) {
    const std::size_t bytes = std::size_t{std::min(tile_depth, depth - k)} * 2;
    std::array<std::array<std::uint32_t, pairs>, lanes> read{};
    for (std::uint32_t c = 0; c < lanes; ++c)
      if (rows[c].data != nullptr) std::memcpy(read[c].data(), rows[c].data + std::size_t{k} * 2, bytes);
    std::array<std::array<std::uint32_t, lanes>, pairs> turned;
    for (std::uint32_t pair = 0; pair < pairs; ++pair)
      for (std::uint32_t c = 0; c < lanes; ++c) turned[pair][c] = read[c][pair];
    std::memcpy(out, turned.data(), sizeof turned);
  }
}

} // namespace

void widen_values(data_type type, const std::byte* from, float* to, std::size_t count) noexcept {
  if (type == data_type::f32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(type, from + i * 2);
}

void pack_panel(storage to, std::span<const source_row, lanes> rows, std::uint32_t depth, std::byte* out) noexcept {
  if (to == storage::bf16) return pack_bf16_panel(rows, depth, out);
  for (std::uint32_t k = 0; k < round_up(depth, tile_depth); ++k)
    for (std::uint32_t c = 0; c < lanes; ++c) {
      const auto [data, type] = rows[c];
      const std::size_t size = type == data_type::f32 ? 4 : 2;
      const std::byte* from = data != nullptr && k < depth ? data + k * size : nullptr;
      const std::size_t at = std::size_t{k / 2} * 32 + unit_offset(to, c, k % 2);
      if (to == storage::f16) {
        const std::uint16_t half = from != nullptr ? load16(from) : std::uint16_t{0};
        std::memcpy(out + at * 2, &half, sizeof half);
      } else {
        const float value = from != nullptr ? widen(type, from) : 0.0F;
        std::memcpy(out + at * 4, &value, sizeof value);
      }
    }
}

void unpack_row(storage kind, const std::byte* packed, std::uint32_t row, std::uint32_t depth, float* out) noexcept {
  const data_type type = type_of(kind);
  for (std::uint32_t k = 0; k < depth; ++k)
    out[k] = widen(type, packed + packed_offset(kind, row, k, depth) * bytes_of(kind));
}

void gather_tile(storage kind, const std::byte* packed, std::uint32_t rows, std::uint32_t depth,
                 std::span<const std::uint32_t> wanted, std::byte* out) noexcept {
  const std::size_t value = bytes_of(kind), unit = tile_depth * value;
  const auto tall = static_cast<std::uint32_t>(wanted.size());
  for (std::uint32_t i = 0; i < tall; ++i)
    for (std::uint32_t k = 0; k < depth; k += tile_depth)
      std::memcpy(out + packed_place(i, k, tall, depth) * value,
                  packed + packed_place(wanted[i], k, rows, depth) * value, unit);
}

void pack_activations(storage kind, const float* from, std::uint32_t rows, std::uint32_t depth, void* out) noexcept {
  const std::uint32_t width = round_up(depth, tile_depth);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t k = 0; k < width; ++k) {
      const float value = k < depth ? from[std::size_t{row} * depth + k] : 0.0F;
      const std::size_t at = packed_place(row, k, rows, width);
      if (kind == storage::bf16)
        static_cast<std::uint16_t*>(out)[at] = narrow_to_bf16(value);
      else
        static_cast<float*>(out)[at] = value;
    }
  }
}

} // namespace godwit::gpu::cpu
