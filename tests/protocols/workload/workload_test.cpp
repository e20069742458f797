#include <godwit/protocols/workload/workload.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::protocols::workload {
namespace {

workload_spec spec(double rate) {
  auto s = workload_spec{};
  s.requests = 2000;
  s.arrivals = {rate, 1.0};
  s.lengths = *parse_lengths("sharegpt");
  s.seed = 11;
  return s;
}

TEST(Workload, KeepsItsLengthsWhenTheRateChanges) {
  const auto slow = make_workload(spec(1.0));
  const auto fast = make_workload(spec(50.0));
  ASSERT_EQ(slow.size(), fast.size());
  for (std::size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i].prompt_tokens, fast[i].prompt_tokens);
    EXPECT_EQ(slow[i].answer_tokens, fast[i].answer_tokens);
  }
  EXPECT_GT(slow.back().arrival_ns, fast.back().arrival_ns);
}

TEST(Workload, DrawsPromptsAndAnswersIndependently) {
  auto s = spec(0.0);
  s.lengths = *parse_lengths("uniform:1-1000:1-1000");
  s.requests = 20'000;
  auto products = 0.0;
  for (const auto& r : make_workload(s)) products += (r.prompt_tokens - 500.5) * (r.answer_tokens - 500.5);
  // Variance of a uniform draw from 1..1000.
  EXPECT_NEAR(products / 20'000 / 83'333.25, 0.0, 0.03);
}

TEST(Workload, GivesTheAskedShareAHighPriority) {
  auto s = spec(0.0);
  s.requests = 20'000;
  s.high_priority_share = 0.1;
  const auto requests = make_workload(s);
  EXPECT_NEAR(std::count_if(requests.begin(), requests.end(), [](const auto& r) { return r.priority == 1; }), 2000,
              200);
}

TEST(Workload, DrawsDeadlinesUniformlyAndFromASequenceOfTheirOwn) {
  auto s = spec(0.0);
  s.requests = 20'000;
  auto requests = make_workload(s);
  const auto before = requests;
  draw_deadlines(requests, 1'000, 351'000, s.seed);
  double sum = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto& r = requests[i];
    ASSERT_GE(r.deadline_ns, 1'000);
    ASSERT_LE(r.deadline_ns, 351'000);
    sum += static_cast<double>(r.deadline_ns);
    r.deadline_ns = 0;
    ASSERT_EQ(r, before[i]) << "nothing else changes";
  }
  EXPECT_NEAR(sum / 20'000, 176'000, 3'000);
  draw_deadlines(requests, 7, 7, 1);
  EXPECT_EQ(requests[5].deadline_ns, 7);
}

TEST(Workload, ArrivesFasterByAFactor) {
  auto requests = make_workload(spec(10.0));
  const auto last = requests.back().arrival_ns;
  scale_rate(requests, 4.0);
  EXPECT_NEAR(static_cast<double>(requests.back().arrival_ns), static_cast<double>(last) / 4.0, 1.0);
}

TEST(Workload, IsShortenedToTheContextAndNoFurther) {
  auto requests = std::vector<workload_request>(4);
  const auto set = [&](std::size_t i, std::uint32_t prompt, std::uint32_t answer) {
    requests[i].prompt_tokens = prompt;
    requests[i].answer_tokens = answer;
  };
  set(0, 100, 28);
  set(1, 5000, 10);
  set(2, 10, 5000);
  set(3, 5000, 5000);
  requests[1].prefix_hashes.assign(10, 1);
  EXPECT_EQ(clamp_to_context(requests, 128), 3U);
  const auto expect = [&](std::size_t i, std::uint32_t prompt, std::uint32_t answer) {
    EXPECT_EQ(requests[i].prompt_tokens, prompt) << i;
    EXPECT_EQ(requests[i].answer_tokens, answer) << i;
  };
  expect(0, 100, 28);
  expect(1, 118, 10);
  expect(2, 10, 118);
  expect(3, 64, 64);
  EXPECT_EQ(requests[1].prefix_hashes.size(), 1U);
}

} // namespace
} // namespace godwit::protocols::workload
