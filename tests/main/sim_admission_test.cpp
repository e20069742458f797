// `godwit sim`: early rejection and autoscaling.
#include "main/sim_command_support.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

namespace godwit::main::test {

// Twice what four instances can do, for a minute.
TEST(SimCommand, EarlyRejectionKeepsWhatItServesWithinItsObjective) {
  const auto overloaded = [](const char* policy, bool rejects) {
    auto options = options_of("fixed:1000:50", 4, 900);
    options.policy = policy;
    options.load.rate = 15;
    options.load.ttft_ms = 2000;
    options.settings.admission.ttft = std::chrono::seconds(2);
    options.settings.admission.early_rejection = rejects;
    const auto result = simulate(options);
    return boost::json::parse(result.out).as_object();
  };
  for (const auto* policy : {"llumnix", "ttft"}) {
    const auto late = overloaded(policy, false);
    EXPECT_EQ(late.at("answered").to_number<int>(), 900);
    EXPECT_LT(late.at("slo_attainment").to_number<double>(), 0.3);
    const auto early = overloaded(policy, true);
    const auto answered = early.at("answered").to_number<double>();
    EXPECT_EQ(answered + early.at("failed").at("rejected").to_number<double>(), 900);
    EXPECT_GT(early.at("slo_attainment").to_number<double>() * 900, 0.9 * answered) << policy;
    EXPECT_GT(early.at("goodput_requests_per_s").to_number<double>(),
              2 * late.at("goodput_requests_per_s").to_number<double>())
        << policy;
    EXPECT_NEAR(early.at("expected_ttft").at("measured_over_expected").at("p50").to_number<double>(), 1, 0.25);
    EXPECT_LT(early.at("expected_ttft").at("wrong_by_share").to_number<double>(), 0.35);
  }
}

// A load of prompts, which leaves memory enough: only those who are refused say that instances are missing.
TEST(SimCommand, WhoIsRefusedBringsMoreInstances) {
  auto options = options_of("fixed:2000:10", 6, 1500);
  options.instances = 1;
  options.load.ttft_ms = 3000;
  options.settings.admission.ttft = std::chrono::seconds(3);
  options.settings.admission.early_rejection = true;
  options.settings.scaling.mode = protocols::scaling_mode::on;
  options.settings.scaling.instances_max = 8;
  const auto report = boost::json::parse(simulate(options).out).as_object();
  EXPECT_GT(report.at("instances").at("max").to_number<int>(), 2);
  EXPECT_GT(report.at("slo_attainment").to_number<double>(), 0.7);
}

// Neither of these is mended by more of them.
TEST(SimCommand, WhoIsRefusedForWhatNoInstanceMendsBringsNone) {
  const auto instances_of = [](const std::function<void(sim_options&)>& adjust) {
    auto options = options_of("fixed:1500:20", 6, 600);
    options.instances = 2;
    options.settings.admission.early_rejection = true;
    options.settings.scaling.mode = protocols::scaling_mode::on;
    options.settings.scaling.instances_max = 8;
    adjust(options);
    const auto report = boost::json::parse(simulate(options).out).as_object();
    EXPECT_GT(report.at("failed").at("rejected").to_number<int>(), 100);
    return report.at("instances").at("max").to_number<int>();
  };
  EXPECT_EQ(instances_of([](auto& o) { o.settings.admission.tpot = std::chrono::milliseconds(1); }), 2);
  EXPECT_EQ(instances_of([](auto& o) {
              o.settings.admission.ttft = std::chrono::seconds(1);
              o.settings.instances.roles = {"prefill", "decode"};
            }),
            2);
}

TEST(SimCommand, CountsOrdersThatWereGivenUp) {
  auto options = options_of("M-M", 3, 150);
  options.instances = 1;
  options.settings.scaling.mode = protocols::scaling_mode::on;
  options.settings.scaling.provision_timeout = std::chrono::seconds(5); // less than the profile's start
  EXPECT_GT(figure(parse(simulate(options)), "instances", "orders_given_up"), 0);
}

} // namespace godwit::main::test
