// Several steps in flight, as in a pipeline of devices.
#include "protocols/batching/planner_support.hpp"

#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::asks_for;
using testing_support::drawn_by;
using testing_support::ends;
using testing_support::settings_for;
using testing_support::those_in;

planner_settings overlapping(std::uint32_t steps, std::uint32_t blocks) {
  auto settings = settings_for(blocks);
  settings.steps_max = steps;
  settings.prefix_caching = false;
  return settings;
}

TEST(PlannerOverlap, StepsInFlightHaveOtherRequestsEach) {
  planner p(overlapping(2, 40));
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(p.admit(asks_for(id, 4, 50)).accepted());
  auto first = p.plan();
  EXPECT_THAT(those_in(first), ElementsAre(1, 2, 3, 4, 5)) << "prompts";
  EXPECT_FALSE(p.plan()) << "who is in flight is not planned again";
  (void)ends(p, *first);
  first = p.plan();
  EXPECT_THAT(those_in(first), ElementsAre(1, 2, 3)) << "a half of those that decode";
  auto second = p.plan();
  EXPECT_THAT(those_in(second), ElementsAre(4, 5));
  EXPECT_EQ(p.steps_in_flight(), 2U);
  EXPECT_THROW((void)p.plan(), contract_violation);
  EXPECT_THROW((void)p.complete(drawn_by(*second)), contract_violation) << "the oldest ends first";
  p.check();
}

TEST(PlannerOverlap, WhoHasEndedLeavesNoStepWithLess) {
  planner p(overlapping(2, 40));
  for (std::uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(p.admit(asks_for(id, 4, id > 3 ? 2 : 50)).accepted());
  (void)ends(p, *p.plan());
  auto first = p.plan();
  EXPECT_THAT(those_in(first), ElementsAre(1, 2, 3));
  auto second = p.plan();
  EXPECT_THAT(those_in(second), ElementsAre(4, 5, 6));
  (void)ends(p, *first);
  first = p.plan();
  EXPECT_EQ(ends(p, *second).gone.size(), 3U);
  EXPECT_FALSE(p.plan()) << "all that are left are in flight";
  (void)ends(p, *first);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(1, 2));
  EXPECT_THAT(those_in(p.plan()), ElementsAre(3));
}

// Mooncake's chunked pipeline: a chunk's KV is there on each stage before the next chunk comes to it.
TEST(PlannerOverlap, ChunksOfOnePromptFollowEachOther) {
  planner p(overlapping(3, 40));
  ASSERT_TRUE(p.admit(asks_for(1, 200, 50)).accepted());
  std::vector<step_input> steps;
  for (std::uint32_t i = 0; i < 3; ++i) {
    steps.push_back(*p.plan());
    EXPECT_EQ(steps.back().slices.at(0).first_position, i * 64);
    EXPECT_FALSE(steps.back().slices.at(0).samples);
    p.check();
  }
  EXPECT_EQ(p.view(request_id{1}, epoch{1})->computed, 0U);
  (void)ends(p, steps[0]);
  EXPECT_EQ(p.view(request_id{1}, epoch{1})->computed, 64U);
  steps.push_back(*p.plan());
  EXPECT_EQ(steps.back().slices.at(0).first_position, 192U);
  EXPECT_TRUE(steps.back().slices.at(0).samples);
  (void)ends(p, steps[1]);
  EXPECT_FALSE(p.plan()) << "what comes next is not drawn yet";
  (void)ends(p, steps[2]);
  EXPECT_EQ(ends(p, steps[3]).updates.size(), 1U);
  EXPECT_EQ(p.plan()->slices.at(0).first_position, 200U);
}

TEST(PlannerOverlap, ARequestIsParkedOrGoneWhenTheLastStepThatHasAChunkOfItEnds) {
  for (const bool cancels : {false, true}) {
    planner p(overlapping(3, 40));
    ASSERT_TRUE(p.admit(asks_for(1, 200, 50)).accepted());
    const auto first = p.plan(), second = p.plan();
    if (cancels) {
      EXPECT_EQ(p.cancel({request_id{1}, epoch{1}}), planner::cancellation::freed_after_step);
    } else {
      EXPECT_EQ(p.park(request_id{1}, epoch{1}), planner::parking::parked_after_step);
    }
    EXPECT_FALSE(p.plan()) << "no further chunk of it";
    auto effects = ends(p, *first);
    EXPECT_THAT(effects.parked, IsEmpty());
    EXPECT_THAT(effects.gone, IsEmpty());
    effects = ends(p, *second);
    EXPECT_EQ(effects.parked.size(), cancels ? 0U : 1U);
    EXPECT_EQ(effects.gone.size(), cancels ? 1U : 0U);
    if (!cancels) {
      EXPECT_EQ(p.snapshot(request_id{1}, 0).computed, 128U);
    }
  }
}

TEST(PlannerOverlap, WhatAChunkHasComputedIsThereForOthersWhileTheNextOneIsUnderWay) {
  auto settings = overlapping(2, 40);
  settings.prefix_caching = true;
  planner p(settings);
  const auto request = asks_for(1, 200, 50);
  ASSERT_TRUE(p.admit(request).accepted());
  const auto first = p.plan(), second = p.plan();
  ASSERT_TRUE(first && second);
  (void)ends(p, *first);
  EXPECT_EQ(p.ledger().known_prefix(request.prompt, 0), 4U);
  EXPECT_EQ(p.view(request_id{1}, epoch{1})->computed, 64U);
  (void)ends(p, *second);
  EXPECT_EQ(p.ledger().known_prefix(request.prompt, 0), 8U);
}

// Two prompts that begin alike are computed side by side: what the one has computed first takes the place of what the
// other one has, which that one's steps in flight still read.
TEST(PlannerOverlap, ABlockThatGivesItsPlaceToOneLikeItIsHeldUntilTheStepsThatReadItHaveRun) {
  auto settings = overlapping(3, 40);
  settings.prefix_caching = true;
  settings.step_tokens_max = 40;
  planner p(settings);
  auto shorter = asks_for(1, 20, 1), longer = asks_for(2, 100, 50);
  std::copy_n(longer.prompt.begin(), 16, shorter.prompt.begin());
  ASSERT_TRUE(p.admit(shorter).accepted());
  ASSERT_TRUE(p.admit(longer).accepted());
  const auto first = p.plan(), second = p.plan();
  ASSERT_THAT(those_in(first), ElementsAre(1, 2)) << "20 tokens of either";
  ASSERT_THAT(those_in(second), ElementsAre(2));
  const auto read = second->slices.at(0).blocks.at(0);
  ASSERT_NE(read, first->slices.at(0).blocks.at(0));
  (void)ends(p, *first);
  const auto now = p.view(request_id{2}, epoch{1})->blocks.at(0);
  EXPECT_EQ(now, first->slices.at(0).blocks.at(0));
  EXPECT_EQ(p.ledger().references(read), 1U) << "the step in flight has it";
  const auto third = p.plan();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->slices.at(0).blocks.at(0), now);
  (void)ends(p, *second);
  EXPECT_EQ(p.ledger().references(read), 0U);
  // A sample of the same prompt takes over what there is, and leaves it as it was.
  auto sample = longer;
  sample.request = request_id{3};
  sample.sibling = request_id{2};
  sample.stop.max_tokens = 1;
  ASSERT_TRUE(p.admit(sample).accepted());
  (void)ends(p, *third);
  for (int i = 0; i < 4; ++i)
    if (const auto step = p.plan()) (void)ends(p, *step);
  EXPECT_EQ(p.requests().size(), 1U);
}

// Who outranks it wants its blocks.
TEST(PlannerOverlap, APromptWhoseBlocksAreWantedGetsNoFurtherChunk) {
  planner p(overlapping(2, 20));
  ASSERT_TRUE(p.admit(asks_for(1, 300, 10, 5)).accepted());
  const auto first = p.plan(), second = p.plan();
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(p.admit(asks_for(2, 100, 10)).accepted());
  (void)ends(p, *first);
  EXPECT_FALSE(p.plan()) << "it would never be out of the steps";
  (void)ends(p, *second);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(2));
  EXPECT_THAT(p.take_effects().preempted, ElementsAre(request_id{1}));
}

TEST(PlannerOverlap, APromptThatIsScoredIsComputedChunkByChunk) {
  planner p(overlapping(3, 40));
  auto request = asks_for(1, 200, 50);
  request.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(p.admit(std::move(request)).accepted());
  ASSERT_TRUE(p.plan());
  EXPECT_FALSE(p.plan());
}

TEST(PlannerOverlap, CancelledInOneStepItLeavesWithThatOne) {
  planner p(overlapping(2, 40));
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(p.admit(asks_for(id, 4, 50)).accepted());
  (void)ends(p, *p.plan());
  const auto first = p.plan(), second = p.plan();
  EXPECT_EQ(p.cancel({request_id{2}, epoch{1}}), planner::cancellation::freed_after_step);
  EXPECT_EQ(p.park(request_id{1}, epoch{1}), planner::parking::parked_after_step);
  const auto effects = ends(p, *first);
  EXPECT_THAT(effects.parked, ElementsAre(request_id{1}));
  EXPECT_THAT(effects.gone, IsEmpty());
  EXPECT_THAT(ends(p, *second).gone, ElementsAre(request_id{2}));
}

// Two requests of two blocks each fill a pool of four; the first one wants a third.
TEST(PlannerOverlap, WhoIsLastInOrderLosesItsBlocksWhenItsStepHasEnded) {
  planner p(overlapping(2, 4));
  ASSERT_TRUE(p.admit(asks_for(1, 30, 50)).accepted());
  ASSERT_TRUE(p.admit(asks_for(2, 20, 50)).accepted());
  (void)ends(p, *p.plan());
  for (int token = 0; token < 2; ++token) {
    const auto first = p.plan(), second = p.plan();
    EXPECT_THAT(those_in(first), ElementsAre(1));
    EXPECT_THAT(those_in(second), ElementsAre(2));
    (void)ends(p, *first);
    if (token == 1) {
      EXPECT_FALSE(p.plan()) << "33 tokens, and a step computes the one behind it";
      EXPECT_THAT(p.take_effects().preempted, IsEmpty());
    }
    (void)ends(p, *second);
  }
  EXPECT_THAT(those_in(p.plan()), ElementsAre(1));
  EXPECT_THAT(p.take_effects().preempted, ElementsAre(request_id{2}));
  p.check();
}

// What outranks both would need the blocks of both.
TEST(PlannerOverlap, NobodyIsPreemptedBesideOneThatIsToBeParked) {
  planner p(overlapping(2, 4));
  ASSERT_TRUE(p.admit(asks_for(1, 20, 50, 6)).accepted());
  ASSERT_TRUE(p.admit(asks_for(2, 20, 50, 5)).accepted());
  (void)ends(p, *p.plan());
  const auto first = p.plan(), second = p.plan();
  ASSERT_THAT(those_in(first), ElementsAre(2));
  (void)ends(p, *first);
  const auto third = p.plan();
  ASSERT_THAT(those_in(third), ElementsAre(2));
  (void)ends(p, *second);
  EXPECT_EQ(p.park(request_id{2}, epoch{1}), planner::parking::parked_after_step);
  ASSERT_TRUE(p.admit(asks_for(3, 50, 50)).accepted());
  EXPECT_THAT(those_in(p.plan()), ElementsAre(1)) << "the last one, whose blocks alone would not suffice, goes on";
  EXPECT_THAT(p.take_effects().preempted, IsEmpty());
  EXPECT_THAT(ends(p, *third).parked, ElementsAre(request_id{2}));
}

// The first one lacks a block, and the last one, whose it would be, is in a step: the one between has the share.
TEST(PlannerOverlap, WhoCannotGoOnTakesNobodysShareOfAStep) {
  planner p(overlapping(3, 4));
  ASSERT_TRUE(p.admit(asks_for(1, 30, 50)).accepted());
  ASSERT_TRUE(p.admit(asks_for(2, 4, 50)).accepted());
  ASSERT_TRUE(p.admit(asks_for(3, 4, 50)).accepted());
  (void)ends(p, *p.plan());
  std::vector<step_input> steps;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    steps.push_back(*p.plan());
    ASSERT_THAT(those_in(steps.back()), ElementsAre(id));
  }
  for (std::uint64_t id = 1; id <= 3; ++id) {
    (void)ends(p, steps[id - 1]);
    steps.push_back(*p.plan());
    ASSERT_THAT(those_in(steps.back()), ElementsAre(id));
  }
  (void)ends(p, steps[3]); // 33 tokens
  EXPECT_FALSE(p.plan());
  (void)ends(p, steps[4]);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(2));
  (void)ends(p, steps[5]);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(1));
  EXPECT_THAT(p.take_effects().preempted, ElementsAre(request_id{3}));
}

TEST(PlannerOverlap, ADraftModelDraftsForOneStepAtATime) {
  auto settings = overlapping(2, 4);
  settings.speculation.model_max = 3;
  EXPECT_NE(settings.validate(), "");
  settings.steps_max = 1;
  EXPECT_EQ(settings.validate(), "");
  settings.steps_max = 0;
  EXPECT_NE(settings.validate(), "");
}

} // namespace
} // namespace godwit::protocols
