// Faults hit the production actors in a simulated run, and every request ends all the same.
#include <godwit/actors/sim/simulation.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::test {

using namespace std::chrono_literals;
using actors::sim::fault_kind;
using actors::sim::parse_faults;
using actors::sim::request_record;
using actors::sim::simulation_options;
using actors::sim::simulation_result;

namespace {

namespace workload = protocols::workload;

/// Three instances that serve for a minute; a model takes 5 s to load.
simulation_options served(const std::string& faults, std::uint64_t seed = 1) {
  simulation_options o;
  auto device = gpu::sim::open_profile("toy");
  EXPECT_TRUE(device);
  o.cluster.device = std::move(*device);
  o.cluster.device.positions_max = 4096;
  o.cluster.device.kv_blocks = 400;
  o.cluster.device.overhead_us = 20'000;
  o.cluster.device.start_ms = 5000;
  o.cluster.seed = seed;
  o.cluster.instances = 3;
  auto& node = o.cluster.node;
  node.scheduler.policies.dispatch = "freeness";
  node.scheduler.policies.migration = protocols::migration_policy::freeness;
  node.llumlet.planner.running_max = 64;
  node.llumlet.planner.step_tokens_max = 256;
  node.llumlet.planner.waiting_max = 1000;
  node.frontend.placement_timeout = 10min;
  workload::workload_spec spec;
  spec.requests = 180;
  spec.arrivals.rate = 3;
  spec.lengths = *workload::parse_lengths("uniform:16-300:40-300");
  spec.seed = seed;
  o.requests = workload::make_workload(spec);
  if (faults.empty()) return o;
  auto plan = parse_faults(faults, o.cluster.instances);
  EXPECT_TRUE(plan) << plan.error();
  o.faults = std::move(*plan);
  return o;
}

std::uint64_t losses(const simulation_result& result) {
  std::uint64_t sum = 0;
  for (const auto& r : result.requests) sum += r.losses;
  return sum;
}

std::uint32_t least_ready(const simulation_result& result) {
  return std::ranges::min(result.samples, {}, &actors::sim::cluster_sample::ready).ready;
}

/// Every request has its whole answer, and nobody complained.
void expect_all_answered(const simulation_options& options, const simulation_result& result) {
  EXPECT_EQ(result.trouble, "");
  EXPECT_TRUE(result.complaints.empty()) << result.complaints.front();
  ASSERT_EQ(result.requests.size(), options.requests.size());
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const auto& r = result.requests[i];
    EXPECT_TRUE(r.answered()) << i;
    EXPECT_EQ(r.answer_tokens, options.requests[i].answer_tokens) << i;
    EXPECT_GE(r.interrupted_ns, 0);
    EXPECT_TRUE(r.losses > 0 || r.interrupted_ns == 0) << i;
  }
}

simulation_result all_answered(const simulation_options& options) {
  auto result = simulate(options);
  expect_all_answered(options, result);
  return result;
}

} // namespace

TEST(SimulatedFaults, OfWhichNoneStrikesChangeLittle) {
  const auto shared = simulate(served(""));
  const auto separate = all_answered(served("crash:instance-0@10h"));
  EXPECT_EQ(separate.faults.early_end, 1U);
  EXPECT_TRUE(separate.faults.records.empty());
  EXPECT_EQ(losses(separate), 0U);
  EXPECT_EQ(separate.instances.ready_time, separate.instances.wanted_time);
  EXPECT_EQ(separate.instances.none_time, 0ns);
  const auto mean = [](const simulation_result& result) {
    double sum = 0;
    for (const auto& r : result.requests) sum += static_cast<double>(r.ended_ns - r.arrival_ns);
    return sum / static_cast<double>(result.requests.size());
  };
  EXPECT_NEAR(mean(separate) / mean(shared), 1, 0.05) << "messages take 50 to 250 us";
}

// An instance that is cut off goes on, and preempts requests again and again whose tokens come to nobody.
TEST(SimulatedFaults, NoRequestLosesMoreTimeByPreemptionsThanItHas) {
  std::size_t several = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    auto options = served("cut:head/instance-0@2s+5s", seed);
    options.cluster.instances = 1;
    options.cluster.device.kv_blocks = 60;
    options.cluster.node.llumlet.planner.queue.order = protocols::queue_order::sjf;
    for (const auto& r : simulate(options).requests) {
      several += r.preemptions > 2 ? 1 : 0;
      if (r.ended_ns < 0) continue;
      EXPECT_LE(r.preemption_loss_ns, r.ended_ns - r.arrival_ns);
    }
  }
  EXPECT_GT(several, 10U);
}

// A token that is on its way when its request is preempted does not end what the preemption costs.
TEST(SimulatedFaults, OfWhichNoneStrikesLeavePreemptionsAsDear) {
  const auto loss = [](const std::string& faults) {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      auto options = served(faults, seed);
      options.cluster.device.kv_blocks = 60;
      options.cluster.node.scheduler.policies.dispatch = "round_robin"; // and nothing else that tips over
      options.cluster.node.scheduler.policies.migration = protocols::migration_policy::none;
      for (const auto& r : simulate(options).requests) {
        EXPECT_EQ(r.preemptions > 0, r.preemption_loss_ns > 0);
        sum += static_cast<double>(r.preemption_loss_ns) * 1e-9;
      }
    }
    return sum;
  };
  const auto shared = loss("");
  EXPECT_GT(shared, 10);
  EXPECT_NEAR(loss("crash:instance-0@10h") / shared, 1, 0.2);
}

// The report of a migration comes later than the next token where its way is long.
TEST(SimulatedFaults, AMigrationsGapIsBetweenTheTokensOfTheTwoInstances) {
  auto options = served("crash:instance-0@10h");
  options.cluster.device.kv_blocks = 100;
  options.cluster.processes.links.latency_min = options.cluster.processes.links.latency_max = 50ms;
  const auto result = all_answered(options);
  ASSERT_FALSE(result.gaps_ns.empty());
  EXPECT_LE(result.gaps_ns.size(), result.stalls_ns.size());
  EXPECT_GT(*std::ranges::min_element(result.gaps_ns), 100'000'000) << "to the destination and back; a step is 20 ms";
}

TEST(SimulatedFaults, AModelThatTakesLongToLoadIsWaitedFor) {
  auto options = served("crash:instance-1@20s+10s");
  options.cluster.device.start_ms = 2'000'000;
  options.requests.push_back(options.requests.back()); // which keeps the run going
  options.requests.back().arrival_ns = 2'700'000'000'000;
  const auto result = all_answered(options);
  EXPECT_EQ(result.samples.back().ready, 3U);
}

TEST(SimulatedFaults, ACrashedInstancesRequestsAreAnsweredByOthersAndItComesBack) {
  const auto result = all_answered(served("crash:instance-1@20s+10s"));
  EXPECT_EQ(result.faults.struck.at("crash"), 1U);
  EXPECT_GT(losses(result), 0U);
  EXPECT_EQ(least_ready(result), 2U);
  EXPECT_EQ(result.samples.back().ready, 3U);
  // Down for 10 s, and 5 s to load.
  const auto down = result.instances.wanted_time - result.instances.ready_time;
  EXPECT_GT(down, 15s);
  EXPECT_LT(down, 17s);
}

TEST(SimulatedFaults, AnInstanceThatCrashesForGoodStaysAway) {
  const auto result = all_answered(served("crash:instance-1@20s,crash:instance-1@30s,freeze:instance-1@30s+1s"));
  EXPECT_EQ(result.samples.back().ready, 2U);
  ASSERT_EQ(result.faults.records.size(), 3U);
  EXPECT_EQ(result.faults.records[1].why_not, "instance-1 was down");
  EXPECT_EQ(result.faults.records[2].why_not, "instance-1 was down");
  EXPECT_EQ(result.faults.missed, 2U);
}

TEST(SimulatedFaults, AMachineThatVanishesIsMissedAfterTheTimeOfDetection) {
  auto options = served("vanish:instance-1@20s+10s");
  options.cluster.processes.detection = {500ms, 600ms};
  const auto soon = all_answered(options);
  options.cluster.processes.detection = {3s, 3s};
  const auto late = all_answered(options);
  const auto longest = [](const simulation_result& result) {
    return std::ranges::max(result.requests, {}, &request_record::interrupted_ns).interrupted_ns;
  };
  EXPECT_GT(losses(soon), 0U);
  EXPECT_LT(longest(soon), 2'000'000'000);
  EXPECT_GT(longest(late), 3'000'000'000);
}

TEST(SimulatedFaults, AnInstanceThatIsCutOffIsTakenForDeadAndJoinsAnewWhenTheLinkIsWhole) {
  const auto result = all_answered(served("cut:head/instance-1@20s+5s"));
  EXPECT_GT(losses(result), 0U);
  EXPECT_EQ(least_ready(result), 2U);
  EXPECT_EQ(result.samples.back().ready, 3U);
  EXPECT_LT(result.instances.wanted_time - result.instances.ready_time, 12s) << "its process has the weights";
}

TEST(SimulatedFaults, ACutShorterThanTheTimeOfDetectionLosesNothing) {
  const auto result = all_answered(served("cut:head/instance-1@20s+300ms"));
  EXPECT_EQ(losses(result), 0U);
  EXPECT_EQ(result.instances.ready_time, result.instances.wanted_time);
}

TEST(SimulatedFaults, OverlappingCutsOfOneLinkEndWithTheLastOfThem) {
  const auto once = all_answered(served("cut:head/instance-1@20s+10s"));
  const auto twice = all_answered(served("cut:head/instance-1@20s+4s,cut:instance-1/head@22s+8s"));
  EXPECT_EQ(once.instances.ready_time, twice.instances.ready_time);
}

TEST(SimulatedFaults, BetweenTwoInstancesACutStopsMigrationsOnly) {
  const auto options = served("cut:instance-0/instance-1@0s,cut:instance-0/instance-2@0s,cut:instance-1/instance-2@0s");
  const auto result = all_answered(options);
  EXPECT_EQ(losses(result), 0U);
  EXPECT_TRUE(result.stalls_ns.empty()) << "no blocks arrive";
  EXPECT_EQ(result.instances.ready_time, result.instances.wanted_time);
}

TEST(SimulatedFaults, AFrozenInstanceGoesOnWhereNobodyNoticedAndIsReplacedWhereSomebodyDid) {
  const auto brief = all_answered(served("freeze:instance-1@20s+300ms"));
  EXPECT_EQ(losses(brief), 0U);
  const auto longer = all_answered(served("freeze:instance-1@20s+5s"));
  EXPECT_GT(losses(longer), 0U);
  EXPECT_EQ(least_ready(longer), 2U);
  EXPECT_EQ(longer.samples.back().ready, 3U);
}

TEST(SimulatedFaults, AFrozenHeadGoesOnWithItsRequests) {
  const auto result = all_answered(served("freeze:head@20s+3s"));
  EXPECT_GT(losses(result), 0U);
  EXPECT_EQ(result.samples.back().ready, 3U);
}

// Its last word was that all take requests; it lets nobody to them.
TEST(SimulatedFaults, WhileTheHeadStandsStillNoInstanceTakesRequests) {
  const auto result = all_answered(served("freeze:head@20s+30s"));
  EXPECT_GE(result.instances.none_time, 30s);
  EXPECT_LT(result.instances.none_time, 40s);
  EXPECT_GE(result.instances.wanted_time - result.instances.ready_time, 3 * 30s);
  EXPECT_EQ(least_ready(result), 0U);
}

// It is back before anybody has missed the process that it had.
TEST(SimulatedFaults, AMachineThatVanishesAndIsBackSoonCountsOnce) {
  auto options = served("vanish:instance-1@20s+500ms");
  options.cluster.device.start_ms = 500;
  options.cluster.processes.detection = {5s, 5s};
  const auto result = all_answered(options);
  EXPECT_EQ(result.instances_max, 3U);
  EXPECT_EQ(std::ranges::max(result.samples, {}, &actors::sim::cluster_sample::instances).instances, 3U);
  EXPECT_LE(result.instance_seconds, 3 * static_cast<double>(result.duration_ns) * 1e-9);
  const auto down = result.instances.wanted_time - result.instances.ready_time;
  EXPECT_GE(down, 1s) << "down for 0.5 s, and 0.5 s to load";
  EXPECT_LT(down, 3s);
}

TEST(SimulatedFaults, AHeadThatStandsStillForHoursIsWaitedFor) {
  const auto result = all_answered(served("freeze:head@20s+30h"));
  EXPECT_EQ(result.samples.back().ready, 3U);
}

TEST(SimulatedFaults, ARestartEndsWhatFrozeTheProcessBefore) {
  const auto result = all_answered(served("freeze:instance-1@20s,crash:instance-1@25s+5s"));
  EXPECT_EQ(result.samples.back().ready, 3U);
}

TEST(SimulatedFaults, ASlowDeviceShowsInTheLatenciesWhileItIsSlow) {
  const auto slowest = [](const simulation_result& result) {
    double most = 0;
    for (const auto& r : result.requests)
      if (r.answer_tokens > 1)
        most = std::max(most, static_cast<double>(r.last_token_ns - r.first_token_ns) / (r.answer_tokens - 1));
    return most;
  };
  const auto calm = all_answered(served("crash:instance-0@10h"));
  const auto brief = all_answered(served("slow:instance-1x4@20s+1s"));
  const auto slow = all_answered(served("slow:instance-1x4@0s"));
  EXPECT_GT(slowest(slow), 3 * slowest(calm));
  EXPECT_LT(slowest(brief), 2 * slowest(calm));
  EXPECT_EQ(losses(slow), 0U);
}

TEST(SimulatedFaults, ASlowDeviceStaysSlowWhenItsProcessIsStartedAnewAndTheSlowestCounts) {
  const auto slow = [](const std::string& plan) {
    const auto result = all_answered(served(plan));
    return std::ranges::count_if(result.requests, [](const request_record& r) {
      return r.answer_tokens > 1 && (r.last_token_ns - r.first_token_ns) / (r.answer_tokens - 1) > 100'000'000;
    });
  };
  EXPECT_GT(slow("slow:instance-0x8@0s,crash:instance-0@1s+1s"), 0);
  EXPECT_GT(slow("slow:instance-0x2@0s,slow:instance-0x8@0s,slow:instance-0x2@1s+1s"), 0);
  EXPECT_EQ(slow("slow:instance-0x2@0s"), 0);
}

TEST(SimulatedFaults, WhereNobodyIsLeftEveryRequestEndsWithAnErrorInBoundedTime) {
  auto options = served("crash:instance-0@20s,vanish:instance-1@20s,freeze:instance-2@20s");
  options.cluster.node.frontend.placement_timeout = 1min;
  const auto result = simulate(options);
  EXPECT_TRUE(result.complaints.empty()) << result.complaints.front();
  std::uint64_t failed = 0;
  for (const auto& r : result.requests) {
    EXPECT_GE(r.ended_ns, 0);
    if (!r.failed) continue;
    ++failed;
    EXPECT_EQ(*r.failed, actors::failure_kind::unavailable);
  }
  EXPECT_GT(failed, 100U);
  EXPECT_EQ(result.failures.at("no instance took the request in time"), failed);
  EXPECT_EQ(result.failures.size(), 1U);
  EXPECT_GT(result.instances.none_time, 60s);
  EXPECT_LT(result.duration_ns, 180'000'000'000);
}

TEST(SimulatedFaults, AtRandomAreTheSameBySeedAndEveryRequestIsAnswered) {
  const auto first = all_answered(served("random:20/min", 1));
  const auto again = simulate(served("random:20/min", 1));
  EXPECT_EQ(first.requests, again.requests);
  EXPECT_EQ(first.samples, again.samples);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first.faults, again.faults);
  EXPECT_GT(first.faults.records.size(), 10U);
  const auto other = all_answered(served("random:20/min", 2));
  EXPECT_NE(first.faults, other.faults);
}

// What a report says happened can be planned, and then happens.
TEST(SimulatedFaults, AtRandomAreThoseOfThePlanThatIsMadeOfThem) {
  const auto drawn = simulate(served("random:20/min", 3));
  std::string plan;
  for (const auto& record : drawn.faults.records) plan += (plan.empty() ? "" : ",") + to_string(record.what);
  const auto planned = simulate(served(plan, 3));
  EXPECT_EQ(planned.faults, drawn.faults);
  EXPECT_EQ(planned.requests, drawn.requests);
}

TEST(SimulatedFaults, HitInstancesWhileAutoscalingBringsAndTakesOthers) {
  auto options = served("crash:instance-0@20s+10s,crash:instance-1@25s,random:10/min");
  auto& scaling = options.cluster.node.scheduler.scaling;
  options.cluster.node.scheduler.policies.scaling = protocols::scaling_mode::on;
  scaling.freeness_min = 80;
  scaling.freeness_max = 200;
  scaling.instances_min = 1;
  scaling.instances_max = 6;
  scaling.hold_ns = 500'000'000;
  const auto result = all_answered(options);
  EXPECT_FALSE(result.faults.struck.empty());
  const auto [fewest, most] = std::ranges::minmax(result.samples, {}, &actors::sim::cluster_sample::instances);
  EXPECT_GT(most.instances, options.cluster.instances) << "it brought some";
  EXPECT_LT(fewest.instances, most.instances) << "and took some";
}

TEST(SimulatedFaults, WhatAutoscalingGaveBackCannotBeStruckNorCutOff) {
  auto options = served("cut:instance-0/instance-1@3000s+5s,slow:instance-0x2@3000s,slow:instance-1x2@3000s");
  auto& scaling = options.cluster.node.scheduler.scaling;
  options.cluster.node.scheduler.policies.scaling = protocols::scaling_mode::on;
  scaling.freeness_min = 0;
  scaling.freeness_max = 1;
  scaling.instances_min = 1;
  scaling.hold_ns = 500'000'000;
  options.requests.push_back(options.requests.back()); // one comes long after the others
  options.requests.back().arrival_ns = 3'600'000'000'000;
  const auto result = all_answered(options);
  ASSERT_EQ(result.faults.records.size(), 3U);
  const auto& cut = result.faults.records[0];
  EXPECT_NE(cut.why_not.find("had been released"), std::string::npos) << cut.why_not;
  EXPECT_EQ(result.faults.missed + result.faults.struck.size(), 3U);
}

} // namespace godwit::test
