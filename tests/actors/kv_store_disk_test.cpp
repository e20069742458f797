// The disk below a shard's memory: what goes there comes back as it was, and what the disk does wrong costs what was on
// it. The shard has memory for four chunks; below it are eight slots, of a disk that is as fast unless it is told
// otherwise.
#include "actors/support/shard_test.hpp"

#include <godwit/transport/sim/disk.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;

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
  ShardDiskTest() {
    keeper = system->spawn<keeper_of_reports>(&report);
    settings.slots = 8;
    settings.slot_bytes = 512;
    settings.bytes_per_second = 1e9;
    settings.latency = 10us;
    settings.late = [this](bool reads, std::uint32_t) {
      most_open = std::max(most_open, ++open);
      return reads ? reads_late : writes_late;
    };
    settings.fails = [this](bool reads, std::uint32_t slot) -> std::string {
      --open;
      return (reads ? reads_fail : writes_fail || bad_slots.contains(slot)) ? "broken" : "";
    };
    restart();
  }
  ~ShardDiskTest() override { EXPECT_TRUE(system->shutdown()); } // before what the disk calls
  void restart() { start_shard(transport::sim::make_disk(settings, world.timers()), adjust); }
  /// One after the other, so that those that no memory is left for have gone to the disk before.
  void bring_all(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i) bring({i});
  }
  void look_at(std::vector<std::uint64_t> which) {
    protocols::store_look look;
    for (const auto i : which) look.names.push_back(name_of(i));
    (void)ask(look);
  }
  protocols::store_report now_reported() {
    world.run_for(1100ms);
    return report;
  }
  std::chrono::nanoseconds time_of(const std::function<void()>& what) {
    const auto began = world.now();
    what();
    return world.now() - began;
  }

  transport::sim::disk_settings settings;
  std::function<void(actors::kv_store_settings&)> adjust;
  bool reads_fail = false, writes_fail = false;
  std::set<std::uint32_t> bad_slots;
  std::chrono::nanoseconds reads_late{0}, writes_late{0};
  int open = 0, most_open = 0;
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
  EXPECT_EQ(seen.disk_written_total, 8U) << "each once, though some were read";
  EXPECT_EQ(seen.disk_bytes_used, 8 * 512U);
  EXPECT_GE(seen.disk_read_total, 4U);
  EXPECT_EQ(seen.disk_evicted_total, 0U);
  EXPECT_EQ(seen.disk_failed_total, 0U);
  EXPECT_EQ(seen.filed_total, 8U) << "that instances brought";
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
  look_at({1, 2});
  EXPECT_EQ(now_reported().disk_read_total, 2U);
  reads_late = 10s;
  EXPECT_THAT(fetch({1, 2}), ElementsAre(1, 2)) << "they were there";
}

TEST_F(ShardDiskTest, ReadsNoMoreForNobodyThanHalfOfItsMemory) {
  bring_all(1, 8);
  look_at({1, 2, 3, 4});
  EXPECT_EQ(now_reported().disk_read_total, 2U);
}

TEST_F(ShardDiskTest, WhatIsReadForAPromptTakesNothingFromIt) {
  bring_all(1, 8);
  look_at({5, 6, 1, 2}); // two of them are the oldest in memory
  world.run_for(1s);
  reads_late = 10s;
  EXPECT_THAT(fetch({5, 6, 1, 2}), ElementsAre(5, 6, 1, 2));
}

TEST_F(ShardDiskTest, WhatIsFetchedGoesBeforeWhatWasLookedFor) {
  adjust = [](actors::kv_store_settings& s) { s.disk_reads_max = 1; };
  restart();
  bring_all(1, 8);
  reads_late = 100ms;
  look_at({1, 2});
  EXPECT_LT(time_of([&] { EXPECT_THAT(fetch({3}), ElementsAre(3)); }), 250ms) << "the one under way, and this";
  world.run_for(1s);
  reads_late = 10s;
  EXPECT_THAT(fetch({2}), ElementsAre(2)) << "it came after that";
}

TEST_F(ShardDiskTest, DoesNoMoreAtATimeThanItMay) {
  adjust = [](actors::kv_store_settings& s) { s.disk_reads_max = 2, s.disk_writes_max = 1; };
  settings.slots = 64;
  restart();
  writes_late = 1ms;
  bring_all(1, 8);
  EXPECT_EQ(most_open, 1);
  world.run_for(1s);
  most_open = 0;
  reads_late = 1ms;
  (void)fetch({1, 2, 3, 4});
  EXPECT_EQ(most_open, 2);
}

TEST_F(ShardDiskTest, ReadsTakeNothingThatOnlyMemoryHas) {
  bring_all(1, 4);
  world.run_for(100ms);
  writes_fail = true;
  bring_all(5, 8); // the four before them are on the disk
  look_at({1, 2});
  look_at({1, 2});
  world.run_for(100ms);
  EXPECT_THAT(filed(8), Each(1));
  EXPECT_EQ(now_reported().disk_read_total, 0U) << "nothing is given up for what nobody waits for";
}

TEST_F(ShardDiskTest, WhoFetchesWaitsForAWriteThatMakesRoom) {
  bring_all(1, 4);
  writes_late = 100ms;
  bring({5, 6, 7, 8}); // which are still being written
  EXPECT_GT(time_of([&] { EXPECT_THAT(fetch({1}), ElementsAre(1)); }), 50ms);
  world.run_for(1s);
  EXPECT_THAT(filed(8), Each(1)) << "nothing is lost";
}

TEST_F(ShardDiskTest, WhatLosesItsPlaceOnTheDiskIsCopiedAgainOnceItIsUsed) {
  settings.slots = 4;
  restart();
  bring_all(1, 4);
  EXPECT_THAT(fetch({1}), ElementsAre(1));
  bring({5}); // takes memory from 2, and the place of 1 on the disk
  EXPECT_EQ(now_reported().disk_written_total, 5U);
  EXPECT_THAT(fetch({1}), ElementsAre(1));
  EXPECT_EQ(now_reported().disk_written_total, 6U);
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
  world.run_for(61s);
  bring_all(9, 12);
  EXPECT_GT(now_reported().disk_written_total, 0U);
}

TEST_F(ShardDiskTest, APlaceThatCannotBeWrittenIsLeftAloneAndTheOthersServeOn) {
  bad_slots = {3, 5};
  for (std::uint64_t i = 1; i <= 60; ++i) {
    bring({i});
    world.run_for(10s);
  }
  EXPECT_LE(now_reported().disk_failed_total, 11U) << "it is tried once a minute";
  EXPECT_THAT(fetch({56}), ElementsAre(56));
  EXPECT_EQ(now_reported().disk_bytes_used, 6 * 512U);
  bad_slots.clear();
  for (std::uint64_t i = 61; i <= 70; ++i) {
    bring({i});
    world.run_for(61s);
  }
  EXPECT_EQ(now_reported().disk_bytes_used, 8 * 512U) << "it is whole again";
}

// As a file without its room on a file system that is full.
TEST_F(ShardDiskTest, ADiskOfWhichAPartCannotBeWrittenServesWithTheRest) {
  settings.slots = 1000;
  for (std::uint32_t i = 10; i < settings.slots; ++i) bad_slots.insert(i);
  restart();
  for (std::uint64_t i = 1; i <= 40; ++i) {
    bring({i});
    world.run_for(1s);
  }
  for (std::uint64_t i = 40; i > 32; --i) EXPECT_THAT(fetch({i}), ElementsAre(static_cast<int>(i)));
  EXPECT_EQ(now_reported().disk_bytes_used, 10 * 512U);
  EXPECT_LE(report.disk_failed_total, 3U);
}

TEST_F(ShardDiskTest, ADiskThatStandsStillIsNotWaitedForTwice) {
  bring_all(1, 6);
  world.run_for(100ms);
  reads_late = 20s;
  EXPECT_GE(time_of([&] { EXPECT_THAT(fetch({1, 6}), ElementsAre(0, 6)); }), 700ms);
  world.run_for(2s);
  EXPECT_LT(time_of([&] { EXPECT_THAT(fetch({2, 6}), ElementsAre(0, 6)); }), 100ms) << "memory serves on";
  EXPECT_THAT(filed(6), ElementsAre(0, 0, 0, 1, 1, 1)) << "and a place for the first, where it is still read to";
  reads_late = 0s;
  world.run_for(20s);
  EXPECT_THAT(filed(6), Each(1)) << "it goes on";
  EXPECT_THAT(fetch({1, 2}), ElementsAre(1, 2));
}

TEST_F(ShardDiskTest, AFetchWaitsForASlowDiskNoLongerThanItsCallerForTheShard) {
  bring_all(1, 6);
  world.run_for(100ms);
  reads_late = 900ms; // of 750 that are given to it
  EXPECT_LE(time_of([&] { EXPECT_THAT(fetch({6, 1}), ElementsAre(6, 0)); }), 1s);
  world.run_for(2s);
  reads_late = 10s;
  EXPECT_THAT(fetch({1}), ElementsAre(1)) << "it came for the next one";
}

TEST_F(ShardDiskTest, MoreThanMemoryHoldsIsFetchedInPieces) {
  settings.slots = 16;
  restart();
  bring_all(1, 12);
  world.run_for(100ms);
  EXPECT_THAT(fetch({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST_F(ShardDiskTest, ADiskThatWasFullForAWhileIsSoonWholeAgain) {
  settings.slots = 64;
  restart();
  writes_fail = true;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    bring({i});
    world.run_for(1s);
  }
  EXPECT_GT(now_reported().disk_failed_total, 0U);
  writes_fail = false;
  world.run_for(61s);
  bring_all(21, 120);
  world.run_for(1s);
  EXPECT_EQ(now_reported().disk_bytes_used, 64 * 512U);
}

TEST_F(ShardDiskTest, ADiskOfOneChunkIsUsed) {
  settings.slots = 1;
  restart();
  bring_all(1, 5);
  world.run_for(100ms);
  EXPECT_GT(now_reported().disk_written_total, 1U);
}

TEST_F(ShardDiskTest, ADiskCutOtherwiseIsNotUsed) {
  settings.slot_bytes = 1024;
  restart();
  bring_all(1, 6);
  EXPECT_EQ(now_reported().disk_bytes, 0U);
  EXPECT_THAT(filed(6), ElementsAre(0, 0, 1, 1, 1, 1));
}

TEST_F(ShardDiskTest, TheNextShardUsesTheDiskWhoeverWritesThereStill) {
  const auto disk = transport::sim::make_disk(settings, world.timers());
  start_shard(disk);
  writes_late = 3s;
  bring_all(1, 4);
  start_shard(disk); // in the middle of two writes
  EXPECT_THAT(filed(4), Each(0));
  bring_all(11, 13); // to the same places
  writes_late = 0s;
  world.run_for(10s);
  bring_all(14, 18);
  for (std::uint64_t i = 11; i <= 18; ++i) EXPECT_THAT(fetch({i}), ElementsAre(static_cast<int>(i))) << i;
  EXPECT_EQ(now_reported().disk_failed_total, 0U);
}

// Which nobody intends. What one has written is an error to the other, and no chunk of its own.
TEST_F(ShardDiskTest, TwoShardsOnOneDiskGiveNobodyWhatIsNotTheirs) {
  const auto disk = transport::sim::make_disk(settings, world.timers());
  start_shard(disk);
  bring_all(1, 8);
  const auto first = std::exchange(shard, {});
  start_shard(disk);
  bring_all(11, 18);
  const auto second = std::exchange(shard, first);
  int missing = 0;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    const auto got = fetch({i});
    EXPECT_THAT(got, ElementsAre(::testing::AnyOf(0, static_cast<int>(i)))) << i;
    missing += got.front() == 0 ? 1 : 0;
  }
  EXPECT_GE(missing, 4);
  system->stop(second);
}

} // namespace godwit::test
