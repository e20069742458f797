// `godwit sim --trace`.
#include "main/sim_command_support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace godwit::main::test {

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

// Timers have the scheduler look for what is to move, and for who may be lost; a request's time goes by elsewhere.
TEST(SimCommand, RecordingsTellWhereMovedRequestsSpentTheirTimeAndHowTheyEnded) {
  const scratch folder("moved");
  const auto file = (folder.path / "r.gwt").string();
  const auto run = typed("--json --profile llama-7b-a10 --lengths S-L --rate 3 --requests 300 --instances 4 --seed 3 "
                         "--frontend-request-timeout 200s --record " +
                         file);
  ASSERT_EQ(run.code, 1) << run.err; // some are not answered
  const auto report = boost::json::parse(run.out).as_object();
  EXPECT_GT(report.at("migrations").at("committed").to_number<int>(), 20);
  EXPECT_GT(report.at("failed").as_object().size(), 0U) << "some are to take too long";
  const auto told = typed("slow --json --count 300 " + file, "trace");
  ASSERT_EQ(told.code, 0) << told.err;
  double all = 0, timers = 0, device = 0;
  std::map<std::string, std::size_t> outcomes;
  const auto paths = boost::json::parse(told.out);
  for (const auto& one : paths.as_array()) {
    all += one.at("duration_ns").to_number<double>();
    timers += one.at("spent_ns").at("timer").to_number<double>();
    device += one.at("spent_ns").at("device").to_number<double>();
    ++outcomes[std::string(one.at("outcome").as_string())];
  }
  EXPECT_LT(timers, 0.001 * all);
  EXPECT_GT(device, 0.9 * all) << "also that before a migration";
  EXPECT_EQ(outcomes["length"], report.at("answered").to_number<std::size_t>());
  EXPECT_EQ(outcomes["timed_out"], report.at("failed").at("timed_out").to_number<std::size_t>());
}

} // namespace godwit::main::test
