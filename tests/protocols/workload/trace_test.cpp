#include <godwit/protocols/workload/trace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace godwit::protocols::workload {
namespace {

std::string read_file(const std::filesystem::path& path) {
  auto in = std::ifstream(path, std::ios::binary);
  auto out = std::ostringstream{};
  out << in.rdbuf();
  return out.str();
}

std::string sample(const std::string& name) {
  return read_file(std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/protocols/workload/data" / name);
}

workload_request request(std::int64_t arrival_ms, std::uint32_t prompt, std::uint32_t answer,
                         std::vector<std::uint64_t> hashes = {}) {
  auto r = workload_request{};
  r.arrival_ns = arrival_ms * 1'000'000;
  r.prompt_tokens = prompt;
  r.answer_tokens = answer;
  r.prefix_hashes = std::move(hashes);
  return r;
}

TEST(Trace, OfAzureIsReadAcrossALeapDay) {
  const auto read = read_trace(sample("azure_sample.csv"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->format, trace_format::azure);
  EXPECT_EQ(read->requests, (std::vector{request(0, 120, 30), request(750, 64, 8), request(86'400'500, 2048, 256)}));
  EXPECT_EQ(read->skipped, 1U);
}

TEST(Trace, OfBurstGptIsReadByItsColumnNames) {
  const auto read = read_trace(sample("burstgpt_sample.csv"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->format, trace_format::burstgpt);
  EXPECT_EQ(read->requests, (std::vector{request(0, 250, 12), request(12'000, 31, 77)}));
  EXPECT_EQ(read->skipped, 1U);
}

TEST(Trace, OfMooncakeIsSortedAndKeepsItsPrefixHashes) {
  const auto read = read_trace(sample("mooncake_sample.jsonl"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->format, trace_format::mooncake);
  auto expected = std::vector{request(0, 600, 5, {7, 10}), request(3000, 1100, 40, {7, 8, 9}), request(27'000, 10, 1)};
  expected[2].arrival_ns += 500'000;
  EXPECT_EQ(read->requests, expected);
}

TEST(Trace, OfAzureMayBeOfALeapDay) {
  const auto read = read_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                               "2024-02-28 23:59:59,1,2\n2024-02-29 00:00:00,1,2\n2024-03-01 00:00:00,1,2\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requests, (std::vector{request(0, 1, 2), request(1000, 1, 2), request(86'401'000, 1, 2)}));
}

TEST(Trace, OfAzureMayCarryZoneAndCarriageReturns) {
  const auto read = read_trace("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                               "2024-05-10 02:00:00.000001+02:00,10,20\r\n2024-05-10T00:00:01Z,11,21\r\n");
  ASSERT_TRUE(read) << read.error().text("t");
  ASSERT_EQ(read->requests.size(), 2U);
  EXPECT_EQ(read->requests[1].arrival_ns, 999'999'000);
}

TEST(Trace, ReadsNoFurtherThanTheLimit) {
  auto limits = trace_limits{};
  limits.requests_max = 1;
  const auto read = read_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,2\nrubbish\n", limits);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requests.size(), 1U);
}

struct wrong_case {
  std::string text;
  std::string expected; ///< begin of the message
};

void PrintTo(const wrong_case& c, std::ostream* os) { *os << c.expected; }

class WrongTrace : public ::testing::TestWithParam<wrong_case> {};

TEST_P(WrongTrace, IsRefusedWithItsPlace) {
  const auto read = read_trace(GetParam().text);
  ASSERT_FALSE(read);
  const auto text = read.error().text("t");
  EXPECT_EQ(text.substr(0, GetParam().expected.size()), GetParam().expected) << text;
  EXPECT_EQ(text.find_first_of("\n\r\x01"), std::string::npos);
}

const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string burst = "Timestamp,Request tokens,Response tokens\n";

INSTANTIATE_TEST_SUITE_P(
    Trace, WrongTrace,
    ::testing::Values(
        wrong_case{"", "t:1:1: no known trace format"}, wrong_case{"a,b,c\n1,2,3\n", "t:1:1: no known trace format"},
        wrong_case{"When,ContextTokens,GeneratedTokens\n", "t:1:1: the column \"TIMESTAMP\" is missing"},
        wrong_case{azure, "the trace holds no requests"},
        wrong_case{azure + "2023-11-16 18:15:46,1,2\n2023-11-16 25:15:46,1,2\n", "t:3:1: expected a time"},
        wrong_case{azure + "2023-13-16 18:15:46,1,2\n", "t:2:1: expected a time"},
        wrong_case{azure + "2023-02-29 18:15:46,1,2\n", "t:2:1: expected a time"},
        wrong_case{azure + "2100-02-29 18:15:46,1,2\n", "t:2:1: expected a time"},
        wrong_case{azure + "2023-11-31 18:15:46,1,2\n", "t:2:1: expected a time"},
        wrong_case{azure + "2023-11-16 18:15:46+2,1,2\n", "t:2:1: expected a time"},
        wrong_case{azure + "2023-11-16 18:15:46,-1,2\n", "t:2:21: expected a number of tokens, found \"-1\""},
        wrong_case{azure + "2023-11-16 18:15:46,1,\x01\n", "t:2:23: expected a number of tokens, found \"?\""},
        wrong_case{azure + "2023-11-16 18:15:46,1\n", "t:2:22: expected 3 columns, found 2"},
        wrong_case{burst + "1,99999999999999999999,2\n", "t:2:3: expected a number of tokens"},
        wrong_case{burst + "1.,3,2\n", "t:2:1: expected a time in seconds"},
        wrong_case{burst + "\"1,3,2\n", "t:2:1: the closing quote is missing"},
        wrong_case{burst + "\"1\"x,3,2\n", "t:2:4: expected a comma after a quote"},
        wrong_case{burst + std::string(100, ','), "t:2:65: more than 64 columns"},
        wrong_case{R"({"timestamp": 0, "input_length": 1, "output_length": 2)", "t:1:55: expected }"},
        wrong_case{R"({"timestamp": 0, "input_length": 1})", "t:1:1: output_length is missing"},
        wrong_case{R"({"timestamp": 0, "input_length": 1.5, "output_length": 2})",
                   "t:1:34: expected a number of tokens"},
        wrong_case{R"({"timestamp": 0, "hash_ids": [1, -2]})", "t:1:34: expected a hash id, found \"-2\""},
        wrong_case{R"({"timestamp": 0 "x": 1})", "t:1:17: expected }"},
        wrong_case{R"({"timestamp: 0})", "t:1:2: the closing quote is missing"},
        wrong_case{R"({"x": [)", "t:1:8: expected a value"},
        wrong_case{R"({"x": )" + std::string(1000, '['), "t:1:23: nested too deeply"},
        wrong_case{R"({"timestamp": 0, "input_length": 1, "output_length": 2} 3)", "t:1:57: expected the end"}));

// The whole public traces, where they are at hand.
TEST(Trace, OfThePublicDataSetsAreReadWhole) {
  const auto folder = std::filesystem::path(GODWIT_SOURCE_DIR) / "../shared/data/traces";
  if (!std::filesystem::exists(folder / "azure_llm_2023_conv.csv")) GTEST_SKIP() << "no public traces here";
  const auto azure_trace = read_trace(read_file(folder / "azure_llm_2023_conv.csv"));
  ASSERT_TRUE(azure_trace) << azure_trace.error().text("azure");
  EXPECT_EQ(azure_trace->requests.size() + azure_trace->skipped, 19'366U);
  auto sum = 0.0;
  for (const auto& r : azure_trace->requests) sum += r.prompt_tokens;
  EXPECT_NEAR(sum / static_cast<double>(azure_trace->requests.size()), 1155.0, 1.0);

  const auto mooncake_trace = read_trace(read_file(folder / "mooncake_conversation.jsonl"));
  ASSERT_TRUE(mooncake_trace) << mooncake_trace.error().text("mooncake");
  EXPECT_EQ(mooncake_trace->requests.size() + mooncake_trace->skipped, 12'031U);
  // A hash for each begun block of 512 tokens.
  for (const auto& r : mooncake_trace->requests)
    ASSERT_EQ(r.prefix_hashes.size(), (r.prompt_tokens + tokens_per_prefix_hash - 1) / tokens_per_prefix_hash);
}

} // namespace
} // namespace godwit::protocols::workload
