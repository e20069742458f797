#include "protocols/batching/planner_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

/// What a planner does for priorities, and what it tells the policies.
namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::admit;
using testing_support::asks_for;
using testing_support::ends;
using testing_support::served;
using testing_support::settings_for;

generate_request ranked(std::uint64_t id, std::size_t prompt, std::int32_t priority = 0, std::uint8_t level = 0) {
  auto request = asks_for(id, prompt, 500, priority);
  request.execution_level = level;
  return request;
}

std::vector<std::uint64_t> with_state(const planner& p, request_state state) {
  std::vector<std::uint64_t> ids;
  for (const auto& r : p.requests())
    if (r.state == state) ids.push_back(r.request.value());
  return ids;
}

TEST(PlannerPolicy, AHigherPriorityTakesThePlaceOfTheLastOfALowerOne) {
  planner p{settings_for(64, 2)};
  admit(p, ranked(1, 4, 5));
  admit(p, ranked(2, 4, 5));
  (void)served(p);
  admit(p, ranked(3, 4, 0));
  EXPECT_THAT(served(p), ElementsAre(1, 3));
  EXPECT_THAT(with_state(p, request_state::preempted), ElementsAre(2));
  EXPECT_EQ(p.load().preemptions_total, 1U);
}

TEST(PlannerPolicy, AnEqualPriorityTakesNobodysPlaceSoThatNobodyTakesTurns) {
  planner p{settings_for(64, 1)};
  admit(p, ranked(1, 4));
  (void)served(p);
  auto earlier = ranked(2, 4);
  earlier.arrival_ns = -5; // would be first in line
  admit(p, earlier);
  for (int i = 0; i < 20; ++i) ASSERT_THAT(served(p), ElementsAre(1));
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

TEST(PlannerPolicy, AHigherPriorityTakesTheBlocksOfLowerOnesLastFirstAndNoMoreThanItNeeds) {
  planner p{settings_for(12)};
  for (std::uint64_t id = 1; id <= 4; ++id) admit(p, ranked(id, 40, 5)); // 3 blocks each
  (void)served(p);
  (void)served(p);
  (void)served(p);
  ASSERT_EQ(p.load().running, 4U);
  admit(p, ranked(9, 60, 1)); // 4 blocks
  (void)served(p);
  EXPECT_THAT(with_state(p, request_state::running), ElementsAre(9, 1, 2));
  EXPECT_THAT(with_state(p, request_state::preempted), ElementsAre(3, 4));
}

TEST(PlannerPolicy, NobodyIsPreemptedForBlocksThatWouldNotSuffice) {
  planner p{settings_for(12)};
  admit(p, ranked(1, 100, 0)); // 7 blocks, of the same priority
  admit(p, ranked(2, 40, 5));  // 3 blocks
  for (int i = 0; i < 4; ++i) (void)served(p);
  admit(p, ranked(3, 90, 0)); // 6 blocks: 5 are what is free and what 2 has
  (void)served(p);
  EXPECT_THAT(with_state(p, request_state::running), ElementsAre(1, 2));
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

// Its victim's last block would be free, but for the one that another request shares.
TEST(PlannerPolicy, SharedBlocksAreNotCountedAsTheVictims) {
  planner p{settings_for(6)};
  auto one = ranked(1, 33, 0);
  auto two = one;
  two.request = request_id{2};
  two.priority = 5;
  admit(p, one);
  (void)served(p);
  admit(p, two);
  (void)served(p);
  ASSERT_EQ(p.load().blocks_used, 4U); // two shared, one each
  admit(p, ranked(3, 60, 1));          // 4 blocks; 3 are what preempting 2 would give
  (void)served(p);
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

TEST(PlannerPolicy, AHigherPriorityNeedNotWaitForThePromptOfALowerOne) {
  planner p{settings_for(64, 8, 32)};
  admit(p, ranked(1, 500, 5));
  EXPECT_THAT(served(p), ElementsAre(1));
  admit(p, ranked(2, 20, 0));
  EXPECT_THAT(served(p), ElementsAre(2, 1)) << "the rest of the budget is the other's";
}

TEST(PlannerPolicy, InAStaticBatchNobodyIsPreempted) {
  auto settings = settings_for(64, 1);
  settings.mode = batching_mode::static_batch;
  planner p{settings};
  admit(p, ranked(1, 4, 5));
  (void)served(p);
  admit(p, ranked(2, 4, 0));
  EXPECT_THAT(served(p), ElementsAre(1));
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

TEST(PlannerPolicy, ParkedRequestsKeepTheirPlacesFromHigherPriorities) {
  planner p{settings_for(64, 1)};
  admit(p, ranked(1, 4, 5));
  (void)served(p);
  ASSERT_EQ(p.park(request_id{1}, epoch{1}), planner::parking::parked);
  admit(p, ranked(2, 4, 0));
  EXPECT_THAT(served(p), IsEmpty());
  EXPECT_TRUE(p.unpark(request_id{1}, epoch{1}, epoch{1}));
  EXPECT_THAT(served(p), ElementsAre(2));
}

TEST(PlannerPolicy, APreemptedRequestGoesOnWhereItWasOnceThereIsRoom) {
  planner p{settings_for(64, 1)};
  admit(p, ranked(1, 20, 5));
  for (int i = 0; i < 5; ++i) (void)served(p);
  auto urgent = ranked(2, 4, 0);
  urgent.stop.max_tokens = 2;
  admit(p, urgent);
  EXPECT_THAT(served(p), ElementsAre(2));
  EXPECT_THAT(served(p), ElementsAre(2));
  const auto again = p.plan().value();
  EXPECT_EQ(again.slices.at(0).request, request_id{1});
  EXPECT_EQ(again.slices[0].sample_index, 5U);
}

TEST(PlannerPolicy, WithMemoryToSpareNobodyWaitsBehindALowerPriorityAndNobodyTakesTurns) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    planner p{settings_for(1000, 1 + random() % 5, 16)};
    std::uint64_t id = 0;
    while (id < 60 || !p.idle()) {
      if (id < 60 && random() % 4 == 0) {
        auto request = ranked(++id, 1 + random() % 60, static_cast<std::int32_t>(random() % 4));
        request.stop.max_tokens = 1 + random() % 20;
        admit(p, std::move(request));
      }
      const auto planned = p.plan();
      std::int32_t lowest = -1, first_waiting = 1000;
      for (const auto& r : p.requests())
        if (r.state == request_state::running)
          lowest = std::max(lowest, r.priority);
        else
          first_waiting = std::min(first_waiting, r.priority);
      ASSERT_LE(lowest, first_waiting);
      if (planned) (void)ends(p, *planned);
    }
    // Each came once, and went past one of each lower priority at most.
    ASSERT_LE(p.load().preemptions_total, 60U * 3);
  }
}

// Llumnix, Algorithm 1: a queuing request's virtual usage is its demand if it is head of line, else 0.
TEST(PlannerPolicy, OnlyTheHeadOfLineCountsAsQueuedAndWithWhatItDemands) {
  planner p{settings_for(10)};
  admit(p, ranked(1, 100)); // 7 blocks
  (void)served(p);
  (void)served(p);
  ASSERT_EQ(p.load().blocks_used, 7U);
  EXPECT_EQ(p.load().queued_blocks, 0U);
  admit(p, ranked(2, 80)); // 6 blocks with the next token's
  admit(p, ranked(3, 100));
  (void)served(p);
  EXPECT_EQ(p.load().waiting, 2U);
  EXPECT_EQ(p.load().queued_blocks, 6U);
  EXPECT_EQ(p.load().waiting_blocks, 6U + 7U) << "of all that wait";
  EXPECT_EQ(p.load().outstanding_blocks, 0U);
}

TEST(PlannerPolicy, WhereTheBatchHasNoPlaceAllFreeMemoryCountsAsDemanded) {
  planner p{settings_for(64, 1)};
  admit(p, ranked(1, 4));
  (void)served(p);
  ASSERT_EQ(p.load().blocks_used, 1U);
  admit(p, ranked(2, 4));
  EXPECT_EQ(p.load().queued_blocks, 63U);
  EXPECT_EQ(p.load().waiting_blocks, 1U);
  admit(p, ranked(3, 4, -1)); // which takes the other's place
  EXPECT_EQ(p.load().queued_blocks, 1U);
  EXPECT_EQ(p.load().waiting_blocks, 2U);
}

TEST(PlannerPolicy, WhatARunningPromptStillLacksCountsAsQueued) {
  planner p{settings_for(64)};
  admit(p, ranked(1, 640)); // 41 blocks, 4 in a step
  (void)served(p);
  EXPECT_EQ(p.load().blocks_used, 4U);
  EXPECT_EQ(p.load().queued_blocks, 37U);
  EXPECT_EQ(p.load().outstanding_blocks, 37U);
  ASSERT_TRUE(p.plan());
  EXPECT_EQ(p.load().blocks_used, 8U);
  EXPECT_EQ(p.load().outstanding_blocks, 33U) << "what the step in flight writes is used, and no longer lacking";
}

TEST(PlannerPolicy, HeadroomIsThatOfTheLevelsThatRunAndWaitingRequestsHaveNone) {
  auto settings = settings_for(64, 3);
  settings.execution_levels = {{"normal", 0}, {"some", 5}, {"high", std::nullopt}};
  settings.headroom_profiled = 30;
  planner p{settings};
  admit(p, ranked(1, 4));
  (void)served(p);
  EXPECT_EQ(p.load().headroom_blocks, 0U);
  EXPECT_EQ(p.load().headroom_profiled, 30U) << "what it would be";
  EXPECT_EQ(p.load().execution_levels, 0b1U);
  admit(p, ranked(2, 4, 0, 2));
  EXPECT_EQ(p.load().headroom_blocks, 0U) << "it waits";
  admit(p, ranked(3, 4, 0, 200)); // unknown here: the last one
  admit(p, ranked(4, 4, 0, 1));
  (void)served(p);
  EXPECT_EQ(p.load().headroom_blocks, 30U);
  EXPECT_EQ(p.load().execution_levels, 0b101U);
  ASSERT_EQ(p.park(request_id{2}, epoch{1}), planner::parking::parked);
  ASSERT_EQ(p.park(request_id{3}, epoch{1}), planner::parking::parked);
  EXPECT_EQ(p.load().headroom_blocks, 30U) << "until they have left";
}

TEST(PlannerPolicy, TheExecutionLevelGoesWithTheRequestWhereverItMoves) {
  planner from{settings_for(64)}, to{settings_for(64)};
  admit(from, ranked(1, 20, 3, 1));
  (void)served(from);
  EXPECT_EQ(from.requests().at(0).execution_level, 1U);
  ASSERT_EQ(from.park(request_id{1}, epoch{1}), planner::parking::parked);
  const auto moved = from.snapshot(request_id{1}, 0);
  EXPECT_EQ(moved.execution_level, 1U);
  ASSERT_TRUE(to.hold_place());
  ASSERT_TRUE(to.adopt(moved, epoch{2}, *to.reserve(2)).accepted());
  EXPECT_EQ(to.requests().at(0).execution_level, 1U);
}

TEST(PlannerPolicy, CandidatesToMoveAreThoseThatDecodeAndTheHeadOfLine) {
  planner p{settings_for(12)};
  admit(p, ranked(1, 20));
  (void)served(p);
  admit(p, ranked(2, 100));
  (void)served(p); // a chunk of its prompt
  admit(p, ranked(3, 60));
  admit(p, ranked(4, 60));
  const auto all = p.move_candidates();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].request, request_id{3});
  EXPECT_TRUE(all[0].head_of_line);
  EXPECT_EQ(all[0].state, request_state::waiting);
  EXPECT_EQ(all[0].blocks, 4U);
  EXPECT_EQ(all[0].frees, 4U);
  EXPECT_EQ(all[1].request, request_id{1});
  EXPECT_EQ(all[1].blocks, 2U);
  EXPECT_EQ(all[1].frees, 2U);
}

TEST(PlannerPolicy, ACandidateSaysWhatItSharesAndWhetherItIsTheLastOfItsLevel) {
  auto settings = settings_for(64);
  settings.execution_levels = {{"normal", 0}, {"high", 9}};
  planner p{settings};
  auto one = ranked(1, 33, 0, 1);
  auto two = one;
  two.request = request_id{2};
  two.execution_level = 0;
  admit(p, one);
  (void)served(p);
  admit(p, two);
  (void)served(p);
  const auto all = p.move_candidates();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].blocks, 3U);
  EXPECT_EQ(all[0].frees, 1U) << "two are shared";
  EXPECT_EQ(all[0].headroom, 9U);
  EXPECT_FALSE(all[0].headroom_is_profiled);
  EXPECT_TRUE(all[0].last_of_level);
  EXPECT_EQ(all[1].headroom, 0U);
}

TEST(PlannerPolicy, ACandidateSaysWhereItsHeadroomIsThisInstancesOwn) {
  auto settings = settings_for(64);
  settings.execution_levels = {{"normal", 0}, {"high", std::nullopt}};
  settings.headroom_profiled = 7;
  planner p{settings};
  admit(p, ranked(1, 20, 0, 1));
  (void)served(p);
  admit(p, ranked(2, 20));
  (void)served(p);
  (void)served(p);
  const auto all = p.move_candidates();
  ASSERT_EQ(all.size(), 2U);
  for (const auto& one : all) {
    EXPECT_EQ(one.headroom, one.execution_level == 1 ? 7U : 0U);
    EXPECT_EQ(one.headroom_is_profiled, one.execution_level == 1);
  }
}

} // namespace
} // namespace godwit::protocols
