#include <godwit/protocols/batching/planner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

/// Samples of one prompt beside those that must not share with them, and what parked requests and a warm cache change.
namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr request_id first{1}, second{2}, third{3};

/// Steps of 64 tokens.
planner_settings settings_of(std::uint32_t blocks = 64) {
  planner_settings settings;
  settings.blocks = blocks;
  settings.context_length = 500;
  settings.step_tokens_max = 64;
  settings.running_max = 8;
  return settings;
}

generate_request request_of(request_id id, std::size_t prompt, token_id from, std::int32_t priority = 0) {
  generate_request request;
  request.request = id;
  request.epoch = epoch{1};
  request.prompt.resize(prompt);
  std::iota(request.prompt.begin(), request.prompt.end(), from);
  request.stop.max_tokens = 100;
  request.priority = priority;
  return request;
}

/// The second sample of a prompt of which the first one is here.
generate_request sample_of(const generate_request& one) {
  auto request = one;
  request.request = second;
  request.sibling = one.request;
  return request;
}

void admit(planner& p, generate_request request) { ASSERT_TRUE(p.admit(std::move(request)).accepted()); }

step_effects run(planner& p, const step_input& input) {
  step_output output;
  output.step = input.step;
  for (const auto& slice : input.slices)
    if (slice.samples) output.tokens.emplace_back(7);
  auto effects = p.complete(output);
  p.check();
  return effects;
}

/// Plans a step and runs it; whom it was for, in order.
std::vector<request_id> step(planner& p) {
  std::vector<request_id> ids;
  const auto input = p.plan();
  if (!input) return ids;
  for (const auto& slice : input->slices) ids.push_back(slice.request);
  (void)run(p, *input);
  return ids;
}

TEST(PlannerSiblings, ASampleOfAnotherCacheSaltComputesThePromptItself) {
  for (const bool prefix_caching : {false, true}) {
    auto settings = settings_of();
    settings.prefix_caching = prefix_caching;
    planner p{settings};
    const auto one = request_of(first, 40, 1000);
    admit(p, one);
    EXPECT_THAT(step(p), ElementsAre(first));
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
  planner p{settings_of()};
  const auto one = request_of(first, 100, 1000);
  admit(p, one);
  auto other = sample_of(one);
  other.cache_salt = 5;
  admit(p, other);
  (void)step(p);
  EXPECT_THAT(step(p), ElementsAre(first, second)) << "in what the first leaves of the budget";
}

TEST(PlannerSiblings, AFirstSampleThatIsParkedInItsPromptDoesNotHoldTheOthers) {
  planner p{settings_of()};
  const auto one = request_of(first, 100, 1000);
  admit(p, one);
  admit(p, sample_of(one));
  EXPECT_THAT(step(p), ElementsAre(first));
  ASSERT_EQ(p.park(first, epoch{1}), planner::parking::parked);
  EXPECT_THAT(step(p), ElementsAre(second));
}

TEST(PlannerSiblings, ASampleOfABetterPriorityIsNotHeldByThePromptOfTheFirst) {
  planner p{settings_of()};
  const auto one = request_of(first, 100, 1000, 5);
  admit(p, one);
  EXPECT_THAT(step(p), ElementsAre(first));
  auto urgent = sample_of(one);
  urgent.priority = 0;
  admit(p, urgent);
  EXPECT_THAT(step(p), ::testing::Contains(second));
}

// What a parked request still lacks is kept for it: the victim's blocks would not let the other start either.
TEST(PlannerSiblings, NobodyIsPreemptedForBlocksThatAParkedRequestLacks) {
  planner p{settings_of(12)};
  admit(p, request_of(first, 100, 1000, 5)); // 7 blocks, 4 of them in the first step
  EXPECT_THAT(step(p), ElementsAre(first));
  ASSERT_EQ(p.park(first, epoch{1}), planner::parking::parked);
  admit(p, request_of(second, 20, 2000, 5)); // 2 blocks
  EXPECT_THAT(step(p), ElementsAre(second));
  ASSERT_EQ(p.load().outstanding_blocks, 3U);
  admit(p, request_of(third, 90, 3000, 0)); // 6 blocks: those that are free
  EXPECT_THAT(step(p), ElementsAre(second));
  EXPECT_EQ(p.load().preemptions_total, 0U);
  ASSERT_EQ(p.cancel({first, epoch{1}}), planner::cancellation::freed);
  EXPECT_THAT(step(p), ::testing::Contains(third)) << "once nothing is kept for the parked one";
}

TEST(PlannerSiblings, TokensOfTheAnswerAreNotCountedAsCachedOnesOfThePrompt) {
  planner p{settings_of()};
  auto request = request_of(first, 20, 1000);
  request.stop.max_tokens = 60;
  admit(p, request);
  while (!p.idle()) (void)step(p); // all full blocks of its 80 tokens are cached
  request.epoch = epoch{2};
  request.answer.assign(50, 7); // what its home has of them
  admit(p, request);
  const auto input = p.plan().value();
  ASSERT_EQ(input.slices.at(0).first_position, 64U) << "found in the cache";
  const auto effects = run(p, input);
  ASSERT_EQ(effects.updates.size(), 1U);
  EXPECT_EQ(effects.updates[0].prompt_tokens, 20U);
  EXPECT_EQ(effects.updates[0].cached_tokens, 20U);
}

} // namespace
} // namespace godwit::protocols
