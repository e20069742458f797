#include "loads.hpp"

#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/freeness.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using lack = dispatcher::lack;

dispatch_demand tokens(std::uint32_t count) { return {.tokens = count}; }
std::uint32_t picked(dispatcher& policy, std::uint32_t count = 15) {
  const auto choice = policy.pick(tokens(count));
  return choice ? choice->instance.value() : 0;
}

load_report with_headroom(load_report report, std::uint32_t blocks) {
  report.headroom_blocks = blocks;
  report.execution_levels = 0b10;
  return report;
}

/// A policy as an embedder may have: finds what it is told to, and keeps what it was asked.
class own_finder final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "own_finder"; }
  std::size_t best = 0;
  std::vector<dispatch_demand> asked;
  static constexpr auto none = finding::none;

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load&) const noexcept override { return r.blocks_used; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
  [[nodiscard]] finding find(const std::vector<place>& places, const dispatch_demand& demand) override {
    asked.push_back(demand);
    EXPECT_EQ(places.size(), reports().size());
    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_EQ(eligible(places[i]), reports()[i].ready) << "place " << i << " is that of another report";
    finding out;
    out.best = best;
    return out;
  }
};

/// One that rates as it is told, and chooses among the instances that it is told.
class own_rating final : public dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "own_rating"; }
  void rate_all(std::function<double(std::uint32_t id)> how) {
    how_ = std::move(how);
    const auto known = reports();
    for (auto next : known) {
      ++next.sequence;
      report(next);
    }
  }
  std::set<std::uint32_t> wanted; ///< empty: all
  double with_headroom = 0;       ///< more, where a request's counts

private:
  [[nodiscard]] double rate(const load_report& r, const picked_load& picked) const noexcept override {
    return (how_ ? how_(r.instance.value()) : 0) + (picked.headroom == 0 ? 0 : with_headroom);
  }
  [[nodiscard]] bool counts_headroom() const noexcept override { return true; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
  [[nodiscard]] finding find(const std::vector<place>& places, const dispatch_demand&) override {
    if (wanted.empty()) return best_of(places);
    return best_of(places, [this](std::size_t i) { return wanted.contains(reports()[i].instance.value()); });
  }
  std::function<double(std::uint32_t)> how_;
};

// --- all policies

TEST(Dispatch, KnowsItsPoliciesByName) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    ASSERT_NE(policy, nullptr);
    EXPECT_EQ(policy->name(), name);
  }
  EXPECT_EQ(dispatcher_names().front(), "freeness");
  EXPECT_EQ(make_dispatcher("coin_toss"), nullptr);
}

TEST(Dispatch, WithoutAReadyInstanceThereIsNone) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    EXPECT_FALSE(policy->pick(tokens(10)));
    auto starting = load_of(1);
    starting.ready = false;
    policy->report(starting);
    EXPECT_FALSE(policy->pick(tokens(10)));
    EXPECT_EQ(policy->why_none(), lack::not_ready);
    policy->report(load_of(1, 0, 0, 2));
    EXPECT_EQ(picked(*policy), 1U);
    EXPECT_EQ(policy->why_none(), lack::none);
    policy->remove(instance_id{1});
    EXPECT_FALSE(policy->pick(tokens(10)));
  }
}

// Llumnix section 4.4.3: the fake request keeps new requests away from an instance that terminates.
TEST(Dispatch, ATerminatingInstanceGetsNoRequestsHoweverIdleItIs) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto leaving = load_of(1);
    leaving.terminating = true;
    policy->report(leaving);
    EXPECT_FALSE(policy->pick(tokens(10))) << name;
    EXPECT_EQ(policy->why_none(), lack::not_ready);
    policy->report(load_of(2, 99, 7));
    EXPECT_EQ(picked(*policy), 2U) << name;
  }
}

TEST(Dispatch, AStaleInstanceIsNotPickedUntilItReports) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(load_of(1));
    policy->set_stale(instance_id{1}, true);
    policy->set_stale(instance_id{9}, true); // unknown
    EXPECT_TRUE(policy->stale(instance_id{1}));
    EXPECT_FALSE(policy->pick(tokens(10))) << name;
    EXPECT_EQ(policy->why_none(), lack::stale);
    policy->report(load_of(1, 50, 3, 2));
    EXPECT_FALSE(policy->stale(instance_id{1}));
    EXPECT_EQ(picked(*policy), 1U) << name;
    policy->set_stale(instance_id{1}, true);
    policy->set_stale(instance_id{1}, false);
    EXPECT_EQ(picked(*policy), 1U) << name;
  }
}

TEST(Dispatch, AFullQueueIsLeftAlone) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto nearly_full = load_of(1, 0, 8);
    nearly_full.waiting = 9;
    policy->report(nearly_full);
    EXPECT_TRUE(policy->pick(tokens(1)));
    EXPECT_FALSE(policy->pick(tokens(1))) << "the place left is taken";
    EXPECT_EQ(policy->why_none(), lack::full);
    policy->report(load_of(2, 90));
    EXPECT_EQ(picked(*policy), 2U) << name;
  }
}

TEST(Dispatch, NegativeFreenessIsNoReasonToRefuse) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    auto overloaded = load_of(1, 100, 8);
    overloaded.waiting = 3;
    overloaded.queued_blocks = 4000;
    policy->report(overloaded);
    EXPECT_EQ(picked(*policy), 1U) << name;
    EXPECT_EQ(policy->why_none(), lack::none);
  }
}

TEST(Dispatch, OldReportsAreDropped) {
  const auto policy = make_dispatcher("infaas");
  EXPECT_TRUE(policy->report(load_of(1, 10, 0, 5)));
  EXPECT_FALSE(policy->report(load_of(1, 99, 0, 4)));
  EXPECT_FALSE(policy->report(load_of(1, 99, 0, 5)));
  EXPECT_EQ(policy->reports().at(0).blocks_used, 10U);
  auto restarted = load_of(1, 0, 0, 1);
  restarted.generation = 2;
  EXPECT_TRUE(policy->report(restarted)) << "sequences begin anew with a generation";
  EXPECT_FALSE(policy->report(load_of(1, 50, 0, 6))) << "a message of the dead one";
}

TEST(Dispatch, ReportsAreListedByInstanceHoweverTheyCame) {
  const auto policy = make_dispatcher("freeness");
  for (const auto id : {5U, 2U, 9U, 1U, 7U}) policy->report(load_of(id, id));
  policy->remove(instance_id{5});
  policy->remove(instance_id{5});
  policy->report(load_of(2, 22, 0, 2));
  std::map<std::uint32_t, std::uint32_t> used;
  std::uint32_t before = 0;
  for (const auto& r : policy->reports()) {
    EXPECT_GT(r.instance.value(), before);
    before = r.instance.value();
    used[before] = r.blocks_used;
  }
  EXPECT_EQ(used, (std::map<std::uint32_t, std::uint32_t>{{1, 1}, {2, 22}, {7, 7}, {9, 9}}));
}

TEST(Dispatch, OfEqualsTheOneNotPickedForTheLongestTimeIsPicked) {
  for (const auto name : {"freeness", "infaas", "least_requests", "round_robin"}) {
    const auto policy = make_dispatcher(name);
    std::vector<std::uint32_t> order;
    for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) {
      for (std::uint32_t id = 1; id <= 3; ++id) policy->report(load_of(id, 10, 1, sequence));
      order.push_back(picked(*policy));
    }
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3})) << name;
  }
}

TEST(Dispatch, ABurstBetweenReportsIsSpread) {
  for (const auto name : {"freeness", "infaas", "least_requests", "round_robin"}) {
    const auto policy = make_dispatcher(name);
    for (std::uint32_t id = 1; id <= 3; ++id) policy->report(load_of(id));
    std::map<std::uint32_t, int> count;
    for (int i = 0; i < 24; ++i) ++count[picked(*policy, 60)];
    for (const auto& [instance, times] : count) EXPECT_EQ(times, 8) << name << ' ' << instance;
  }
}

TEST(Dispatch, AChangeOfPolicyForgetsNothingOfABurst) {
  const auto before = make_dispatcher("round_robin");
  before->report(load_of(1, 10));
  before->report(load_of(2, 0));
  before->report(load_of(3, 50));
  before->report(load_of(4, 0));
  before->set_stale(instance_id{4}, true);
  for (int i = 0; i < 3; ++i) (void)before->pick(tokens(16 * 30)); // 31 blocks to each
  const auto after = make_dispatcher("infaas");
  after->take_over(*before);
  EXPECT_EQ(after->reports(), before->reports());
  const auto choice = after->pick(tokens(16 * 30));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.score, 0.31);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 0.41);
  EXPECT_EQ(choice->why.candidates, 3U);
  before->report(load_of(5));
  EXPECT_EQ(after->reports().size(), 4U);
}

TEST(Dispatch, SaysWithNumbersWhy) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1, 40, 4));
  policy->report(load_of(2, 20, 4));
  policy->report(load_of(3, 60, 4));
  const auto choice = policy->pick(tokens(31));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->why.policy, "freeness");
  EXPECT_DOUBLE_EQ(choice->why.score, 20);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 15);
  EXPECT_EQ(choice->why.candidates, 3U);
  EXPECT_EQ(choice->why.blocks, 2U) << "and one more token does not fit into one";
  EXPECT_EQ(policy->pick(tokens(32))->why.blocks, 3U);
}

TEST(Dispatch, WithoutARunnerUpTheScoreStandsForIt) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(load_of(1, 40, 4));
    const auto why = policy->pick(tokens(1))->why;
    EXPECT_EQ(why.runner_up, why.score) << name;
    EXPECT_EQ(why.candidates, 1U);
  }
}

// What a policy of one's own finds comes from outside: it must not reach beyond the books.
TEST(DispatchOfOnesOwn, WhatIsNoPlaceOrNotEligibleIsNotFollowed) {
  own_finder policy;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    auto report = load_of(i);
    report.ready = i != 2;
    policy.report(report);
  }
  for (const std::size_t wrong : {std::size_t{1}, std::size_t{3}, std::size_t{1'000'000'000}, ~std::size_t{1}}) {
    policy.best = wrong;
    EXPECT_FALSE(policy.pick(tokens(10))) << wrong;
    EXPECT_EQ(policy.why_none(), lack::sense) << wrong;
  }
  policy.best = own_finder::none; // it may want to wait
  EXPECT_FALSE(policy.pick(tokens(10)));
  EXPECT_EQ(policy.why_none(), lack::none);
  policy.best = 2;
  const auto choice = policy.pick(tokens(10));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance, instance_id{3});
  EXPECT_EQ(choice->number, 1U) << "nothing was counted before";
  EXPECT_EQ(policy.why_none(), lack::none);
}

// Not a number is greater than none and less than none: such a place would never be left again.
TEST(DispatchOfOnesOwn, AnInstanceThatIsRatedWithNoFiniteNumberIsNotEligible) {
  own_rating policy;
  for (std::uint32_t i = 1; i <= 3; ++i) policy.report(load_of(i));
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  for (const auto wrong : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    policy.rate_all([wrong](std::uint32_t id) { return id == 2 ? -5 : wrong; });
    EXPECT_EQ(picked(policy), 2U) << wrong;
    EXPECT_EQ(policy.why_none(), lack::none);
    policy.rate_all([wrong](std::uint32_t) { return wrong; });
    EXPECT_FALSE(policy.pick(tokens(10))) << wrong;
    EXPECT_EQ(policy.why_none(), lack::sense) << wrong;
    EXPECT_FALSE(policy.pick({.tokens = 10, .execution_level = 1, .headroom = 5})) << wrong;
  }
  for (std::uint32_t i = 1; i <= 3; ++i) policy.remove(instance_id{i});
  EXPECT_EQ(policy.why_none(), lack::not_ready);
}

// Nobody would be told why its requests wait.
TEST(DispatchOfOnesOwn, OneThatRatesNoInstanceOnlyForALevelWithHeadroomMakesNoSenseThere) {
  own_rating policy;
  policy.report(load_of(1));
  policy.with_headroom = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(policy.pick({.tokens = 10, .execution_level = 1, .headroom = 5}));
  EXPECT_EQ(policy.why_none(), lack::sense);
  EXPECT_EQ(picked(policy), 1U);
  EXPECT_EQ(policy.why_none(), lack::none);
  policy.wanted = {7};
  policy.with_headroom = 0;
  EXPECT_FALSE(policy.pick({.tokens = 10, .execution_level = 1, .headroom = 5}));
  EXPECT_EQ(policy.why_none(), lack::none) << "it may want to wait";
}

TEST(DispatchOfOnesOwn, TheBestOfSomeIsThatOfAllWithoutTheOthers) {
  own_rating policy;
  for (std::uint32_t i = 1; i <= 4; ++i) policy.report(load_of(i));
  policy.rate_all([](std::uint32_t id) { return 10.0 * id; });
  policy.wanted = {2, 3};
  const auto choice = policy.pick(tokens(10));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->instance, instance_id{3});
  EXPECT_EQ(choice->why.candidates, 2U);
  EXPECT_EQ(choice->why.score, 30);
  EXPECT_EQ(choice->why.runner_up, 20);
  policy.wanted = {7};
  EXPECT_FALSE(policy.pick(tokens(10)));
  EXPECT_EQ(policy.why_none(), lack::none) << "it may want to wait";
}

TEST(DispatchOfOnesOwn, OfEqualsAmongSomeTheOneIsChosenThatHasThePromptsBeginning) {
  own_rating policy;
  for (std::uint32_t i = 1; i <= 3; ++i) policy.report(load_of(i));
  const std::vector<block_hash> prefix{block_hash{1}, block_hash{2}};
  dispatch_demand demand = tokens(400);
  demand.prefix = prefix;
  for (const std::uint32_t id : {1U, 3U}) { // two that were sent it, the last one later
    policy.wanted = {id};
    ASSERT_TRUE(policy.pick(demand));
  }
  policy.wanted = {2, 3};
  EXPECT_EQ(policy.pick(demand)->instance, instance_id{3});
  policy.wanted = {2};
  EXPECT_EQ(policy.pick(demand)->instance, instance_id{2});
}

TEST(DispatchOfOnesOwn, SeesTheRequestThatItChoosesFor) {
  own_finder policy;
  policy.report(load_of(1));
  EXPECT_TRUE(policy.pick({.tokens = 700, .execution_level = 1, .headroom = 5}));
  ASSERT_EQ(policy.asked.size(), 1U);
  EXPECT_EQ(policy.asked[0].tokens, 700U);
  EXPECT_EQ(policy.asked[0].execution_level, 1U);
}

// --- freeness

// Llumnix section 4.4.3: each request goes to the instance with the highest freeness.
TEST(DispatchByFreeness, GoesToTheInstanceWithTheHighestFreeness) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_with_freeness(1, 5));
  policy->report(load_with_freeness(2, 12));
  policy->report(load_with_freeness(3, -3));
  const auto choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.score, 12);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 5);
}

TEST(DispatchByFreeness, AFewRequestsThatFillMemoryAreBetterThanManyThatShareIt) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1, 50, 7)); // 7.1
  policy->report(load_of(2, 80, 1)); // 20
  EXPECT_EQ(picked(*policy), 2U);
}

// Llumnix section 4.4.2: a queued request raises the load of its instance by its demand.
TEST(DispatchByFreeness, AHeadOfLineKeepsOthersAway) {
  const auto policy = make_dispatcher("freeness");
  auto queued = load_of(1, 10, 2);
  queued.waiting = 1;
  queued.queued_blocks = 80;
  policy->report(queued);
  policy->report(load_of(2, 70, 2));
  EXPECT_EQ(picked(*policy), 2U);
}

// Llumnix section 4.4.2: requests of a high execution priority have less load beside them.
TEST(DispatchByFreeness, HeadroomKeepsOthersAway) {
  const auto policy = make_dispatcher("freeness");
  auto high = load_of(1, 10, 1);
  high.headroom_blocks = 60;
  policy->report(high);
  policy->report(load_of(2, 50, 1));
  EXPECT_EQ(picked(*policy), 2U);
}

TEST(DispatchByFreeness, WhatWasPickedSinceTheReportCountsInBlocksAndRequests) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1, 40, 4));
  EXPECT_DOUBLE_EQ(policy->pick(tokens(16 * 10 - 1))->why.score, 60.0 / 4);
  EXPECT_DOUBLE_EQ(policy->pick(tokens(16 * 20 - 1))->why.score, 50.0 / 5);
  EXPECT_DOUBLE_EQ(policy->pick(tokens(1))->why.score, 30.0 / 6);
  policy->report(load_of(1, 41, 5, 2)); // most of it was in the prefix cache
  EXPECT_DOUBLE_EQ(policy->pick(tokens(1))->why.score, 59.0 / 5);
}

TEST(DispatchByFreeness, HeadroomOfOnesPickedCountsForOthersFromThePickOnAndOncePerLevel) {
  const auto policy = make_dispatcher("freeness");
  const dispatch_demand high{.tokens = 15, .execution_level = 1, .headroom = 30};
  policy->report(load_of(1, 20, 0));
  (void)policy->pick(high);
  EXPECT_DOUBLE_EQ(policy->pick(tokens(15))->why.score, 80.0 - 1 - 30);
  (void)policy->pick(high);
  EXPECT_DOUBLE_EQ(policy->pick(tokens(15))->why.score, (80.0 - 3 - 30) / 3);
  policy->report(with_headroom(load_of(1, 20, 1, 2), 30));
  (void)policy->pick(high);
  EXPECT_DOUBLE_EQ(policy->pick(tokens(15))->why.score, (50.0 - 1) / 2) << "the report has it already";
}

TEST(DispatchByFreeness, WhatIsKeptFreeForALevelIsFreeForItsRequestsAndNewHeadroomIsTheirPrice) {
  const auto policy = make_dispatcher("freeness");
  const dispatch_demand high{.tokens = 15, .execution_level = 1, .headroom = 60};
  policy->report(with_headroom(load_of(1, 20, 1), 60));
  EXPECT_DOUBLE_EQ(policy->pick(high)->why.score, 80.0) << "where it is kept";
  policy->report(load_of(2, 10, 1)); // the freest for others
  const auto choice = policy->pick(high);
  EXPECT_EQ(choice->instance, instance_id{1});
  EXPECT_DOUBLE_EQ(choice->why.score, 79.0 / 2);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 90.0 - 60);
  EXPECT_EQ(picked(*policy), 2U) << "a normal one stays away";
}

TEST(DispatchByFreeness, RequestsOfALevelSpreadOnceTheirsAreFullerThanTheHeadroomIsDear) {
  const auto policy = make_dispatcher("freeness");
  const dispatch_demand high{.tokens = 15, .execution_level = 1, .headroom = 60};
  policy->report(with_headroom(load_of(1, 50, 2), 60)); // 25 for one of the level
  policy->report(load_of(2, 10, 1));                    // 90 - 60
  EXPECT_EQ(policy->pick(high)->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(policy->pick(high)->why.score, 89.0 / 2) << "it is paid for by now";
}

TEST(DispatchByFreeness, OfTwoLevelsEachSeesTheHeadroomOfTheOther) {
  const auto policy = make_dispatcher("freeness");
  policy->report(with_headroom(load_of(1, 20, 1), 60));
  EXPECT_DOUBLE_EQ(policy->pick({.tokens = 15, .execution_level = 2, .headroom = 5})->why.score, 20.0 - 5);
  EXPECT_DOUBLE_EQ(policy->pick({.tokens = 15, .execution_level = 1, .headroom = 60})->why.score, (80.0 - 5 - 1) / 2);
}

TEST(DispatchByFreeness, AutomaticHeadroomIsWhatEachInstanceFoundForItself) {
  const auto policy = make_dispatcher("freeness");
  const dispatch_demand high{.tokens = 15, .execution_level = 1, .headroom = std::nullopt};
  for (std::uint32_t id = 1; id <= 2; ++id) {
    auto report = load_of(id, id * 10, 1);
    report.headroom_profiled = id == 1 ? 70 : 20;
    policy->report(report);
  }
  const auto choice = policy->pick(high);
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.score, 80.0 - 20);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 90.0 - 70);
  EXPECT_EQ(picked(*policy), 1U);
}

TEST(DispatchByFreeness, WhereTheBatchHasNoPlaceHeadroomMakesNone) {
  const auto policy = make_dispatcher("freeness");
  const dispatch_demand high{.tokens = 15, .execution_level = 1, .headroom = 60};
  policy->report(with_headroom(load_of(1, 10, 8), 60));
  EXPECT_EQ(policy->pick(high)->why.score, 0);
  EXPECT_EQ(policy->pick(high)->why.score, -1) << "the one before it waits there";
}

TEST(DispatchByFreeness, FreeMemoryIsOfNoUseWhereTheBatchHasNoPlace) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1, 10, 8)); // 90 blocks, no place
  policy->report(load_of(2, 95, 7)); // 5 blocks, one place
  EXPECT_EQ(picked(*policy), 2U);
  EXPECT_EQ(picked(*policy), 1U) << "neither has a place now, and this one has nobody queued yet";
  auto queued = load_of(2, 10, 6, 2);
  queued.waiting = 2;
  policy->report(queued);
  EXPECT_EQ(policy->pick(tokens(1))->why.score, 0) << "two wait for the two places";
  auto kept = load_of(2, 40, 6, 3);
  kept.places_kept = 2;
  policy->report(kept);
  EXPECT_EQ(policy->pick(tokens(1))->why.score, 0) << "those on their way out may come back, and others in";
  auto left = load_of(2, 40, 6, 4);
  left.migrating = 2; // from the queue
  policy->report(left);
  EXPECT_EQ(policy->pick(tokens(1))->why.score, 10);
}

TEST(DispatchByFreeness, OfQueuesTheShorterOneIsFreerThoughTheirHeadsAreEqual) {
  const auto policy = make_dispatcher("freeness");
  auto queue = load_of(1, 95, 8);
  queue.queued_blocks = 10;
  queue.waiting = 8;
  queue.waiting_blocks = 80;
  policy->report(queue);
  queue.instance = instance_id{2};
  queue.waiting = 3;
  queue.waiting_blocks = 30;
  policy->report(queue);
  const auto choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.score, -30);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, -80);
}

TEST(DispatchByFreeness, OfFullBatchesWithMemoryLeftTheOneWithoutAQueueIsFreer) {
  const auto policy = make_dispatcher("freeness");
  auto full = load_of(1, 20, 8);
  full.waiting_max = 20;
  full.queued_blocks = 80; // all that is free: it is of no use to one that lacks a place
  full.waiting = 10;
  full.waiting_blocks = 40;
  policy->report(full);
  full.instance = instance_id{2};
  full.waiting = 2;
  full.waiting_blocks = 8;
  policy->report(full);
  for (const auto score : {-8, -9, -10}) {
    const auto choice = policy->pick(tokens(1));
    EXPECT_EQ(choice->instance, instance_id{2});
    EXPECT_EQ(choice->why.score, score);
    EXPECT_EQ(choice->why.runner_up, -40);
  }
}

// The head of line is one of those that wait, whatever its demand is taken for.
TEST(DispatchByFreeness, OfFullBatchesTheOneWhereNobodyWaitsIsFreer) {
  const auto policy = make_dispatcher("freeness");
  auto full = load_of(1, 20, 8);
  full.queued_blocks = 80;
  full.waiting = 1;
  full.waiting_blocks = 3;
  policy->report(full);
  policy->report(load_of(2, 20, 8));
  const auto choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_EQ(choice->why.score, 0);
  EXPECT_EQ(choice->why.runner_up, -3);
}

TEST(DispatchByFreeness, WhatRunningPromptsLackCountsOnce) {
  const auto policy = make_dispatcher("freeness");
  auto prompt = load_of(1, 10, 1);
  prompt.outstanding_blocks = 40;
  prompt.queued_blocks = 42; // with the head of line's 2
  prompt.waiting = 3;
  prompt.waiting_blocks = 6;
  policy->report(prompt);
  policy->report(load_of(2, 68, 4));
  const auto choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{1});
  EXPECT_DOUBLE_EQ(choice->why.score, (100.0 - 10 - 40 - 6) / 4);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 8);
}

TEST(DispatchByFreeness, InAFullBatchWhatRunningPromptsLackIsNoQueue) {
  const auto policy = make_dispatcher("freeness");
  auto full = load_of(1, 20, 8);
  full.waiting_max = 20;
  full.outstanding_blocks = 40; // which are there
  full.queued_blocks = 80;
  full.waiting = 2;
  full.waiting_blocks = 4;
  policy->report(full);
  full.instance = instance_id{2};
  full.outstanding_blocks = 0;
  full.waiting = 10;
  full.waiting_blocks = 20;
  policy->report(full);
  full.instance = instance_id{3};
  full.outstanding_blocks = 82; // two more than there are
  full.queued_blocks = 85;
  full.waiting = 1;
  full.waiting_blocks = 3;
  policy->report(full);
  auto choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{1});
  EXPECT_EQ(choice->why.score, -4);
  EXPECT_EQ(choice->why.runner_up, -2 - 3);
  policy->remove(instance_id{1});
  choice = policy->pick(tokens(1));
  EXPECT_EQ(choice->instance, instance_id{3});
  EXPECT_EQ(choice->why.runner_up, -20);
}

// A static batch takes nobody on, whatever places it has.
TEST(DispatchByFreeness, WhereTheHeadDemandsAllThatIsFreeNothingIsLeft) {
  const auto policy = make_dispatcher("freeness");
  auto waits = load_of(1, 20, 6);
  waits.queued_blocks = 80;
  waits.waiting = 1;
  waits.waiting_blocks = 3;
  policy->report(waits);
  EXPECT_EQ(policy->pick(tokens(1))->why.score, 0);
}

// A step lasts longer than the pause between two requests: what came in during it is in the report, but not in the
// batch.
TEST(DispatchByFreeness, WhoWaitsForTheNextStepCountsAsIfItRan) {
  const auto policy = make_dispatcher("freeness");
  policy->report(load_of(1, 10, 2)); // 45
  policy->report(load_of(2, 10, 3)); // 30
  EXPECT_EQ(picked(*policy), 1U);    // 89 / 3 = 29.7 from now on
  auto arrived = load_of(1, 10, 2, 2);
  arrived.waiting = 1;
  arrived.queued_blocks = 1;
  arrived.waiting_blocks = 1;
  policy->report(arrived);
  const auto choice = policy->pick(tokens(15));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 89.0 / 3);
}

// --- the baselines

TEST(Infaas, PicksTheSmallestShareOfUsedBlocks) {
  const auto policy = make_dispatcher("infaas");
  policy->report(load_of(1, 50));
  policy->report(load_of(2, 20));
  policy->report(load_of(3, 30));
  const auto choice = policy->pick(tokens(16));
  EXPECT_EQ(choice->instance, instance_id{2});
  EXPECT_DOUBLE_EQ(choice->why.score, 0.2);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 0.3);
}

TEST(Infaas, ComparesSharesNotBlocks) {
  const auto policy = make_dispatcher("infaas");
  auto large = load_of(1, 200);
  large.blocks_total = 1000;
  policy->report(large);
  policy->report(load_of(2, 40));
  EXPECT_EQ(picked(*policy), 1U);
}

TEST(Infaas, AllQueuedPromptsAreLoad) {
  const auto policy = make_dispatcher("infaas");
  auto queued = load_of(1, 10);
  queued.waiting_blocks = 30;
  policy->report(queued);
  policy->report(load_of(2, 30));
  EXPECT_EQ(picked(*policy), 2U);
  auto prompt = load_of(2, 30, 1, 2);
  prompt.outstanding_blocks = prompt.queued_blocks = 11;
  policy->report(prompt);
  const auto choice = policy->pick(tokens(15));
  EXPECT_EQ(choice->instance, instance_id{1}) << "what running prompts lack is load, too";
  EXPECT_DOUBLE_EQ(choice->why.score, 0.4);
  EXPECT_DOUBLE_EQ(choice->why.runner_up, 0.41);
}

TEST(Infaas, KnowsNothingOfHeadroom) {
  const auto policy = make_dispatcher("infaas");
  auto high = load_of(1, 10);
  high.headroom_blocks = 60;
  policy->report(high);
  policy->report(load_of(2, 50));
  EXPECT_EQ(picked(*policy), 1U);
  EXPECT_EQ(policy->pick({.tokens = 15, .execution_level = 1, .headroom = 70})->instance, instance_id{1});
  EXPECT_EQ(picked(*policy), 1U) << "nor of one that was sent there";
}

TEST(Infaas, AReportTakesThePlaceOfWhatWasDispatchedBeforeIt) {
  const auto policy = make_dispatcher("infaas");
  policy->report(load_of(1, 0));
  policy->report(load_of(2, 5));
  EXPECT_EQ(picked(*policy, 1600), 1U);
  EXPECT_EQ(picked(*policy), 2U);
  policy->report(load_of(1, 1, 0, 2)); // most of it was in the prefix cache
  EXPECT_EQ(picked(*policy), 1U);
}

TEST(LeastRequests, PicksTheOneWithTheFewestWaitingAndRunning) {
  const auto policy = make_dispatcher("least_requests");
  policy->report(load_of(1, 1, 5));
  auto queued = load_of(2, 1, 2);
  queued.waiting = 4;
  policy->report(queued);
  policy->report(load_of(3, 99, 4));
  const auto choice = policy->pick(tokens(16));
  EXPECT_EQ(choice->instance, instance_id{3});
  EXPECT_EQ(choice->why.score, 4);
  EXPECT_EQ(choice->why.runner_up, 5);
}

TEST(PowerOfTwo, PicksTheOneWithFewerRequestsOfTwoThatItDrew) {
  const auto policy = make_dispatcher("power_of_two", 7);
  std::map<std::uint32_t, int> count;
  for (std::uint64_t sequence = 1; sequence <= 600; ++sequence) {
    for (std::uint32_t id = 1; id <= 4; ++id) policy->report(load_of(id, 0, id, sequence));
    const auto choice = policy->pick(tokens(1));
    ++count[choice->instance.value()];
    EXPECT_LT(choice->why.score, choice->why.runner_up) << "two different ones";
    EXPECT_EQ(choice->why.candidates, 4U);
  }
  // Of the six pairs three have instance 1 as the better one, two instance 2, one instance 3.
  EXPECT_NEAR(count[1], 300, 60);
  EXPECT_NEAR(count[2], 200, 60);
  EXPECT_NEAR(count[3], 100, 60);
  EXPECT_EQ(count.count(4), 0U);
}

TEST(PowerOfTwo, DrawsTheSameForTheSameSeed) {
  const auto draws = [](std::uint64_t seed) {
    const auto policy = make_dispatcher("power_of_two", seed);
    for (std::uint32_t id = 1; id <= 50; ++id) policy->report(load_of(id));
    std::vector<std::uint32_t> list;
    for (int i = 0; i < 40; ++i) list.push_back(picked(*policy));
    return list;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
}

TEST(RoundRobin, GoesRoundWhateverTheLoad) {
  const auto policy = make_dispatcher("round_robin");
  policy->report(load_of(1, 99));
  policy->report(load_of(2, 0));
  policy->report(load_of(3, 50));
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(picked(*policy));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 1, 2, 3}));
}

} // namespace
} // namespace godwit::protocols
