// The disk below a shard's memory: what goes there comes back as it was, and what the disk does wrong costs what was on
// it.
#include "actors/support/shard_test.hpp"

#include <godwit/transport/sim/disk.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::test {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

namespace {

struct keeper_of_reports final : runtime::actor<actors::store_keeper_interface> {
  keeper_of_reports(runtime::actor_context c, protocols::store_report* to) : actor(c), last(to) {}
  runtime::behavior_of<actors::store_keeper_interface> make_behavior() override {
    return {[this](protocols::store_report& news) { *last = news; }};
  }
  protocols::store_report* last;
};

class ShardDiskTest : public ShardTest {
protected:
  /// As fast as memory, unless told otherwise.
  ShardDiskTest() {
    keeper = system->spawn<keeper_of_reports>(&report);
    settings.slots = 8;
    settings.slot_bytes = 512;
    settings.bytes_per_second = 1e9;
    settings.latency = 10us;
    settings.fails = [this](bool reads) -> std::string { return (reads ? reads_fail : writes_fail) ? "broken" : ""; };
    restart();
  }
  void restart() { start_shard(transport::sim::make_disk(settings, world.timers())); }
  /// One after the other, so that those that no memory is left for have gone to the disk before.
  void bring_all(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i) bring({i});
  }
  protocols::store_report now_reported() {
    world.run_for(1100ms);
    return report;
  }

  transport::sim::disk_settings settings;
  bool reads_fail = false, writes_fail = false;
  protocols::store_report report;
};

} // namespace

TEST_F(ShardDiskTest, KeepsWhatMemoryHasNoRoomFor) {
  bring_all(1, 8);
  EXPECT_THAT(filed(9), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(fetch({1, 2, 3}), ElementsAre(1, 2, 3)) << "from the disk";
  EXPECT_THAT(fetch({8, 9, 4}), ElementsAre(8, 0, 4));
  const auto seen = now_reported();
  EXPECT_EQ(seen.disk_bytes, 8 * 512U);
  EXPECT_GE(seen.disk_written_total, 4U);
  EXPECT_GE(seen.disk_read_total, 4U);
  EXPECT_EQ(seen.disk_bytes_used, (seen.disk_written_total - seen.disk_evicted_total) * 512);
  EXPECT_EQ(seen.disk_failed_total, 0U);
}

TEST_F(ShardDiskTest, WritesNothingWhileMemoryHasRoom) {
  bring({1, 2});
  EXPECT_EQ(now_reported().disk_written_total, 0U);
  EXPECT_EQ(report.disk_bytes_used, 0U);
  bring({3});
  EXPECT_EQ(now_reported().disk_written_total, 3U) << "more than half of it is in use";
}

TEST_F(ShardDiskTest, ForgetsTheOldestWhenTheDiskIsFull) {
  bring_all(1, 20);
  for (std::uint64_t i = 20; i > 12; --i) EXPECT_THAT(fetch({i}), ElementsAre(static_cast<int>(i))) << i;
  EXPECT_THAT(filed(7), Each(0));
  EXPECT_GT(now_reported().disk_evicted_total, 0U);
}

TEST_F(ShardDiskTest, ALookBringsItIntoMemoryBeforeItIsFetched) {
  bring_all(1, 6);
  EXPECT_EQ(now_reported().disk_read_total, 0U);
  protocols::store_look look;
  look.names = {name_of(1), name_of(2)};
  EXPECT_THAT(ask(look).filed, ElementsAre(1, 1));
  EXPECT_EQ(now_reported().disk_read_total, 2U);
  EXPECT_THAT(fetch({1, 2}), ElementsAre(1, 2));
  EXPECT_EQ(now_reported().disk_read_total, 2U) << "they were there";
}

TEST_F(ShardDiskTest, WhatIsReadAheadTakesNothingThatOnlyMemoryHas) {
  bring_all(1, 8);
  for (int i = 0; i < 20; ++i) {
    protocols::store_look look;
    for (std::uint64_t n = 1; n <= 4; ++n) look.names.push_back(name_of(n));
    EXPECT_THAT(ask(look).filed, Each(1)) << i;
    world.run_for(10ms);
    for (std::uint64_t n = 5; n <= 8; ++n) EXPECT_THAT(fetch({n}), ElementsAre(static_cast<int>(n))) << i;
  }
}

TEST_F(ShardDiskTest, DoesNotWantWhatIsOnTheDisk) {
  bring_all(1, 6);
  EXPECT_THAT(offer({1, 2, 7}).wanted, ElementsAre(2));
}

TEST_F(ShardDiskTest, WhatCannotBeReadIsNotThereAnyMore) {
  bring_all(1, 6);
  reads_fail = true;
  EXPECT_THAT(fetch({1, 6}), ElementsAre(0, 6));
  reads_fail = false;
  EXPECT_THAT(filed(6), ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(fetch({1, 2}), ElementsAre(0, 2));
  EXPECT_EQ(now_reported().disk_failed_total, 1U);
  bring({1});
  EXPECT_THAT(fetch({1}), ElementsAre(1));
}

TEST_F(ShardDiskTest, WhatCannotBeWrittenIsForgottenAndTriedNoMoreForAWhile) {
  writes_fail = true;
  bring_all(1, 8);
  EXPECT_THAT(filed(8), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  const auto failures = now_reported().disk_failed_total;
  EXPECT_GE(failures, 1U);
  EXPECT_LE(failures, 2U) << "within a second";
  writes_fail = false;
  world.run_for(2s);
  bring_all(9, 12);
  EXPECT_GT(now_reported().disk_written_total, 0U);
}

TEST_F(ShardDiskTest, ADiskThatStandsStillIsNotWaitedForTwice) {
  bring_all(1, 6);
  settings.bytes_per_second = 1; // minutes for a chunk
  restart();
  bring_all(1, 4);
  world.run_for(5s); // the write has hung for longer than a load may
  const auto began = world.now();
  EXPECT_THAT(fetch({4, 9}), ElementsAre(4, 0));
  EXPECT_LT(world.now() - began, 100ms);
  bring({5});
  EXPECT_THAT(fetch({5}), ElementsAre(5)) << "memory serves on";
  EXPECT_THAT(filed(4), Each(testing::AnyOf(0, 1)));
}

TEST_F(ShardDiskTest, AFetchWaitsForASlowDiskNoLongerThanItsCallerForTheShard) {
  bring_all(1, 6);
  settings.latency = 900ms; // of 750 that are given to it
  restart();
  bring_all(1, 4);
  world.run_for(2s);
  bring_all(5, 6);
  world.run_for(2s);
  const auto began = world.now();
  EXPECT_THAT(fetch({6, 1}), ElementsAre(6, 0));
  EXPECT_LE(world.now() - began, 1s + 10ms);
  world.run_for(2s);
  EXPECT_THAT(fetch({1}), ElementsAre(1)) << "it came for the next one";
}

TEST_F(ShardDiskTest, MoreThanMemoryHoldsIsFetchedAsFarAsItGoes) {
  bring_all(1, 8);
  EXPECT_THAT(fetch({1, 2, 3, 4}), SizeIs(4));
  const auto got = fetch({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_GE(std::ranges::count_if(got, [](int v) { return v != 0; }), 4);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_THAT(got[i], testing::AnyOf(0, static_cast<int>(i + 1)));
}

TEST_F(ShardDiskTest, ADiskCutOtherwiseIsNotUsed) {
  settings.slot_bytes = 1024;
  restart();
  bring_all(1, 6);
  EXPECT_EQ(now_reported().disk_bytes, 0U);
  EXPECT_THAT(filed(6), ElementsAre(0, 0, 1, 1, 1, 1));
}

TEST_F(ShardDiskTest, EndsInTheMiddleOfAWrite) {
  settings.bytes_per_second = 1000;
  restart();
  bring_all(1, 4);
  start_shard(nullptr);
  world.run_for(5s);
  EXPECT_THAT(filed(4), Each(0));
}

} // namespace godwit::test
