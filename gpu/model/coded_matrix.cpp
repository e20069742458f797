#include "model/coded_matrix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace godwit::gpu::model {

float widen_e4m3(std::uint8_t code) noexcept {
  const std::uint32_t size = code & 127U, sign = std::uint32_t{code & 128U} << 24U;
  const float magnitude =
      size < 8 ? static_cast<float>(size) * 0x1p-9F : std::bit_cast<float>((size << 20U) + (120U << 23U));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

std::string to_string(coding kind) {
  switch (kind) {
  case coding::int4:
    return "int4";
  case coding::int8:
    return "int8";
  case coding::e4m3:
    return "fp8";
  case coding::fp4:
    return "fp4";
  }
  return "?";
}

coded_rows::coded_rows(const coded_matrix& whole, std::uint64_t first, std::uint64_t count)
    : coded_matrix([&] {
        auto of = whole.dimensions();
        of.rows = count;
        return of;
      }()),
      whole_(whole), first_(first) {}

void coded_rows::codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const {
  whole_.codes(first_ + row, first, out);
}
coded_matrix::unit coded_rows::unit_of(std::uint64_t row, std::uint64_t column) const {
  return whole_.unit_of(first_ + row, column);
}

void coded_matrix::values(std::uint64_t row, std::uint64_t first, std::span<float> out) const {
  constexpr std::size_t piece = 256;
  std::array<std::uint8_t, piece> read{};
  const auto group = std::max<std::uint64_t>(1, shape_.group);
  for (std::size_t done = 0; done < out.size();) {
    const auto some = std::span(read).first(std::min(piece, out.size() - done));
    codes(row, first + done, some);
    unit in;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto column = first + done + i;
      if (i == 0 || column % group == 0) in = unit_of(row, column);
      const auto code = some[i];
      const auto plain = shape_.kind == coding::e4m3   ? widen_e4m3(code)
                         : shape_.kind == coding::fp4  ? static_cast<float>(halves_of_fp4[code & 15U])
                         : shape_.kind == coding::int8 ? static_cast<float>(static_cast<std::int8_t>(code) - in.zero)
                                                       : static_cast<float>(static_cast<std::int32_t>(code) - in.zero);
      out[done + i] = shape_.offsets ? std::fma(plain, in.scale, in.offset) : plain * in.scale;
    }
    done += some.size();
  }
}

} // namespace godwit::gpu::model
