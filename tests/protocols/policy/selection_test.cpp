#include "departures.hpp"
#include "protocols/second.hpp"

#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace godwit::protocols {
namespace {

using testing_support::second_ns;

load_report load_with(std::uint32_t id, std::uint32_t used, std::uint32_t running, std::uint32_t queued = 0) {
  load_report load{instance_id{id}, 1, 1, true};
  load.blocks_total = 100;
  load.blocks_used = used;
  load.running = running;
  load.running_max = 16;
  load.waiting_max = 8;
  load.waiting = queued > 0 ? 1 : 0;
  load.queued_blocks = queued;
  return load;
}

move_candidate running_of(std::uint64_t id, std::uint32_t blocks, std::int32_t priority = 0, std::uint8_t level = 0) {
  move_candidate c;
  c.request = request_id{id};
  c.epoch = epoch{1};
  c.priority = priority;
  c.execution_level = level;
  c.blocks = c.frees = blocks;
  c.settled_ns = 60 * second_ns;
  return c;
}

move_candidate head_of(std::uint64_t id, std::uint32_t blocks) {
  auto c = running_of(id, blocks);
  c.state = request_state::waiting;
  c.head_of_line = true;
  c.settled_ns = 0;
  return c;
}

std::uint64_t chosen(const std::vector<move_candidate>& candidates, const load_report& source,
                     const load_report& destination, const selection_settings& settings = {}) {
  const auto choice = choose_move(candidates, source, destination, settings);
  return choice ? choice->request.value() : 0;
}

TEST(Selection, PossibleMovesAreThoseItChoosesAmong) {
  const auto source = load_with(0, 95, 6), destination = load_with(1, 10, 1);
  auto large = running_of(3, 91), settling = running_of(4, 5), failed = running_of(5, 5), swapped = head_of(7, 2);
  settling.settled_ns = failed.settled_ns = second_ns;
  failed.failed = swapped.swapped = true;
  const std::vector<move_candidate> all{running_of(1, 8), running_of(2, 4), large,  settling,
                                        failed,           head_of(6, 2),    swapped};
  const auto ids = [](const std::vector<possible_move>& moves) {
    std::vector<std::uint64_t> out;
    for (const auto& m : moves) out.push_back(m.outcome.request.value());
    return out;
  };
  const auto moves = possible_moves(all, source, destination, {});
  EXPECT_EQ(ids(moves), (std::vector<std::uint64_t>{2, 1})); // the head of line can start at the source
  EXPECT_EQ(moves.front().outcome.destination_before, freeness(destination));
  EXPECT_LT(moves.front().outcome.destination_after, moves.front().outcome.destination_before);
  auto full = source;
  full.blocks_used = 99;
  full.queued_blocks = 2;
  EXPECT_EQ(ids(possible_moves(all, full, destination, {})), (std::vector<std::uint64_t>{6, 2, 1}));
  auto gone = destination;
  gone.terminating = true;
  EXPECT_TRUE(possible_moves(all, full, gone, {}).empty());
}

// Llumnix section 4.4.3: requests of lower priority and of shorter sequences go first.
TEST(Selection, LowerExecutionPriorityGoesFirstThenLowerSchedulingPriorityThenFewerBlocks) {
  const auto source = load_with(0, 95, 6), destination = load_with(1, 10, 1);
  std::vector<move_candidate> all{running_of(1, 4, -5, 1), running_of(2, 4, 9, 1), running_of(3, 9, 0),
                                  running_of(4, 8, 0),     running_of(5, 20, 7),   running_of(6, 4, -3)};
  std::vector<std::uint64_t> order;
  while (const auto choice = choose_move(all, source, destination, {})) {
    order.push_back(choice->request.value());
    std::erase_if(all, [&](const auto& c) { return c.request == choice->request; });
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{5, 4, 3, 6, 2, 1}));
}

TEST(Selection, TheHeadOfLineGoesFirstWhereTheDestinationCanRunItAtOnce) {
  const auto source = load_with(0, 95, 6, 30);
  const std::vector<move_candidate> all{running_of(1, 4), head_of(2, 30)};
  EXPECT_EQ(chosen(all, source, load_with(1, 10, 1)), 2U);
  EXPECT_EQ(chosen(all, source, load_with(1, 75, 1)), 1U) << "too little memory there";
  auto queue = load_with(1, 10, 1);
  queue.waiting = 1;
  EXPECT_EQ(chosen(all, source, queue), 1U) << "it would wait there too";
  auto full = load_with(1, 10, 16);
  EXPECT_EQ(chosen(all, source, full), 0U) << "no place in the batch, for neither";
}

TEST(Selection, TheHeadOfLineStaysWhereItOnlyWaitsForTheNextStep) {
  auto source = load_with(0, 60, 30, 30);
  source.running_max = 64;
  EXPECT_EQ(chosen({head_of(2, 30)}, source, load_with(1, 0, 0)), 0U);
  source.running_max = 30; // and goes where it waits for a place
  EXPECT_EQ(chosen({head_of(2, 30)}, source, load_with(1, 0, 0)), 2U);
  source.running_max = 32;
  EXPECT_EQ(chosen({head_of(2, 30)}, source, load_with(1, 0, 0)), 0U);
  source.places_kept = 2; // which it waits for, too
  EXPECT_EQ(chosen({head_of(2, 30)}, source, load_with(1, 0, 0)), 2U);
}

TEST(Selection, OnlyWhatFitsBesideTheDestinationsOwnQueueMoves) {
  const auto source = load_with(0, 100, 4, 20);
  auto destination = load_with(1, 40, 2);
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 1U);
  destination.queued_blocks = 40;
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 0U);
  destination = load_with(1, 40, 15);
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 1U);
  destination.places_kept = 1;
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 0U) << "its place is taken";
  destination = load_with(1, 20, 15, 10);
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 0U) << "the last place is that of who waits there";
  destination.running = 14;
  EXPECT_EQ(chosen({running_of(1, 30)}, source, destination), 1U);
}

TEST(Selection, NothingMovesToAnInstanceThatTakesNoRequests) {
  const auto source = load_with(0, 95, 6);
  auto destination = load_with(1, 0, 0);
  ASSERT_EQ(chosen({running_of(1, 4)}, source, destination), 1U);
  destination.terminating = true;
  EXPECT_EQ(chosen({running_of(1, 4)}, source, destination), 0U);
  destination.terminating = false;
  destination.ready = false;
  EXPECT_EQ(chosen({running_of(1, 4)}, source, destination), 0U);
}

TEST(Selection, ARequestStaysForTheCoolDownWhereItCameToOrWhereAMoveOfItFailed) {
  auto source = load_with(0, 95, 6, 30);
  const auto destination = load_with(1, 0, 0);
  auto c = running_of(1, 4);
  c.settled_ns = selection_settings{}.cooldown_ns - 1;
  EXPECT_EQ(chosen({c}, source, destination), 0U);
  ++c.settled_ns;
  EXPECT_EQ(chosen({c}, source, destination), 1U);
  auto head = head_of(2, 30);
  EXPECT_EQ(chosen({head}, source, destination), 2U) << "who waits need not wait for that too";
  head.failed = true;
  EXPECT_EQ(chosen({head}, source, destination), 0U);
  source.terminating = true;
  c.settled_ns = 0;
  EXPECT_EQ(chosen({c}, source, destination), 1U) << "an instance that ends does not wait";
  c.failed = true;
  EXPECT_EQ(chosen({c}, source, destination), 0U) << "but for what failed just now";
}

TEST(Selection, AMoveThatHardlyImprovesThePairIsNotMade) {
  selection_settings settings;
  EXPECT_EQ(chosen({running_of(1, 10)}, load_with(0, 80, 4), load_with(1, 60, 4), settings), 1U);
  settings.gain_min = 20;
  EXPECT_EQ(chosen({running_of(1, 10)}, load_with(0, 80, 4), load_with(1, 60, 4), settings), 0U);
}

// In a large batch one request changes little, and still those that move add up.
TEST(Selection, WhatAMoveMustGainDependsOnTheSizeOfTheBatch) {
  auto source = load_with(0, 920, 40), destination = load_with(1, 720, 40);
  source.blocks_total = destination.blocks_total = 1000;
  source.running_max = destination.running_max = 64;
  EXPECT_EQ(chosen({running_of(1, 5)}, source, destination), 1U);
}

TEST(Selection, HeadroomLeavesWithTheLastOfItsLevelAndArrivesWithTheFirst) {
  const auto source = load_with(0, 90, 3);
  auto destination = load_with(1, 10, 1);
  auto c = running_of(1, 20, 0, 1);
  c.headroom = 40;
  destination.headroom_blocks = 40;
  destination.execution_levels = 0b100; // of another level
  EXPECT_EQ(chosen({c}, source, destination), 0U) << "there is no room for its headroom beside the other";
  destination.execution_levels = 0b10;
  EXPECT_EQ(chosen({c}, source, destination), 1U) << "it is kept there already";
  auto alone = load_with(0, 90, 3);
  alone.headroom_blocks = 40;
  c.last_of_level = true;
  const auto choice = choose_move({c}, alone, load_with(1, 0, 0), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->headroom_arrives, 40U);
  account_departure(alone, c);
  EXPECT_DOUBLE_EQ(choice->source_after, freeness(alone));
}

TEST(Selection, ProfiledHeadroomIsTheDestinationsOwnThere) {
  auto source = load_with(0, 90, 3), destination = load_with(1, 0, 0);
  source.headroom_blocks = 40;
  destination.headroom_profiled = 5;
  auto c = running_of(1, 20, 0, 1);
  c.headroom = 40;
  c.headroom_is_profiled = c.last_of_level = true;
  auto choice = choose_move({c}, source, destination, {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->headroom_arrives, 5U);
  account_arrival(destination, *choice);
  EXPECT_EQ(destination.headroom_blocks, 5U);
  c.headroom_is_profiled = false; // the same on every instance
  choice = choose_move({c}, source, load_with(1, 0, 0), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->headroom_arrives, 40U);
}

TEST(Selection, OneOfSeveralOfItsLevelLeavesItsHeadroomBehind) {
  auto source = load_with(0, 50, 3), destination = load_with(1, 10, 1);
  source.headroom_blocks = 30;
  source.execution_levels = 0b11;
  destination.blocks_total = 300;
  auto c = running_of(1, 10, 0, 1);
  c.headroom = 30;
  c.last_of_level = false;
  const auto choice = choose_move({c}, source, destination, {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->headroom_arrives, 30U);
  account_departure(source, c);
  account_arrival(destination, *choice);
  EXPECT_DOUBLE_EQ(choice->source_after, freeness(source));
  EXPECT_EQ(source.headroom_blocks, 30U) << "the other one keeps it";
  EXPECT_EQ(source.execution_levels, 0b11U);
  EXPECT_EQ(destination.headroom_blocks, 30U);
  EXPECT_EQ(destination.execution_levels & 0b10U, 0b10U);

  c.request = request_id{2};
  c.last_of_level = true;
  const auto next = choose_move({c}, source, destination, {});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->headroom_arrives, 0U) << "its level is there already";
  account_departure(source, c);
  account_arrival(destination, *next);
  EXPECT_DOUBLE_EQ(next->source_after, freeness(source));
  EXPECT_EQ(source.headroom_blocks, 0U);
  EXPECT_EQ(source.execution_levels, 0b01U);
  EXPECT_EQ(destination.headroom_blocks, 30U);
}

TEST(Selection, ATerminatingSourceGetsRidOfAllThatFitsWhateverThatDoesToThePair) {
  auto source = load_with(0, 10, 1);
  const auto destination = load_with(1, 85, 12);
  ASSERT_EQ(chosen({running_of(1, 10)}, source, destination), 0U);
  source.terminating = true;
  EXPECT_EQ(chosen({running_of(1, 10)}, source, destination), 1U);
  EXPECT_EQ(chosen({running_of(1, 15)}, source, destination), 0U) << "does not fit";
  EXPECT_EQ(chosen({running_of(1, 15), head_of(2, 40)}, source, destination), 2U) << "into the queue";
  EXPECT_EQ(chosen({running_of(1, 10), head_of(2, 40)}, source, destination), 1U) << "who can run there goes first";
}

TEST(Selection, NothingGoesWhereItCouldGrowOutOfThePool) {
  auto source = load_with(0, 60, 6), destination = load_with(1, 0, 0);
  auto c = running_of(1, 10);
  c.blocks_most = destination.blocks_total + 1;
  EXPECT_TRUE(choose_move({c}, source, destination, {})) << "nor could it stay";
  destination.blocks_total = 50;
  EXPECT_FALSE(choose_move({c}, source, destination, {}));
  source.terminating = true;
  EXPECT_FALSE(choose_move({c}, source, destination, {}));
  c.blocks_most = 50;
  EXPECT_TRUE(choose_move({c}, source, destination, {}));
}

// Or the first destination that is marked would get all of a long queue, before its report says so.
TEST(Selection, ATerminatingSourceGivesOfItsQueueNoMoreThanTheDestinationHasRoomFor) {
  auto source = load_with(0, 60, 4, 30);
  source.terminating = true;
  source.waiting = 50;
  auto destination = load_with(1, 60, 4);
  destination.waiting_max = 1000;
  std::uint64_t moved = 0;
  while (const auto choice = choose_move({head_of(moved + 1, 30)}, source, destination, {})) {
    ASSERT_LT(moved, 50U);
    account_arrival(destination, *choice);
    ++moved;
  }
  EXPECT_EQ(moved, 2U);
  EXPECT_LE(freeness(destination), 0);
}

TEST(Selection, TheFiguresOfAChoiceAreThoseOfBeforeAndAfter) {
  const auto choice = choose_move({running_of(1, 10)}, load_with(0, 90, 5), load_with(1, 20, 1), {});
  ASSERT_TRUE(choice);
  EXPECT_DOUBLE_EQ(choice->source_before, 2);
  EXPECT_DOUBLE_EQ(choice->destination_before, 80);
  EXPECT_DOUBLE_EQ(choice->source_after, 5);
  EXPECT_DOUBLE_EQ(choice->destination_after, 35);
}

/// A pair of instances and their requests, drawn at random.
struct random_pair {
  explicit random_pair(unsigned seed) : random(seed) {
    for (auto* load : {&source, &destination}) {
      *load = load_with(load == &source ? 0 : 1, 0, 0);
      load->blocks_total = 20 + below(400);
      load->running_max = 1 + below(32);
      auto left = below(load->blocks_total + 1);
      while (load->running < load->running_max && left > 0) {
        auto c = running_of(next++, 1 + below(left), static_cast<std::int32_t>(below(3)));
        left -= c.blocks;
        load->blocks_used += c.blocks;
        ++load->running;
        if (load == &source) candidates.push_back(c);
      }
    }
    if (below(2) == 0) {
      const auto free = source.blocks_total - source.blocks_used;
      auto head = head_of(next++, 1 + below(source.blocks_total));
      source.waiting = 1;
      head.frees = source.running == source.running_max ? std::max(head.blocks, free) : head.blocks;
      source.queued_blocks = head.frees;
      candidates.push_back(head);
    }
    if (below(4) == 0) {
      destination.waiting = 1;
      destination.queued_blocks = 1 + below(destination.blocks_total);
    }
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

  std::mt19937 random;
  load_report source, destination;
  std::vector<move_candidate> candidates;
  std::uint64_t next = 1;
};

class SelectionModel : public ::testing::Test {
protected:
  template <class Check> void for_each_choice(std::size_t at_least, Check check) {
    std::size_t choices = 0;
    for (unsigned seed = 0; seed < 20'000 && !HasFatalFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      random_pair pair{seed};
      const auto choice = choose_move(pair.candidates, pair.source, pair.destination, {});
      if (!choice) continue;
      ++choices;
      auto source = pair.source, destination = pair.destination;
      account_departure(source, candidate_of(*choice, pair.candidates));
      account_arrival(destination, *choice);
      check(pair, *choice, source, destination);
    }
    EXPECT_GT(choices, at_least) << "the pairs do not reach what they are for";
  }
};

TEST_F(SelectionModel, AMoveNeverMakesTheWorseOneOfThePairWorse) {
  for_each_choice(5000, [](const random_pair& pair, const move_choice& choice, const load_report& source,
                           const load_report& destination) {
    const auto before = std::min(freeness(pair.source), freeness(pair.destination));
    ASSERT_GT(std::min(choice.source_after, choice.destination_after), before);
    ASSERT_GT(std::min(freeness(source), freeness(destination)), before) << "as accounted";
  });
}

TEST_F(SelectionModel, AMovedRequestIsNeverChosenToMoveBackAtOnce) {
  selection_settings at_once;
  at_once.cooldown_ns = 0;
  for_each_choice(5000, [&](const random_pair&, const move_choice& choice, const load_report& source,
                            const load_report& destination) {
    auto back = running_of(choice.request.value(), choice.blocks);
    ASSERT_EQ(chosen({back}, destination, source, at_once), 0U);
  });
}

// Llumnix, Algorithm 1: a request's virtual usage without headroom is the same wherever it is.
TEST_F(SelectionModel, AMoveConservesTheVirtualUsageOfThePairWhereThereIsNoHeadroom) {
  for_each_choice(5000, [](const random_pair& pair, const move_choice& choice, const load_report& source,
                           const load_report& destination) {
    const auto raised =
        candidate_of(choice, pair.candidates).frees - choice.blocks; // of a head of line that lacks a place, not memory
    ASSERT_EQ(virtual_usage(pair.source) + virtual_usage(pair.destination),
              virtual_usage(source) + virtual_usage(destination) + raised);
    ASSERT_LE(destination.blocks_used + destination.queued_blocks, destination.blocks_total);
    ASSERT_LE(destination.running, destination.running_max);
  });
}

// However long the pair is marked, it comes to rest.
TEST_F(SelectionModel, APairThatIsMarkedForEverComesToRest) {
  selection_settings at_once;
  at_once.cooldown_ns = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    random_pair pair{seed};
    std::size_t moves = 0;
    std::vector<move_candidate> there;
    auto* from = &pair.source;
    auto* to = &pair.destination;
    auto* here = &pair.candidates;
    auto* other = &there;
    for (int idle = 0; idle < 2;) { // in both directions
      const auto choice = choose_move(*here, *from, *to, at_once);
      if (!choice) {
        ++idle;
        std::swap(from, to);
        std::swap(here, other);
        continue;
      }
      idle = 0;
      ASSERT_LT(++moves, 1000U) << "seed " << seed;
      account_departure(*from, candidate_of(*choice, *here));
      account_arrival(*to, *choice);
      std::erase_if(*here, [&](const auto& c) { return c.request == choice->request; });
      other->push_back(running_of(choice->request.value(), choice->blocks));
    }
  }
}

} // namespace
} // namespace godwit::protocols
