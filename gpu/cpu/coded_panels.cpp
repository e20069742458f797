#include "cpu/coded_panels.hpp"

#include "cpu/packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace godwit::gpu::cpu {

namespace {

coding coding_of(const tensor_rows& part) {
  if (part.tensor->coded == nullptr) return coding::none;
  const auto& is = part.tensor->coded->dimensions();
  const bool by_tiles = is.group >= is.columns || (is.group != 0 && is.group % tile_depth == 0);
  if (!by_tiles || part.first_column % tile_depth != 0) return coding::none;
  switch (is.kind) {
  case model::coding::int4:
    return coding::int4;
  case model::coding::int8:
    return is.zeros ? coding::none : coding::int8;
  case model::coding::e4m3:
    return coding::e4m3;
  }
  return coding::none;
}

/// One column of a tile: its unit and its codes.
struct column_of_tile {
  model::coded_matrix::unit unit;
  std::array<std::uint8_t, tile_depth> codes{};
};

column_of_tile read_column(coding code, const coded_row& row, std::uint32_t k, std::uint32_t depth) {
  column_of_tile out;
  if (row.of == nullptr) return out;
  out.unit = row.of->unit_of(row.row, row.first_column + k);
  if (code == coding::int4) out.codes.fill(static_cast<std::uint8_t>(std::clamp(out.unit.zero, 0, 15)));
  row.of->codes(row.row, row.first_column + k, std::span(out.codes).first(std::min(tile_depth, depth - k)));
  return out;
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
  constexpr std::uint32_t pairs = tile_depth / 2;
  for (std::uint32_t k = 0; k < depth; k += tile_depth, out += coded_tile_bytes(code)) {
    auto* const scales = out;
    auto* const zeros = out + lanes * sizeof(float);
    auto* const codes = code == coding::int4 ? zeros + lanes : zeros;
    for (std::uint32_t c = 0; c < lanes; ++c) {
      const auto column = read_column(code, rows[c], k, depth);
      std::memcpy(scales + c * sizeof(float), &column.unit.scale, sizeof(float));
      if (code == coding::int4) zeros[c] = static_cast<std::byte>(column.unit.zero);
      for (std::uint32_t pair = 0; pair < pairs; ++pair) {
        const auto even = column.codes[2 * pair], odd = column.codes[2 * pair + 1];
        if (code == coding::int4) {
          codes[pair * lanes + c] = static_cast<std::byte>(even | odd << 4U);
        } else {
          codes[pair * 2 * lanes + c] = static_cast<std::byte>(even);
          codes[(pair * 2 + 1) * lanes + c] = static_cast<std::byte>(odd);
        }
      }
    }
  }
}

void decode_row(const coded_row& from, storage kind, std::uint32_t depth, std::vector<float>& room, std::byte* to) {
  room.resize(depth);
  from.of->values(from.row, from.first_column, room);
  for (std::uint32_t k = 0; k < depth; ++k) narrow(kind, room[k], to + k * bytes_of(kind));
}

} // namespace godwit::gpu::cpu
