// What a dispatcher still counts of its picks when reports come that were made
// before the requests arrived.
#include "loads.hpp"

#include <godwit/protocols/policy/dispatch.hpp>

#include <gtest/gtest.h>

#include <map>

namespace godwit::protocols {
namespace {

std::uint32_t picked_by(dispatcher& policy) {
  const auto choice = policy.pick({.tokens = 15});
  return choice ? choice->instance.value() : 0;
}

/// An idle instance that has seen the dispatches up to this one.
load_report idle(std::uint32_t instance, std::uint64_t sequence, std::uint64_t dispatched) {
  auto r = load_of(instance, 0, 0, sequence);
  r.dispatched = dispatched;
  return r;
}

std::unique_ptr<dispatcher> with_two(std::string_view name) {
  auto policy = make_dispatcher(name);
  policy->report(idle(1, 1, 0));
  policy->report(idle(2, 1, 0));
  return policy;
}

// Two or three quick requests went to one instance: its report from before they
// came took them back.
TEST(DispatchNumbers, AReportFromBeforeARequestArrivedDoesNotTakeItBack) {
  for (const auto* name : {"freeness", "infaas", "least_requests"}) {
    const auto policy = with_two(name);
    std::map<std::uint32_t, int> counts;
    std::uint64_t sequence = 1;
    for (int i = 0; i < 4; ++i) {
      ++counts[picked_by(*policy)];
      ++sequence;
      policy->report(idle(1, sequence, 0));
      policy->report(idle(2, sequence, 0));
    }
    EXPECT_EQ(counts[1], 2) << name;
    EXPECT_EQ(counts[2], 2) << name;
  }
}

TEST(DispatchNumbers, WhatAReportCountsIsNotCountedTwice) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  const auto first = policy->pick({.tokens = 15}), second = policy->pick({.tokens = 15});
  EXPECT_EQ(first->number, 1U);
  EXPECT_EQ(second->number, 2U);
  auto r = load_of(1, 1, 1, 2);
  r.dispatched = 1;
  policy->report(r);
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 2) << "one that runs, one on its way";
  r = load_of(1, 3, 3, 3);
  r.dispatched = 3;
  policy->report(r);
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 3);
}

// For an adapter, say, for seconds: an instance that many wait at is not idle, and who came after them counts once.
TEST(DispatchNumbers, WhatAnInstanceHoldsBackCountsHoweverManyReportsCome) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  (void)policy->pick({.tokens = 15});
  (void)policy->pick({.tokens = 31});
  (void)policy->pick({.tokens = 47});
  std::uint64_t sequence = 1;
  for (int i = 0; i < 20; ++i) {
    auto r = load_of(1, 2, 2, ++sequence); // the first and the last one run
    r.dispatched = 3;
    r.held_back = {2};
    policy->report(r);
    EXPECT_EQ(policy->picked(instance_id{1}).requests, 1U) << i;
    EXPECT_EQ(policy->picked(instance_id{1}).blocks, 2U) << i;
  }
  auto r = load_of(1, 3, 3, ++sequence);
  r.dispatched = 3;
  policy->report(r);
  EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{});
}

// What a front end further away was told to send there comes behind what is decided later.
TEST(DispatchNumbers, OfEachHomeThoseCountThatHaveCome) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  for (const std::uint16_t home : {7, 7, 0, 9}) ASSERT_TRUE(policy->pick({.tokens = 15, .home = home}));
  auto r = load_of(1, 1, 1, 2); // the head's, the third one
  r.dispatched = 3;
  policy->report(r);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 3U);
  r = load_of(1, 3, 3, 3);
  r.dispatched = 3;
  r.dispatched_elsewhere = {{7, 1}, {9, 4}};
  policy->report(r);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 1U);
  r = load_of(1, 3, 3, 4); // one that does not say
  policy->report(r);
  EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{});
}

// More are on their way than there are entries for: of some it is not known which are held back.
TEST(DispatchNumbers, OfManyAsManyCountAsAreHeldBack) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(policy->pick({.tokens = 15})) << i;
  auto r = load_of(1, 9, 9, 2);
  r.dispatched = 14;
  r.held_back = {3, 9, 10, 11, 14};
  policy->report(r);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 5U);
  EXPECT_EQ(policy->picked(instance_id{1}).blocks, 5U);
}

TEST(DispatchNumbers, WhatIsOnItsWayCanBeAskedFor) {
  const auto policy = make_dispatcher("freeness");
  policy->report(idle(1, 1, 0));
  EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{});
  (void)policy->pick({.tokens = 15, .execution_level = 1, .headroom = 6});
  (void)policy->pick({.tokens = 16});
  const auto picked = policy->picked(instance_id{1});
  EXPECT_EQ(picked.requests, 2U);
  EXPECT_EQ(picked.blocks, 1U + 2U);
  EXPECT_EQ(picked.headroom, 6);
  policy->report(idle(1, 2, 1));
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 1U);
  policy->report(idle(1, 3, 2));
  EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{});
  EXPECT_EQ(policy->picked(instance_id{2}), dispatcher::picked_load{}) << "it is not there";
}

// Requests that tried again and again at an instance that was gone filled its queue, as far as anybody knew.
TEST(DispatchNumbers, WhatIsTakenBackCountsNoLonger) {
  const auto policy = make_dispatcher("least_requests");
  auto small = idle(1, 1, 0);
  small.waiting_max = small.running_max = 4;
  policy->report(small);
  const dispatch_demand demand{.tokens = 15};
  for (int i = 0; i < 100; ++i) {
    const auto choice = policy->pick(demand);
    ASSERT_TRUE(choice) << i;
    policy->take_back(instance_id{1}, choice->number, demand);
    EXPECT_EQ(policy->picked(instance_id{1}), dispatcher::picked_load{});
  }
}

TEST(DispatchNumbers, OnlyThePickThatIsNamedIsTakenBack) {
  const auto policy = make_dispatcher("least_requests");
  auto roomy = idle(1, 1, 0);
  roomy.running_max = 1000;
  policy->report(roomy);
  const dispatch_demand demand{.tokens = 15};
  for (int i = 0; i < 20; ++i) (void)policy->pick(demand); // the last ones counted together
  for (const std::uint64_t number : {1, 2, 19, 20}) policy->take_back(instance_id{1}, number, demand);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 16U);
  EXPECT_EQ(policy->picked(instance_id{1}).blocks, 16U);
  policy->take_back(instance_id{1}, 1, demand);  // again
  policy->take_back(instance_id{1}, 21, demand); // none of its
  policy->take_back(instance_id{2}, 3, demand);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 16U);
  roomy.sequence = 2;
  roomy.dispatched = 3;
  policy->report(roomy);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 15U);
  policy->take_back(instance_id{1}, 3, demand); // it arrived
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 15U);
}

TEST(DispatchNumbers, HeadroomStaysWithTheLevelWhenTheFirstThatBroughtItIsTakenBack) {
  const auto policy = make_dispatcher("freeness");
  policy->report(idle(1, 1, 0));
  const dispatch_demand demand{.tokens = 15, .execution_level = 1, .headroom = 6};
  const auto first = policy->pick(demand), second = policy->pick(demand);
  ASSERT_TRUE(first && second);
  const auto both = policy->picked(instance_id{1}).headroom;
  EXPECT_GT(both, 0U);
  policy->take_back(instance_id{1}, first->number, demand);
  EXPECT_EQ(policy->picked(instance_id{1}).headroom, both);
  policy->take_back(instance_id{1}, second->number, demand);
  EXPECT_EQ(policy->picked(instance_id{1}).headroom, 0U);
  EXPECT_EQ(policy->picked(instance_id{1}).requests, 0U);
}

TEST(DispatchNumbers, AReportThatDoesNotSayCountsAll) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(load_of(1));
  for (int i = 0; i < 3; ++i) (void)policy->pick({.tokens = 15});
  policy->report(load_of(1, 0, 0, 2));
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 0);
}

TEST(DispatchNumbers, WhatNoReportCountsNeverArrivedAndIsForgotten) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  (void)policy->pick({.tokens = 15});
  for (std::uint64_t i = 2; i < 10; ++i) policy->report(idle(1, i, 0));
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 1);
  policy->report(idle(1, 10, 0));
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 1) << "the second one is younger";
}

TEST(DispatchNumbers, OneThatArrivedAfterItSettlesOneThatNeverDid) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 1, 0));
  (void)policy->pick({.tokens = 15});
  (void)policy->pick({.tokens = 15});
  policy->report(idle(1, 2, 2));
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 0);
}

TEST(DispatchNumbers, ARestartedInstanceHasNothingOnItsWay) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(idle(1, 5, 0));
  (void)policy->pick({.tokens = 15});
  auto r = idle(1, 1, 0);
  r.generation = 2;
  policy->report(r);
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 0);
}

TEST(DispatchNumbers, ABurstLargerThanThereIsRoomForIsCountedWhole) {
  const auto policy = make_dispatcher("least_requests");
  auto roomy = idle(1, 1, 0);
  roomy.running_max = 1000;
  policy->report(roomy);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(policy->pick({.tokens = 15})->why.score, i);
  roomy.sequence = 2;
  roomy.dispatched = 5;
  policy->report(roomy);
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 95);
  roomy.sequence = 3;
  roomy.dispatched = 101;
  policy->report(roomy);
  EXPECT_EQ(policy->pick({.tokens = 15})->why.score, 0);
}

TEST(DispatchNumbers, ARequestsHeadroomIsCountedOnceWhicheverOfThemTheReportHas) {
  const auto policy = with_two("freeness");
  dispatch_demand hurried{.tokens = 15, .execution_level = 1, .headroom = 50U};
  const auto first = policy->pick(hurried);
  ASSERT_TRUE(first);
  const auto id = first->instance.value();
  auto r = idle(id, 2, 0);
  r.running = 1; // another one of the level, by migration
  r.execution_levels = 0b10;
  r.headroom_blocks = 50;
  policy->report(r);
  policy->remove(instance_id{3 - id});
  EXPECT_DOUBLE_EQ(policy->pick({.tokens = 15})->why.score, (100.0 - 50 - 1) / 2);
}

TEST(DispatchNumbers, ASuccessorPolicyKnowsWhatIsOnItsWay) {
  const auto before = with_two("round_robin");
  (void)before->pick({.tokens = 15});
  const auto policy = make_dispatcher("least_requests");
  policy->take_over(*before);
  policy->report(idle(1, 2, 0));
  policy->report(idle(2, 2, 0));
  const auto choice = policy->pick({.tokens = 15});
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_EQ(choice->number, 2U);
}

} // namespace
} // namespace godwit::protocols
