// Requests whose KV goes to the host's memory when they lose their blocks, and comes back: the planner's part.
#include "protocols/batching/planner_support.hpp"

#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::asks_for;
using testing_support::drawn_by;
using testing_support::first_id;
using testing_support::second_id;
using testing_support::settings_for;
using testing_support::third_id;
using testing_support::those_in;

planner_settings swapping(std::uint32_t blocks, std::uint32_t slots = 64) {
  auto settings = settings_for(blocks, 4, 512);
  settings.waiting_max = 4;
  settings.prefix_caching = false;
  settings.swap_slots = slots;
  return settings;
}

/// They come in the order of their numbers.
generate_request asked(request_id id, std::size_t prompt, std::uint32_t max_tokens = 100) {
  return asks_for(id.value(), prompt, max_tokens, 0, static_cast<std::int64_t>(id.value()));
}

step_output drawn_in(const step_input& input, std::int64_t took_ns) {
  auto output = drawn_by(input);
  output.duration_ns = took_ns;
  return output;
}

/// Two requests, of which the second one has just lost its blocks to the first.
struct pressed {
  planner p;
  swap_order order;
  std::optional<step_input> step; ///< in which that came about; not run yet

  explicit pressed(const planner_settings& settings, std::uint32_t step_ns = 0) : p{settings} {
    EXPECT_TRUE(p.admit(asked(first_id, 31)).accepted());
    EXPECT_TRUE(p.admit(asked(second_id, 31)).accepted());
    for (int i = 0; i < 100; ++i) {
      step = p.plan();
      auto effects = p.take_effects();
      if (!effects.preempted.empty()) {
        EXPECT_THAT(effects.preempted, ElementsAre(second_id));
        if (!effects.swaps.empty()) order = std::move(effects.swaps.front());
        p.check();
        return;
      }
      if (!step) break;
      (void)p.complete(drawn_in(*step, step_ns));
    }
    ADD_FAILURE() << "nobody was preempted";
  }
  void run_step() {
    if (step) (void)p.complete(drawn_by(*step));
    step.reset();
  }
};

TEST(PlannerSwap, BlocksAreOthersPortionByPortion) {
  pressed t{swapping(6)}; // each has three blocks, and the first one needs a fourth
  EXPECT_EQ(t.order.request, second_id);
  EXPECT_THAT(t.order.blocks, SizeIs(3));
  EXPECT_THAT(t.order.slots, SizeIs(3));
  EXPECT_THAT(those_in(t.step), IsEmpty()) << "the first one waits for a block on its way out";
  EXPECT_EQ(t.p.load().swapped, 1U);
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U);
  t.p.swapped_out(t.order.number, 2);
  t.p.check();
  t.step = t.p.plan();
  EXPECT_THAT(those_in(t.step), ElementsAre(1));
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
  for (const auto id : {first_id, second_id, third_id}) ASSERT_TRUE(p.admit(asked(id, 31)).accepted());
  std::vector<swap_order> swaps;
  for (int i = 0; i < 40 && swaps.empty(); ++i) {
    const auto step = p.plan();
    swaps = p.take_effects().swaps;
    if (step) (void)p.complete(drawn_by(*step));
  }
  ASSERT_THAT(swaps, SizeIs(1)) << "three blocks leave, which is one for each of the other two, and one more";
  EXPECT_EQ(swaps[0].request, third_id);
  EXPECT_FALSE(p.plan()) << "and nobody else is preempted while they leave";
  EXPECT_EQ(p.load().preemptions_total, 1U);
  p.swapped_out(swaps[0].number, 0);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(1, 2));
}

TEST(PlannerSwap, ItComesBackAsItStartsAgain) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  ASSERT_NE(t.p.cancel({first_id, epoch{1}}), planner::cancellation::unknown);
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
  (void)t.p.cancel({first_id, epoch{1}});
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
  (void)t.p.cancel({first_id, epoch{1}});
  const auto step = t.p.plan().value();
  EXPECT_EQ(step.slices.at(0).first_position, 0U);
  EXPECT_THAT(step.slices.at(0).tokens, SizeIs(49));
  EXPECT_THAT(t.p.take_effects().loads, IsEmpty());
}

TEST(PlannerSwap, WhoLeavesMeanwhileGivesItsBlocksAndSlotsWhenNothingIsCopied) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 2);
  EXPECT_TRUE(t.p.swap_wanted(t.order.number));
  EXPECT_EQ(t.p.cancel({second_id, epoch{1}}), planner::cancellation::freed);
  EXPECT_FALSE(t.p.swap_wanted(t.order.number));
  t.p.check();
  EXPECT_EQ(t.p.ledger().used(), 3U + 2) << "a portion may be read just now";
  EXPECT_EQ(t.p.load().blocks_used, 3U) << "but they are as good as free";
  EXPECT_EQ(t.p.load().swap_blocks_used, 3U);
  t.p.swapped_out(t.order.number, 0);
  t.p.check();
  EXPECT_EQ(t.p.ledger().used(), 3U);
  EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
}

TEST(PlannerSwap, WhoLeavesWhileItComesBackGivesItsSlotsWhenThatHasEnded) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  (void)t.p.cancel({first_id, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  const auto load = t.p.take_effects().loads.at(0);
  EXPECT_EQ(t.p.cancel({second_id, epoch{1}}), planner::cancellation::freed);
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
  (void)t.p.cancel({first_id, epoch{1}});
  EXPECT_FALSE(t.p.plan()) << "there is room for it, once it is out";
  t.p.swapped_out(t.order.number, 0);
  EXPECT_FALSE(t.p.plan());
  EXPECT_THAT(t.p.take_effects().loads, SizeIs(1));
}

TEST(PlannerSwap, WithoutRoomInTheHostsMemoryItIsComputedAnew) {
  pressed t{swapping(6, 2)};
  EXPECT_THAT(t.order.blocks, IsEmpty());
  EXPECT_THAT(those_in(t.step), ElementsAre(1)) << "its blocks are free at once";
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

/// How many of some 200 preemptions are swapped out, where a copy of a block takes so long; `hiccup_ns`: the first copy
/// besides.
std::pair<std::uint64_t, std::uint64_t> swaps_of(preemption_mode mode, std::int64_t token_ns, std::int64_t block_ns,
                                                 std::int64_t hiccup_ns = 0) {
  auto settings = swapping(6);
  settings.preemption = mode;
  planner p{settings};
  std::uint64_t number = 1;
  bool first_copy = true;
  const auto took = [&](std::size_t blocks) {
    const auto more = std::exchange(first_copy, false) ? hiccup_ns : 0;
    return static_cast<std::int64_t>(blocks) * block_ns + more;
  };
  while (p.load().preemptions_total < 200) {
    while (p.load().waiting + p.load().running < 3)
      EXPECT_TRUE(p.admit(asked(request_id{number++}, 31, 40)).accepted());
    const auto step = p.plan();
    auto effects = p.take_effects();
    for (const auto& swap : effects.swaps) p.swapped_out(swap.number, 0, took(swap.blocks.size()));
    for (const auto& load : effects.loads) p.loaded(load, load.upto, took(load.blocks.size()));
    if (step) (void)p.complete(drawn_in(*step, token_ns * static_cast<std::int64_t>(1 + step->tokens())));
  }
  p.check();
  return {p.load().swaps_total, p.load().preemptions_total};
}

TEST(PlannerSwap, AdaptiveDoesWhatIsExpectedToTakeLess) {
  const auto [quick, of_quick] = swaps_of(preemption_mode::adaptive, 1'000, 10);
  EXPECT_EQ(quick, of_quick) << "copies are quicker than steps";
  const auto [slow, of_slow] = swaps_of(preemption_mode::adaptive, 1'000, 50'000'000);
  EXPECT_LE(slow, of_slow / 16 + 2) << "one to find out, and one in sixteen to see whether that is still so";
  EXPECT_GE(slow, of_slow / 16 - 1);
  const auto [told, of_told] = swaps_of(preemption_mode::swap, 1'000, 50'000'000);
  EXPECT_EQ(told, of_told) << "who is told to swap swaps";
}

TEST(PlannerSwap, OneSlowCopyIsForgotten) {
  const auto [swaps, of] = swaps_of(preemption_mode::adaptive, 1'000, 10, 50'000'000);
  EXPECT_GE(swaps, of / 2) << "those that are tried all the same show that it was chance";
}

// The share of what starts that prefix caching lacks is applied to a queue that does not count what is swapped.
TEST(PlannerSwap, WhatComesBackMakesTheQueueOfOthersNoShorter) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  (void)t.p.cancel({first_id, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  const auto load = t.p.take_effects().loads.at(0);
  t.p.loaded(load, 48);
  ASSERT_TRUE(t.p.admit(asked(third_id, 95)).accepted());
  EXPECT_EQ(t.p.load().prefill_tokens, 95U) << "all that is new";
}

TEST(PlannerSwap, WhoOutranksWaitsForBlocksThatLeaveAndPreemptsNobodyElseForIt) {
  auto settings = swapping(9);
  planner p{settings};
  for (const auto id : {first_id, second_id, third_id}) ASSERT_TRUE(p.admit(asked(id, 40)).accepted());
  const auto step = p.plan();
  ASSERT_THAT(those_in(step), ElementsAre(1, 2, 3));
  (void)p.complete(drawn_by(*step));
  auto urgent = asked(request_id{4}, 30);
  urgent.priority = -1;
  ASSERT_TRUE(p.admit(urgent).accepted());
  const auto next = p.plan();
  auto effects = p.take_effects();
  EXPECT_THAT(effects.preempted, ElementsAre(third_id));
  ASSERT_THAT(effects.swaps, SizeIs(1));
  EXPECT_THAT(effects.swaps[0].blocks, SizeIs(2)) << "40 tokens are two whole blocks; the third is free at once";
  EXPECT_THAT(those_in(next), ElementsAre(1, 2)) << "the others go on meanwhile";
  (void)p.complete(drawn_by(*next));
  p.swapped_out(effects.swaps[0].number, 0);
  const auto after = p.plan();
  EXPECT_THAT(those_in(after), ::testing::Contains(4));
  EXPECT_EQ(p.load().preemptions_total, 1U);
}

// Of four blocks of a common beginning, and more of its own, each: what others hold too stays in the pool with them.
struct sharing {
  planner p;
  swap_order order;

  explicit sharing(std::uint32_t own_tokens = 40)
      : p{[] {
          auto settings = swapping(14);
          settings.prefix_caching = true;
          return settings;
        }()} {
    auto one = asked(first_id, 64), other = asked(second_id, 64 + own_tokens);
    std::copy(one.prompt.begin(), one.prompt.end(), other.prompt.begin());
    for (const auto& request : {one, other}) {
      EXPECT_TRUE(p.admit(request).accepted());
      const auto step = p.plan();
      if (step) (void)p.complete(drawn_by(*step));
    }
    auto urgent = asked(third_id, own_tokens > 16 ? 100 : 130);
    urgent.priority = -1;
    EXPECT_TRUE(p.admit(urgent).accepted());
    const auto step = p.plan();
    auto effects = p.take_effects();
    if (step) (void)p.complete(drawn_by(*step));
    EXPECT_THAT(effects.preempted, ElementsAre(second_id));
    if (!effects.swaps.empty()) order = std::move(effects.swaps.front());
    p.check();
  }
};

TEST(PlannerSwap, WhatIsSharedStaysInThePool) {
  sharing t;
  EXPECT_EQ(t.order.request, second_id);
  EXPECT_EQ(t.order.first, 64U);
  ASSERT_THAT(t.order.blocks, SizeIs(2)) << "of 104 tokens 64 are the first one's too, and 8 are no whole block";
  EXPECT_EQ(t.p.load().swap_blocks_used, 2U);
  const auto used = t.p.ledger().used();
  t.p.swapped_out(t.order.number, 1);
  EXPECT_EQ(t.p.ledger().used(), used - 1);
  t.p.swapped_out(t.order.number, 0);
  EXPECT_EQ(t.p.ledger().used(), used - 2);
  t.p.check();
}

TEST(PlannerSwap, WhatIsSwappedOutIsOfUseWhileItsBeginningIsInThePool) {
  for (const bool stays : {true, false}) {
    sharing t;
    t.p.swapped_out(t.order.number, 0);
    (void)t.p.cancel({first_id, epoch{1}});
    (void)t.p.cancel({third_id, epoch{1}});
    // Somebody else has memory for a while: what was its own is forgotten, and perhaps the beginning as well.
    auto tokens = asked(second_id, 104).prompt;
    std::ranges::copy(asked(first_id, 64).prompt, tokens.begin());
    std::vector<block_id> taken;
    while (t.p.ledger().known_prefix(tokens, 0) > (stays ? 4U : 0U)) taken.push_back(*t.p.ledger().allocate());
    for (const auto block : taken) t.p.ledger().release(block);
    const auto step = t.p.plan();
    const auto effects = t.p.take_effects();
    if (stays) {
      ASSERT_THAT(effects.loads, SizeIs(1));
      EXPECT_EQ(effects.loads[0].first, 64U);
      EXPECT_EQ(effects.loads[0].upto, 96U);
      EXPECT_EQ(effects.loads[0].slots.back(), t.order.slots.back());
      EXPECT_EQ(effects.loads[0].slots.size() * 16, 96 - effects.loads[0].first);
      t.p.loaded(effects.loads[0], 96);
      EXPECT_EQ(t.p.plan().value().slices.at(0).first_position, 96U);
    } else {
      EXPECT_THAT(effects.loads, IsEmpty());
      ASSERT_TRUE(step);
      EXPECT_EQ(step->slices.at(0).first_position, 0U);
    }
    EXPECT_EQ(t.p.load().swap_blocks_used, 0U);
    EXPECT_EQ(t.p.load().swapped, 0U);
    t.p.check();
  }
}

TEST(PlannerSwap, WhoIsTheLastToHoldWhatWasSharedTakesItAlong) {
  auto settings = swapping(14);
  settings.prefix_caching = true;
  planner p{settings};
  auto one = asked(first_id, 70), other = asked(second_id, 104);
  std::copy_n(one.prompt.begin(), 64, other.prompt.begin());
  for (const auto& request : {one, other}) {
    ASSERT_TRUE(p.admit(request).accepted());
    (void)p.complete(drawn_by(*p.plan()));
  }
  auto urgent = asked(third_id, 200);
  urgent.priority = -1;
  ASSERT_TRUE(p.admit(urgent).accepted());
  EXPECT_FALSE(p.plan()) << "it waits for both";
  const auto effects = p.take_effects();
  EXPECT_THAT(effects.preempted, ElementsAre(second_id, first_id));
  ASSERT_THAT(effects.swaps, SizeIs(2));
  EXPECT_EQ(effects.swaps[0].first, 64U) << "the first one holds what is before it";
  EXPECT_THAT(effects.swaps[0].blocks, SizeIs(2));
  EXPECT_EQ(effects.swaps[1].first, 0U) << "who leaves holds nothing for others";
  EXPECT_THAT(effects.swaps[1].blocks, SizeIs(4));
  p.check();
  EXPECT_EQ(p.load().blocks_used, 0U);
  for (const auto& swap : effects.swaps) p.swapped_out(swap.number, 0);
  EXPECT_THAT(those_in(p.plan()), ElementsAre(3));
  p.check();
}

TEST(PlannerSwap, WhatWentOutComesBackHoweverSlowThatWasOnce) {
  auto settings = swapping(6);
  planner p{settings};
  std::uint64_t number = 1, came = 0;
  while (p.load().preemptions_total < 100) {
    while (p.load().waiting + p.load().running < 3)
      ASSERT_TRUE(p.admit(asked(request_id{number++}, 31, 40)).accepted());
    const auto step = p.plan();
    auto effects = p.take_effects();
    for (const auto& swap : effects.swaps) p.swapped_out(swap.number, 0, 10);
    for (const auto& load : effects.loads) p.loaded(load, load.upto, came++ == 0 ? 50'000'000 : 10);
    if (step) (void)p.complete(drawn_in(*step, 1'000 * static_cast<std::int64_t>(1 + step->tokens())));
  }
  EXPECT_GE(came, 30U) << "of 100 preemptions";
}

TEST(PlannerSwap, WithoutAWholeBlockOfItsOwnItIsNotWorthACopy) {
  sharing t(10);
  EXPECT_THAT(t.order.blocks, IsEmpty());
}

TEST(PlannerSwap, WhatIsHeldOutsideDoesNotMakeItGiveUpWhatIsSwapped) {
  pressed t{swapping(6)};
  t.p.swapped_out(t.order.number, 0);
  (void)t.p.cancel({first_id, epoch{1}});
  std::vector<block_id> outside;
  for (int i = 0; i < 5; ++i) outside.push_back(*t.p.ledger().allocate());
  EXPECT_FALSE(t.p.plan()) << "one block is no use to it";
  EXPECT_THAT(t.p.take_effects().loads, IsEmpty());
  EXPECT_EQ(t.p.load().swapped, 1U);
  for (const auto block : outside) t.p.ledger().release(block);
  EXPECT_FALSE(t.p.plan());
  EXPECT_THAT(t.p.take_effects().loads, SizeIs(1));
}

TEST(PlannerSwap, WhoseLogProbabilitiesOfThePromptAreWantedComputesIt) {
  auto settings = swapping(6);
  planner p{settings};
  ASSERT_TRUE(p.admit(asked(first_id, 31)).accepted());
  auto scored = asked(second_id, 60);
  scored.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(p.admit(scored).accepted());
  auto urgent = asked(third_id, 80);
  urgent.priority = -1;
  p.check();
  settings.step_tokens_max = 8;
  planner slow{settings};
  scored.request = first_id;
  ASSERT_TRUE(slow.admit(scored).accepted());
  for (int i = 0; i < 5; ++i) {
    const auto step = slow.plan();
    (void)slow.complete(drawn_by(*step));
  }
  ASSERT_TRUE(slow.admit(urgent).accepted());
  (void)slow.plan();
  const auto effects = slow.take_effects();
  EXPECT_THAT(effects.preempted, ElementsAre(first_id));
  EXPECT_THAT(effects.swaps, IsEmpty());
}

TEST(PlannerSwap, OnesThatAreParkedKeepWhatIsSwappedOut) {
  pressed t{swapping(6)};
  EXPECT_EQ(t.p.park(second_id, epoch{1}), planner::parking::parked);
  t.p.swapped_out(t.order.number, 0);
  t.p.check();
  EXPECT_EQ(t.p.snapshot(second_id, 0).computed, 0U) << "it moves without";
  EXPECT_TRUE(t.p.unpark(second_id, epoch{1}, epoch{2}));
  t.p.check();
  (void)t.p.cancel({first_id, epoch{1}});
  EXPECT_FALSE(t.p.plan());
  EXPECT_THAT(t.p.take_effects().loads, SizeIs(1));
}

} // namespace
} // namespace godwit::protocols
