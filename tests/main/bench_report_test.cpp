#include "main/bench_report.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace godwit::main {
namespace {

constexpr std::int64_t millisecond = 1'000'000;

request_record answered(std::int64_t scheduled, std::int64_t started, std::int64_t first, std::int64_t last,
                        std::int64_t ended, std::uint32_t tokens) {
  auto r = request_record{};
  r.outcome = bench_outcome::answered;
  r.prompt_tokens = 100;
  r.answer_tokens = tokens;
  r.scheduled_ns = scheduled * millisecond;
  r.started_ns = started * millisecond;
  r.first_text_ns = first * millisecond;
  r.last_text_ns = last * millisecond;
  r.ended_ns = ended * millisecond;
  r.pieces = tokens;
  r.usage_answer = tokens;
  r.usage_prompt = 101;
  return r;
}

std::vector<request_record> two_records() {
  return {answered(0, 0, 50, 150, 160, 11), answered(100, 300, 400, 1990, 2000, 2)};
}

// Coordinated omission: the second request was due at 100 ms and left at 300; the 200 ms are part of its latency.
TEST(BenchReport, CountsLatencyFromTheIntendedArrival) {
  const auto report = make_report({}, two_records());
  EXPECT_DOUBLE_EQ(report.ttft_ms.max, 300.0);
  EXPECT_DOUBLE_EQ(report.ttft_from_send_ms.max, 100.0);
  EXPECT_DOUBLE_EQ(report.e2e_ms.max, 1900.0);
  EXPECT_DOUBLE_EQ(report.start_lag_ms.max, 200.0);
}

TEST(BenchReport, TellsTheLevelsApartWhereTheyWereAskedFor) {
  auto records = two_records();
  records[1].priority = 1;
  records.push_back(answered(0, 0, 70, 150, 160, 11));
  auto setup = bench_setup{};
  EXPECT_TRUE(make_report(setup, records).levels.empty());
  setup.priority = "high";
  const auto report = make_report(setup, records);
  ASSERT_EQ(report.levels.size(), 2U);
  EXPECT_EQ(report.levels[0].name, "");
  EXPECT_EQ(report.levels[0].answered, 2U);
  EXPECT_DOUBLE_EQ(report.levels[0].ttft_ms.max, 70.0);
  EXPECT_EQ(report.levels[1].name, "high");
  EXPECT_EQ(report.levels[1].requests, 1U);
  EXPECT_DOUBLE_EQ(report.levels[1].ttft_ms.max, 300.0);
  const auto json = boost::json::parse(to_json(setup, report));
  EXPECT_EQ(json.at("levels").at(1).at("execution_priority").as_string(), "high");
  EXPECT_TRUE(json.at("levels").at(0).at("execution_priority").is_null());
  EXPECT_NE(to_table(setup, report).find("execution priority high: 1 of 1"), std::string::npos);
}

TEST(BenchReport, CountsLatencyFromTheSendingInAClosedLoop) {
  auto setup = bench_setup{};
  setup.open_loop = false;
  const auto report = make_report(setup, two_records());
  EXPECT_DOUBLE_EQ(report.ttft_ms.max, 100.0);
  EXPECT_DOUBLE_EQ(report.e2e_ms.max, 1700.0);
  EXPECT_EQ(report.start_lag_ms.count, 0U);
}

TEST(BenchReport, DividesTheTimeAfterTheFirstTokenAmongTheOthers) {
  const auto report = make_report({}, two_records());
  EXPECT_DOUBLE_EQ(report.tpot_ms.mean, (10.0 + 1590.0) / 2);
}

TEST(BenchReport, CountsWhatTheServerSaysOverTheWholeDuration) {
  const auto report = make_report({}, two_records());
  EXPECT_DOUBLE_EQ(report.duration_s, 2.0);
  EXPECT_DOUBLE_EQ(report.requests_per_s, 1.0);
  EXPECT_DOUBLE_EQ(report.prompt_tokens_per_s, 101.0);
  EXPECT_DOUBLE_EQ(report.answer_tokens_per_s, 6.5);
}

TEST(BenchReport, CallsGoodWhatMeetsEveryObjective) {
  auto setup = bench_setup{};
  EXPECT_FALSE(make_report(setup, two_records()).goodput);
  setup.ttft_ms = 299.0;
  EXPECT_DOUBLE_EQ(make_report(setup, two_records()).goodput.value(), 0.5);
  setup.ttft_ms = 300.0;
  EXPECT_DOUBLE_EQ(make_report(setup, two_records()).goodput.value(), 1.0);
  setup.tpot_ms = 10.0;
  EXPECT_DOUBLE_EQ(make_report(setup, two_records()).goodput.value(), 0.5);
  setup.ttft_ms = 1.0;
  EXPECT_DOUBLE_EQ(make_report(setup, two_records()).goodput.value(), 0.0);
}

// All that it thought, say, in a field that nobody knows.
TEST(BenchReport, OfTokensThatNobodySawComeThereIsNoPace) {
  auto records = two_records();
  records[0].pieces = 0;
  records[0].first_text_ns = records[0].last_text_ns = records[0].ended_ns;
  auto setup = bench_setup{};
  setup.tpot_ms = 1e9;
  const auto report = make_report(setup, records);
  EXPECT_EQ(report.tpot_ms.count, 1U);
  EXPECT_GT(report.tpot_ms.p50, 0.0);
  EXPECT_DOUBLE_EQ(report.goodput.value(), 0.5);
}

TEST(BenchReport, KeepsFailuresOutOfTheLatencies) {
  auto records = two_records();
  for (const auto* message : {"full", "fuller"}) {
    auto& r = records.emplace_back(answered(0, 0, 0, 0, 1, 0));
    r.outcome = bench_outcome::failed;
    r.error_kind = "http_429";
    r.error_message = message;
  }
  records.emplace_back();
  const auto report = make_report({}, records);
  EXPECT_EQ(report.answered, 2U);
  EXPECT_EQ(report.failed, 2U);
  EXPECT_EQ(report.unfinished, 1U);
  EXPECT_EQ(report.ttft_ms.count, 2U);
  EXPECT_EQ(report.errors.at("http_429").count, 2U);
  EXPECT_EQ(report.errors.at("http_429").example, "full");
}

TEST(BenchReport, SaysWhereTheServersCountsAreOdd) {
  auto records = std::vector<request_record>(3, answered(0, 0, 1, 2, 3, 4));
  records[0].usage_answer = std::nullopt;
  records[1].usage_answer = 3;
  const auto report = make_report({}, records);
  EXPECT_EQ(report.usage_missing, 1U);
  EXPECT_EQ(report.usage_mismatches, 1U);
  EXPECT_EQ(report.other_lengths, 1U);
}

TEST(BenchReport, OfNothingThereIsNothingToSay) {
  const auto report = make_report({}, std::vector<request_record>(2));
  EXPECT_EQ(report.unfinished, 2U);
  EXPECT_DOUBLE_EQ(report.requests_per_s, 0.0);
  EXPECT_NE(to_table({}, report).find("0 of 2 requests answered"), std::string::npos);
  const auto json = boost::json::parse(to_json(bench_setup{}, report));
  EXPECT_TRUE(json.at("ttft_ms").at("p99").is_null()) << "no latency is none of 0 ms";
  EXPECT_EQ(json.at("ttft_ms").at("count").to_number<int>(), 0);
}

TEST(BenchReport, IsOneLineOfJsonWithNamedUnits) {
  auto setup = bench_setup{};
  setup.ttft_ms = 300.0;
  const auto text = to_json(setup, make_report(setup, two_records()));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto parsed = boost::json::parse(text).as_object();
  EXPECT_DOUBLE_EQ(parsed.at("ttft_ms").at("max").as_double(), 300.0);
  EXPECT_DOUBLE_EQ(parsed.at("goodput_requests_per_s").as_double(), 1.0);
  EXPECT_TRUE(parsed.at("slo_tpot_ms").is_null());
}

} // namespace
} // namespace godwit::main
