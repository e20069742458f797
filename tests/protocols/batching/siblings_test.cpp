#include "protocols/batching/planner_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Samples of one prompt beside those that must not share with them, and what parked requests and a warm cache change.
namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::admit;
using testing_support::asks_for;
using testing_support::ends;
using testing_support::first_id;
using testing_support::second_id;
using testing_support::served;
using testing_support::third_id;

planner_settings steps_of_64(std::uint32_t blocks = 64) {
  planner_settings settings;
  settings.blocks = blocks;
  settings.context_length = 500;
  settings.step_tokens_max = 64;
  settings.running_max = 8;
  return settings;
}

generate_request prompted(request_id id, std::size_t prompt, std::int32_t priority = 0) {
  return asks_for(id.value(), prompt, 100, priority);
}

/// The second sample of a prompt of which the first one is here.
generate_request sample_of(const generate_request& one) {
  auto request = one;
  request.request = second_id;
  request.sibling = one.request;
  return request;
}

TEST(PlannerSiblings, ASampleOfAnotherCacheSaltComputesThePromptItself) {
  for (const bool prefix_caching : {false, true}) {
    auto settings = steps_of_64();
    settings.prefix_caching = prefix_caching;
    planner p{settings};
    const auto one = prompted(first_id, 40);
    admit(p, one);
    EXPECT_THAT(served(p), ElementsAre(1));
    auto other = sample_of(one);
    other.cache_salt = 5;
    admit(p, other);
    const auto input = p.plan().value();
    ASSERT_EQ(input.slices.size(), 2U);
    EXPECT_EQ(input.slices[1].first_position, 0U);
    EXPECT_THAT(input.copies, IsEmpty());
    for (const auto block : input.slices[1].blocks)
      EXPECT_THAT(input.slices[0].blocks, ::testing::Not(::testing::Contains(block)));
  }
}

TEST(PlannerSiblings, ASampleOfAnotherCacheSaltIsNotHeldByThePromptOfTheFirst) {
  planner p{steps_of_64()};
  const auto one = prompted(first_id, 100);
  admit(p, one);
  auto other = sample_of(one);
  other.cache_salt = 5;
  admit(p, other);
  (void)served(p);
  EXPECT_THAT(served(p), ElementsAre(1, 2)) << "in what the first leaves of the budget";
}

TEST(PlannerSiblings, AFirstSampleThatIsParkedInItsPromptDoesNotHoldTheOthers) {
  planner p{steps_of_64()};
  const auto one = prompted(first_id, 100);
  admit(p, one);
  admit(p, sample_of(one));
  EXPECT_THAT(served(p), ElementsAre(1));
  ASSERT_EQ(p.park(first_id, epoch{1}), planner::parking::parked);
  EXPECT_THAT(served(p), ElementsAre(2));
}

TEST(PlannerSiblings, ASampleOfABetterPriorityIsNotHeldByThePromptOfTheFirst) {
  planner p{steps_of_64()};
  const auto one = prompted(first_id, 100, 5);
  admit(p, one);
  EXPECT_THAT(served(p), ElementsAre(1));
  auto urgent = sample_of(one);
  urgent.priority = 0;
  admit(p, urgent);
  EXPECT_THAT(served(p), ::testing::Contains(2));
}

// What a parked request still lacks is kept for it: the victim's blocks would not let the other start either.
TEST(PlannerSiblings, NobodyIsPreemptedForBlocksThatAParkedRequestLacks) {
  planner p{steps_of_64(12)};
  admit(p, prompted(first_id, 100, 5)); // 7 blocks, 4 of them in the first step
  EXPECT_THAT(served(p), ElementsAre(1));
  ASSERT_EQ(p.park(first_id, epoch{1}), planner::parking::parked);
  admit(p, prompted(second_id, 20, 5)); // 2 blocks
  EXPECT_THAT(served(p), ElementsAre(2));
  ASSERT_EQ(p.load().outstanding_blocks, 3U);
  admit(p, prompted(third_id, 90, 0)); // 6 blocks: those that are free
  EXPECT_THAT(served(p), ElementsAre(2));
  EXPECT_EQ(p.load().preemptions_total, 0U);
  ASSERT_EQ(p.cancel({first_id, epoch{1}}), planner::cancellation::freed);
  EXPECT_THAT(served(p), ::testing::Contains(3)) << "once nothing is kept for the parked one";
}

TEST(PlannerSiblings, TokensOfTheAnswerAreNotCountedAsCachedOnesOfThePrompt) {
  planner p{steps_of_64()};
  auto request = prompted(first_id, 20);
  request.stop.max_tokens = 60;
  admit(p, request);
  while (!p.idle()) (void)served(p); // all full blocks of its 80 tokens are cached
  request.epoch = epoch{2};
  request.answer.assign(50, 7); // what its home has of them
  admit(p, request);
  const auto input = p.plan().value();
  ASSERT_EQ(input.slices.at(0).first_position, 64U) << "found in the cache";
  const auto effects = ends(p, input);
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].prompt_tokens, 20U);
  EXPECT_EQ(effects.updates[0].cached_tokens, 20U);
}

} // namespace
} // namespace godwit::protocols
