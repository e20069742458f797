#include "model/gguf_blocks.hpp"

#include "model/widen.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace godwit::gpu::model {

namespace {

using unit = coded_matrix::unit;
using bytes_of_block = const std::uint8_t*;

float half_at(bytes_of_block at) {
  std::uint16_t half = 0;
  std::memcpy(&half, at, sizeof half);
  return widen_f16(half);
}
/// Of 16 bytes, each with two codes: the first half of a block in the lower bits.
std::uint8_t nibble(bytes_of_block codes, std::uint32_t i) {
  return i < 16 ? codes[i] & 15U : static_cast<std::uint8_t>(codes[i - 16] >> 4U);
}
std::uint8_t signed_code(int value) { return static_cast<std::uint8_t>(static_cast<std::int8_t>(value)); }

/// What the codes of IQ4_NL and IQ4_XS mean.
constexpr std::array<std::int8_t, 16> uneven_steps{-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};

// Each type: in which codes it comes, how many of them share a unit, the code of a value of a block, and the unit of
// one of its groups.

struct q4_0 {
  static constexpr coding kind = coding::int4;
  static constexpr std::uint32_t values = 32, bytes = 18, group = 32;
  static constexpr bool zeros = true, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return nibble(b + 2, i); }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b), 8}; }
};

struct q4_1 {
  static constexpr coding kind = coding::int4;
  static constexpr std::uint32_t values = 32, bytes = 20, group = 32;
  static constexpr bool zeros = false, offsets = true;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return nibble(b + 4, i); }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b), 0, half_at(b + 2)}; }
};

/// The fifth bits of 32 codes lie in four bytes.
std::uint32_t fifth_bit(bytes_of_block high, std::uint32_t i) { return (high[i / 8] >> (i % 8) & 1U) << 4U; }

struct q5_0 {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 32, bytes = 22, group = 32;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    return signed_code(static_cast<int>(nibble(b + 6, i) | fifth_bit(b + 2, i)) - 16);
  }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b)}; }
};

struct q5_1 {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 32, bytes = 24, group = 32;
  static constexpr bool zeros = false, offsets = true;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    return static_cast<std::uint8_t>(nibble(b + 8, i) | fifth_bit(b + 4, i));
  }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b), 0, half_at(b + 2)}; }
};

struct q8_0 {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 32, bytes = 34, group = 32;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return b[2 + i]; }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b)}; }
};

/// Two bits of a code: of 128 values the 32 bytes have one of each quarter.
std::uint32_t two_bits(bytes_of_block codes, std::uint32_t i) {
  return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3U;
}

struct q2_k {
  static constexpr coding kind = coding::int4;
  static constexpr std::uint32_t values = 256, bytes = 84, group = 16;
  static constexpr bool zeros = false, offsets = true;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return static_cast<std::uint8_t>(two_bits(b + 16, i)); }
  static unit of_group(bytes_of_block b, std::uint32_t g) {
    return {half_at(b + 80) * static_cast<float>(b[g] & 15U), 0, -(half_at(b + 82) * static_cast<float>(b[g] >> 4U))};
  }
};

struct q3_k {
  static constexpr coding kind = coding::int4;
  static constexpr std::uint32_t values = 256, bytes = 110, group = 16;
  static constexpr bool zeros = false, offsets = true; // four steps, of which all is exact
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    const std::uint32_t third = b[i % 32] >> (i / 32) & 1U;
    return static_cast<std::uint8_t>(two_bits(b + 32, i) | third << 2U);
  }
  static unit of_group(bytes_of_block b, std::uint32_t g) {
    const auto* const scales = b + 96;
    const std::uint32_t low = g < 8 ? scales[g] & 15U : scales[g - 8] >> 4U;
    const std::uint32_t high = scales[8 + g % 4] >> (g / 4 * 2) & 3U;
    const float scale = half_at(b + 108) * static_cast<float>(static_cast<int>(low | high << 4U) - 32);
    return {scale, 0, -4.0F * scale};
  }
};

/// Six bits of a scale and six of a minimum, for each of eight groups, in twelve bytes.
struct scale_and_minimum {
  scale_and_minimum(bytes_of_block b, std::uint32_t g) {
    if (g < 4) {
      scale = b[g] & 63U;
      minimum = b[g + 4] & 63U;
    } else {
      scale = (b[g + 4] & 15U) | b[g - 4] >> 6U << 4U;
      minimum = b[g + 4] >> 4U | b[g] >> 6U << 4U;
    }
  }
  std::uint32_t scale, minimum;
};
unit of_k_group(bytes_of_block b, std::uint32_t g) {
  const scale_and_minimum is(b + 4, g);
  return {half_at(b) * static_cast<float>(is.scale), 0, -(half_at(b + 2) * static_cast<float>(is.minimum))};
}
/// Of 64 values the 32 bytes have those of each half.
std::uint32_t k_nibble(bytes_of_block codes, std::uint32_t i) {
  return codes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15U;
}

struct q4_k {
  static constexpr coding kind = coding::int4;
  static constexpr std::uint32_t values = 256, bytes = 144, group = 32;
  static constexpr bool zeros = false, offsets = true;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return static_cast<std::uint8_t>(k_nibble(b + 16, i)); }
  static unit of_group(bytes_of_block b, std::uint32_t g) { return of_k_group(b, g); }
};

struct q5_k {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 256, bytes = 176, group = 32;
  static constexpr bool zeros = false, offsets = true;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    const std::uint32_t fifth = b[16 + i % 32] >> (i / 32) & 1U;
    return static_cast<std::uint8_t>(k_nibble(b + 48, i) | fifth << 4U);
  }
  static unit of_group(bytes_of_block b, std::uint32_t g) { return of_k_group(b, g); }
};

struct q6_k {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 256, bytes = 210, group = 16;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    const std::uint32_t half = i / 128, quarter = i % 128 / 32, place = i % 32;
    const std::uint32_t low = b[half * 64 + quarter % 2 * 32 + place] >> (quarter / 2 * 4) & 15U;
    const std::uint32_t high = b[128 + half * 32 + place] >> (quarter * 2) & 3U;
    return signed_code(static_cast<int>(low | high << 4U) - 32);
  }
  static unit of_group(bytes_of_block b, std::uint32_t g) {
    return {half_at(b + 208) * static_cast<float>(static_cast<std::int8_t>(b[192 + g]))};
  }
};

struct iq4_nl {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 32, bytes = 18, group = 32;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return signed_code(uneven_steps[nibble(b + 2, i)]); }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {half_at(b)}; }
};

struct iq4_xs {
  static constexpr coding kind = coding::int8;
  static constexpr std::uint32_t values = 256, bytes = 136, group = 32;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) {
    return signed_code(uneven_steps[nibble(b + 8 + i / 32 * 16, i % 32)]);
  }
  static unit of_group(bytes_of_block b, std::uint32_t g) {
    const std::uint32_t low = b[4 + g / 2] >> (g % 2 * 4) & 15U;
    const std::uint32_t high = (b[2] | std::uint32_t{b[3]} << 8U) >> (2 * g) & 3U;
    return {half_at(b) * static_cast<float>(static_cast<int>(low | high << 4U) - 32)};
  }
};

struct mxfp4 {
  static constexpr coding kind = coding::fp4;
  static constexpr std::uint32_t values = 32, bytes = 17, group = 32;
  static constexpr bool zeros = false, offsets = false;
  static std::uint8_t code(bytes_of_block b, std::uint32_t i) { return nibble(b + 1, i); }
  static unit of_group(bytes_of_block b, std::uint32_t) { return {std::ldexp(1.0F, int{b[0]} - 128)}; }
};

template <class Block> class gguf_matrix final : public coded_matrix {
public:
  gguf_matrix(std::uint32_t type, std::uint64_t rows, std::uint64_t columns, std::span<const std::byte> bytes)
      : coded_matrix({Block::kind, rows, columns, Block::group, Block::zeros, Block::offsets, true, type}),
        bytes_(bytes) {}

  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    auto i = static_cast<std::uint32_t>(first % Block::values);
    auto at = block(row, first);
    for (auto& code : out) {
      code = Block::code(at, i);
      if (++i < Block::values) continue;
      i = 0;
      at += Block::bytes;
    }
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    return Block::of_group(block(row, column), static_cast<std::uint32_t>(column % Block::values / Block::group));
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override { return {bytes_}; }

private:
  [[nodiscard]] bytes_of_block block(std::uint64_t row, std::uint64_t column) const {
    const auto which = row * (dimensions().columns / Block::values) + column / Block::values;
    return reinterpret_cast<bytes_of_block>(bytes_.data()) + which * Block::bytes;
  }

  std::span<const std::byte> bytes_;
};

struct known_type {
  std::uint32_t number;
  gguf_block block;
  std::optional<data_type> plain;
  std::unique_ptr<coded_matrix> (*make)(std::uint32_t type, std::uint64_t rows, std::uint64_t columns,
                                        std::span<const std::byte> bytes);
};
constexpr known_type plain(std::uint32_t number, std::string_view name, data_type type, std::uint64_t bytes) {
  return {number, {name, 1, bytes}, type, nullptr};
}
template <class Block> constexpr known_type coded(std::uint32_t number, std::string_view name) {
  return {number,
          {name, Block::values, Block::bytes},
          std::nullopt,
          [](std::uint32_t type, std::uint64_t rows, std::uint64_t columns,
             std::span<const std::byte> bytes) -> std::unique_ptr<coded_matrix> {
            return std::make_unique<gguf_matrix<Block>>(type, rows, columns, bytes);
          }};
}
constexpr std::array known_types{plain(0, "F32", data_type::f32, 4),
                                 plain(1, "F16", data_type::f16, 2),
                                 plain(30, "BF16", data_type::bf16, 2),
                                 coded<q4_0>(2, "Q4_0"),
                                 coded<q4_1>(3, "Q4_1"),
                                 coded<q5_0>(6, "Q5_0"),
                                 coded<q5_1>(7, "Q5_1"),
                                 coded<q8_0>(8, "Q8_0"),
                                 coded<q2_k>(10, "Q2_K"),
                                 coded<q3_k>(11, "Q3_K"),
                                 coded<q4_k>(12, "Q4_K"),
                                 coded<q5_k>(13, "Q5_K"),
                                 coded<q6_k>(14, "Q6_K"),
                                 coded<iq4_nl>(20, "IQ4_NL"),
                                 coded<iq4_xs>(23, "IQ4_XS"),
                                 coded<mxfp4>(39, "MXFP4")};

const known_type* find(std::uint32_t type) {
  for (const auto& known : known_types)
    if (known.number == type) return &known;
  return nullptr;
}

} // namespace

std::optional<gguf_block> block_of(std::uint32_t type) noexcept {
  const auto* known = find(type);
  return known == nullptr ? std::nullopt : std::optional(known->block);
}

std::string name_of_type(std::uint32_t type) {
  constexpr std::array others{
      std::pair{9U, "Q8_1"},     std::pair{15U, "Q8_K"},  std::pair{16U, "IQ2_XXS"}, std::pair{17U, "IQ2_XS"},
      std::pair{18U, "IQ3_XXS"}, std::pair{19U, "IQ1_S"}, std::pair{21U, "IQ3_S"},   std::pair{22U, "IQ2_S"},
      std::pair{24U, "I8"},      std::pair{25U, "I16"},   std::pair{26U, "I32"},     std::pair{27U, "I64"},
      std::pair{28U, "F64"},     std::pair{29U, "IQ1_M"}, std::pair{34U, "TQ1_0"},   std::pair{35U, "TQ2_0"}};
  if (const auto* known = find(type)) return std::string(known->block.name);
  for (const auto& [number, name] : others)
    if (number == type) return name;
  return "number " + std::to_string(type);
}

std::optional<data_type> plain_type_of(std::uint32_t type) noexcept {
  const auto* known = find(type);
  return known == nullptr ? std::nullopt : known->plain;
}

std::unique_ptr<coded_matrix> make_gguf_matrix(std::uint32_t type, std::uint64_t rows, std::uint64_t columns,
                                               std::span<const std::byte> bytes) {
  const auto* known = find(type);
  return known == nullptr || known->make == nullptr ? nullptr : known->make(type, rows, columns, bytes);
}

} // namespace godwit::gpu::model
