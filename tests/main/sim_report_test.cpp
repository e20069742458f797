#include "main/sim_report.hpp"
#include "main/svg_plot.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace godwit::main {
namespace {

using actors::sim::cluster_sample;
using actors::sim::request_record;
using actors::sim::simulation_result;

constexpr std::int64_t per_ms = 1'000'000;

request_record answered(std::int64_t arrival, std::int64_t first, std::int64_t last, std::uint32_t tokens) {
  request_record r;
  r.arrival_ns = arrival * per_ms;
  r.first_token_ns = first * per_ms;
  r.last_token_ns = r.ended_ns = last * per_ms;
  r.prompt_tokens = 100;
  r.answer_tokens = tokens;
  return r;
}

/// Three requests, two of them normal; the third one is not answered.
simulation_result three() {
  simulation_result run;
  run.requests = {answered(0, 100, 500, 5), answered(1000, 1300, 1300, 1), answered(1000, 1100, 1400, 4)};
  run.requests[0].preemptions = 2;
  run.requests[0].preemption_loss_ns = 150 * per_ms;
  run.requests[0].cached_tokens = 16;
  run.requests[1].priority = 1;
  run.requests[1].dispatched_ns = 1010 * per_ms; // and it took 290 ms from there
  run.requests[1].expected_ns = 240 * per_ms;
  run.requests[1].migrations = 1;
  run.requests[1].stall_ns = 30 * per_ms;
  run.requests[2].failed = actors::failure_kind::overloaded;
  run.duration_ns = 2000 * per_ms;
  run.instance_seconds = 3.0;
  run.instances_max = 2;
  run.stalls_ns = {30 * per_ms};
  run.gaps_ns = {90 * per_ms};
  run.stages[2] = 1;
  run.moved_waiting = 3;
  run.migrating_seconds = 0.6;
  run.migrations_committed["freeness"] = 4;
  run.migrations_aborted["destination_full"] = 4;
  run.events = 17;
  return run;
}

cluster_sample sample_at(std::int64_t time, std::uint64_t used, std::uint64_t fragmented) {
  cluster_sample s;
  s.time_ns = time * per_ms;
  s.blocks_total = 200;
  s.blocks_used = used;
  s.fragmented.blocks = fragmented;
  return s;
}

sim_setup setup_with_priority() {
  sim_setup setup;
  setup.policy = "llumnix";
  setup.priority = "high";
  return setup;
}

} // namespace

TEST(SimReport, ComputesLatenciesAsByHand) {
  const auto report = make_report({}, three());
  EXPECT_EQ(report.requests, 3U);
  EXPECT_EQ(report.answered, 2U);
  EXPECT_EQ(report.failed.at("overloaded"), 1U);
  EXPECT_EQ(report.unfinished, 0U);
  EXPECT_DOUBLE_EQ(report.times.e2e_ms.mean, (500 + 300) / 2.0);
  EXPECT_DOUBLE_EQ(report.times.prefill_ms.mean, (100 + 300) / 2.0);
  EXPECT_DOUBLE_EQ(report.times.prefill_ms.p50, 200);
  EXPECT_EQ(report.times.decode_ms.count, 1U) << "one token has no token after it";
  EXPECT_DOUBLE_EQ(report.times.decode_ms.mean, 100);
  EXPECT_DOUBLE_EQ(report.times.loss_ms.mean, 75);
  EXPECT_DOUBLE_EQ(report.times.stall_ms.mean, 15);
  EXPECT_DOUBLE_EQ(report.requests_per_s, 1);
  EXPECT_EQ(report.prompt_tokens, 200U);
  EXPECT_EQ(report.cached_tokens, 16U);
  EXPECT_EQ(report.answer_tokens, 10U);
  EXPECT_EQ(report.preemptions, 2U);
  EXPECT_EQ(report.preempted, 1U);
  EXPECT_DOUBLE_EQ(report.loss_s, 0.15);
  EXPECT_EQ(report.migrations, 4U);
  EXPECT_EQ(report.moved_waiting, 3U);
  EXPECT_EQ(report.stall_ms.count, 1U) << "requests that waited did not stand still";
  EXPECT_DOUBLE_EQ(report.stall_ms.mean, 30);
  EXPECT_DOUBLE_EQ(report.gap_ms.mean, 90);
  EXPECT_DOUBLE_EQ(report.migrating_share, 0.2);
  EXPECT_DOUBLE_EQ(report.instances, 1.5);
  EXPECT_TRUE(report.levels.empty());
}

TEST(SimReport, TellsPrioritiesApart) {
  const auto report = make_report(setup_with_priority(), three());
  ASSERT_EQ(report.levels.size(), 2U);
  EXPECT_EQ(report.levels[0].requests, 2U);
  EXPECT_EQ(report.levels[0].answered, 1U);
  EXPECT_DOUBLE_EQ(report.levels[0].times.prefill_ms.mean, 100);
  EXPECT_EQ(report.levels[1].name, "high");
  EXPECT_DOUBLE_EQ(report.levels[1].times.prefill_ms.mean, 300);
}

TEST(SimReport, SaysHowManyOfEachPriorityMetTheirObjectives) {
  auto setup = setup_with_priority();
  const auto said = [&setup] { return to_table(setup, make_report(setup, three())); };
  EXPECT_EQ(said().find("objectives met"), std::string::npos);
  setup.ttft_ms = 100;
  const auto text = said();
  const auto normal = text.find("\nobjectives met            50.00 %\n"),
             high = text.find("\nobjectives met             0.00 %\n"),
             all = text.find("\nobjectives met      33.33 % of");
  EXPECT_LT(text.find("\npriority normal"), normal) << text;
  EXPECT_LT(normal, text.find("\npriority high"));
  EXPECT_LT(text.find("\npriority high"), high);
  EXPECT_LT(high, all);
  EXPECT_NE(all, std::string::npos);
}

TEST(SimReport, CountsOnlyRequestsThatMeetEveryObjective) {
  const auto good = [](double first, double each) {
    sim_setup setup;
    setup.ttft_ms = first;
    setup.tpot_ms = each;
    const auto report = make_report(setup, three());
    EXPECT_DOUBLE_EQ(report.goodput * 2, report.attainment * 3);
    return report.attainment * 3;
  };
  EXPECT_DOUBLE_EQ(good(300, 100), 2) << "the failed one never does";
  EXPECT_DOUBLE_EQ(good(299, 100), 1);
  EXPECT_DOUBLE_EQ(good(300, 99), 1) << "one token alone has no time per token";
}

TEST(SimReport, WeighsSamplesByTheTimeForWhichTheyHold) {
  auto run = three();
  for (std::int64_t time = 0; time < 1000; time += 125) run.samples.push_back(sample_at(time, 100, 0));
  for (const auto& s : {sample_at(1000, 200, 20), sample_at(1500, 0, 40), sample_at(2000, 7, 7)})
    run.samples.push_back(s);
  const auto memory = make_report({}, run).memory;
  ASSERT_TRUE(memory);
  EXPECT_DOUBLE_EQ(memory->used, (1.0 * 0.5 + 0.5 * 1.0) / 2);
  EXPECT_DOUBLE_EQ(memory->fragmented, (0.5 * 0.1 + 0.5 * 0.2) / 2);
  EXPECT_DOUBLE_EQ(memory->fragmented_max, 0.2);
  EXPECT_DOUBLE_EQ(memory->fragmented_time, 0.5);
}

// All instances may be down, or loading.
TEST(SimReport, TimeWithoutInstancesIsNoTimeOfUnusedMemory) {
  auto run = three();
  for (std::int64_t time = 0; time <= 10'000; time += 1000) {
    auto sample = sample_at(time, 100, 50);
    if (time >= 2000 && time < 6000) sample.blocks_total = sample.blocks_used = sample.fragmented.blocks = 0;
    run.samples.push_back(sample);
  }
  const auto memory = make_report({}, run).memory;
  ASSERT_TRUE(memory);
  EXPECT_DOUBLE_EQ(memory->used, 0.5);
  EXPECT_DOUBLE_EQ(memory->fragmented, 0.25);
  EXPECT_DOUBLE_EQ(memory->fragmented_time, 1);
}

TEST(SimReport, SaysNothingOfMemoryThatItHasHardlySeen) {
  auto run = three();
  for (std::int64_t time = 0; time <= 9000; time += 1000) run.samples.push_back(sample_at(time, 100, 50));
  const auto few = make_report({}, run);
  EXPECT_FALSE(few.memory);
  EXPECT_NE(to_table({}, few).find("memory              - (the run has fewer than 10 samples)\n"), std::string::npos);
  const auto json = boost::json::parse(to_json({}, few));
  for (const auto* name : {"used_share", "fragmented_share", "fragmented_share_max", "fragmented_time"})
    EXPECT_TRUE(json.at("memory").at(name).is_null()) << name;
  run.samples.push_back(sample_at(9500, 100, 50)); // the end
  EXPECT_DOUBLE_EQ(boost::json::parse(to_json({}, make_report({}, run))).at("memory").at("used_share").as_double(),
                   0.5);
}

TEST(SimReport, DoesNotCallPreemptionsAShareOfRequests) {
  const auto text = to_table({}, make_report({}, three()));
  EXPECT_NE(text.find("preemptions         2, of 1 requests, "), std::string::npos) << text;
}

TEST(SimReport, OfNothingIsZeroEverywhere) {
  const auto report = make_report({}, simulation_result{});
  EXPECT_EQ(report.attainment, 0);
  EXPECT_EQ(report.goodput, 0);
  EXPECT_EQ(report.instances, 0);
  EXPECT_NO_THROW(static_cast<void>(to_table({}, report)));
  EXPECT_TRUE(boost::json::parse(to_json({}, report)).is_object());
}

TEST(SimReport, WhatNobodyMeasuredIsNoZero) {
  const auto json = boost::json::parse(to_json({}, make_report({}, simulation_result{}))).as_object();
  for (const auto* const key : {"end_to_end_ms", "decode_ms", "token_gap_ms"}) {
    EXPECT_EQ(json.at(key).at("count").to_number<int>(), 0) << key;
    EXPECT_TRUE(json.at(key).at("p99").is_null()) << key;
    EXPECT_TRUE(json.at(key).at("mean").is_null()) << key;
  }
}

TEST(SimReport, OfAWindowCountsWhatArrivesInItAndTheClusterMeanwhile) {
  auto setup = setup_with_priority();
  setup.priority.clear();
  auto run = three();
  run.requests.push_back(answered(1900, 1950, 1990, 5));
  for (std::int64_t at = 0; at <= 2000; at += 100) {
    run.samples.push_back(sample_at(at, at < 1000 ? 20 : 100, 0));
    run.samples.back().instances = at < 1000 ? 1 : 3;
  }
  setup.window = std::pair{500 * per_ms, 1500 * per_ms};
  const auto report = make_report(setup, run);
  EXPECT_EQ(report.requests, 2U) << "neither the first one nor the last one";
  EXPECT_EQ(report.answered, 1U);
  EXPECT_EQ(report.times.e2e_ms.max, 300);
  EXPECT_DOUBLE_EQ(report.duration_s, 1);
  EXPECT_DOUBLE_EQ(report.requests_per_s, 1);
  ASSERT_TRUE(report.memory);
  EXPECT_DOUBLE_EQ(report.memory->used, 0.3) << "half of the time a tenth, half of it five";
  EXPECT_DOUBLE_EQ(report.instance_s, 2);
  EXPECT_DOUBLE_EQ(report.instances, 2);
  EXPECT_EQ(report.instances_max, 3U);
  EXPECT_DOUBLE_EQ(report.migrating_share, 0.2) << "of the whole run";
  EXPECT_NE(to_table(setup, report).find("of requests that arrive from 0.5 s until 1.5 s:\n1 of 2"), std::string::npos);
  setup.window->second = 9000 * per_ms;
  EXPECT_DOUBLE_EQ(make_report(setup, run).duration_s, 1.5) << "the run was over";
}

TEST(SimReport, TellsHowFarApartTokensCome) {
  auto run = three();
  for (int i = 0; i < 98; ++i) run.token_gaps.add(20 * per_ms);
  run.token_gaps.add(150 * per_ms);
  run.token_gaps.add(700 * per_ms);
  const auto report = make_report({}, run);
  EXPECT_EQ(report.token_gap_ms.count, 100U);
  EXPECT_DOUBLE_EQ(report.token_gap_ms.mean, (98 * 20 + 150 + 700) / 100.0);
  EXPECT_NEAR(report.token_gap_ms.p50, 20, 20.0 / 64);
  EXPECT_NEAR(report.token_gap_ms.p99, 150, 150.0 / 64);
  EXPECT_EQ(report.token_gap_ms.max, 700);
  EXPECT_NE(to_table({}, report).find("between tokens"), std::string::npos);
}

TEST(GapCounts, KeepLengthsToWithinASixtyFourthOfThemselves) {
  for (std::int64_t x = 0; x < std::int64_t{1} << 40; x += 1 + x / 37) {
    actors::sim::gap_counts one;
    one.add(x);
    one.add(x + x / 8 + 1);
    const auto lower = one.quantile_ns(0.5);
    EXPECT_NEAR(lower, static_cast<double>(x), static_cast<double>(x) / 64) << x;
    EXPECT_EQ(one.most_ns(), x + x / 8 + 1);
  }
}

TEST(SimReport, JsonHasEveryFigureOnce) {
  const auto setup = setup_with_priority();
  const auto report = make_report(setup, three());
  const auto text = to_json(setup, report);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = boost::json::parse(text).as_object();
  EXPECT_EQ(json.at("setup").at("policy").as_string(), "llumnix");
  EXPECT_EQ(json.at("end_to_end_ms").at("mean").as_double(), 400);
  EXPECT_EQ(json.at("levels").as_array().size(), 2U);
  EXPECT_EQ(json.at("migrations").at("by_cause").at("freeness").as_int64(), 4);
  EXPECT_EQ(json.at("migrations").at("waiting").as_int64(), 3);
  EXPECT_EQ(json.at("migrations").at("by_stages").at("2").as_int64(), 1);
  EXPECT_EQ(json.at("migrations").at("gap_ms").at("mean").as_double(), 90);
  EXPECT_EQ(json.at("migrations").at("not_committed").at("destination_full").as_int64(), 4);
  EXPECT_EQ(json.at("failed").at("overloaded").as_int64(), 1);
  EXPECT_EQ(json.at("events").as_int64(), 17);
}

TEST(SimReport, SaysWhatCopiesTookFromStepsWhereAProfileSaysIt) {
  auto setup = setup_with_priority();
  auto run = three();
  run.slowed = {4, std::chrono::milliseconds(200), std::chrono::milliseconds(2), 0.015};
  EXPECT_EQ(to_json(setup, make_report(setup, run)).find("slowed_steps"), std::string::npos);
  EXPECT_EQ(to_table(setup, make_report(setup, run)).find("slower steps"), std::string::npos);
  setup.copies_slow_steps = true;
  const auto report = make_report(setup, run);
  const auto slowed = boost::json::parse(to_json(setup, report)).at("migrations").at("slowed_steps");
  EXPECT_EQ(slowed.at("count").as_int64(), 4);
  EXPECT_DOUBLE_EQ(slowed.at("mean").as_double(), 0.01);
  EXPECT_DOUBLE_EQ(slowed.at("max").as_double(), 0.015);
  EXPECT_NE(to_table(setup, report).find("4 that decode while KV leaves or arrives, by 1.00 %, at most 1.50 %"),
            std::string::npos);
}

TEST(SimReport, SaysHowBusyDevicesWereAndHowFullTheirSteps) {
  auto setup = setup_with_priority();
  auto run = three();
  run.instance_seconds = 10;
  run.steps = {20, 50, 300, std::chrono::seconds(4)};
  setup.stages = 2;
  auto report = make_report(setup, run);
  auto json = boost::json::parse(to_json(setup, report)).as_object();
  EXPECT_EQ(json.at("steps").at("count").as_int64(), 20);
  EXPECT_DOUBLE_EQ(json.at("steps").at("requests_mean").as_double(), 2.5);
  EXPECT_DOUBLE_EQ(json.at("steps").at("tokens_mean").as_double(), 15);
  EXPECT_DOUBLE_EQ(json.at("steps").at("busy_share").as_double(), 0.2);
  EXPECT_FALSE(json.contains("central_scheduler"));
  EXPECT_NE(
      to_table(setup, report).find("20, of 2.50 requests and 15.00 tokens on average; devices busy 20.0 % of the time"),
      std::string::npos);

  gpu::sim::central_scheduler central(std::chrono::microseconds(200), std::chrono::microseconds(0));
  for (int i = 0; i < 2; ++i) (void)central.plan(std::chrono::seconds(1), 1);
  run.central = central;
  report = make_report(setup, run);
  json = boost::json::parse(to_json(setup, report)).as_object();
  EXPECT_DOUBLE_EQ(json.at("central_scheduler").at("stall_ms_mean").as_double(), 0.3);
  EXPECT_DOUBLE_EQ(json.at("central_scheduler").at("stall_ms_max").as_double(), 0.4);
  EXPECT_NE(to_table(setup, report).find("lets a step wait for 0.300 ms, at most 0.400 ms"), std::string::npos);
}

TEST(SimReport, SaysWhereLayersAreOnceSomeHaveMoved) {
  const sim_setup setup;
  auto run = three();
  run.layers.by_stage[protocols::instance_id{3}] = {2, 2};
  EXPECT_FALSE(boost::json::parse(to_json(setup, make_report(setup, run))).as_object().contains("layers"));
  run.layers.by_stage[protocols::instance_id{3}] = {3, 1};
  run.layers.moves = 1;
  const auto report = make_report(setup, run);
  const auto layers = boost::json::parse(to_json(setup, report)).at("layers");
  EXPECT_EQ(layers.at("moves").as_int64(), 1);
  EXPECT_EQ(boost::json::serialize(layers.at("by_stage")), R"({"3":[3,1]})");
  EXPECT_NE(to_table(setup, report).find("moved once; by stage 3, 1 (1 instance)"), std::string::npos);
}

TEST(SimReport, ComparesFirstTokensWithWhatWasExpected) {
  const sim_setup setup;
  auto run = three();
  run.requests[0].dispatched_ns = 0;
  run.requests[0].expected_ns = 125 * per_ms; // and it took 100
  const auto report = make_report(setup, run);
  EXPECT_EQ(report.over_expected.count, 2U);
  EXPECT_DOUBLE_EQ(report.over_expected.max, 290.0 / 240);
  EXPECT_DOUBLE_EQ(report.over_expected.p50, (290.0 / 240 + 0.8) / 2);
  EXPECT_DOUBLE_EQ(report.expected_wrong_by, 75.0 / 390);
  EXPECT_NE(to_table(setup, report)
                .find("\nfirst tokens        1.00 of what was expected at the median, P99 1.20; wrong "
                      "by 19.2 % in all\n"),
            std::string::npos)
      << to_table(setup, report);
  run.requests[0].expected_ns = run.requests[1].expected_ns = 0;
  EXPECT_EQ(to_table(setup, make_report(setup, run)).find("first tokens"), std::string::npos);
}

TEST(SimReport, WritesALineForEachRequestAndSample) {
  auto run = three();
  run.samples = {sample_at(0, 1, 0), sample_at(1000, 2, 1)};
  const auto requests = requests_csv(run);
  EXPECT_EQ(std::count(requests.begin(), requests.end(), '\n'), 4);
  EXPECT_NE(requests.find("\n1,1,100,1,0,1.000000000,1.300000000,1.300000000,1.300000000,1,0,0.000000000,1,"
                          "0.030000000,,,1.250000000,0.000000000\n"),
            std::string::npos)
      << requests;
  const auto samples = samples_csv(run);
  EXPECT_EQ(std::count(samples.begin(), samples.end(), '\n'), 3);
  EXPECT_NE(samples.find("\n1.000,0,0,0,0,0,200,2,1,0,0,0,0,0\n"), std::string::npos) << samples;
  const auto files = plots({}, run);
  EXPECT_EQ(files.size(), 4U);
  for (const auto& [name, text] : files) EXPECT_TRUE(text.starts_with("<svg ") && text.ends_with("</svg>\n")) << name;
}

TEST(SimReport, CountsRolesWhereInstancesHaveSome) {
  auto run = three();
  run.samples = {sample_at(0, 1, 0), sample_at(1000, 2, 1), sample_at(4000, 2, 1)};
  EXPECT_FALSE(make_report({}, run).roles);
  EXPECT_EQ(to_json({}, make_report({}, run)).find("\"roles\""), std::string::npos);
  run.samples[0].prefill = 3;
  run.samples[0].decode = 1;
  run.samples[1].prefill = 1;
  run.samples[1].decode = 3;
  run.role_changes["decode"] = 2;
  const auto report = make_report({}, run);
  ASSERT_TRUE(report.roles);
  EXPECT_DOUBLE_EQ(report.roles->prefill, 1.5);
  EXPECT_DOUBLE_EQ(report.roles->decode, 2.5);
  EXPECT_EQ(report.roles->prefill_least, 1U);
  EXPECT_EQ(report.roles->prefill_most, 3U);
  EXPECT_NE(to_json({}, report)
                .find("\"roles\":{\"prefill_mean\":1.5E0,\"prefill_least\":1,\"prefill_most\":3,"
                      "\"decode_mean\":2.5E0,\"changes\":{\"decode\":2}}"),
            std::string::npos)
      << to_json({}, report);
  EXPECT_NE(to_table({}, report).find("1.50 prefill (1 to 3), 2.50 decode on average; changed: 2 decode"),
            std::string::npos);
  EXPECT_NE(plots({}, run).at("instances.svg").find("prefill"), std::string::npos);
}

TEST(SimReport, PlotsOfALongRunAreNotLargerAndKeepItsPeaks) {
  auto run = three();
  for (std::int64_t i = 0; i < 100'000; ++i) run.samples.push_back(sample_at(1000 * i, i == 77'777 ? 200 : 20, 0));
  for (std::size_t i = 0; i < run.samples.size(); ++i) run.samples[i].open = static_cast<std::uint32_t>(i % 7);
  const auto files = plots({}, run);
  for (const auto& [name, text] : files) EXPECT_LT(text.size(), 200'000U) << name;
  EXPECT_NE(files.at("memory.svg").find(">100</text>"), std::string::npos);
}

TEST(SvgPlot, PutsValuesWhereTheAxesSay) {
  svg_plot plot;
  plot.title = "a < b & c";
  plot.lines.push_back({"", {{0, 0}, {10, 100}}, false, true});
  const auto text = to_svg(plot);
  EXPECT_NE(text.find("a &lt; b &amp; c"), std::string::npos);
  // The lower left and the upper right corner of the area.
  EXPECT_NE(text.find("<path d=\"M76.0,364.0L702.0,40.0\""), std::string::npos) << text;
  EXPECT_NE(text.find("<circle cx=\"702.0\" cy=\"40.0\""), std::string::npos);
  EXPECT_NE(text.find(">100</text>"), std::string::npos);
}

TEST(SvgPlot, BeginsAtZeroHoweverLittleItsValuesDiffer) {
  for (const auto& values : {std::pair{16.0, 16.0}, std::pair{60.0, 90.0}}) {
    svg_plot plot;
    plot.lines.push_back({"", {{0, values.first}, {10, values.second}}});
    const auto text = to_svg(plot);
    EXPECT_NE(text.find("y=\"368.0\" text-anchor=\"end\">0</text>"), std::string::npos) << text;
  }
}

TEST(SvgPlot, HasItsLegendWhereItsLinesLeaveRoom) {
  svg_plot plot;
  plot.lines.push_back({"first", {{1, 0}, {10, 1}}});
  plot.lines.push_back({"second", {{2, 0}, {5, 1}}});
  EXPECT_NE(to_svg(plot).find("<text x=\"112.0\" y=\"56.0\" text-anchor=\"start\">first<"), std::string::npos);
  plot.legend_below = true;
  const auto text = to_svg(plot);
  EXPECT_NE(text.find("<text x=\"666.0\" y=\"337.0\" text-anchor=\"end\">first<"), std::string::npos) << text;
  EXPECT_NE(text.find("<text x=\"666.0\" y=\"352.0\" text-anchor=\"end\">second<"), std::string::npos);
}

TEST(SvgPlot, LeavesOutWhatALogarithmCannotShow) {
  svg_plot plot;
  plot.log_x = true;
  plot.lines.push_back({"x", {{0, 1}, {1, 2}, {100, 3}}});
  const auto text = to_svg(plot);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_NE(text.find(">100</text>"), std::string::npos);
  EXPECT_NO_THROW(static_cast<void>(to_svg({})));
}

} // namespace godwit::main
