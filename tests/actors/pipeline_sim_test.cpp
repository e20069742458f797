// Instances whose layers lie on several simulated devices, each with its actor: what the rest of the system sees.
#include "actors/support/catalogue.hpp"
#include "actors/support/mover.hpp"
#include "actors/support/wrapped_executor.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t moving_one = 41; // 110 tokens of prompt, 88 of answer

using stage_actors = std::map<std::uint32_t, std::vector<runtime::handle<actors::shard_interface>>>;

/// Steps of more than a few tokens are cut into parts.
sim_cluster_options staged(std::uint64_t seed, const std::vector<std::uint32_t>& stages, stage_actors& devices) {
  sim_cluster_options o{
      .seed = seed, .instances = static_cast<std::uint32_t>(stages.size()), .blocks = 64, .context = 256};
  o.fabric = transport::sim::settings{.bytes_per_second = 4e6, .latency = 100us};
  o.stages = stages;
  o.adjust = [&devices](actors::node_options& n) {
    n.backoff_min = 5ms;
    n.instance.pipeline_rows = 3;
    n.instance.on_shards = [&devices](protocols::instance_id id, const auto& list) { devices[id.value()] = list; };
  };
  return o;
}

std::vector<asked> ask_all(sim_cluster& cluster, std::uint32_t count) {
  std::vector<asked> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({i, submit_catalogue(cluster, i)});
  return all;
}
bool run_to_answers(sim_cluster& cluster, const std::vector<asked>& all) {
  return cluster.run_until(
      [&] { return std::ranges::all_of(all, [](const asked& one) { return one.sink->ended(); }); });
}

/// Its next step ends with an error, once.
class breaking_stage final : public wrapped_executor {
public:
  breaking_stage(std::shared_ptr<gpu::executor> inner, std::shared_ptr<bool> breaks)
      : wrapped_executor(std::move(inner)), breaks_(std::move(breaks)) {}
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    if (std::exchange(*breaks_, false)) throw std::runtime_error("the device fell off the bus");
    return inner_->begin(std::move(input));
  }

private:
  std::shared_ptr<bool> breaks_;
};

} // namespace

TEST(PipelineInstance, GivesTheAnswersOfOneDeviceHoweverManyStagesAndParts) {
  for (const std::uint32_t rows : {0U, 1U, 3U, 1000U}) {
    stage_actors devices;
    auto o = staged(7 + rows, {1, 2, 4}, devices);
    o.adjust = [adjust = o.adjust, rows](actors::node_options& n) {
      adjust(n);
      n.instance.pipeline_rows = rows;
      n.instance.layers_per_advance = rows == 3 ? 1 : 0;
    };
    sim_cluster cluster(o);
    EXPECT_FALSE(devices.contains(0)) << "one device needs no actor of its own";
    EXPECT_EQ(devices[1].size(), 2U);
    EXPECT_EQ(devices[2].size(), 4U);
    EXPECT_EQ(cluster.status().instances.at(2).device, "4 stages of sim");
    const auto alive = cluster.system->alive();
    const auto all = ask_all(cluster, 30);
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
    expect_nothing_left(cluster, 3, alive);
  }
}

TEST(PipelineInstance, RequestsMoveBetweenInstancesOfAnyNumberOfStages) {
  stage_actors devices;
  sim_cluster cluster(staged(3, {1, 2, 4}, devices));
  moves movers(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
  for (std::uint32_t round = 0; round < 6; ++round) {
    const std::vector<asked> all{{moving_one, submit_catalogue(cluster, moving_one)}};
    std::size_t at = 5;
    for (std::uint32_t i = 0; i < 8 && cluster.run_until([&] { return all[0].sink->tokens.size() >= at; }); ++i) {
      const auto from = cluster.instance_with(protocols::request_state::running);
      ASSERT_TRUE(from);
      const auto to = (*from + 1 + (round + i / 3) % 2) % 3;
      const auto report = movers.move(moving_one, to);
      EXPECT_TRUE(report.committed()) << to_string(report.reason);
      ways.emplace(*from, to);
      at = all[0].sink->tokens.size() + 3;
    }
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
  }
  EXPECT_EQ(ways.size(), 6U) << "from each to each";
  expect_nothing_left(cluster, 3, alive);
  EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
}

// A prompt that four stages compute at once is there sooner than one that they compute one after the other, by as much
// as parts and stages say; what decodes alone takes as long as on one device.
TEST(PipelineInstance, StagesComputeTheirPartsOfAPromptAtOnce) {
  const auto time_of = [](std::uint32_t stages, std::uint32_t rows, std::uint32_t prompt, std::uint32_t answer) {
    stage_actors devices;
    auto o = staged(1, {stages}, devices);
    o.context = 4096;
    o.blocks = 256;
    o.step_tokens_max = 4096;
    o.latency.base_us = o.latency.per_decode_us = o.latency.per_kv_token_us = 0;
    o.latency.linear.points = {{1, 1000}, {1024, 1000 + 1024 * 30}};
    o.latency.logits = {};
    o.adjust = [adjust = o.adjust, rows](actors::node_options& n) {
      adjust(n);
      n.instance.pipeline_rows = rows;
    };
    sim_cluster cluster(o);
    cluster.run_for(1ms);
    const auto before = cluster.world.clock().now();
    const auto sink = cluster.submit(1, prompt, answer);
    EXPECT_TRUE(cluster.run_until_ended({sink}));
    EXPECT_EQ(sink->tokens.size(), answer);
    return std::chrono::duration<double, std::milli>(cluster.world.clock().now() - before).count();
  };
  const auto alone = time_of(1, 33, 1024, 1);
  EXPECT_NEAR(time_of(4, 0, 1024, 1), alone, alone * 0.02) << "never cut";
  // Ten parts of 102 tokens, (10 + 3) times (1 + 3.07 ms) / 4 instead of 31.7 ms.
  EXPECT_NEAR(time_of(4, 33, 1024, 1) / alone, 13 * (1 + 3.07) / 4 / 31.7, 0.05);
  const auto decodes = time_of(1, 33, 1, 50);
  EXPECT_NEAR(time_of(4, 33, 1, 50), decodes, decodes * 0.02);
}

// Steps of different requests follow each other through the stages: a token of 64 requests takes 2 (w + 64 c) one step
// after the other, and 2 (w + 32 c) where each of two stages has a half of them; one request alone takes what it took.
TEST(PipelineInstance, StagesComputeStepsOfDifferentRequestsAtOnce) {
  static constexpr std::uint32_t answer = 100;
  const auto time_of = [](std::uint32_t requests, std::uint32_t steps) {
    stage_actors devices;
    auto o = staged(1, {2}, devices);
    o.context = 512;
    o.blocks = 2048;
    o.step_tokens_max = 512;
    o.running_max = 64;
    o.latency.base_us = o.latency.per_decode_us = o.latency.per_kv_token_us = 0;
    o.latency.linear.points = {{1, 1000}, {64, 1000 + 64 * 30}};
    o.latency.logits = {};
    o.adjust = [adjust = o.adjust, steps](actors::node_options& n) {
      adjust(n);
      n.instance.pipeline_rows = 0;
      n.instance.pipeline_steps = steps;
      n.llumlet.recount = true;
    };
    sim_cluster cluster(o);
    cluster.run_for(1ms);
    const auto before = cluster.world.clock().now();
    std::vector<std::shared_ptr<recording_sink>> sinks;
    for (std::uint32_t i = 0; i < requests; ++i) sinks.push_back(cluster.submit(1 + i, 1, answer));
    EXPECT_TRUE(cluster.run_until_ended(sinks));
    for (const auto& one : sinks) EXPECT_EQ(one->tokens.size(), answer);
    const auto load = cluster.status().instances.at(0).load;
    constexpr double tokens = answer;
    EXPECT_NEAR(static_cast<double>(load.steps_total), requests > 1 && steps != 1 ? 2 * tokens : tokens, 8);
    return std::chrono::duration<double, std::milli>(cluster.world.clock().now() - before).count();
  };
  EXPECT_NEAR(time_of(64, 0) / time_of(64, 1), (1 + 32 * 0.03) / (1 + 64 * 0.03), 0.03);
  EXPECT_NEAR(time_of(64, 9), time_of(64, 2), 1) << "as many as there are stages";
  EXPECT_NEAR(time_of(1, 0), time_of(1, 1), 1);
}

TEST(PipelineInstance, AStageWhoseActorDiesEndsTheInstanceAtEveryMoment) {
  std::uint64_t redispatches = 0;
  for (std::uint32_t step = 0; step < 400 && !HasFailure(); step += 1 + step / 40) {
    SCOPED_TRACE("step " + std::to_string(step));
    stage_actors devices;
    sim_cluster cluster(staged(1 + step % 5, {2, 4}, devices));
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto all = ask_all(cluster, 6);
    for (std::uint32_t i = 0; i < step; ++i) cluster.world.step();
    const auto instance = step % 2;
    const auto victim = devices.at(instance).at(step / 2 % devices.at(instance).size());
    cluster.system->stop(victim, step % 3 == 0 ? runtime::stop_reason::killed : runtime::stop_reason::shutdown);
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
    ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
    EXPECT_NE(devices.at(instance).front(), victim);
    const auto status = cluster.status();
    EXPECT_EQ(status.instances[instance].restarts, 1U);
    EXPECT_EQ(status.instances[1 - instance].restarts, 0U);
    redispatches += status.redispatches_total;
    expect_nothing_left(cluster, 2, alive);
  }
  EXPECT_GT(redispatches, 50U);
}

TEST(PipelineInstance, AnErrorOfOneStageEndsTheInstanceWhicheverItIs) {
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    const auto breaks = std::make_shared<bool>(false);
    stage_actors devices;
    auto o = staged(stage + 1, {4, 1}, devices);
    o.wrap_stage = [breaks, stage](std::uint32_t which,
                                   std::shared_ptr<gpu::executor> device) -> std::shared_ptr<gpu::executor> {
      if (which != stage) return device;
      return std::make_shared<breaking_stage>(std::move(device), breaks);
    };
    sim_cluster cluster(o);
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto all = ask_all(cluster, 8);
    ASSERT_TRUE(cluster.run_until([&] {
      std::size_t tokens = 0;
      for (const auto& one : all) tokens += one.sink->tokens.size();
      return tokens > 20;
    }));
    *breaks = true;
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
    ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
    EXPECT_FALSE(*breaks) << "it has happened";
    EXPECT_EQ(cluster.status().instances[0].restarts, 1U);
    EXPECT_GT(cluster.status().redispatches_total, 0U);
    expect_nothing_left(cluster, 2, alive);
  }
}

} // namespace godwit::test
