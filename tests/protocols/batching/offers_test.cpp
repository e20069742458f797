#include "protocols/batching/planner_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

/// Which requests a planner offers for moving, and what its updates say of a prompt.
namespace godwit::protocols {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::admit;
using testing_support::asks_for;
using testing_support::step;

planner_settings two_levels(std::uint32_t running = 4) {
  planner_settings settings;
  settings.blocks = 64;
  settings.context_length = 500;
  settings.step_tokens_max = 64;
  settings.running_max = running;
  settings.execution_levels = {{"normal", 0}, {"high", 9}};
  return settings;
}

generate_request of_level(std::uint8_t level, std::uint64_t id = 1) {
  auto request = asks_for(id, 20, 50);
  request.execution_level = level;
  return request;
}

TEST(PlannerOffers, ARequestThatIsAboutToBeParkedIsNotOfferedAgain) {
  planner p{two_levels()};
  admit(p, of_level(0));
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
  planner p{two_levels(1)};
  admit(p, of_level(1));
  (void)step(p);
  admit(p, of_level(1, 2));
  const auto all = p.move_candidates();
  ASSERT_THAT(all, SizeIs(2));
  ASSERT_TRUE(all[0].head_of_line);
  EXPECT_FALSE(all[0].last_of_level);
  EXPECT_TRUE(all[1].last_of_level);
}

TEST(PlannerOffers, ScoresOfAPromptComeWithTheFirstTokenAndWithNoUpdateThatHasNone) {
  auto request = of_level(0);
  request.sampling.prompt_logprobs = 0;
  planner drawn{two_levels()};
  admit(drawn, request);
  const auto with_token = step(drawn);
  ASSERT_THAT(with_token.updates, SizeIs(1));
  EXPECT_THAT(with_token.updates[0].prompt_scores, SizeIs(19));
  EXPECT_THAT(step(drawn).updates.at(0).prompt_scores, IsEmpty()) << "once";

  planner failed{two_levels()};
  admit(failed, request);
  const auto without = step(failed, no_token);
  ASSERT_THAT(without.updates, SizeIs(1));
  EXPECT_EQ(without.updates[0].finish, finish_reason::error);
  EXPECT_THAT(without.updates[0].prompt_scores, IsEmpty());
}

} // namespace
} // namespace godwit::protocols
