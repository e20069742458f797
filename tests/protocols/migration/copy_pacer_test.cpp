#include <godwit/protocols/migration/copy_pacer.hpp>

#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t mib = 1U << 20U;
/// Of a stretch of that size no limit binds here.
constexpr std::uint64_t stage_bytes = mib;

copy_pacer pacer(double share) {
  copy_pacer::pace granted;
  granted.share = share;
  return copy_pacer(granted);
}

TEST(CopyPacer, RestsSoThatCopyingIsItsShareOfTheTime) {
  auto quarter = pacer(0.25);
  EXPECT_EQ(quarter.rest(mib, stage_bytes, 1ms), 3ms);
  EXPECT_EQ(quarter.rest(mib, stage_bytes, 1ms), 3ms);
  EXPECT_EQ(quarter.rest(2 * mib, stage_bytes, 2ms), 6ms); // a larger portion rests as much longer
}

TEST(CopyPacer, AllOfTheTimeMeansNoRest) {
  auto all = pacer(1);
  EXPECT_EQ(all.rest(mib, stage_bytes, 5ms), 0ns);
}

TEST(CopyPacer, WaitingForACoreIsNotMultiplied) {
  auto tenth = pacer(0.1);
  EXPECT_EQ(tenth.rest(mib, stage_bytes, 1ms), 9ms);
  EXPECT_EQ(tenth.rest(mib, stage_bytes, 4ms), 6ms);  // 3 ms of it were waiting: the same 10 ms for a MiB
  EXPECT_EQ(tenth.rest(mib, stage_bytes, 30ms), 0ns); // never negative
}

TEST(CopyPacer, ALinkThatStaysSlowIsBelievedAfterSomePortions) {
  auto half = pacer(0.5);
  (void)half.rest(mib, stage_bytes, 1ms);
  for (std::size_t i = 1; i < copy_pacer::remembered; ++i) EXPECT_EQ(half.rest(mib, stage_bytes, 10ms), 0ns);
  EXPECT_EQ(half.rest(mib, stage_bytes, 10ms), 10ms); // the quick one is forgotten
}

TEST(CopyPacer, ARateIsGrantedWhereTheShareWouldBeLess) {
  // 3 %, or 200 MB/s where that is more, up to a quarter.
  copy_pacer::pace granted;
  granted.share = 0.03;
  granted.bytes_per_second = 200e6;
  granted.share_max = 0.25;
  constexpr std::uint64_t portion = 8'000'000;
  EXPECT_EQ(copy_pacer(granted).rest(portion, portion, 800us).count() / 1000, 25'866); // 10 GB/s: 3 %, 300 MB/s
  EXPECT_EQ(copy_pacer(granted).rest(portion, portion, 8ms), 32ms);                    // 1 GB/s: 200 MB/s
  EXPECT_EQ(copy_pacer(granted).rest(portion, portion, 80ms), 240ms);                  // 100 MB/s: a quarter of it
}

TEST(CopyPacer, HoweverSmallItsShareAStretchEndsInItsTime) {
  copy_pacer::pace granted;
  granted.share = 0.001;
  granted.stretch_max = 10s;
  copy_pacer slow(granted);
  EXPECT_EQ(slow.rest(mib, 100 * mib, 10ms), 90ms); // a hundredth of 10 s, not 9.99 s
  EXPECT_EQ(slow.rest(mib, 100 * mib, 150ms), 0ns); // late already
  EXPECT_EQ(slow.rest(mib, 2 * mib, 10ms), 4990ms); // a shorter one has time
  EXPECT_EQ(slow.rest(mib, 2 * mib, 1us), 999us);   // and here the share is less
}

TEST(CopyPacer, NoRestIsLongerThanTheOtherSideWaits) {
  copy_pacer::pace granted;
  granted.share = 1e-320;
  granted.rest_max = 3s;
  EXPECT_EQ(copy_pacer(granted).rest(mib, mib, 10s), 3s);
}

TEST(CopyPacer, NothingCopiedIsNoPace) {
  auto half = pacer(0.5);
  EXPECT_EQ(half.rest(0, stage_bytes, 1ms), 0ns);
  EXPECT_EQ(half.rest(mib, stage_bytes, 1ms), 1ms);
}

} // namespace
} // namespace godwit::protocols
