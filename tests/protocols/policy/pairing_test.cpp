#include "loads.hpp"
#include "pairs.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace godwit::protocols {
namespace {

pairing_settings by(migration_policy policy) {
  pairing_settings s; // 3, 6
  s.policy = policy;
  return s;
}
const auto policies_that_drain = {migration_policy::none, migration_policy::defrag, migration_policy::freeness};

TEST(MigrationPolicy, HasANameThatIsReadBack) {
  for (const auto policy : policies_that_drain) EXPECT_EQ(parse_migration_policy(to_string(policy)), policy);
  EXPECT_EQ(parse_migration_policy(to_string(migration_policy::never)), migration_policy::never);
  EXPECT_FALSE(parse_migration_policy("sometimes"));
  ASSERT_EQ(migration_policy_names().size(), 4U);
  EXPECT_EQ(migration_policy_names().front(), "freeness");
}

// Llumnix section 4.4.3: the lowest freeness goes with the highest, again and again.
TEST(Pairing, TheLowestFreenessGoesWithTheHighestThenTheNext) {
  const std::vector loads{load_with_freeness(1, 2),  load_with_freeness(2, 20), load_with_freeness(3, -5),
                          load_with_freeness(4, 10), load_with_freeness(5, 1),  load_with_freeness(6, 15)};
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(3, 2), pair_of(5, 6), pair_of(1, 4)}));
}

TEST(Pairing, OnlyBelowAndAboveTheThresholds) {
  EXPECT_EQ(pair_instances({load_with_freeness(1, 3), load_with_freeness(2, 90)}, {}), pairs{});
  EXPECT_EQ(pair_instances({load_with_freeness(1, 2.9), load_with_freeness(2, 6)}, {}), pairs{});
  EXPECT_EQ(pair_instances({load_with_freeness(1, 2.9), load_with_freeness(2, 6.1)}, {}), pairs{pair_of(1, 2)});
}

TEST(Pairing, WhereSourcesAreManyTheWorstOnesAreServed) {
  const std::vector loads{load_with_freeness(1, 2), load_with_freeness(2, 1), load_with_freeness(3, 0),
                          load_with_freeness(4, 30)};
  EXPECT_EQ(pair_instances(loads, {}), pairs{pair_of(3, 4)});
}

TEST(Pairing, WhereDestinationsAreManyTheFreestOnesAreTaken) {
  const std::vector loads{load_with_freeness(1, 7), load_with_freeness(2, 30), load_with_freeness(3, 0),
                          load_with_freeness(4, 8)};
  EXPECT_EQ(pair_instances(loads, {}), pairs{pair_of(3, 2)});
}

TEST(Pairing, ThresholdsThatCrossNeverMoveFromTheFreerToTheFuller) {
  pairing_settings crossed;
  crossed.source_below = 20;
  crossed.destination_above = 2;
  EXPECT_EQ(pair_instances({load_with_freeness(1, 10), load_with_freeness(2, 5)}, crossed), pairs{});
}

TEST(Pairing, AnInstanceWithoutRequestsIsNoSource) {
  auto tiny = load_of(1);
  tiny.blocks_total = 2; // and so F = 2
  EXPECT_EQ(pair_instances({tiny, load_with_freeness(2, 50)}, {}), pairs{});
  tiny.waiting = 1;
  EXPECT_EQ(pair_instances({tiny, load_with_freeness(2, 50)}, {}), pairs{pair_of(1, 2)});
}

TEST(Pairing, ADestinationIsReadyAndHasPlaces) {
  const auto source = load_with_freeness(1, 0);
  auto destination = load_of(2);
  EXPECT_EQ(pair_instances({source, destination}, {}), pairs{pair_of(1, 2)});
  auto other = destination;
  other.ready = false;
  EXPECT_EQ(pair_instances({source, other}, {}), pairs{});
  other = destination;
  other.running = 6;
  EXPECT_EQ(pair_instances({source, other}, {}), pairs{pair_of(1, 2)});
  other.migrating = 2; // from its queue
  EXPECT_EQ(pair_instances({source, other}, {}), pairs{pair_of(1, 2)});
  other.places_kept = 2;
  EXPECT_EQ(pair_instances({source, other}, {}), pairs{}) << "the batch has no place";
  other = destination;
  other.waiting = 10;
  EXPECT_EQ(pair_instances({source, other}, {}), pairs{}) << "the queue has no place";
}

TEST(Pairing, OnlyInstancesThatCanTakeEachOthersKvArePaired) {
  auto source = load_with_freeness(1, 0), freest = load_with_freeness(2, 90), other = load_with_freeness(3, 20);
  source.kv_kind = other.kv_kind = 7;
  freest.kv_kind = 8;
  EXPECT_EQ(pair_instances({source, freest, other}, {}), pairs{pair_of(1, 3)});
  source.terminating = true;
  EXPECT_EQ(pair_instances({source, freest, other}, {}), pairs{pair_of(1, 3)});
  auto second = load_with_freeness(4, 1);
  second.kv_kind = 8;
  EXPECT_EQ(pair_instances({second, source, freest, other}, {}), (pairs{pair_of(1, 3), pair_of(4, 2)}));
}

TEST(Pairing, HeadroomKeepsNoTerminatingInstanceFromGettingEmpty) {
  auto leaving = load_with_freeness(1, 500);
  leaving.terminating = true;
  auto first = load_of(2), second = load_of(3);
  first.headroom_blocks = 2 * first.blocks_total;
  second.queued_blocks = second.blocks_total;
  ASSERT_LT(freeness(first), freeness(second));
  EXPECT_EQ(pair_instances({leaving, second, first}, {}), pairs{pair_of(1, 2)}) << "3 has no memory";
}

TEST(Pairing, ASourceIsReadyOrTerminates) {
  auto source = load_with_freeness(1, 0);
  source.ready = false;
  EXPECT_EQ(pair_instances({source, load_of(2)}, {}), pairs{});
  source.terminating = true;
  EXPECT_EQ(pair_instances({source, load_of(2)}, {}), pairs{pair_of(1, 2)});
}

// Llumnix section 4.4.2: the fake request drains a terminating instance.
TEST(Pairing, ATerminatingInstanceIsASourceByEveryPolicyThatMigrates) {
  auto leaving = load_with_freeness(1, 500);
  leaving.terminating = true;
  for (const auto policy : policies_that_drain)
    EXPECT_EQ(pair_instances({leaving, load_of(2)}, by(policy)), pairs{pair_of(1, 2)}) << to_string(policy);
}

TEST(Pairing, ATerminatingInstanceIsNeverADestination) {
  auto leaving = load_of(1);
  leaving.terminating = true;
  for (const auto policy : policies_that_drain)
    EXPECT_EQ(pair_instances({leaving, load_with_freeness(2, -5)}, by(policy)), pairs{});
}

TEST(Pairing, ATerminatingInstanceComesFirstAndIsContentWithLess) {
  auto leaving = load_with_freeness(1, 500);
  leaving.terminating = true;
  const std::vector loads{load_with_freeness(3, -20), leaving, load_with_freeness(2, 4), load_with_freeness(4, 9)};
  EXPECT_EQ(pair_instances(loads, {}), pairs{pair_of(1, 4)}) << "4 is too little for instance 3";
  EXPECT_EQ(pair_instances({leaving, load_with_freeness(2, 4)}, {}), pairs{pair_of(1, 2)});
  EXPECT_EQ(pair_instances({leaving, load_with_freeness(2, 0)}, {}), pairs{}) << "where somebody waits already";
}

// They are sources themselves, and none of them a destination of anybody else.
TEST(Pairing, ATerminatingInstanceGetsEmptyWhereAllOthersAreBusy) {
  auto leaving = load_with_freeness(1, 500), other = load_with_freeness(5, 500);
  leaving.terminating = other.terminating = true;
  EXPECT_EQ(pair_instances({leaving, load_with_freeness(2, 2)}, {}), pairs{pair_of(1, 2)});
  EXPECT_EQ(pair_instances({leaving, load_with_freeness(2, 0)}, {}), pairs{}) << "where somebody waits already";
  auto full = load_with_freeness(2, 2);
  full.running_max = full.running;
  EXPECT_EQ(pair_instances({leaving, full}, {}), pairs{}) << "the batch has no place";
  std::vector loads{load_with_freeness(2, 1), load_with_freeness(3, 2), load_with_freeness(4, -4), leaving};
  EXPECT_EQ(pair_instances(loads, {}), pairs{pair_of(1, 3)}) << "the freest of them";
  loads.push_back(other);
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 3), pair_of(5, 2)}));
  loads.push_back(load_with_freeness(6, 9));
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 6), pair_of(5, 3)})) << "one that is no source before them";
  loads.push_back(load_with_freeness(7, 8));
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 6), pair_of(5, 7)})) << "nobody is left for instance 4";
  loads.push_back(load_with_freeness(8, 7));
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 6), pair_of(5, 7), pair_of(4, 8)}));
}

// One whose requests fit nowhere must not keep another from getting empty.
TEST(Pairing, ThoseThatTerminateTakeTurnsWhereDestinationsAreFew) {
  auto leaving = load_with_freeness(1, 500), other = load_with_freeness(4, 500);
  leaving.terminating = other.terminating = true;
  std::vector loads{leaving, load_with_freeness(2, 0), load_with_freeness(3, 9), other};
  EXPECT_EQ(pair_instances(loads, {}, 0), pairs{pair_of(1, 3)});
  EXPECT_EQ(pair_instances(loads, {}, 1), pairs{pair_of(4, 3)});
  EXPECT_EQ(pair_instances(loads, {}, 2), pairs{pair_of(1, 3)});
  loads.push_back(load_with_freeness(5, 8));
  loads.push_back(load_with_freeness(6, 7));
  EXPECT_EQ(pair_instances(loads, {}, 1), (pairs{pair_of(4, 3), pair_of(1, 5), pair_of(2, 6)})) << "before all others";
}

TEST(Pairing, ATerminatingInstanceThatIsEmptyNeedsNobody) {
  auto leaving = load_of(1);
  leaving.terminating = true;
  EXPECT_EQ(pair_instances({leaving, load_of(2)}, {}), pairs{});
  leaving.migrating = 1;
  EXPECT_EQ(pair_instances({leaving, load_of(2)}, {}), pairs{pair_of(1, 2)});
}

TEST(Pairing, WithoutAPolicyNobodyElseIsASource) {
  EXPECT_EQ(pair_instances({load_with_freeness(1, -9), load_of(2)}, by(migration_policy::none)), pairs{});
}

TEST(Pairing, WithoutMigrationNotEvenATerminatingInstanceIsASource) {
  auto leaving = load_with_freeness(1, 5);
  leaving.terminating = true;
  EXPECT_EQ(pair_instances({leaving, load_of(2)}, by(migration_policy::none)), pairs{pair_of(1, 2)});
  EXPECT_EQ(pair_instances({leaving, load_of(2)}, by(migration_policy::never)), pairs{});
  EXPECT_EQ(pair_instances({load_with_freeness(1, -9), load_of(2)}, by(migration_policy::never)), pairs{});
}

TEST(Pairing, DefragmentsOnlyWhereTheHeadOfLineCannotStart) {
  const auto defrag = by(migration_policy::defrag);
  auto source = load_of(1, 95, 5); // F = 1
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{});
  source.waiting = 1;
  source.queued_blocks = 3;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{}) << "it will with the next step";
  source.queued_blocks = 5;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{pair_of(1, 2)});
  source.queued_blocks = 50;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{pair_of(1, 2)});
  EXPECT_EQ(pair_instances({source, load_with_freeness(2, 6)}, defrag), pairs{}) << "nobody has room";
}

TEST(Pairing, DefragmentationEndsWhenTheHeadOfLineCanStart) {
  const auto defrag = by(migration_policy::defrag);
  auto source = load_of(1, 80, 5);
  source.waiting = 1;
  source.queued_blocks = 20;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{pair_of(1, 2)});
  source.queued_blocks = 19;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{});
  source.waiting = 0; // it started, and its prompt still lacks these
  source.queued_blocks = 20;
  EXPECT_EQ(pair_instances({source, load_of(2)}, defrag), pairs{});
}

// Who waits for the next step needs nobody to leave, however much is kept free for others.
TEST(Pairing, HeadroomAloneIsNoReasonToDefragment) {
  auto source = load_of(1, 20, 4);
  source.headroom_blocks = 98;
  source.waiting = 1;
  source.queued_blocks = 79; // F = -97
  EXPECT_EQ(pair_instances({source, load_of(2)}, by(migration_policy::defrag)), pairs{});
  EXPECT_EQ(pair_instances({source, load_of(2)}, {}), pairs{pair_of(1, 2)}) << "by its freeness";
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::freeness);
  source.queued_blocks = 80;
  EXPECT_EQ(pair_instances({source, load_of(2)}, by(migration_policy::defrag)), pairs{pair_of(1, 2)});
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::defrag);
}

TEST(Pairing, TellsTheSourceWhy) {
  auto source = load_of(1, 95, 5);
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::freeness);
  source.queued_blocks = 50; // of prompts that run
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::freeness);
  source.waiting = 1;
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::defrag);
  source.terminating = true;
  EXPECT_EQ(mark_cause(source, load_of(2)), migration_cause::kind::drain);
}

} // namespace
} // namespace godwit::protocols
