// `godwit sim`: what can be typed, and what is refused.
#include "main/sim_command_support.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace godwit::main::test {

TEST(SimCommand, RefusesWhatWouldDoNothing) {
  for (const auto& [line, why] : {
           std::pair{"--early-rejection", "it needs --admission-ttft or --admission-tpot"},
           std::pair{"--early-rejection --slo-ttft 1000", "it needs --admission-ttft or --admission-tpot"},
           std::pair{"--scaling-freeness-min 50", "it needs --scaling on"},
           std::pair{"--role-policy balance", "it needs --roles"},
           std::pair{"--scheduler-role-hold 9s", "it needs --roles"},
           std::pair{"--kv-store-load-min 64", "it needs --kv-store-bytes"},
           std::pair{"--draft-acceptance 0.9", "give --speculation-tokens or --draft-profile"},
       }) {
    const auto refused = typed("--profile toy --lengths fixed:10:5 --requests 3 --instances 1 " + std::string(line));
    EXPECT_EQ(refused.code, 2) << line;
    EXPECT_NE(refused.err.find(why), std::string::npos) << line << ": " << refused.err;
  }
  for (const auto* const fine : {"--early-rejection --admission-ttft 1s", "--no-early-rejection", "--role-policy fixed",
                                 "--scaling dry_run --scaling-freeness-min 50"})
    EXPECT_EQ(typed("--profile toy --lengths fixed:10:5 --requests 3 --instances 1 " + std::string(fine)).code, 0)
        << fine;
}

TEST(SimCommand, RefusesWhatItDoesNotKnowWithOneLine) {
  const auto refused = [](auto change, const char* names) {
    auto options = options_of("S-S", 4, 10);
    change(options);
    const auto result = simulate(options);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_TRUE(result.out.empty()) << result.out;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  refused([](auto& o) { o.policy = "fair"; }, "--policy: no policy is called 'fair'; known are llumnix, ");
  refused([](auto& o) { o.profile = "b200"; }, "--profile: ");
  refused([](auto& o) { o.load.lengths = "X-X"; }, "--lengths: ");
  refused([](auto& o) { o.load.priority_share = "urgent=0.5"; }, "urgent");
  refused([](auto& o) { o.load.priority_share = "normal=0.3"; },
          "--priority-share: normal is what requests have anyway; name a higher one");
  refused([](auto& o) { o.policy = "llumnix-base", o.load.priority_share = "hihg=0.1"; }, "'hihg'");
  refused([](auto& o) { o.load.ttft_ms = 0; }, "--slo-ttft");
  refused([](auto& o) { o.load.trace = "/nowhere/trace.csv", o.load.rate.reset(), o.load.cv = 4; }, "--cv is of drawn");
  auto missing = options_of("S-S", 4, 10);
  missing.load.trace = "/nowhere/trace.csv";
  EXPECT_EQ(simulate(missing).code, 1);
}

TEST(SimCommand, RefusesWordsThatMeanNothingWithOneLine) {
  const auto refused = [](const std::string& line, const std::string& says) {
    const auto result = typed(line);
    EXPECT_EQ(result.code, 2) << line;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_LT(result.err.size(), 200U);
  };
  for (const auto* flag :
       {"--cluster-connection-timeout 9s", "--cluster-heartbeat-interval 1s", "--cluster-rejoin-pause-max 1s"})
    refused(flag, "is of processes that fail; it needs --faults SPEC");
  refused("--trace-level content", "--trace-level is of a recording; it needs --record FILE");
  refused("--trace-prompts", "--trace-prompts is of a recording; it needs --record FILE");
  for (const auto* seed : {"18446744073709551616", "-1", "1e3", "0x10", "1.5", "x"})
    refused("--seed " + std::string(seed), "--seed: expected a whole number from 0 to 18446744073709551615");
  for (const auto* time : {"500 parsecs", "ms", "x", "500h"})
    refused("--slo-ttft '" + std::string(time) + "'", "--slo-ttft: expected milliseconds above 0, or a time such as");
  refused("--slo-tpot 0s", "--slo-tpot: expected milliseconds above 0, or a time such as 500ms");
  refused("--rate-scale 2", "--rate-scale plays a trace faster; it needs --trace FILE");
  refused("--faults crash:instance-0@100000h", "'100000h' is longer than any run; write at most 10000h");
}

TEST(SimCommand, RefusesOrdersDeadlinesAndAccuraciesThatThereAreNot) {
  for (const auto* wrong : {"--deadlines 5", "--deadlines 5-", "--deadlines -5", "--deadlines 5-1", "--deadlines 0-1",
                            "--deadlines 1-1e99", "--deadlines nan-nan", "--deadlines=", "--deadlines 1-2s"}) {
    const auto result = typed(wrong);
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_NE(result.err.find("--deadlines"), std::string::npos) << result.err;
  }
  for (const auto* wrong :
       {"--kv-store-disk-rate 1e9", "--kv-store-bytes 1GiB --kv-store-disk-bytes 1GiB --kv-store-disk-rate 0",
        "--kv-store-bytes 1GiB --kv-store-disk-bytes 1GiB --kv-store-disk-dir /tmp",
        "--kv-store-bytes 1GiB --kv-store-disk-bytes 1000", "--kv-store-bytes 1000", "--length-accuracy 1.5",
        "--length-accuracy -1", "--length-accuracy nan", "--queue-order shortest", "--llumlet-queue-aging -1ms"})
    EXPECT_EQ(typed(wrong).code, 2) << wrong;
}

TEST(SimCommand, SimulatesNoThousandYears) {
  auto options = options_of("S-S", 2, 10);
  options.load.rate = 1e-9;
  const auto result = simulate(options);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("days after the first one, and at most 366 are simulated"), std::string::npos)
      << result.err;
}

TEST(SimCommand, TakesEverySeedOf64BitsAndObjectivesInMillisecondsOrWithTheirUnit) {
  const std::string small = "--json --instances 1 --lengths S-S --rate 4 --requests 4 ";
  const auto setup = [&](const std::string& more) {
    return boost::json::parse(typed(small + more).out).at("setup").as_object();
  };
  EXPECT_EQ(setup("--seed 18446744073709551615").at("seed").to_number<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_EQ(setup("--seed 010").at("seed").to_number<std::uint64_t>(), 10U);
  for (const auto* time : {"500", "500ms", "0.5s", "500.0"})
    EXPECT_EQ(setup("--slo-ttft " + std::string(time)).at("slo_ttft_ms").as_double(), 500) << time;
}

} // namespace godwit::main::test
