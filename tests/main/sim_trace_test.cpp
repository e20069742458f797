// `godwit sim --trace`.
#include "main/sim_command_support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
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

} // namespace godwit::main::test
