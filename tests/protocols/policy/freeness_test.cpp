#include "loads.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

// Llumnix, OSDI '24, Algorithm 1, row by row, and what it leaves open.
namespace godwit::protocols {
namespace {

constexpr auto uint_max = std::numeric_limits<std::uint32_t>::max();

TEST(AlgorithmOne, AQueuedRequestAtTheHeadOfLineCountsWithItsDemand) {
  auto r = load_of(1, 40, 4);
  r.waiting = 1;
  r.queued_blocks = 25;
  EXPECT_EQ(virtual_usage(r), 65U);
  EXPECT_DOUBLE_EQ(freeness(r), 35.0 / 4);
}

TEST(AlgorithmOne, AQueuedRequestBehindTheHeadOfLineCountsNothing) {
  auto r = load_of(1, 40, 4);
  r.waiting = 1;
  r.queued_blocks = 25;
  r.waiting_blocks = 25;
  auto more_wait = r;
  more_wait.waiting = 9;
  more_wait.waiting_blocks = 900;
  EXPECT_EQ(virtual_usage(more_wait), virtual_usage(r));
  EXPECT_EQ(freeness(more_wait), freeness(r));
}

TEST(AlgorithmOne, AFakeRequestHasInfiniteVirtualUsageSoThatATerminatingInstanceHasNoFreeness) {
  auto r = load_of(1); // even an idle one
  r.terminating = true;
  EXPECT_EQ(freeness(r), no_freeness);
  EXPECT_EQ(freeness(r, -1'000'000, -5), no_freeness);
  EXPECT_LT(freeness(r), freeness(load_with_freeness(2, -9000)));
}

TEST(AlgorithmOne, ARunningRequestCountsWithThePhysicalMemoryThatItHolds) {
  EXPECT_EQ(virtual_usage(load_of(1, 40, 4)), 40U);
  EXPECT_DOUBLE_EQ(freeness(load_of(1, 40, 4)), 15.0);
}

TEST(AlgorithmOne, HeadroomOfExecutionPrioritiesIsAddedToWhatRunningRequestsHold) {
  auto r = load_of(1, 40, 4);
  r.headroom_blocks = 30;
  EXPECT_EQ(virtual_usage(r), 70U);
  EXPECT_DOUBLE_EQ(freeness(r), 7.5);
}

TEST(AlgorithmOne, FreenessIsWhatVirtualUsageLeavesOfMDividedByTheBatchSize) {
  auto r = load_of(1, 20, 5);
  r.queued_blocks = 10;
  r.headroom_blocks = 15;
  EXPECT_DOUBLE_EQ(freeness(r), (100.0 - 45.0) / 5);
  r.blocks_total = 200;
  EXPECT_DOUBLE_EQ(freeness(r), (200.0 - 45.0) / 5);
}

TEST(Freeness, OfAnIdleInstanceIsItsWholePool) { EXPECT_DOUBLE_EQ(freeness(load_of(1)), 100.0); }

TEST(Freeness, CanBeNegativeByTheDemandOfTheHeadOfLine) {
  auto r = load_of(1, 90, 3);
  r.waiting = 1;
  r.queued_blocks = 40;
  EXPECT_DOUBLE_EQ(freeness(r), -30.0);
}

TEST(Freeness, CanBeNegativeByHeadroom) {
  auto r = load_of(1, 70, 5);
  r.headroom_blocks = 60;
  EXPECT_DOUBLE_EQ(freeness(r), -30.0);
}

TEST(Freeness, ThatIsNegativeIsNotDividedSinceWhatLacksIsNotLessForBeingShared) {
  auto few = load_of(1, 90, 1);
  auto many = load_of(2, 90, 8);
  few.queued_blocks = many.queued_blocks = 40;
  EXPECT_DOUBLE_EQ(freeness(few), freeness(many));
}

TEST(Freeness, OfAnInstanceWhereNothingRunsAndAllWaitsIsWhatTheHeadOfLineLeaves) {
  auto r = load_of(1);
  r.waiting = 5;
  r.queued_blocks = 70;
  EXPECT_DOUBLE_EQ(freeness(r), 30.0);
  r.queued_blocks = 120; // it fits nowhere
  EXPECT_DOUBLE_EQ(freeness(r), -20.0);
}

TEST(Freeness, OfAnInstanceAsItWouldBe) {
  const auto r = load_of(1, 40, 4);
  EXPECT_DOUBLE_EQ(freeness(r, 10, 1), 50.0 / 5);
  EXPECT_DOUBLE_EQ(freeness(r, -10, -1), 70.0 / 3);
  EXPECT_DOUBLE_EQ(freeness(r, 80, 1), -20.0);
  EXPECT_DOUBLE_EQ(freeness(r, 0, -9), 60.0) << "no fewer than none";
}

TEST(Freeness, DoesNotOverflowWhateverAReportSays) {
  auto r = load_of(1);
  r.blocks_used = r.queued_blocks = r.headroom_blocks = uint_max;
  EXPECT_EQ(virtual_usage(r), std::uint64_t{3} * uint_max);
  EXPECT_DOUBLE_EQ(freeness(r), 100.0 - 3.0 * uint_max);
  r = load_of(1);
  r.blocks_total = uint_max;
  EXPECT_DOUBLE_EQ(freeness(r), double{uint_max});
}

TEST(Freeness, InMessagesIsFinite) {
  EXPECT_EQ(finite(no_freeness), -freeness_bound);
  EXPECT_EQ(finite(std::numeric_limits<double>::infinity()), freeness_bound);
  EXPECT_EQ(finite(std::numeric_limits<double>::quiet_NaN()), -freeness_bound);
  EXPECT_EQ(finite(-12.5), -12.5);
}

} // namespace
} // namespace godwit::protocols
