#include <godwit/protocols/migration/source.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace godwit::protocols {
namespace {

using sender = migration_source;
using reason = migration_reason;

template <class Effect> std::vector<Effect> all(const sender::effects& effects) {
  std::vector<Effect> found;
  for (const auto& e : effects)
    if (const auto* one = std::get_if<Effect>(&e)) found.push_back(*one);
  return found;
}
template <class Effect> bool has(const sender::effects& effects) { return !all<Effect>(effects).empty(); }

sender::finish end_of(const sender::effects& effects) {
  const auto ends = all<sender::finish>(effects);
  EXPECT_EQ(ends.size(), 1U);
  return ends.empty() ? sender::finish{} : ends.front();
}

constexpr migration_limits source_limits{.stages_max = 4, .last_blocks_max = 1};

/// A migration of a request of `tokens` computed tokens, up to its first look.
sender opened(std::uint32_t tokens) {
  sender m({tokens, 0}, source_limits);
  (void)m.begin();
  (void)m.step(sender::prepared{true});
  (void)m.step(sender::opened{});
  return m;
}

/// ... up to the order to park: 20 tokens, one complete block and a part.
sender parking() {
  auto m = opened(20);
  EXPECT_TRUE(has<sender::reserve>(m.step(sender::looked{{20, 0}})));
  EXPECT_TRUE(has<sender::park>(m.step(sender::reserved{0})));
  return m;
}

sender committing() {
  auto m = parking();
  EXPECT_TRUE(has<sender::commit>(m.step(sender::parked{{21, 0}})));
  return m;
}

TEST(MigrationSource, AsksTheHomeThenTheDestinationThenLooks) {
  sender m({40, 0}, source_limits);
  EXPECT_TRUE(has<sender::ask_home>(m.begin()));
  const auto opening = all<sender::open_destination>(m.step(sender::prepared{true}));
  ASSERT_EQ(opening.size(), 1U);
  EXPECT_EQ(opening[0].blocks, 3U);
  EXPECT_TRUE(has<sender::look>(m.step(sender::opened{})));
}

TEST(MigrationSource, IsRefusedByAHomeThatDoesNotWantTheMove) {
  sender m({40, 0}, source_limits);
  (void)m.begin();
  const auto effects = m.step(sender::prepared{false});
  EXPECT_EQ(end_of(effects).outcome, migration_outcome::refused);
  EXPECT_EQ(end_of(effects).reason, reason::home_refused);
  EXPECT_FALSE(has<sender::abort_destination>(effects)) << "nobody there knows of it";
  EXPECT_TRUE(m.done());
}

TEST(MigrationSource, CopiesNothingThatTheDestinationHasAlready) {
  sender m({100, 0}, source_limits);
  (void)m.begin();
  (void)m.step(sender::prepared{true});
  EXPECT_TRUE(has<sender::look>(m.step(sender::opened{4})));
  EXPECT_EQ(m.blocks_copied(), 4U);
  const auto asked = all<sender::reserve>(m.step(sender::looked{{100, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].first, 4U);
  EXPECT_EQ(asked[0].upto, 6U);
  const auto copies = all<sender::copy>(m.step(sender::reserved{0}));
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].first, 4U);
}

TEST(MigrationSource, HasOneStageWhereTheDestinationHasAllThatIsComplete) {
  sender m({96, 0}, source_limits);
  (void)m.begin();
  (void)m.step(sender::prepared{true});
  (void)m.step(sender::opened{6});
  const auto asked = all<sender::reserve>(m.step(sender::looked{{96, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].first, 6U);
  EXPECT_EQ(asked[0].upto, 7U);
  EXPECT_TRUE(has<sender::park>(m.step(sender::reserved{0})));
  const auto last = m.step(sender::parked{{96, 0}});
  EXPECT_FALSE(has<sender::copy>(last));
  EXPECT_EQ(all<sender::commit>(last).at(0).blocks, 6U);
}

TEST(MigrationSource, GivesUpADestinationThatHasMoreThanTheRequest) {
  sender m({100, 0}, source_limits);
  (void)m.begin();
  (void)m.step(sender::prepared{true});
  const auto effects = m.step(sender::opened{7}); // six are complete
  EXPECT_EQ(all<sender::abort_destination>(effects).at(0).reason, reason::incompatible);
  EXPECT_EQ(end_of(effects).outcome, migration_outcome::aborted);
}

// Llumnix section 4.2: stage 0 copies what is complete, stage k what became complete during stage k - 1.
TEST(MigrationSource, CopiesCompleteBlocksStageByStageWhileTheRequestDecodes) {
  auto m = opened(100);
  auto asked = all<sender::reserve>(m.step(sender::looked{{100, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].first, 0U);
  EXPECT_EQ(asked[0].upto, 6U);
  auto effects = m.step(sender::reserved{0});
  auto copies = all<sender::copy>(effects);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].upto, 6U);
  EXPECT_FALSE(copies[0].last);
  EXPECT_FALSE(has<sender::park>(effects));
  EXPECT_TRUE(has<sender::look>(m.step(sender::copied{0})));
  asked = all<sender::reserve>(m.step(sender::looked{{130, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].stage, 1U);
  EXPECT_EQ(asked[0].first, 6U);
  EXPECT_EQ(asked[0].upto, 8U);
  EXPECT_EQ(m.stages(), 2U);
}

TEST(MigrationSource, ParksTheRequestForTheLastStageOnly) {
  auto m = opened(20);
  const auto asked = all<sender::reserve>(m.step(sender::looked{{20, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].upto, 3U) << "two blocks, and one for the steps until it is parked";
  const auto effects = m.step(sender::reserved{0});
  EXPECT_TRUE(has<sender::park>(effects));
  EXPECT_FALSE(has<sender::copy>(effects)) << "the block that is being written still changes";
}

// A pool that holds the longest request and nothing more is large enough.
TEST(MigrationSource, AsksForNoRoomBeyondWhatTheRequestCanEverHave) {
  for (const std::uint32_t most : {2U, 3U}) {
    sender m({20, 0}, source_limits, most);
    (void)m.begin();
    (void)m.step(sender::prepared{true});
    (void)m.step(sender::opened{});
    EXPECT_EQ(all<sender::reserve>(m.step(sender::looked{{20, 0}})).at(0).upto, most);
    EXPECT_TRUE(has<sender::park>(m.step(sender::reserved{0})));
    EXPECT_EQ(all<sender::commit>(m.step(sender::parked{{32, 0}})).at(0).blocks, 2U);
  }
}

TEST(MigrationSource, TheLastCopyAndTheCommitGoTogether) {
  auto m = parking();
  const auto effects = m.step(sender::parked{{21, 0}});
  const auto copies = all<sender::copy>(effects);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].first, 0U);
  EXPECT_EQ(copies[0].upto, 2U);
  EXPECT_TRUE(copies[0].last);
  EXPECT_EQ(all<sender::commit>(effects).at(0).blocks, 2U);
  EXPECT_TRUE(m.commit_sent());
}

TEST(MigrationSource, ARequestThatOutgrewItsReservationIsGivenMoreRoomBeforeTheLastCopy) {
  auto m = parking(); // room for three blocks
  const auto asked = all<sender::reserve>(m.step(sender::parked{{50, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].stage, 1U);
  EXPECT_EQ(asked[0].first, 3U);
  EXPECT_EQ(asked[0].upto, 4U);
  const auto effects = m.step(sender::reserved{1});
  const auto copies = all<sender::copy>(effects);
  ASSERT_EQ(copies.size(), 2U) << "each into the landing place that its stage posted";
  EXPECT_EQ(copies[0].stage, 0U);
  EXPECT_EQ(copies[0].upto, 3U);
  EXPECT_EQ(copies[1].stage, 1U);
  EXPECT_EQ(copies[1].upto, 4U);
  EXPECT_EQ(all<sender::commit>(effects).at(0).blocks, 4U);
}

TEST(MigrationSource, AWaitingRequestMovesWithoutAnyBlock) {
  sender m({0, 0}, source_limits);
  (void)m.begin();
  (void)m.step(sender::prepared{true});
  (void)m.step(sender::opened{});
  EXPECT_TRUE(has<sender::park>(m.step(sender::looked{{0, 0}})));
  const auto effects = m.step(sender::parked{{0, 0}});
  EXPECT_FALSE(has<sender::copy>(effects));
  EXPECT_EQ(all<sender::commit>(effects).at(0).blocks, 0U);
}

TEST(MigrationSource, ReleasesOnlyWhatTheDestinationHasAdopted) {
  auto m = committing();
  const auto effects = m.step(sender::commit_answered{true});
  EXPECT_TRUE(has<sender::release>(effects));
  EXPECT_EQ(end_of(effects).outcome, migration_outcome::committed);
}

// What others got wrong: a lost commit reply leaves the request running at both sides.
TEST(MigrationSource, NeverResumesByItselfOnceTheCommitIsSent) {
  const std::vector<sender::event> troubles{sender::commit_answered{false}, sender::peer_lost{}, sender::stop{},
                                            sender::copy_failed{0}};
  for (const auto& trouble : troubles) {
    auto m = committing();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<sender::settle>(effects));
    EXPECT_FALSE(has<sender::resume>(effects));
    EXPECT_FALSE(has<sender::release>(effects));
    EXPECT_EQ(m.where(), sender::phase::settling);
  }
}

TEST(MigrationSource, ACommitThatGoesUnansweredIsSettledByTheHome) {
  using how = sender::settlement;
  const std::vector<std::pair<how, migration_outcome>> answers{{how::resumed, migration_outcome::reclaimed},
                                                               {how::moved, migration_outcome::committed},
                                                               {how::ended, migration_outcome::aborted},
                                                               {how::lost, migration_outcome::lost}};
  for (const auto& [answer, outcome] : answers) {
    auto m = committing();
    const auto newest = std::get<8>(m.state());
    EXPECT_TRUE(has<sender::settle>(m.step(sender::timed_out{newest})));
    EXPECT_TRUE(m.step(sender::timed_out{newest}).empty());
    EXPECT_TRUE(m.step(sender::commit_answered{true}).empty()) << "the home's word counts";
    EXPECT_EQ(end_of(m.step(sender::settled{answer})).outcome, outcome);
  }
}

TEST(MigrationSource, ResumesByItselfUntilTheCommitIsSent) {
  const std::vector<sender::event> troubles{sender::peer_lost{}, sender::stop{},
                                            sender::gone{reason::request_preempted, false}};
  for (const auto& trouble : troubles) {
    auto m = parking();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<sender::resume>(effects)) << "the order to park is taken back";
    EXPECT_TRUE(has<sender::abort_destination>(effects));
    EXPECT_EQ(end_of(effects).outcome, migration_outcome::aborted);
  }
}

TEST(MigrationSource, ResumesWhenTheDestinationHasNoRoomForAnExtension) {
  auto m = parking();
  (void)m.step(sender::parked{{50, 0}});
  const auto effects = m.step(sender::refused{reason::destination_full});
  EXPECT_TRUE(has<sender::resume>(effects));
  EXPECT_EQ(end_of(effects).reason, reason::destination_full);
}

TEST(MigrationSource, ARequestThatEndedIsNotResumed) {
  auto m = parking();
  const auto effects = m.step(sender::gone{reason::request_finished, true});
  EXPECT_FALSE(has<sender::resume>(effects));
  EXPECT_TRUE(has<sender::abort_destination>(effects));
  EXPECT_EQ(end_of(effects).reason, reason::request_finished);
}

TEST(MigrationSource, NoticesAPreemptionThatItWasNotToldOf) {
  auto looking = opened(40);
  EXPECT_EQ(end_of(looking.step(sender::looked{{40, 1}})).reason, reason::request_preempted);
  auto parked = parking();
  EXPECT_EQ(end_of(parked.step(sender::parked{{20, 1}})).reason, reason::request_preempted);
}

TEST(MigrationSource, GivesUpACopyThatDecodingOutruns) {
  auto m = opened(100);
  std::uint32_t tokens = 100;
  sender::effects effects = m.step(sender::looked{{tokens, 0}});
  for (std::uint32_t stage = 0; !m.done() && stage < 10; ++stage) {
    (void)m.step(sender::reserved{stage});
    (void)m.step(sender::copied{stage});
    tokens += 100;
    effects = m.step(sender::looked{{tokens, 0}});
  }
  EXPECT_EQ(end_of(effects).reason, reason::not_converging);
  EXPECT_LT(m.stages(), source_limits.stages_max);
}

TEST(MigrationSource, ATimerThatWasReplacedChangesNothing) {
  auto m = opened(100);
  EXPECT_TRUE(m.step(sender::timed_out{1}).empty());
  EXPECT_EQ(end_of(m.step(sender::timed_out{std::get<8>(m.state())})).reason, reason::timed_out);
}

TEST(MigrationSource, LateAndRepeatedNewsChangeNothing) {
  auto m = committing();
  EXPECT_TRUE(m.step(sender::prepared{false}).empty());
  EXPECT_TRUE(m.step(sender::opened{}).empty());
  EXPECT_TRUE(m.step(sender::reserved{0}).empty());
  EXPECT_TRUE(m.step(sender::looked{{1, 9}}).empty());
  EXPECT_TRUE(m.step(sender::parked{{1, 9}}).empty());
  (void)m.step(sender::commit_answered{true});
  EXPECT_TRUE(m.step(sender::peer_lost{}).empty());
  EXPECT_TRUE(m.step(sender::stop{}).empty());
}

} // namespace
} // namespace godwit::protocols
