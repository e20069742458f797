#include <godwit/protocols/workload/random.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace godwit::protocols::workload {
namespace {

TEST(CounterRandom, IsAFunctionOfSeedStreamAndIndex) {
  auto a = counter_random(7, 1);
  const auto b = counter_random(7, 1);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.at(i));
}

TEST(CounterRandom, GivesEverySeedAndStreamItsOwnSequence) {
  auto seen = std::set<std::uint64_t>{};
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (std::uint64_t stream = 0; stream < 20; ++stream) seen.insert(counter_random(seed, stream).at(0));
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(CounterRandom, DrawsUniformNumbersWithinTheirBounds) {
  auto random = counter_random(1);
  auto counts = std::array<int, 10>{};
  for (auto i = 0; i < 100'000; ++i) ++counts.at(random.below(10));
  // Five standard deviations of a binomial count.
  for (const auto n : counts) EXPECT_NEAR(n, 10'000, 475);
}

TEST(CounterRandom, DrawsGammaNumbersOfTheRightMeanAndVariance) {
  for (const auto shape : {0.0625, 0.5, 1.0, 4.0}) {
    auto random = counter_random(3);
    constexpr auto n = 400'000;
    auto sum = 0.0;
    auto squares = 0.0;
    for (auto i = 0; i < n; ++i) {
      const auto x = random.gamma(shape);
      sum += x;
      squares += x * x;
    }
    const auto mean = sum / n;
    EXPECT_NEAR(mean / shape, 1.0, 0.03) << shape;
    EXPECT_NEAR((squares / n - mean * mean) / shape, 1.0, 0.1) << shape;
  }
}

} // namespace
} // namespace godwit::protocols::workload
