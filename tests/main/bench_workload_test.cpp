#include "main/bench_workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

namespace godwit::main {
namespace {

std::string sample(const std::string& name) {
  return (std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/protocols/workload/data" / name).string();
}

TEST(BenchWorkload, DrawsAHundredRequestsAtOnceUnlessTold) {
  const auto plan = plan_workload({});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->requests.size(), 100U);
  EXPECT_EQ(plan->requests.back().arrival_ns, 0);
  EXPECT_FALSE(plan->scheduled);
}

TEST(BenchWorkload, DrawsArrivalsAtTheRate) {
  auto options = bench_options{};
  options.requests = 2000;
  options.rate = 50.0;
  const auto plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->scheduled);
  EXPECT_NEAR(static_cast<double>(plan->requests.back().arrival_ns) * 1e-9, 40.0, 4.0);
  EXPECT_EQ(plan->arrivals, "Poisson, 50 requests/s");
}

TEST(BenchWorkload, GivesAShareOfDrawnAndTracedRequestsAnExecutionPriority) {
  auto options = bench_options{};
  options.requests = 1000;
  const auto high = [&] {
    const auto plan = plan_workload(options);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? std::ranges::count_if(plan->requests, [](const auto& r) { return r.priority == 1; }) : -1;
  };
  EXPECT_EQ(high(), 0);
  options.priority_share = "high=0.2";
  EXPECT_NEAR(static_cast<double>(high()), 200, 50);
  EXPECT_EQ(plan_workload(options)->priority, "high");
  options.trace = sample("mooncake_sample.jsonl");
  options.priority_share = "high=1";
  EXPECT_EQ(high(), 3);
}

TEST(BenchWorkload, RefusesAShareThatIsNone) {
  auto options = bench_options{};
  for (const auto* wrong : {"high", "=0.5", "high=", "high=1.5", "high=-1", "high=x", "high=nan", "0.5"}) {
    options.priority_share = wrong;
    const auto plan = plan_workload(options);
    ASSERT_FALSE(plan) << wrong;
    EXPECT_EQ(plan.error().exit_code, 2);
    EXPECT_NE(plan.error().message.find("NAME=SHARE"), std::string::npos);
  }
}

TEST(BenchWorkload, PlaysATraceFasterByAScaleOrAtARate) {
  auto options = bench_options{};
  options.trace = sample("mooncake_sample.jsonl"); // three requests within 27.0005 s
  options.scale = 2.0;
  auto plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->requests.back().arrival_ns, 13'500'250'000);
  options.scale = 1.0;
  options.rate = 1.0;
  plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_NEAR(static_cast<double>(plan->requests.back().arrival_ns), 2e9, 2.0);
  options.rate = std::numeric_limits<double>::infinity();
  plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->requests.back().arrival_ns, 0);
}

TEST(BenchWorkload, TakesTheFirstRequestsOfATrace) {
  auto options = bench_options{};
  options.trace = sample("azure_sample.csv");
  options.requests = 2;
  auto plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->requests.size(), 2U);
  EXPECT_EQ(plan->missing, 0U);
  options.requests = 5;
  plan = plan_workload(options);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->missing, 2U) << "it has three";
  options.requests = 0; // all
  EXPECT_EQ(plan_workload(options)->missing, 0U);
}

TEST(BenchWorkload, GivesATracesArrivalsToDrawnLengths) {
  auto options = bench_options{};
  options.trace = sample("mooncake_sample.jsonl");
  const auto traced = plan_workload(options);
  options.lengths = "fixed:128:64";
  const auto plan = plan_workload(options);
  ASSERT_TRUE(traced);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->requests.size(), traced->requests.size());
  EXPECT_TRUE(plan->scheduled);
  EXPECT_EQ(plan->name, "fixed:128:64 at the times of trace mooncake_sample.jsonl");
  EXPECT_EQ(plan->arrivals, traced->arrivals);
  for (std::size_t i = 0; i < plan->requests.size(); ++i) {
    EXPECT_EQ(plan->requests[i].arrival_ns, traced->requests[i].arrival_ns);
    EXPECT_EQ(plan->requests[i].prompt_tokens, 128U);
    EXPECT_EQ(plan->requests[i].answer_tokens, 64U);
    EXPECT_TRUE(plan->requests[i].prefix_hashes.empty()) << "they were of other prompts";
  }
}

TEST(BenchWorkload, GivesATracesLengthsToDrawnArrivals) {
  auto options = bench_options{};
  options.trace = sample("mooncake_sample.jsonl");
  const auto traced = plan_workload(options);
  options.arrivals = bench_arrivals::gamma;
  options.cv = 4;
  options.rate = 2;
  const auto plan = plan_workload(options);
  ASSERT_TRUE(traced);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->name, traced->name);
  EXPECT_EQ(plan->arrivals, "Gamma with CV 4, 2 requests/s");
  auto drawn = bench_options{};
  drawn.requests = traced->requests.size();
  drawn.cv = 4;
  drawn.rate = 2;
  const auto alone = plan_workload(drawn);
  ASSERT_TRUE(alone);
  for (std::size_t i = 0; i < plan->requests.size(); ++i) {
    EXPECT_EQ(plan->requests[i].arrival_ns, alone->requests[i].arrival_ns) << "those of the same seed without a trace";
    EXPECT_EQ(plan->requests[i].prompt_tokens, traced->requests[i].prompt_tokens);
    EXPECT_EQ(plan->requests[i].prefix_hashes, traced->requests[i].prefix_hashes);
  }
  options.arrivals = bench_arrivals::poisson;
  options.cv.reset();
  options.rate.reset();
  options.scale = 2;
  EXPECT_EQ(plan_workload(options)->arrivals, "Poisson, 0.148145 requests/s")
      << "twice the trace's own: 2 in 27.0005 s";
}

TEST(BenchWorkload, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](auto change) {
    auto options = bench_options{};
    change(options);
    const auto plan = plan_workload(options);
    EXPECT_FALSE(plan);
    if (plan) return std::string();
    EXPECT_EQ(plan.error().exit_code, 2);
    EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
    return plan.error().message;
  };
  const auto trace = sample("mooncake_sample.jsonl");
  EXPECT_EQ(refused([&](auto& o) { o.trace = trace, o.cv = 2; }),
            "--cv is of drawn arrivals, and a trace has its own; --arrivals gamma draws them");
  EXPECT_EQ(refused([&](auto& o) { o.trace = trace, o.arrivals = bench_arrivals::trace, o.cv = 1; }),
            "--cv is of drawn arrivals, and a trace has its own; --arrivals gamma draws them");
  EXPECT_EQ(refused([](auto& o) { o.arrivals = bench_arrivals::trace; }),
            "--arrivals trace are those of a trace; it needs --trace FILE");
  EXPECT_EQ(refused([&](auto& o) { o.trace = trace, o.lengths = "S-S", o.arrivals = bench_arrivals::poisson; }),
            "--lengths and --arrivals leave nothing of the trace; leave out one of the three");
  EXPECT_EQ(refused([](auto& o) { o.rate = 2, o.cv = 2, o.arrivals = bench_arrivals::poisson; }),
            "--cv: Poisson arrivals have a CV of 1; --arrivals gamma has any");
  EXPECT_EQ(refused([](auto& o) { o.cv = 2; }),
            "--arrivals and --cv are of gaps between requests, and without --rate there are none");
}

TEST(BenchWorkload, SaysWhatIsWrongAndWhoseFaultItIs) {
  const auto refused = [](auto change) {
    auto options = bench_options{};
    change(options);
    const auto plan = plan_workload(options);
    return plan ? bench_error{0, "accepted"} : plan.error();
  };
  EXPECT_EQ(refused([](auto& o) { o.lengths = "x"; }).exit_code, 2);
  EXPECT_EQ(refused([](auto& o) { o.rate = -1.0; }).exit_code, 2);
  EXPECT_EQ(refused([](auto& o) { o.cv = -1.0; }).exit_code, 2);
  EXPECT_EQ(refused([](auto& o) { o.scale = 2.0; }).exit_code, 2);
  EXPECT_EQ(refused([](auto& o) { o.trace = "t", o.scale = 2.0, o.rate = 1.0; }).exit_code, 2);
  const auto missing = refused([](auto& o) { o.trace = "no such file"; });
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.message.find("no such file"), std::string::npos);
  EXPECT_EQ(refused([](auto& o) { o.trace = GODWIT_SOURCE_DIR; }).exit_code, 1);
}

} // namespace
} // namespace godwit::main
