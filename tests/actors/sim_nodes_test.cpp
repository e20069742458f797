#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/metrics/registry.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

// Members as processes of their own, which join over links that break.
namespace godwit::test::sim_nodes {
namespace {

using namespace std::chrono_literals;

std::vector<std::shared_ptr<recording_sink>> submit_some(sim_cluster& cluster, std::uint32_t count) {
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < count; ++i) sinks.push_back(cluster.submit(i, 1 + (i * 37) % 150, 20 + (i * 53) % 90));
  return sinks;
}

sim_cluster_options joined(std::uint64_t seed) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = 2;
  o.waiting_max = 1000;
  o.fabric = transport::sim::settings{};
  o.nodes = true;
  return o;
}

constexpr std::uint32_t requests = 24;

const std::vector<std::vector<protocols::token_id>>& calm() {
  static const auto answers = [] {
    std::vector<std::vector<protocols::token_id>> out;
    sim_cluster cluster({.seed = 1, .blocks = 4096, .waiting_max = 1000});
    const auto sinks = submit_some(cluster, requests);
    EXPECT_TRUE(cluster.run_until_ended(sinks));
    for (const auto& sink : sinks) out.push_back(sink->tokens);
    return out;
  }();
  return answers;
}

bool all_ended(const std::vector<std::shared_ptr<recording_sink>>& sinks) {
  return std::all_of(sinks.begin(), sinks.end(), [](const auto& sink) { return sink->ended(); });
}

void expect_whole(const std::vector<std::shared_ptr<recording_sink>>& sinks) {
  for (std::uint32_t i = 0; i < requests; ++i) {
    EXPECT_EQ(sinks[i]->endings, 1) << i;
    EXPECT_FALSE(sinks[i]->failed) << i << ": " << sinks[i]->failed->message;
    EXPECT_EQ(sinks[i]->tokens, calm()[i]) << i;
  }
}

TEST(SimNodes, AMemberWhoseLinkIsCutLosesNoRequestAndComesBack) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    sim_cluster cluster(joined(seed));
    const auto sinks = submit_some(cluster, requests);
    cluster.run_for(5ms);
    ASSERT_FALSE(all_ended(sinks)) << "the cut comes in the middle";
    cluster.world.network().cut("head", "process-1");
    cluster.network->cut("process-0", "process-1");
    cluster.run_for(3s);
    EXPECT_EQ(cluster.cluster->gate()->view().instances.size(), 1U) << "it is taken for dead";
    cluster.world.network().heal("head", "process-1");
    cluster.network->heal("process-0", "process-1");
    ASSERT_TRUE(cluster.run_until_ended(sinks)) << seed;
    expect_whole(sinks);
    cluster.run_for(30s);
    EXPECT_TRUE(cluster.all_ready(2)) << "it has joined again";
    EXPECT_EQ(cluster.blocks_used(), 0U);
  }
}

// Its shard has outlived the cut, and goes on counting from where it was.
TEST(SimNodes, WhatAStoreCountedBeforeItsMemberWasLostIsCountedOnce) {
  runtime::metrics::registry registry;
  const auto metrics = std::make_shared<actors::cluster_metrics>(registry);
  auto options = joined(1);
  options.adjust = [&](actors::node_options& n) {
    n.llumlet.store.bytes = std::uint64_t{64} * gpu::sim::sim_block_bytes * protocols::blocks_per_chunk;
    n.metrics = metrics;
  };
  sim_cluster cluster(std::move(options));
  const auto sinks = submit_some(cluster, requests);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  cluster.run_for(5s);
  const auto before = metrics->stores();
  EXPECT_GT(before.looked_up_total + before.filed_total, 0U);
  for (int cuts = 0; cuts < 2; ++cuts) {
    cluster.world.network().cut("head", "process-1");
    cluster.run_for(3s);
    EXPECT_EQ(metrics->stores().looked_up_total, before.looked_up_total) << "what it counted is kept";
    cluster.world.network().heal("head", "process-1");
    cluster.run_for(30s);
    ASSERT_TRUE(cluster.all_ready(2));
    EXPECT_EQ(metrics->stores().looked_up_total, before.looked_up_total);
    EXPECT_EQ(metrics->stores().filed_total, before.filed_total);
  }
}

// Killed at different steps.
TEST(SimNodes, AProcessThatIsKilledAtAnyStepLosesNoRequest) {
  for (std::uint64_t step = 0; step < 20; ++step) {
    sim_cluster cluster(joined(step));
    const auto sinks = submit_some(cluster, requests);
    for (std::uint64_t i = 0; i < 37 * step; ++i) ASSERT_TRUE(cluster.world.step());
    ASSERT_FALSE(all_ended(sinks));
    cluster.network->freeze("process-1"); // its fabric goes with it
    cluster.processes.at("process-1")
        ->crash(step % 2 == 0 ? runtime::sim::crash_kind::reset : runtime::sim::crash_kind::silent);
    ASSERT_TRUE(cluster.run_until_ended(sinks)) << step;
    expect_whole(sinks);
    cluster.run_for(1s);
    EXPECT_EQ(cluster.cluster->gate()->view().instances.size(), 1U) << step;
    EXPECT_EQ(cluster.blocks_used(), 0U) << step;
  }
}

} // namespace
} // namespace godwit::test::sim_nodes
