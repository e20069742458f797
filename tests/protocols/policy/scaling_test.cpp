#include "loads.hpp"
#include "protocols/second.hpp"

#include <godwit/protocols/policy/scaling.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using kind = scaling_decision::kind;
using testing_support::second_ns;

/// x = 10, y = 60, hold 10 s, 1 to 4 instances.
scaling_settings settings_of(scaling_mode mode = scaling_mode::on) {
  scaling_settings s;
  s.mode = mode;
  s.instances_max = 4;
  s.provision_timeout_ns = 100 * second_ns;
  return s;
}

std::vector<load_report> instances(const std::vector<double>& freeness) {
  std::vector<load_report> loads;
  for (const auto f : freeness) loads.push_back(load_with_freeness(static_cast<std::uint32_t>(loads.size() + 1), f));
  return loads;
}
scaling_view at(std::int64_t seconds, std::vector<load_report> loads, std::uint32_t starting = 0,
                std::uint32_t ordered = 0) {
  return {seconds * second_ns, std::move(loads), starting, ordered};
}

/// What is decided by the second, from `from` on up to and with `upto`, while nothing changes.
std::vector<std::pair<std::int64_t, kind>> watch(autoscaler& scaler, std::int64_t from, std::int64_t upto,
                                                 const scaling_view& view) {
  std::vector<std::pair<std::int64_t, kind>> made;
  for (auto t = from; t <= upto; ++t) {
    auto now = view;
    now.now_ns = t * second_ns;
    if (const auto decision = scaler.step(now)) made.emplace_back(t, decision->what);
  }
  return made;
}
using decisions = std::vector<std::pair<std::int64_t, kind>>;

TEST(ScalingMode, HasANameThatIsReadBack) {
  for (const auto mode : {scaling_mode::off, scaling_mode::dry_run, scaling_mode::on})
    EXPECT_EQ(parse_scaling_mode(to_string(mode)), mode);
  EXPECT_FALSE(parse_scaling_mode("auto"));
  EXPECT_EQ(scaling_mode_names().size(), 3U);
}

TEST(ScalingBounds, LeaveOfADecisionWhatThereMayBe) {
  scaling_view view = at(0, instances({1, 2, 3}));
  view.instances_min = 3;
  view.instances_max = 8;
  view.starting = 1;
  view.ordered = 1;
  view.silent = {instance_id{9}};
  scaling_decision more;
  more.count = 4'000'000'000;
  EXPECT_EQ(within_bounds(more, view)->count, 2U) << "three, one that starts, one ordered, one silent";
  more.count = 1;
  EXPECT_EQ(within_bounds(more, view)->count, 1U);
  more.count = 0;
  EXPECT_FALSE(within_bounds(more, view));
  view.ordered = 3;
  more.count = 1;
  EXPECT_FALSE(within_bounds(more, view));
  view.instances_max = 2;
  EXPECT_FALSE(within_bounds(more, view)) << "there are more than there may be";

  scaling_decision less;
  less.what = kind::in;
  less.instance = view.loads.front().instance;
  less.count = 4'000'000'000;
  EXPECT_FALSE(within_bounds(less, view));
  view.instances_min = 2;
  ASSERT_TRUE(within_bounds(less, view));
  EXPECT_EQ(within_bounds(less, view)->count, 1U);
  less.instance = instance_id{77};
  EXPECT_FALSE(within_bounds(less, view)) << "nobody is called so";
  less.instance = view.loads.back().instance;
  view.loads.back().terminating = true;
  EXPECT_FALSE(within_bounds(less, view)) << "it leaves already";
  less.instance = view.loads.front().instance;
  EXPECT_FALSE(within_bounds(less, view)) << "one of the three leaves already";
  less.what = kind::keep;
  EXPECT_EQ(within_bounds(less, view)->count, 1U);
}

// Llumnix section 4.4.3: the mean freeness is kept within [x, y].
TEST(Autoscaler, BelowXForAWhileOneInstanceMore) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({9, 10}))), (decisions{{10, kind::out}}));
}

TEST(Autoscaler, AboveYForAWhileOneInstanceLess) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({61, 60}))), (decisions{{10, kind::in}}));
}

TEST(Autoscaler, WithinXAndYNothing) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 100, at(0, instances({10, 10}))), decisions{});
  EXPECT_EQ(watch(scaler, 101, 200, at(0, instances({60, 60}))), decisions{});
  EXPECT_DOUBLE_EQ(scaler.mean_freeness(), 60);
}

TEST(Autoscaler, BoundsMayBeNegative) {
  auto s = settings_of();
  s.freeness_min = -5;
  s.freeness_max = -1;
  EXPECT_DOUBLE_EQ(mean_freeness(instances({-3, -4}), s), -3.5);
  EXPECT_DOUBLE_EQ(mean_freeness(instances({-30, 30}), s), 0) << "each counts with at most 10";
  autoscaler within{s}, below{s}, above{s};
  EXPECT_EQ(watch(within, 0, 100, at(0, instances({-3, -4}))), decisions{});
  EXPECT_EQ(watch(below, 0, 10, at(0, instances({-9, -9}))), (decisions{{10, kind::out}}));
  s.freeness_max = 0;
  EXPECT_EQ(watch(above, 0, 10, at(0, instances({8, 8}))), (decisions{{10, kind::in}}));
}

// What is refused early is in no report.
TEST(Autoscaler, WhereRequestsAreRefusedOneInstanceMore) {
  autoscaler scaler{settings_of()};
  auto view = at(0, instances({30, 30}));
  view.refused = 1;
  EXPECT_EQ(watch(scaler, 0, 20, view), (decisions{{10, kind::out}}));
  view.now_ns = 21 * second_ns;
  const auto again = scaler.step(view);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->why, "requests are refused that would be late, for 10 s, 2 instances");
  EXPECT_DOUBLE_EQ(again->mean, 30);
}

TEST(Autoscaler, RefusalsNowAndThenKeepWhoIsThere) {
  autoscaler scaler{settings_of()};
  for (std::int64_t t = 0; t <= 60; ++t) { // each 5 s
    auto view = at(t, instances({90, 90}));
    view.refused = t % 5 == 0 ? 1 : 0;
    EXPECT_FALSE(scaler.step(view)) << t;
  }
  EXPECT_EQ(watch(scaler, 61, 90, at(0, instances({90, 90}))), (decisions{{80, kind::in}}))
      << "ten seconds after the last one, and as long as ever";
}

// Or they would come and go for ever.
TEST(Autoscaler, WhatWasTooFewIsRememberedForLongerEachTime) {
  autoscaler scaler{settings_of()};
  std::int64_t t = 0;
  const auto refuse_at = [&](std::size_t count) {
    auto view = at(++t, instances(std::vector<double>(count, 90)));
    view.refused = 1;
    (void)scaler.step(view);
  };
  const auto leaves_after = [&](std::size_t count) {
    const auto from = t;
    for (;;) {
      const auto decision = scaler.step(at(++t, instances(std::vector<double>(count, 90))));
      if (decision && decision->what == kind::in) return t - from;
      if (t - from > 2000) return std::int64_t{-1};
    }
  };
  std::vector<std::int64_t> after;
  for (int i = 0; i < 9; ++i) {
    refuse_at(2);                     // of two that are there; then there is a third one
    after.push_back(leaves_after(3)); // which goes again
    (void)scaler.step(at(++t, instances({90, 90})));
    t += 30;
    (void)scaler.step(at(t, instances({90, 90})));
  }
  EXPECT_EQ(after, (std::vector<std::int64_t>{20, 30, 50, 90, 170, 330, 650, 650, 650}));
  refuse_at(2);
  EXPECT_EQ(leaves_after(4), 11) << "of four one may leave";
  (void)scaler.step(at(++t, instances({90, 90})));
  t += (2 * 64 + 16) * 10;
  (void)scaler.step(at(t, instances({90, 90})));
  refuse_at(2);
  EXPECT_EQ(leaves_after(3), 20) << "that was another load";
}

TEST(Autoscaler, ByTheTotalRefusalsAreOneInstanceMoreToo) {
  auto s = settings_of();
  s.rule = scaling_rule::total;
  autoscaler scaler{s};
  auto view = at(0, instances({30, 30}));
  view.refused = 3;
  std::vector<std::uint32_t> counts;
  for (std::int64_t t = 0; t <= 10; ++t) {
    view.now_ns = t * second_ns;
    if (const auto decision = scaler.step(view)) counts.push_back(decision->count);
  }
  EXPECT_EQ(counts, std::vector<std::uint32_t>{1});
}

TEST(Autoscaler, AnInterruptionStartsTheHoldAnew) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 9, at(0, instances({5, 5}))), decisions{});
  EXPECT_EQ(watch(scaler, 10, 10, at(0, instances({30, 30}))), decisions{});
  EXPECT_EQ(watch(scaler, 11, 21, at(0, instances({5, 5}))), (decisions{{21, kind::out}}));
  autoscaler other{settings_of()};
  EXPECT_EQ(watch(other, 0, 9, at(0, instances({90, 90}))), decisions{});
  EXPECT_EQ(watch(other, 10, 10, at(0, instances({30, 30}))), decisions{});
  EXPECT_EQ(watch(other, 11, 21, at(0, instances({90, 90}))), (decisions{{21, kind::in}}));
}

TEST(Autoscaler, BetweenTwoDecisionsThereIsAHoldToo) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 35, at(0, instances({5}))), (decisions{{10, kind::out}, {21, kind::out}, {32, kind::out}}))
      << "the world that never answers";
}

// Llumnix section 4.4.3: the instance with the fewest running requests terminates.
TEST(Autoscaler, TheInstanceWithTheFewestRunningRequestsLeaves) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90, 90});
  loads[0].running = 7;
  loads[1].running = 5;
  loads[2].running = 5;
  loads[3].running = 5;
  loads[3].waiting = 1;
  (void)scaler.step(at(0, loads));
  const auto decision = scaler.step(at(10, loads));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->instance, instance_id{3}) << "of equals the youngest, that which waits counts last";
  EXPECT_FALSE(decision->dry);
  EXPECT_GT(decision->mean, 60);
  EXPECT_EQ(decision->why, "mean freeness 120.0 above 60 for 10 s, 4 instances");
}

TEST(Autoscaler, NobodyLeavesWhereTheOthersWouldThenBeBelowX) {
  // Two with 61 blocks left for each of 10 requests; but these hold 45 each, so together they leave 8 for each.
  auto loads = instances({61, 61});
  for (auto& load : loads) {
    load.blocks_used += 450 - 20;
    load.blocks_total += 450 - 20;
  }
  EXPECT_DOUBLE_EQ(mean_freeness_without(loads, loads[0], settings_of()), (1060 - 900) / 20.0);
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 50, at(0, loads)), decisions{});
  loads.push_back(loads[1]); // of three one may leave
  loads.back().instance = instance_id{3};
  EXPECT_DOUBLE_EQ(mean_freeness_without(loads, loads[0], settings_of()), (1060 - 675) / 15.0);
  EXPECT_EQ(watch(scaler, 51, 61, at(0, loads)), (decisions{{61, kind::in}})) << "that they would do has to last, too";
}

TEST(Autoscaler, NobodyLeavesWhereTheOthersWouldDoForAMomentOnly) {
  auto loads = instances({61, 61}), less_used = loads;
  for (auto& load : loads) {
    load.blocks_used += 430;
    load.blocks_total += 430;
  }
  for (auto& load : less_used) {
    load.blocks_used += 410;
    load.blocks_total += 430;
  }
  const auto s = settings_of();
  ASSERT_LT(mean_freeness_without(loads, loads[0], s), 10);
  ASSERT_GE(mean_freeness_without(less_used, less_used[0], s), 10);
  autoscaler scaler{s};
  EXPECT_EQ(watch(scaler, 0, 30, at(0, loads)), decisions{});
  EXPECT_EQ(watch(scaler, 31, 31, at(0, less_used)), decisions{});
  EXPECT_EQ(watch(scaler, 32, 60, at(0, loads)), decisions{});
  EXPECT_EQ(watch(scaler, 61, 80, at(0, less_used)), (decisions{{71, kind::in}}));
}

TEST(Autoscaler, AnInstanceThatIsSilentIsNotWaitedFor) {
  autoscaler scaler{settings_of()};
  decisions all;
  for (std::int64_t t = 0; t <= 10; ++t) {
    auto view = at(0, instances({5, 5}));
    if (t % 3 == 0) view.silent = {instance_id{3}}; // late again and again
    if (t % 3 != 0) view.loads.push_back(load_with_freeness(3, 5));
    const auto found = watch(scaler, t, t, view);
    all.insert(all.end(), found.begin(), found.end());
  }
  EXPECT_EQ(all, (decisions{{10, kind::out}}));
}

TEST(Autoscaler, WhoIsSilentIsThere) {
  autoscaler scaler{settings_of()};
  auto view = at(0, instances({5, 5}));
  view.silent = {instance_id{3}, instance_id{4}};
  EXPECT_EQ(watch(scaler, 0, 30, view), decisions{}) << "four are there";
  auto s = settings_of();
  s.instances_min = 3;
  autoscaler least{s};
  view = at(0, instances({30, 30}));
  view.silent = {instance_id{3}};
  EXPECT_EQ(watch(least, 0, 30, view), decisions{});
}

TEST(Autoscaler, ADrainIsNotForgottenWhileTheInstanceIsSilent) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90, 90}))), (decisions{{10, kind::in}}));
  auto quiet = at(0, instances({90, 90}));
  quiet.silent = {instance_id{3}};
  EXPECT_EQ(watch(scaler, 11, 11, quiet), decisions{});
  auto low = instances({3, 3, 3});
  low[2].terminating = true;
  EXPECT_EQ(watch(scaler, 12, 22, at(0, low)), (decisions{{22, kind::keep}}));
}

TEST(Autoscaler, InPlaceOfADrainedInstanceThatStaysSilentAnotherOneComes) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90}))), (decisions{{10, kind::in}}));
  auto low = at(0, instances({3}));
  low.silent = {instance_id{2}};
  EXPECT_EQ(watch(scaler, 11, 32, low), (decisions{{21, kind::keep}, {32, kind::out}}));
}

TEST(Autoscaler, ByTheTotalOneInstanceMoreWhereNoneTakesRequests) {
  auto s = settings_of();
  s.rule = scaling_rule::total;
  autoscaler scaler{s};
  std::vector<scaling_decision> made;
  for (std::int64_t t = 0; t <= 130; ++t)
    if (auto decision = scaler.step(at(t, {}, 1))) made.push_back(*decision);
  ASSERT_FALSE(made.empty());
  for (const auto& decision : made) EXPECT_EQ(decision.count, 1U);
}

TEST(Autoscaler, AnIdleInstanceDoesNotHideThatTheOthersAreFull) {
  const auto s = settings_of();
  auto loads = instances({-3000, -200, 2});
  loads.push_back(load_of(4));
  loads.back().blocks_total = 1'000'000;
  EXPECT_DOUBLE_EQ(mean_freeness(loads, s), (-120.0 - 120 + 2 + 120) / 4);
  autoscaler scaler{s};
  auto few = settings_of();
  few.instances_max = 5;
  autoscaler more{few};
  EXPECT_EQ(watch(more, 0, 10, at(0, loads)), (decisions{{10, kind::out}}));
}

TEST(Autoscaler, HeadroomCountsAsUsedSinceTheMeanIsThatOfNormalRequests) {
  auto loads = instances({50});
  loads[0].headroom_blocks = 400;
  EXPECT_DOUBLE_EQ(mean_freeness(loads, settings_of()), 10);
}

TEST(Autoscaler, OnlyThoseThatTakeRequestsCount) {
  auto loads = instances({20, 40, 60});
  loads[1].terminating = true;
  loads[2].ready = false;
  EXPECT_DOUBLE_EQ(mean_freeness(loads, settings_of()), 20);
  EXPECT_DOUBLE_EQ(mean_freeness({}, settings_of()), -120);
}

TEST(Autoscaler, NeverMoreThanTheMost) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 50, at(0, instances({5, 5, 5, 5}))), decisions{});
  auto with_one_leaving = instances({5, 5, 5, 5});
  with_one_leaving[3].terminating = true; // an operator's wish
  EXPECT_EQ(watch(scaler, 51, 100, at(0, with_one_leaving)), decisions{}) << "it is still there";
  with_one_leaving.pop_back();
  EXPECT_EQ(watch(scaler, 101, 120, at(0, with_one_leaving)).size(), 2U);
}

TEST(Autoscaler, NeverFewerThanTheLeast) {
  auto s = settings_of();
  s.instances_min = 2;
  autoscaler scaler{s};
  EXPECT_EQ(watch(scaler, 0, 50, at(0, instances({90, 90}))), decisions{});
  EXPECT_EQ(watch(scaler, 51, 61, at(0, instances({90, 90, 90}))).size(), 1U);
}

TEST(Autoscaler, FewerThanTheLeastAreNotWaitedFor) {
  auto s = settings_of();
  s.instances_min = 2;
  autoscaler scaler{s};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90, 90}))), (decisions{{10, kind::in}}));
  EXPECT_EQ(watch(scaler, 11, 29, at(0, instances({30, 30}))), decisions{});
  const auto decision = scaler.step(at(30, instances({30})));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->what, kind::out);
  EXPECT_EQ(decision->why, "1 instance, at least 2 wanted");
  EXPECT_FALSE(scaler.step(at(31, instances({30}), 0, 1)));
  EXPECT_FALSE(scaler.step(at(31, instances({30}))));
  EXPECT_TRUE(scaler.step(at(40, instances({30})))) << "the order was lost";
}

// A head without instances of its own, whose members have not found it again yet.
TEST(Autoscaler, BeforeItHasDecidedAnythingFewerThanTheLeastHaveToLastForAHold) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 9, at(0, {})), decisions{});
  EXPECT_EQ(watch(scaler, 10, 20, at(0, instances({30}))), decisions{}) << "they have joined";
  EXPECT_EQ(watch(scaler, 21, 30, at(0, {})), decisions{}) << "and are cut off for a moment";
  EXPECT_EQ(watch(scaler, 31, 40, at(0, instances({30}))), decisions{});
  EXPECT_EQ(watch(scaler, 41, 61, at(0, {})), (decisions{{51, kind::out}, {61, kind::out}}))
      << "the least of freeness, too, would order no sooner";
  autoscaler restarted{settings_of()};
  (void)restarted.step(at(0, {}));
  const auto decision = restarted.step(at(10, {}));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->why, "0 instances, at least 1 wanted");
}

TEST(Autoscaler, WhatHoldsBeforeItIsSwitchedOnIsNoReasonToOrderAtOnce) {
  autoscaler scaler{settings_of(scaling_mode::off)};
  EXPECT_EQ(watch(scaler, 0, 50, at(0, {})), decisions{});
  scaler.set_mode(scaling_mode::on);
  EXPECT_EQ(watch(scaler, 51, 61, at(0, {})), (decisions{{61, kind::out}}));
  scaler.set_mode(scaling_mode::dry_run);
  EXPECT_EQ(watch(scaler, 62, 72, at(0, {})), (decisions{{72, kind::out}}));
}

TEST(Autoscaler, WhileAnInstanceIsOrderedOrStartsNothingElseIsDecided) {
  for (const auto& [starting, ordered] : {std::pair{1U, 0U}, {0U, 1U}}) {
    autoscaler scaler{settings_of()};
    EXPECT_EQ(watch(scaler, 0, 90, at(0, instances({5, 5}), starting, ordered)), decisions{});
    EXPECT_EQ(watch(scaler, 91, 101, at(0, instances({5, 5, 5}))), (decisions{{101, kind::out}}))
        << "the hold begins when it is there";
    autoscaler other{settings_of()};
    EXPECT_EQ(watch(other, 0, 90, at(0, instances({90, 90}), starting, ordered)), decisions{});
    EXPECT_EQ(watch(other, 91, 101, at(0, instances({90, 90}))), (decisions{{101, kind::in}}));
  }
}

TEST(Autoscaler, WhatWasOrderedAndDoesNotComeIsGivenUp) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 110, at(0, instances({5, 5, 5}), 0, 1)), (decisions{{110, kind::out}}))
      << "it is not counted either, or there would be four";
  EXPECT_EQ(watch(scaler, 111, 200, at(0, instances({5, 5, 5}), 0, 2)), decisions{});
}

TEST(Autoscaler, WhatStartsForeverIsThereButNotWaitedFor) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 200, at(0, instances({5, 5, 5}), 1)), decisions{}) << "four are there";
  EXPECT_EQ(watch(scaler, 201, 211, at(0, instances({5, 5}), 1)).size(), 1U) << "and here three";
}

// It is ready for a second, fails, and starts again.
TEST(Autoscaler, WhatFailsAndStartsOverAndOverIsNotWaitedForEither) {
  autoscaler scaler{settings_of()};
  decisions all;
  for (std::int64_t t = 0; t < 130; ++t) {
    const auto found = watch(scaler, t, t, at(0, instances({5, 5}), t % 8 == 7 ? 0 : 1));
    all.insert(all.end(), found.begin(), found.end());
  }
  ASSERT_FALSE(all.empty());
  EXPECT_GE(all.front().first, 100);
  EXPECT_LE(all.front().first, 120);
  EXPECT_EQ(all.front().second, kind::out);
}

// The scheduler looks so rarely that it may not see the order itself.
TEST(Autoscaler, BesideOneThatNeverStartsOthersAreWaitedFor) {
  auto settings = settings_of();
  settings.instances_max = 8;
  autoscaler scaler{settings};
  EXPECT_EQ(watch(scaler, 0, 110, at(0, instances({5, 5}), 1)), (decisions{{110, kind::out}}));
  EXPECT_EQ(watch(scaler, 111, 170, at(0, instances({5, 5}), 2)), decisions{}) << "it loads";
  EXPECT_EQ(watch(scaler, 171, 190, at(0, instances({5, 5, 5}), 1)), decisions{}) << "and was waited for since 111";
  EXPECT_EQ(watch(scaler, 191, 221, at(0, instances({5, 5, 5}), 1)), (decisions{{221, kind::out}}));
  EXPECT_EQ(watch(scaler, 222, 300, at(0, instances({5, 5, 5}), 2)), decisions{}) << "the next one as well";
}

TEST(Autoscaler, WhatIsOrderedInPlaceOfOneThatFailedIsWaitedForAnew) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 90, at(0, instances({5, 5}), 1)), decisions{});
  EXPECT_EQ(watch(scaler, 91, 200, at(0, instances({5, 5}), 0, 1)), decisions{}) << "no more are awaited than before";
  EXPECT_EQ(watch(scaler, 201, 201, at(0, instances({5, 5}), 0, 1)), (decisions{{201, kind::out}}));
}

TEST(Autoscaler, WhatStartsLongAfterAnotherWasReadyIsWaitedForAnew) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 90, at(0, instances({20, 20}), 1)), decisions{});
  EXPECT_EQ(watch(scaler, 91, 101, at(0, instances({20, 20, 20}))), decisions{});
  EXPECT_EQ(watch(scaler, 102, 201, at(0, instances({5, 5}), 1)), decisions{});
  EXPECT_EQ(watch(scaler, 202, 212, at(0, instances({5, 5}), 1)), (decisions{{212, kind::out}}));
}

TEST(Autoscaler, ADrainIsTakenBackWhenTheLoadRises) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90});
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  loads[2].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 30, at(0, loads)), decisions{}) << "one at a time";
  loads[0] = load_with_freeness(1, 3);
  loads[1] = load_with_freeness(2, 4);
  EXPECT_EQ(watch(scaler, 31, 40, at(0, loads)), decisions{});
  const auto decision = scaler.step(at(41, loads));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->what, kind::keep);
  EXPECT_EQ(decision->instance, instance_id{3});
  loads[2].terminating = false;
  EXPECT_EQ(watch(scaler, 42, 60, at(0, loads)), decisions{}) << "the mean is fine now";
}

TEST(Autoscaler, ADrainIsTakenBackEvenWhileAnotherInstanceStarts) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90});
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  auto low = instances({3, 3, 3});
  low[2].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 30, at(0, low, 1)).at(0), std::pair(std::int64_t{21}, kind::keep));
}

TEST(Autoscaler, ADrainThatAnOperatorBeganIsNotTakenBack) {
  autoscaler scaler{settings_of()};
  auto loads = instances({3, 4, 90});
  loads[2].terminating = true;
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::out}}));
}

// An operator has said meanwhile that it is to go, or its process leaves.
TEST(Autoscaler, InPlaceOfADrainThatCannotBeTakenBackAnotherInstanceComes) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90}))), (decisions{{10, kind::in}}));
  auto low = instances({3, 3});
  low[1].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 32, at(0, low)), (decisions{{21, kind::keep}, {32, kind::out}}));
  EXPECT_EQ(watch(scaler, 33, 70, at(0, low, 1)), decisions{}) << "while it starts nothing else is decided";
}

TEST(Autoscaler, InPlaceOfADrainThatCannotBeTakenBackAnotherInstanceComesWhereTheyAreTooFew) {
  auto settings = settings_of();
  settings.instances_min = 2;
  autoscaler scaler{settings};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90, 90}))), (decisions{{10, kind::in}}));
  auto left = instances({90, 30, 90});
  left[2].terminating = true;
  left.erase(left.begin()); // it died
  EXPECT_EQ(watch(scaler, 11, 31, at(0, left)), (decisions{{20, kind::keep}, {30, kind::out}}));
}

TEST(Autoscaler, WhileAnotherInstanceStartsNoneComesInPlaceOfADrainThatCannotBeTakenBack) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90}))), (decisions{{10, kind::in}}));
  auto low = instances({3, 3});
  low[1].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 50, at(0, low, 1)), (decisions{{21, kind::keep}}));
}

TEST(Autoscaler, ADrainAfterOneThatWasTakenBackIsTakenBackToo) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90});
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  auto low = instances({3, 3});
  low[1].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 21, at(0, low)), (decisions{{21, kind::keep}}));
  EXPECT_EQ(watch(scaler, 22, 40, at(0, loads)), (decisions{{32, kind::in}})) << "it stayed, and the load fell";
  EXPECT_EQ(watch(scaler, 41, 51, at(0, low)), (decisions{{51, kind::keep}}));
}

TEST(Autoscaler, WhileAnOperatorDrainsNothingElseIsDrained) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90});
  loads[0].terminating = true;
  EXPECT_EQ(watch(scaler, 0, 50, at(0, loads)), decisions{});
}

TEST(Autoscaler, WhatStartsForeverDoesNotKeepTheOthersFromLeaving) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 110, at(0, instances({90, 90}), 1)), (decisions{{110, kind::in}}));
}

TEST(Autoscaler, AChangeOfModeInTheMiddleOfADrainForgetsIt) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90});
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  scaler.set_mode(scaling_mode::off);
  EXPECT_EQ(watch(scaler, 11, 15, at(0, loads)), decisions{});
  scaler.set_mode(scaling_mode::on);
  auto low = instances({3, 3, 3});
  low[2].terminating = true;
  EXPECT_EQ(watch(scaler, 16, 26, at(0, low)), (decisions{{26, kind::out}})) << "what drains now was not its wish";
}

TEST(Autoscaler, ADrainThatIsOverIsForgotten) {
  autoscaler scaler{settings_of()};
  auto loads = instances({90, 90, 90});
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  loads[2].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 20, at(0, loads)), decisions{});
  EXPECT_EQ(watch(scaler, 21, 25, at(0, instances({30, 30}))), decisions{}); // stopped
  auto again = instances({3, 3, 30});                                        // started again, and an operator drains it
  again[2].terminating = true;
  EXPECT_EQ(watch(scaler, 26, 36, at(0, again)), (decisions{{36, kind::out}}));
}

TEST(Autoscaler, ADrainThatNeverBeganIsForgottenAfterAHold) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, instances({90, 90}))), (decisions{{10, kind::in}}));
  EXPECT_EQ(watch(scaler, 11, 25, at(0, instances({3, 3}))), (decisions{{21, kind::out}}));
}

TEST(Autoscaler, ADryRunOnlySaysSo) {
  autoscaler scaler{settings_of(scaling_mode::dry_run)};
  auto loads = instances({90, 90});
  (void)scaler.step(at(0, loads));
  const auto said = scaler.step(at(10, loads));
  ASSERT_TRUE(said);
  EXPECT_TRUE(said->dry);
  EXPECT_EQ(said->what, kind::in);
  EXPECT_EQ(watch(scaler, 11, 21, at(0, loads)), (decisions{{21, kind::in}})) << "nothing changed by it";
  loads[0] = load_with_freeness(1, 2);
  loads[1] = load_with_freeness(2, 2);
  EXPECT_EQ(watch(scaler, 22, 32, at(0, loads)), (decisions{{32, kind::out}})) << "there is no drain to take back";
  EXPECT_EQ(watch(scaler, 33, 33, at(33, instances({90, 90}))), decisions{});
  EXPECT_EQ(watch(scaler, 34, 43, at(0, instances({90, 90}))), (decisions{{43, kind::in}}));
  loads[1].terminating = true; // and an operator took the advice
  EXPECT_EQ(watch(scaler, 44, 54, at(0, loads)), (decisions{{54, kind::out}}));
}

scaling_settings by_total() {
  auto s = settings_of();
  s.rule = scaling_rule::total;
  s.instances_max = 16;
  return s;
}
/// So many blocks free of 1000, for so many requests.
load_report with_free(std::uint32_t id, std::uint32_t free, std::uint32_t running) {
  auto load = load_of(id);
  load.blocks_total = 1000;
  load.blocks_used = 1000 - free;
  load.running = running;
  return load;
}

TEST(TotalFreeness, IsWhatAllHaveLeftTogetherForEachRequest) {
  std::vector loads{with_free(1, 300, 10), with_free(2, 100, 30), with_free(3, 1000, 0)};
  EXPECT_DOUBLE_EQ(total_freeness(loads), 1400 / 40.0);
  EXPECT_DOUBLE_EQ(total_freeness_with(loads, 2), 3400 / 40.0) << "each brings a pool of 1000";
  EXPECT_DOUBLE_EQ(total_freeness_without(loads, loads[0]), 400 / 40.0) << "its requests stay";
  loads[0].waiting = 10;
  loads[0].queued_blocks = 30;
  loads[0].waiting_blocks = 100;
  EXPECT_DOUBLE_EQ(total_freeness(loads), 1300 / 50.0) << "the whole queue is counted, its head once";
  loads[0].queued_blocks = 300; // which is all that is free
  EXPECT_DOUBLE_EQ(total_freeness(loads), 1300 / 50.0) << "for want of a place, not of memory";
  loads[0].headroom_blocks = 200;
  EXPECT_DOUBLE_EQ(total_freeness(loads), 1100 / 50.0);
  loads[2].terminating = true;
  EXPECT_DOUBLE_EQ(total_freeness(loads), 100 / 50.0);
  loads[1].waiting_blocks = 1000;
  EXPECT_DOUBLE_EQ(total_freeness(loads), 100 - 1000) << "not divided";
  loads[1].outstanding_blocks = 50;
  loads[1].queued_blocks = 100;
  EXPECT_DOUBLE_EQ(total_freeness(loads), 100 - 1000 - 50) << "what running prompts lack is counted, too, and once";
  EXPECT_EQ(total_freeness({}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(total_freeness_without({loads[0]}, loads[0]), -std::numeric_limits<double>::infinity());
}

// Llumnix's public artifact: as many instances as the load needs, at once, by what it is at that moment.
TEST(AutoscalerByTotal, StartsAsManyAsAreMissingAtOnce) {
  autoscaler scaler{by_total()};
  const std::vector loads{with_free(1, 100, 150), with_free(2, 100, 150)};
  EXPECT_FALSE(scaler.step(at(0, loads)));
  EXPECT_FALSE(scaler.step(at(9, instances({30, 30})))) << "what was before does not count";
  const auto decision = scaler.step(at(10, loads));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->what, kind::out);
  EXPECT_EQ(decision->count, 3U) << "300 requests, 10 blocks each: 2800 more";
  EXPECT_EQ(decision->why, "all together have 0.7 blocks a request, below 10, 2 instances");
  auto few = by_total();
  few.instances_max = 4;
  autoscaler bounded{few};
  (void)bounded.step(at(0, loads));
  EXPECT_EQ(bounded.step(at(10, loads))->count, 2U);
}

TEST(AutoscalerByTotal, LooksOncePerHold) {
  autoscaler scaler{by_total()};
  const std::vector low{with_free(1, 10, 10)};
  const std::vector fine{with_free(1, 300, 10)};
  EXPECT_FALSE(scaler.step(at(0, fine)));
  EXPECT_FALSE(scaler.step(at(10, fine)));
  EXPECT_EQ(watch(scaler, 11, 20, at(0, low)), (decisions{{20, kind::out}}));
  EXPECT_EQ(watch(scaler, 21, 40, at(0, low, 1)), decisions{}) << "while one starts nothing else is decided";
}

TEST(AutoscalerByTotal, OneLeavesWhereTheOthersWouldStillBeAbove) {
  // 70 blocks for each of 20 requests; without one of the two 20 for each.
  autoscaler stays{by_total()};
  EXPECT_EQ(watch(stays, 0, 50, at(0, {with_free(1, 700, 10), with_free(2, 700, 10)})), decisions{});
  autoscaler leaves{by_total()};
  const std::vector loads{with_free(1, 900, 10), with_free(2, 900, 5), with_free(3, 900, 10)};
  (void)leaves.step(at(0, loads));
  const auto decision = leaves.step(at(10, loads));
  ASSERT_TRUE(decision) << "1700 for 25";
  EXPECT_EQ(decision->what, kind::in);
  EXPECT_EQ(decision->instance, instance_id{2});
  EXPECT_EQ(decision->count, 1U);
}

TEST(AutoscalerByTotal, FewerThanTheLeastAreNotWaitedFor) {
  auto s = by_total();
  s.instances_min = 3;
  autoscaler scaler{s};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, {with_free(1, 10, 500)})), (decisions{{10, kind::out}}));
  EXPECT_EQ(watch(scaler, 11, 22, at(0, {with_free(1, 300, 10), with_free(2, 300, 10), with_free(3, 300, 10)})),
            decisions{});
  const auto decision = scaler.step(at(23, {with_free(1, 10, 500)}));
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->count, 1U);
}

TEST(AutoscalerByTotal, TakesADrainBackInsteadOfStartingAnother) {
  autoscaler scaler{by_total()};
  std::vector loads{with_free(1, 900, 1), with_free(2, 900, 1), with_free(3, 900, 1)};
  EXPECT_EQ(watch(scaler, 0, 10, at(0, loads)), (decisions{{10, kind::in}}));
  for (auto& load : loads) load = with_free(load.instance.value(), 10, 100);
  loads[2].terminating = true;
  EXPECT_EQ(watch(scaler, 11, 20, at(0, loads)), (decisions{{20, kind::keep}}));
}

TEST(Autoscaler, ThatIsOffOnlyKnowsTheMean) {
  autoscaler scaler{settings_of(scaling_mode::off)};
  EXPECT_EQ(watch(scaler, 0, 50, at(0, instances({5, 5}))), decisions{});
  EXPECT_DOUBLE_EQ(scaler.mean_freeness(), 5);
  scaler.set_mode(scaling_mode::on);
  EXPECT_EQ(watch(scaler, 51, 61, at(0, instances({5, 5}))), (decisions{{61, kind::out}})) << "the hold begins now";
  scaler.set_mode(scaling_mode::off);
  EXPECT_EQ(watch(scaler, 62, 90, at(0, instances({5, 5}))), decisions{});
}

TEST(Autoscaler, ToldItsModeAgainItGoesOnHolding) {
  autoscaler scaler{settings_of()};
  EXPECT_EQ(watch(scaler, 0, 5, at(0, instances({5}))), decisions{});
  scaler.set_mode(scaling_mode::on);
  EXPECT_EQ(watch(scaler, 6, 10, at(0, instances({5}))), (decisions{{10, kind::out}}));
}

TEST(Autoscaler, DecidesTheSameEveryTime) {
  const auto run = [] {
    auto s = settings_of();
    s.hold_ns = 3 * second_ns;
    autoscaler scaler{s};
    workload::counter_random random{11};
    std::vector<std::string> log;
    for (std::int64_t t = 0; t < 2000; ++t) {
      std::vector<load_report> loads;
      const auto level = static_cast<double>((t / 40) % 3) * 40; // 0, 40, 80
      for (std::uint32_t i = 1; i <= 2 + random.below(3); ++i)
        loads.push_back(load_with_freeness(i, level + static_cast<double>(random.below(20))));
      if (const auto d = scaler.step(at(t, loads, random.below(20) == 0)))
        log.push_back(std::to_string(t) + std::string(to_string(d->what)) + std::to_string(d->instance.value()) +
                      d->why);
    }
    return log;
  };
  const auto first = run();
  EXPECT_GT(first.size(), 20U);
  EXPECT_EQ(first, run());
}

} // namespace
} // namespace godwit::protocols
