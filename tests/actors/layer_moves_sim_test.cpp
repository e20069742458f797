// Pipelines whose layers move from slow devices to fast ones while requests decode.
#include "actors/support/catalogue.hpp"
#include "actors/support/mover.hpp"
#include "actors/support/wrapped_executor.hpp"

#include <godwit/gpu/pipeline.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

namespace {

using layer_counts = std::vector<std::uint32_t>;
using layers_told = std::map<std::uint32_t, std::vector<layer_counts>>;

/// Four layers on two stages, the second a third as fast, or on four; measured in short windows.
sim_cluster_options uneven(std::uint64_t seed, const std::vector<std::uint32_t>& stages, layers_told& told) {
  sim_cluster_options o{
      .seed = seed, .instances = static_cast<std::uint32_t>(stages.size()), .blocks = 64, .context = 256};
  o.fabric = transport::sim::settings{.bytes_per_second = 4e6, .latency = 100us};
  o.stages = stages;
  o.stage_speeds = {3, 1};
  o.adjust = [&told](actors::node_options& n) {
    n.backoff_min = 5ms;
    n.instance.pipeline_rows = 3;
    n.instance.pipeline_balance = {0.1, std::chrono::nanoseconds(20ms).count()};
    n.instance.on_layers = [&told](protocols::instance_id id, const layer_counts& layers, bool moved) {
      EXPECT_FALSE(moved && told[id.value()].empty()) << "first it is loaded";
      told[id.value()].push_back(layers);
    };
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

/// Somebody else's way to move layers.
using shared_division = std::shared_ptr<gpu::pipeline::layer_division>;
using way_to_move = std::function<void(const shared_division&, const layer_counts&, gpu::completion)>;

class other_division final : public gpu::pipeline::layer_division {
public:
  other_division(shared_division inner, way_to_move way) : inner_(std::move(inner)), way_(std::move(way)) {}
  [[nodiscard]] layer_counts layers() const override { return inner_->layers(); }
  [[nodiscard]] std::vector<double> beside() const override { return inner_->beside(); }
  void move(const layer_counts& layers, gpu::completion done) override { way_(inner_, layers, std::move(done)); }

private:
  shared_division inner_;
  way_to_move way_;
};

class otherwise_divided final : public wrapped_executor {
public:
  otherwise_divided(std::shared_ptr<gpu::executor> inner, way_to_move way)
      : wrapped_executor(std::move(inner)),
        division_(std::make_shared<other_division>(inner_->division(), std::move(way))) {}
  [[nodiscard]] shared_division division() const override { return division_; }

private:
  shared_division division_;
};

void move_in_another_way(sim_cluster_options& o, const way_to_move& way) {
  o.adjust = [adjust = o.adjust, way](actors::node_options& n) {
    adjust(n);
    n.instance.make_executor = [make = n.instance.make_executor,
                                way](protocols::instance_id id, std::function<void(actors::executor_outcome)> done) {
      make(id, [way, done = std::move(done)](actors::executor_outcome out) {
        out.made = std::make_shared<otherwise_divided>(std::move(out.made), way);
        done(std::move(out));
      });
    };
  };
}

} // namespace

TEST(LayerMoves, LeaveASlowStageWhileRequestsDecode) {
  std::map<bool, double> took;
  for (const bool move : {false, true}) {
    layers_told told;
    auto o = uneven(4, {2}, told);
    o.running_max = 32;
    o.adjust = [adjust = o.adjust, move](actors::node_options& n) {
      adjust(n);
      if (!move) n.instance.pipeline_balance.gain_min = 0;
    };
    sim_cluster cluster(o);
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto before = cluster.world.clock().now();
    const auto all = ask_all(cluster, 30);
    ASSERT_TRUE(run_to_answers(cluster, all));
    took[move] = std::chrono::duration<double, std::milli>(cluster.world.clock().now() - before).count();
    expect_calm_answers(all);
    if (move)
      EXPECT_THAT(told[0], ElementsAre(layer_counts{2, 2}, layer_counts{3, 1}));
    else
      EXPECT_THAT(told[0], ElementsAre(layer_counts{2, 2}));
    expect_nothing_left(cluster, 1, alive);
  }
  EXPECT_LT(took[true], 0.75 * took[false]) << "three instead of six on the slow one, but for the first window";
}

TEST(LayerMoves, RequestsMoveMeanwhileBetweenInstancesToo) {
  layers_told told;
  sim_cluster cluster(uneven(9, {2, 1}, told));
  moves movers(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  std::uint32_t committed = 0;
  for (std::uint32_t round = 0; round < 4; ++round) {
    const auto all = ask_all(cluster, 30);
    while (std::ranges::any_of(all, [](const asked& one) { return !one.sink->ended(); })) {
      cluster.run_for(10ms);
      for (std::uint32_t i = 0; i < 30; i += 7) {
        if (all[i].sink->ended() || all[i].sink->tokens.empty()) continue;
        committed += movers.move(i, (i + round) % 2).committed() ? 1 : 0;
      }
    }
    expect_calm_answers(all);
  }
  EXPECT_GT(committed, 5U);
  EXPECT_GE(told[0].size(), 2U);
  expect_nothing_left(cluster, 2, alive);
}

/// Notes the numbers of the steps that begin there.
class noting_stage final : public wrapped_executor {
public:
  noting_stage(std::shared_ptr<gpu::executor> inner, std::vector<std::uint64_t>& steps)
      : wrapped_executor(std::move(inner)), steps_(steps) {}
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    steps_.push_back(input.step);
    return inner_->begin(std::move(input));
  }

private:
  std::vector<std::uint64_t>& steps_;
};

// Each move takes as long as many steps: as many as may be under way come meanwhile and wait in their order.
TEST(LayerMoves, StepsThatComeWaitInTheirOrder) {
  layers_told told;
  std::vector<std::uint64_t> begun;
  std::size_t waited = 0; // steps that had begun when a move did
  auto o = uneven(8, {4}, told);
  o.layers = 12;
  o.stage_speeds = {4, 1, 2, 1};
  o.running_max = 64;
  o.wrap_stage = [&](std::uint32_t which, std::shared_ptr<gpu::executor> device) -> std::shared_ptr<gpu::executor> {
    if (which != 0) return device;
    return std::make_shared<noting_stage>(std::move(device), begun);
  };
  sim_cluster* world = nullptr;
  move_in_another_way(o, [&](const auto& inner, const layer_counts& layers, gpu::completion done) {
    world->world.timers().call_after(100ms, [&, before = begun.size(), inner, layers, done = std::move(done)] {
      EXPECT_EQ(begun.size(), before) << "no step begins while layers move";
      waited += before;
      inner->move(layers, done);
    });
  });
  o.adjust = [adjust = o.adjust](actors::node_options& n) {
    adjust(n);
    n.llumlet.recount = true;
  };
  sim_cluster cluster(o);
  world = &cluster;
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  const auto all = ask_all(cluster, 48);
  ASSERT_TRUE(run_to_answers(cluster, all));
  expect_calm_answers(all);
  EXPECT_GE(told[0].size(), 2U);
  EXPECT_GT(waited, 0U);
  EXPECT_TRUE(std::ranges::is_sorted(begun)) << "one step overtook another one";
  expect_nothing_left(cluster, 1, alive);
}

TEST(LayerMoves, WhatComesToNothingIsSaidAndNotTriedAgain) {
  for (const bool throws : {false, true}) {
    layers_told told;
    auto o = uneven(5, {2}, told);
    std::uint32_t moves = 0;
    move_in_another_way(o, [&moves, throws](const auto&, const layer_counts&, const gpu::completion& done) {
      ++moves;
      if (throws) throw std::runtime_error("the device has no room");
      done("the device has no room");
    });
    sim_cluster cluster(o);
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto all = ask_all(cluster, 30);
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
    EXPECT_EQ(moves, 1U);
    EXPECT_THAT(told[0], ElementsAre(layer_counts{2, 2}));
    EXPECT_EQ(cluster.status().instances[0].restarts, 0U);
    expect_nothing_left(cluster, 1, alive);
  }
}

TEST(LayerMoves, OneThatDoesNotEndEndsTheInstance) {
  layers_told told;
  auto o = uneven(6, {2}, told);
  std::uint32_t moves = 0;
  std::vector<gpu::completion> forgotten;
  move_in_another_way(o, [&](const auto& inner, const layer_counts& layers, gpu::completion done) {
    if (++moves > 1) return inner->move(layers, std::move(done));
    forgotten.push_back(std::move(done));
  });
  o.adjust = [adjust = o.adjust](actors::node_options& n) {
    adjust(n);
    n.instance.shard_timeout = 300ms;
  };
  sim_cluster cluster(o);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  const auto all = ask_all(cluster, 30);
  ASSERT_TRUE(run_to_answers(cluster, all));
  expect_calm_answers(all);
  EXPECT_EQ(cluster.status().instances[0].restarts, 1U);
  EXPECT_GT(cluster.status().redispatches_total, 0U);
  for (const auto& late : forgotten) late("too late");
  expect_nothing_left(cluster, 1, alive);
}

// A stage's actor dies before, while and after layers move and steps wait for that.
TEST(LayerMoves, WhateverDiesMeanwhileNoRequestIsLost) {
  std::uint64_t redispatches = 0, moves = 0;
  std::map<std::uint64_t, std::chrono::nanoseconds> first_move; // by seed, where nothing dies
  for (std::uint32_t moment = 0; moment < 80 && !HasFailure(); ++moment) {
    SCOPED_TRACE("moment " + std::to_string(moment));
    const bool calm = moment < 5;
    const std::uint64_t seed = 1 + moment % 5;
    layers_told told;
    auto o = uneven(seed, {2}, told);
    sim_cluster* world = nullptr;
    std::vector<runtime::handle<actors::shard_interface>> devices;
    move_in_another_way(o, [&](const auto& inner, const layer_counts& layers, gpu::completion done) {
      ++moves;
      if (calm) first_move.emplace(seed, world->world.clock().now());
      world->world.timers().call_after(5ms, [inner, layers, done = std::move(done)] { inner->move(layers, done); });
    });
    o.adjust = [adjust = o.adjust, &devices](actors::node_options& n) {
      adjust(n);
      n.instance.on_shards = [&devices](protocols::instance_id, const auto& list) { devices = list; };
    };
    sim_cluster cluster(o);
    world = &cluster;
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto all = ask_all(cluster, 24);
    if (!calm) {
      cluster.run_for(first_move.at(seed) - 3ms + 200us * (moment - 5) - cluster.world.clock().now());
      cluster.system->stop(devices.at(moment % 2),
                           moment % 3 == 0 ? runtime::stop_reason::killed : runtime::stop_reason::shutdown);
    }
    ASSERT_TRUE(run_to_answers(cluster, all));
    expect_calm_answers(all);
    redispatches += cluster.status().redispatches_total;
    expect_nothing_left(cluster, 1, alive);
    ASSERT_TRUE(first_move.contains(seed)) << "this test is about layers that move";
  }
  EXPECT_GT(redispatches, 50U);
  EXPECT_GT(moves, 50U);
}

} // namespace godwit::test
