// `godwit sim`: the report of a part of a run, and the files that are written.
#include "main/sim_command_support.hpp"

#include <godwit/actors/sim/simulation.hpp>
#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>

namespace godwit::main::test {

TEST(SimCommand, ReportsOfAWindow) {
  auto options = options_of("M-M", 2, 400);
  const auto whole = parse(simulate(options));
  options.window = "60-160";
  const auto part = parse(simulate(options));
  EXPECT_TRUE(whole.at("setup").at("window_s").is_null());
  EXPECT_EQ(part.at("setup").at("window_s"), boost::json::value({60.0, 160.0}));
  const auto requests = part.at("requests").to_number<int>();
  EXPECT_GT(requests, 150);
  EXPECT_LT(requests, 250);
  EXPECT_DOUBLE_EQ(part.at("virtual_s").to_number<double>(), 100);
  EXPECT_DOUBLE_EQ(part.at("requests_per_s").to_number<double>(), requests / 100.0) << "all are answered in the end";
  EXPECT_LT(figure(part, "token_gap_ms", "count"), figure(whole, "token_gap_ms", "count"));
  EXPECT_EQ(whole.at("events"), part.at("events")) << "it is the same run";
  options.settings.frontend.request_timeout = std::chrono::seconds(30); // which some answers take longer than
  options.window = "0-1";
  const auto failing = simulate(options);
  EXPECT_EQ(parse(failing).at("requests"), parse(failing).at("answered"));
  EXPECT_EQ(failing.code, 1) << "of the whole run";
  options.settings = sim_defaults();
  for (const auto* const wrong : {"160-60", "60", "-60", "x-", "60-x", "-", "nan-", "1e9-", "500-600"}) {
    options.window = wrong;
    const auto refused = simulate(options);
    EXPECT_EQ(refused.code, 2) << wrong;
    EXPECT_NE(refused.err.find("--window: '" + std::string(wrong)), std::string::npos) << refused.err;
  }
}

TEST(SimCommand, ReportsWhatThereIsOfARunThatIsInterrupted) {
  const scratch folder("interrupted");
  auto options = options_of("S-S", 4, 4000);
  options.load.rate = 20;
  options.csv = (folder.path / "a.csv").string();
  std::ostringstream out, err;
  std::size_t asked = 0, open = 0;
  const auto code = run_sim(options, out, err, [&](const actors::sim::run_progress& at) {
    open = at.submitted - at.ended;
    return ++asked < 30;
  });
  EXPECT_EQ(code, 1) << err.str();
  EXPECT_EQ(asked, 30U);
  EXPECT_GT(open, 0U);
  const auto report = boost::json::parse(out.str());
  EXPECT_TRUE(report.at("interrupted").as_bool());
  EXPECT_NEAR(report.at("virtual_s").to_number<double>(), 29, 1.5);
  const auto answered = report.at("answered").to_number<std::int64_t>();
  EXPECT_GT(answered, 100);
  EXPECT_EQ(report.at("unfinished").to_number<std::size_t>(), open);
  const auto later = report.at("not_arrived").to_number<std::int64_t>();
  EXPECT_GT(later, 2000);
  EXPECT_EQ(answered + static_cast<std::int64_t>(open) + later, 4000);
  const auto arrived = answered + static_cast<std::int64_t>(open);
  EXPECT_DOUBLE_EQ(report.at("slo_attainment").to_number<double>(),
                   static_cast<double>(answered) / static_cast<double>(arrived));
  const auto lines = read(options.csv);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4001);
}

TEST(SimCommand, WritesRequestsSamplesAndPlots) {
  const scratch folder("files");
  auto options = options_of("S-S", 4, 50);
  options.json = false;
  options.csv = (folder.path / "requests.csv").string();
  options.samples = (folder.path / "samples.csv").string();
  options.svg = (folder.path / "plots").string();
  const auto result = simulate(options);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("50 of 50 requests answered"), std::string::npos) << result.out;
  const auto lines = read(options.csv);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 51);
  EXPECT_TRUE(
      lines.substr(0, lines.find('\n')).ends_with(",stall_s,instance,failed,expected_first_token_s,longest_gap_s"))
      << lines.substr(0, 300);
  for (const auto* instance : {",0,,", ",1,,", ",2,,", ",3,,"}) EXPECT_NE(lines.find(instance), std::string::npos);
  EXPECT_TRUE(read(options.samples).starts_with("time_s,"));
  for (const auto* name : {"latency.svg", "requests.svg", "memory.svg", "instances.svg"})
    EXPECT_TRUE(read(folder.path / "plots" / name).starts_with("<svg ")) << name;
}

TEST(SimCommand, FindsOutBeforeTheRunThatItsFilesCannotBeWritten) {
  const scratch folder("unwritable");
  const auto refused = [](auto change, int code, const std::string& says) {
    auto options = options_of("S-S", 4, 10);
    change(options);
    const auto result = simulate(options);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  const auto file = folder.write("file", "");
  const auto there = (folder.path / "a.csv").string(), also = (folder.path / "." / "a.csv").string();
  refused([&](auto& o) { o.svg = file; }, 1, "cannot write plots into " + file);
  refused([&](auto& o) { o.svg = file + "/plots"; }, 1, "cannot write plots into " + file + "/plots");
  refused([&](auto& o) { o.csv = file + "/a.csv"; }, 1, "cannot write " + file + "/a.csv");
  refused([&](auto& o) { o.csv = there, o.samples = also; }, 2, "--csv and --samples name the same file");
  refused([&](auto& o) { o.samples = file, o.record = file; }, 2, "--samples and --record name the same file");
  refused([&](auto& o) { o.csv = folder.path.string() + "/no/a.csv"; }, 1, "there is no folder ");
  refused([&](auto& o) { o.csv = "-"; }, 2, "--csv: - is no file");
  EXPECT_FALSE(std::filesystem::exists(there));
  // Nothing is written over what is read.
  const auto trace = folder.write("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 00:00:00,64,8\n");
  const auto kept = read(trace);
  const auto link = (folder.path / "link.csv").string();
  std::filesystem::create_symlink("trace.csv", link);
  for (const auto& written : {trace, link}) {
    refused([&](auto& o) { o.load.rate.reset(), o.load.lengths.clear(), o.load.trace = trace, o.csv = written; }, 2,
            "--trace and --csv name the same file");
    refused([&](auto& o) { o.config_file = trace, o.samples = written; }, 2, "--config and --samples name the same");
  }
  const auto plotted = folder.write("memory.svg", kept);
  refused([&](auto& o) { o.load.rate.reset(), o.load.lengths.clear(), o.load.trace = plotted, o.svg = folder.path; }, 2,
          "--trace and --svg name the same file");
  EXPECT_EQ(read(trace), kept);
  auto options = options_of("S-S", 4, 10);
  options.csv = options.samples = "/dev/null";
  EXPECT_EQ(simulate(options).code, 0);
}

// Nothing lies between two steps on virtual time: a line for each would show nothing but them.
TEST(SimCommand, StepsThatFollowEachOtherAreOneLineOfWhereARequestsTimeWent) {
  const scratch folder("steps");
  auto options = options_of("fixed:32:20", 1, 1);
  options.record = (folder.path / "s.gwt").string();
  EXPECT_EQ(simulate(options).code, 0);
  const auto slow = typed("slow " + options.record, "trace");
  EXPECT_EQ(slow.code, 0) << slow.err;
  EXPECT_NE(slow.out.find(", 20 times\n"), std::string::npos) << slow.out;
  EXPECT_EQ(slow.out.find("left out"), std::string::npos) << slow.out;
}

TEST(SimCommand, SaysTheSameWhileItIsRecordedAndNothingIsMissingInTheFile) {
  const scratch folder("record");
  auto options = options_of("S-S", 3, 60);
  const auto alone = simulate(options);
  options.record = (folder.path / "s.gwt").string();
  const auto recorded = simulate(options);
  EXPECT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_EQ(alone.out, recorded.out);
  EXPECT_NE(recorded.err.find(" in " + options.record), std::string::npos) << recorded.err;
  const auto all = runtime::trace::read_file(options.record);
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->remarks.empty()) << all->remarks.front();
  EXPECT_EQ(all->fact(0, "command"), "sim");
  EXPECT_FALSE(all->fact(0, "argument:0").empty()) << "to run it again";
  EXPECT_TRUE(check_causality(runtime::trace::analysis::index(*all)).sound());
  // Steps by which an instance measures itself are nobody's requests'.
  const auto is_step = [&](const auto& e) {
    return e.kind == runtime::trace::event_kind::span && all->name_of(e) == "device.step";
  };
  std::size_t measuring = 0, serving = 0;
  for (const auto& e : all->events) {
    if (!is_step(e)) continue;
    const auto found = std::ranges::find(e.attributes, "requests", &runtime::trace::attribute::name);
    ASSERT_NE(found, e.attributes.end());
    ++(found->value.empty() ? measuring : serving);
    EXPECT_TRUE(found->value.size() < 400) << found->value;
    EXPECT_TRUE(!found->value.empty() || e.request == 0);
  }
  EXPECT_GT(measuring, 5U);
  EXPECT_GT(serving, 100U);
  // The bytes too are the same, so that two runs can be compared.
  const auto first = read(options.record);
  (void)simulate(options);
  EXPECT_EQ(first, read(options.record));
  options.record = (folder.path / "none" / "s.gwt").string();
  const auto nowhere = simulate(options);
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_NE(nowhere.err.find("cannot record: "), std::string::npos) << nowhere.err;
  EXPECT_EQ(nowhere.out, "");
}

} // namespace godwit::main::test
