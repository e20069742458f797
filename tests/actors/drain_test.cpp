// Instances that are drained by order: their requests move, nothing is lost, and they stop. And the head's way with
// policies and with a scheduler that dies.
#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_id;
using protocols::instance_state;
using ::testing::HasSubstr;

namespace {

using sinks = std::vector<std::shared_ptr<recording_sink>>;

/// Devices so slow that requests live for many rounds of the scheduler.
sim_cluster_options slow(std::uint64_t seed, std::uint32_t instances,
                         std::function<void(actors::node_options&)> adjust = {}) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = instances;
  o.latency.base_us = 10'000;
  o.fabric = transport::sim::settings{};
  o.adjust = [adjust = std::move(adjust)](actors::node_options& n) {
    n.backoff_min = 20ms;
    n.llumlet.selection.cooldown_ns = std::chrono::nanoseconds(300ms).count();
    if (adjust) adjust(n);
  };
  return o;
}

class highest_id final : public protocols::dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "highest_id"; }

private:
  [[nodiscard]] double rate(const protocols::load_report& report, const picked_load&) const noexcept override {
    return report.instance.value();
  }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

sinks submit_some(sim_cluster& cluster, std::uint32_t count) {
  sinks out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(cluster.submit(i, 20 + (i * 37) % 150, 60 + (i * 53) % 90));
  return out;
}

constexpr std::uint32_t many = 24;
const std::vector<std::vector<protocols::token_id>>& calm_answers() {
  static const auto answers = [] {
    sim_cluster cluster({.seed = 4, .blocks = 4096, .waiting_max = 1000});
    std::vector<std::vector<protocols::token_id>> out;
    const auto all = submit_some(cluster, many);
    EXPECT_TRUE(cluster.run_until_ended(all));
    for (const auto& sink : all) out.push_back(sink->tokens);
    return out;
  }();
  return answers;
}

void expect_whole_answers(const sinks& all, std::uint64_t seed) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->endings, 1) << "request " << i << ", seed " << seed;
    EXPECT_FALSE(all[i]->failed) << "request " << i << ", seed " << seed << ": " << all[i]->failed->message;
    EXPECT_EQ(all[i]->tokens, calm_answers()[i]) << "request " << i << ", seed " << seed;
  }
}

std::string drain(sim_cluster& cluster, std::uint32_t instance, bool on = true) {
  const auto answer =
      cluster.system->ask(cluster.cluster->node(), 1s, actors::drain_instance{instance_id{instance}, on});
  EXPECT_TRUE(answer);
  return answer ? answer->error : "no answer";
}

const actors::instance_entry* entry(const actors::topology& view, std::uint32_t instance) {
  return view.find(instance_id{instance});
}

bool run_until_stopped(sim_cluster& cluster, std::uint32_t instance) {
  return cluster.run_until([&] { return entry(cluster.cluster->gate()->view(), instance) == nullptr; });
}

actors::policy_answer set(sim_cluster& cluster, const std::function<void(actors::policy_order&)>& fill) {
  actors::policy_order order;
  fill(order);
  const auto answer = cluster.system->ask(cluster.cluster->node(), 1s, order);
  EXPECT_TRUE(answer);
  return answer ? *answer : actors::policy_answer{};
}

} // namespace

TEST(Drain, AnInstanceDrainedUnderLoadLosesNothingAndStops) {
  std::uint64_t moves = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim_cluster cluster(slow(seed, 3));
    const auto all = submit_some(cluster, many);
    cluster.run_for(300ms);
    ASSERT_EQ(drain(cluster, 1), "");
    cluster.run_for(1ms);
    const auto status = cluster.status();
    EXPECT_EQ(status.instances[1].state, instance_state::draining);
    const auto begun = cluster.world.now();
    ASSERT_TRUE(run_until_stopped(cluster, 1)) << "seed " << seed;
    EXPECT_LT(cluster.world.now() - begun, 5s) << "seed " << seed;
    EXPECT_EQ(cluster.status().instances.size(), 2U);
    ASSERT_TRUE(cluster.run_until_ended(all)) << "seed " << seed;
    expect_whole_answers(all, seed);
    EXPECT_EQ(cluster.status().redispatches_total, 0U) << "requests move or end; none is recomputed";
    moves += cluster.status().moves_total;
    cluster.run_for(5s);
    EXPECT_EQ(cluster.status().instances.size(), 2U) << "nobody restarts it";
    const auto stopped = cluster.status().stopped;
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped[0].instance, instance_id{1});
    EXPECT_EQ(stopped[0].state, instance_state::stopped);
    EXPECT_EQ(stopped[0].node, sim_cluster::process_of(1));
    EXPECT_EQ(cluster.blocks_used(), 0U);
  }
  EXPECT_GT(moves, 20U);
}

// As in a system without migration: what a policy of that system costs can be compared.
TEST(Drain, WithoutMigrationItAnswersItsRequestsItselfAndStopsThen) {
  for (const bool paused : {false, true}) {
    sim_cluster cluster(slow(
        1, 3, [](actors::node_options& n) { n.scheduler.policies.migration = protocols::migration_policy::never; }));
    const auto all = submit_some(cluster, many);
    cluster.run_for(300ms);
    if (paused) set(cluster, [](actors::policy_order& o) { o.paused = "yes"; });
    ASSERT_EQ(drain(cluster, 1), "");
    cluster.run_for(1ms);
    const auto its_own = cluster.status().instances[1].load.running;
    ASSERT_GT(its_own, 0U);
    ASSERT_TRUE(run_until_stopped(cluster, 1));
    ASSERT_TRUE(cluster.run_until_ended(all));
    expect_whole_answers(all, 1);
    EXPECT_EQ(cluster.status().moves_total, 0U);
    EXPECT_EQ(cluster.status().redispatches_total, 0U);
    EXPECT_EQ(cluster.blocks_used(), 0U);
  }
}

TEST(Drain, WithoutMigrationFromTheMiddleOnItEndsWhatItHas) {
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    sim_cluster cluster(slow(seed, 3));
    const auto all = submit_some(cluster, many);
    cluster.run_for(300ms);
    ASSERT_EQ(drain(cluster, 1), "");
    EXPECT_TRUE(cluster.run_until([&] { return cluster.status().moves_total > 0; })) << "seed " << seed;
    EXPECT_EQ(set(cluster, [](actors::policy_order& o) { o.migration = "never"; }).error, "");
    cluster.run_for(1s); // what is under way goes on, and marks are taken back
    const auto by_then = cluster.status().moves_total;
    ASSERT_TRUE(run_until_stopped(cluster, 1)) << "seed " << seed;
    ASSERT_TRUE(cluster.run_until_ended(all)) << "seed " << seed;
    EXPECT_EQ(cluster.status().moves_total, by_then) << "seed " << seed;
    expect_whole_answers(all, seed);
    EXPECT_EQ(cluster.blocks_used(), 0U);
    moved += by_then;
  }
  EXPECT_GT(moved, 0U);
}

TEST(Drain, TakenBackItGoesOnAndAStoppedOneStartsAgain) {
  sim_cluster cluster(slow(1, 2));
  const auto all = submit_some(cluster, many);
  cluster.run_for(200ms);
  ASSERT_EQ(drain(cluster, 0), "");
  cluster.run_for(100ms);
  ASSERT_EQ(drain(cluster, 0, false), "");
  cluster.run_for(10ms);
  EXPECT_EQ(cluster.status().instances[0].state, instance_state::ready);
  ASSERT_TRUE(cluster.run_until_ended(all));
  expect_whole_answers(all, 1);
  EXPECT_TRUE(cluster.all_ready(2));

  ASSERT_EQ(drain(cluster, 0), "");
  ASSERT_TRUE(run_until_stopped(cluster, 0));
  EXPECT_EQ(drain(cluster, 0), "instance 0 is stopped");
  ASSERT_EQ(drain(cluster, 0, false), "");
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
  EXPECT_TRUE(cluster.status().stopped.empty());
  EXPECT_EQ(entry(cluster.cluster->gate()->view(), 0)->generation, 2U);
  const auto again = submit_some(cluster, many);
  ASSERT_TRUE(cluster.run_until_ended(again));
  expect_whole_answers(again, 1);
}

TEST(Drain, OneThatDiesWhileItDrainsIsNotRestartedAndItsRequestsGoOn) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    sim_cluster cluster(slow(seed, 3));
    const auto all = submit_some(cluster, many);
    cluster.run_for(200ms);
    ASSERT_EQ(drain(cluster, 2), "");
    cluster.run_for(std::chrono::milliseconds(seed * 3));
    cluster.cluster->kill(instance_id{2});
    ASSERT_TRUE(run_until_stopped(cluster, 2));
    ASSERT_TRUE(cluster.run_until_ended(all)) << "seed " << seed;
    expect_whole_answers(all, seed);
    cluster.run_for(5s);
    EXPECT_EQ(cluster.status().instances.size(), 2U);
  }
}

TEST(Drain, WhatCannotBeDrainedIsSaidInALine) {
  sim_cluster cluster(slow(1, 2));
  EXPECT_EQ(drain(cluster, 9), "there is no instance 9");
  EXPECT_EQ(drain(cluster, 9, false), "there is no instance 9");
  EXPECT_EQ(drain(cluster, 0, false), "instance 0 is not being drained");
  EXPECT_EQ(drain(cluster, 0), "");
  EXPECT_EQ(drain(cluster, 0), "") << "as it is";
  EXPECT_EQ(drain(cluster, 1), "instance 1 is the last one that takes requests");
  ASSERT_TRUE(run_until_stopped(cluster, 0));
  EXPECT_EQ(drain(cluster, 1), "instance 1 is the last one that takes requests");
  ASSERT_EQ(drain(cluster, 0, false), "");
  EXPECT_EQ(drain(cluster, 0), "") << "it loads, and stops at once";
}

// Nobody is left who could compute anew what the last one has.
TEST(Drain, WhereTheHeadEndsTheLastOneDrainsTooAndWhatNobodyIsLeftForFailsAtOnce) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    sim_cluster cluster(slow(seed, 2));
    const auto all = submit_some(cluster, many);
    cluster.run_for(300ms);
    ASSERT_EQ(drain(cluster, 0), "");
    ASSERT_NE(drain(cluster, 1), "");
    cluster.cluster->end_soon();
    cluster.run_for(1ms);
    ASSERT_EQ(drain(cluster, 1), "");
    cluster.run_for(1ms);
    const auto late = cluster.submit(many, 20, 60);
    cluster.run_for(200ms);
    ASSERT_TRUE(late->failed) << "it waits for nobody";
    EXPECT_EQ(late->failed->kind, actors::failure_kind::unavailable);
    EXPECT_EQ(late->failed->message, "the server is shutting down");
    ASSERT_TRUE(run_until_stopped(cluster, 1)) << "seed " << seed;
    ASSERT_TRUE(cluster.run_until_ended(all)) << "seed " << seed;
    expect_whole_answers(all, seed);
  }
}

TEST(Drain, ItHappensWithoutASchedulerAndWithoutMigrationsToo) {
  sim_cluster cluster({.seed = 3, .instances = 2});
  const auto all = submit_some(cluster, many);
  cluster.run_for(20ms);
  cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  ASSERT_EQ(drain(cluster, 1), "");
  ASSERT_TRUE(run_until_stopped(cluster, 1)) << "its requests run to their end";
  ASSERT_TRUE(cluster.run_until_ended(all));
  expect_whole_answers(all, 3);
}

TEST(Drain, AMemberThatJoinsAnewIsAsAtItsStart) {
  sim_cluster cluster(slow(2, 2));
  ASSERT_EQ(drain(cluster, 1), "");
  ASSERT_TRUE(run_until_stopped(cluster, 1));
  cluster.start_process(1); // the same process, for all that the head knows
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
  EXPECT_TRUE(entry(cluster.cluster->gate()->view(), 1)->takes_requests());
  EXPECT_EQ(drain(cluster, 1), "");
}

// The word that it is empty, that it has stopped and that it shall stay cross each other.
TEST(Drain, TakenBackAtAnyMomentItTakesRequestsAgain) {
  int stopped = 0;
  for (std::uint64_t steps = 0; steps < 60; ++steps) {
    SCOPED_TRACE("after " + std::to_string(steps) + " messages");
    sim_cluster cluster(slow(1 + steps % 3, 2));
    const auto node = cluster.cluster->node();
    cluster.system->tell(node, actors::drain_instance{instance_id{0}, true});
    for (std::uint64_t i = 0; i < steps; ++i) (void)cluster.world.step();
    cluster.system->tell(node, actors::drain_instance{instance_id{0}, false});
    cluster.run_for(1s);
    const auto view = cluster.cluster->gate()->view();
    ASSERT_NE(entry(view, 0), nullptr);
    EXPECT_TRUE(entry(view, 0)->takes_requests());
    stopped += entry(view, 0)->generation > 1 ? 1 : 0;
    const auto all = submit_some(cluster, many);
    ASSERT_TRUE(cluster.run_until_ended(all));
    expect_whole_answers(all, steps);
    EXPECT_EQ(cluster.status().redispatches_total, 0U);
  }
  EXPECT_GT(stopped, 3) << "no run reaches what it is for";
  EXPECT_LT(stopped, 57);
}

// The first order's answer is on its way while the second one comes: it speaks of a time before the requests that came
// in between.
TEST(Drain, OrderedTakenBackAndOrderedAgainItStopsOnlyWhenItIsEmptySinceTheLastOrder) {
  int busy = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    sim_cluster cluster(slow(seed, 2));
    const auto node = cluster.cluster->node();
    auto random = cluster.world.random(37);
    const auto go_on = [&](std::uint64_t steps_max) {
      for (auto steps = random.below(steps_max); steps > 0; --steps) (void)cluster.world.step();
    };
    cluster.system->tell(node, actors::drain_instance{instance_id{0}, true});
    go_on(6);
    cluster.system->tell(node, actors::drain_instance{instance_id{0}, false});
    sinks all;
    for (std::uint32_t i = 0; i < 3; ++i) {
      go_on(6);
      all.push_back(cluster.submit(i, 20 + (i * 37) % 150, 60 + (i * 53) % 90));
    }
    go_on(12);
    // Refused where it has stopped already, and starts.
    const bool again = drain(cluster, 0).empty();
    cluster.run_for(15ms);
    if (again) {
      busy += cluster.status().instances[0].state == instance_state::draining ? 1 : 0;
      ASSERT_TRUE(run_until_stopped(cluster, 0));
    }
    ASSERT_TRUE(cluster.run_until_ended(all));
    expect_whole_answers(all, seed);
    EXPECT_EQ(cluster.status().redispatches_total, 0U) << "its requests move or end; none is recomputed";
  }
  EXPECT_GT(busy, 30) << "no run reaches what it is for";
}

// Its death, its restart and the order to drain cross each other.
TEST(Drain, OrderedWhileItDiesItStops) {
  for (std::uint64_t steps = 0; steps < 60; ++steps) {
    SCOPED_TRACE("after " + std::to_string(steps) + " messages");
    sim_cluster cluster(slow(1 + steps % 3, 2));
    cluster.cluster->kill(instance_id{0});
    for (std::uint64_t i = 0; i < steps; ++i) (void)cluster.world.step();
    EXPECT_EQ(drain(cluster, 0), "");
    cluster.run_for(2s);
    const auto view = cluster.cluster->gate()->view();
    EXPECT_EQ(entry(view, 0), nullptr);
    EXPECT_EQ(view.instances.size(), 1U);
  }
}

TEST(Drain, WhereItsProcessLeavesItStopsWhateverBecomesOfItMeanwhile) {
  for (std::uint64_t steps = 0; steps < 60; ++steps) {
    SCOPED_TRACE("after " + std::to_string(steps) + " messages");
    sim_cluster cluster(slow(1 + steps % 3, 2));
    cluster.cluster->kill(instance_id{1});
    for (std::uint64_t i = 0; i < steps; ++i) (void)cluster.world.step();
    auto order = actors::drain_instance{instance_id{1}, true};
    order.leaves = true;
    const auto answer = cluster.system->ask(cluster.cluster->node(), 1s, order);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->error, "");
    cluster.run_for(2s);
    EXPECT_EQ(entry(cluster.cluster->gate()->view(), 1), nullptr);
  }
}

TEST(Drain, WhatAnOperatorDrainsAutoscalingNeitherTakesBackNorCallsItsOwn) {
  for (const bool by_hand_first : {true, false}) {
    sim_cluster cluster(slow(1, 2));
    const auto all = submit_some(cluster, many);
    cluster.run_for(200ms);
    using kind = protocols::scaling_decision::kind;
    const auto wish = [&](kind what) {
      cluster.system->tell(cluster.cluster->node(), actors::scaling_wish{what, instance_id{0}, "the test wants it"});
      cluster.run_for(1ms);
    };
    if (!by_hand_first) wish(kind::in);
    ASSERT_EQ(drain(cluster, 0), "");
    if (by_hand_first) wish(kind::in);
    wish(kind::keep);
    EXPECT_FALSE(entry(cluster.cluster->gate()->view(), 0)->takes_requests());
    ASSERT_TRUE(run_until_stopped(cluster, 0));
    EXPECT_EQ(cluster.status().scheduling.scaled_in_total, 0U);
    ASSERT_TRUE(cluster.run_until_ended(all));
    expect_whole_answers(all, 1);
  }
}

TEST(Policies, UnknownNamesAreRefusedWithTheKnownOnesAndChangeNothing) {
  sim_cluster cluster(slow(1, 2));
  const auto before = set(cluster, [](auto&) {});
  EXPECT_EQ(before.error, "");
  EXPECT_EQ(before.now.dispatch, "freeness");
  const auto refused = [&](const std::function<void(actors::policy_order&)>& fill) {
    const auto answer = set(cluster, fill);
    EXPECT_EQ(answer.now, before.now);
    return answer.error;
  };
  EXPECT_EQ(refused([](auto& o) { o.dispatch = "best"; }),
            "no dispatch policy is called 'best'; known are freeness, infaas, least_requests, power_of_two, "
            "round_robin, cache_aware, ttft");
  EXPECT_THAT(refused([](auto& o) {
                o.dispatch = "infaas";
                o.migration = "all";
              }),
              HasSubstr("known are freeness, defrag, none, never"));
  EXPECT_THAT(refused([](auto& o) { o.paused = "maybe"; }), HasSubstr("(yes) or not (no)"));
  EXPECT_THAT(refused([](auto& o) { o.scaling = "up"; }), HasSubstr("known are off, dry_run, on"));
  EXPECT_EQ(cluster.status().scheduling.dispatch_policy, "freeness");
}

TEST(Policies, OnesOfAnEmbedderAreKnownAsTheBuiltInOnesAre) {
  sim_cluster cluster(
      slow(1, 3, [](auto& n) { n.scheduler.dispatchers["crowd"] = [] { return std::make_unique<highest_id>(); }; }));
  EXPECT_EQ(set(cluster, [](auto& o) { o.dispatch = "best"; }).error,
            "no dispatch policy is called 'best'; known are freeness, infaas, least_requests, power_of_two, "
            "round_robin, cache_aware, ttft, crowd");
  const auto answer = set(cluster, [](auto& o) {
    o.dispatch = "crowd";
    o.migration = "never";
  });
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.now.dispatch, "crowd");
  EXPECT_EQ(cluster.status().scheduling.dispatch_policy, "crowd");
  sinks all;
  for (std::uint32_t i = 0; i < 4; ++i) all.push_back(cluster.submit(i, 20, 30));
  cluster.run_for(100ms);
  const auto page = cluster.status();
  for (const auto& instance : page.instances)
    EXPECT_EQ(instance.load.running + instance.load.waiting, instance.instance == instance_id{2} ? 4U : 0U);
  ASSERT_TRUE(cluster.run_until_ended(all));
}

TEST(Policies, WhatAnOperatorSetsIsInForceAtOnceAndSurvivesTheScheduler) {
  sim_cluster cluster(slow(1, 2));
  const auto answer = set(cluster, [](auto& o) {
    o.dispatch = "infaas";
    o.migration = "defrag";
    o.paused = "yes";
    o.scaling = "dry_run";
  });
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.now.dispatch, "infaas");
  const auto expect_them = [&](bool up) {
    const auto page = cluster.status().scheduling;
    EXPECT_EQ(page.scheduler_up, up);
    EXPECT_EQ(page.dispatch_policy, "infaas");
    EXPECT_EQ(page.migration_policy, "defrag");
    EXPECT_TRUE(page.migration_paused);
    EXPECT_EQ(page.scaling, "dry_run");
  };
  expect_them(true);
  cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  cluster.run_for(5ms);
  expect_them(false);
  cluster.run_for(1s);
  expect_them(true);
}

// Llumnix section 5: the scheduler may die at any moment. Nothing fails; migrations resume when it is back.
TEST(SchedulerDeaths, AtAnyMomentNothingFailsAndMigrationsResume) {
  std::uint64_t moves = 0, resumed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    auto options = slow(seed, 3, [](auto& n) { n.settled_after = 10ms; });
    options.blocks = 48;
    options.policy = "round_robin"; // leaves migration something to do
    sim_cluster cluster(std::move(options));
    const auto all = submit_some(cluster, many);
    auto random = cluster.world.random(29);
    for (int kills = 0; kills < 3; ++kills) {
      cluster.run_for(std::chrono::microseconds(random.below(500'000)));
      if (const auto scheduler = cluster.cluster->gate()->view().scheduler)
        cluster.system->stop(scheduler, runtime::stop_reason::killed);
    }
    const auto before = cluster.status().moves_total;
    ASSERT_TRUE(cluster.run_until_ended(all)) << "seed " << seed;
    expect_whole_answers(all, seed);
    const auto page = cluster.status();
    EXPECT_EQ(page.requests_failed_total, 0U);
    EXPECT_TRUE(page.scheduling.scheduler_up) << "seed " << seed;
    moves += page.moves_total;
    resumed += page.moves_total > before ? 1 : 0;
    cluster.run_for(1s);
    EXPECT_EQ(cluster.blocks_used(), 0U) << "seed " << seed;
  }
  EXPECT_GT(moves, 30U);
  EXPECT_GT(resumed, 5U);
}

TEST(SchedulerDeaths, WithItsSchedulerTheMarksEndByTheirLease) {
  auto options = slow(1, 2, [](auto& n) { n.backoff_min = n.backoff_max = 30s; });
  options.blocks = 48;
  options.policy = "round_robin";
  sim_cluster cluster(std::move(options));
  const auto all = submit_some(cluster, many);
  cluster.run_for(500ms);
  cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  cluster.run_for(1s);
  const auto moves = cluster.status().moves_total;
  cluster.run_for(2s);
  EXPECT_EQ(cluster.status().moves_total, moves);
  EXPECT_FALSE(cluster.status().scheduling.scheduler_up);
  ASSERT_TRUE(cluster.run_until_ended(all));
  expect_whole_answers(all, 1);
}

} // namespace godwit::test
