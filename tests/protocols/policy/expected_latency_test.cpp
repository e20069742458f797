// How long a request will take somewhere, said before and measured after.
#include "loads.hpp"
#include "protocols/batching/paged_model.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace godwit::protocols {
namespace {

/// 1 ms for each token of a prompt; a step of those who decode 10 ms, one of nobody 5.
load_report measured(load_report load) {
  load.step_tokens = 108;
  load.pace.knows_prompts = true;
  load.pace.token = 1e6;
  load.pace.step = 5e6;
  load.pace.block = 20e6;
  load.pace.place = 50e6;
  if (load.running > 0) load.pace.step = load.pace.decode = 10e6;
  return load;
}

double ttft_ms(const load_report& load, std::uint32_t tokens, std::uint32_t known = 0, const expected_work& more = {}) {
  return expected_ttft_ns(load, load.pace, more, tokens, known) / 1e6;
}

TEST(AttentionPairs, AreCounted) {
  for (std::uint64_t first = 0; first < 20; ++first)
    for (std::uint64_t upto = 0; upto < 20; ++upto) {
      double pairs = 0;
      for (auto at = first; at < upto; ++at) pairs += static_cast<double>(at) + 1;
      EXPECT_EQ(attention_pairs(first, upto), pairs);
    }
}

TEST(ExpectedTtft, IsNothingWhereNobodyKnows) { EXPECT_EQ(ttft_ms(load_of(1, 50, 3), 100), 0); }

TEST(ExpectedTtft, IsThatOfThePromptOnAnIdleInstance) {
  const auto idle = measured(load_of(1));
  EXPECT_DOUBLE_EQ(ttft_ms(idle, 100), 105);
  EXPECT_DOUBLE_EQ(ttft_ms(idle, 109), 119) << "in two steps";
  EXPECT_DOUBLE_EQ(ttft_ms(idle, 100, 64), 41) << "but for what it has already";
  EXPECT_DOUBLE_EQ(ttft_ms(idle, 64, 64), 6) << "the last token is always computed";
  EXPECT_DOUBLE_EQ(ttft_ms(idle, 0), 0);
}

TEST(ExpectedTtft, CountsTheStepsOfThoseWhoDecode) {
  auto busy = measured(load_of(1, 40, 8));
  busy.running_max = 64;
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 100), 5 + 10 + 100) << "half a step that runs, and one that is shared";
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 101), 5 + 20 + 101) << "a step has 100 tokens for prompts";
}

TEST(ExpectedTtft, CountsThePromptsBefore) {
  auto busy = measured(load_of(1));
  busy.prefill_tokens = 300;
  busy.pace.step = 0;
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 100), 400);
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 100, 0, {1, 7, 100, attention_pairs(0, 100)}), 500) << "those on their way, too";
  busy.pace.pair = 1e3;
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 100), 400 + attention_pairs(0, 100) / 1e3);
}

TEST(ExpectedTtft, WaitsForMemoryAndPlaces) {
  auto full = measured(load_of(1, 97));
  full.pace.step = 0;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 4 * 20) << "7 blocks, of which 3 are there";
  full.waiting = 1;
  full.waiting_blocks = 10;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 14 * 20);
  EXPECT_EQ(blocks_lacking(full, 2, 100), 16U);
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, 100, 0, 50e6), 150e6) << "or until others have made room";
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, 100, 0, 900e6), 380e6);
  full.running = 7;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 14 * 20) << "it has a place, and the head of line has memory";
}

TEST(ExpectedTtft, WaitsForPlacesWhereThoseLackLonger) {
  auto full = measured(load_of(1, 20, 8));
  full.pace.step = 0;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 50);
  full.waiting = 2;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 150);
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, 100, 0, 1.0), 250e6) << "migration makes none of these";
}

TEST(ExpectedAlone, IsWithoutWhatIsBefore) {
  auto busy = measured(load_of(1, 90, 8));
  busy.prefill_tokens = 300;
  EXPECT_DOUBLE_EQ(expected_alone_ns(busy.pace, 108, 216), 236e6);
  EXPECT_DOUBLE_EQ(expected_alone_ns(busy.pace, 0, 0), 0);
}

TEST(ExpectedTpot, IsThatOfTheLastSteps) {
  EXPECT_DOUBLE_EQ(expected_tpot_ns(measured(load_of(1, 10, 3))), 10e6);
  EXPECT_DOUBLE_EQ(expected_tpot_ns(measured(load_of(1))), 5e6) << "what a step takes at least, where nobody decodes";
}

// The oracle: what a planner's requests then took, on a device that is not as the model has it: memory and arithmetic
// overlap.
TEST(ExpectedTtft, IsWhatPlannersThenTake) {
  planner_settings settings;
  settings.blocks = 4000;
  settings.context_length = 8000;
  settings.step_tokens_max = 256;
  settings.running_max = 32;
  settings.prefix_caching = false;
  planner p{settings};
  workload::counter_random random(5);
  struct asked {
    std::uint64_t id;
    double at, expected;
  };
  std::vector<asked> open;
  std::vector<double> ratios;
  double clock = 0, took_all = 0, wrong_by = 0;
  std::uint64_t next = 1;
  for (int i = 0; i < 6000; ++i) {
    if (random.below(25) == 0) {
      generate_request r;
      r.request = request_id{next};
      r.epoch = epoch{1};
      r.prompt.resize(20 + random.below(random.below(8) == 0 ? 4000 : 600));
      std::iota(r.prompt.begin(), r.prompt.end(), static_cast<token_id>(next * 10'000));
      r.stop.max_tokens = 20 + static_cast<std::uint32_t>(random.below(100));
      const auto load = p.load();
      const auto tokens = static_cast<std::uint32_t>(r.prompt.size());
      ASSERT_TRUE(p.admit(std::move(r)).accepted());
      open.push_back({next++, clock, expected_ttft_ns(load, load.pace, {}, tokens, 0)});
    }
    auto input = p.plan();
    if (!input) {
      clock += 1e6;
      continue;
    }
    double compute = 0, memory = 3e6;
    for (const auto& slice : input->slices) {
      const auto first = slice.first_position, count = static_cast<std::uint32_t>(slice.tokens.size());
      compute += 3e4 * count + 4 * attention_pairs(first, first + count);
      memory += 200.0 * first;
    }
    const double took = std::max(compute, memory) + 0.2 * std::min(compute, memory);
    step_output output;
    output.step = input->step;
    for (const auto& slice : input->slices)
      if (slice.samples) output.tokens.emplace_back(7);
    clock += took;
    for (const auto& update : p.complete(output, static_cast<std::int64_t>(took)).updates) {
      const auto who = std::ranges::find(open, update.request.value(), &asked::id);
      if (update.first_index != 0 || who == open.end()) continue;
      if (i > 500) {
        ratios.push_back((clock - who->at) / who->expected);
        took_all += clock - who->at;
        wrong_by += std::abs(clock - who->at - who->expected);
      }
      open.erase(who);
    }
    p.check();
  }
  ASSERT_GT(ratios.size(), 100U);
  std::ranges::sort(ratios);
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  EXPECT_GT(at(0.5), 0.8);
  EXPECT_LT(at(0.5), 1.2);
  EXPECT_GT(at(0.05), 0.5);
  EXPECT_LT(at(0.95), 2.0);
  EXPECT_LT(wrong_by / took_all, 0.2);
  RecordProperty("median", std::to_string(at(0.5)));
}

} // namespace
} // namespace godwit::protocols
