#include <main/policy_plugins.hpp>
#include <main/replay_node.hpp>
#include <main/replay_simulation.hpp>
#include <main/simulate.hpp>

#include <godwit/runtime/trace/file.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

// Recorded simulations, run again.
namespace godwit::main {
namespace {

namespace trace = runtime::trace;

class ReplayOfSimulations : public ::testing::Test {
protected:
  void SetUp() override {
    file = (std::filesystem::path(::testing::TempDir()) / ("godwit-replay-test-" + std::to_string(::getpid()) + ".gwt"))
               .string();
  }
  void TearDown() override { std::filesystem::remove(file); }

  /// As `godwit sim ARGUMENTS... --record FILE` would make it.
  [[nodiscard]] trace::recording record(const std::vector<std::string>& arguments, const sim_options& options) {
    auto recorded = options;
    recorded.record = file;
    std::ostringstream out, err;
    EXPECT_EQ(run_sim(recorded, out, err), 0) << err.str();
    auto read = trace::read_file(file);
    if (!read) throw std::runtime_error(read.error().message);
    // The facts name this test's command line; here is the one that the options stand for.
    auto& facts = read->processes.front().facts;
    std::erase_if(facts, [](const auto& fact) { return fact.name.starts_with("argument:"); });
    facts.emplace_back("argument:0", "godwit");
    for (std::size_t i = 0; i < arguments.size(); ++i)
      facts.emplace_back("argument:" + std::to_string(i + 1), arguments[i]);
    return std::move(*read);
  }

  /// A small cluster whose seed is drawn.
  struct drawn {
    sim_options options;
    std::vector<std::string> arguments;
  };
  static drawn draw(std::uint64_t seed, const std::string& policy = "llumnix") {
    drawn out;
    auto& o = out.options;
    o.settings = sim_defaults();
    o.instances = 1 + static_cast<std::uint32_t>(seed % 4);
    o.policy = policy;
    o.load.requests = 5 + seed % 20;
    o.load.rate = 4;
    o.load.lengths = seed % 2 == 0 ? "S-S" : "M-M";
    o.load.seed = seed;
    if (seed % 3 == 0) {
      o.settings.trace.level = trace::level::content;
      o.settings.trace.prompts = true;
    }
    out.arguments = {"sim",
                     "--instances",
                     std::to_string(o.instances),
                     "--policy",
                     o.policy,
                     "--requests",
                     std::to_string(o.load.requests),
                     "--rate",
                     "4",
                     "--lengths",
                     o.load.lengths,
                     "--seed",
                     std::to_string(seed)};
    if (seed % 3 == 0) {
      for (const auto* more : {"--trace-level", "content", "--trace-prompts"}) out.arguments.emplace_back(more);
    }
    return out;
  }
  std::string file;
};

TEST_F(ReplayOfSimulations, AHundredRandomRunsComeAgainEventByEvent) {
  std::uint64_t handled = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto what = draw(seed);
    const auto result = replay_simulation(record(what.arguments, what.options), {});
    ASSERT_TRUE(result) << result.error().line;
    ASSERT_EQ(result->difference, "") << "seed " << seed << "\n" << result->recorded << "\n" << result->replayed;
    ASSERT_TRUE(result->complete);
    handled += result->handled;
  }
  EXPECT_GT(handled, 10'000U);
}

// Of a run that was killed.
TEST_F(ReplayOfSimulations, OfATornRecordingWhatThereIsComesAgain) {
  auto what = draw(10);
  what.options.load.requests = 600; // so that the file has several chunks, each of which is there or not
  *std::ranges::find(what.arguments, "15") = "600";
  const auto whole = record(what.arguments, what.options);
  const auto bytes = std::filesystem::file_size(file);
  std::uint64_t handled = 0;
  for (const auto share : {0.9, 0.6, 0.3}) {
    std::filesystem::resize_file(file, static_cast<std::uintmax_t>(static_cast<double>(bytes) * share));
    auto torn = trace::read_file(file);
    ASSERT_TRUE(torn) << torn.error().message;
    ASSERT_FALSE(torn->remarks.empty());
    ASSERT_FALSE(torn->processes.empty());
    torn->processes.front().facts = whole.processes.front().facts;
    const auto result = replay_simulation(std::move(*torn), {});
    ASSERT_TRUE(result) << result.error().line;
    EXPECT_EQ(result->difference, "") << share << "\n" << result->recorded << "\n" << result->replayed;
    EXPECT_FALSE(result->complete);
    handled += result->handled;
  }
  EXPECT_GT(handled, 1'000U);
}

// What is missing in the middle is the file's fault, not the actors'.
TEST_F(ReplayOfSimulations, OfADamagedRecordingSaysThatItIs) {
  auto what = draw(10);
  what.options.load.requests = 600;
  *std::ranges::find(what.arguments, "15") = "600";
  (void)record(what.arguments, what.options);
  {
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) / 2));
    bytes << "a bad sector";
  }
  auto damaged = trace::read_file(file);
  ASSERT_TRUE(damaged) << damaged.error().message;
  const auto result = replay_simulation(std::move(*damaged), {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().line.find("it is damaged"), std::string::npos) << result.error().line;
}

TEST_F(ReplayOfSimulations, AnEmptyWordDoesNotEndTheCommandLine) {
  auto what = draw(7);
  for (const auto* word : {"", "--csv"}) what.arguments.insert(what.arguments.begin() + 1, word);
  const auto result = replay_simulation(record(what.arguments, what.options), {});
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "") << result->recorded << "\n" << result->replayed;
}

TEST_F(ReplayOfSimulations, AnotherPolicyIsFoundAtItsFirstOtherDecision) {
  auto what = draw(8);
  what.options.instances = 4;
  what.options.load.requests = 40;
  auto arguments = what.arguments;
  arguments[2] = "4";
  arguments[6] = "40";
  auto recorded = record(arguments, what.options);
  for (auto& fact : recorded.processes.front().facts)
    if (fact.name == "argument:5") fact.value = "round_robin";
  const auto result = replay_simulation(std::move(recorded), {});
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "the runs part");
  EXPECT_NE(result->recorded.find("decision.dispatch"), std::string::npos) << result->recorded;
  EXPECT_NE(result->replayed.find("decision.dispatch"), std::string::npos) << result->replayed;
}

TEST_F(ReplayOfSimulations, APluginOfPoliciesIsLoadedAgain) {
  auto what = draw(5, "lowest");
  what.options.settings.scheduler.policy_plugin = GODWIT_BINARY_DIR "/tests/policies/policies.so";
  what.options.settings.scheduler.policy_arguments = "largest";
  auto recorded = record(what.arguments, what.options);
  const auto without = replay_simulation(recorded, {});
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().line.find("no policy is called 'lowest'"), std::string::npos) << without.error().line;
  what.arguments.insert(what.arguments.end(), {"--policy-plugin", what.options.settings.scheduler.policy_plugin,
                                               "--policy-arguments", "largest"});
  auto complete = record(what.arguments, what.options);
  {
    const replayed_policies none("");
    EXPECT_FALSE(replay_simulation(complete, {})) << "code that nobody has named";
  }
  for (auto& fact : complete.processes.front().facts)
    if (fact.value == what.options.settings.scheduler.policy_plugin) fact.value = "/where/it/was.so";
  const replayed_policies here(what.options.settings.scheduler.policy_plugin);
  const auto result = replay_simulation(complete, {});
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "");
  EXPECT_TRUE(result->complete);
}

TEST_F(ReplayOfSimulations, TheReplayStopsWhereItIsTold) {
  const auto what = draw(5);
  const auto recorded = record(what.arguments, what.options);
  runtime::sim::replay_limits limits;
  limits.stop_before = [](const trace::event&, const std::string& type) {
    return type.find("generate_order") != std::string::npos;
  };
  const auto result = replay_simulation(recorded, limits);
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "");
  EXPECT_FALSE(result->complete);
  EXPECT_GT(result->handled, 0U);
}

TEST_F(ReplayOfSimulations, EndsWhereTheRecordedOneWasInterrupted) {
  auto what = draw(3);
  what.options.load.requests = 400;
  what.options.record = file;
  std::ostringstream out, err;
  int asked = 0;
  EXPECT_EQ(run_sim(what.options, out, err, [&](const actors::sim::run_progress&) { return ++asked < 12; }), 1);
  auto recorded = trace::read_file(file);
  ASSERT_TRUE(recorded);
  auto& facts = recorded->processes.front().facts;
  std::erase_if(facts, [](const auto& fact) { return fact.name.starts_with("argument:"); });
  facts.emplace_back("argument:0", "godwit");
  for (std::size_t i = 0; i < what.arguments.size(); ++i) {
    auto text = what.arguments[i];
    if (i > 0 && what.arguments[i - 1] == "--requests") text = "400";
    facts.emplace_back("argument:" + std::to_string(i + 1), text);
  }
  const auto result = replay_simulation(std::move(*recorded), {});
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "") << result->recorded << "; " << result->replayed;
}

TEST_F(ReplayOfSimulations, WhatWasRecordedByAnotherVersionIsRefused) {
  const auto what = draw(5);
  auto recorded = record(what.arguments, what.options);
  for (auto& fact : recorded.processes.front().facts)
    if (fact.name == "version") fact.value = "0.0.0";
  const auto result = replay_simulation(recorded, {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().line.find("0.0.0"), std::string::npos);
  const auto node = replay_node(recorded, {});
  ASSERT_FALSE(node);
}

TEST(ReplayOfAProcess, AProgramOfOnesOwnIsNoCommandThatCouldBeRunAgain) {
  trace::recording own;
  own.names.emplace_back();
  own.processes.emplace_back().name = "mine";
  const auto result = replay_node(std::move(own), {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().line.find("no command of godwit recorded it"), std::string::npos) << result.error().line;
}

} // namespace
} // namespace godwit::main
