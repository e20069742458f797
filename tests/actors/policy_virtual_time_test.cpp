// Scheduling as its users meet it, with the production actors on virtual time: what a long prompt, a request of high
// priority and an operator get of migration.
#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::migration_policy;
using std::chrono::nanoseconds;

namespace {

struct scene {
  std::uint64_t seed = 1;
  std::uint32_t instances = 4;
  migration_policy policy = migration_policy::freeness;
  std::function<void(actors::node_options&)> adjust = {};
};

/// Devices so slow that a request lives for many rounds of the scheduler; 64 blocks each.
sim_cluster_options options_of(const scene& s) {
  sim_cluster_options o;
  o.seed = s.seed;
  o.instances = s.instances;
  o.context = 2048;
  o.policy = "freeness";
  o.fabric = transport::sim::settings{};
  o.latency.base_us = 20'000;
  o.latency.per_decode_us = 1'500;
  o.adjust = [s](actors::node_options& n) {
    n.scheduler.policies.migration = s.policy;
    if (s.adjust) s.adjust(n);
  };
  return o;
}

/// When each of a request's tokens came.
struct stamped {
  std::shared_ptr<recording_sink> sink;
  std::shared_ptr<std::vector<nanoseconds>> times = std::make_shared<std::vector<nanoseconds>>();
  [[nodiscard]] bool started() const { return !sink->tokens.empty(); }
  /// Mean time per token behind the first.
  [[nodiscard]] double pace_ms() const {
    const auto span = std::chrono::duration<double, std::milli>(times->back() - times->front());
    return span.count() / static_cast<double>(times->size() - 1);
  }
};

stamped submit(sim_cluster& cluster, std::uint32_t number, std::uint32_t prompt, std::uint32_t answer,
               std::uint8_t level = 0) {
  stamped out;
  out.sink = std::make_shared<recording_sink>();
  out.sink->on_each = [&cluster, times = out.times] { times->push_back(cluster.world.now()); };
  auto one = std::make_shared<actors::submission>();
  for (std::uint32_t i = 0; i < prompt; ++i)
    one->request.prompt.push_back(static_cast<protocols::token_id>((number * 7919 + i * 31) % 1000));
  one->request.stop.max_tokens = answer;
  one->request.execution_level = level;
  one->seeded = true;
  one->request.sampling.seed = number;
  one->sink = out.sink;
  one->client_id = "r" + std::to_string(number);
  cluster.submit(std::move(one));
  return out;
}

/// Two requests of 12 to 14 blocks on each of four instances, which run for some ten seconds; then one that needs 48 of
/// an instance's 64 blocks. Returns how long that one waits for its first token, and what all answered.
struct virtual_long_prompt_run {
  nanoseconds wait{0};
  std::vector<std::vector<protocols::token_id>> answers;
  std::uint64_t moves = 0;
  std::string log;
};
virtual_long_prompt_run run_long_prompt(std::uint64_t seed, migration_policy policy, bool log = false) {
  virtual_long_prompt_run out;
  {
    sim_cluster cluster(options_of({.seed = seed, .policy = policy}));
    if (log)
      cluster.events = runtime::sim::event_log([&out](const auto& event) { out.log += to_string(event) + "\n"; });
    std::vector<stamped> all;
    for (std::uint32_t i = 0; i < 8; ++i) { // one by one: of a burst, an instance may get three
      all.push_back(submit(cluster, i, 180, 400));
      EXPECT_TRUE(cluster.run_until([&] { return all.back().started(); }));
    }
    EXPECT_EQ(cluster.status().moves_total, 0U) << "the small ones fit where they are";
    for (const auto& i : cluster.status().instances) EXPECT_EQ(i.load.running, 2U);
    const auto begun = cluster.world.now();
    all.push_back(submit(cluster, 8, 750, 20));
    EXPECT_TRUE(cluster.run_until([&] { return all.back().started(); }));
    out.wait = cluster.world.now() - begun;
    EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r.sink->ended(); }); }));
    for (const auto& r : all) {
      EXPECT_EQ(r.sink->endings, 1);
      EXPECT_FALSE(r.sink->failed);
      out.answers.push_back(r.sink->tokens);
    }
    cluster.run_for(1s);
    out.moves = cluster.status().moves_total;
    EXPECT_EQ(cluster.blocks_used(), 0U);
  }
  return out;
}

} // namespace

TEST(PolicyVirtualTime, ALongPromptThatFitsNowhereIsAdmittedAfterDefragmentationInBoundedTime) {
  const auto without = run_long_prompt(1, migration_policy::none);
  EXPECT_EQ(without.moves, 0U);
  EXPECT_GT(without.wait, 5s) << "it waits until somebody has finished";
  for (const auto policy : {migration_policy::defrag, migration_policy::freeness})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const auto with = run_long_prompt(seed, policy);
      // A round, a migration of some steps, and the prompt's own twelve chunks.
      EXPECT_LT(with.wait, 1500ms) << to_string(policy) << ", seed " << seed;
      EXPECT_GT(with.moves, 0U);
      EXPECT_EQ(with.answers, without.answers) << to_string(policy) << ", seed " << seed;
    }
}

TEST(PolicyVirtualTime, SchedulingIsTheSameBySeedByteForByte) {
  const auto first = run_long_prompt(3, migration_policy::freeness, true);
  EXPECT_GT(first.log.size(), 100'000U);
  EXPECT_EQ(first.log, run_long_prompt(3, migration_policy::freeness, true).log);
}

// What is promised to a request of high execution priority: it decodes as if it were alone, whatever the others do.
TEST(PolicyVirtualTime, AHighPriorityRequestDecodesAtMostFivePercentSlowerThanAloneWhileNormalLoadRuns) {
  const auto pace = [](std::uint64_t seed, bool load, std::uint8_t level) {
    scene s{.seed = seed};
    s.adjust = [](actors::node_options& n) {
      n.llumlet.planner.execution_levels = {{"normal", 0U}, {"high", std::nullopt}};
      n.scheduler.levels = n.llumlet.planner.execution_levels;
      n.frontend.execution_levels = {"normal", "high"};
      n.llumlet.profile.enabled = true;
    };
    sim_cluster cluster(options_of(s));
    std::vector<stamped> others;
    std::uint32_t number = 100;
    const auto more = [&] {
      if (load)
        for (std::uint32_t i = 0; i < 2; ++i, ++number)
          others.push_back(submit(cluster, number, 40 + number % 60, 100));
    };
    for (int i = 0; i < 4; ++i) more();
    cluster.run_for(500ms);
    const auto high = submit(cluster, 1, 100, 300, level);
    while (!high.sink->ended()) {
      more(); // about nine run at a time
      cluster.run_for(800ms);
    }
    EXPECT_FALSE(high.sink->failed);
    const auto ms = high.pace_ms();
    EXPECT_TRUE(
        cluster.run_until([&] { return std::ranges::all_of(others, [](auto& r) { return r.sink->ended(); }); }));
    for (const auto& r : others) EXPECT_FALSE(r.sink->failed);
    return ms;
  };
  const auto alone = pace(1, false, 1);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_LE(pace(seed, true, 1), alone * 1.05) << "seed " << seed;
    EXPECT_GT(pace(seed, true, 0), alone * 1.05) << "the load is one that a normal request feels; seed " << seed;
  }
}

// Room that is kept for hurried requests is room that the others lack: so they share it.
TEST(PolicyVirtualTime, HighPriorityRequestsShareTheInstanceThatKeepsRoomForThemAndNormalOnesLeaveIt) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    scene s{.seed = seed};
    s.adjust = [](actors::node_options& n) {
      n.llumlet.planner.execution_levels = {{"normal", 0U}, {"high", 40U}};
      n.scheduler.levels = n.llumlet.planner.execution_levels;
      n.frontend.execution_levels = {"normal", "high"};
    };
    sim_cluster cluster(options_of(s));
    std::vector<stamped> all;
    const auto more = [&](std::uint32_t count, std::uint32_t prompt, std::uint8_t level) {
      for (std::uint32_t i = 0; i < count; ++i) {
        all.push_back(submit(cluster, static_cast<std::uint32_t>(all.size()), prompt, 300, level));
        EXPECT_TRUE(cluster.run_until([&] { return all.back().started(); }));
      }
    };
    more(8, 100, 0);
    more(3, 40, 1);
    cluster.run_for(2s);
    std::vector<std::uint32_t> running_where_it_is_kept;
    for (const auto& i : cluster.status().instances)
      if (i.load.headroom_blocks > 0) running_where_it_is_kept.push_back(i.load.running);
    EXPECT_THAT(running_where_it_is_kept, ::testing::ElementsAre(3U)) << "seed " << seed;
    EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r.sink->ended(); }); }));
    for (const auto& r : all) EXPECT_FALSE(r.sink->failed);
  }
}

} // namespace godwit::test
