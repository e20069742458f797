#include <godwit/protocols/workload/arrivals.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace godwit::protocols::workload {
namespace {

struct gaps {
  double mean_s;
  double cv;
};

gaps measure(const std::vector<std::int64_t>& times) {
  auto sum = 0.0;
  auto squares = 0.0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const auto gap = static_cast<double>(times[i] - times[i - 1]) * 1e-9;
    sum += gap;
    squares += gap * gap;
  }
  const auto n = static_cast<double>(times.size() - 1);
  const auto mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

TEST(Arrivals, ComeAllAtOnceWithoutARateOrWithAnInfiniteOne) {
  for (const auto rate : {0.0, std::numeric_limits<double>::infinity()}) {
    const auto times = arrival_times({rate, 1.0}, 5, 1);
    EXPECT_EQ(times, std::vector<std::int64_t>(5, 0));
  }
}

TEST(Arrivals, BeginAtZeroAndNeverGoBack) {
  const auto times = arrival_times({100.0, 4.0}, 10'000, 2);
  EXPECT_EQ(times.front(), 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

// A Poisson process: gaps with mean 1/rate and a coefficient of variation of 1.
TEST(Arrivals, OfAPoissonProcessHaveTheRateAndACvOfOne) {
  const auto measured = measure(arrival_times({8.0, 1.0}, 100'000, 3));
  EXPECT_NEAR(measured.mean_s, 0.125, 0.125 * 0.02);
  EXPECT_NEAR(measured.cv, 1.0, 0.02);
}

// Llumnix, figure 13: Gamma arrivals with CV 2, 4, 6, 8.
TEST(Arrivals, OfAGammaProcessHaveTheRateAndTheCvAskedFor) {
  for (const auto cv : {0.5, 2.0, 4.0, 6.0, 8.0}) {
    const auto measured = measure(arrival_times({26.0, cv}, 400'000, 4));
    EXPECT_NEAR(measured.mean_s * 26.0, 1.0, 0.05) << cv;
    EXPECT_NEAR(measured.cv / cv, 1.0, 0.1) << cv;
  }
}

TEST(Arrivals, WithoutVariationTickLikeAMetronome) {
  const auto times = arrival_times({4.0, 0.0}, 4, 5);
  EXPECT_EQ(times, (std::vector<std::int64_t>{0, 250'000'000, 500'000'000, 750'000'000}));
}

TEST(Arrivals, AreTheSameForTheSameSeedAndOthersForAnother) {
  EXPECT_EQ(arrival_times({5.0, 1.0}, 100, 9), arrival_times({5.0, 1.0}, 100, 9));
  EXPECT_NE(arrival_times({5.0, 1.0}, 100, 9), arrival_times({5.0, 1.0}, 100, 10));
}

TEST(Arrivals, RefuseRatesAndVariationsThatAreNone) {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE((arrival_process{-1.0, 1.0}.valid()));
  EXPECT_FALSE((arrival_process{nan, 1.0}.valid()));
  EXPECT_FALSE((arrival_process{1.0, nan}.valid()));
  EXPECT_FALSE((arrival_process{1.0, -0.1}.valid()));
  EXPECT_FALSE((arrival_process{1.0, 101.0}.valid()));
  EXPECT_TRUE((arrival_process{0.0, 0.0}.valid()));
}

} // namespace
} // namespace godwit::protocols::workload
