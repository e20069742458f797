// `godwit sim`: what steps take, and who makes them longer or shorter.
#include "main/sim_command_support.hpp"

#include <godwit/gpu/sim/profile.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>

namespace godwit::main::test {

// Sarathi-Serve: a prompt in large pieces makes those wait that decode beside it, of which their mean says little.
TEST(SimCommand, TellsHowLongTokensWaitForPromptsBesideThem) {
  const auto longest = [](std::uint32_t step_tokens) {
    auto options = options_of("fixed:4000:200", 0.5, 60);
    options.instances = 1;
    options.settings.llumlet.step_tokens_max = step_tokens;
    return figure(parse(simulate(options)), "token_gap_ms", "max");
  };
  EXPECT_GT(longest(4096), 3 * longest(256));
}

TEST(SimCommand, SaysWhatCopiesTookFromStepsWhereTheProfileLetsThem) {
  const scratch folder("copies");
  auto device = *gpu::sim::open_profile("llama-7b-a10");
  auto options = options_of("M-M", 2.4, 600);
  options.profile = folder.write("same.json", to_json(device));
  EXPECT_FALSE(parse(simulate(options)).at("migrations").as_object().contains("slowed_steps"));
  device.link.device_bytes_per_second = device.kv_bytes_per_second;
  options.profile = folder.write("slower.json", to_json(device));
  const auto report = parse(simulate(options));
  ASSERT_GT(report.at("migrations").at("committed").to_number<int>(), 0);
  const auto slowed = report.at("migrations").at("slowed_steps");
  EXPECT_GT(slowed.at("count").to_number<int>(), 0);
  EXPECT_GT(slowed.at("mean").as_double(), 0);
  EXPECT_LE(slowed.at("mean").as_double(), slowed.at("max").as_double());
}

TEST(SimCommand, CountsTheStepsOfTheRunAndNotOfTheStart) {
  for (const std::string more : {"", " --central-scheduler 1000"}) {
    const auto report = boost::json::parse(
        typed("--json --instances 1 --lengths fixed:64:64 --rate 1 --requests 1 --policy llumnix" + more).out);
    EXPECT_EQ(report.at("steps").at("count").as_int64(), 64) << "a prompt, and a token each";
    const auto busy = report.at("steps").at("busy_share").as_double();
    EXPECT_GT(busy, more.empty() ? 0.9 : 0.8);
    EXPECT_LE(busy, 1);
    if (!more.empty()) {
      EXPECT_DOUBLE_EQ(report.at("central_scheduler").at("stall_ms_max").as_double(), 1);
    }
  }
}

// Figure 16 of Llumnix: instances that one scheduler plans for wait for one another, more with every one of them, and
// from where the plans of all take longer than a step each token takes that long.
TEST(SimCommand, InstancesThatOneSchedulerPlansForWaitForOneAnother) {
  const auto run = [](int instances, const std::string& more) {
    const auto result = typed(fmt::format("--json --lengths fixed:64:64 --rate {} --requests {} --instances {} {}",
                                          3 * instances, 40 * instances, instances, more));
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto decode_ms = [](const boost::json::object& of) { return figure(of, "decode_ms", "mean"); };
  const auto stall_ms = [](const boost::json::object& of) { return figure(of, "central_scheduler", "stall_ms_mean"); };
  const std::string central = "--central-scheduler 4000,100";
  const auto two = run(2, central), eight = run(8, central), sixteen = run(16, central);
  EXPECT_LT(stall_ms(two), 2 * 4.9) << "most find it idle: a plan takes 4 ms, and 0.1 for each of some nine requests";
  EXPECT_GT(stall_ms(sixteen), 1.5 * stall_ms(eight));
  EXPECT_GT(decode_ms(sixteen), 1.3 * decode_ms(two));
  EXPECT_GT(decode_ms(sixteen), 16 * 4.0) << "a plan of each is made between two steps of one";
  EXPECT_NEAR(decode_ms(run(16, "")), decode_ms(run(2, "")), 0.1 * decode_ms(two));
  EXPECT_EQ(two.at("setup").at("settings").at("central_scheduler").as_string(), "4000,100");
  EXPECT_LT(figure(sixteen, "steps", "busy_share"), figure(two, "steps", "busy_share"));
  const auto free = run(2, "--central-scheduler 0"), none = run(2, "");
  EXPECT_EQ(free.at("end_to_end_ms"), none.at("end_to_end_ms"));
}

TEST(SimCommand, RefusesACentralSchedulerThatCannotBe) {
  for (const auto* const line : {"", "x", "-1", "1,", "1,x", "1,-1", "1;2", "1,2,3", "nan", "1e99", "20000000"}) {
    const auto refused = typed(
        fmt::format("--profile toy --lengths fixed:10:5 --requests 3 --instances 1 --central-scheduler={}", line));
    EXPECT_EQ(refused.code, 2) << line;
    EXPECT_NE(refused.err.find("--central-scheduler"), std::string::npos) << refused.err;
  }
  const auto slow =
      typed("--profile toy --lengths fixed:10:5 --requests 3 --instances 200 --central-scheduler 1000000");
  EXPECT_EQ(slow.code, 2);
  EXPECT_NE(slow.err.find("instances.step_timeout"), std::string::npos) << slow.err;
  for (const auto* const more :
       {"--pipeline-parallel 2", "--draft-profile llama-2-7b-h100", "--faults crash:instance-0@1s"}) {
    const auto refused = typed(fmt::format("--profile llama-2-70b-h100 --lengths fixed:10:5 --requests 3 --instances 1 "
                                           "--central-scheduler 5 {}",
                                           more));
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("leave out"), std::string::npos) << refused.err;
  }
}

// Prompt lookup finds nothing in what never repeats itself; in what does it shortens the answers of few requests.
TEST(SimCommand, DraftsAreRightAsOftenAsItIsTold) {
  const std::string line =
      "--json --profile llama-2-70b-h100 --instances 2 --lengths fixed:64:300 --rate 0.2 --requests 20";
  const auto decode_ms = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).at("decode_ms").at("mean").as_double();
  };
  const auto plain = decode_ms("");
  EXPECT_EQ(decode_ms(" --speculation-tokens 4"), plain);
  EXPECT_NE(typed(line + " --draft-acceptance 0.8").err.find("of which there are none"), std::string::npos);
  const auto some = decode_ms(" --speculation-tokens 4 --draft-acceptance 0.5");
  const auto most = decode_ms(" --speculation-tokens 4 --draft-acceptance 0.9");
  EXPECT_LT(some, 0.95 * plain);
  EXPECT_LT(most, 0.6 * plain);
  EXPECT_NE(
      typed("--instances 1 --lengths fixed:8:8 --rate 1 --requests 2 --speculation-tokens 2 --draft-acceptance 0.5")
          .out.find("draft_acceptance"),
      std::string::npos)
      << "the report names it";
  for (const auto* wrong : {"2", "-0.1", "nan", "much"})
    EXPECT_EQ(typed("--draft-acceptance " + std::string(wrong)).code, 2) << wrong;
}

TEST(SimCommand, ADraftModelTakesTimeAndMemoryAndIsRightAsOftenAsItIsTold) {
  const std::string line =
      "--json --profile llama-2-70b-h100 --instances 2 --lengths fixed:64:300 --rate 0.2 --requests 20";
  const auto report = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out);
  };
  const auto decode_ms = [&](const std::string& more) { return report(more).at("decode_ms").at("mean").as_double(); };
  const std::string draft = " --draft-profile llama-2-7b-h100";
  const auto plain = decode_ms(""), never = decode_ms(draft), most = decode_ms(draft + " --draft-acceptance 0.9"),
             always = decode_ms(draft + " --draft-acceptance 1");
  EXPECT_GT(never, 1.1 * plain) << "its passes for nothing";
  EXPECT_LT(most, 0.95 * plain);
  EXPECT_LT(always, most);
  EXPECT_GT(decode_ms(draft + " --draft-acceptance 1 --draft-tokens 1"), always) << "fewer at a time";
  EXPECT_EQ(report(draft), report(draft)) << "the same run, byte for byte";
  EXPECT_NE(typed(line + draft).out.find("draft_profile"), std::string::npos) << "the report names it";
  EXPECT_NE(typed("--draft-profile nothing").err.find("--draft-profile: "), std::string::npos);
  EXPECT_EQ(typed("--draft-profile llama-2-70b-a40").code, 2) << "no room beside a 7B's A10";
  EXPECT_EQ(typed(line + " --draft-tokens 4").code, 2);
  EXPECT_NE(typed(line + " --draft-tokens 4").err.find("needs --draft-profile"), std::string::npos);
}

TEST(SimCommand, ThePartsOfAPromptAreComputedByAllStagesAtOnce) {
  const std::string line = "--json --profile llama-2-70b-h100 --instances 2 --lengths fixed:2000:50 --rate 0.2 "
                           "--requests 20 --llumlet-step-tokens-max 2048";
  const auto mean_of = [&](const std::string& more, const char* what) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).at(what).at("mean").as_double();
  };
  const std::string four = " --pipeline-parallel 4";
  const auto alone = mean_of("", "prefill_ms"), cut = mean_of(four, "prefill_ms"),
             whole = mean_of(four + " --instances-pipeline-rows 0", "prefill_ms");
  EXPECT_LT(cut, 0.6 * alone);
  EXPECT_NEAR(whole, alone, 0.02 * alone);
  EXPECT_NEAR(mean_of(four, "decode_ms"), mean_of("", "decode_ms"), 0.02 * mean_of("", "decode_ms"));
  EXPECT_EQ(typed(line + four).out, typed(line + four).out) << "the same run, byte for byte";
  // Of the same requests four devices hold the KV in a smaller part of their memory than one, since they have the
  // weights once; with a draft model on the first of them that one has room for fewest.
  const auto used = [&](const std::string& more) {
    return boost::json::parse(typed(line + more).out).at("memory").at("used_share").to_number<double>();
  };
  const auto one_pool = used(""), four_pools = used(four);
  EXPECT_GT(four_pools, 0);
  EXPECT_LT(four_pools, one_pool / 4);
  EXPECT_GT(used(four + " --draft-profile llama-2-7b-h100"), 1.5 * four_pools);
  const auto refused =
      typed("--profile toy --instances 1 --lengths fixed:8:8 --rate 1 --requests 2 --pipeline-parallel 64");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--pipeline-parallel: the model's"), std::string::npos) << refused.err;
}

} // namespace godwit::main::test
