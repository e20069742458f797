// Where requests go that come quickly one after the other, while reports and requests cross each other.
#include "actors/support/sim_cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

/// The most and the fewest requests that one of the instances got.
struct spread {
  std::size_t most = 0, fewest = 0;
};

/// Sends equal requests, with random pauses of up to `pause`, and sees where each of them went first.
spread place(std::uint64_t seed, std::uint32_t instances, std::uint32_t requests, std::chrono::nanoseconds pause,
             const std::string& policy) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = instances;
  o.policy = policy;
  o.blocks = 256;
  o.latency.base_us = 20'000;
  o.fabric = transport::sim::settings{};
  o.nodes = true; // over links that take their time
  o.adjust = [](actors::node_options& n) {
    n.scheduler.policies.migration = protocols::migration_policy::none;
    n.llumlet.report_interval = 300us; // so that reports cross requests often
  };
  sim_cluster cluster(std::move(o));
  cluster.run_for(20ms);
  auto random = cluster.world.random(41);
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < requests; ++i) {
    all.push_back(cluster.submit(i, 40, 8));
    cluster.run_for(std::chrono::nanoseconds(random.below(static_cast<std::uint64_t>(pause.count()))));
  }
  cluster.run_for(10ms);
  spread out{0, requests};
  for (const auto& instance : cluster.status(true).instances) {
    out.most = std::max(out.most, instance.requests.size());
    out.fewest = std::min(out.fewest, instance.requests.size());
  }
  EXPECT_TRUE(cluster.run_until_ended(all));
  return out;
}

} // namespace

// A report that was made before a request came says nothing of it; the next request must not take it for good news.
TEST(Placement, QuickRequestsAreSharedOutEvenly) {
  for (const char* policy : {"freeness", "least_requests", "infaas"}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const auto pause = seed % 2 == 0 ? 300us : 3ms;
      const auto four = place(seed, 2, 4, pause, policy);
      EXPECT_EQ(four.most, 2U) << policy << ", seed " << seed;
      EXPECT_EQ(four.fewest, 2U) << policy << ", seed " << seed;
    }
  }
}

// What was said before is in the cache of the instance that said it.
TEST(Placement, AConversationStaysWhereItBegan) {
  for (const char* policy : {"freeness", "cache_aware"}) {
    sim_cluster_options o;
    o.instances = 4;
    o.policy = policy;
    o.blocks = 256;
    sim_cluster cluster(std::move(o));
    cluster.run_for(20ms);
    for (std::uint32_t turn = 0; turn < 4; ++turn) {
      const auto sink = cluster.submit(1, 100 + 80 * turn, 8); // each prompt is the beginning of the next
      ASSERT_TRUE(cluster.run_until_ended({sink}));
      cluster.run_for(50ms);
      // All full blocks of the prompt before it.
      EXPECT_EQ(sink->usage.cached_tokens, turn == 0 ? 0 : (100 + 80 * (turn - 1)) / 16 * 16) << policy << ' ' << turn;
    }
  }
}

} // namespace godwit::test
