#include <godwit/runtime/async/counter_random.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace godwit::runtime::async {
namespace {

// Known answers of Random123's philox4x32-10 (kat_vectors).
TEST(Philox, GivesThePublishedValues) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, TheNthNumberDependsOnNothingElse) {
  counter_random a{42, 7};
  const counter_random b{42, 7};
  for (std::uint64_t n = 0; n < 100; ++n) EXPECT_EQ(a.next(), b.at(n));
  EXPECT_NE(b.at(0), b.stream(8).at(0));
  EXPECT_NE(b.at(0), counter_random(43, 7).at(0));
}

TEST(CounterRandom, DrawsEvenlyBelowABound) {
  counter_random r{1};
  std::array<int, 7> seen{};
  for (int i = 0; i < 70'000; ++i) ++seen[r.below(7)];
  for (const int n : seen) EXPECT_NEAR(n, 10'000, 500); // five standard deviations
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto x = r.uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.015);
}

} // namespace
} // namespace godwit::runtime::async
