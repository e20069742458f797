// Dispatch of prompts that begin alike.
#include "loads.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace godwit::protocols {
namespace {

/// Where a prompt with these beginnings goes; 0: nowhere.
std::uint32_t picked_for(dispatcher& policy, const std::vector<block_hash>& prefix, std::uint32_t count = 15) {
  const auto choice = policy.pick({.tokens = count, .prefix = prefix});
  return choice ? choice->instance.value() : 0;
}
/// All that was picked is over.
void all_idle(dispatcher& policy, std::uint64_t sequence, std::uint32_t instances = 3) {
  for (std::uint32_t i = 1; i <= instances; ++i) policy.report(load_of(i, 0, 0, sequence));
}

TEST(DispatchPrefix, OfEqualsTheOneThatWasSentTheBeginningIsNext) {
  for (const auto name : {"freeness", "infaas", "least_requests", "cache_aware"}) {
    const auto policy = make_dispatcher(name);
    all_idle(*policy, 1);
    const auto home = picked_for(*policy, {1, 2});
    all_idle(*policy, 2);
    EXPECT_NE(picked_for(*policy, {7}), home) << name << ": another prompt goes to who waited longest";
    all_idle(*policy, 3);
    const auto choice = policy->pick({.tokens = 15, .prefix = std::vector<block_hash>{1, 2, 3}});
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->instance.value(), home) << name;
    EXPECT_EQ(choice->why.prefix_tokens, 2 * 64U) << name;
  }
}

TEST(DispatchPrefix, FirstTokensAreExpectedByItUnderEveryPolicy) {
  const std::vector<block_hash> prefix{1, 2, 3, 4};
  for (const auto name :
       {"freeness", "infaas", "least_requests", "power_of_two", "round_robin", "cache_aware", "ttft"}) {
    const auto policy = make_dispatcher(name, 1);
    const auto idle = [&](std::uint64_t sequence) {
      auto report = load_of(1, 0, 0, sequence);
      report.pace.knows_prompts = true;
      report.pace.token = 1e6;
      policy->report(report);
    };
    idle(1);
    const auto first = policy->pick({.tokens = 300, .prefix = prefix});
    ASSERT_TRUE(first) << name;
    EXPECT_GT(first->why.ttft_ns, 250'000'000) << name;
    idle(2);
    dispatch_demand hurried{.tokens = 300, .prefix = prefix};
    hurried.objectives.ttft_ns = 100'000'000;
    hurried.objectives.refusable = true;
    const auto second = policy->pick(hurried);
    ASSERT_TRUE(second) << name << ": 44 tokens are left to compute";
    EXPECT_EQ(second->why.prefix_tokens, 256U) << name;
    EXPECT_LT(second->why.ttft_ns, 100'000'000) << name;
  }
}

TEST(DispatchPrefix, TheLongerBeginningCountsMore) {
  const auto policy = make_dispatcher("freeness");
  all_idle(*policy, 1);
  const auto shorter = picked_for(*policy, {1, 5});
  all_idle(*policy, 2);
  policy->set_stale(instance_id{shorter}, true);
  const auto longer = picked_for(*policy, {1, 2});
  all_idle(*policy, 3);
  EXPECT_EQ(picked_for(*policy, {1, 2, 3}), longer);
  all_idle(*policy, 4);
  EXPECT_EQ(picked_for(*policy, {1, 5, 6}), shorter);
}

TEST(DispatchPrefix, IsNoReasonToPickWhoHasLessRoom) {
  const auto policy = make_dispatcher("freeness");
  all_idle(*policy, 1);
  const auto home = picked_for(*policy, {1, 2});
  EXPECT_NE(picked_for(*policy, {1, 2}), home) << "the request before is on its way there";
  all_idle(*policy, 2);
  policy->report(load_of(home, 50, 2, 3));
  EXPECT_NE(picked_for(*policy, {1, 2, 3}), home);
}

TEST(DispatchPrefix, ThatOfAnInstanceThatStartedAgainIsGone) {
  const auto policy = make_dispatcher("freeness");
  all_idle(*policy, 1, 2);
  const auto home = picked_for(*policy, {1});
  auto again = load_of(home, 0, 0, 1);
  again.generation = 2;
  policy->report(again);
  const auto choice = policy->pick({.tokens = 15, .prefix = std::vector<block_hash>{1}});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->why.prefix_tokens, 0U);
}

TEST(DispatchPrefix, InTurnIsInTurn) {
  const auto policy = make_dispatcher("round_robin");
  all_idle(*policy, 1);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(picked_for(*policy, {1, 2}));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3}));
}

TEST(DispatchPrefix, OutlivesAChangeOfPolicy) {
  const auto before = make_dispatcher("freeness");
  all_idle(*before, 1);
  const auto home = picked_for(*before, {1, 2});
  const auto after = make_dispatcher("cache_aware");
  after->take_over(*before);
  all_idle(*after, 2);
  EXPECT_EQ(picked_for(*after, {1, 2}), home);
}

TEST(CacheAware, ATokenToBeComputedCostsAsMuchAsABlockInUse) {
  const auto policy = make_dispatcher("cache_aware");
  for (std::uint32_t i = 1; i <= 2; ++i) policy->report(load_of(i, 0, 0, 1));
  EXPECT_EQ(picked_for(*policy, {1, 2}, 150), 1U);
  // Two marks are 128 tokens.
  const auto used = [](std::uint32_t instance, std::uint32_t blocks, std::uint64_t sequence) {
    auto load = load_of(instance, blocks, 1, sequence);
    load.blocks_total = 1000;
    return load;
  };
  policy->report(used(1, 137, 2));
  policy->report(used(2, 10, 2));
  auto choice = policy->pick({.tokens = 150, .prefix = std::vector<block_hash>{1, 2}});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance.value(), 1U);
  EXPECT_EQ(choice->why.score, 137 + 150 - 128);
  EXPECT_EQ(choice->why.runner_up, 10 + 150);
  policy->report(used(1, 139, 3));
  policy->report(used(2, 10, 3));
  choice = policy->pick({.tokens = 150, .prefix = std::vector<block_hash>{1, 2}});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance.value(), 2U);
}

TEST(CacheAware, ABeginningIsNoPlace) {
  const auto policy = make_dispatcher("cache_aware");
  for (std::uint32_t i = 1; i <= 2; ++i) policy->report(load_of(i, 0, 0, 1));
  const auto home = picked_for(*policy, {1, 2}, 150);
  auto leaves = load_of(home, 0, 0, 2);
  leaves.terminating = true;
  policy->report(leaves);
  EXPECT_EQ(picked_for(*policy, {1, 2}, 150), 3 - home);
  policy->remove(instance_id{3 - home});
  EXPECT_EQ(picked_for(*policy, {1, 2}, 150), 0U);
}

} // namespace
} // namespace godwit::protocols
