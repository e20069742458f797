// `godwit sim --policy`, and what migration, priorities and roles bring.
#include "main/sim_command_support.hpp"
#include "main/sim_policy.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace godwit::main::test {

TEST(SimPolicy, KnowsThePapersNamesAndEveryDispatcher) {
  EXPECT_EQ(find_bundle("llumnix")->migration, protocols::migration_policy::freeness);
  EXPECT_FALSE(find_bundle("llumnix-base")->priorities);
  EXPECT_EQ(find_bundle("infaas++")->dispatch, "infaas");
  EXPECT_EQ(find_bundle("round_robin")->migration, protocols::migration_policy::never);
  EXPECT_FALSE(find_bundle(""));
}

// What a plug-in of policies brings, tests/support/policies/plugin.cpp, by the command line.
namespace {

std::string with_plugin(const std::string& rest) {
  return "--instances 4 --lengths M-M --rate 2.4 --json --policy-plugin '" GODWIT_BINARY_DIR
         "/tests/policies/policies.so' " +
         rest;
}

double committed(const sim_outcome& run) { return figure(parse(run), "migrations", "committed"); }

} // namespace

TEST(SimPolicyPlugin, ItsDispatchPoliciesAreNamesLikeOthers) {
  const auto lowest = parse(typed(with_plugin("--requests 300 --policy lowest --samples /dev/null")));
  const auto& setup = lowest.at("setup").as_object();
  EXPECT_EQ(setup.at("policy").as_string(), "lowest");
  EXPECT_EQ(setup.at("dispatch").as_string(), "lowest");
  EXPECT_EQ(setup.at("migration").as_string(), "never");
  EXPECT_TRUE(setup.at("settings").as_object().contains("scheduler.policy_plugin"));
  const auto freest = parse(typed(with_plugin("--requests 300 --policy infaas++")));
  EXPECT_GT(figure(lowest, "prefill_ms", "p99"), 2 * figure(freest, "prefill_ms", "p99")); // all on one, while it can
  const auto unknown = typed(with_plugin("--requests 300 --policy highest"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("no policy is called 'highest'; known are llumnix, "), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find(", lowest\n"), std::string::npos) << unknown.err;
}

TEST(SimPolicyPlugin, ItsOtherPoliciesAreUsedWithoutAWord) {
  const auto usual = typed(with_plugin("--requests 300")),
             largest = typed(with_plugin("--requests 300 --policy-arguments largest"));
  EXPECT_GT(committed(usual), 0);
  EXPECT_GT(committed(largest), 0);
  EXPECT_NE(figure(parse(usual), "end_to_end_ms", "mean"), figure(parse(largest), "end_to_end_ms", "mean"));
  EXPECT_EQ(figure(parse(typed(with_plugin("--requests 300 --policy-arguments stay"))), "migrations", "committed"), 0);
  EXPECT_EQ(committed(typed(with_plugin("--requests 300 --policy-arguments unpaired"))), 0);
  EXPECT_GT(committed(typed(with_plugin("--requests 300 --policy lowest --policy-arguments largest"))),
            0); // it says what moves
  const auto told = parse(typed(with_plugin("--requests 300 --policy-arguments hundred --llumlet-queue-order sjf")));
  EXPECT_GT(figure(told, "expected_lengths", "answers"), 0);
}

TEST(SimPolicyPlugin, WhatIsWrongWithItIsSaid) {
  const auto wrong = [](const std::string& line) {
    const auto result = typed(line);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_NE(wrong("--policy-plugin /no/such.so").find("scheduler.policy_plugin: it cannot be loaded: "),
            std::string::npos);
  EXPECT_NE(wrong("--policy-arguments x").find("scheduler.policy_arguments are of a plug-in"), std::string::npos);
  EXPECT_NE(wrong(with_plugin("--requests 300 --policy-arguments loudly"))
                .find("scheduler.policy_arguments: 'loudly' is no argument"),
            std::string::npos);
  EXPECT_NE(wrong(with_plugin("--policy-arguments llumnix"))
                .find("scheduler.policy_plugin: something built in is called 'llumnix'"),
            std::string::npos);
  EXPECT_NE(wrong(with_plugin("--policy-arguments hundred --length-accuracy 1")).find("--length-accuracy says"),
            std::string::npos);
  EXPECT_NE(wrong("--requests 0").find("--requests: 0 is all of a trace, and there is none"), std::string::npos);
  EXPECT_NE(wrong("--policy lowest").find("no policy is called 'lowest'"), std::string::npos);
}

TEST(SimCommand, AnswersEverythingWhateverThePolicy) {
  for (const auto* policy : {"llumnix", "llumnix-base", "infaas++", "round_robin", "least_requests", "power_of_two"}) {
    auto options = options_of("S-S", 6, 200);
    options.policy = policy;
    const auto report = parse(simulate(options));
    EXPECT_EQ(report.at("answered").as_int64(), 200) << policy;
    EXPECT_EQ(report.at("setup").at("policy").as_string(), policy);
  }
}

TEST(SimCommand, TakesMigrationFromThePolicyUnlessTheSettingsSayOtherwise) {
  auto options = options_of("S-S", 6, 20);
  options.policy = "infaas++";
  EXPECT_EQ(parse(simulate(options)).at("setup").at("migration").as_string(), "never");
  options.migration_told = true;
  options.settings.scheduler.migration = protocols::migration_policy::defrag;
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("setup").at("dispatch").as_string(), "infaas");
  EXPECT_EQ(report.at("setup").at("migration").as_string(), "defrag");
}

// Llumnix section 6.3: at a rate that loads the instances, live rescheduling keeps the tail of prefill latency short.
TEST(SimCommand, FindsLlumnixAheadOfInfaasAndRoundRobinInTheTailOfPrefill) {
  const auto p99 = [](const char* policy) {
    double sum = 0; // one run of so few instances says little
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      auto options = options_of("M-M", 2.1, 1500);
      options.policy = policy;
      options.load.seed = seed;
      const auto report = parse(simulate(options));
      EXPECT_EQ(report.at("answered").as_int64(), 1500);
      sum += figure(report, "prefill_ms", "p99");
    }
    return sum;
  };
  const auto llumnix = p99("llumnix");
  EXPECT_LT(llumnix, 0.8 * p99("infaas++"));
  EXPECT_LT(llumnix, 0.4 * p99("round_robin"));
}

TEST(SimCommand, GivesHighPriorityItsDueUnlessThePolicyIgnoresIt) {
  const auto high_mean = [](const char* policy) {
    auto options = options_of("S-S", 12, 2000);
    options.policy = policy;
    options.load.priority_share = "high=0.1";
    options.load.cv = 8;
    const auto report = parse(simulate(options));
    const auto& levels = report.at("levels").as_array();
    EXPECT_EQ(levels.size(), 2U);
    EXPECT_EQ(levels.at(1).at("priority").as_string(), "high");
    return levels.at(1).at("prefill_ms").at("mean").to_number<double>();
  };
  EXPECT_LT(high_mean("llumnix"), 0.85 * high_mean("llumnix-base"));
}

TEST(SimCommand, CallsThePrioritiesAsTheSettingsDo) {
  auto options = options_of("S-S", 4, 40);
  options.settings.priorities.execution = "batch=0,chat=20";
  options.load.priority_share = "chat=0.5";
  const auto report = parse(simulate(options));
  const auto& levels = report.at("levels").as_array();
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels.at(0).at("priority").as_string(), "batch");
  EXPECT_EQ(levels.at(1).at("priority").as_string(), "chat");
}

TEST(SimCommand, KeepsPrefillAndDecodingApart) {
  auto options = options_of("S-S", 4, 60);
  options.instances = 3;
  options.settings.instances.roles = {"prefill", "decode"};
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("answered").as_int64(), 60);
  EXPECT_EQ(report.at("migrations").at("by_cause").at("handoff").as_int64(), 60);
  options.settings.instances.roles = {"prefill:3", "decode"};
  EXPECT_EQ(simulate(options).code, 2);
  options.settings.instances.roles = {"prefill", "decode"};
  options.policy = "round_robin"; // moves nothing
  EXPECT_EQ(simulate(options).code, 2);
  options.settings.scheduler.migration = protocols::migration_policy::none;
  options.migration_told = true;
  EXPECT_EQ(parse(simulate(options)).at("answered").as_int64(), 60);
}

// A pool as large as the longest request is large enough for it to come.
TEST(SimCommand, ARequestAsLongAsThePoolMovesToAnotherOne) {
  auto options = options_of("fixed:10:20000", 1, 3);
  options.instances = 2;
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("answered").to_number<int>(), 3);
  EXPECT_FALSE(report.at("migrations").at("not_committed").as_object().contains("incompatible"));
  EXPECT_GT(report.at("migrations").at("committed").to_number<int>(), 0);
}

} // namespace godwit::main::test
