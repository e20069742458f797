// What a llumlet does for the scheduler's policies: the requests that it moves while it is marked, and how it is
// drained.
#include "actors/support/llumlet_world.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::freeness;
using protocols::request_state;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

using cause = protocols::migration_cause::kind;

bool all_decode(const protocols::instance_status& instance) {
  return std::ranges::all_of(instance.requests, [](const auto& r) { return r.answer_tokens > 0; });
}

/// Requests of six blocks and more on instance 0, until all of them decode.
void load_up(llumlet_world& w, std::uint32_t requests = 6, std::uint32_t answer = 600) {
  for (std::uint32_t i = 1; i <= requests; ++i) ASSERT_TRUE(w.admit(0, i, 90, answer));
  ASSERT_TRUE(w.run_until([&] { return all_decode(w.status(0)); }));
}

llumlet_world::options at_once() {
  llumlet_world::options o;
  o.blocks = 300;
  o.adjust = [](actors::llumlet_options& l) { l.selection.cooldown_ns = 0; };
  return o;
}

} // namespace

// Llumnix section 4.4.3: a marked source keeps migrating until it is no worse than its destination.
TEST(LlumletPolicy, AMarkMovesRequestsUntilThePairIsLevel) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1);
  w.world.run_for(500ms);
  EXPECT_EQ(w.books->committed(), 3U);
  EXPECT_EQ(w.status(0).load.running, 3U);
  EXPECT_EQ(w.status(1).load.running, 3U);
  w.mark_rounds(0, 1, 5);
  w.mark_rounds(1, 0, 5);
  EXPECT_EQ(w.books->reports.size(), 3U) << "and then stays as it is, whichever is marked";
}

TEST(LlumletPolicy, TheRequestsOfAMarkGoOneAfterTheOtherAndSayWhy) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1);
  std::size_t most = 0;
  ASSERT_TRUE(w.run_until([&] {
    most = std::max(most, w.status(0).migrations.size());
    return w.books->committed() == 3;
  }));
  EXPECT_EQ(most, 1U);
  for (const auto& report : w.books->reports) {
    EXPECT_EQ(report.cause.what, cause::freeness);
    EXPECT_EQ(report.cause.round, 1U);
    EXPECT_LT(report.cause.source_before, report.cause.source_after);
    EXPECT_GT(std::min(report.cause.source_after, report.cause.destination_after), report.cause.source_before);
  }
}

TEST(LlumletPolicy, ARequestStaysForItsCoolDownWhereAMigrationBroughtIt) {
  llumlet_world w({.blocks = 400});
  load_up(w, 6, 900);
  w.mark(0, 1);
  w.world.run_for(200ms);
  const auto brought = w.with_state(1, request_state::running);
  ASSERT_THAT(brought, SizeIs(3));
  for (std::uint32_t i = 11; i <= 15; ++i) ASSERT_TRUE(w.admit(1, i, 200, 700)); // longer: not those that go first
  w.mark_rounds(1, 0, 5);
  EXPECT_GT(w.books->committed(), 3U);
  for (const auto id : brought) EXPECT_THAT(w.with_state(1, request_state::running), ::testing::Contains(id));
}

// The scheduler's news of the destination are older than what this instance has just sent there.
TEST(LlumletPolicy, AMarkWithAnOldReportDoesNotOverloadItsDestination) {
  llumlet_world w(at_once());
  load_up(w);
  const auto idle = w.status(1).load;
  w.mark(0, 1, 600ms, idle);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 3; }));
  w.mark(0, 1, 600ms, idle);
  w.world.run_for(500ms);
  EXPECT_EQ(w.books->reports.size(), 3U);
}

// Rounds pair instances anew: the request under way goes where it was going, the next one to the new destination, and
// the one before is no emptier for it.
TEST(LlumletPolicy, AMarkMayNameAnotherDestinationInTheMiddleOfAMigration) {
  auto o = at_once();
  o.instances = 3;
  llumlet_world w(o);
  load_up(w);
  const auto idle = w.status(1).load;
  w.mark(0, 1, 600ms, idle);
  ASSERT_TRUE(w.run_until([&] { return w.status(0).migrations.size() == 1; }));
  w.mark(0, 2);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 2; }));
  EXPECT_EQ(w.books->reports[0].destination, protocols::instance_id{1});
  EXPECT_EQ(w.books->reports[1].destination, protocols::instance_id{2});
  w.mark(0, 1, 600ms, idle); // from before the first one's arrival
  w.world.run_for(500ms);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(w.status(i).load.running, 2U) << "instance " << i;
}

TEST(LlumletPolicy, UnmarkingEndsWhatIsLeftToMove) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.status(0).migrations.size() == 1; }));
  w.unmark(0);
  w.world.run_for(500ms);
  EXPECT_EQ(w.books->reports.size(), 1U) << "the one under way ends as it would";
}

TEST(LlumletPolicy, AMarkWhoseLeaseEndedMovesNothing) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1, 1ms);
  w.world.run_for(500ms);
  EXPECT_LE(w.books->reports.size(), 1U);
  const auto before = w.books->reports.size();
  w.mark(0, 1, 0ms);
  w.world.run_for(500ms);
  EXPECT_EQ(w.books->reports.size(), before);
}

TEST(LlumletPolicy, WithoutASchedulerNoMarkHolds) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.status(0).migrations.size() == 1; }));
  w.announce(false);
  w.world.run_for(400ms);
  EXPECT_EQ(w.books->reports.size(), 1U);
}

TEST(LlumletPolicy, AMarkEndsWithItsDestination) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.status(0).migrations.size() == 1; }));
  w.announce(true, 1);
  w.world.run_for(400ms);
  EXPECT_EQ(w.books->reports.size(), 1U);
}

TEST(LlumletPolicy, FailedMovesDoNotSpin) {
  auto o = at_once();
  o.adjust = [](actors::llumlet_options& l) { l.selection.cooldown_ns = 1'000'000'000; };
  o.blocks = 400;
  llumlet_world w(o);
  load_up(w, 6, 900);
  w.books->grants = false;
  w.mark_rounds(0, 1, 10);
  EXPECT_GE(w.books->reports.size(), 6U) << "each is tried ...";
  EXPECT_LE(w.books->reports.size(), 10U) << "... and no more than one in a round";
  EXPECT_EQ(w.books->committed(), 0U);
  std::map<protocols::request_id, int> tries;
  for (const auto& report : w.books->reports) ++tries[report.request];
  for (const auto& [id, count] : tries) EXPECT_LE(count, 2) << id.value() << " cools down for five rounds";
}

// What defragmentation is for: it has waited since it came, and runs where there is room.
TEST(LlumletPolicy, AHeadOfLineThatFitsElsewhereMovesThereAtOnce) {
  llumlet_world w; // 64 blocks
  load_up(w, 5, 300);
  ASSERT_TRUE(w.admit(0, 9, 700, 4)); // 44 blocks
  w.world.run_for(50ms);
  ASSERT_THAT(w.with_state(0, request_state::waiting), ElementsAre(9));
  EXPECT_LT(freeness(w.status(0).load), 0);
  w.mark(0, 1);
  w.world.run_for(30ms);
  EXPECT_THAT(w.with_state(1, request_state::running), ::testing::Contains(9));
  ASSERT_FALSE(w.books->reports.empty());
  EXPECT_EQ(w.books->reports[0].request, protocols::request_id{9}) << "first of all";
  EXPECT_EQ(w.books->reports[0].bytes, 0U);
}

TEST(LlumletPolicy, AHeadOfLineWhoseMoveFailedCoolsDownToo) {
  llumlet_world w; // 64 blocks, a cool-down of two seconds
  load_up(w, 5, 300);
  ASSERT_TRUE(w.admit(0, 9, 700, 4)); // 44 blocks
  w.world.run_for(50ms);
  w.books->grants = false;
  w.mark_rounds(0, 1, 8);
  int tries = 0;
  for (const auto& report : w.books->reports) tries += report.request == protocols::request_id{9} ? 1 : 0;
  EXPECT_EQ(tries, 1);
}

TEST(LlumletPolicy, LowerPrioritiesLeaveFirst) {
  auto o = at_once();
  o.adjust = [](actors::llumlet_options& l) {
    l.selection.cooldown_ns = 0;
    l.planner.execution_levels = {{"normal", 0}, {"high", 20}};
  };
  llumlet_world w(o);
  for (std::uint32_t i = 1; i <= 4; ++i) ASSERT_TRUE(w.admit(0, i, 90, 300, i == 3 ? 5 : 0, i == 1 ? 1 : 0));
  ASSERT_TRUE(w.run_until([&] { return all_decode(w.status(0)); }));
  EXPECT_EQ(w.status(0).load.headroom_blocks, 20U);
  w.mark(0, 1);
  ASSERT_TRUE(w.run_until([&] { return !w.books->reports.empty(); }));
  EXPECT_EQ(w.books->reports[0].request, protocols::request_id{3});
  w.mark_rounds(0, 1, 2);
  for (const auto& report : w.books->reports) EXPECT_NE(report.request, protocols::request_id{1});
  for (const auto& r : w.status(0).requests)
    EXPECT_EQ(r.execution_level, r.request == protocols::request_id{1} ? 1 : 0);
}

TEST(LlumletDrain, ABusyInstanceWithAMarkGetsRidOfAllAndThenSaysThatItIsEmpty) {
  llumlet_world w; // full: 6 run, and the others wait
  for (std::uint32_t i = 1; i <= 12; ++i) ASSERT_TRUE(w.admit(0, i, 120, 30));
  w.world.run_for(50ms);
  w.drain(0);
  for (int round = 0; round < 20 && w.drained.empty(); ++round) {
    w.mark_rounds(0, 1, 1);
  }
  EXPECT_THAT(w.drained, ElementsAre(protocols::instance_id{0}));
  EXPECT_THAT(w.status(0).requests, IsEmpty());
  EXPECT_GT(w.books->committed(), 0U);
  for (const auto& report : w.books->reports) EXPECT_EQ(report.cause.what, cause::drain);
}

TEST(LlumletDrain, WithoutAMarkItFinishesWhatItHas) {
  llumlet_world w;
  load_up(w, 4, 40);
  w.drain(0);
  w.world.run_for(20ms);
  EXPECT_THAT(w.drained, IsEmpty()) << "it is busy";
  ASSERT_TRUE(w.run_until([&] { return !w.drained.empty(); }));
  EXPECT_TRUE(w.books->all_finished());
  EXPECT_THAT(w.books->reports, IsEmpty());
}

TEST(LlumletDrain, AnIdleInstanceIsEmptyAtOnceAndSaysSoForEachOrder) {
  llumlet_world w;
  w.drain(1);
  w.world.run_for(10ms);
  EXPECT_THAT(w.drained, ElementsAre(protocols::instance_id{1}));
  w.world.run_for(1s);
  EXPECT_THAT(w.drained, SizeIs(1)) << "once";
  w.drain(1);
  w.world.run_for(10ms);
  EXPECT_THAT(w.drained, SizeIs(2)) << "the keeper may have missed it";
}

TEST(LlumletDrain, ItTakesNoRequestsAndSaysThatItTerminates) {
  llumlet_world w;
  load_up(w, 2, 60);
  w.drain(0);
  EXPECT_FALSE(w.admit(0, 7, 10, 10));
  const auto status = w.status(0);
  EXPECT_EQ(status.state, protocols::instance_state::draining);
  EXPECT_TRUE(status.load.terminating);
  EXPECT_TRUE(std::isinf(freeness(status.load)));
}

TEST(LlumletDrain, ItTakesNoMigratingRequestsEither) {
  llumlet_world w(at_once());
  load_up(w);
  w.mark(0, 1); // the mark's report is from before the order
  w.drain(1);
  w.world.run_for(300ms);
  EXPECT_EQ(w.books->committed(), 0U);
  EXPECT_LE(w.books->reports.size(), 1U);
  EXPECT_THAT(w.drained, ElementsAre(protocols::instance_id{1}));
}

TEST(LlumletDrain, NorRequestsThatWouldJoinItsQueue) {
  llumlet_world w; // 64 blocks
  load_up(w, 5, 300);
  ASSERT_TRUE(w.admit(0, 9, 700, 4)); // 44 blocks
  w.world.run_for(20ms);
  w.mark(0, 1);
  w.drain(1);
  w.world.run_for(100ms);
  EXPECT_EQ(w.books->committed(), 0U);
}

// Somebody is on the way while the order comes.
TEST(LlumletDrain, ItIsNotEmptyWhileSomebodyMayStillCome) {
  std::uint32_t came = 0;
  for (std::uint64_t steps = 0; steps < 120; ++steps) {
    SCOPED_TRACE("after " + std::to_string(steps) + " messages");
    llumlet_world w(at_once());
    load_up(w, 2, 60);
    w.mark(0, 1);
    for (std::uint64_t i = 0; i < steps; ++i) (void)w.world.step();
    w.drain(1);
    ASSERT_TRUE(w.run_until([&] { return !w.drained.empty(); }));
    const auto committed = w.books->committed();
    came += committed;
    EXPECT_TRUE(w.status(1).requests.empty());
    w.world.run_for(300ms);
    EXPECT_EQ(w.books->committed(), committed) << "came after the word";
    EXPECT_THAT(w.drained, SizeIs(1));
  }
  EXPECT_GT(came, 0U);
}

TEST(LlumletDrain, TakenBackItGoesOnAsBefore) {
  llumlet_world w;
  load_up(w, 4, 60);
  w.drain(0);
  w.world.run_for(10ms);
  w.drain(0, false);
  ASSERT_TRUE(w.admit(0, 8, 10, 10));
  EXPECT_EQ(w.status(0).state, protocols::instance_state::ready);
  ASSERT_TRUE(w.run_until([&] { return w.books->all_finished(); }));
  w.world.run_for(500ms);
  EXPECT_THAT(w.drained, IsEmpty());
}

// Drains, marks and changes of mind at every moment, over requests that come and go.
TEST(LlumletDrain, NothingIsLostHoweverMarksAndDrainsComeAndGo) {
  std::uint32_t moved = 0, drained = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto o = at_once();
    o.seed = seed;
    o.instances = 3;
    o.blocks = 48;
    llumlet_world w(o);
    auto random = w.world.random(99);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    std::uint64_t next = 1;
    for (int i = 0; i < 60; ++i) {
      const auto one = below(3), other = (one + 1 + below(2)) % 3;
      const auto priority = static_cast<std::int32_t>(below(3));
      switch (below(6)) {
      case 0:
        w.drain(one, below(2) == 0);
        break;
      case 1:
        w.unmark(one);
        break;
      case 2:
      case 3:
        w.mark(one, other);
        break;
      default:
        if (w.admit(one, next, 1 + below(200), 1 + below(60), priority)) ++next;
      }
      w.world.run_for(std::chrono::milliseconds(below(30)));
    }
    ASSERT_TRUE(w.run_until([&] { return w.books->all_finished(); }));
    moved += w.books->committed();
    drained += static_cast<std::uint32_t>(w.drained.size());
  }
  EXPECT_GT(moved, 30U) << "the runs do not reach what they are for";
  EXPECT_GT(drained, 20U);
}

namespace {

llumlet_world::options with_profile(gpu::sim::latency_model latency, std::chrono::nanoseconds time_max = 2s) {
  llumlet_world::options o;
  o.instances = 1;
  o.blocks = 512;
  o.running_max = 64; // 8 blocks each
  o.latency = latency;
  o.adjust = [time_max](actors::llumlet_options& l) {
    l.planner.execution_levels = {{"normal", 0}, {"high", std::nullopt}};
    l.profile.enabled = true;
    l.profile.time_max = time_max;
  };
  return o;
}

/// 10 ms, and 50 us for each sequence that decodes.
gpu::sim::latency_model gentle() {
  gpu::sim::latency_model latency;
  latency.base_us = 10'000;
  latency.per_decode_us = 50;
  latency.linear = {};
  latency.per_kv_token_us = 0;
  return latency;
}

} // namespace

// base 10 ms and 50 us each: 10.05 ms unloaded, 5 % more with the eleventh sequence of 8 blocks.
TEST(LlumletProfile, FindsTheLoadThatTheDevicesLatencyImplies) {
  llumlet_world w(with_profile(gentle()));
  EXPECT_EQ(w.status(0).headroom_profiled, 512U - 11 * 8);
  ASSERT_FALSE(w.log.empty());
  EXPECT_THAT(w.log,
              ::testing::Contains("instance 0: headroom 424 of 512 blocks (a batch of 88 blocks decodes within 5 "
                                  "% of unloaded)"));
  ASSERT_TRUE(w.admit(0, 1, 20, 10, 0, 1));
  w.world.run_for(60ms);
  EXPECT_EQ(w.status(0).load.headroom_blocks, 424U);
}

TEST(LlumletProfile, ADeviceThatDoesNotMindLoadNeedsNoHeadroom) {
  auto flat = gentle();
  flat.per_decode_us = 0;
  llumlet_world w(with_profile(flat));
  EXPECT_EQ(w.status(0).headroom_profiled, 0U);
}

TEST(LlumletProfile, TakesNoLongerThanItMayAndUsesWhatWasFoundByThen) {
  llumlet_world w(with_profile(
      gentle(), 100ms)); // a step to warm up, and three of 1, 2 and 4 sequences each: the last begins in time
  EXPECT_LT(w.world.now(), 150ms);
  EXPECT_EQ(w.status(0).headroom_profiled, 512U - 4 * 8);
}

TEST(LlumletProfile, WithoutAutoOrWhereItIsOffNothingIsRun) {
  auto o = with_profile(gentle());
  const auto on = o.adjust;
  o.adjust = [on](actors::llumlet_options& l) {
    on(l);
    l.planner.execution_levels = {{"normal", 0}, {"high", 7}};
  };
  llumlet_world fixed(o);
  EXPECT_LT(fixed.world.now(), 5ms);
  o.adjust = [on](actors::llumlet_options& l) {
    on(l);
    l.profile.enabled = false;
  };
  llumlet_world off(o);
  EXPECT_LT(off.world.now(), 5ms);
  EXPECT_EQ(off.status(0).headroom_profiled, 0U);
}

} // namespace godwit::test
