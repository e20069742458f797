// Weights in codes: the same bits as of the weights that they mean.
#include "cpu/coded_panels.hpp"
#include "gpu/cpu/kernel_support.hpp"

#include "cpu/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace godwit::gpu::cpu::testing {
namespace {

using model::coded_matrix;

/// Any codes, with any scales and zeros, which change from group to group.
class random_codes final : public coded_matrix {
public:
  random_codes(shape of, unsigned seed, float size = 0.02F) : coded_matrix(of), random_(seed) {
    std::uniform_int_distribution<int> any(0, 255), scale(64, 255);
    codes_.resize(of.rows * of.columns);
    for (auto& code : codes_)
      code = static_cast<std::uint8_t>(
          of.kind == model::coding::int4 || of.kind == model::coding::fp4 ? any(random_) % 16 : any(random_));
    if (of.kind == model::coding::e4m3) // 127 and 255 are no numbers
      for (auto& code : codes_) code = static_cast<std::uint8_t>((code & 127U) == 127U ? code - 1U : code);
    groups_ = (of.columns + of.group - 1) / of.group;
    for (std::uint64_t i = 0; i < of.rows * groups_; ++i)
      units_.push_back({size * static_cast<float>(scale(random_)) / 256.0F,
                        of.zeros && of.by_sums_of_codes ? 8
                        : of.zeros                      ? any(random_) % 17
                                                        : 0,
                        of.offsets ? size * static_cast<float>(any(random_) - 128) : 0.0F});
  }
  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    std::copy_n(codes_.begin() + static_cast<std::ptrdiff_t>(row * dimensions().columns + first), out.size(),
                out.begin());
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    return units_[row * groups_ + column / dimensions().group];
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override { return {}; }

private:
  std::mt19937 random_;
  std::uint64_t groups_ = 1;
  std::vector<std::uint8_t> codes_;
  std::vector<unit> units_;
};

/// What a matrix is that is kept so.
struct kept {
  coding code;
  const char* name;
  model::coding kind;
  bool zeros = false, offsets = false, halves = false;
};
constexpr std::array all_kept{
    kept{coding::int4, "int4", model::coding::int4, true},
    kept{coding::int8, "int8", model::coding::int8},
    kept{coding::e4m3, "fp8", model::coding::e4m3},
    kept{coding::fp4, "fp4", model::coding::fp4},
    kept{coding::dot_fp4, "dot_fp4", model::coding::fp4},
    kept{coding::dot4, "dot4", model::coding::int4, true},
    kept{coding::dot4_offset, "dot4_offset", model::coding::int4, false, true},
    kept{coding::dot4_offset_halves, "dot4_offset_halves", model::coding::int4, false, true, true},
    kept{coding::dot8, "dot8", model::coding::int8},
    kept{coding::dot8_offset, "dot8_offset", model::coding::int8, false, true},
    kept{coding::dot8_halves, "dot8_halves", model::coding::int8, false, false, true}};
const kept& kept_as(coding code) { return *std::ranges::find(all_kept, code, &kept::code); }

aligned<std::byte> packed_codes(const coded_matrix& from, coding code) {
  const auto& is = from.dimensions();
  const auto rows = static_cast<std::uint32_t>(is.rows), depth = static_cast<std::uint32_t>(is.columns);
  const std::size_t panel = round_up(depth, tile_depth) / tile_depth * coded_tile_bytes(code);
  aligned<std::byte> packed(panel * ((rows + lanes - 1) / lanes) + 65536);
  for (std::uint32_t row = 0; row < rows; row += lanes) {
    coded_row sources[lanes];
    for (std::uint32_t c = 0; c < lanes && row + c < rows; ++c) sources[c] = {&from, row + c, 0};
    pack_coded_panel(code, sources, depth, packed.data() + row / lanes * panel);
  }
  return packed;
}

/// By the definition in kernels/table.hpp.
std::vector<float> sums_of_codes(storage kind, const std::vector<float>& x, const coded_matrix& from, shape s) {
  std::vector<float> out(std::size_t{s.rows} * s.columns);
  const auto& is = from.dimensions();
  std::vector<std::uint8_t> codes(s.depth);
  for (std::uint32_t row = 0; row < s.rows; ++row)
    for (std::uint32_t column = 0; column < s.columns; ++column) {
      from.codes(column, 0, codes);
      float sum = 0;
      for (std::uint32_t tile = 0; tile < s.depth; tile += tile_depth) {
        const auto end = std::min(s.depth, tile + tile_depth);
        std::vector<float> a;
        for (auto k = tile; k < end; ++k) {
          const auto value = x[std::size_t{row} * s.depth + k];
          a.push_back(kind == storage::bf16 ? std::bit_cast<float>(std::uint32_t{narrow_to_bf16(value)} << 16U)
                                            : value);
        }
        float largest = 0;
        for (const auto value : a) largest = std::max(largest, std::abs(value));
        const float step = largest / 127.0F, inverse = largest > 0 ? 127.0F / largest : 0.0F;
        const std::uint32_t half = is.group == 16 ? 16 : tile_depth;
        for (auto first = tile; first < end; first += half) {
          std::int32_t dot = 0, of_row = 0;
          const auto unit = from.unit_of(column, first);
          for (auto k = first; k < std::min(end, first + half); ++k) {
            const auto rounded = static_cast<std::int32_t>(std::nearbyint(a[k - tile] * inverse));
            const auto code = is.kind == model::coding::int4  ? std::int32_t{codes[k]}
                              : is.kind == model::coding::fp4 ? std::int32_t{model::halves_of_fp4[codes[k]]}
                                                              : std::int32_t{static_cast<std::int8_t>(codes[k])};
            dot += rounded * (code - unit.zero);
            of_row += rounded;
          }
          float t = static_cast<float>(dot) * unit.scale;
          if (is.offsets) t = std::fma(unit.offset, static_cast<float>(of_row), t);
          sum = std::fma(step, t, sum);
        }
      }
      out[std::size_t{row} * s.columns + column] = sum;
    }
  return out;
}

using set_and_codes = std::tuple<isa, coding, storage>;

class CodedGemm : public ::testing::TestWithParam<set_and_codes> {
protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) > best_isa())
      GTEST_SKIP() << "this machine has no " << to_string(std::get<0>(GetParam()));
  }
  static void expect_same(shape s, std::uint64_t group = 64, float size = 0.02F) {
    const auto [set, code, kind] = GetParam();
    const auto& is = kept_as(code);
    const random_codes codes(
        {is.kind, s.columns, s.depth, is.halves ? 16 : group, is.zeros, is.offsets, rounds_activations(code)}, 5, size);
    std::vector<float> meant(std::size_t{s.columns} * s.depth);
    for (std::uint32_t row = 0; row < s.columns; ++row)
      codes.values(row, 0, std::span(meant).subspan(std::size_t{row} * s.depth, s.depth));
    const auto x = random_values(std::size_t{s.rows} * s.depth, 1);
    const auto expected = rounds_activations(code)
                              ? sums_of_codes(kind, x, codes, s)
                              : product(set, kind, x, packed_weights(kind, meant, s.columns, s.depth), s);
    const auto packed = packed_codes(codes, code);
    std::vector<float> row(s.depth), rounded(s.depth);
    for (std::uint32_t r = 0; r < s.columns; ++r) {
      unpack_coded_row(code, kind, packed.data(), r, s.depth, row.data());
      for (std::uint32_t k = 0; k < s.depth; ++k) {
        const auto value = meant[std::size_t{r} * s.depth + k];
        rounded[k] = kind == storage::bf16 ? std::bit_cast<float>(std::uint32_t{narrow_to_bf16(value)} << 16U) : value;
      }
      ASSERT_TRUE(same_bits(row.data(), rounded.data(), row.size())) << "row " << r;
    }
    for (const bool fetch_ahead : {false, true}) {
      const auto y = product(set, kind, x, packed, s, fetch_ahead, code);
      ASSERT_TRUE(same_bits(y.data(), expected.data(), y.size()))
          << s.rows << " rows, " << s.columns << " columns, depth " << s.depth;
    }
  }
};

TEST_P(CodedGemm, GivesTheBitsOfWhatIsMeantForEveryNumberOfRows) {
  for (std::uint32_t rows = 1; rows <= 40; ++rows) expect_same({rows, 80, 96});
}

TEST_P(CodedGemm, GivesTheBitsOfWhatIsMeantForOddShapes) {
  expect_same({1, 1, 1}, 1);
  expect_same({3, 17, 33}, 32);
  expect_same({1, 150, 40}, 40);
  expect_same({5, 31, 2080}, 128);
  expect_same({33, 16, 1100}, 1100);
  expect_same({300, 24, 1056}, 32);
}

TEST_P(CodedGemm, MakesNothingOfWhatIsNoNumber) {
  const auto [set, code, kind] = GetParam();
  if (!rounds_activations(code)) return;
  const auto& is = kept_as(code);
  const shape s{3, 16, 96};
  const random_codes codes({is.kind, s.columns, s.depth, is.halves ? 16U : 32U, is.zeros, is.offsets, true}, 5);
  const auto packed = packed_codes(codes, code);
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (std::uint32_t k = 0; k < s.depth; k += 7) {
      auto x = random_values(std::size_t{s.rows} * s.depth, 1);
      for (std::uint32_t i = 0; i < tile_depth; ++i) x[s.depth * 2 + i] = 0; // nothing at all
      x[s.depth + k] = bad;
      const auto y = product(set, kind, x, packed, s, false, code);
      const auto expected = sums_of_codes(kind, x, codes, s);
      for (std::uint32_t column = 0; column < s.columns; ++column) {
        EXPECT_TRUE(std::isnan(y[s.columns + column])) << bad << " at " << k;
        EXPECT_EQ(y[column], expected[column]) << "of another row";
        EXPECT_EQ(y[2 * s.columns + column], expected[2 * s.columns + column]) << "of another row";
      }
    }
}

TEST_P(CodedGemm, GivesTheBitsOfWhatIsMeantWhateverItsSize) {
  expect_same({1, 48, 256}, 32, 1e-30F);
  expect_same({7, 48, 256}, 32, 1e30F);
}

INSTANTIATE_TEST_SUITE_P(
    Sets, CodedGemm,
    ::testing::Combine(::testing::Values(isa::scalar, isa::avx2, isa::avx512, isa::avx512_vnni, isa::amx),
                       ::testing::Values(coding::int4, coding::int8, coding::e4m3, coding::fp4, coding::dot_fp4,
                                         coding::dot4, coding::dot4_offset, coding::dot4_offset_halves, coding::dot8,
                                         coding::dot8_offset, coding::dot8_halves),
                       ::testing::Values(storage::bf16, storage::f32)),
    [](const auto& named) {
      return to_string(std::get<0>(named.param)) + "_" + kept_as(std::get<1>(named.param)).name +
             (std::get<2>(named.param) == storage::bf16 ? "_bf16" : "_f32");
    });

TEST(CodedMatrix, EveryFloatOfEightBitsIsWhatItsPartsSay) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double size = exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    const auto value = model::widen_e4m3(static_cast<std::uint8_t>(code));
    EXPECT_EQ(std::abs(value), size) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
}

TEST(CodedMatrix, EveryFloatOfFourBitsIsWhatItsPartsSay) {
  for (int code = 0; code < 16; ++code) {
    const int exponent = code >> 1 & 3, mantissa = code & 1;
    const double size = exponent == 0 ? mantissa / 2.0 : std::ldexp(1 + mantissa / 2.0, exponent - 1);
    const int halves = model::halves_of_fp4[static_cast<std::size_t>(code)];
    EXPECT_EQ(halves, (code >= 8 ? -2 : 2) * size) << code;
    EXPECT_EQ(fp4_halves[code], halves) << code;
    EXPECT_EQ(fp4_raised[code], halves + fp4_most) << code;
  }
}

TEST(CodedMatrix, SaysWhatSomeColumnsMeanFromAnyColumnOn) {
  const random_codes codes({model::coding::int4, 3, 200, 64, true}, 3);
  std::vector<float> all(200);
  codes.values(1, 0, all);
  for (const std::size_t first : {0U, 1U, 63U, 64U, 190U})
    for (const std::size_t count : {1U, 5U, 10U}) {
      std::vector<float> some(count);
      codes.values(1, first, some);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(first)));
    }
}

TEST(CodedMatrix, StaysInItsCodesWhereKernelsCanReadThem) {
  const auto coding_for = [](coded_matrix::shape is, std::uint64_t first_column = 0) {
    const random_codes codes(is, 1);
    const model::tensor_view view{model::data_type::bf16, {is.rows, is.columns}, nullptr, 0, &codes};
    return coding_of(matrix_source{{{&view, 0, is.rows, first_column}}, false, {}});
  };
  EXPECT_EQ(coding_for({model::coding::int4, 16, 64, 32, true}), coding::int4);
  EXPECT_EQ(coding_for({model::coding::int4, 16, 64, 16, true}), coding::none) << "two scales in a tile";
  EXPECT_EQ(coding_for({model::coding::int4, 16, 64, 32, false, true}), coding::none) << "offsets";
  EXPECT_EQ(coding_for({model::coding::int8, 16, 64, 16, false}), coding::none) << "two scales in a tile";
  EXPECT_EQ(coding_for({model::coding::fp4, 16, 64, 32}), coding::fp4);
  EXPECT_EQ(coding_for({model::coding::fp4, 16, 64, 32}, 16), coding::none) << "begins within a tile";
  EXPECT_EQ(coding_for({model::coding::fp4, 16, 64, 16}), coding::none) << "two scales in a tile";
  EXPECT_EQ(coding_for({model::coding::fp4, 16, 64, 32, false, false, true}), coding::dot_fp4);
  const auto by_sums = [&](model::coding kind, std::uint64_t group, bool zeros, bool offsets) {
    return coding_for({kind, 16, 64, group, zeros, offsets, true});
  };
  EXPECT_EQ(by_sums(model::coding::int4, 32, true, false), coding::dot4);
  EXPECT_EQ(by_sums(model::coding::int4, 16, true, false), coding::none);
  EXPECT_EQ(by_sums(model::coding::int4, 32, false, true), coding::dot4_offset);
  EXPECT_EQ(by_sums(model::coding::int4, 16, false, true), coding::dot4_offset_halves);
  EXPECT_EQ(by_sums(model::coding::int4, 8, false, true), coding::none);
  EXPECT_EQ(by_sums(model::coding::int8, 32, false, false), coding::dot8);
  EXPECT_EQ(by_sums(model::coding::int8, 32, false, true), coding::dot8_offset);
  EXPECT_EQ(by_sums(model::coding::int8, 16, false, false), coding::dot8_halves);
  EXPECT_EQ(by_sums(model::coding::int8, 16, false, true), coding::none);
  EXPECT_EQ(coding_for({model::coding::int8, 16, 100, 100, false}), coding::int8) << "a scale for each row";
  EXPECT_EQ(coding_for({model::coding::int8, 16, 64, 32, true}), coding::none) << "zeros";
  EXPECT_EQ(coding_for({model::coding::e4m3, 16, 64, 64, false}, 32), coding::e4m3);
  EXPECT_EQ(coding_for({model::coding::e4m3, 16, 64, 64, false}, 16), coding::none) << "tiles that begin within one";
}

} // namespace
} // namespace godwit::gpu::cpu::testing
