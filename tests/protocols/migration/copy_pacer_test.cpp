#include <godwit/protocols/migration/copy_pacer.hpp>

#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t mib = 1U << 20U;

TEST(CopyPacer, RestsSoThatCopyingIsItsShareOfTheTime) {
  copy_pacer quarter({0.25});
  EXPECT_EQ(quarter.rest(mib, 1ms), 3ms);
  EXPECT_EQ(quarter.rest(mib, 1ms), 3ms);
  EXPECT_EQ(quarter.rest(2 * mib, 2ms), 6ms); // a larger portion rests as much longer
}

TEST(CopyPacer, AllOfTheTimeMeansNoRest) {
  copy_pacer all({1});
  EXPECT_EQ(all.rest(mib, 5ms), 0ns);
}

TEST(CopyPacer, WaitingForACoreIsNotMultiplied) {
  copy_pacer tenth({0.1});
  EXPECT_EQ(tenth.rest(mib, 1ms), 9ms);
  EXPECT_EQ(tenth.rest(mib, 4ms), 6ms);  // 3 ms of it were waiting: the same 10 ms for a MiB
  EXPECT_EQ(tenth.rest(mib, 30ms), 0ns); // never negative
}

TEST(CopyPacer, ALinkThatStaysSlowIsBelievedAfterSomePortions) {
  copy_pacer half({0.5});
  (void)half.rest(mib, 1ms);
  for (std::size_t i = 1; i < copy_pacer::remembered; ++i) EXPECT_EQ(half.rest(mib, 10ms), 0ns);
  EXPECT_EQ(half.rest(mib, 10ms), 10ms); // the quick one is forgotten
}

TEST(CopyPacer, ARateIsGrantedWhereTheShareWouldBeLess) {
  // 3 %, or 200 MB/s where that is more, up to a quarter.
  const copy_pacer::pace granted{0.03, 200e6, 0.25};
  constexpr std::uint64_t portion = 8'000'000;
  EXPECT_EQ(copy_pacer(granted).rest(portion, 800us).count() / 1000, 25'866); // 10 GB/s: 3 %, 300 MB/s
  EXPECT_EQ(copy_pacer(granted).rest(portion, 8ms), 32ms);                    // 1 GB/s: 200 MB/s
  EXPECT_EQ(copy_pacer(granted).rest(portion, 80ms), 240ms);                  // 100 MB/s: a quarter of it
}

TEST(CopyPacer, NoRestIsLongerThanAMinute) {
  copy_pacer hardly({1e-300});
  EXPECT_EQ(hardly.rest(mib, 10s), copy_pacer::rest_max);
}

TEST(CopyPacer, NothingCopiedIsNoPace) {
  copy_pacer half({0.5});
  EXPECT_EQ(half.rest(0, 1ms), 0ns);
  EXPECT_EQ(half.rest(mib, 1ms), 1ms);
}

} // namespace
} // namespace godwit::protocols
