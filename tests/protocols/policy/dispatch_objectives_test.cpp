// Dispatch by what is expected of instances.
#include "loads.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace godwit::protocols {
namespace {

using lack = dispatcher::lack;

/// An instance that has so many tokens to compute before a new prompt, at 1 ms each.
load_report behind(std::uint32_t instance, std::uint64_t tokens, std::uint64_t sequence = 1) {
  auto r = load_of(instance, 10, 2, sequence);
  r.running_max = 64;
  r.waiting_max = 1000;
  r.blocks_total = 10'000;
  r.step_tokens = 514;
  r.prefill_tokens = tokens;
  r.pace.knows_prompts = true;
  r.pace.token = 1e6;
  r.pace.decode = 20e6;
  r.dispatched = 0;
  return r;
}

dispatch_demand within(std::int64_t ttft_ms, std::int64_t tpot_ms = 0, bool refusable = false) {
  dispatch_demand demand{.tokens = 100};
  demand.objectives.ttft_ns = ttft_ms * 1'000'000;
  demand.objectives.tpot_ns = tpot_ms * 1'000'000;
  demand.objectives.refusable = refusable;
  return demand;
}

std::uint32_t picked(dispatcher& policy, const dispatch_demand& demand) {
  const auto choice = policy.pick(demand);
  return choice ? choice->instance.value() : 0;
}

TEST(DispatchTtft, GoesWhereItsFirstTokenComesFirst) {
  const auto policy = make_dispatcher("ttft");
  policy->report(behind(1, 300));
  policy->report(behind(2, 200));
  policy->report(behind(3, 400));
  const auto choice = policy->pick({.tokens = 100});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance.value(), 2U);
  EXPECT_EQ(choice->why.policy, "ttft");
  EXPECT_DOUBLE_EQ(choice->why.score, 300);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 400);
  EXPECT_EQ(choice->why.ttft_ns, 300'000'000);
}

TEST(DispatchTtft, CountsWhatIsOnItsWay) {
  const auto policy = make_dispatcher("ttft");
  policy->report(behind(1, 250));
  policy->report(behind(2, 0));
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(picked(*policy, {.tokens = 100}));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 2, 2, 1, 2, 1}));
  EXPECT_EQ(policy->picked(instance_id{2}).tokens, 400U);
  policy->take_back(instance_id{1}, 4, {.tokens = 100});
  EXPECT_EQ(policy->picked(instance_id{1}).tokens, 100U);
  auto counted = behind(2, 400, 2);
  counted.dispatched = 5;
  policy->report(counted);
  EXPECT_EQ(policy->picked(instance_id{2}), dispatcher::picked_load{});
}

/// One that comes at this moment with this priority, to a queue by deadlines.
dispatch_demand due(std::int64_t arrival_ms, std::int64_t ttft_ms, std::int32_t priority = 0) {
  dispatch_demand demand{.tokens = 100};
  demand.in_queue = queued_request{
      .priority = priority, .arrival_ns = arrival_ms * 1'000'000, .prompt_tokens = 100, .ttft_ns = ttft_ms * 1'000'000};
  return demand;
}

/// `behind` with a queue by deadlines, in which so many tokens are due at each of these milliseconds.
load_report queued_by_deadlines(std::uint32_t instance, std::uint64_t tokens, const std::vector<std::int64_t>& at_ms) {
  auto r = behind(instance, tokens * at_ms.size());
  r.order.order = queue_order::edf;
  r.waiting = static_cast<std::uint32_t>(at_ms.size());
  for (const auto ms : at_ms) {
    const queue_place place{0, true, ms * 1'000'000, 0, 0};
    r.queue.push_back({place, place, 1, 7, tokens, 0});
    r.waiting_blocks += 7;
  }
  return r;
}

TEST(DispatchTtft, CountsOnlyWhatIsDueBefore) {
  const auto policy = make_dispatcher("ttft");
  policy->report(queued_by_deadlines(1, 200, {100, 200, 300}));
  const auto expected = [&](const dispatch_demand& demand) { // by itself: it does not get there
    const auto choice = policy->pick(demand);
    policy->take_back(choice->instance, choice->number, demand);
    return choice->why.ttft_ns / 1'000'000;
  };
  EXPECT_EQ(expected(due(50, 10)), 100);
  EXPECT_EQ(expected(due(50, 100)), 300);
  EXPECT_EQ(expected(due(50, 1'000)), 700);
  EXPECT_EQ(expected(due(50, 0)), 700) << "a minute";
  EXPECT_EQ(expected(due(50, 1'000, -1)), 100);
  EXPECT_EQ(expected({.tokens = 100}), 700) << "who says nothing is the last one";
}

TEST(DispatchTtft, DoesNotPushOthersBackForItsOwnSake) {
  const auto policy = make_dispatcher("ttft");
  policy->report(queued_by_deadlines(1, 200, {1'000, 2'000, 3'000}));
  policy->report(queued_by_deadlines(2, 150, {100, 200}));
  const auto choice = policy->pick(due(50, 500));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance.value(), 2U) << "100 there for itself, and 600 more for others";
  EXPECT_DOUBLE_EQ(choice->why.score, 400);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 700);
  EXPECT_EQ(choice->why.ttft_ns, 400'000'000);
  const auto hurried = policy->pick(due(50, 500, -1));
  EXPECT_DOUBLE_EQ(hurried->why.score, 100) << "who has less priority waits anyway";
}

TEST(DispatchTtft, CountsWhatIsOnItsWayAndDueBefore) {
  const auto policy = make_dispatcher("ttft");
  policy->report(queued_by_deadlines(1, 200, {100, 200, 300}));
  ASSERT_TRUE(policy->pick(due(50, 100)));
  EXPECT_EQ(policy->pick(due(51, 1'000))->why.ttft_ns, 800'000'000);
  EXPECT_EQ(policy->pick(due(52, 10))->why.ttft_ns, 100'000'000);
  EXPECT_EQ(policy->pick(due(52, 10))->why.ttft_ns, 200'000'000) << "the one that was before it";
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(policy->pick(due(60, 1'000))); // more than are known one by one
  EXPECT_EQ(policy->pick(due(61, 11))->why.ttft_ns, 300'000'000);
}

TEST(DispatchObjectives, AreMetByOverThoseThatAreDueLater) {
  const auto policy = make_dispatcher("round_robin");
  policy->report(queued_by_deadlines(1, 200, {100, 200, 300}));
  policy->report(queued_by_deadlines(2, 200, {100, 2'000, 3'000}));
  auto asks = due(50, 310);
  asks.objectives.ttft_ns = 310'000'000;
  EXPECT_EQ(picked(*policy, asks), 2U) << "200 before it, and not 600";
}

TEST(DispatchObjectives, OfOneThatMayBeRefusedAreMetBehindThoseItWouldPushBack) {
  const auto policy = make_dispatcher("freeness");
  policy->report(queued_by_deadlines(1, 200, {100, 2'000, 3'000}));
  const auto refusable = [](std::int64_t ttft_ms, std::int32_t priority = 0) {
    auto asks = due(50, ttft_ms, priority);
    asks.objectives.ttft_ns = ttft_ms * 1'000'000;
    asks.objectives.refusable = true;
    return asks;
  };
  EXPECT_FALSE(policy->pick(refusable(690)));
  EXPECT_EQ(policy->why_none(), lack::late);
  EXPECT_EQ(policy->least_expected().ttft_ns, 700e6);
  EXPECT_TRUE(policy->pick(refusable(110, -1))) << "who has less priority has no claim";
  auto by_length = queued_by_deadlines(1, 200, {100, 2'000, 3'000});
  by_length.order = {queue_order::sjf, 0};
  by_length.sequence = 2;
  policy->report(by_length);
  EXPECT_TRUE(policy->pick(refusable(390))) << "nor who comes later in order of length: 200 go before";
}

// More than are known one by one: of those in common some go before, and half is counted.
TEST(DispatchTtft, OfABurstCountsHalfWhereItLiesAmongThem) {
  const auto policy = make_dispatcher("ttft");
  policy->report(queued_by_deadlines(1, 0, {}));
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(policy->pick(due(50, 100)));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(policy->pick(due(50, i == 50 ? 10'000 : 200)));
  EXPECT_EQ(policy->pick(due(50, 10))->why.ttft_ns, 100'000'000);
  EXPECT_EQ(policy->pick(due(50, 1'000))->why.ttft_ns, (7 + 1) * 100'000'000LL + 101 * 50'000'000LL)
      << "and the one before";
  EXPECT_EQ(policy->pick(due(50, 20'000))->why.ttft_ns, (7 + 100 + 2 + 1) * 100'000'000LL);
}

TEST(DispatchTtft, WeighsABeginningAgainstTheQueue) {
  const auto policy = make_dispatcher("ttft");
  const std::vector<block_hash> prefix{1, 2, 3, 4};
  const auto of = [&](std::uint64_t ahead_of_home, std::uint64_t sequence) {
    policy->report(behind(1, ahead_of_home, sequence));
    policy->report(behind(2, 100, sequence));
    return policy->pick({.tokens = 300, .prefix = prefix});
  };
  ASSERT_EQ(of(0, 1)->instance.value(), 1U);
  auto after = behind(1, 300, 2);
  after.dispatched = 1;
  policy->report(after);
  policy->report(behind(2, 100, 2));
  const auto kept = policy->pick({.tokens = 300, .prefix = prefix});
  EXPECT_EQ(kept->instance.value(), 1U) << "300 before it and 44 to compute, or 100 and 300";
  EXPECT_EQ(kept->why.prefix_tokens, 256U);
  EXPECT_EQ(kept->why.ttft_ns, 344'000'000);
  EXPECT_EQ(policy->picked(instance_id{1}).tokens, 44U);
  after = behind(1, 400, 3);
  after.dispatched = 2;
  policy->report(after);
  EXPECT_EQ(policy->pick({.tokens = 300, .prefix = prefix})->instance.value(), 2U);
}

TEST(DispatchTtft, TakesAnInstanceThatHasRunNothingForAsQuickAsOthers) {
  const auto policy = make_dispatcher("ttft");
  policy->report(behind(1, 0));
  auto fresh = load_of(2);
  fresh.step_tokens = 512;
  policy->report(fresh);
  EXPECT_EQ(policy->pick({.tokens = 100})->why.ttft_ns, 100'000'000);
  EXPECT_EQ(policy->pick({.tokens = 100})->why.ttft_ns, 100'000'000);
  EXPECT_EQ(policy->pick({.tokens = 100})->why.ttft_ns, 200'000'000) << "no crowd on the one that is new";
}

TEST(DispatchTtft, WithoutAnythingKnownTakesTurns) {
  const auto policy = make_dispatcher("ttft");
  for (std::uint32_t i = 1; i <= 3; ++i) policy->report(load_of(i));
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(picked(*policy, {.tokens = 100}));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3}));
}

TEST(DispatchObjectives, LeaveOutWhoIsNotExpectedToMeetThem) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto freest = behind(1, 900); // has the fewest requests and the most memory left
    freest.running = 1;
    freest.blocks_used = 0;
    policy->report(freest);
    policy->report(behind(2, 100));
    policy->report(behind(3, 800));
    const auto choice = policy->pick(within(500));
    ASSERT_TRUE(choice) << name;
    EXPECT_EQ(choice->instance.value(), 2U) << name;
    EXPECT_EQ(choice->why.candidates, 1U) << name;
    EXPECT_EQ(policy->why_none(), lack::none) << name;
  }
}

TEST(DispatchObjectives, OutOfReachAreOfNoUse) {
  const auto policy = make_dispatcher("freeness");
  policy->report(behind(1, 900));
  auto other = behind(2, 800);
  other.blocks_used = 50;
  policy->report(other);
  const auto choice = policy->pick(within(500));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance.value(), 1U) << "by the policy";
  EXPECT_EQ(choice->why.candidates, 2U);
}

TEST(DispatchObjectives, OutOfReachRefuseWhoMayBeRefused) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(behind(1, 900));
    policy->report(behind(2, 800));
    EXPECT_FALSE(policy->pick(within(500, 0, true))) << name;
    EXPECT_EQ(policy->why_none(), lack::late) << name;
    EXPECT_DOUBLE_EQ(policy->least_expected().ttft_ns, 900e6) << name;
    EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{}) << name << ": nothing is on its way";
    EXPECT_TRUE(policy->pick(within(950, 0, true))) << name;
    EXPECT_EQ(policy->why_none(), lack::none) << name;
  }
}

// An instance that was slow once is not for ever.
TEST(DispatchObjectives, AnIdleInstanceThatWouldBeLateGetsOneNowAndThen) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto idle = behind(1, 0);
    idle.running = 0;
    idle.pace.token = 1e9; // somebody stopped it in a debugger
    policy->report(idle);
    policy->report(behind(2, 900));
    const auto refused_before = [&] {
      for (int i = 0; i < 5000; ++i)
        if (const auto to = picked(*policy, within(500, 0, true)); to != 0) return to == 1 ? i : -1;
      return -2;
    };
    const auto it_is_over = [&] {
      ++idle.sequence;
      idle.dispatched = ~std::uint64_t{0};
      policy->report(idle);
    };
    EXPECT_EQ(refused_before(), 7) << name;
    EXPECT_EQ(refused_before(), -2) << name << ": it has one";
    for (const int twice_as_many : {15, 31, 63, 127, 255, 511, 1023, 1023}) {
      it_is_over();
      EXPECT_EQ(refused_before(), twice_as_many) << name << ": it is as slow as ever";
    }
    idle.pace.token = 4e8;
    it_is_over();
    EXPECT_EQ(refused_before(), 7) << name << ": no longer, though still too slow";
    idle.pace.token = 1e6;
    it_is_over();
    EXPECT_EQ(refused_before(), 0) << name;
  }
}

TEST(DispatchObjectives, OfSeveralIdleInstancesThatWouldBeLateEachHasItsTurn) {
  const auto policy = make_dispatcher("ttft");
  const auto report = [&](std::uint32_t instance, double token_ns, std::uint64_t sequence) {
    auto r = behind(instance, 0, sequence);
    r.running = 0;
    r.pace.token = token_ns;
    r.dispatched = ~std::uint64_t{0};
    policy->report(r);
  };
  std::vector<std::uint32_t> tried;
  for (std::uint64_t i = 1; i < 200; ++i) {
    report(1, 30e6, i);
    report(2, 40e6, i);
    if (const auto to = picked(*policy, within(2000, 0, true)); to != 0) tried.push_back(to);
  }
  ASSERT_GE(tried.size(), 6U);
  EXPECT_EQ(std::count(tried.begin(), tried.end(), 1U), std::count(tried.begin(), tried.end(), 2U));
}

TEST(DispatchObjectives, OfWhatMoreInstancesWouldNotMendNobodyIsToldThatItIsTheLoad) {
  const auto policy = make_dispatcher("freeness");
  policy->report(behind(1, 0));
  EXPECT_EQ(picked(*policy, within(500, 10, true)), 0U) << "it decodes too slowly";
  EXPECT_FALSE(policy->least_expected().alone);
  auto prefill = behind(1, 900, 2);
  prefill.role = instance_role::prefill;
  policy->report(prefill);
  auto decode = behind(2, 0);
  decode.role = instance_role::decode;
  policy->report(decode);
  EXPECT_EQ(picked(*policy, within(500, 0, true)), 0U);
  EXPECT_FALSE(policy->least_expected().alone) << "nobody orders prefill instances";
}

TEST(DispatchObjectives, NobodyIsRefusedForAGuess) {
  const auto policy = make_dispatcher("freeness");
  policy->report(behind(1, 900));
  auto fresh = load_of(2);
  fresh.step_tokens = 512;
  policy->report(fresh);
  const auto slow = within(50, 0, true);
  EXPECT_EQ(picked(*policy, slow), 2U);
  EXPECT_EQ(picked(*policy, slow), 0U) << "it has one, by which it is seen how quick it is";
}

TEST(DispatchObjectives, WhatFitsNowhereIsNotRefusedForThem) {
  const auto policy = make_dispatcher("freeness");
  auto small = behind(1, 900);
  small.blocks_total = 20;
  small.blocks_used = 0;
  policy->report(small);
  auto large = within(500, 0, true);
  large.tokens = 1000;
  EXPECT_EQ(picked(*policy, large), 1U);
  large.tokens = 100;
  EXPECT_EQ(picked(*policy, large), 0U);
}

TEST(DispatchObjectives, SayWhetherTheRequestWouldHaveBeenInTimeAlone) {
  const auto policy = make_dispatcher("freeness");
  policy->report(behind(1, 900));
  EXPECT_EQ(picked(*policy, within(500, 0, true)), 0U);
  EXPECT_TRUE(policy->least_expected().alone);
  EXPECT_EQ(picked(*policy, within(50, 0, true)), 0U);
  EXPECT_FALSE(policy->least_expected().alone);
}

TEST(DispatchObjectives, AreNoReasonWhereThereIsNoPlaceAnyway) {
  const auto policy = make_dispatcher("freeness");
  EXPECT_FALSE(policy->pick(within(500, 0, true)));
  EXPECT_EQ(policy->why_none(), lack::not_ready);
  auto full = behind(1, 900);
  full.waiting = full.waiting_max = 5;
  full.running = full.running_max;
  policy->report(full);
  EXPECT_FALSE(policy->pick(within(500, 0, true)));
  EXPECT_EQ(policy->why_none(), lack::full);
}

TEST(DispatchObjectives, OfWhomNothingIsKnownAllIsExpected) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1));
  EXPECT_EQ(picked(*policy, within(1, 1, true)), 1U);
}

TEST(DispatchObjectives, AreAlsoOfFurtherTokens) {
  const auto policy = make_dispatcher("freeness");
  auto slow = behind(1, 0);
  slow.pace.decode = 40e6;
  slow.blocks_used = 0;
  policy->report(slow);
  policy->report(behind(2, 0));
  EXPECT_EQ(picked(*policy, within(0, 30)), 2U);
  EXPECT_EQ(picked(*policy, within(0, 50)), 1U);
  EXPECT_EQ(picked(*policy, within(0, 10, true)), 0U);
  EXPECT_EQ(policy->why_none(), lack::late);
  EXPECT_DOUBLE_EQ(policy->least_expected().tpot_ns, 20e6);
}

TEST(DispatchObjectives, OfAPrefillInstanceItIsWhoDecodesForIt) {
  const auto policy = make_dispatcher("freeness");
  auto prefill = behind(1, 0);
  prefill.role = instance_role::prefill;
  prefill.pace.decode = 90e6;
  auto decode = behind(2, 0);
  decode.role = instance_role::decode;
  decode.pace.decode = 15e6;
  policy->report(prefill);
  policy->report(decode);
  EXPECT_EQ(picked(*policy, within(0, 20, true)), 1U);
  EXPECT_EQ(picked(*policy, within(0, 10, true)), 0U);
  EXPECT_DOUBLE_EQ(policy->least_expected().tpot_ns, 15e6);
  policy->set_handoff(false);
  EXPECT_EQ(picked(*policy, within(0, 20, true)), 2U) << "each for itself";
}

// Defragmentation makes room, where there is some.
TEST(DispatchTtft, WaitsForMigrationsRatherThanForEndings) {
  const auto policy = make_dispatcher("round_robin");
  auto full = behind(1, 0);
  full.blocks_total = full.blocks_used = 100;
  full.pace.block = 10e9;
  auto other = behind(2, 0);
  other.blocks_total = 100;
  other.blocks_used = 94;
  const auto expected_of_full = [&](std::uint64_t sequence) {
    full.sequence = other.sequence = sequence;
    full.dispatched = other.dispatched = ~std::uint64_t{0}; // nothing is on its way
    policy->report(full);
    policy->report(other);
    for (int i = 0; i < 2; ++i)
      if (const auto choice = policy->pick({.tokens = 100}); choice && choice->instance.value() == 1)
        return static_cast<double>(choice->why.ttft_ns) / 1e9;
    return -1.0;
  };
  EXPECT_NEAR(expected_of_full(1), 70.1, 0.01) << "seven blocks, of which the other one has six";
  other.blocks_used = 50;
  EXPECT_NEAR(expected_of_full(2), 1.1, 0.01);
  policy->set_moves(false);
  EXPECT_NEAR(expected_of_full(3), 70.1, 0.01);
  policy->set_moves(true);
  other.kv_kind = 7;
  EXPECT_NEAR(expected_of_full(4), 70.1, 0.01) << "it cannot take that KV";
  other.kv_kind = full.kv_kind = 7;
  EXPECT_NEAR(expected_of_full(5), 1.1, 0.01);
  other.terminating = true;
  EXPECT_NEAR(expected_of_full(6), 70.1, 0.01);
  other.terminating = false;
  EXPECT_NEAR(expected_of_full(7), 1.1, 0.01);
  policy->remove(instance_id{2});
  full.sequence = 8;
  policy->report(full);
  EXPECT_NEAR(static_cast<double>(policy->pick({.tokens = 100})->why.ttft_ns) / 1e9, 70.1, 0.01);
}

TEST(DispatchObjectives, BearReportsThatMakeNoSense) {
  workload::counter_random random(3);
  constexpr auto inf = std::numeric_limits<double>::infinity();
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name, 1);
    for (std::uint64_t i = 1; i < 500; ++i) {
      auto r = random_load(1 + static_cast<std::uint32_t>(random.below(5)), i, random);
      for (auto* const one :
           {&r.pace.step, &r.pace.token, &r.pace.pair, &r.pace.decode, &r.pace.block, &r.prefill_pairs})
        if (random.below(4) == 0) *one = std::vector<double>{inf, -inf, std::nan(""), -1e300, 1e300}[random.below(5)];
      policy->report(r);
      const auto choice = policy->pick(within(static_cast<std::int64_t>(random.below(100)), 5, random.below(2) == 0));
      if (!choice) continue;
      EXPECT_GE(choice->why.ttft_ns, 0) << name;
      EXPECT_TRUE(std::isfinite(choice->why.score)) << name;
    }
  }
}

} // namespace
} // namespace godwit::protocols
