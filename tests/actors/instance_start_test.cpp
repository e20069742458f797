// Instances that do not come up, and options that cannot be used: whoever embeds a cluster hears why.
#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/log/string_backend.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/runtime/version.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_state;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// One instance, whose starts fail for these reasons, one after the other; then they succeed.
class one_instance {
  std::vector<std::string> reasons_;

public:
  explicit one_instance(std::vector<std::string> reasons, actors::executor_factory other = {})
      : reasons_(std::move(reasons)) {
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 64;
    info.blocks = 16;
    actors::node_options o;
    o.backoff_min = o.backoff_max = 100ms;
    o.log = runtime::log::logger(lines, runtime::log::level_filter(runtime::log::level::warning));
    o.instance.make_executor = [this](protocols::instance_id,
                                      const std::function<void(actors::executor_outcome)>& done) {
      if (starts < reasons_.size()) return done({nullptr, reasons_[starts++]});
      done({gpu::sim::make_sim_executor(info, {}, world.timers()), {}});
    };
    if (other) o.instance.make_executor = std::move(other);
    cluster = std::make_unique<actors::cluster>(system, std::move(o));
  }
  protocols::instance_status status() {
    const auto answer = cluster->status();
    EXPECT_TRUE(answer && answer->instances.size() == 1);
    return answer && answer->instances.size() == 1 ? answer->instances[0] : protocols::instance_status{};
  }

  gpu::executor_info info;
  std::size_t starts = 0; ///< that failed
  std::shared_ptr<runtime::log::string_backend> lines = std::make_shared<runtime::log::string_backend>();
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  std::unique_ptr<actors::cluster> cluster;
};

} // namespace

TEST(InstanceStart, WhyItFailsIsLoggedOnceForEachReasonAndShownUntilItIsReady) {
  one_instance c({"out of memory", "out of memory", "no such device"});
  c.world.run_for(50ms);
  EXPECT_EQ(c.starts, 1U);
  EXPECT_EQ(c.status().last_error, "out of memory");
  EXPECT_NE(c.status().state, instance_state::ready);
  c.world.run_for(100ms);
  EXPECT_EQ(c.starts, 2U);
  EXPECT_EQ(count_of(c.lines->text(), "instance 0 cannot start: out of memory"), 1U);
  c.world.run_for(100ms);
  EXPECT_EQ(c.starts, 3U);
  EXPECT_EQ(c.status().last_error, "no such device");
  EXPECT_EQ(count_of(c.lines->text(), "cannot start"), 2U);
  c.world.run_for(100ms);
  EXPECT_EQ(c.status().state, instance_state::ready);
  EXPECT_EQ(c.status().last_error, "");
}

TEST(InstanceStart, AFactoryThatForgetsToAnswerIsNamed) {
  one_instance c({}, [](protocols::instance_id, const std::function<void(actors::executor_outcome)>&) {});
  c.world.run_for(50ms);
  EXPECT_EQ(c.status().last_error, "make_executor let go of `done` and has not called it");
}

TEST(InstanceStart, AnOutcomeThatIsEmptyIsNamed) {
  one_instance c({""});
  c.world.run_for(50ms);
  EXPECT_EQ(c.status().last_error, "make_executor gave neither an executor nor an error");
  c.world.run_for(100ms);
  EXPECT_EQ(c.status().state, instance_state::ready);
}

TEST(InstanceStart, PlannerSettingsThatDoNotFitTheDeviceAreNamed) {
  one_instance c({});
  c.info.positions_max = 1;
  c.world.run_for(50ms);
  EXPECT_EQ(c.status().last_error, "the context length leaves no room for a prompt and an answer");
}

namespace {

std::string why_not(const std::function<void(actors::node_options&)>& adjust) {
  actors::node_options o;
  o.instance.make_executor = [](protocols::instance_id, const std::function<void(actors::executor_outcome)>&) {};
  adjust(o);
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  try {
    const actors::cluster cluster(system, std::move(o));
    return {};
  } catch (const std::invalid_argument& failure) {
    EXPECT_EQ(system.alive(), 0U);
    return failure.what();
  }
}

} // namespace

TEST(ClusterOptions, WhatCannotBeUsedIsToldByTheConstructor) {
  EXPECT_EQ(why_not([](auto&) {}), "");
  EXPECT_EQ(
      why_not([](auto& o) { o.scheduler.policies.dispatch = "freenes"; }),
      "cluster: no dispatch policy is called 'freenes'; known are freeness, infaas, least_requests, power_of_two, "
      "round_robin, cache_aware, ttft");
  EXPECT_EQ(why_not([](auto& o) { o.llumlet.planner.step_tokens_max = 8; }),
            "cluster: the step's budget of 8 tokens is smaller than a batch of 64 decoding requests");
  EXPECT_EQ(why_not([](auto& o) { o.instance.make_executor = nullptr; }),
            "cluster: nothing makes the executors of its instances (instance.make_executor)");
  EXPECT_EQ(why_not([](auto& o) {
              o.instance.make_executor = nullptr;
              o.instances = 0; // members bring them
            }),
            "");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.dispatchers["mine"] = nullptr; }),
            "cluster: nothing makes the dispatch policy 'mine'");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.dispatchers["mine"] = [] { return nullptr; }; }),
            "cluster: what makes the dispatch policy 'mine' gave none");
  EXPECT_EQ(why_not([](auto& o) {
              o.scheduler.dispatchers["mine"] = []() -> std::unique_ptr<protocols::dispatcher> {
                throw std::runtime_error("no weights file");
              };
            }),
            "cluster: the dispatch policy 'mine' cannot be made: no weights file");
  EXPECT_EQ(
      why_not([](auto& o) { o.scheduler.dispatchers["infaas"] = [] { return protocols::make_dispatcher("infaas"); }; }),
      "cluster: a built-in dispatch policy is called 'infaas' already");
}

// They would have a loop spin, for ever on virtual time, or leave nobody who serves, without a word.
TEST(ClusterOptions, BoundsThatLeaveNothingAreRefused) {
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.migration_interval = 0ns; }),
            "cluster: scheduler.migration_interval must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.migration_interval = -1s; }),
            "cluster: scheduler.migration_interval must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.queries_max = 0; }), "cluster: scheduler.queries_max must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.frontend.retry_pause = 0ns; }), "cluster: frontend.retry_pause must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.frontend.retry_pause_max = 0ns; }),
            "cluster: frontend.retry_pause_max must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.frontend.attempts_max = 0; }), "cluster: frontend.attempts_max must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.frontend.placement_timeout = 0ns; }),
            "cluster: frontend.placement_timeout must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.load_timeout = 0ns; }), "cluster: load_timeout must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.backoff_min = -1ns; }), "cluster: backoff_min and backoff_max must not be below 0");
  EXPECT_EQ(why_not([](auto& o) { o.instance.pipeline_balance.gain_min = std::nan(""); }),
            "cluster: instance.pipeline_balance is a share from 0 to 1, measured for up to a year");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.stale_after = 0ns; }), "cluster: scheduler.stale_after must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.scaling.freeness_max = o.scheduler.scaling.freeness_min - 1; }),
            "cluster: scheduler.scaling.freeness_min must be at most freeness_max");
  EXPECT_EQ(why_not([](auto& o) {
              o.scheduler.policies.scaling = protocols::scaling_mode::dry_run;
              o.scheduler.scaling.instances_min = o.scheduler.scaling.instances_max + 1;
            }),
            "cluster: scheduler.scaling.instances_min must be at most instances_max");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.scaling.freeness_min = std::nan(""); }),
            "cluster: scheduler.scaling.freeness_min must be at most freeness_max");
  EXPECT_EQ(why_not([](auto& o) { o.scheduler.pairing.source_below = std::nan(""); }),
            "cluster: scheduler.pairing must be of numbers");
  EXPECT_EQ(why_not([](auto& o) { o.frontend.objectives.tpot_ns = -1; }),
            "cluster: frontend.objectives must not be below 0");
  for (const double wrong : {-0.1, 1.0, std::nan("")})
    EXPECT_EQ(why_not([wrong](auto& o) { o.frontend.objectives_margin = wrong; }),
              "cluster: frontend.objectives_margin must be at least 0 and below 1");
  EXPECT_EQ(why_not([](auto& o) { o.llumlet.report_interval = 0ns; }),
            "cluster: llumlet.report_interval must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.llumlet.step_timeout = 0ns; }), "cluster: llumlet.step_timeout must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.members_max = 0; }), "cluster: members_max must be above 0");
  EXPECT_EQ(why_not([](auto& o) { o.instances = 2000; }),
            "cluster: a process may have 1024 instances, and not 2000 (member_instances_max, instances_max)");
  EXPECT_EQ(why_not([](auto& o) {
              o.capacity = 9;
              o.instances_max = 8;
            }),
            "cluster: a process may have 8 instances, and not 9 (member_instances_max, instances_max)");
  EXPECT_EQ(why_not([](auto& o) {
              o.instances = 0;
              o.members_max = 0;
            }),
            "cluster: members_max must be above 0");
}

TEST(NodeOptions, OneLoggerServesAllParts) {
  const auto lines = std::make_shared<runtime::log::string_backend>();
  actors::node_options o;
  o.log_to(runtime::log::logger(lines, runtime::log::level_filter(runtime::log::level::info)));
  for (const auto* log :
       {&o.log, &o.scheduler.log, &o.frontend.log, &o.llumlet.log, &o.llumlet.migration.log, &o.instance.log})
    log->info("here");
  for (const auto* part : {"node", "scheduler", "frontend", "llumlet", "migration", "instance"})
    EXPECT_NE(lines->text().find(std::string(" ") + part + ": here\n"), std::string::npos) << lines->text();
}

// Each of the three counts levels by itself: where they differ, a request of one is another one to the next.
TEST(ClusterOptions, ExecutionLevelsAreTheSameEverywhere) {
  const auto all = [](actors::node_options& o) {
    o.scheduler.levels = o.llumlet.planner.execution_levels = {{"normal", 0}, {"high", std::nullopt}};
    o.frontend.execution_levels = {"normal", "high"};
  };
  EXPECT_EQ(why_not(all), "");
  EXPECT_EQ(why_not([&](auto& o) {
              all(o);
              o.frontend.execution_levels.clear();
            }),
            "cluster: the execution levels of scheduler.levels (normal=0, high=auto) are not those of "
            "frontend.execution_levels (normal)");
  EXPECT_EQ(why_not([&](auto& o) {
              all(o);
              o.llumlet.planner.execution_levels[1].headroom = 8;
            }),
            "cluster: the execution levels of scheduler.levels (normal=0, high=auto) are not those of "
            "llumlet.planner.execution_levels (normal=0, high=8)");
  EXPECT_EQ(why_not([&](auto& o) {
              all(o);
              o.llumlet.planner.execution_levels.clear(); // of members' instances they have their own
              o.instances = 0;
            }),
            "");
}

TEST(ClusterPolicies, OneThatCannotBeMadeIsRefusedAndTheOldOneStays) {
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  actors::node_options o;
  o.instances = 0;
  bool makes = true;
  o.scheduler.dispatchers["mine"] = [&] { return makes ? protocols::make_dispatcher("infaas") : nullptr; };
  actors::cluster cluster(system, std::move(o));
  world.run_for(10ms);
  makes = false;
  actors::policy_order order;
  order.dispatch = "mine";
  const auto answer = system.ask(cluster.node(), 1s, order);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "what makes the dispatch policy 'mine' gave none");
  EXPECT_EQ(answer->now.dispatch, "freeness");
  const auto status = cluster.status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->scheduling.dispatch_policy, "freeness");
  makes = true;
  const auto next = system.ask(cluster.node(), 1s, order);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->error, "");
  EXPECT_EQ(next->now.dispatch, "mine");
}

// A `godwit node` joins an embedder's head, and embedders of different versions do not join each other.
TEST(ClusterOptions, HeadsAndMembersHaveGodwitsVersionUnlessTheyAreGivenAnother) {
  EXPECT_EQ(actors::node_options{}.version, runtime::version());
  EXPECT_EQ(actors::member_options{}.version, runtime::version());
}

namespace {

actors::node_options simulated(runtime::timer_source& timers, std::atomic<int>& calls) {
  actors::node_options o;
  o.instances = 2;
  o.instance.make_executor = [&](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
    gpu::executor_info info;
    info.layers = 2;
    info.vocabulary = 100;
    info.positions_max = 64;
    info.blocks = 16;
    done({gpu::sim::make_sim_executor(info, {}, timers), {}});
  };
  o.scheduler.on_report = [&](const protocols::load_report&) { ++calls; };
  o.llumlet.on_report = [&](const protocols::load_report&) { ++calls; };
  o.llumlet.report_interval = 1ms;
  return o;
}

} // namespace

// What the options refer to may go then.
TEST(ClusterShutdown, NothingOfTheOptionsIsCalledAnyMore) {
  runtime::sim::world idle{1}; // its timers are asked for nothing, since no step runs
  runtime::actor_system system;
  std::atomic<int> calls{0};
  {
    actors::cluster cluster(system, simulated(idle.timers(), calls));
    ASSERT_TRUE(cluster.gate()->wait_ready(2, 30s));
    EXPECT_TRUE(cluster.shutdown(30s));
    const auto then = calls.load();
    EXPECT_GT(then, 0);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(calls, then);
    EXPECT_TRUE(cluster.shutdown(0s)) << "once more";
  }
  EXPECT_TRUE(system.wait_until_empty(30s));
}

TEST(ClusterShutdown, InASimulatedWorldNothingWaits) {
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  std::atomic<int> calls{0};
  actors::cluster cluster(system, simulated(world.timers(), calls));
  world.run_for(50ms);
  EXPECT_GT(calls, 0);
  EXPECT_FALSE(cluster.shutdown(10min));
  world.run_for(1ms);
  EXPECT_TRUE(cluster.shutdown(0ms));
  EXPECT_EQ(system.alive(), 0U);
}

} // namespace godwit::test
