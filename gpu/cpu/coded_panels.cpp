#include "cpu/coded_panels.hpp"

#include "cpu/packing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace godwit::gpu::cpu {

namespace {

/// Of a tile whose halves have their own scales.
constexpr std::uint32_t half_depth = tile_depth / 2;

coding coding_of(const tensor_rows& part) {
  if (part.tensor->coded == nullptr) return coding::none;
  const auto& is = part.tensor->coded->dimensions();
  const bool by_tiles = is.group >= is.columns || (is.group != 0 && is.group % tile_depth == 0);
  const bool by_halves = !by_tiles && is.group != 0 && is.group % half_depth == 0;
  if ((!by_tiles && !by_halves) || part.first_column % tile_depth != 0) return coding::none;
  const bool four = is.kind == model::coding::int4;
  if (is.kind == model::coding::fp4)
    return !by_tiles || is.zeros || is.offsets ? coding::none : is.by_sums_of_codes ? coding::dot_fp4 : coding::fp4;
  if (is.by_sums_of_codes) {
    if (is.kind == model::coding::e4m3 || (by_halves && is.offsets != four)) return coding::none;
    if (four && !is.offsets) return by_tiles && is.zeros ? coding::dot4 : coding::none;
    if (four) return by_tiles ? coding::dot4_offset : coding::dot4_offset_halves;
    return by_halves ? coding::dot8_halves : is.offsets ? coding::dot8_offset : coding::dot8;
  }
  if (by_halves || is.offsets) return coding::none;
  if (four) return coding::int4;
  if (is.kind == model::coding::e4m3) return coding::e4m3;
  return is.zeros ? coding::none : coding::int8;
}

/// One column of a tile: its units and its codes.
struct column_of_tile {
  std::array<model::coded_matrix::unit, 2> units;
  std::array<std::uint8_t, tile_depth> codes{};
};

column_of_tile read_column(const coded_layout& is, const coded_row& row, std::uint32_t k, std::uint32_t depth) {
  column_of_tile out;
  if (row.of == nullptr) return out;
  const auto there = std::min(tile_depth, depth - k);
  for (std::uint32_t i = 0; i < is.units && i * half_depth < there; ++i)
    out.units[i] = row.of->unit_of(row.row, row.first_column + k + i * half_depth);
  if (is.zeros) out.codes.fill(static_cast<std::uint8_t>(std::clamp(out.units[0].zero, 0, 15)));
  row.of->codes(row.row, row.first_column + k, std::span(out.codes).first(there));
  return out;
}

/// Where the code of column `c` for the k-th k of a tile lies, behind `codes_at`.
quad_place place_of(coding code, std::uint32_t c, std::uint32_t k) {
  const auto is = layout_of(code);
  if (rounds_activations(code)) return place_in_quads(is.four_bits, c, k);
  const auto pair = std::size_t{k / 2} * is.pair_bytes();
  if (is.four_bits) return {pair + c, k % 2 * 4};
  return {pair + k % 2 * lanes + c, 0};
}

float float_at(const std::byte* at) {
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

} // namespace

coding coding_of(const matrix_source& source) {
  const auto first = coding_of(source.parts.front());
  const bool same = std::ranges::all_of(source.parts, [&](const auto& part) { return coding_of(part) == first; });
  return same ? first : coding::none;
}

coded_row coded_row_of(const matrix_source& source, std::uint64_t column) {
  const auto [part, row] = source.locate(column);
  if (part >= source.parts.size() || row >= source.parts[part].count) return {};
  const auto& from = source.parts[part];
  return {from.tensor->coded, from.first + row, from.first_column};
}

void pack_coded_panel(coding code, std::span<const coded_row, lanes> rows, std::uint32_t depth, std::byte* out) {
  const auto is = layout_of(code);
  for (std::uint32_t k = 0; k < depth; k += tile_depth, out += is.bytes()) {
    auto* const codes = out + is.codes_at();
    std::memset(codes, 0, is.bytes() - is.codes_at());
    for (std::uint32_t c = 0; c < lanes; ++c) {
      const auto column = read_column(is, rows[c], k, depth);
      for (std::size_t unit = 0; unit < is.units; ++unit) {
        const auto place = (unit * lanes + c) * sizeof(float);
        std::memcpy(out + place, &column.units[unit].scale, sizeof(float));
        if (is.offsets) std::memcpy(out + is.offsets_at() + place, &column.units[unit].offset, sizeof(float));
      }
      if (is.zeros) out[is.zeros_at() + c] = static_cast<std::byte>(column.units[0].zero);
      for (std::uint32_t i = 0; i < tile_depth; ++i) {
        const auto [byte, bit] = place_of(code, c, i);
        const auto lies = rounds_activations(code) && !is.four_bits ? column.codes[i] ^ 0x80U : column.codes[i];
        codes[byte] |= static_cast<std::byte>(lies << bit);
      }
    }
  }
}

void unpack_coded_row(coding code, storage kind, const std::byte* packed, std::uint32_t row, std::uint32_t depth,
                      float* out) noexcept {
  const auto is = layout_of(code);
  const auto c = row % lanes;
  const auto* tile = packed + std::size_t{row / lanes} * (round_up(depth, tile_depth) / tile_depth) * is.bytes();
  for (std::uint32_t first = 0; first < depth; first += tile_depth, tile += is.bytes())
    for (std::uint32_t k = 0; k < std::min(tile_depth, depth - first); ++k) {
      const auto* const scale = tile + ((is.units > 1 ? k / half_depth : 0U) * lanes + c) * sizeof(float);
      const auto [place, bit] = place_of(code, c, k);
      const auto byte = std::to_integer<std::uint8_t>(tile[is.codes_at() + place]);
      float value = 0;
      if (code == coding::fp4 || code == coding::dot_fp4)
        value = static_cast<float>(fp4_halves[byte >> bit & 15U] + is.zero); // which is taken off again
      else if (is.four_bits)
        value = static_cast<float>((byte >> bit & 15U));
      else if (rounds_activations(code))
        value = static_cast<float>(byte);
      else
        value = code == coding::e4m3 ? model::widen_e4m3(byte) : static_cast<float>(static_cast<std::int8_t>(byte));
      value -= static_cast<float>(is.zeros ? std::to_integer<std::int8_t>(tile[is.zeros_at() + c]) : is.zero);
      value =
          is.offsets ? std::fma(value, float_at(scale), float_at(scale + is.offsets_at())) : value * float_at(scale);
      out[first + k] =
          kind == storage::bf16 ? std::bit_cast<float>(std::uint32_t{narrow_to_bf16(value)} << 16U) : value;
    }
}

void decode_row(const coded_row& from, storage kind, std::uint32_t depth, std::vector<float>& room, std::byte* to) {
  room.resize(depth);
  from.of->values(from.row, from.first_column, room);
  for (std::uint32_t k = 0; k < depth; ++k) narrow(kind, room[k], to + k * bytes_of(kind));
}

} // namespace godwit::gpu::cpu
