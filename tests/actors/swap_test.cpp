// KV of preempted requests in the host's memory, on virtual time. The simulated devices remember which tokens each slot
// of their KV stands for, so KV of other tokens gives other answers.
#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::preemption_mode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

sim_cluster_options pressed(preemption_mode how, std::uint32_t slots = 256, double blocks_per_second = 2000) {
  sim_cluster_options o;
  o.instances = 1;
  o.blocks = 40;
  o.context = 600;
  o.running_max = 8;
  o.swap.slots = slots;
  o.swap.blocks_per_second = blocks_per_second;
  o.adjust = [how](actors::node_options& n) {
    n.llumlet.recount = true;
    n.llumlet.planner.preemption = how;
    n.llumlet.planner.prefix_caching = false;
    n.llumlet.swap_portion_bytes = 3; // of blocks that have no size
    n.backoff_min = 1ms;
  };
  return o;
}

struct outcome {
  std::vector<std::vector<protocols::token_id>> tokens;
  protocols::load_report load;
  std::chrono::nanoseconds took{0};
  std::vector<std::string> reports;
};

constexpr std::uint32_t requests = 6, prompt = 90, answer = 120; // 14 blocks each

outcome play(const sim_cluster_options& o) {
  outcome out;
  sim_cluster cluster(o);
  const auto began = cluster.world.clock().now();
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < requests; ++i) sinks.push_back(cluster.submit(i, prompt, answer));
  EXPECT_TRUE(cluster.run_until_ended(sinks));
  out.took = cluster.world.clock().now() - began;
  cluster.run_for(1s);
  for (const auto& sink : sinks) {
    EXPECT_FALSE(sink->failed) << (sink->failed ? sink->failed->message : "");
    out.tokens.push_back(sink->tokens);
  }
  out.load = cluster.status().instances.at(0).load;
  out.reports = cluster.reports;
  return out;
}

const outcome& calm() {
  static const auto run = [] {
    auto o = pressed(preemption_mode::recompute);
    o.blocks = 400;
    return play(o);
  }();
  return run;
}

void expect_no_trace(const outcome& run) {
  EXPECT_EQ(run.tokens, calm().tokens);
  EXPECT_EQ(run.load.blocks_used, 0U);
  EXPECT_EQ(run.load.swap_blocks_used, 0U);
  EXPECT_EQ(run.load.swapped, 0U);
  EXPECT_THAT(run.reports, IsEmpty());
}

} // namespace

TEST(Swap, WhoLosesItsBlocksGoesOnWithItsKV) {
  ASSERT_EQ(calm().load.preemptions_total, 0U);
  const auto run = play(pressed(preemption_mode::swap));
  expect_no_trace(run);
  EXPECT_GT(run.load.preemptions_total, 0U);
  EXPECT_EQ(run.load.swaps_total, run.load.preemptions_total);
  EXPECT_EQ(run.load.swapped_in_tokens_total, run.load.swapped_out_tokens_total);
  EXPECT_LT(run.load.prompt_tokens_total, requests * prompt + 16U * run.load.swaps_total)
      << "what is computed again is less than a block each";
}

TEST(Swap, AdaptiveSwapsWhereCopiesAreQuickAndComputesWhereTheyAreNot) {
  const auto quick = play(pressed(preemption_mode::adaptive, 256, 1e6));
  const auto slow = play(pressed(preemption_mode::adaptive, 256, 20));
  const auto recompute = play(pressed(preemption_mode::recompute));
  const auto always = play(pressed(preemption_mode::swap, 256, 20));
  for (const auto* run : {&quick, &slow, &recompute, &always}) expect_no_trace(*run);
  EXPECT_EQ(quick.load.swaps_total, quick.load.preemptions_total);
  EXPECT_EQ(slow.load.swaps_total, 1U) << "to find out";
  EXPECT_EQ(recompute.load.swaps_total, 0U);
  EXPECT_LE(quick.took, recompute.took);
  EXPECT_LT(slow.took, always.took);
}

TEST(Swap, WhatDoesNotFitIsComputedAgain) {
  const auto run = play(pressed(preemption_mode::swap, 10));
  expect_no_trace(run);
  EXPECT_GT(run.load.preemptions_total, run.load.swaps_total);
}

TEST(Swap, CopiesThatFailAreComputedAgain) {
  for (const unsigned every : {1U, 2U, 3U, 5U}) {
    auto o = pressed(preemption_mode::swap);
    o.swap.fails = [every, copies = 0U]() mutable { return ++copies % every == 0 ? "broken" : ""; };
    const auto run = play(o);
    expect_no_trace(run);
    EXPECT_GT(run.load.swaps_total, 0U) << every;
  }
}

TEST(Swap, ACopyThatDoesNotEndEndsTheInstance) {
  auto o = pressed(preemption_mode::swap);
  o.swap.overhead = std::chrono::hours(5);
  const auto adjust = o.adjust;
  o.adjust = [adjust](actors::node_options& n) {
    adjust(n);
    n.llumlet.step_timeout = 1s;
    n.frontend.attempts_max = 1000;
  };
  sim_cluster cluster(o);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < requests; ++i) sinks.push_back(cluster.submit(i, prompt, answer));
  ASSERT_TRUE(cluster.run_until([&] { return cluster.cluster->gate()->view().instances[0].generation > 1; }));
}

TEST(Swap, WhoIsCancelledAtAnyMomentLeavesNothing) {
  for (std::uint32_t victim = 0; victim < requests; ++victim)
    for (const auto after : {150ms, 250ms, 350ms, 450ms, 600ms}) {
      auto o = pressed(preemption_mode::swap, 256, 300);
      sim_cluster cluster(o);
      std::vector<std::shared_ptr<recording_sink>> sinks;
      for (std::uint32_t i = 0; i < requests; ++i) sinks.push_back(cluster.submit(i, prompt, answer));
      cluster.run_for(after);
      sinks[victim]->enough = sinks[victim]->tokens.size() + 1;
      ASSERT_TRUE(cluster.run_until_ended(sinks));
      cluster.run_for(2s);
      for (std::uint32_t i = 0; i < requests; ++i)
        if (i != victim) {
          EXPECT_EQ(sinks[i]->tokens, calm().tokens[i]);
        }
      const auto load = cluster.status().instances.at(0).load;
      EXPECT_EQ(load.blocks_used, 0U);
      EXPECT_EQ(load.swap_blocks_used, 0U);
      EXPECT_THAT(cluster.reports, IsEmpty());
    }
}

TEST(Swap, AnInstanceThatIsKilledTakesItsSwapSpaceWithIt) {
  auto o = pressed(preemption_mode::swap, 256, 300);
  sim_cluster cluster(o);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < requests; ++i) sinks.push_back(cluster.submit(i, prompt, answer));
  ASSERT_TRUE(cluster.run_until([&] { return cluster.status().instances.at(0).load.swap_blocks_used > 0; }));
  cluster.system->tell(cluster.cluster->node(), actors::kill_instance{protocols::instance_id{0}});
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  for (std::uint32_t i = 0; i < requests; ++i) EXPECT_EQ(sinks[i]->tokens, calm().tokens[i]);
  cluster.run_for(1s);
  EXPECT_EQ(cluster.status().instances.at(0).load.swap_blocks_used, 0U);
}

} // namespace godwit::test
