#include <godwit/protocols/migration/destination.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace godwit::protocols {
namespace {

using destination = migration_destination;
using phase = migration_destination::phase;
using reason = migration_reason;

template <class Effect> std::vector<Effect> all(const destination::effects& effects) {
  std::vector<Effect> found;
  for (const auto& e : effects)
    if (const auto* one = std::get_if<Effect>(&e)) found.push_back(*one);
  return found;
}
template <class Effect> bool has(const destination::effects& effects) { return !all<Effect>(effects).empty(); }

constexpr destination::limits limits{.stages_max = 3, .blocks_max = 10};

/// With room for blocks [0, 4) as stage 0.
destination receiving() {
  destination m(limits);
  (void)m.begin();
  EXPECT_EQ(all<destination::reserve>(m.step(destination::asked_room{0, 0, 4})).at(0).blocks, 4U);
  EXPECT_TRUE(has<destination::post>(m.step(destination::room{true})));
  return m;
}

destination closing() {
  auto m = receiving();
  (void)m.step(destination::landed{0, 3});
  EXPECT_TRUE(has<destination::close>(m.step(destination::committed{3})));
  return m;
}

destination adopting() {
  auto m = closing();
  EXPECT_TRUE(has<destination::adopt>(m.step(destination::closed{})));
  return m;
}

TEST(MigrationDestination, AnswersRoomOnlyWhenTheLandingPlaceIsPosted) {
  destination m(limits);
  EXPECT_TRUE(has<destination::set_lease>(m.begin()));
  EXPECT_FALSE(has<destination::answer_room>(m.step(destination::asked_room{0, 0, 4})));
  const auto effects = m.step(destination::room{true});
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<destination::post>(effects[0]));
  EXPECT_EQ(std::get<destination::answer_room>(effects[1]).reason, reason::none);
  EXPECT_EQ(m.blocks_reserved(), 4U);
}

TEST(MigrationDestination, AFullInstanceRefusesAndGivesBackWhatItHad) {
  auto m = receiving();
  (void)m.step(destination::asked_room{1, 4, 6});
  const auto effects = m.step(destination::room{false});
  EXPECT_EQ(all<destination::answer_room>(effects).at(0).reason, reason::destination_full);
  EXPECT_TRUE(has<destination::close>(effects));
  EXPECT_FALSE(has<destination::free_blocks>(effects)) << "writes may still land";
  const auto closed = m.step(destination::closed{});
  EXPECT_TRUE(has<destination::free_blocks>(closed));
  EXPECT_EQ(all<destination::finish>(closed).at(0).reason, reason::destination_full);
}

// The commit travels beside the blocks: whichever comes last decides.
TEST(MigrationDestination, AdoptsWhenTheCommitAndAllBlocksAreThereInEitherOrder) {
  auto blocks_first = receiving();
  EXPECT_FALSE(has<destination::close>(blocks_first.step(destination::landed{0, 3})));
  EXPECT_TRUE(has<destination::close>(blocks_first.step(destination::committed{3})));

  auto commit_first = receiving();
  EXPECT_FALSE(has<destination::close>(commit_first.step(destination::committed{3})));
  EXPECT_FALSE(has<destination::close>(commit_first.step(destination::landed{0, 2})));
  EXPECT_TRUE(has<destination::close>(commit_first.step(destination::landed{0, 3})));
  EXPECT_EQ(all<destination::adopt>(commit_first.step(destination::closed{})).at(0).blocks, 3U);
}

TEST(MigrationDestination, EveryStageMustHaveLanded) {
  auto m = receiving();
  (void)m.step(destination::asked_room{1, 4, 6});
  (void)m.step(destination::room{true});
  (void)m.step(destination::committed{6});
  EXPECT_FALSE(has<destination::close>(m.step(destination::landed{1, 2})));
  EXPECT_FALSE(has<destination::close>(m.step(destination::landed{0, 3})));
  EXPECT_TRUE(has<destination::close>(m.step(destination::landed{0, 4})));
}

TEST(MigrationDestination, ARequestWithoutBlocksIsAdoptedToo) {
  destination m(limits);
  (void)m.begin();
  EXPECT_TRUE(has<destination::close>(m.step(destination::committed{0})));
  EXPECT_EQ(all<destination::adopt>(m.step(destination::closed{})).at(0).blocks, 0U);
}

TEST(MigrationDestination, AnswersTheCommitAsTheLlumletDecided) {
  for (const bool granted : {true, false}) {
    auto m = adopting();
    const auto effects = m.step(destination::adoption{granted});
    EXPECT_EQ(all<destination::answer_commit>(effects).at(0).adopted, granted);
    EXPECT_EQ(all<destination::finish>(effects).at(0).adopted, granted);
    EXPECT_FALSE(has<destination::free_blocks>(effects)) << "the blocks are the llumlet's";
  }
}

// What others got wrong: a failed receive leaks the destination's blocks, and one without an end hangs it.
TEST(MigrationDestination, WhateverGoesWrongWhileReceivingTheBlocksAreFreedAfterTheLandingPlacesClosed) {
  auto newest = std::get<5>(receiving().state());
  const std::vector<destination::event> troubles{destination::transfer_failed{}, destination::source_lost{},
                                                 destination::abort_ordered{reason::request_cancelled},
                                                 destination::lease_expired{newest}};
  for (const auto& trouble : troubles) {
    auto m = receiving();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<destination::close>(effects));
    EXPECT_FALSE(has<destination::free_blocks>(effects));
    const auto closed = m.step(destination::closed{});
    EXPECT_TRUE(has<destination::free_blocks>(closed));
    EXPECT_TRUE(m.done());
    EXPECT_TRUE(m.step(destination::closed{}).empty());
  }
}

TEST(MigrationDestination, WaitsForAReservationUnderWayBeforeItEnds) {
  auto m = receiving();
  (void)m.step(destination::asked_room{1, 4, 6});
  (void)m.step(destination::source_lost{});
  EXPECT_TRUE(m.step(destination::closed{}).empty()) << "the llumlet may just have reserved two more";
  EXPECT_TRUE(has<destination::free_blocks>(m.step(destination::room{true})));
  EXPECT_TRUE(m.done());
}

TEST(MigrationDestination, NeedsTheSourceNoMoreWhenAllIsThere) {
  for (auto m : {closing(), adopting()}) {
    EXPECT_TRUE(m.step(destination::source_lost{}).empty());
    EXPECT_TRUE(m.step(destination::transfer_failed{}).empty());
    EXPECT_TRUE(m.step(destination::lease_expired{std::get<5>(m.state())}).empty());
  }
}

TEST(MigrationDestination, AnAbortBeforeTheAdoptionCountsAndOneAfterItDoesNot) {
  auto early = closing();
  const auto effects = early.step(destination::abort_ordered{reason::request_cancelled});
  EXPECT_FALSE(all<destination::answer_commit>(effects).at(0).adopted);
  EXPECT_FALSE(has<destination::close>(effects)) << "it is being closed";
  EXPECT_TRUE(has<destination::free_blocks>(early.step(destination::closed{})));

  auto late = adopting();
  EXPECT_TRUE(late.step(destination::abort_ordered{reason::request_cancelled}).empty());
  EXPECT_EQ(late.where(), phase::adopting);
}

TEST(MigrationDestination, RepeatedMessagesAreAnsweredAsBefore) {
  auto m = receiving();
  const auto again = m.step(destination::asked_room{0, 0, 4});
  EXPECT_FALSE(has<destination::reserve>(again));
  EXPECT_EQ(all<destination::answer_room>(again).at(0).reason, reason::none);
  auto adopted = adopting();
  EXPECT_TRUE(adopted.step(destination::committed{3}).empty()) << "the answer comes";
  (void)adopted.step(destination::adoption{true});
  EXPECT_TRUE(all<destination::answer_commit>(adopted.step(destination::committed{3})).at(0).adopted);
}

TEST(MigrationDestination, APeersFiguresAreChecked) {
  const std::vector<destination::asked_room> wrong{{1, 4, 4}, {1, 4, 11}, {1, 3, 6}, {1, 5, 6}, {2, 4, 6}};
  for (const auto& ask : wrong) {
    auto m = receiving();
    const auto effects = m.step(ask);
    EXPECT_EQ(all<destination::answer_room>(effects).at(0).reason, reason::incompatible);
    EXPECT_FALSE(has<destination::reserve>(effects));
    EXPECT_TRUE(has<destination::close>(effects));
  }
  auto m = receiving();
  EXPECT_FALSE(all<destination::answer_commit>(m.step(destination::committed{5})).at(0).adopted)
      << "a fifth block never had room";
}

TEST(MigrationDestination, StagesAreBounded) {
  destination m(limits);
  (void)m.begin();
  for (std::uint32_t s = 0; s < limits.stages_max; ++s) {
    EXPECT_TRUE(has<destination::reserve>(m.step(destination::asked_room{s, s, s + 1})));
    (void)m.step(destination::room{true});
  }
  EXPECT_FALSE(has<destination::reserve>(m.step(destination::asked_room{3, 3, 4})));
}

TEST(MigrationDestination, WhatTheSourceSaysAndSendsRenewsTheLease) {
  auto m = receiving();
  const auto before = std::get<5>(m.state());
  EXPECT_TRUE(has<destination::set_lease>(m.step(destination::landed{0, 1})));
  EXPECT_FALSE(has<destination::set_lease>(m.step(destination::landed{0, 1}))) << "nothing new";
  EXPECT_TRUE(m.step(destination::lease_expired{before}).empty());
  EXPECT_EQ(m.where(), phase::receiving);
}

TEST(MigrationDestination, AskingForRoomRenewsTheLease) {
  auto m = receiving();
  for (int time = 0; time < 2; ++time) { // a repeated question says as well that the source is there
    const auto before = std::get<5>(m.state());
    EXPECT_TRUE(has<destination::set_lease>(m.step(destination::asked_room{1, 4, 6})));
    EXPECT_TRUE(m.step(destination::lease_expired{before}).empty());
  }
  EXPECT_EQ(m.where(), phase::receiving);
}

TEST(MigrationDestination, AfterTheCommitThereIsNoRoomToAskFor) {
  auto m = receiving();
  EXPECT_FALSE(has<destination::close>(m.step(destination::committed{4}))) << "nothing has landed";
  const auto effects = m.step(destination::asked_room{1, 4, 6});
  EXPECT_EQ(all<destination::answer_room>(effects).at(0).reason, reason::incompatible);
  EXPECT_FALSE(has<destination::reserve>(effects));
  EXPECT_FALSE(all<destination::answer_commit>(effects).at(0).adopted);
  EXPECT_TRUE(has<destination::close>(effects));
}

// Two notices of one stage may overtake each other.
TEST(MigrationDestination, WhatHasLandedStaysLanded) {
  auto m = receiving();
  (void)m.step(destination::landed{0, 2});
  (void)m.step(destination::landed{0, 1});
  EXPECT_TRUE(has<destination::close>(m.step(destination::committed{2})));
}

} // namespace
} // namespace godwit::protocols
