#include <godwit/protocols/migration/destination.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace godwit::protocols {
namespace {

using receiver = migration_destination;
using reason = migration_reason;

template <class Effect> std::vector<Effect> all(const receiver::effects& effects) {
  std::vector<Effect> found;
  for (const auto& e : effects)
    if (const auto* one = std::get_if<Effect>(&e)) found.push_back(*one);
  return found;
}
template <class Effect> bool has(const receiver::effects& effects) { return !all<Effect>(effects).empty(); }

constexpr receiver::limits destination_limits{.stages_max = 3, .blocks_max = 10};

/// With room for blocks [0, 4) as stage 0.
receiver receiving() {
  receiver m(destination_limits);
  (void)m.begin();
  EXPECT_EQ(all<receiver::reserve>(m.step(receiver::asked_room{0, 0, 4})).at(0).blocks, 4U);
  EXPECT_TRUE(has<receiver::post>(m.step(receiver::room{true})));
  return m;
}

receiver closing() {
  auto m = receiving();
  (void)m.step(receiver::landed{0, 3});
  EXPECT_TRUE(has<receiver::close>(m.step(receiver::committed{3})));
  return m;
}

receiver adopting() {
  auto m = closing();
  EXPECT_TRUE(has<receiver::adopt>(m.step(receiver::closed{})));
  return m;
}

TEST(MigrationDestination, AnswersRoomOnlyWhenTheLandingPlaceIsPosted) {
  receiver m(destination_limits);
  EXPECT_TRUE(has<receiver::set_lease>(m.begin()));
  EXPECT_FALSE(has<receiver::answer_room>(m.step(receiver::asked_room{0, 0, 4})));
  const auto effects = m.step(receiver::room{true});
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<receiver::post>(effects[0]));
  EXPECT_EQ(std::get<receiver::answer_room>(effects[1]).reason, reason::none);
  EXPECT_EQ(m.blocks_reserved(), 4U);
}

TEST(MigrationDestination, TheFirstStageBeginsBehindWhatIsThereAlready) {
  receiver m(destination_limits, 3);
  (void)m.begin();
  EXPECT_EQ(m.blocks_reserved(), 3U);
  EXPECT_EQ(all<receiver::reserve>(m.step(receiver::asked_room{0, 3, 5})).at(0).blocks, 2U);
  EXPECT_EQ(all<receiver::post>(m.step(receiver::room{true})).at(0).first, 3U);
  EXPECT_FALSE(has<receiver::close>(m.step(receiver::committed{4}))) << "one has to land";
  EXPECT_TRUE(has<receiver::close>(m.step(receiver::landed{0, 1})));
  EXPECT_EQ(all<receiver::adopt>(m.step(receiver::closed{})).at(0).blocks, 4U);
}

// No place in the batch was asked for, and blocks behind others are not given back before them.
TEST(MigrationDestination, ACommitOfWhatIsThereAloneOrOfLessIsRefused) {
  for (const std::uint32_t blocks : {3U, 2U}) {
    receiver m(destination_limits, 3);
    (void)m.begin();
    if (blocks < 3) {
      (void)m.step(receiver::asked_room{0, 3, 5});
      (void)m.step(receiver::room{true});
    }
    const auto effects = m.step(receiver::committed{blocks});
    EXPECT_EQ(all<receiver::answer_commit>(effects).at(0).adopted, false);
    EXPECT_EQ(m.why(), reason::incompatible);
    EXPECT_TRUE(has<receiver::free_blocks>(m.step(receiver::closed{})));
  }
}

TEST(MigrationDestination, WhatIsThereAlreadyIsNotWrittenAgain) {
  receiver m(destination_limits, 3);
  (void)m.begin();
  const auto effects = m.step(receiver::asked_room{0, 0, 5});
  EXPECT_EQ(all<receiver::answer_room>(effects).at(0).reason, reason::incompatible);
  EXPECT_FALSE(has<receiver::reserve>(effects));
  EXPECT_TRUE(has<receiver::free_blocks>(m.step(receiver::closed{})));
}

TEST(MigrationDestination, AFullInstanceRefusesAndGivesBackWhatItHad) {
  auto m = receiving();
  (void)m.step(receiver::asked_room{1, 4, 6});
  const auto effects = m.step(receiver::room{false});
  EXPECT_EQ(all<receiver::answer_room>(effects).at(0).reason, reason::destination_full);
  EXPECT_TRUE(has<receiver::close>(effects));
  EXPECT_FALSE(has<receiver::free_blocks>(effects)) << "writes may still land";
  const auto closed = m.step(receiver::closed{});
  EXPECT_TRUE(has<receiver::free_blocks>(closed));
  EXPECT_EQ(all<receiver::finish>(closed).at(0).reason, reason::destination_full);
}

// The commit travels beside the blocks: whichever comes last decides.
TEST(MigrationDestination, AdoptsWhenTheCommitAndAllBlocksAreThereInEitherOrder) {
  auto blocks_first = receiving();
  EXPECT_FALSE(has<receiver::close>(blocks_first.step(receiver::landed{0, 3})));
  EXPECT_TRUE(has<receiver::close>(blocks_first.step(receiver::committed{3})));

  auto commit_first = receiving();
  EXPECT_FALSE(has<receiver::close>(commit_first.step(receiver::committed{3})));
  EXPECT_FALSE(has<receiver::close>(commit_first.step(receiver::landed{0, 2})));
  EXPECT_TRUE(has<receiver::close>(commit_first.step(receiver::landed{0, 3})));
  EXPECT_EQ(all<receiver::adopt>(commit_first.step(receiver::closed{})).at(0).blocks, 3U);
}

TEST(MigrationDestination, EveryStageMustHaveLanded) {
  auto m = receiving();
  (void)m.step(receiver::asked_room{1, 4, 6});
  (void)m.step(receiver::room{true});
  (void)m.step(receiver::committed{6});
  EXPECT_FALSE(has<receiver::close>(m.step(receiver::landed{1, 2})));
  EXPECT_FALSE(has<receiver::close>(m.step(receiver::landed{0, 3})));
  EXPECT_TRUE(has<receiver::close>(m.step(receiver::landed{0, 4})));
}

TEST(MigrationDestination, ARequestWithoutBlocksIsAdoptedToo) {
  receiver m(destination_limits);
  (void)m.begin();
  EXPECT_TRUE(has<receiver::close>(m.step(receiver::committed{0})));
  EXPECT_EQ(all<receiver::adopt>(m.step(receiver::closed{})).at(0).blocks, 0U);
}

TEST(MigrationDestination, AnswersTheCommitAsTheLlumletDecided) {
  for (const bool granted : {true, false}) {
    auto m = adopting();
    const auto effects = m.step(receiver::adoption{granted});
    EXPECT_EQ(all<receiver::answer_commit>(effects).at(0).adopted, granted);
    EXPECT_EQ(all<receiver::finish>(effects).at(0).adopted, granted);
    EXPECT_FALSE(has<receiver::free_blocks>(effects)) << "the blocks are the llumlet's";
  }
}

// What others got wrong: a failed receive leaks the destination's blocks, and one without an end hangs it.
TEST(MigrationDestination, WhateverGoesWrongWhileReceivingTheBlocksAreFreedAfterTheLandingPlacesClosed) {
  auto newest = std::get<5>(receiving().state());
  const std::vector<receiver::event> troubles{receiver::transfer_failed{}, receiver::source_lost{},
                                              receiver::abort_ordered{reason::request_cancelled},
                                              receiver::lease_expired{newest}};
  for (const auto& trouble : troubles) {
    auto m = receiving();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<receiver::close>(effects));
    EXPECT_FALSE(has<receiver::free_blocks>(effects));
    const auto closed = m.step(receiver::closed{});
    EXPECT_TRUE(has<receiver::free_blocks>(closed));
    EXPECT_TRUE(m.done());
    EXPECT_TRUE(m.step(receiver::closed{}).empty());
  }
}

TEST(MigrationDestination, WaitsForAReservationUnderWayBeforeItEnds) {
  auto m = receiving();
  (void)m.step(receiver::asked_room{1, 4, 6});
  (void)m.step(receiver::source_lost{});
  EXPECT_TRUE(m.step(receiver::closed{}).empty()) << "the llumlet may just have reserved two more";
  EXPECT_TRUE(has<receiver::free_blocks>(m.step(receiver::room{true})));
  EXPECT_TRUE(m.done());
}

TEST(MigrationDestination, NeedsTheSourceNoMoreWhenAllIsThere) {
  for (auto m : {closing(), adopting()}) {
    EXPECT_TRUE(m.step(receiver::source_lost{}).empty());
    EXPECT_TRUE(m.step(receiver::transfer_failed{}).empty());
    EXPECT_TRUE(m.step(receiver::lease_expired{std::get<5>(m.state())}).empty());
  }
}

TEST(MigrationDestination, AnAbortBeforeTheAdoptionCountsAndOneAfterItDoesNot) {
  auto early = closing();
  const auto effects = early.step(receiver::abort_ordered{reason::request_cancelled});
  EXPECT_FALSE(all<receiver::answer_commit>(effects).at(0).adopted);
  EXPECT_FALSE(has<receiver::close>(effects)) << "it is being closed";
  EXPECT_TRUE(has<receiver::free_blocks>(early.step(receiver::closed{})));

  auto late = adopting();
  EXPECT_TRUE(late.step(receiver::abort_ordered{reason::request_cancelled}).empty());
  EXPECT_EQ(late.where(), receiver::phase::adopting);
}

TEST(MigrationDestination, RepeatedMessagesAreAnsweredAsBefore) {
  auto m = receiving();
  const auto again = m.step(receiver::asked_room{0, 0, 4});
  EXPECT_FALSE(has<receiver::reserve>(again));
  EXPECT_EQ(all<receiver::answer_room>(again).at(0).reason, reason::none);
  auto adopted = adopting();
  EXPECT_TRUE(adopted.step(receiver::committed{3}).empty()) << "the answer comes";
  (void)adopted.step(receiver::adoption{true});
  EXPECT_TRUE(all<receiver::answer_commit>(adopted.step(receiver::committed{3})).at(0).adopted);
}

TEST(MigrationDestination, APeersFiguresAreChecked) {
  const std::vector<receiver::asked_room> wrong{{1, 4, 4}, {1, 4, 11}, {1, 3, 6}, {1, 5, 6}, {2, 4, 6}};
  for (const auto& ask : wrong) {
    auto m = receiving();
    const auto effects = m.step(ask);
    EXPECT_EQ(all<receiver::answer_room>(effects).at(0).reason, reason::incompatible);
    EXPECT_FALSE(has<receiver::reserve>(effects));
    EXPECT_TRUE(has<receiver::close>(effects));
  }
  auto m = receiving();
  EXPECT_FALSE(all<receiver::answer_commit>(m.step(receiver::committed{5})).at(0).adopted)
      << "a fifth block never had room";
}

TEST(MigrationDestination, StagesAreBounded) {
  receiver m(destination_limits);
  (void)m.begin();
  for (std::uint32_t s = 0; s < destination_limits.stages_max; ++s) {
    EXPECT_TRUE(has<receiver::reserve>(m.step(receiver::asked_room{s, s, s + 1})));
    (void)m.step(receiver::room{true});
  }
  EXPECT_FALSE(has<receiver::reserve>(m.step(receiver::asked_room{3, 3, 4})));
}

TEST(MigrationDestination, WhatTheSourceSaysAndSendsRenewsTheLease) {
  auto m = receiving();
  const auto before = std::get<5>(m.state());
  EXPECT_TRUE(has<receiver::set_lease>(m.step(receiver::landed{0, 1})));
  EXPECT_FALSE(has<receiver::set_lease>(m.step(receiver::landed{0, 1}))) << "nothing new";
  EXPECT_TRUE(m.step(receiver::lease_expired{before}).empty());
  EXPECT_EQ(m.where(), receiver::phase::receiving);
}

TEST(MigrationDestination, AskingForRoomRenewsTheLease) {
  auto m = receiving();
  for (int time = 0; time < 2; ++time) { // a repeated question says as well that the source is there
    const auto before = std::get<5>(m.state());
    EXPECT_TRUE(has<receiver::set_lease>(m.step(receiver::asked_room{1, 4, 6})));
    EXPECT_TRUE(m.step(receiver::lease_expired{before}).empty());
  }
  EXPECT_EQ(m.where(), receiver::phase::receiving);
}

TEST(MigrationDestination, AfterTheCommitThereIsNoRoomToAskFor) {
  auto m = receiving();
  EXPECT_FALSE(has<receiver::close>(m.step(receiver::committed{4}))) << "nothing has landed";
  const auto effects = m.step(receiver::asked_room{1, 4, 6});
  EXPECT_EQ(all<receiver::answer_room>(effects).at(0).reason, reason::incompatible);
  EXPECT_FALSE(has<receiver::reserve>(effects));
  EXPECT_FALSE(all<receiver::answer_commit>(effects).at(0).adopted);
  EXPECT_TRUE(has<receiver::close>(effects));
}

// Two notices of one stage may overtake each other.
TEST(MigrationDestination, WhatHasLandedStaysLanded) {
  auto m = receiving();
  (void)m.step(receiver::landed{0, 2});
  (void)m.step(receiver::landed{0, 1});
  EXPECT_TRUE(has<receiver::close>(m.step(receiver::committed{2})));
}

} // namespace
} // namespace godwit::protocols
