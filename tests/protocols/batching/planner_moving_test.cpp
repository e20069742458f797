#include "protocols/batching/planner_support.hpp"

#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <utility>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::admit;
using testing_support::asks_for;
using testing_support::counting_from;
using testing_support::drawn_by;
using testing_support::ends;
using testing_support::first_id;
using testing_support::second_id;
using testing_support::settings_for;
using testing_support::step;
using testing_support::third_id;

planner_settings movable(std::uint32_t blocks, std::uint32_t running = 4) {
  auto settings = settings_for(blocks, running);
  settings.context_length = 500;
  settings.waiting_max = 4;
  settings.vocabulary = 100000;
  settings.eos = {2};
  return settings;
}

generate_request may_move(request_id id, std::size_t prompt, std::uint32_t max_tokens = 20) {
  return asks_for(id.value(), prompt, max_tokens);
}

/// A planner that has run `prompt` tokens of the first request and drawn `answer` ones.
planner running(std::size_t prompt, int answer, std::uint32_t blocks = 16, std::int32_t logprobs = -1) {
  planner p{movable(blocks)};
  auto request = may_move(first_id, prompt);
  request.sampling.logprobs = logprobs;
  EXPECT_TRUE(p.admit(request).accepted());
  for (int i = 0; i < answer; ++i) (void)step(p);
  return p;
}

TEST(PlannerMoving, AParkedRequestKeepsItsBlocksAndIsNotPlanned) {
  auto p = running(20, 2);
  EXPECT_EQ(p.park(first_id, epoch{1}), planner::parking::parked);
  EXPECT_THAT(p.take_effects().parked, ElementsAre(first_id));
  EXPECT_FALSE(p.plan());
  const auto seen = p.view(first_id, epoch{1}).value();
  EXPECT_EQ(seen.state, request_state::migrating);
  EXPECT_EQ(seen.computed, 21U);
  EXPECT_EQ(seen.full_blocks(), 1U);
  EXPECT_EQ(seen.blocks.size(), 2U);
  EXPECT_EQ(p.load().migrating, 1U);
  EXPECT_EQ(p.load().running, 0U);
  EXPECT_EQ(p.load().blocks_used, 2U);
  EXPECT_EQ(p.requests().at(0).state, request_state::migrating);
  EXPECT_FALSE(p.idle());
  p.check();
}

TEST(PlannerMoving, EachReferenceToABlockIsSomebodys) {
  auto p = running(20, 2);
  const auto reserved = p.reserve(2).value();
  p.check();
  const auto block = p.view(first_id, epoch{1}).value().blocks.front();
  p.ledger().share(block); // for a copy
  EXPECT_THROW(p.check(), contract_violation);
  p.check(std::vector{block});
  EXPECT_THROW(p.check(std::vector{block, block}), contract_violation);
  p.ledger().release(block);
  p.check();
  p.give_back(reserved);
  p.check();
}

TEST(PlannerMoving, ARequestInFlightIsParkedAsItsStepCompletesAndItsTokenIsSent) {
  auto p = running(20, 1);
  const auto input = p.plan().value();
  EXPECT_EQ(p.park(first_id, epoch{1}), planner::parking::parked_after_step);
  EXPECT_THAT(p.take_effects().parked, IsEmpty());
  const auto effects = p.complete(drawn_by(input, 9));
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].tokens.at(0).id, 9);
  EXPECT_THAT(effects.parked, ElementsAre(first_id));
  EXPECT_FALSE(p.plan());
}

TEST(PlannerMoving, ARequestThatEndsWithItsLastStepIsGoneAndNotParked) {
  auto p = running(20, 1);
  const auto input = p.plan().value();
  (void)p.park(first_id, epoch{1});
  const auto effects = p.complete(drawn_by(input, 2));
  EXPECT_EQ(effects.updates.at(0).finish, finish_reason::stop);
  EXPECT_THAT(effects.gone, ElementsAre(first_id));
  EXPECT_THAT(effects.parked, IsEmpty());
  EXPECT_FALSE(p.view(first_id, epoch{1}));
}

TEST(PlannerMoving, AChunkOfAPromptIsTheLastOneBeforeTheRequestIsParked) {
  planner p{movable(16)};
  (void)p.admit(may_move(first_id, 100));
  const auto input = p.plan().value();
  (void)p.park(first_id, epoch{1});
  EXPECT_THAT(p.complete(drawn_by(input)).parked, ElementsAre(first_id));
  EXPECT_EQ(p.snapshot(first_id, 0).computed, 64U);
  ASSERT_TRUE(p.unpark(first_id, epoch{1}, epoch{1}));
  EXPECT_EQ(p.plan()->slices.at(0).first_position, 64U);
}

TEST(PlannerMoving, OnlyTheCurrentEpochIsParkedOrSeen) {
  auto p = running(20, 1);
  EXPECT_EQ(p.park(first_id, epoch{2}), planner::parking::unknown);
  EXPECT_EQ(p.park(second_id, epoch{1}), planner::parking::unknown);
  EXPECT_FALSE(p.view(first_id, epoch{2}));
  EXPECT_FALSE(p.unpark(first_id, epoch{2}, epoch{3}));
  EXPECT_THROW((void)p.snapshot(first_id, 0), contract_violation) << "it is not parked";
}

TEST(PlannerMoving, UnparkedUnderALaterEpochItGoesOnWhereItWas) {
  auto p = running(20, 2);
  (void)p.park(first_id, epoch{1});
  ASSERT_TRUE(p.unpark(first_id, epoch{1}, epoch{3}));
  EXPECT_FALSE(p.view(first_id, epoch{1}));
  const auto input = p.plan().value();
  EXPECT_EQ(input.slices.at(0).first_position, 21U) << "nothing is computed again";
  const auto effects = p.complete(drawn_by(input));
  EXPECT_EQ(effects.updates.at(0).epoch, epoch{3});
  EXPECT_EQ(effects.updates[0].first_index, 2U);
}

TEST(PlannerMoving, AnOrderToParkCanBeTakenBackBeforeTheStepCompletes) {
  auto p = running(20, 1);
  const auto input = p.plan().value();
  (void)p.park(first_id, epoch{1});
  ASSERT_TRUE(p.unpark(first_id, epoch{1}, epoch{1}));
  EXPECT_THAT(p.complete(drawn_by(input)).parked, IsEmpty());
  EXPECT_TRUE(p.plan());
}

TEST(PlannerMoving, AParkedRequestKeepsItsPlaceInTheBatchAndInTheQueue) {
  planner p{movable(16, 1)};
  for (const auto id : {first_id, second_id, third_id}) (void)p.admit(may_move(id, 20));
  (void)step(p);
  (void)p.park(first_id, epoch{1});
  EXPECT_FALSE(p.plan()) << "its place is not given away";
  EXPECT_EQ(p.park(second_id, epoch{1}), planner::parking::parked);
  for (std::uint64_t id = 4; id < 6; ++id) ASSERT_TRUE(p.admit(may_move(request_id{id}, 20)).accepted());
  EXPECT_EQ(p.admit(may_move(request_id{6}, 20)).reason, refusal::queue_full);
  ASSERT_TRUE(p.unpark(second_id, epoch{1}, epoch{1}));
  EXPECT_EQ(p.load().waiting, 4U);
  ASSERT_TRUE(p.unpark(first_id, epoch{1}, epoch{1}));
  EXPECT_EQ(p.plan()->slices.at(0).request, first_id);
  p.check();
}

TEST(PlannerMoving, AParkedRequestIsCancelledAtOnceAndReplacedByALaterEpoch) {
  auto p = running(20, 1);
  (void)p.park(first_id, epoch{1});
  (void)p.take_effects();
  auto later = may_move(first_id, 20);
  later.epoch = epoch{2};
  ASSERT_TRUE(p.admit(later).accepted());
  EXPECT_THAT(p.take_effects().gone, ElementsAre(first_id));
  EXPECT_EQ(p.ledger().used(), 0U);
  (void)p.park(first_id, epoch{2});
  EXPECT_EQ(p.cancel({first_id, epoch{2}}), planner::cancellation::freed);
  EXPECT_TRUE(p.idle());
  EXPECT_EQ(p.load().migrating, 0U);
}

TEST(PlannerMoving, APreemptedRequestIsNamedAndMovesWithoutKv) {
  auto settings = movable(4);
  settings.prefix_caching = false;
  planner p{settings};
  (void)p.admit(may_move(first_id, 30, 60));
  (void)p.admit(may_move(second_id, 14, 60));
  step_effects effects;
  while (effects.preempted.empty()) {
    ASSERT_LT(p.load().steps_total, 100U);
    const auto input = p.plan().value();
    effects = p.take_effects();
    (void)p.complete(drawn_by(input));
  }
  EXPECT_THAT(effects.preempted, ElementsAre(second_id));
  EXPECT_EQ(p.view(second_id, epoch{1})->preemptions, 1U);
  (void)p.park(second_id, epoch{1});
  const auto moved = p.snapshot(second_id, 0);
  EXPECT_EQ(moved.state, request_state::preempted);
  EXPECT_EQ(moved.computed, 0U);
}

TEST(PlannerMoving, ATailHasTheTokensThatTheHomeLacksWithTheirLogProbabilities) {
  auto p = running(20, 5, 16, 0);
  (void)p.park(first_id, epoch{1});
  const auto moved = p.snapshot(first_id, 3);
  EXPECT_EQ(moved.tail_index, 3U);
  ASSERT_EQ(moved.tail.size(), 2U);
  EXPECT_EQ(moved.tail[0].logprob, -3.0F);
  EXPECT_EQ(moved.tail[1].logprob, -4.0F);
  EXPECT_EQ(moved.answer.size(), 5U);
  EXPECT_THAT(p.snapshot(first_id, 99).tail, IsEmpty());
}

TEST(PlannerMoving, AnAdoptedRequestGoesOnWithoutComputingAnythingAgain) {
  auto source = running(40, 3, 16, 0);
  (void)source.park(first_id, epoch{1});
  const auto moved = source.snapshot(first_id, 1);
  planner p{movable(16)};
  ASSERT_TRUE(p.hold_place());
  const auto blocks = p.reserve(3).value();
  ASSERT_TRUE(p.adopt(moved, epoch{2}, blocks).accepted());
  p.check();
  EXPECT_EQ(p.places_held(), 0U);
  const auto input = p.plan().value();
  EXPECT_EQ(input.slices.at(0).first_position, 42U);
  EXPECT_EQ(input.slices[0].blocks, blocks);
  EXPECT_EQ(input.slices[0].sample_index, 3U);
  EXPECT_EQ(p.complete(drawn_by(input)).updates.at(0).epoch, epoch{2});
  (void)p.park(first_id, epoch{2});
  const auto again = p.snapshot(first_id, 0);
  EXPECT_EQ(again.tail_index, 1U) << "what the first home-coming told is known";
  EXPECT_EQ(again.tail.size(), 3U);
  EXPECT_EQ(p.adopt(moved, epoch{2}, {}).reason, refusal::duplicate);
}

TEST(PlannerMoving, ARequestThatIsParkedAgainIsWhatItWasWhenItCame) {
  auto source = running(40, 3);
  (void)source.park(first_id, epoch{1});
  auto moved = source.snapshot(first_id, 0);
  EXPECT_TRUE(moved.started);
  moved.priority = 2;
  moved.arrival_ns = 77;
  moved.cache_salt = 5;
  moved.cached_tokens = 16;
  moved.preemptions = 3;
  moved.sampling.seed = 99;
  planner p{movable(16)};
  ASSERT_TRUE(p.hold_place());
  const auto blocks = p.reserve(3).value();
  ASSERT_TRUE(p.adopt(moved, epoch{2}, blocks).accepted());
  (void)p.park(first_id, epoch{2});
  moved.epoch = epoch{2};
  EXPECT_EQ(p.snapshot(first_id, 0), moved);
}

TEST(PlannerMoving, AdoptedBlocksAreSharedWithThoseWhoseTextBeginsAlike) {
  auto source = running(40, 1);
  (void)source.park(first_id, epoch{1});
  planner p{movable(16)};
  ASSERT_TRUE(p.hold_place());
  const auto blocks = p.reserve(3).value();
  ASSERT_TRUE(p.adopt(source.snapshot(first_id, 0), epoch{2}, blocks).accepted());
  auto alike = may_move(first_id, 40);
  alike.request = second_id;
  (void)p.admit(alike);
  const auto input = p.plan().value();
  ASSERT_EQ(input.slices.size(), 2U);
  EXPECT_EQ(input.slices[1].first_position, 32U);
  EXPECT_EQ(input.slices[1].blocks[1], blocks[1]);
  EXPECT_NE(input.slices[1].blocks[2], blocks[2]) << "a block that is still written belongs to one";
}

/// With `blocks`, of which somebody who has ended left the first `known` of a prompt of 40 tokens.
planner that_knows(std::uint32_t known, std::uint32_t blocks = 16) {
  planner p{movable(blocks)};
  auto before = may_move(first_id, 40, 1);
  before.request = second_id;
  before.prompt.resize(std::size_t{known} * tokens_per_block + 1);
  admit(p, std::move(before));
  (void)step(p);
  EXPECT_EQ(p.ledger().cached(), known);
  return p;
}

TEST(PlannerMoving, WhatIsKnownOfARequestNeedNotCome) {
  auto source = running(40, 3);
  const auto kv = source.complete_kv(first_id, epoch{1});
  EXPECT_EQ(kv.tokens, counting_from(1000, 32)) << "the third block is not complete";
  EXPECT_THAT(source.complete_kv(first_id, epoch{2}).tokens, IsEmpty());
  (void)source.park(first_id, epoch{1});
  auto p = that_knows(2);
  auto blocks = p.reserve_known(kv.tokens, kv.cache_salt);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(p.ledger().cached(), 0U) << "nobody takes them for something else";
  p.check();
  ASSERT_TRUE(p.hold_place());
  blocks.push_back(p.reserve(1)->front());
  ASSERT_TRUE(p.adopt(source.snapshot(first_id, 1), epoch{2}, blocks).accepted());
  p.check();
  const auto input = p.plan().value();
  EXPECT_EQ(input.slices.at(0).first_position, 42U);
  EXPECT_EQ(input.slices[0].blocks, blocks);
  (void)ends(p, input);
}

TEST(PlannerMoving, WhatIsKnownIsSharedByAllThatComeAndWithThoseWhoAreThere) {
  auto p = that_knows(2);
  const auto tokens = counting_from(1000, 40); // the last block is not complete
  auto alike = may_move(first_id, 40);
  alike.request = third_id;
  admit(p, std::move(alike));
  (void)step(p);
  const auto used = p.ledger().used();
  const auto one = p.reserve_known(tokens, 0);
  const auto other = p.reserve_known(std::span{tokens}.first(20), 0);
  EXPECT_EQ(one.size(), 2U);
  EXPECT_THAT(other, ElementsAre(one[0]));
  EXPECT_EQ(p.ledger().used(), used);
  EXPECT_THAT(p.reserve_known(tokens, 5), IsEmpty()) << "of another tenant";
  p.check();
  p.give_back(one);
  p.check();
  p.give_back(other);
  p.check();
  EXPECT_THROW(p.give_back(other), contract_violation);
}

TEST(PlannerMoving, WhatOthersNeedNextIsNotKeptForOneThatComes) {
  auto p = that_knows(2, 4);
  admit(p, may_move(third_id, 40)); // waits, and needs three of the four blocks
  EXPECT_EQ(p.reserve_known(counting_from(1000, 32), 0).size(), 1U);
  p.check();
}

TEST(PlannerMoving, ARequestIsRefusedWhoseTokensAreNotThoseOfTheKnownBlocks) {
  for (const bool salted : {false, true}) {
    auto source = running(40, 3);
    (void)source.park(first_id, epoch{1});
    auto moved = source.snapshot(first_id, 1);
    auto p = that_knows(2);
    auto blocks = p.reserve_known(moved.prompt, 0);
    ASSERT_EQ(blocks.size(), 2U);
    blocks.push_back(p.reserve(1)->front());
    ASSERT_TRUE(p.hold_place());
    if (salted)
      moved.cache_salt = 7;
    else
      ++moved.prompt[20];
    EXPECT_EQ(p.adopt(moved, epoch{2}, blocks).reason, refusal::invalid);
    p.give_back(blocks);
    p.free_place();
    p.check();
    EXPECT_EQ(p.ledger().used(), 0U);
  }
}

// Sums over another number of devices differ in the last bits: who asks for the same prompt here gets what is computed
// here.
TEST(PlannerMoving, KvOfAnotherNumberOfDevicesIsNobodyElses) {
  auto source = running(40, 3);
  (void)source.park(first_id, epoch{1});
  auto moved = source.snapshot(first_id, 0);
  moved.mixed_kv = true;
  auto settings = movable(16);
  settings.store = true;
  planner p{settings};
  ASSERT_TRUE(p.hold_place());
  ASSERT_TRUE(p.adopt(moved, epoch{2}, *p.reserve(3)).accepted());
  auto alike = may_move(first_id, 40);
  alike.request = second_id;
  admit(p, std::move(alike));
  const auto input = p.plan().value();
  ASSERT_EQ(input.slices.size(), 2U);
  EXPECT_EQ(input.slices[1].first_position, 0U);
  (void)ends(p, input);
  (void)p.park(first_id, epoch{2});
  EXPECT_TRUE(p.snapshot(first_id, 0).mixed_kv) << "wherever it goes";
  ASSERT_TRUE(p.unpark(first_id, epoch{2}, epoch{2}));
  for (auto steps = 0; !p.idle(); ++steps) {
    ASSERT_LT(steps, 100);
    for (const auto& news : p.complete(drawn_by(p.plan().value())).computed) EXPECT_NE(news.request, first_id);
  }
  EXPECT_EQ(p.ledger().known_prefix(counting_from(1000, 40), 0), 2U) << "of the other one";
  p.check();
}

TEST(PlannerMoving, ARefusedAdoptionLeavesBlocksAndPlaceWithTheCaller) {
  auto source = running(40, 3);
  (void)source.park(first_id, epoch{1});
  auto moved = source.snapshot(first_id, 1);
  planner p{movable(16)};
  ASSERT_TRUE(p.hold_place());
  const auto blocks = p.reserve(2).value();
  EXPECT_EQ(p.adopt(moved, epoch{2}, blocks).reason, refusal::invalid) << "42 tokens need three blocks";
  moved.tail[0].id = 99;
  EXPECT_EQ(p.adopt(moved, epoch{2}, blocks).reason, refusal::invalid);
  p.check();
  EXPECT_EQ(p.places_held(), 1U);
  EXPECT_EQ(p.ledger().used(), 2U);
  p.give_back(blocks);
  p.free_place();
  EXPECT_TRUE(p.idle());
  EXPECT_EQ(p.ledger().used(), 0U);
  EXPECT_THROW(p.give_back(blocks), contract_violation);
  EXPECT_THROW(p.free_place(), contract_violation);
}

TEST(PlannerMoving, AMovedRequestThatIsCompleteHereEndsAtOnce) {
  auto source = running(20, 5);
  (void)source.park(first_id, epoch{1});
  auto settings = movable(16);
  settings.context_length = 25;
  planner p{settings};
  ASSERT_TRUE(p.hold_place());
  const auto blocks = p.reserve(2).value();
  ASSERT_TRUE(p.adopt(source.snapshot(first_id, 0), epoch{2}, blocks).accepted());
  const auto effects = p.take_effects();
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].finish, finish_reason::length);
  EXPECT_THAT(effects.gone, ElementsAre(first_id));
  EXPECT_TRUE(p.idle());
  EXPECT_EQ(p.ledger().used(), 0U);
  EXPECT_EQ(p.places_held(), 0U);
}

TEST(PlannerMoving, ARequestWithoutKvJoinsTheQueueByItsArrival) {
  planner source{movable(16)};
  auto early = may_move(first_id, 20);
  early.arrival_ns = -5;
  (void)source.admit(early);
  (void)source.park(first_id, epoch{1});
  planner p{movable(16, 1)};
  (void)p.admit(may_move(second_id, 20));
  ASSERT_TRUE(p.adopt(source.snapshot(first_id, 0), epoch{2}, {}).accepted());
  EXPECT_EQ(p.plan()->slices.at(0).request, first_id);
}

TEST(PlannerMoving, AHeldPlaceIsNotGivenAwayAndTheLastOneIsLeftToThoseWhoWait) {
  planner p{movable(16, 2)};
  ASSERT_TRUE(p.hold_place());
  (void)p.admit(may_move(first_id, 20));
  (void)p.admit(may_move(second_id, 20));
  EXPECT_FALSE(p.hold_place());
  const auto alone = p.plan().value();
  EXPECT_EQ(alone.slices.size(), 1U);
  p.free_place();
  EXPECT_FALSE(p.hold_place()) << "the second request waits for it";
  (void)p.complete(drawn_by(alone));
  EXPECT_EQ(p.plan()->slices.size(), 2U);
}

TEST(PlannerMoving, PlacesKeptForThoseWhoComeAndThoseWhoLeaveAreReported) {
  auto p = running(20, 1);
  ASSERT_TRUE(p.hold_place());
  EXPECT_EQ(p.load().running, 1U);
  EXPECT_EQ(p.load().places_kept, 1U);
  (void)p.park(first_id, epoch{1});
  EXPECT_EQ(p.load().running, 0U);
  EXPECT_EQ(p.load().places_kept, 2U);
  (void)p.admit(may_move(second_id, 20));
  (void)p.park(second_id, epoch{1});
  EXPECT_EQ(p.load().migrating, 2U);
  EXPECT_EQ(p.load().places_kept, 2U) << "who waited has none";
}

TEST(PlannerMoving, NobodyJoinsAStaticBatch) {
  auto settings = movable(16);
  settings.mode = batching_mode::static_batch;
  planner p{settings};
  EXPECT_FALSE(p.hold_place());
}

TEST(PlannerMoving, BlocksThatRunningAndFirstWaitingRequestsNeedAreNotReserved) {
  auto p = running(31, 1, 8); // 2 blocks are full and the next token takes a third
  EXPECT_FALSE(p.reserve(6));
  auto some = p.reserve(5);
  ASSERT_TRUE(some);
  p.give_back(*some);
  (void)p.admit(may_move(second_id, 40)); // 3 blocks
  EXPECT_FALSE(p.reserve(3));
  some = p.reserve(2);
  ASSERT_TRUE(some);
  EXPECT_TRUE(p.reserve(0)->empty());
  p.check();
}

TEST(PlannerMoving, WhoWaitsForReservedBlocksGoesOnWhenTheyAreGivenBack) {
  planner p{movable(4)};
  const auto held = p.reserve(4).value();
  (void)p.admit(may_move(first_id, 20));
  EXPECT_FALSE(p.plan());
  p.give_back(held);
  EXPECT_TRUE(p.plan());
}

} // namespace
} // namespace godwit::protocols
