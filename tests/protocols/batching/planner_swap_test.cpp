// Requests whose KV goes to the host's memory when they lose their blocks, and comes back: the planner's part.
#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr request_id first{1}, second{2}, third{3};

planner_settings swapping(std::uint32_t blocks, std::uint32_t slots = 64) {
  planner_settings settings;
  settings.blocks = blocks;
  settings.context_length = 1000;
  settings.step_tokens_max = 512;
  settings.running_max = 4;
  settings.waiting_max = 4;
  settings.prefix_caching = false;
  settings.swap_slots = slots;
  return settings;
}

generate_request asked(request_id id, std::size_t prompt, std::uint32_t max_tokens = 100) {
  generate_request request;
  request.request = id;
  request.epoch = epoch{1};
  request.arrival_ns = static_cast<std::int64_t>(id.value());
  request.prompt.resize(prompt);
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<token_id>(id.value() * 1000));
  request.stop.max_tokens = max_tokens;
  return request;
}

step_output drawn_for(const step_input& input, std::int64_t took_ns = 0) {
  step_output output;
  output.step = input.step;
  output.duration_ns = took_ns;
  for (const auto& slice : input.slices)
    if (slice.samples) output.tokens.emplace_back(7);
  return output;
}

std::vector<request_id> requests_in(const std::optional<step_input>& step) {
  std::vector<request_id> out;
  if (step)
    for (const auto& slice : step->slices) out.push_back(slice.request);
  return out;
}

/// Two requests, of which the second one has just lost its blocks to the first.
struct pressed {
  planner p;
  swap_order order;
  std::optional<step_input> step; ///< in which that came about; not run yet

  explicit pressed(const planner_settings& settings, std::uint32_t step_ns = 0) : p{settings} {
    EXPECT_TRUE(p.admit(asked(first, 31)).accepted());
    EXPECT_TRUE(p.admit(asked(second, 31)).accepted());
    for (int i = 0; i < 100; ++i) {
      step = p.plan();
      auto effects = p.take_effects();
      if (!effects.preempted.empty()) {
        EXPECT_THAT(effects.preempted, ElementsAre(second));
        if (!effects.swaps.empty()) order = std::move(effects.swaps.front());
        p.check();
        return;
      }
      if (!step) break;
      (void)p.complete(drawn_for(*step, step_ns));
    }
    ADD_FAILURE() << "nobody was preempted";
  }
  void run_step() {
    if (step) (void)p.complete(drawn_for(*step));
    step.reset();
  }
};

TEST(PlannerSwap, BlocksAreOthersPortionByPortion) {
  pressed t{swapping(6)}; // each has three blocks, and the first one needs a fourth
  EXPECT_EQ(t.order.request, second);
  EXPECT_THAT(t.order.blocks, SizeIs(3));
  EXPECT_THAT(t.order.slots, SizeIs(3));
  EXPECT_THAT(requests_in(t.step), IsEmpty()) << "the first one waits for a block on its way out";
  EXPECT_EQ(t.p.load().swapped, 1U);
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U);
  t.p.swapped_out(t.order.number, 2);
  t.p.check();
  t.step = t.p.plan();
  EXPECT_THAT(requests_in(t.step), ElementsAre(first));
  t.run_step();
  EXPECT_EQ(t.p.ledger().available(), 0U) << "the others are still read";
  t.p.swapped_out(t.order.number, 0);
  t.p.check();
  EXPECT_EQ(t.p.ledger().available(), 2U);
  EXPECT_EQ(t.p.load().swapped_out_tokens_total, 48U);
  EXPECT_EQ(t.p.load().swaps_total, 1U);
  EXPECT_EQ(t.p.load().preemptions_total, 1U);
}

TEST(PlannerSwap, OneBlockEachIsEnoughToWaitFor) {
  auto settings = swapping(9);
  planner p{settings};
  for (const auto id : {first, second, third}) ASSERT_TRUE(p.admit(asked(id, 31)).accepted());
  std::vector<swap_order> swaps;
  for (int i = 0; i < 40 && swaps.empty(); ++i) {
    const auto step = p.plan();
    swaps = p.take_effects().swaps;
    if (step) (void)p.complete(drawn_for(*step));
  }
  ASSERT_THAT(swaps, SizeIs(1)) << "three blocks leave, which is one for each of the other two, and one more";
  EXPECT_EQ(swaps[0].request, third);
  EXPECT_FALSE(p.plan()) << "and nobody else is preempted while they leave";
  EXPECT_EQ(p.load().preemptions_total, 1U);
  p.swapped_out(swaps[0].number, 0);
  EXPECT_THAT(requests_in(p.plan()), ElementsAre(first, second));
}

TEST(PlannerSwap, ItComesBackAsItStartsAgain) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  ASSERT_NE(t.p.cancel({first, epoch{1}}), planner::cancellation::unknown);
  const auto in_queue = t.p.load();
  EXPECT_EQ(in_queue.waiting, 1U);
  EXPECT_EQ(in_queue.prefill_tokens, 1U) << "of its 49 tokens 48 need not be computed";
  EXPECT_FALSE(t.p.plan());
  const auto effects = t.p.take_effects();
  ASSERT_THAT(effects.loads, SizeIs(1));
  const auto& load = effects.loads[0];
  EXPECT_EQ(load.swap, t.order.number);
  EXPECT_EQ(load.first, 0U);
  EXPECT_EQ(load.upto, 48U);
  EXPECT_EQ(load.slots, t.order.slots);
  EXPECT_THAT(load.blocks, SizeIs(3));
  EXPECT_EQ(t.p.load().swapped, 0U);
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U) << "until it has come";
  t.p.check();
  t.p.loaded(load, 48);
  t.p.check();
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
  EXPECT_EQ(t.p.load().swapped_in_tokens_total, 48U);
  EXPECT_EQ(t.p.load().store_hit_tokens_total, 0U);
  const auto step = t.p.plan().value();
  ASSERT_THAT(step.slices, SizeIs(1));
  EXPECT_EQ(step.slices[0].first_position, 48U);
  EXPECT_THAT(step.slices[0].tokens, SizeIs(1));
}

TEST(PlannerSwap, WhatHasNotComeBackIsComputed) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  (void)t.p.cancel({first, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  const auto load = t.p.take_effects().loads.at(0);
  t.p.loaded(load, 16);
  t.p.check();
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
  EXPECT_EQ(t.p.plan().value().slices.at(0).first_position, 16U);
}

TEST(PlannerSwap, AFailedCopyIsComputedAnew) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 1);
  t.p.swap_failed(t.order.number);
  t.p.check();
  EXPECT_EQ(t.p.ledger().used(), 3U) << "the first one's";
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
  EXPECT_EQ(t.p.load().swapped, 0U);
  (void)t.p.cancel({first, epoch{1}});
  const auto step = t.p.plan().value();
  EXPECT_EQ(step.slices.at(0).first_position, 0U);
  EXPECT_THAT(step.slices.at(0).tokens, SizeIs(49));
  EXPECT_THAT(t.p.take_effects().loads, IsEmpty());
}

TEST(PlannerSwap, WhoLeavesMeanwhileGivesItsBlocksAtOnceAndItsSlotsWhenNothingIsCopied) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 2);
  EXPECT_TRUE(t.p.swap_wanted(t.order.number));
  EXPECT_EQ(t.p.cancel({second, epoch{1}}), planner::cancellation::freed);
  EXPECT_FALSE(t.p.swap_wanted(t.order.number));
  t.p.check();
  EXPECT_EQ(t.p.ledger().used(), 3U);
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U);
  t.p.swapped_out(t.order.number, 0);
  t.p.check();
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
}

TEST(PlannerSwap, WhoLeavesWhileItComesBackGivesItsSlotsWhenThatHasEnded) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  (void)t.p.cancel({first, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  const auto load = t.p.take_effects().loads.at(0);
  EXPECT_EQ(t.p.cancel({second, epoch{1}}), planner::cancellation::freed);
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U);
  t.p.check();
  t.p.loaded(load, 48);
  t.p.check();
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
  EXPECT_EQ(t.p.load().swapped_in_tokens_total, 0U);
}

TEST(PlannerSwap, WhoIsThereButOnItsWayOutDoesNotStart) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 1); // of what leaves one block is left
  (void)t.p.cancel({first, epoch{1}});
  EXPECT_FALSE(t.p.plan()) << "there is room for it, once it is out";
  t.p.swapped_out(t.order.number, 0);
  EXPECT_FALSE(t.p.plan());
  EXPECT_THAT(t.p.take_effects().loads, SizeIs(1));
}

TEST(PlannerSwap, WithoutRoomInTheHostsMemoryItIsComputedAnew) {
  pressed t{swapping(6, 2)};
  EXPECT_THAT(t.order.blocks, IsEmpty());
  EXPECT_THAT(requests_in(t.step), ElementsAre(first)) << "its blocks are free at once";
  EXPECT_EQ(t.p.load().swaps_total, 0U);
  EXPECT_EQ(t.p.load().swap_blocks, 2U);
}

TEST(PlannerSwap, RecomputeSwapsNothing) {
  auto settings = swapping(6);
  settings.preemption = preemption_mode::recompute;
  pressed t{settings};
  EXPECT_THAT(t.order.blocks, IsEmpty());
  EXPECT_EQ(t.p.load().swaps_total, 0U);
}

/// Has seen what a copy of a block takes, and steps of `step_ns`.
std::uint64_t swaps_after(preemption_mode mode, std::int64_t step_ns, std::int64_t block_ns) {
  auto settings = swapping(6);
  settings.preemption = mode;
  pressed t{settings, static_cast<std::uint32_t>(step_ns)};
  if (t.order.blocks.empty()) return 0;
  t.p.swapped_out(t.order.number, 0, 3 * block_ns);
  for (int i = 0; i < 400; ++i) {
    const auto step = t.p.plan();
    auto effects = t.p.take_effects();
    for (const auto& load : effects.loads) t.p.loaded(load, load.upto, (load.upto - load.first) / 16 * block_ns);
    for (const auto& swap : effects.swaps)
      t.p.swapped_out(swap.number, 0, static_cast<std::int64_t>(swap.blocks.size()) * block_ns);
    if (!step && effects.loads.empty() && effects.swaps.empty()) break;
    if (!step) continue;
    (void)t.p.complete(drawn_for(*step, step_ns));
    // Others keep on coming.
    (void)t.p.admit(asked(request_id{100U + static_cast<std::uint64_t>(i)}, 31, 40));
  }
  t.p.check();
  return t.p.load().swaps_total;
}

TEST(PlannerSwap, AdaptiveDoesWhatIsExpectedToTakeLess) {
  const auto quick = swaps_after(preemption_mode::adaptive, 1'000'000, 10);
  const auto slow = swaps_after(preemption_mode::adaptive, 1'000'000, 50'000'000);
  EXPECT_GT(quick, 3U) << "copies are quicker than steps";
  EXPECT_EQ(slow, 1U) << "the first one found out what a copy takes";
  EXPECT_GT(swaps_after(preemption_mode::swap, 1'000'000, 50'000'000), 3U) << "who is told to swap swaps";
}

TEST(PlannerSwap, WhoOutranksWaitsForBlocksThatLeaveAndPreemptsNobodyElseForIt) {
  auto settings = swapping(9);
  planner p{settings};
  for (const auto id : {first, second, third}) ASSERT_TRUE(p.admit(asked(id, 40)).accepted());
  const auto step = p.plan();
  ASSERT_THAT(requests_in(step), ElementsAre(first, second, third));
  (void)p.complete(drawn_for(*step));
  auto urgent = asked(request_id{4}, 30);
  urgent.priority = -1;
  ASSERT_TRUE(p.admit(urgent).accepted());
  const auto next = p.plan();
  auto effects = p.take_effects();
  EXPECT_THAT(effects.preempted, ElementsAre(third));
  ASSERT_THAT(effects.swaps, SizeIs(1));
  EXPECT_THAT(effects.swaps[0].blocks, SizeIs(2)) << "40 tokens are two whole blocks; the third is free at once";
  EXPECT_THAT(requests_in(next), ElementsAre(first, second)) << "the others go on meanwhile";
  (void)p.complete(drawn_for(*next));
  p.swapped_out(effects.swaps[0].number, 0);
  const auto after = p.plan();
  EXPECT_THAT(requests_in(after), testing::Contains(request_id{4}));
  EXPECT_EQ(p.load().preemptions_total, 1U);
}

// What others hold too stays in the pool with them, and need not be computed again.
TEST(PlannerSwap, WhatIsSharedIsNotWorthACopy) {
  auto settings = swapping(12);
  settings.prefix_caching = true;
  planner p{settings};
  auto one = asked(first, 64), other = asked(second, 64);
  other.prompt = one.prompt;
  ASSERT_TRUE(p.admit(one).accepted());
  auto step = p.plan();
  (void)p.complete(drawn_for(*step));
  ASSERT_TRUE(p.admit(other).accepted());
  step = p.plan(); // it finds the four blocks of the prompt
  (void)p.complete(drawn_for(*step));
  auto urgent = asked(third, 120);
  urgent.priority = -1;
  ASSERT_TRUE(p.admit(urgent).accepted());
  step = p.plan();
  const auto effects = p.take_effects();
  EXPECT_THAT(effects.preempted, testing::Contains(second));
  for (const auto& swap : effects.swaps) EXPECT_NE(swap.request, second) << "it has no whole block of its own";
  p.check();
}

TEST(PlannerSwap, WhoseLogProbabilitiesOfThePromptAreWantedComputesIt) {
  auto settings = swapping(6);
  planner p{settings};
  ASSERT_TRUE(p.admit(asked(first, 31)).accepted());
  auto scored = asked(second, 60);
  scored.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(p.admit(scored).accepted());
  auto urgent = asked(third, 80);
  urgent.priority = -1;
  p.check();
  settings.step_tokens_max = 8;
  planner slow{settings};
  scored.request = first;
  ASSERT_TRUE(slow.admit(scored).accepted());
  for (int i = 0; i < 5; ++i) {
    const auto step = slow.plan();
    auto output = drawn_for(*step);
    output.scores.resize(1);
    output.scores[0].resize(step->slices.at(0).scored.size());
    (void)slow.complete(output);
  }
  ASSERT_TRUE(slow.admit(urgent).accepted());
  (void)slow.plan();
  const auto effects = slow.take_effects();
  EXPECT_THAT(effects.preempted, ElementsAre(first));
  EXPECT_THAT(effects.swaps, IsEmpty());
}

TEST(PlannerSwap, OnesThatAreParkedKeepWhatIsSwappedOut) {
  pressed t{swapping(6)};
  EXPECT_EQ(t.p.park(second, epoch{1}), planner::parking::parked);
  t.p.swapped_out(t.order.number, 0);
  t.p.check();
  EXPECT_EQ(t.p.snapshot(second, 0).computed, 0U) << "it moves without";
  EXPECT_TRUE(t.p.unpark(second, epoch{1}, epoch{2}));
  t.p.check();
  (void)t.p.cancel({first, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  EXPECT_THAT(t.p.take_effects().loads, SizeIs(1));
}

} // namespace
} // namespace godwit::protocols
