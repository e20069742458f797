// Requests whose KV comes from a store, and KV that goes to one: the planner's part.
#include "protocols/batching/planner_support.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::asks_for;
using testing_support::drawn_by;
using testing_support::first_id;
using testing_support::second_id;
using testing_support::settings_for;
using testing_support::step;

planner_settings storing(std::uint32_t blocks) {
  auto settings = settings_for(blocks, 4, 512);
  settings.waiting_max = 4;
  settings.store = true;
  return settings;
}

generate_request salted(request_id id, std::size_t prompt, std::uint32_t max_tokens = 20) {
  auto request = asks_for(id.value(), prompt, max_tokens);
  request.cache_salt = 77;
  return request;
}

/// The one load that a plan orders, of a planner that has nothing else to do.
load_order order_of(planner& p) {
  EXPECT_FALSE(p.plan());
  auto effects = p.take_effects();
  EXPECT_THAT(effects.loads, SizeIs(1));
  return effects.loads.empty() ? load_order{} : std::move(effects.loads.front());
}

TEST(PlannerStore, WhatIsStoredIsLoadedAsTheRequestStarts) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 200), 192).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(order.request, first_id);
  EXPECT_EQ(order.cache_salt, 77U);
  EXPECT_EQ(order.first, 0U);
  EXPECT_EQ(order.upto, 192U);
  EXPECT_EQ(order.tokens, std::vector<token_id>(salted(first_id, 192).prompt));
  EXPECT_THAT(order.blocks, SizeIs(12));
  EXPECT_EQ(p.requests().at(0).state, request_state::running) << "it has its place";
  EXPECT_EQ(p.load().running, 1U);
  EXPECT_EQ(p.load().migrating, 0U);
  EXPECT_FALSE(p.has_work()) << "nothing to plan before it is there";
  p.check();
  p.loaded(order, 192);
  p.check();
  const auto input = p.plan().value();
  ASSERT_THAT(input.slices, SizeIs(1));
  EXPECT_EQ(input.slices[0].first_position, 192U);
  EXPECT_EQ(std::vector(input.slices[0].blocks.begin(), input.slices[0].blocks.begin() + 12), order.blocks);
  const auto effects = p.complete(drawn_by(input));
  EXPECT_EQ(effects.updates.at(0).cached_tokens, 192U);
  EXPECT_EQ(p.load().store_hit_tokens_total, 192U);
  EXPECT_EQ(p.load().store_query_tokens_total, 200U);
  EXPECT_THAT(effects.computed, IsEmpty()) << "the store has it";
}

TEST(PlannerStore, WhatHasNotComeIsComputedAndNotAskedForAgain) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 200), 192).accepted());
  const auto order = order_of(p);
  p.loaded(order, 64);
  EXPECT_EQ(p.ledger().used(), 4U) << "the rest is given back";
  const auto input = p.plan().value();
  EXPECT_EQ(input.slices.at(0).first_position, 64U);
  EXPECT_THAT(p.take_effects().loads, IsEmpty());
  const auto effects = p.complete(drawn_by(input));
  ASSERT_THAT(effects.computed, SizeIs(1)) << "the store lacks it";
  EXPECT_EQ(effects.computed[0].stored, 64U);
  EXPECT_THAT(effects.computed[0].tokens, SizeIs(192));
}

TEST(PlannerStore, LoadsBeginWhereThePrefixCacheEndsByWholeChunks) {
  planner p{storing(64)};
  ASSERT_TRUE(p.admit(salted(first_id, 100, 1)).accepted());
  (void)step(p); // 96 tokens are cached
  auto again = salted(first_id, 300);
  again.request = second_id;
  ASSERT_TRUE(p.admit(again, 256).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(order.first, 64U);
  EXPECT_EQ(order.upto, 256U);
  p.loaded(order, 256);
  p.check();
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 256U);
}

TEST(PlannerStore, TooLittleGainIsComputed) {
  auto settings = storing(64);
  settings.load_min = 200;
  planner p{settings};
  ASSERT_TRUE(p.admit(salted(first_id, 250), 192).accepted());
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 0U);
  EXPECT_THAT(p.take_effects().loads, IsEmpty());
}

TEST(PlannerStore, TheLastTokenIsAlwaysComputed) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 128), 128).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(order.upto, 64U);
}

TEST(PlannerStore, OthersRunMeanwhile) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  ASSERT_TRUE(p.admit(salted(second_id, 30)).accepted());
  const auto input = p.plan().value();
  EXPECT_THAT(input.slices, SizeIs(1));
  EXPECT_EQ(input.slices[0].request, second_id);
  const auto effects = p.take_effects();
  ASSERT_THAT(effects.loads, SizeIs(1));
  p.loaded(effects.loads[0], 128); // while the step runs
  p.check();
  (void)p.complete(drawn_by(input));
  EXPECT_THAT(p.plan().value().slices, SizeIs(2));
}

// Its blocks stay somebody's while something may land in them: the caller has references of its own.
TEST(PlannerStore, OneThatIsCancelledMeanwhileIsGoneAtOnce) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  const auto order = order_of(p);
  for (const auto block : order.blocks) p.ledger().share(block);
  EXPECT_EQ(p.cancel({first_id, epoch{1}}), planner::cancellation::freed);
  EXPECT_EQ(p.ledger().used(), 8U);
  p.check(order.blocks);
  for (const auto block : order.blocks) p.ledger().release(block);
  p.loaded(order, 128);
  EXPECT_TRUE(p.idle());
  EXPECT_EQ(p.ledger().used(), 0U);
  EXPECT_EQ(p.load().running, 0U);
}

TEST(PlannerStore, OneThatMovesLeavesWithWhatItHas) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(p.park(first_id, epoch{1}), planner::parking::parked);
  EXPECT_THAT(p.take_effects().parked, ElementsAre(first_id));
  EXPECT_EQ(p.view(first_id, epoch{1})->state, request_state::migrating);
  EXPECT_EQ(p.snapshot(first_id, 0).computed, 0U);
  p.check();
  p.loaded(order, 128); // too late
  p.check();
  EXPECT_TRUE(p.unpark(first_id, epoch{1}, epoch{1}));
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 0U);
}

// A migration that came to nothing before it asked for the request to be parked takes back what it never ordered.
TEST(PlannerStore, NobodyElseEndsALoad) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  const auto order = order_of(p);
  EXPECT_TRUE(p.unpark(first_id, epoch{1}, epoch{3}));
  EXPECT_FALSE(p.plan());
  p.loaded(order, 128);
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 128U);
  EXPECT_TRUE(p.view(first_id, epoch{3}));
}

TEST(PlannerStore, AnEarlierLoadSaysNothingOfALaterOne) {
  planner p{storing(10)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  const auto order = order_of(p);
  (void)p.park(first_id, epoch{1});
  ASSERT_TRUE(p.unpark(first_id, epoch{1}, epoch{1})); // in the batch, with nothing
  auto urgent = salted(second_id, 100, 30);
  urgent.priority = -1;
  ASSERT_TRUE(p.admit(urgent).accepted());
  (void)step(p); // takes the other's blocks
  while (!p.ledger().used() || p.load().running != 1) (void)step(p);
  (void)p.cancel({second_id, epoch{1}});
  const auto again = order_of(p);
  EXPECT_GT(again.number, order.number);
  p.loaded(order, 128);
  EXPECT_FALSE(p.plan()) << "it waits for its own";
  p.loaded(again, 128);
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 128U);
  p.check();
}

TEST(PlannerStore, ASiblingWaitsForALoad) {
  planner p{storing(64)};
  ASSERT_TRUE(p.admit(salted(first_id, 130), 128).accepted());
  auto sibling = salted(first_id, 130);
  sibling.request = second_id;
  sibling.sibling = first_id;
  ASSERT_TRUE(p.admit(sibling).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(p.load().waiting, 1U);
  p.loaded(order, 128);
  (void)step(p); // the prompt is computed
  const auto input = p.plan().value();
  EXPECT_THAT(input.slices, SizeIs(2));
  EXPECT_EQ(input.slices[1].tokens.size(), 1U) << "the sibling takes up all of it";
}

// The last token of a prompt, alone in its step, looks like one that decodes.
TEST(PlannerStore, APromptWhoseLastStepHasOneTokenIsTold) {
  auto settings = storing(32);
  settings.step_tokens_max = 64;
  planner p{settings};
  ASSERT_TRUE(p.admit(salted(first_id, 129)).accepted());
  EXPECT_THAT(step(p).computed, IsEmpty());
  EXPECT_THAT(step(p).computed, IsEmpty());
  const auto effects = step(p);
  ASSERT_THAT(effects.updates, SizeIs(1));
  ASSERT_THAT(effects.computed, SizeIs(1));
  EXPECT_THAT(effects.computed[0].tokens, SizeIs(128));
  EXPECT_EQ(p.load().prompt_tokens_total, 129U);
  EXPECT_THAT(step(p).computed, IsEmpty());
  EXPECT_EQ(p.load().prompt_tokens_total, 129U) << "what follows is the answer";
}

TEST(PlannerStore, WhatIsComputedIsToldOnce) {
  planner p{storing(32)};
  ASSERT_TRUE(p.admit(salted(first_id, 70, 60)).accepted());
  auto effects = step(p);
  ASSERT_THAT(effects.computed, SizeIs(1)) << "the prompt, as it is computed";
  EXPECT_EQ(effects.computed[0].request, first_id);
  EXPECT_EQ(effects.computed[0].cache_salt, 77U);
  EXPECT_EQ(effects.computed[0].stored, 0U);
  EXPECT_EQ(effects.computed[0].tokens, salted(first_id, 64).prompt);
  for (int i = 0; i < 58; ++i) EXPECT_THAT(step(p).computed, IsEmpty());
  effects = step(p);
  ASSERT_TRUE(effects.updates.at(0).finished());
  ASSERT_THAT(effects.computed, SizeIs(1)) << "and the answer, as it ends: 129 of 130 tokens have KV";
  EXPECT_EQ(effects.computed[0].stored, 64U);
  EXPECT_THAT(effects.computed[0].tokens, SizeIs(128));
  EXPECT_EQ(p.ledger().known_prefix(effects.computed[0].tokens, 77), 8U) << "it is cached as yet";
}

TEST(PlannerStore, WithoutAStoreNothingIsToldOrLoaded) {
  planner p{storing(32)};
  p.use_store(false);
  ASSERT_TRUE(p.admit(salted(first_id, 130, 1), 128).accepted());
  const auto input = p.plan().value();
  EXPECT_EQ(input.slices.at(0).first_position, 0U);
  EXPECT_THAT(p.complete(drawn_by(input)).computed, IsEmpty());
  EXPECT_EQ(p.load().store_query_tokens_total, 0U);
}

TEST(PlannerStore, OneThatWantsItsPromptsProbabilitiesComputesIt) {
  planner p{storing(32)};
  auto request = salted(first_id, 130);
  request.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(p.admit(request, 128).accepted());
  EXPECT_EQ(p.plan().value().slices.at(0).first_position, 0U);
}

TEST(PlannerStore, NobodyStartsAloneWhileOthersLoad) {
  planner p{storing(16)};
  ASSERT_TRUE(p.admit(salted(first_id, 200), 192).accepted()); // 13 blocks
  ASSERT_TRUE(p.admit(salted(second_id, 200), 192).accepted());
  const auto order = order_of(p);
  EXPECT_EQ(order.request, first_id);
  EXPECT_EQ(p.load().waiting, 1U) << "there is no memory for it";
  p.loaded(order, 192);
  while (p.load().running > 0) (void)step(p);
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

TEST(PlannerStore, NoMoreIsFoundThanWasLookedUp) {
  planner p{storing(64)};
  ASSERT_TRUE(p.admit(salted(first_id, 113, 1)).accepted()); // 112 tokens are cached
  (void)step(p);
  auto again = salted(first_id, 257);
  again.request = second_id;
  ASSERT_TRUE(p.admit(again, 256).accepted());
  const auto queries = p.load().store_query_tokens_total;
  const auto order = order_of(p);
  EXPECT_EQ(order.first, 64U);
  p.loaded(order, 256);
  EXPECT_EQ(p.load().store_query_tokens_total - queries, 257U - 64);
  EXPECT_EQ(p.load().store_hit_tokens_total, 192U);
}

TEST(PlannerStore, SaysWhenBlocksAreLacking) {
  planner p{storing(10)};
  ASSERT_TRUE(p.admit(salted(first_id, 100)).accepted());
  (void)step(p);
  EXPECT_FALSE(p.lacks_blocks());
  ASSERT_TRUE(p.admit(salted(second_id, 100)).accepted());
  EXPECT_TRUE(p.lacks_blocks());
  (void)p.cancel({second_id, epoch{1}});
  EXPECT_FALSE(p.lacks_blocks());
}

} // namespace
} // namespace godwit::protocols
