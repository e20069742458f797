#include <godwit/protocols/batching/step_parts.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using stage_turn = stage_schedule::turn;

step_slice chunk_of(std::uint64_t request, std::uint32_t first, std::uint32_t tokens, bool samples) {
  step_slice slice;
  slice.request = request_id{request};
  slice.first_position = first;
  slice.tokens.resize(tokens);
  std::iota(slice.tokens.begin(), slice.tokens.end(), static_cast<token_id>(request * 10'000 + first));
  for (std::uint32_t i = 0; i < (first + tokens + tokens_per_block - 1) / tokens_per_block; ++i)
    slice.blocks.emplace_back(static_cast<std::uint32_t>(request * 1000 + i));
  slice.samples = samples;
  return slice;
}

class drawn_numbers {
public:
  explicit drawn_numbers(unsigned seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

private:
  std::mt19937_64 random_;
};

TEST(StepParts, StepsThatReadingTheWeightsBoundsStayWholeAndLongOnesAreCut) {
  EXPECT_EQ(step_parts_for(2048, 1, 256), 1U) << "one device";
  EXPECT_EQ(step_parts_for(64, 2, 256), 1U);
  EXPECT_EQ(step_parts_for(512, 2, 256), 1U);
  EXPECT_EQ(step_parts_for(1024, 2, 256), 2U);
  EXPECT_EQ(step_parts_for(2048, 4, 256), 5U);
  EXPECT_EQ(step_parts_for(100'000'000, 64, 1), step_parts_max);
  EXPECT_EQ(step_parts_for(3, 64, 1), 3U) << "of one token at least";
  EXPECT_EQ(step_parts_for(0, 2, 256), 1U);
  EXPECT_EQ(step_parts_for(1000, 2, 0), 1U) << "never cut";
}

// What the header says of the best number, by trying all.
TEST(StepParts, AsManyAsTakeLeast) {
  for (const std::uint32_t stages : {2U, 3U, 4U, 8U})
    for (const std::uint32_t rows : {300U, 1000U, 2048U, 9000U}) {
      constexpr std::uint32_t of_weights = 200;
      const auto time = [&](std::uint32_t parts) { return (parts + stages - 1.0) * (of_weights + 1.0 * rows / parts); };
      const auto chosen = time(step_parts_for(rows, stages, of_weights));
      for (std::uint32_t parts = 1; parts <= step_parts_max; ++parts)
        EXPECT_LE(chosen, time(parts)) << stages << " stages, " << rows << " rows, " << parts << " parts";
    }
}

TEST(StepParts, APromptIsCutAndItsLastPieceDraws) {
  step_input step;
  step.step = 7;
  step.copies.emplace_back(block_id{1}, block_id{2});
  step.slices.push_back(chunk_of(1, 32, 100, true));
  step.slices.back().generated = {5};
  const auto parts = cut_step(step, 4);
  ASSERT_EQ(parts.size(), 4U);
  std::uint32_t position = 32;
  for (const auto& part : parts) {
    EXPECT_EQ(part.step, 7U);
    EXPECT_EQ(part.copies.size(), &part == &parts.front() ? 1U : 0U);
    ASSERT_EQ(part.slices.size(), 1U);
    const auto& slice = part.slices.front();
    EXPECT_EQ(slice.tokens.size(), 25U);
    EXPECT_EQ(slice.first_position, position);
    EXPECT_EQ(slice.tokens.front(), static_cast<token_id>(10'000 + position));
    EXPECT_GE(slice.blocks.size() * tokens_per_block, slice.first_position + slice.tokens.size());
    EXPECT_EQ(slice.samples, &part == &parts.back());
    EXPECT_EQ(slice.generated.size(), &part == &parts.back() ? 1U : 0U);
    position += 25;
  }
}

TEST(StepParts, WhatIsDraftedOrScoredStaysTogether) {
  step_input step;
  step.slices.push_back(chunk_of(1, 0, 10, true));
  step.slices.back().drafted = 9;
  step.slices.push_back(chunk_of(2, 0, 30, true));
  step.slices.back().scored.resize(29);
  step.slices.push_back(chunk_of(3, 0, 4, true));
  const auto parts = cut_step(step, 8);
  std::vector<std::size_t> sizes;
  for (const auto& part : parts)
    for (const auto& slice : part.slices)
      if (slice.request != request_id{3}) sizes.push_back(slice.tokens.size());
  EXPECT_THAT(sizes, ElementsAre(10U, 30U));
}

TEST(StepParts, AnyStepIsTheSameAsItsParts) {
  drawn_numbers random(42);
  for (int round = 0; round < 3000; ++round) {
    step_input step;
    step.step = 3;
    const auto slices = 1 + random.below(9);
    for (std::uint64_t i = 0; i < slices; ++i) {
      const auto tokens = random.below(3) == 0 ? 1 + random.below(200) : 1 + random.below(4);
      step.slices.push_back(chunk_of(i, static_cast<std::uint32_t>(random.below(50)),
                                     static_cast<std::uint32_t>(tokens), random.below(3) > 0));
      auto& slice = step.slices.back();
      if (slice.samples && random.below(4) == 0) slice.drafted = static_cast<std::uint32_t>(random.below(tokens));
      if (random.below(5) == 0) slice.scored.resize(tokens - random.below(2));
    }
    const auto count = static_cast<std::uint32_t>(1 + random.below(12));
    const auto parts = cut_step(step, count);
    ASSERT_LE(parts.size(), count);
    // Put together again: pieces of a request follow each other.
    step_input again;
    again.step = step.step;
    for (const auto& part : parts) {
      ASSERT_FALSE(part.slices.empty());
      std::set<request_id> seen;
      for (const auto& slice : part.slices) {
        ASSERT_FALSE(slice.tokens.empty());
        ASSERT_TRUE(seen.insert(slice.request).second) << "one slice a request";
        auto* before = again.slices.empty() ? nullptr : &again.slices.back();
        if (before != nullptr && before->request == slice.request) {
          ASSERT_FALSE(before->samples);
          ASSERT_EQ(slice.first_position, before->first_position + before->tokens.size());
          auto whole = slice;
          whole.first_position = before->first_position;
          whole.tokens = before->tokens;
          whole.tokens.insert(whole.tokens.end(), slice.tokens.begin(), slice.tokens.end());
          *before = whole;
        } else {
          again.slices.push_back(slice);
        }
      }
    }
    ASSERT_EQ(again, step);
  }
}

TEST(StepParts, WhatPartsHaveDrawnIsPutTogetherInOrder) {
  step_output a, b, c;
  a.step = b.step = c.step = 9;
  a.tokens = {sampled_token{1}, sampled_token{no_token}};
  a.undrawn = {"why"};
  c.tokens = {sampled_token{3}};
  c.scores = {{sampled_token{4}}};
  const auto whole = join_parts({a, b, c});
  EXPECT_EQ(whole.step, 9U);
  EXPECT_THAT(whole.tokens, ElementsAre(sampled_token{1}, sampled_token{no_token}, sampled_token{3}));
  EXPECT_THAT(whole.undrawn, ElementsAre("why"));
  ASSERT_EQ(whole.scores.size(), 1U);
}

TEST(StageSchedule, PartsFollowEachOther) {
  stage_schedule plan(2);
  EXPECT_THAT(plan.begin(), IsEmpty());
  EXPECT_EQ(plan.add(3), 0U);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 0}));
  EXPECT_THAT(plan.begin(), IsEmpty());
  plan.ended({0, 0}, 10);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 1}, stage_turn{1, 0}));
  plan.ended({0, 1}, 10);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 2})) << "the second stage is busy";
  plan.ended({1, 0}, 10);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{1, 1}));
  plan.ended({1, 1}, 10);
  EXPECT_THAT(plan.begin(), IsEmpty());
  EXPECT_EQ(plan.done(), 2U);
  plan.ended({0, 2}, 10);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{1, 2}));
  plan.ended({1, 2}, 10);
  EXPECT_EQ(plan.done(), 3U);
  EXPECT_EQ(plan.take(3), 40) << "parts + stages - 1";
}

TEST(StageSchedule, TheNextStepFollowsBehindTheOneBefore) {
  stage_schedule plan(2);
  EXPECT_EQ(plan.add(1), 0U);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 0}));
  EXPECT_EQ(plan.add(2), 1U);
  EXPECT_THAT(plan.begin(), IsEmpty());
  plan.ended({0, 0}, 10);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 1}, stage_turn{1, 0}));
  plan.ended({0, 1}, 20);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 2})) << "the second stage has the first step";
  plan.ended({1, 0}, 10);
  EXPECT_EQ(plan.done(), 1U);
  EXPECT_EQ(plan.take(1), 20);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{1, 1}));
  plan.ended({1, 1}, 5);
  plan.ended({0, 2}, 20);
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{1, 2}));
  plan.ended({1, 2}, 5);
  EXPECT_EQ(plan.done(), 3U);
  EXPECT_EQ(plan.take(2), 45) << "since its own begin: two parts on the first stage, and the last on the second";
  EXPECT_EQ(plan.add(1), 3U) << "numbered through";
  EXPECT_THAT(plan.begin(), ElementsAre(stage_turn{0, 3}));
  plan.ended({0, 3}, 10);
  (void)plan.begin();
  plan.ended({1, 3}, 10);
  EXPECT_EQ(plan.take(1), 20) << "behind nobody";
}

TEST(StageSchedule, AnyOrderOfEndsRunsEachPartOnEachStageOnceAndInOrder) {
  drawn_numbers random(7);
  for (int round = 0; round < 500; ++round) {
    const auto stages = static_cast<std::uint32_t>(1 + random.below(5)),
               steps = static_cast<std::uint32_t>(1 + random.below(4));
    stage_schedule plan(stages);
    std::deque<stage_turn> running;
    std::map<std::uint32_t, std::vector<std::uint64_t>> ran; // by stage
    std::deque<std::uint32_t> waiting;                       // parts of each step
    std::uint32_t parts = 0, left = 0;
    for (std::uint32_t i = 0; i < steps; ++i) {
      waiting.push_back(static_cast<std::uint32_t>(1 + random.below(7)));
      parts += waiting.back();
    }
    std::deque<std::uint32_t> inside;
    while (plan.done() < parts) {
      if (inside.empty() || (!waiting.empty() && random.below(3) == 0)) {
        ASSERT_FALSE(waiting.empty());
        EXPECT_EQ(plan.add(waiting.front()), left);
        left += waiting.front();
        inside.push_back(waiting.front());
        waiting.pop_front();
      }
      for (const auto& t : plan.begin()) {
        EXPECT_TRUE(
            std::ranges::none_of(running, [&](const stage_turn& r) { return r.stage == t.stage || r.part == t.part; }));
        running.push_back(t);
      }
      ASSERT_FALSE(running.empty()) << "it stands still";
      const auto which = static_cast<std::ptrdiff_t>(random.below(running.size()));
      const auto t = running[static_cast<std::size_t>(which)];
      running.erase(running.begin() + which);
      ran[t.stage].push_back(t.part);
      plan.ended(t, 1);
      std::uint32_t ended = 0;
      for (const auto count : inside) ended += count;
      if (!inside.empty() && plan.done() == left - ended + inside.front()) {
        const auto took = plan.take(inside.front());
        EXPECT_GE(took, inside.front() + stages - 1);
        if (steps == 1) {
          EXPECT_EQ(took, parts + stages - 1);
        }
        inside.pop_front();
      }
    }
    EXPECT_TRUE(running.empty());
    EXPECT_TRUE(inside.empty());
    for (std::uint32_t s = 0; s < stages; ++s) {
      ASSERT_EQ(ran[s].size(), parts);
      EXPECT_TRUE(std::ranges::is_sorted(ran[s]));
    }
  }
}

} // namespace
} // namespace godwit::protocols
