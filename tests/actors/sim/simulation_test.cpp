// The production actors serve whole workloads on virtual time.
#include <godwit/actors/sim/simulation.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/protocols/workload/workload.hpp>
#include <godwit/runtime/log/string_backend.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using actors::sim::request_record;
using actors::sim::simulation_options;
using actors::sim::simulation_result;
using protocols::migration_policy;

namespace {

namespace workload = protocols::workload;

/// Three small instances, and requests enough that they run out of memory.
simulation_options small_one(std::uint64_t seed = 1, double rate = 6, std::size_t requests = 150) {
  simulation_options o;
  auto device = gpu::sim::open_profile("toy");
  EXPECT_TRUE(device);
  o.cluster.device = std::move(*device);
  o.cluster.device.positions_max = 4096;
  o.cluster.device.kv_blocks = 60;
  o.cluster.device.overhead_us = 20'000; // a request lives for some rounds of the scheduler
  o.cluster.seed = seed;
  o.cluster.instances = 3;
  auto& node = o.cluster.node;
  node.scheduler.policies.dispatch = "freeness";
  node.scheduler.policies.migration = migration_policy::freeness;
  node.llumlet.planner.running_max = 64;
  node.llumlet.planner.step_tokens_max = 256;
  node.llumlet.planner.waiting_max = 1000;
  workload::workload_spec spec;
  spec.requests = requests;
  spec.arrivals.rate = rate;
  spec.lengths = *workload::parse_lengths("uniform:16-300:8-300");
  spec.high_priority_share = 0.2;
  spec.seed = seed;
  o.requests = workload::make_workload(spec);
  return o;
}

std::size_t answered(const simulation_result& result) {
  return static_cast<std::size_t>(std::ranges::count_if(result.requests, &request_record::answered));
}

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0},
                         [](auto total, const auto& entry) { return total + entry.second; });
}

} // namespace

TEST(Simulation, IsTheSameBySeedAndAnotherByAnother) {
  const auto first = simulate(small_one(3));
  const auto again = simulate(small_one(3));
  EXPECT_EQ(first.requests, again.requests);
  EXPECT_EQ(first.samples, again.samples);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first.stalls_ns, again.stalls_ns);
  EXPECT_EQ(first.instance_seconds, again.instance_seconds);
  EXPECT_NE(first.requests, simulate(small_one(4)).requests);
}

TEST(Simulation, WhoeverRunsItMayWatchWhatItWatches) {
  auto options = small_one();
  std::size_t reports = 0, dispatched = 0, preempted = 0, moved = 0;
  auto& node = options.cluster.node;
  node.llumlet.on_report = [&](const protocols::load_report&) { ++reports; };
  node.llumlet.on_preempted = [&](const actors::preemption&) { ++preempted; };
  node.frontend.on_dispatched = [&](protocols::request_id, protocols::instance_id, std::chrono::nanoseconds) {
    ++dispatched;
  };
  node.frontend.on_migration = [&](const protocols::migration_report& report) { moved += report.committed() ? 1 : 0; };
  const auto requests = options.requests.size();
  const auto result = simulate(std::move(options));
  EXPECT_GT(reports, requests);
  EXPECT_GE(dispatched, requests);
  EXPECT_GT(preempted, 0U);
  EXPECT_EQ(moved, sum(result.migrations_committed));
  EXPECT_EQ(result.requests, simulate(small_one()).requests) << "and changes nothing";
}

TEST(Simulation, OptionsThatCannotBeUsedAreTroubleAndNothingWorse) {
  auto options = small_one();
  options.cluster.node.scheduler.policies.dispatch = "nobody";
  const auto result = simulate(std::move(options));
  EXPECT_NE(result.trouble.find("nobody"), std::string::npos) << result.trouble;
  EXPECT_TRUE(result.requests.empty());
  auto spinning = small_one(); // the head has no instances: its members' llumlets would report for ever at one moment
  spinning.cluster.node.llumlet.report_interval = std::chrono::nanoseconds{0};
  EXPECT_EQ(simulate(std::move(spinning)).trouble, "cluster: llumlet.report_interval must be above 0");
}

// Instances of different devices, or a latency model of one's own.
TEST(Simulation, StepsTakeWhatTheEmbedderSays) {
  auto options = small_one();
  options.cluster.node.scheduler.policies.migration = migration_policy::never;
  std::map<protocols::instance_id, std::size_t> steps;
  options.cluster.step_time = [&steps](protocols::instance_id on, const protocols::step_input& step,
                                       std::chrono::nanoseconds usual) {
    EXPECT_FALSE(step.slices.empty());
    EXPECT_GT(usual.count(), 0);
    ++steps[on];
    return on == protocols::instance_id{0} ? usual / 10 : usual;
  };
  const auto result = simulate(options);
  EXPECT_EQ(result.trouble, "");
  EXPECT_EQ(steps.size(), 3U);
  EXPECT_GT(steps[protocols::instance_id{0}], 0U);
  EXPECT_NE(result.requests, simulate(small_one()).requests);
  // As if it had not been there.
  auto usual = small_one();
  usual.cluster.step_time = [](auto, const auto&, auto time) { return time; };
  EXPECT_EQ(simulate(usual).requests, simulate(small_one()).requests);
}

TEST(Simulation, SaysWhatAPolicyThrewWhereverTheLogGoes) {
  auto options = small_one();
  options.cluster.node.scheduler.pair = [](const auto&, const auto&, auto) -> std::vector<protocols::migration_pair> {
    throw std::runtime_error("no table");
  };
  const auto silent = simulate(options);
  options.cluster.node.log_to(runtime::log::logger(std::make_shared<runtime::log::string_backend>(),
                                                   runtime::log::level_filter(runtime::log::level::error)));
  const auto logged = simulate(options);
  ASSERT_FALSE(silent.complaints.empty());
  EXPECT_NE(silent.complaints.front().find("no table"), std::string::npos) << silent.complaints.front();
  EXPECT_EQ(silent.complaints, logged.complaints);
}

// Which requests leave a source, for once by another rule.
TEST(Simulation, AMovePolicyOfOnesOwnChoosesWhatMigrates) {
  const auto moves_by = [](protocols::move_policy policy) {
    auto options = small_one();
    options.cluster.node.llumlet.move = std::move(policy);
    return simulate(options);
  };
  const auto moves = [](const simulation_result& result) {
    const auto found = result.migrations_committed.find("freeness");
    return found == result.migrations_committed.end() ? 0U : found->second;
  };
  const auto usual = moves_by({});
  ASSERT_GT(moves(usual), 0U);
  // The first one that pays by the built-in reckoning is the built-in rule.
  const auto same = moves_by([](const auto& possible, const auto& source, const auto&) -> std::optional<std::size_t> {
    const auto gain = 1.0 / std::max<std::uint32_t>(source.running, 1);
    for (std::size_t i = 0; i < possible.size(); ++i)
      if (const auto& at = possible[i].outcome;
          std::min(at.source_after, at.destination_after) >= std::min(at.source_before, at.destination_before) + gain)
        return i;
    return std::nullopt;
  });
  EXPECT_EQ(same.requests, usual.requests);
  EXPECT_EQ(moves(moves_by([](const auto&, const auto&, const auto&) { return std::nullopt; })), 0U);
  std::size_t asked = 0;
  const auto largest = moves_by([&asked](const auto& possible, const auto&, const auto& destination) {
    EXPECT_FALSE(possible.empty());
    EXPECT_TRUE(destination.ready);
    ++asked;
    const auto blocks = [](const protocols::possible_move& m) { return m.request.blocks; };
    return std::optional<std::size_t>(std::ranges::max_element(possible, {}, blocks) - possible.begin());
  });
  EXPECT_GT(asked, 0U);
  EXPECT_NE(largest.requests, usual.requests);
  EXPECT_EQ(answered(largest), largest.requests.size());
  EXPECT_TRUE(largest.complaints.empty());
}

TEST(Simulation, AMovePolicyThatFailsMovesNothingAndIsComplainedOfOnceEach) {
  auto options = small_one();
  options.cluster.node.llumlet.move = [](const auto&, const auto&, const auto&) -> std::optional<std::size_t> {
    throw std::runtime_error("no table");
  };
  const auto thrown = simulate(options);
  options.cluster.node.log_to(runtime::log::logger(std::make_shared<runtime::log::string_backend>(),
                                                   runtime::log::level_filter(runtime::log::level::error)));
  EXPECT_EQ(simulate(options).complaints, thrown.complaints);
  options.cluster.node.llumlet.move = [](const auto& possible, const auto&, const auto&) {
    return std::optional<std::size_t>(possible.size());
  };
  const auto beyond = simulate(options);
  for (const auto* result : {&thrown, &beyond}) {
    EXPECT_EQ(answered(*result), result->requests.size());
    EXPECT_FALSE(result->migrations_committed.contains("freeness"));
    ASSERT_FALSE(result->complaints.empty());
    EXPECT_LE(result->complaints.size(), 3U); // instances
  }
  std::size_t asked = 0;
  options.cluster.node.llumlet.move = [&asked](const auto&, const auto&, const auto&) -> std::optional<std::size_t> {
    throw std::runtime_error("failure " + std::to_string(++asked));
  };
  const auto each_time = simulate(options);
  EXPECT_GT(asked, 4 * each_time.complaints.size()) << "what is another thing each time is not said each time";
  EXPECT_NE(thrown.complaints.front().find("no table"), std::string::npos) << thrown.complaints.front();
  EXPECT_NE(beyond.complaints.front().find("none of the moves"), std::string::npos) << beyond.complaints.front();
}

TEST(Simulation, ALengthPredictorThatFailsIsComplainedOf) {
  auto options = small_one();
  options.cluster.node.frontend.lengths = []() -> std::unique_ptr<protocols::length_predictor> {
    throw std::runtime_error("no prophet");
  };
  const auto result = simulate(options);
  EXPECT_EQ(answered(result), result.requests.size());
  ASSERT_FALSE(result.complaints.empty());
  EXPECT_NE(result.complaints.front().find("no prophet"), std::string::npos) << result.complaints.front();
}

TEST(Simulation, WhatWouldBeIgnoredIsTrouble) {
  auto made = small_one();
  made.cluster.node.instance.make_executor = [](protocols::instance_id, const auto&) {};
  EXPECT_NE(simulate(made).trouble.find("make_executor"), std::string::npos);
  auto staged = small_one();
  staged.cluster.device.layers = 4;
  staged.cluster.stages = 2;
  staged.cluster.step_time = [](auto, const auto&, auto time) { return time; };
  EXPECT_NE(simulate(staged).trouble.find("step_time"), std::string::npos);
}

TEST(Simulation, AnswersEveryRequestInFullOrSaysWhyNot) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto options = small_one(seed);
    const auto result = simulate(options);
    ASSERT_TRUE(result.trouble.empty()) << result.trouble;
    EXPECT_TRUE(result.complaints.empty()) << result.complaints.front();
    ASSERT_EQ(result.requests.size(), options.requests.size());
    EXPECT_EQ(answered(result), options.requests.size());
    for (std::size_t i = 0; i < result.requests.size(); ++i) {
      const auto& r = result.requests[i];
      EXPECT_EQ(r.answer_tokens, options.requests[i].answer_tokens);
      EXPECT_GE(r.first_token_ns, r.arrival_ns);
      EXPECT_GE(r.last_token_ns, r.first_token_ns);
      EXPECT_EQ(r.ended_ns, r.last_token_ns);
      EXPECT_LE(r.ended_ns, result.duration_ns);
    }
  }
}

TEST(Simulation, CountsARequestThatFitsNowhereAsFailed) {
  auto options = small_one(1, 6, 10);
  options.requests[4].prompt_tokens = 5000; // nobody has cut it to the context
  const auto result = simulate(options);
  EXPECT_EQ(answered(result), 9U);
  ASSERT_TRUE(result.requests[4].failed);
  EXPECT_EQ(*result.requests[4].failed, actors::failure_kind::too_long);
}

TEST(Simulation, SeesPreemptionsAndMigrationsWithWhatTheyCost) {
  const auto result = simulate(small_one());
  std::uint64_t preemptions = 0, migrations = 0;
  std::int64_t stalls = 0;
  for (const auto& r : result.requests) {
    preemptions += r.preemptions;
    migrations += r.migrations;
    stalls += r.stall_ns;
    EXPECT_EQ(r.preemptions > 0, r.preemption_loss_ns > 0);
    EXPECT_LE(r.preemption_loss_ns, r.ended_ns - r.arrival_ns);
  }
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(migrations, 0U);
  EXPECT_EQ(migrations, sum(result.migrations_committed));
  EXPECT_EQ(migrations, result.moved_waiting + result.stalls_ns.size());
  EXPECT_EQ(result.stalls_ns.size(), std::accumulate(result.stages.begin(), result.stages.end(), std::uint64_t{0},
                                                     [](auto n, const auto& entry) { return n + entry.second; }));
  EXPECT_EQ(stalls, std::accumulate(result.stalls_ns.begin(), result.stalls_ns.end(), std::int64_t{0}));
}

// What moves out of a queue has no batch to leave: it would only dilute the mean.
TEST(Simulation, CountsStallsOfRunningRequestsOnly) {
  auto result = simulate(small_one(4, 24, 400));
  for (std::uint64_t seed = 5; result.stalls_ns.empty() && seed < 30; ++seed)
    result = simulate(small_one(seed, 24, 400));
  EXPECT_GT(result.moved_waiting, 0U);
  ASSERT_FALSE(result.stalls_ns.empty());
  EXPECT_GT(*std::ranges::min_element(result.stalls_ns), 0);
  EXPECT_FALSE(result.stages.contains(0));
  EXPECT_LE(result.gaps_ns.size(), result.stalls_ns.size()) << "some got no token after it";
  ASSERT_FALSE(result.gaps_ns.empty());
  EXPECT_GT(*std::ranges::min_element(result.gaps_ns), 0);
  EXPECT_GT(result.migrating_seconds, 0);
  EXPECT_LT(result.migrating_seconds, result.instance_seconds);
}

TEST(Simulation, CopiesTakeFromStepsWhatTheProfileSays) {
  for (const bool separate : {false, true}) {
    auto options = small_one();
    options.cluster.separate = separate;
    auto& device = options.cluster.device;
    constexpr double larger =
        256; // a copy lasts some steps, of which the link is busy in all but the first and the last
    device.kv_bytes_per_token *= larger;
    device.kv_bytes_per_second *= larger;                           // and steps are as they were
    options.cluster.node.llumlet.migration.settings.copy_share = 1; // of the link
    const auto without = simulate(options);
    EXPECT_EQ(without.slowed.count, 0U);
    device.link.device_bytes_per_second = 20 * device.link.bytes_per_second;
    const auto with = simulate(options);
    ASSERT_GT(with.stalls_ns.size(), 0U) << "something has to move";
    EXPECT_EQ(answered(with), answered(without));
    EXPECT_NE(with.requests, without.requests);
    EXPECT_GT(with.slowed.count, 0U);
    // A full link takes a twentieth of a step, in each direction.
    EXPECT_GT(with.slowed.most, 0.045);
    EXPECT_LT(with.slowed.most, 0.11);
    const auto mean = with.slowed.more / std::chrono::duration<double, std::nano>(with.slowed.alone);
    EXPECT_GT(mean, 0.0);
    EXPECT_LE(mean, with.slowed.most);
  }
}

TEST(Simulation, MigratesNothingWithoutAPolicyToDoSo) {
  auto options = small_one();
  options.cluster.node.scheduler.policies.migration = migration_policy::none;
  const auto result = simulate(options);
  EXPECT_EQ(sum(result.migrations_committed) + sum(result.migrations_aborted), 0U);
}

TEST(Simulation, LetsRequestsOfHighPriorityGoFirst) {
  const auto mean_prefill = [](const simulation_result& result, bool high) {
    double total = 0, count = 0;
    for (const auto& r : result.requests)
      if ((r.priority > 0) == high) total += static_cast<double>(r.first_token_ns - r.arrival_ns), ++count;
    return total / count;
  };
  auto options = small_one(1, 12);
  options.cluster.node.llumlet.planner.execution_levels = {{"normal", 0U}, {"high", 20U}};
  options.cluster.node.scheduler.levels = options.cluster.node.llumlet.planner.execution_levels;
  options.cluster.node.frontend.execution_levels = {"normal", "high"};
  const auto alike = simulate(options);
  options.high_level = 1;
  const auto told_apart = simulate(options);
  EXPECT_LT(mean_prefill(told_apart, true), mean_prefill(alike, true) / 2);
  EXPECT_LT(mean_prefill(told_apart, true), mean_prefill(told_apart, false) / 2);
}

TEST(Simulation, PaysForEveryInstanceAsLongAsItRuns) {
  const auto result = simulate(small_one());
  EXPECT_NEAR(result.instance_seconds, 3 * static_cast<double>(result.duration_ns) * 1e-9, 1e-6);
  EXPECT_EQ(result.instances_max, 3U);
}

// An instance that autoscaling orders costs from its order on and serves after the profile's start time.
TEST(Simulation, ScalesOutAndInByItself) {
  auto options = small_one(1, 10, 300);
  options.cluster.instances = 1;
  options.cluster.device.start_ms = 2500;
  auto& scaling = options.cluster.node.scheduler.scaling;
  options.cluster.node.scheduler.policies.scaling = protocols::scaling_mode::on;
  scaling.freeness_min = 2;
  scaling.freeness_max = 8;
  scaling.hold_ns = 500'000'000;
  scaling.instances_min = 1;
  scaling.instances_max = 4;
  auto& requests = options.requests;
  for (std::size_t i = 0; i < 20; ++i) { // then it is quiet
    auto late = requests.back();
    late.arrival_ns += 2'000'000'000;
    requests.push_back(late);
  }
  const auto result = simulate(options);
  EXPECT_EQ(answered(result), requests.size());
  EXPECT_EQ(result.instances_max, 4U);
  std::int64_t ordered_ns = -1, there_ns = -1;
  for (const auto& s : result.samples) {
    EXPECT_LE(s.ready, s.instances);
    if (ordered_ns < 0 && s.instances == 2) ordered_ns = s.time_ns;
    if (there_ns < 0 && s.ready == 2) there_ns = s.time_ns;
  }
  EXPECT_GE(there_ns - ordered_ns, 1'500'000'000) << "a sample a second";
  EXPECT_LE(there_ns - ordered_ns, 3'500'000'000);
  EXPECT_LT(result.samples.back().instances, 4U) << "some have been stopped";
  EXPECT_LT(result.instance_seconds, 4 * static_cast<double>(result.duration_ns) * 1e-9);
}

TEST(Simulation, FindsThePrefixesOfATraceInTheCache) {
  auto options = small_one(1, 1, 2);
  options.cluster.device.kv_blocks = 400;
  options.cluster.node.llumlet.planner.prefix_caching = true;
  options.cluster.instances = 1;
  for (auto& r : options.requests) r.prompt_tokens = 1200, r.answer_tokens = 4, r.prefix_hashes = {1, 2, 3};
  options.requests[1].arrival_ns = 10'000'000'000;
  options.requests[1].prefix_hashes = {1, 2, 4};
  const auto result = simulate(options);
  EXPECT_EQ(result.requests[0].cached_tokens, 0U);
  EXPECT_EQ(result.requests[1].cached_tokens, 1024U);
}

TEST(Simulation, KeepsABoundedNumberOfSamplesAtEqualDistances) {
  auto options = small_one();
  options.sample_interval = 100ms;
  const auto all = simulate(options);
  options.samples_max = 50;
  const auto some = simulate(options);
  EXPECT_EQ(some.requests, all.requests);
  EXPECT_EQ(some.events, all.events);
  ASSERT_GT(all.samples.size(), 150U);
  ASSERT_LE(some.samples.size(), 50U);
  ASSERT_GE(some.samples.size(), 25U);
  EXPECT_EQ(some.samples.back(), all.samples.back());
  const auto distance = some.samples[1].time_ns;
  EXPECT_GE(distance, 400'000'000) << "it has doubled twice";
  for (std::size_t i = 0; i + 1 < some.samples.size(); ++i) {
    const auto& sample = some.samples[i];
    EXPECT_EQ(sample.time_ns, static_cast<std::int64_t>(i) * distance);
    EXPECT_EQ(sample, all.samples[static_cast<std::size_t>(sample.time_ns / 100'000'000)]);
  }
}

// A head takes in 1,024 processes unless it is told otherwise.
TEST(Simulation, HasRoomForMoreInstancesThanAServerTakes) {
  auto options = small_one(1, 6, 1);
  options.cluster.instances = 1025;
  const auto result = simulate(options);
  EXPECT_EQ(result.trouble, "");
  EXPECT_EQ(answered(result), 1U);
  EXPECT_EQ(result.instances_max, 1025U);
}

TEST(Simulation, SaysWhyTheInstancesNeverGetReady) {
  auto options = small_one(1, 6, 1);
  options.cluster.node.member_instances_max = 0;
  const auto result = simulate(options);
  EXPECT_NE(result.trouble.find(" cannot join: a member brings 1 to 0 instances"), std::string::npos) << result.trouble;
}

// Those behind a later one would be submitted with it, and wait in the figures since their own time.
TEST(Simulation, RefusesRequestsThatAreNotInTheOrderOfTheirArrivals) {
  auto options = small_one(1, 6, 3);
  std::swap(options.requests.front(), options.requests.back());
  const auto result = simulate(std::move(options));
  EXPECT_EQ(result.trouble, "the requests are not in the order of their arrivals");
  simulation_options nobody;
  nobody.cluster.instances = 0;
  EXPECT_EQ(simulate(std::move(nobody)).trouble, "cluster.instances must be above 0");
  const auto trouble_of = [](const std::function<void(simulation_options&)>& change) {
    simulation_options o;
    change(o);
    return simulate(std::move(o)).trouble;
  };
  EXPECT_EQ(trouble_of([](auto& o) { o.sample_interval = 0ns; }), "sample_interval must be above 0");
  EXPECT_EQ(trouble_of([](auto& o) { o.sample_interval = -1s; }), "sample_interval must be above 0");
  EXPECT_EQ(trouble_of([](auto& o) { o.patience = 0ns; }), "patience must be above 0");
  EXPECT_EQ(trouble_of([](auto& o) { o.cluster.stages = 0; }), "cluster.stages are from 1 to the model's layers");
  EXPECT_EQ(trouble_of([](auto& o) {
              o.cluster.stage_speeds = {1, 1};
            }),
            "cluster.stage_speeds are of each stage, or of none");
  EXPECT_EQ(trouble_of([](auto& o) { o.cluster.stage_speeds = {0}; }), "cluster.stage_speeds must be above 0");
  EXPECT_EQ(trouble_of([](auto& o) { o.cluster.draft_acceptance = 7; }),
            "cluster.draft_acceptance is a share from 0 to 1");
  EXPECT_EQ(trouble_of([](auto& o) { o.length_accuracy = std::nan(""); }), "length_accuracy is a share from 0 to 1");
  EXPECT_EQ(trouble_of([](auto& o) { o.requests.emplace_back().arrival_ns = -1; }), "a request arrives before the run");
  EXPECT_TRUE(result.requests.empty());
}

TEST(Simulation, EndsWhereTheClusterHangs) {
  auto options = small_one(1, 1, 3);
  options.cluster.device.overhead_us = 60e6; // a step takes a minute
  options.patience = 5s;
  const auto result = simulate(options);
  EXPECT_EQ(answered(result), 0U);
  EXPECT_LT(result.duration_ns, 20'000'000'000);
}

// gpu::sim::profile_link says what a transfer takes; blocks of a simulated executor show the network fewer bytes.
TEST(SimulatedCluster, MovesBlocksAsTheLinkOfTheProfileWould) {
  const auto device = gpu::sim::open_profile("llama-7b-a10");
  ASSERT_TRUE(device);
  const auto network = actors::sim::network_of(*device);
  constexpr int blocks = 64;
  const auto shown = blocks * static_cast<double>(gpu::sim::sim_block_bytes) / network.bytes_per_second;
  const auto until_landed = shown + std::chrono::duration<double>(network.overhead + network.latency).count();
  const auto expected = device->link.transfer_time(blocks * device->block_bytes());
  EXPECT_NEAR(until_landed, std::chrono::duration<double>(expected).count(), 1e-6);
}

// The last blocks of a request stand still until they have landed: those of others do not keep them waiting.
TEST(SimulatedCluster, LetsUrgentBlocksWaitForOneMessageOnly) {
  const auto device = gpu::sim::open_profile("llama-7b-a10");
  ASSERT_TRUE(device);
  const auto settings = actors::sim::network_of(*device);
  runtime::sim::world world(1);
  transport::sim::network network(world.timers(), settings);
  const auto source = network.make_fabric("source"), destination = network.make_fabric("destination");
  constexpr std::size_t bytes = gpu::sim::sim_block_bytes;
  std::vector<std::byte> memory(2000 * bytes);
  const auto blocks = [&](std::size_t first, std::size_t count) {
    std::vector<protocols::memory_region> out;
    for (std::size_t i = first; i < first + count; ++i)
      out.push_back({memory.data() + i * bytes, bytes, protocols::memory_kind::host});
    return out;
  };
  bool all_there = false;
  std::optional<std::chrono::nanoseconds> landed;
  destination->post({1, 0}, blocks(1000, 999), {}, [](const transport::landing&) {});
  destination->post({2, 0}, blocks(1999, 1), {}, [&](const transport::landing&) { landed = world.now(); });
  source->send(destination->address(), {1, 0}, 0, blocks(0, 999), transport::transfer_priority::bulk, 1h, {},
               [&](const std::string&) { all_there = true; });
  const std::chrono::duration<double> message(device->block_bytes() / device->link.bytes_per_second);
  world.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(message * 10.5));
  const auto asked = world.now();
  source->send(destination->address(), {2, 0}, 0, blocks(999, 1), transport::transfer_priority::urgent, 1h, {},
               [](const std::string&) {});
  ASSERT_TRUE(world.run_until([&] { return landed.has_value(); }));
  EXPECT_FALSE(all_there);
  EXPECT_LE(*landed - asked, 2 * message + settings.overhead + settings.latency + 1us);
  // Cut into messages, the blocks take the time that they take in one.
  ASSERT_TRUE(world.run_until([&] { return all_there; }));
  EXPECT_NEAR(std::chrono::duration<double>(world.now()).count(),
              std::chrono::duration<double>(1000 * message + settings.overhead + 2 * settings.latency).count(), 1e-6);
}

} // namespace godwit::test
