#include <godwit/protocols/batching/planner.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

/// Which requests a planner offers for moving, and what its updates say of a prompt.
namespace godwit::protocols {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

planner_settings settings_of(std::uint32_t running = 4) {
  planner_settings settings;
  settings.blocks = 64;
  settings.context_length = 500;
  settings.step_tokens_max = 64;
  settings.running_max = running;
  settings.execution_levels = {{"normal", 0}, {"high", 9}};
  return settings;
}

generate_request request_of(std::uint64_t id, std::uint8_t level = 0) {
  generate_request request;
  request.request = request_id{id};
  request.epoch = epoch{1};
  request.prompt.resize(20);
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<token_id>(id * 1000));
  request.stop.max_tokens = 50;
  request.execution_level = level;
  return request;
}

void admit(planner& p, generate_request request) { ASSERT_TRUE(p.admit(std::move(request)).accepted()); }

step_output output_of(const step_input& input, token_id token = 7) {
  step_output output;
  output.step = input.step;
  for (const auto& slice : input.slices) {
    if (slice.samples) output.tokens.emplace_back(token);
    if (slice.scored.empty()) continue;
    output.scores.emplace_back();
    for (const auto scored : slice.scored) output.scores.back().emplace_back(scored);
  }
  return output;
}

step_effects step(planner& p, token_id token = 7) { return p.complete(output_of(p.plan().value(), token)); }

TEST(PlannerOffers, ARequestThatIsAboutToBeParkedIsNotOfferedAgain) {
  planner p{settings_of()};
  admit(p, request_of(1));
  (void)step(p);
  ASSERT_TRUE(p.plan());
  EXPECT_THAT(p.move_candidates(), SizeIs(1));
  ASSERT_EQ(p.park(request_id{1}, epoch{1}), planner::parking::parked_after_step);
  EXPECT_THAT(p.move_candidates(), IsEmpty());
  ASSERT_TRUE(p.unpark(request_id{1}, epoch{1}, epoch{1}));
  EXPECT_THAT(p.move_candidates(), SizeIs(1)) << "the order was taken back";
}

// Its level keeps its headroom here when the head of line leaves: that of the one which runs.
TEST(PlannerOffers, AHeadOfLineIsNotTheLastOfItsLevel) {
  planner p{settings_of(1)};
  admit(p, request_of(1, 1));
  (void)step(p);
  admit(p, request_of(2, 1));
  const auto all = p.move_candidates();
  ASSERT_THAT(all, SizeIs(2));
  ASSERT_TRUE(all[0].head_of_line);
  EXPECT_FALSE(all[0].last_of_level);
  EXPECT_TRUE(all[1].last_of_level);
}

TEST(PlannerOffers, ScoresOfAPromptComeWithTheFirstTokenAndWithNoUpdateThatHasNone) {
  auto request = request_of(1);
  request.sampling.prompt_logprobs = 0;
  planner drawn{settings_of()};
  admit(drawn, request);
  const auto with_token = step(drawn);
  ASSERT_THAT(with_token.updates, SizeIs(1));
  EXPECT_THAT(with_token.updates[0].prompt_scores, SizeIs(19));
  EXPECT_THAT(step(drawn).updates.at(0).prompt_scores, IsEmpty()) << "once";

  planner failed{settings_of()};
  admit(failed, request);
  const auto without = step(failed, no_token);
  ASSERT_THAT(without.updates, SizeIs(1));
  EXPECT_EQ(without.updates[0].finish, finish_reason::error);
  EXPECT_THAT(without.updates[0].prompt_scores, IsEmpty());
}

} // namespace
} // namespace godwit::protocols
