#include <godwit/protocols/batching/copy_meter.hpp>

#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

TEST(CopyMeter, KnowsNothingBeforeTheFirstCopy) {
  copy_meter meter;
  EXPECT_EQ(meter.ns_per_block(), 0);
  meter.took(0, 1000);
  meter.took(4, -1);
  EXPECT_EQ(meter.ns_per_block(), 0);
}

TEST(CopyMeter, IsTheMeanOfTheLastBlocks) {
  copy_meter meter;
  meter.took(10, 1000);
  EXPECT_DOUBLE_EQ(meter.ns_per_block(), 100);
  meter.took(10, 3000);
  EXPECT_NEAR(meter.ns_per_block(), 200, 2) << "copies count by their blocks";
  for (int i = 0; i < 100; ++i) meter.took(100, 500 * 100);
  EXPECT_NEAR(meter.ns_per_block(), 500, 1) << "what was before is forgotten";
}

TEST(CopyMeter, AHugeCopyIsAllThatCounts) {
  copy_meter meter;
  meter.took(10, 1000);
  meter.took(5000, 5000 * 50);
  EXPECT_DOUBLE_EQ(meter.ns_per_block(), 50);
}

TEST(CopyMeter, ACopyCountsAtMostEightTimesAsLongAsUsual) {
  copy_meter meter;
  for (int i = 0; i < 20; ++i) meter.took(10, 1000);
  meter.took(10, 1'000'000'000);
  EXPECT_LT(meter.ns_per_block(), 140);
}

TEST(CopyMeter, WhatWasFarTooMuchIsSoonForgotten) {
  copy_meter meter;
  meter.took(3, 50'000'000);
  meter.took(2, 20);
  EXPECT_LT(meter.ns_per_block(), 0.4 * 50'000'000 / 3);
  for (int i = 0; i < 12; ++i) meter.took(2, 20);
  EXPECT_LT(meter.ns_per_block(), 200);
}

} // namespace
} // namespace godwit::protocols
