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
  return expected_ttft_ns(load, load.pace, more, {tokens, known}) / 1e6;
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

// What is before it, and all of its own steps but one, go through the stages one behind the other.
TEST(ExpectedTtft, IsLessBehindStepsThatOverlap) {
  auto busy = measured(load_of(1, 40, 8));
  busy.running_max = 64;
  busy.prefill_tokens = 100;
  busy.pace.overlap = 2;
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 104), 2.5 + (10 + 100) / 2.0 + 10 + 104)
      << "104 tokens a step, beside four of the eight";
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 208), 2.5 + (30 + 308 - 114) / 2.0 + 114) << "in two steps, of which it waits for one";
  EXPECT_DOUBLE_EQ(expected_alone_ns(busy.pace, 100, 200) / 1e6, (20 + 200) / 2.0 + (20 + 200) / 2.0 / 2);
  busy.pace.overlap = 1;
  EXPECT_DOUBLE_EQ(ttft_ms(busy, 100), 5 + 20 + 200);
  EXPECT_DOUBLE_EQ(expected_alone_ns(busy.pace, 100, 200) / 1e6, 20 + 200);
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
  EXPECT_EQ(blocks_lacking(full, 2, {.tokens = 100}), 16U);
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, {.tokens = 100}, 50e6), 150e6)
      << "or until others have made room";
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, {.tokens = 100}, 900e6), 380e6);
  full.running = 7;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 14 * 20) << "it has a place, and the head of line has memory";
}

TEST(ExpectedTtft, WaitsForPlacesWhereThoseLackLonger) {
  auto full = measured(load_of(1, 20, 8));
  full.pace.step = 0;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 50);
  full.waiting = 2;
  EXPECT_DOUBLE_EQ(ttft_ms(full, 100), 100 + 150);
  EXPECT_DOUBLE_EQ(expected_ttft_ns(full, full.pace, {}, {.tokens = 100}, 1.0), 250e6)
      << "migration makes none of these";
}

TEST(ExpectedTtft, DoesNotWaitForWhoStartsAfterIt) {
  auto queued = measured(load_of(1, 90, 7));
  queued.pace.step = 0;
  queued.waiting = 3;
  queued.waiting_blocks = 30;
  queued.prefill_tokens = 300;
  const auto ttft = [&](std::uint64_t requests, std::uint64_t blocks, std::uint64_t tokens) {
    expected_request r{.tokens = 100};
    r.behind.requests = requests;
    r.behind.blocks = blocks;
    r.behind.tokens = tokens;
    return expected_ttft_ns(queued, queued.pace, {}, r) / 1e6;
  };
  EXPECT_DOUBLE_EQ(ttft(0, 0, 0), 100 + 27 * 20) << "memory";
  EXPECT_DOUBLE_EQ(ttft(1, 30, 300), 100 + 2 * 50) << "places";
  EXPECT_DOUBLE_EQ(ttft(3, 30, 200), 200) << "and prompts";
  EXPECT_DOUBLE_EQ(ttft(3, 30, 300), 100);
  EXPECT_DOUBLE_EQ(ttft(9, 900, 9000), 100) << "reports may err";
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
struct how_wrong {
  std::vector<double> ratios; ///< what it took to what was expected, sorted
  double share = 0;           ///< of all that was waited
  [[nodiscard]] double at(double which) const {
    return ratios.at(static_cast<std::size_t>(which * static_cast<double>(ratios.size() - 1)));
  }
};

struct scene {
  queue_order order = queue_order::fcfs;
  bool told = false; ///< whoever asks says what its place depends on
  std::uint32_t priorities = 1;
  std::uint32_t steps_between = 25; ///< arrivals
  std::uint32_t places = 32;
};

how_wrong run(const scene& s) {
  planner_settings settings;
  settings.queue = {s.order, 20'000'000};
  settings.blocks = 4000;
  settings.context_length = 8000;
  settings.step_tokens_max = 256;
  settings.running_max = s.places;
  settings.prefix_caching = false;
  planner p{settings};
  workload::counter_random random(5);
  struct asked {
    std::uint64_t id;
    double at, expected;
  };
  std::vector<asked> open;
  how_wrong out;
  double clock = 0, took_all = 0, wrong_by = 0;
  std::uint64_t next = 1;
  for (int i = 0; i < 6000; ++i) {
    if (random.below(s.steps_between) == 0 && p.load().waiting < 200) {
      generate_request r;
      r.request = request_id{next};
      r.epoch = epoch{1};
      r.prompt.resize(20 + random.below(random.below(8) == 0 ? 4000 : 600));
      std::iota(r.prompt.begin(), r.prompt.end(), static_cast<token_id>(next * 10'000));
      r.stop.max_tokens = 20 + static_cast<std::uint32_t>(random.below(100));
      r.arrival_ns = static_cast<std::int64_t>(clock);
      r.expected_tokens = r.stop.max_tokens;
      if (s.order == queue_order::edf) r.ttft_ns = 50'000'000 * static_cast<std::int64_t>(1 + random.below(200));
      if (s.priorities > 1) r.priority = static_cast<std::int32_t>(random.below(s.priorities));
      const auto load = p.load();
      expected_request asks{.tokens = static_cast<std::uint32_t>(r.prompt.size())};
      if (s.told)
        asks.behind = queued_behind(place_in_queue(load.order, {r.priority, r.arrival_ns, ~std::uint64_t{0}, false,
                                                                asks.tokens, r.expected_tokens, r.ttft_ns}),
                                    load.queue);
      EXPECT_TRUE(p.admit(std::move(r)).accepted());
      open.push_back({next++, clock, expected_ttft_ns(load, load.pace, {}, asks)});
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
        out.ratios.push_back((clock - who->at) / who->expected);
        took_all += clock - who->at;
        wrong_by += std::abs(clock - who->at - who->expected);
      }
      open.erase(who);
    }
    p.check();
  }
  std::ranges::sort(out.ratios);
  out.share = wrong_by / took_all;
  return out;
}

TEST(ExpectedTtft, IsWhatPlannersThenTake) {
  const auto wrong = run({});
  ASSERT_GT(wrong.ratios.size(), 100U);
  EXPECT_GT(wrong.at(0.5), 0.8);
  EXPECT_LT(wrong.at(0.5), 1.2);
  EXPECT_GT(wrong.at(0.05), 0.5);
  EXPECT_LT(wrong.at(0.95), 2.0);
  EXPECT_LT(wrong.share, 0.2);
  RecordProperty("median", std::to_string(wrong.at(0.5)));
}

// Where many wait: who is told of its place is less wrong by far than who takes itself for the last one.
TEST(ExpectedTtft, IsThatOfItsPlaceInTheQueue) {
  for (auto s : {scene{queue_order::edf}, scene{queue_order::sjf}, scene{queue_order::fcfs, false, 3}}) {
    SCOPED_TRACE(std::to_string(static_cast<int>(s.order)));
    s.steps_between = 9;
    s.places = 8;
    const auto last = run(s);
    s.told = true;
    const auto told = run(s);
    ASSERT_GT(told.ratios.size(), 200U);
    EXPECT_LT(told.share, 0.65 * last.share);
    EXPECT_GT(told.at(0.5), 0.7);
    EXPECT_LT(told.at(0.5), 1.3);
  }
}

} // namespace
} // namespace godwit::protocols
