// `godwit plan`, and the search for the highest rate beneath it.
#include "main/plan.hpp"
#include "main/rate_search.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;

// --- highest_rate

struct asked_rates {
  double limit = 0;
  std::vector<double> asked;
  found_rate highest(double first, double precision = 0.05) {
    return highest_rate(
        [this](double rate) {
          asked.push_back(rate);
          return rate <= limit;
        },
        first, precision);
  }
};

TEST(HighestRate, IsFoundWithinThePrecisionFromWhereverItIsLookedFor) {
  for (const double limit : {0.5, 1.0, 7.3, 900.0})
    for (const double first : {0.5, 1.0, 16.0, 100.0}) {
      asked_rates rates{.limit = limit, .asked = {}};
      const auto found = rates.highest(first);
      EXPECT_TRUE(found.bounded);
      EXPECT_LE(found.rate, limit);
      EXPECT_GE(found.rate * 1.05, limit) << "from " << first;
      EXPECT_LE(rates.asked.size(), 30U);
      std::ranges::sort(rates.asked);
      EXPECT_EQ(std::ranges::adjacent_find(rates.asked), rates.asked.end()) << "none is asked for twice";
    }
}

TEST(HighestRate, OfNoneIsNone) {
  asked_rates rates{.limit = 0, .asked = {}};
  EXPECT_EQ(rates.highest(8).rate, 0);
  EXPECT_EQ(rates.asked.size(), 9U) << "and it ends";
}

TEST(HighestRate, WhereAllHoldItIsNotKnown) {
  asked_rates rates{.limit = 1e30, .asked = {}};
  const auto found = rates.highest(1);
  EXPECT_EQ(found.rate, 4096);
  EXPECT_FALSE(found.bounded);
  EXPECT_EQ(rates.asked.size(), 13U);
}

TEST(HighestRate, WhereSomeHoldAboveOnesThatDoNotItIsOneThatHolds) {
  std::vector<double> asked;
  const auto holds = [](double rate) { return rate <= 9 || (rate >= 10 && rate <= 11); };
  const auto found = highest_rate(
      [&](double rate) {
        asked.push_back(rate);
        return holds(rate);
      },
      2, 0.05);
  EXPECT_TRUE(holds(found.rate));
  EXPECT_GE(found.rate * 1.05, 9);
}

// --- the command

plan_options options_of(std::uint32_t instances) {
  plan_options o;
  o.sim.settings = sim_defaults();
  o.sim.instances = instances;
  o.sim.profile = "llama-2-70b-h100";
  o.sim.load.lengths = "fixed:512:32";
  o.sim.load.seed = 1;
  o.sim.load.requests = 300;
  o.sim.load.ttft_ms = 250;
  o.sim.load.tpot_ms = 22;
  o.sim.json = true;
  o.exact_requests = true;
  o.step_tokens = {512};
  o.precision = 0.2;
  return o;
}

struct plan_outcome {
  int code = 0;
  std::string out, err;
};
plan_outcome planned(const plan_options& options) {
  std::ostringstream out, err;
  const auto code = run_plan(options, out, err);
  return {code, out.str(), err.str()};
}

TEST(Plan, TriesEveryDivisionAndEverySizeOfAStepAndPutsTheBestFirst) {
  auto options = options_of(3);
  options.step_tokens = {256, 512};
  std::vector<std::size_t> told;
  const auto plan = make_plan(options, [&](std::size_t done, std::size_t of) {
    told.push_back(done);
    EXPECT_EQ(of, 6U);
  });
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->size(), 6U);
  EXPECT_EQ(told, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
  std::vector<std::string> ways;
  for (const auto& entry : *plan) {
    ways.push_back(entry.roles + " " + std::to_string(entry.step_tokens));
    EXPECT_GE(entry.attainment, options.attainment);
    EXPECT_GT(entry.rate, 0);
  }
  EXPECT_THAT(ways, ::testing::UnorderedElementsAre(" 256", " 512", "prefill:1,decode:2 256", "prefill:1,decode:2 512",
                                                    "prefill:2,decode:1 256", "prefill:2,decode:1 512"));
  EXPECT_TRUE(std::ranges::is_sorted(*plan, std::greater{}, &plan_entry::rate));
}

TEST(Plan, TakesNothingThatIsNoNumber) {
  for (const bool seconds : {false, true}) {
    auto options = options_of(2);
    (seconds ? options.seconds : options.attainment) = std::numeric_limits<double>::quiet_NaN();
    const auto refused = planned(options);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("--attainment is a share"), std::string::npos) << refused.err;
  }
}

TEST(Plan, IsWhatASimulationSays) {
  const auto options = options_of(2);
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const auto& entry : *plan) {
    auto sim = options.sim;
    sim.settings.llumlet.step_tokens_max = entry.step_tokens;
    if (!entry.roles.empty()) sim.settings.instances.roles = {"prefill:1", "decode:1"};
    sim.load.rate = entry.rate;
    const auto at = simulate_once(sim);
    ASSERT_TRUE(at);
    EXPECT_EQ(at->attainment, entry.attainment);
    EXPECT_EQ(at->times.prefill_ms.p99, entry.ttft_p99_ms);
    sim.load.rate = entry.rate * 2;
    const auto above = simulate_once(sim);
    ASSERT_TRUE(above);
    EXPECT_LT(above->attainment, options.attainment) << entry.roles;
  }
}

TEST(Plan, IsTheSameTwiceAndSaysHowToServe) {
  auto options = options_of(2);
  const auto first = planned(options);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, planned(options).out);
  const auto best = boost::json::parse(first.out).at("plan").at(0);
  EXPECT_THAT(std::string(best.at("flags").as_string()), HasSubstr("--instances 2"));
  options.sim.json = false;
  const auto table = planned(options);
  EXPECT_THAT(table.out, HasSubstr("godwit serve " + std::string(best.at("flags").as_string()) + "\n"));
  EXPECT_THAT(table.out, HasSubstr("all mixed"));
}

TEST(Plan, WhereNothingMeetsTheObjectivesSaysSo) {
  auto options = options_of(2);
  options.sim.load.ttft_ms = 0.001;
  options.sim.load.requests = 100;
  const auto result = planned(options);
  EXPECT_EQ(result.code, 1);
  const auto out = boost::json::parse(result.out);
  for (const auto& entry : out.at("plan").as_array()) {
    EXPECT_EQ(entry.at("requests_per_s").to_number<double>(), 0);
    EXPECT_TRUE(entry.at("attainment").is_null());
  }
  options.sim.json = false;
  EXPECT_THAT(planned(options).out, ::testing::Not(HasSubstr("godwit serve")));
}

// Answers that take long fill the memory slowly: a run that ends before tells of a cluster that is half empty.
TEST(Plan, ARunLastsTenTimesAsLongAsItsLongestRequests) {
  auto options = options_of(1);
  options.sim.profile = "llama-7b-a10";
  options.sim.load.lengths = "fixed:64:400"; // 20 s
  options.sim.load.ttft_ms = 500;
  options.sim.load.tpot_ms = 80;
  options.exact_requests = false;
  options.seconds = 10;
  auto plan = make_plan(options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->front().settled);
  const auto found = plan->front().rate;
  options.exact_requests = true; // some 10 s
  options.sim.load.requests = 100;
  plan = make_plan(options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->front().settled);
  EXPECT_GT(plan->front().rate, found);
  options.sim.json = false;
  EXPECT_THAT(planned(options).out, HasSubstr("in the long run it bears less"));
  EXPECT_THAT(planned(options).out, ::testing::ContainsRegex("all mixed .* ms  \\*\n")) << "the way itself says so";
}

TEST(Plan, OfATraceThatIsTooShortForThatItIsNotSettled) {
  const auto trace = ::testing::TempDir() + "godwit_plan_" + std::to_string(::getpid()) + ".csv";
  {
    std::ofstream file(trace);
    file << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    for (int i = 0; i < 320; ++i)
      file << "2024-01-01 00:" << i / 600 << i / 60 % 10 << ':' << i / 10 % 6 << i % 10 << ".0000000,64,400\n";
  }
  auto options = options_of(1);
  options.sim.profile = "llama-7b-a10";
  options.sim.load.trace = trace;
  options.sim.load.ttft_ms = 60'000; // so that some wait for long
  options.sim.load.tpot_ms = 300;
  options.exact_requests = false;
  options.seconds = 300;
  const auto plan = make_plan(options);
  std::filesystem::remove(trace);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_LT(320 / plan->front().rate, 10 * 20) << "arrivals last long enough: the test is of no use";
  EXPECT_FALSE(plan->front().settled);
}

TEST(Plan, ARateThatNothingBoundsIsToldAsSuch) {
  auto options = options_of(1);
  options.sim.load.requests = 100; // whose first tokens come in time whatever their number
  options.sim.load.ttft_ms = 1e7;
  options.sim.load.tpot_ms.reset();
  const auto out = boost::json::parse(planned(options).out);
  EXPECT_FALSE(out.at("plan").at(0).at("bounded").as_bool());
  options.sim.json = false;
  EXPECT_THAT(planned(options).out, HasSubstr(" ms  or more"));
}

TEST(Plan, SaysTheSettingsThatItWasMadeWith) {
  auto options = options_of(1);
  options.sim.policy = "infaas";
  options.sim.changed_flags = " --llumlet-sequences-max 32";
  options.sim.json = false;
  EXPECT_THAT(planned(options).out,
              HasSubstr("godwit serve --instances 1 --llumlet-step-tokens-max 512 --policy infaas "
                        "--migration never --llumlet-sequences-max 32\n"));
}

TEST(Plan, OfManyInstancesSomeDivisionsAreTriedAndOfTooManyNone) {
  auto options = options_of(plan_instances_max + 1);
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("128 instances at most"));
  options.sim.instances = 20;
  std::size_t all = 0;
  (void)make_plan(
      options, [&](std::size_t, std::size_t of) { all = of; }, [&] { return all == 0; });
  EXPECT_EQ(all, std::size_t{plan_all_up_to});
}

TEST(Plan, InterruptedItSaysWhatItHasFound) {
  auto options = options_of(2);
  bool told = false;
  std::ostringstream out, err;
  const auto code = run_plan(
      options, out, err, [&](std::size_t, std::size_t) { told = true; }, [&] { return !told; });
  EXPECT_EQ(code, 1);
  EXPECT_THAT(err.str(), HasSubstr("interrupted; 1 way tried"));
  EXPECT_EQ(boost::json::parse(out.str()).at("plan").as_array().size(), 1U);
}

TEST(Plan, WithoutMigrationOrOtherInstancesAllAreMixed) {
  auto options = options_of(3);
  options.sim.policy = "round_robin";
  auto plan = make_plan(options);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->size(), 1U);
  EXPECT_EQ(plan->front().roles, "");
  plan = make_plan(options_of(1));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->size(), 1U);
}

TEST(Plan, WhatIsWrongIsSaidInOneLine) {
  auto options = options_of(2);
  options.sim.load.ttft_ms.reset();
  options.sim.load.tpot_ms.reset();
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("--slo-ttft, --slo-tpot or both"));
  options = options_of(2);
  options.sim.load.requests = 20;
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("at least 100 requests a run, and there are 20"));
  options = options_of(2);
  options.sim.settings.scaling.mode = protocols::scaling_mode::on;
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("--scaling off"));
  options = options_of(2);
  options.sim.central = "5";
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("--central-scheduler"));
  options = options_of(2);
  options.sim.profile = "a-machine";
  EXPECT_EQ(planned(options).code, 2);
  EXPECT_THAT(planned(options).err, HasSubstr("--profile"));
}

} // namespace
} // namespace godwit::main
