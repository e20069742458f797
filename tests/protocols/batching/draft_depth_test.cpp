#include <godwit/protocols/batching/draft_depth.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace godwit::protocols {
namespace {

TEST(DraftRecord, IsHopefulAndLearns) {
  draft_record one;
  EXPECT_NEAR(one.chance(), 0.9, 1e-9);
  for (int i = 0; i < 100; ++i) one.took(4, 4);
  EXPECT_GT(one.chance(), 0.99);
  EXPECT_LT(one.chance(), 1);
  for (int i = 0; i < 100; ++i) one.took(0, 4);
  EXPECT_LT(one.chance(), 0.1);
  EXPECT_GT(one.chance(), 0);
  for (int i = 0; i < 100; ++i) one.took(2, 4); // two of three
  EXPECT_NEAR(one.chance(), 2.0 / 3, 0.05);
}

TEST(DraftRecord, HopesAgainAfterALongRest) {
  draft_record one;
  for (int i = 0; i < 100; ++i) one.took(0, 1);
  double before = one.chance();
  for (int i = 0; i < 300; ++i) {
    one.rested();
    EXPECT_GE(one.chance(), before);
    before = one.chance();
  }
  EXPECT_GT(before, 0.8);
}

/// The best depth by trying all, with times as they are.
std::uint32_t best(const std::vector<double>& chances, double pass, double step, std::uint32_t most) {
  std::uint32_t out = 0;
  double rate = 0;
  for (std::uint32_t k = 0; k <= most; ++k) {
    double tokens = 0;
    for (const auto a : chances) tokens += (1 - std::pow(a, k + 1)) / (1 - a);
    if (tokens / (step + (k + 1) * pass) > rate) rate = tokens / (step + (k + 1) * pass), out = k;
  }
  return out;
}

TEST(DraftMeter, BringsMostTokensForTheTime) {
  for (const double a : {0.05, 0.3, 0.6, 0.8, 0.95})
    for (const double b : {0.1, 0.7, 0.9})
      for (const std::int64_t pass : {1'000, 20'000, 100'000, 500'000}) {
        draft_meter meter;
        for (int i = 0; i < 3; ++i) meter.took(4, 4 * pass, 1'000'000);
        for (const std::uint32_t most : {1U, 4U, 16U, 64U})
          EXPECT_EQ(meter.depth(std::vector{a, b}, most), best({a, b}, static_cast<double>(pass), 1e6, most))
              << a << ' ' << b << ' ' << pass << ' ' << most;
      }
}

TEST(DraftMeter, FollowsWhatItMeasures) {
  draft_meter meter;
  EXPECT_EQ(meter.depth(std::vector{0.9}, 8), 4U) << "nothing is known";
  EXPECT_EQ(meter.depth(std::vector{0.9}, 2), 2U);
  meter.took(0, 5, 5);
  meter.took(3, 0, 5);
  meter.took(3, 5, -1);
  EXPECT_EQ(meter.depth(std::vector{0.9}, 8), 4U) << "nor of what is no measurement";
  for (int i = 0; i < 20; ++i) meter.took(5, 5 * 900'000, 1'000'000);
  const auto slow = meter.depth(std::vector{0.6}, 8);
  for (int i = 0; i < 60; ++i) meter.took(5, 5 * 1'000, 1'000'000);
  EXPECT_GT(meter.depth(std::vector{0.6}, 8), slow);
  EXPECT_EQ(meter.depth({}, 8), 0U) << "nobody wants any";
}

} // namespace
} // namespace godwit::protocols
