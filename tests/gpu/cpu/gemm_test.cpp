#include "gpu/cpu/kernel_support.hpp"

#include <gtest/gtest.h>

namespace godwit::gpu::cpu::testing {
namespace {

/// The definition, written once more without any of the kernels' code.
std::vector<float> defined_product(const std::vector<float>& x, const std::vector<float>& w, shape s) {
  const flush_denormals flushing;
  std::vector<float> y(std::size_t{s.rows} * s.columns);
  for (std::uint32_t m = 0; m < s.rows; ++m)
    for (std::uint32_t n = 0; n < s.columns; ++n) {
      volatile float sum = 0;
      for (std::uint32_t k = 0; k < s.depth; k += 32) {
        float even = 0, odd = 0;
        for (std::uint32_t i = k; i < std::min(k + 32, s.depth); i += 2) {
          even = std::fma(x[std::size_t{m} * s.depth + i], w[std::size_t{n} * s.depth + i], even);
          if (i + 1 < s.depth)
            odd = std::fma(x[std::size_t{m} * s.depth + i + 1], w[std::size_t{n} * s.depth + i + 1], odd);
        }
        volatile float both = even + odd;
        sum = sum + both;
      }
      y[std::size_t{m} * s.columns + n] = sum;
    }
  return y;
}

std::vector<float> rounded(storage weights, std::vector<float> values) {
  for (auto& value : values)
    value = weights == storage::bf16  ? as_bf16(value)
            : weights == storage::f16 ? static_cast<float>(static_cast<_Float16>(value))
                                      : value;
  return values;
}

class Gemm : public ::testing::TestWithParam<std::tuple<isa, storage>> {
protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) > best_isa())
      GTEST_SKIP() << "this machine has no " << to_string(std::get<0>(GetParam()));
  }
  void expect_definition(shape s, spread kind = spread::ordinary) {
    const auto [set, weights] = GetParam();
    auto x = random_values(std::size_t{s.rows} * s.depth, 1, 1.0F, kind);
    if (weights == storage::bf16) x = rounded(weights, x);
    const auto w = rounded(weights, random_values(std::size_t{s.columns} * s.depth, 2, 0.05F, kind));
    const auto packed = packed_weights(weights, w, s.columns, s.depth);
    const auto expected = defined_product(x, w, s);
    for (const bool fetch_ahead : {false, true}) {
      if (fetch_ahead && s.rows > 1) break;
      const auto y = product(set, weights, x, packed, s, fetch_ahead);
      ASSERT_TRUE(same_bits(y.data(), expected.data(), y.size()))
          << s.rows << " rows, " << s.columns << " columns, depth " << s.depth;
    }
  }
};

TEST_P(Gemm, GivesTheDefinedBitsForEveryNumberOfRows) {
  for (std::uint32_t rows = 1; rows <= 70; ++rows) expect_definition({rows, 48, 96});
}

TEST_P(Gemm, GivesTheDefinedBitsForOddShapes) {
  expect_definition({1, 1, 1});
  expect_definition({3, 17, 33});
  expect_definition({1, 150, 40});
  expect_definition({5, 31, 2080});
  expect_definition({33, 16, 1100});
  expect_definition({17, 200, 31});
  expect_definition({300, 24, 1056});
}

TEST_P(Gemm, GivesTheDefinedBitsWhereSizesDifferWildly) { expect_definition({19, 64, 512}, spread::wild); }

TEST_P(Gemm, FlushesDenormalsAsDefined) {
  expect_definition({1, 64, 512}, spread::tiny);
  expect_definition({19, 64, 512}, spread::tiny);
}

TEST_P(Gemm, GivesARowTheSameBitsAmongAThousandOthers) {
  const auto [set, weights] = GetParam();
  const shape all{1000, set == isa::scalar ? 16U : 64U, set == isa::scalar ? 96U : 1344U}; // scalar is slow
  const auto x = rounded(weights, random_values(std::size_t{all.rows} * all.depth, 3));
  const auto w = rounded(weights, random_values(std::size_t{all.columns} * all.depth, 4, 0.05F));
  const auto packed = packed_weights(weights, w, all.columns, all.depth);
  const auto together = product(set, weights, x, packed, all);
  for (const std::uint32_t row : {0U, 1U, 15U, 16U, 255U, 256U, 700U, 999U}) {
    const std::vector<float> alone(x.begin() + row * all.depth, x.begin() + (row + 1) * all.depth);
    const auto y = product(set, weights, alone, packed, {1, all.columns, all.depth});
    ASSERT_TRUE(same_bits(y.data(), together.data() + row * all.columns, all.columns)) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Gemm,
                         ::testing::Combine(::testing::Values(isa::scalar, isa::avx2, isa::avx512, isa::avx512_vnni,
                                                              isa::amx),
                                            ::testing::Values(storage::bf16, storage::f16, storage::f32)),
                         [](const auto& named) {
                           const storage kind = std::get<1>(named.param);
                           return to_string(std::get<0>(named.param)) + (kind == storage::bf16  ? "_bf16"
                                                                         : kind == storage::f16 ? "_f16"
                                                                                                : "_f32");
                         });

TEST(Exponential, IsTheSameInAllSetsAndCloseToTheTruth) {
  aligned<float> x(4096), y(4096), first(4096);
  for (int i = 0; i < 4096; ++i) x[i] = -100.0F + 0.05F * static_cast<float>(i);
  x[7] = -INFINITY;
  const flush_denormals flushing;
  for (const isa kind : isas_here()) {
    kernels_for(kind).exponential(x.data(), y.data(), 4096);
    if (kind == isa::scalar) std::memcpy(first.data(), y.data(), 4096 * 4);
    ASSERT_TRUE(same_bits(y.data(), first.data(), 4096)) << to_string(kind);
  }
  EXPECT_EQ(y[7], 0.0F);
  for (int i = 0; i < 4096; ++i) {
    if (x[i] < -87 || x[i] > 88) continue;
    const double truth = std::exp(static_cast<double>(x[i]));
    EXPECT_NEAR(y[i] / truth, 1.0, 2e-7) << x[i];
  }
}

} // namespace
} // namespace godwit::gpu::cpu::testing
