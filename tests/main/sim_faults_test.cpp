// `godwit sim --faults`.
#include "main/replay_simulation.hpp"
#include "main/simulate.hpp"

#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace godwit::main {
namespace {

struct faulty_outcome {
  int code = 0;
  std::string out;
  std::string err;
};

faulty_outcome simulate_faults(const sim_options& options) {
  std::ostringstream out, err;
  const auto code = run_sim(options, out, err);
  return {code, out.str(), err.str()};
}

sim_options with(const std::string& faults, std::size_t requests = 200) {
  sim_options o;
  o.settings = sim_defaults();
  o.instances = 4;
  o.load.lengths = "S-S";
  o.load.rate = 4;
  o.load.requests = requests;
  o.load.seed = 1;
  o.json = true;
  o.faults = faults;
  return o;
}

class SimFaults : public ::testing::Test {
protected:
  SimFaults() { std::filesystem::create_directories(folder); }
  ~SimFaults() override { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder / name).string(); }
  [[nodiscard]] static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("godwit_sim_faults_" + std::to_string(::getpid()));
};

constexpr auto several = "crash:instance-3@5s+10s,cut:head/instance-2@10s+2s,freeze:instance-1@20s+2s,"
                         "slow:instance-0x4@10s+20s,random:6/min";

} // namespace

TEST_F(SimFaults, TheSameSeedAndPlanSayTheSameBytes) {
  auto options = with(several);
  options.csv = file("first.csv");
  const auto first = simulate_faults(options);
  EXPECT_EQ(first.code, 0) << first.err;
  options.csv = file("again.csv");
  EXPECT_EQ(first.out, simulate_faults(options).out);
  EXPECT_EQ(read(file("first.csv")), read(file("again.csv")));
  options.load.seed = 2;
  EXPECT_NE(first.out, simulate_faults(options).out);
}

TEST_F(SimFaults, TheReportSaysWhatStruckAndWhatBecameOfTheRequests) {
  auto options = with("crash:instance-3@5s+10s,crash:instance-3@6s,cut:head/instance-2@100h");
  const auto report = boost::json::parse(simulate_faults(options).out).as_object();
  EXPECT_EQ(report.at("setup").at("faults").as_string(), *options.faults);
  const auto& faults = report.at("faults").as_object();
  ASSERT_EQ(faults.at("faults").as_array().size(), 2U);
  EXPECT_EQ(faults.at("faults").at(0).at("fault").as_string(), "crash:instance-3@5s+10s");
  EXPECT_TRUE(faults.at("faults").at(0).at("why_not").is_null());
  EXPECT_EQ(faults.at("faults").at(1).at("why_not").as_string(), "instance-3 was down");
  EXPECT_EQ(faults.at("struck").at("crash").as_int64(), 1);
  EXPECT_EQ(faults.at("missed").as_int64(), 1);
  EXPECT_EQ(faults.at("after_the_end").as_int64(), 1);
  EXPECT_GT(faults.at("dispatched_again").at("times").as_int64(), 0);
  EXPECT_GT(faults.at("interrupted_ms").at("max").as_double(), 0.0);
  EXPECT_EQ(faults.at("availability").at("requests").as_double(), 1.0);
  EXPECT_LT(faults.at("availability").at("instances").as_double(), 1.0);

  options.json = false;
  options.csv = file("requests.csv");
  const auto text = simulate_faults(options).out;
  EXPECT_NE(text.find("\nfaults crash:instance-3@5s+10s,"), std::string::npos) << text;
  EXPECT_NE(text.find("faults              1 struck: 1 crash; 1 found nothing to strike; 1 planned after the end\n"
                      "  crash:instance-3@5s+10s\n"
                      "  crash:instance-3@6s  not: instance-3 was down\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\ndispatched again    "), std::string::npos) << text;
  EXPECT_NE(text.find("\navailability        100.000 % of the requests answered; "), std::string::npos) << text;
  const auto lines = read(options.csv);
  EXPECT_NE(
      lines.find(",stall_s,instance,failed,expected_first_token_s,longest_gap_s,dispatched_again,interrupted_s\n"),
      std::string::npos);
}

TEST_F(SimFaults, RequestsThatNobodyTakesFailWithTheirCause) {
  auto options = with("crash:instance-0@5s,crash:instance-1@5s,crash:instance-2@5s,crash:instance-3@5s", 60);
  options.settings.frontend.placement_timeout = std::chrono::minutes(1);
  const auto result = simulate_faults(options);
  EXPECT_EQ(result.code, 1);
  const auto report = boost::json::parse(result.out).as_object();
  EXPECT_EQ(report.at("unfinished").as_int64(), 0);
  const auto failed = report.at("failed").at("unavailable").as_int64();
  EXPECT_GT(failed, 10);
  EXPECT_EQ(report.at("answered").as_int64() + failed, 60);
  EXPECT_EQ(report.at("faults").at("failures").at("no instance took the request in time").as_int64(), failed);
  options.json = false;
  options.csv = file("requests.csv");
  EXPECT_NE(simulate_faults(options).out.find(": no instance took the request in time\n"), std::string::npos);
  EXPECT_NE(read(options.csv).find(",unavailable,,0.000000000,0,0.000000000\n"), std::string::npos);
}

TEST_F(SimFaults, WithoutAPlanNothingSpeaksOfThem) {
  auto options = with("");
  options.faults.reset();
  options.csv = file("requests.csv");
  const auto result = simulate_faults(options);
  EXPECT_EQ(result.out.find("fault"), std::string::npos) << result.out;
  EXPECT_TRUE(read(options.csv).starts_with("request,")) << "the file is there";
  EXPECT_EQ(read(options.csv).find("dispatched_again"), std::string::npos);
}

TEST_F(SimFaults, AWrongPlanIsRefusedWithOneLine) {
  for (const auto* plan : {"", "crush:instance-1@5s", "crash:instance-4@5s", "crash:instance-1", "random:5"}) {
    const auto result = simulate_faults(with(plan));
    EXPECT_EQ(result.code, 2) << plan;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("godwit: --faults: '")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(SimFaults, ARecordedRunIsTheSameAndCanBeReplayed) {
  auto options = with(several, 60);
  options.settings.trace.level = runtime::trace::level::content;
  const auto alone = simulate_faults(options);
  options.record = file("s.gwt");
  const auto recorded = simulate_faults(options);
  EXPECT_EQ(alone.out, recorded.out);
  auto all = runtime::trace::read_file(options.record);
  ASSERT_TRUE(all);
  const auto found = check_causality(runtime::trace::analysis::index(*all));
  EXPECT_TRUE(found.sound()) << (found.faults.empty() ? "" : found.faults.front());
  // What this process was started with is not the command that was recorded.
  auto& facts = all->processes.front().facts;
  std::erase_if(facts, [](const auto& fact) { return fact.name.starts_with("argument:"); });
  const std::vector<std::string> arguments{"godwit",   "sim",   "--instances",   "4",      "--lengths",  "S-S",
                                           "--rate",   "4",     "--seed",        "1",      "--requests", "60",
                                           "--faults", several, "--trace-level", "content"};
  for (std::size_t i = 0; i < arguments.size(); ++i) facts.push_back({"argument:" + std::to_string(i), arguments[i]});
  const auto result = replay_simulation(std::move(*all), {});
  ASSERT_TRUE(result) << result.error().line;
  EXPECT_EQ(result->difference, "") << result->recorded << "\n" << result->replayed;
  EXPECT_TRUE(result->complete);
}

} // namespace godwit::main
