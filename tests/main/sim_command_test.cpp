#include "main/bench_workload.hpp"
#include "main/sim_command.hpp"
#include "main/sim_policy.hpp"
#include "main/sim_report.hpp"
#include "main/trace_command.hpp"
#include "main/usage_error.hpp"

#include <godwit/actors/sim/simulation.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/protocols/workload/workload.hpp>
#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

namespace godwit::main {
namespace {

struct sim_outcome {
  int code = 0;
  std::string out;
  std::string err;
};

sim_outcome simulate(const sim_options& options) {
  std::ostringstream out, err;
  const auto code = run_sim(options, out, err);
  return {code, out.str(), err.str()};
}

/// The command as it is typed.
sim_outcome typed(const std::string& line, const std::string& command_name = "sim") {
  CLI::App app("godwit", "godwit");
  command_result command;
  add_sim_command(app, command);
  add_trace_command(app, command);
  try {
    app.parse(command_name + " " + line);
  } catch (const CLI::ParseError& wrong) {
    return {2, "", explain(app, wrong) + "\n"};
  }
  std::ostringstream out, err;
  auto* const screen = std::cout.rdbuf(out.rdbuf());
  auto* const errors = std::cerr.rdbuf(err.rdbuf());
  const auto code = command.run();
  std::cout.rdbuf(screen);
  std::cerr.rdbuf(errors);
  return {code, out.str(), err.str()};
}

sim_options options_of(const std::string& lengths, double rate, std::size_t requests) {
  sim_options o;
  o.settings = sim_defaults();
  o.instances = 4;
  o.load.lengths = lengths;
  o.load.rate = rate;
  o.load.requests = requests;
  o.load.seed = 1;
  o.json = true;
  return o;
}

boost::json::object parse(const sim_outcome& result) {
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out << result.err;
  return boost::json::parse(result.out).as_object();
}

double figure(const boost::json::object& report, const char* what, const char* of) {
  return report.at(what).at(of).to_number<double>();
}

/// A folder that is gone at the end.
struct scratch {
  std::filesystem::path path;
  explicit scratch(const std::string& name)
      : path(std::filesystem::path(::testing::TempDir()) / ("godwit_sim_" + std::to_string(::getpid()) + "_" + name)) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~scratch() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

} // namespace

TEST(SimCommand, SaysTheSameBytesForTheSameSeed) {
  const auto options = options_of("M-M", 2, 150);
  const auto first = simulate(options);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, simulate(options).out);
  auto other = options;
  other.load.seed = 2;
  EXPECT_NE(first.out, simulate(other).out);
  EXPECT_EQ(first.err.find('{'), std::string::npos);
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

TEST(SimCommand, TakesNoFailpointsAndAnotherDispatcherFromTheSettings) {
  auto options = options_of("L-L", 3, 400); // which migrates
  options.settings.debug.failpoints = "source.opened=kill";
  EXPECT_EQ(parse(simulate(options)).at("answered").as_int64(), 400);
  options = options_of("S-S", 6, 20);
  options.settings.scheduler.policy = "round_robin"; // as a file may say
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("setup").at("dispatch").as_string(), "round_robin");
  EXPECT_EQ(report.at("setup").at("policy").as_string(), "custom") << "it is none that has a name";
  options.policy_told = true;
  options.policy = "infaas++";
  EXPECT_EQ(parse(simulate(options)).at("setup").at("dispatch").as_string(), "infaas");
}

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

TEST(SimCommand, CountsOrdersThatWereGivenUp) {
  auto options = options_of("M-M", 3, 150);
  options.instances = 1;
  options.settings.scaling.mode = protocols::scaling_mode::on;
  options.settings.scaling.provision_timeout = std::chrono::seconds(5); // less than the profile's start
  EXPECT_GT(figure(parse(simulate(options)), "instances", "orders_given_up"), 0);
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

TEST(SimCommand, PlaysTracesOfEveryFormat) {
  const scratch folder("traces");
  const std::vector<std::pair<std::string, std::string>> files{
      {"azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-28 23:59:59.5000000,120,30\n"
                    "2024-02-29 00:00:00.2500000,64,8\n2024-02-29 00:00:09.2500000,64,8\n"},
      {"burstgpt.csv", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                       "7,ChatGPT,250,12,262,Conversation log\n8,ChatGPT,90,5,95,API log\n"
                       "19,\"Model, with a comma\",31,77,108,API log\n"},
      {"mooncake.jsonl", "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 40, \"hash_ids\": [7, 8, 9]}\n"
                         "{\"timestamp\": 8000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 10]}\n"
                         "{\"timestamp\": 27000, \"input_length\": 10, \"output_length\": 1, \"hash_ids\": []}\n"}};
  for (const auto& [name, text] : files) {
    auto options = options_of("", 0, 0); // the trace's
    options.load.rate.reset();
    options.instances = 1;
    options.load.trace = folder.write(name, text);
    const auto report = parse(simulate(options));
    EXPECT_EQ(report.at("answered").as_int64(), 3) << name;
    EXPECT_EQ(report.at("setup").at("workload").as_string(), "trace " + name);
    EXPECT_EQ(report.at("cached_tokens").as_int64(), name == "mooncake.jsonl" ? 512 : 0) << name;
    options.load.scale = 4;
    EXPECT_LT(parse(simulate(options)).at("virtual_s").to_number<double>(), report.at("virtual_s").to_number<double>())
        << name;
  }
}

TEST(SimCommand, TakesATraceFromAPipeAndSaysWhichLinesItLeftOut) {
  const scratch folder("pipe");
  const auto pipe = (folder.path / "trace").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto file = folder.write("file", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                         "7,ChatGPT,250,12,262,Conversation log\n8,ChatGPT,90,0,90,API log\n"
                                         "9,ChatGPT,31,77,108,API log\n");
  ASSERT_EQ(std::system(("cat '" + file + "' > '" + pipe + "' &").c_str()), 0);
  auto options = options_of("", 0, 0);
  options.load.rate.reset();
  options.load.trace = pipe;
  const auto report = parse(simulate(options));
  EXPECT_EQ(report.at("answered").as_int64(), 2);
  EXPECT_EQ(report.at("setup").at("skipped").to_number<int>(), 1);
  options.json = false;
  options.load.trace = file;
  options.load.requests = 4;
  EXPECT_NE(simulate(options).out.find("note: the trace has 2 requests fewer than were asked for\n"),
            std::string::npos);
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

TEST(SimCommand, SaysWhyItsInstancesDoNotStart) {
  auto options = options_of("S-S", 2, 10);
  options.settings.instances.step_timeout = std::chrono::milliseconds(1);
  const auto result = simulate(options);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("the instances never get ready: instance-"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("a step of its profile took longer than instances.step_timeout"), std::string::npos)
      << result.err;
}

TEST(SimCommand, SimulatesNoThousandYears) {
  auto options = options_of("S-S", 2, 10);
  options.load.rate = 1e-9;
  const auto result = simulate(options);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("days after the first one, and at most 366 are simulated"), std::string::npos)
      << result.err;
}

TEST(SimCommand, EndsRequestsByTheirDeadlineWhereThereIsOne) {
  auto options = options_of("M-M", 2, 100);
  EXPECT_EQ(parse(simulate(options)).at("answered").as_int64(), 100);
  options.settings.frontend.request_timeout = std::chrono::seconds(5);
  const auto report = parse(simulate(options));
  const auto late = report.at("failed").at("timed_out").as_int64();
  EXPECT_GT(late, 10);
  EXPECT_EQ(report.at("answered").as_int64() + late, 100);
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

// What changed the run is in its report, and what did not is not.
TEST(SimCommand, NamesTheSettingsOfAFileThatChangedTheRunAndThoseThatDidNot) {
  const scratch folder("settings");
  const std::string toml = "[instances]\nrestart_backoff_min = \"1s\"\nrestart_backoff_max = \"2s\"\n"
                           "[frontend]\nrequests_max = 3\n[cluster]\nconnection_timeout = \"9s\"\n"
                           "[trace]\nlevel = \"content\"\n[llumlet]\nsequences_max = 64\n";
  const auto file = folder.write("sim.toml", toml);
  const std::string small = "--json --instances 2 --lengths S-S --rate 4 --requests 40 --config '" + file + "'";
  const auto settings = [](const sim_outcome& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    std::string names;
    const auto report = boost::json::parse(result.out);
    for (const auto& [name, text] : report.at("setup").at("settings").as_object())
      names += std::string(name) + "=" + std::string(text.as_string()) + " ";
    return names;
  };
  const std::string always =
      "instances.restart_backoff_min=1s instances.restart_backoff_max=2s llumlet.sequences_max=64 ";
  const auto calm = typed(small);
  EXPECT_EQ(settings(calm), always);
  EXPECT_TRUE(calm.err.starts_with("godwit: " + file + ": this run has no use for ")) << calm.err;
  const auto first = calm.err.substr(0, calm.err.find('\n'));
  for (const auto* name : {"frontend.requests_max", "cluster.connection_timeout", "trace.level"})
    EXPECT_NE(first.find(name), std::string::npos) << first;
  const auto faulty = typed(small + " --faults crash:instance-0@100h --record " + (folder.path / "s.gwt").string());
  EXPECT_EQ(settings(faulty), always + "cluster.connection_timeout=9s ");
  EXPECT_TRUE(faulty.err.starts_with("godwit: " + file + ": this run has no use for frontend.requests_max\n"))
      << faulty.err;
  EXPECT_EQ(typed("--json --instances 2 --lengths S-S --rate 4 --requests 4").err.find("no use"), std::string::npos);
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

TEST(SimPolicy, KnowsThePapersNamesAndEveryDispatcher) {
  EXPECT_EQ(find_bundle("llumnix")->migration, protocols::migration_policy::freeness);
  EXPECT_FALSE(find_bundle("llumnix-base")->priorities);
  EXPECT_EQ(find_bundle("infaas++")->dispatch, "infaas");
  EXPECT_EQ(find_bundle("round_robin")->migration, protocols::migration_policy::never);
  EXPECT_FALSE(find_bundle(""));
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

// What an experiment in C++ says of its own policy is to be compared with what the command says of the others.
TEST(SimCommand, ASimulationOfOnesOwnHasItsFiguresWithTheNodeOfTheCommand) {
  const scratch folder("own");
  auto options = options_of("L-L", 2, 300);
  options.csv = (folder.path / "r.csv").string();
  EXPECT_EQ(simulate(options).code, 0);
  actors::sim::simulation_options own;
  own.cluster.seed = options.load.seed;
  own.cluster.instances = options.instances;
  own.cluster.device = gpu::sim::open_profile(options.profile).value();
  own.cluster.node = actors::sim::node_of_the_command();
  own.requests = plan_workload(options.load).value().requests;
  protocols::workload::clamp_to_context(own.requests, actors::sim::context_length_of(own.cluster));
  const auto result = actors::sim::simulate(std::move(own));
  EXPECT_FALSE(result.migrations_committed.empty()) << "too calm to tell";
  EXPECT_EQ(requests_csv(result, false), read(options.csv));
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

// Two A10s that are given too much: what preempted requests had computed is there when they go on.
TEST(SimCommand, PreemptedRequestsMayWaitInTheHostsMemory) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 2 --lengths L-L --rate 1 "
                           "--requests 120 --seed 3";
  const auto report = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto swapped_in = [](const boost::json::object& r) {
    const auto* count = r.at("preemptions").as_object().if_contains("swapped");
    return count != nullptr ? count->to_number<std::uint64_t>() : 0;
  };
  const auto without = report("");
  EXPECT_GT(without.at("preemptions").at("count").to_number<std::uint64_t>(), 5U);
  EXPECT_EQ(swapped_in(without), 0U);
  const auto with = report(" --swap-bytes 64GiB");
  EXPECT_GT(swapped_in(with), 5U);
  EXPECT_EQ(with, report(" --swap-bytes 64GiB")) << "the same run, byte for byte";
  EXPECT_EQ(swapped_in(report(" --swap-bytes 64GiB --preemption recompute")), 0U);
  const auto text = typed("--profile llama-7b-a10 --policy round_robin --instances 2 --lengths L-L --rate 1 "
                          "--requests 120 --seed 3 --swap-bytes 64GiB");
  EXPECT_NE(text.out.find(" swapped out"), std::string::npos) << text.out;
}

TEST(SimCommand, ASwapSpaceNeedsARateAndRoomForABlock) {
  const scratch folder("mute");
  auto device = *gpu::sim::open_profile("toy");
  device.name = "mute";
  device.link.host_bytes_per_second = 0;
  const auto file = folder.write("mute.json", to_json(device));
  const auto mute = typed("--profile " + file + " --swap-bytes 1GiB");
  EXPECT_EQ(mute.code, 2);
  EXPECT_NE(mute.err.find("mute does not say how fast KV gets to the host's memory; give it a "
                          "link.host_bytes_per_second"),
            std::string::npos)
      << mute.err;
  const auto small = typed("--profile toy --swap-bytes 1000");
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("is less than a block of KV, which has 65536 bytes"), std::string::npos) << small.err;
  EXPECT_EQ(typed("--profile toy --preemption swap").code, 2);
}

// Places are few, and lengths differ much: what is known of them beforehand decides who goes first.
TEST(SimCommand, ShortJobsGoFirstAsFarAsTheirLengthsAreKnown) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 2 --lengths M-M --rate 0.9 "
                           "--requests 500 --seed 3 --llumlet-sequences-max 6";
  const auto report = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).as_object();
  };
  const auto mean = [](const boost::json::object& r) { return r.at("end_to_end_ms").at("mean").as_double(); };
  const auto served = report("");
  EXPECT_EQ(served.if_contains("expected_lengths"), nullptr) << "nobody goes by them";
  const auto known = report(" --queue-order sjf --length-accuracy 1");
  EXPECT_EQ(known.at("expected_lengths").at("class_exact_share").as_double(), 1);
  EXPECT_LT(mean(known), 0.8 * mean(served));
  EXPECT_EQ(known, report(" --queue-order sjf --length-accuracy 1")) << "the same run, byte for byte";
  const auto half = report(" --queue-order sjf --length-accuracy 0.5");
  EXPECT_NEAR(half.at("expected_lengths").at("class_exact_share").as_double(), 0.5, 0.1);
  EXPECT_GT(mean(half), mean(known));
  EXPECT_GT(mean(report(" --queue-order ljf --length-accuracy 1")), mean(served));
  EXPECT_EQ(mean(report(" --queue-order sjf --length-accuracy 1 --llumlet-queue-aging 0ms")), mean(served));
  const auto learned = report(" --queue-order sjf");
  const auto& lengths = learned.at("expected_lengths").as_object();
  EXPECT_GT(lengths.at("answers").to_number<std::size_t>(), 400U);
  EXPECT_GT(lengths.at("class_exact_share").as_double(), 0.05);
  EXPECT_GT(lengths.at("wrong_by_share").as_double(), 0.9)
      << "drawn at random, lengths are not to be learned; max_tokens, which is how long they will be, would tell them";
  const auto text =
      typed("--profile llama-7b-a10 --instances 1 --lengths S-S --rate 1 --requests 20 --queue-order sjf");
  EXPECT_NE(text.out.find("of the expected class"), std::string::npos) << text.out;
}

TEST(SimCommand, DeadlinesAreOfTheWholeAnswerAndTheServerHearsOfThem) {
  const std::string line = "--json --profile llama-7b-a10 --policy round_robin --instances 1 --lengths M-M --rate 0.4 "
                           "--requests 200 --seed 3 --llumlet-sequences-max 6";
  const auto met = [&](const std::string& more) {
    const auto result = typed(line + more);
    EXPECT_EQ(result.code, 0) << result.err;
    return boost::json::parse(result.out).at("slo_attainment").as_double();
  };
  EXPECT_EQ(met(""), 1) << "nobody wants anything";
  EXPECT_EQ(met(" --deadlines 100000-100000"), 1);
  EXPECT_EQ(met(" --deadlines 0.000001-0.00001"), 0);
  const auto served = met(" --deadlines 1-350");
  EXPECT_GT(served, 0.1);
  EXPECT_LT(served, 0.95);
  EXPECT_NE(met(" --deadlines 1-350 --queue-order edf"), served) << "the queue goes by them";
  EXPECT_NE(typed("--profile toy --lengths S-S --rate 1 --requests 5 --deadlines 5-6").out.find("objectives met"),
            std::string::npos);
}

// Nine prompts of 4,096 tokens come twice, the second time to the other instance.
TEST(SimCommand, ADiskKeepsWhatTheStoresMemoryHasNoRoomFor) {
  const auto trace = std::filesystem::temp_directory_path() / ("godwit_prompts_" + std::to_string(::getpid()));
  {
    std::ofstream out(trace);
    for (int i = 0; i < 18; ++i) {
      out << R"({"timestamp": )" << i * 5000 << R"(, "input_length": 4096, "output_length": 4, "hash_ids": [)";
      for (int block = 0; block < 8; ++block) out << (block == 0 ? "" : ", ") << i % 9 * 8 + block;
      out << "]}\n";
    }
  }
  const auto cached = [&](const std::string& more) {
    const auto result = typed("--json --profile llama-2-70b-128k-h100 --instances 2 --policy round_robin --trace " +
                              trace.string() + " --kv-store-bytes 1GiB" + more);
    EXPECT_EQ(result.code, 0) << result.err;
    const auto report = boost::json::parse(result.out).as_object();
    return report.at("cached_tokens").to_number<std::uint64_t>();
  };
  const auto without = cached(""), with = cached(" --kv-store-disk-bytes 100GiB");
  EXPECT_LT(without, 9U * 512);
  EXPECT_GT(with, 9U * 3500);
  EXPECT_LT(cached(" --kv-store-disk-bytes 100GiB --kv-store-disk-rate 1e6"), 9U * 512) << "too slow to be of use";
  std::filesystem::remove(trace);
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

} // namespace godwit::main
