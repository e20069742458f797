#include "main/latency_stats.hpp"

#include <gtest/gtest.h>

namespace godwit::main {
namespace {

// numpy.percentile([4, 1, 3, 2, 10], [50, 90, 99]) gives 3, 7.6, 9.76.
TEST(LatencyStats, InterpolatesPercentilesAsNumpyDoes) {
  const auto s = summarise({4, 1, 3, 2, 10});
  EXPECT_EQ(s.count, 5U);
  EXPECT_DOUBLE_EQ(s.mean, 4.0);
  EXPECT_DOUBLE_EQ(s.p50, 3.0);
  EXPECT_DOUBLE_EQ(s.p90, 7.6);
  EXPECT_DOUBLE_EQ(s.p99, 9.76);
  EXPECT_DOUBLE_EQ(s.max, 10.0);
}

TEST(LatencyStats, OfOneValueAreThatValueAndOfNoneZero) {
  EXPECT_DOUBLE_EQ(summarise({2.5}).p99, 2.5);
  EXPECT_EQ(summarise({}).count, 0U);
  EXPECT_DOUBLE_EQ(summarise({}).max, 0.0);
}

} // namespace
} // namespace godwit::main
