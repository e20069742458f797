#include <godwit/protocols/migration/source.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace godwit::protocols {
namespace {

using source = migration_source;
using phase = migration_source::phase;
using reason = migration_reason;

template <class Effect> std::vector<Effect> all(const source::effects& effects) {
  std::vector<Effect> found;
  for (const auto& e : effects)
    if (const auto* one = std::get_if<Effect>(&e)) found.push_back(*one);
  return found;
}
template <class Effect> bool has(const source::effects& effects) { return !all<Effect>(effects).empty(); }

source::finish end_of(const source::effects& effects) {
  const auto ends = all<source::finish>(effects);
  EXPECT_EQ(ends.size(), 1U);
  return ends.empty() ? source::finish{} : ends.front();
}

constexpr migration_limits limits{.stages_max = 4, .last_blocks_max = 1};

/// A migration of a request of `tokens` computed tokens, up to its first look.
source opened(std::uint32_t tokens) {
  source m({tokens, 0}, limits);
  (void)m.begin();
  (void)m.step(source::prepared{true});
  (void)m.step(source::opened{});
  return m;
}

/// ... up to the order to park: 20 tokens, one complete block and a part.
source parking() {
  auto m = opened(20);
  EXPECT_TRUE(has<source::reserve>(m.step(source::looked{{20, 0}})));
  EXPECT_TRUE(has<source::park>(m.step(source::reserved{0})));
  return m;
}

source committing() {
  auto m = parking();
  EXPECT_TRUE(has<source::commit>(m.step(source::parked{{21, 0}})));
  return m;
}

TEST(MigrationSource, AsksTheHomeThenTheDestinationThenLooks) {
  source m({40, 0}, limits);
  EXPECT_TRUE(has<source::ask_home>(m.begin()));
  const auto opening = all<source::open_destination>(m.step(source::prepared{true}));
  ASSERT_EQ(opening.size(), 1U);
  EXPECT_EQ(opening[0].blocks, 3U);
  EXPECT_TRUE(has<source::look>(m.step(source::opened{})));
}

TEST(MigrationSource, IsRefusedByAHomeThatDoesNotWantTheMove) {
  source m({40, 0}, limits);
  (void)m.begin();
  const auto effects = m.step(source::prepared{false});
  EXPECT_EQ(end_of(effects).outcome, migration_outcome::refused);
  EXPECT_EQ(end_of(effects).reason, reason::home_refused);
  EXPECT_FALSE(has<source::abort_destination>(effects)) << "nobody there knows of it";
  EXPECT_TRUE(m.done());
}

// Llumnix section 4.2: stage 0 copies what is complete, stage k what became complete during stage k - 1.
TEST(MigrationSource, CopiesCompleteBlocksStageByStageWhileTheRequestDecodes) {
  auto m = opened(100);
  auto asked = all<source::reserve>(m.step(source::looked{{100, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].first, 0U);
  EXPECT_EQ(asked[0].upto, 6U);
  auto effects = m.step(source::reserved{0});
  auto copies = all<source::copy>(effects);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].upto, 6U);
  EXPECT_FALSE(copies[0].last);
  EXPECT_FALSE(has<source::park>(effects));
  EXPECT_TRUE(has<source::look>(m.step(source::copied{0})));
  asked = all<source::reserve>(m.step(source::looked{{130, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].stage, 1U);
  EXPECT_EQ(asked[0].first, 6U);
  EXPECT_EQ(asked[0].upto, 8U);
  EXPECT_EQ(m.stages(), 2U);
}

TEST(MigrationSource, ParksTheRequestForTheLastStageOnly) {
  auto m = opened(20);
  const auto asked = all<source::reserve>(m.step(source::looked{{20, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].upto, 3U) << "two blocks, and one for the steps until it is parked";
  const auto effects = m.step(source::reserved{0});
  EXPECT_TRUE(has<source::park>(effects));
  EXPECT_FALSE(has<source::copy>(effects)) << "the block that is being written still changes";
}

// A pool that holds the longest request and nothing more is large enough.
TEST(MigrationSource, AsksForNoRoomBeyondWhatTheRequestCanEverHave) {
  for (const std::uint32_t most : {2U, 3U}) {
    source m({20, 0}, limits, most);
    (void)m.begin();
    (void)m.step(source::prepared{true});
    (void)m.step(source::opened{});
    EXPECT_EQ(all<source::reserve>(m.step(source::looked{{20, 0}})).at(0).upto, most);
    EXPECT_TRUE(has<source::park>(m.step(source::reserved{0})));
    EXPECT_EQ(all<source::commit>(m.step(source::parked{{32, 0}})).at(0).blocks, 2U);
  }
}

TEST(MigrationSource, TheLastCopyAndTheCommitGoTogether) {
  auto m = parking();
  const auto effects = m.step(source::parked{{21, 0}});
  const auto copies = all<source::copy>(effects);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].first, 0U);
  EXPECT_EQ(copies[0].upto, 2U);
  EXPECT_TRUE(copies[0].last);
  EXPECT_EQ(all<source::commit>(effects).at(0).blocks, 2U);
  EXPECT_TRUE(m.commit_sent());
}

TEST(MigrationSource, ARequestThatOutgrewItsReservationIsGivenMoreRoomBeforeTheLastCopy) {
  auto m = parking(); // room for three blocks
  const auto asked = all<source::reserve>(m.step(source::parked{{50, 0}}));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].stage, 1U);
  EXPECT_EQ(asked[0].first, 3U);
  EXPECT_EQ(asked[0].upto, 4U);
  const auto effects = m.step(source::reserved{1});
  const auto copies = all<source::copy>(effects);
  ASSERT_EQ(copies.size(), 2U) << "each into the landing place that its stage posted";
  EXPECT_EQ(copies[0].stage, 0U);
  EXPECT_EQ(copies[0].upto, 3U);
  EXPECT_EQ(copies[1].stage, 1U);
  EXPECT_EQ(copies[1].upto, 4U);
  EXPECT_EQ(all<source::commit>(effects).at(0).blocks, 4U);
}

TEST(MigrationSource, AWaitingRequestMovesWithoutAnyBlock) {
  source m({0, 0}, limits);
  (void)m.begin();
  (void)m.step(source::prepared{true});
  (void)m.step(source::opened{});
  EXPECT_TRUE(has<source::park>(m.step(source::looked{{0, 0}})));
  const auto effects = m.step(source::parked{{0, 0}});
  EXPECT_FALSE(has<source::copy>(effects));
  EXPECT_EQ(all<source::commit>(effects).at(0).blocks, 0U);
}

TEST(MigrationSource, ReleasesOnlyWhatTheDestinationHasAdopted) {
  auto m = committing();
  const auto effects = m.step(source::commit_answered{true});
  EXPECT_TRUE(has<source::release>(effects));
  EXPECT_EQ(end_of(effects).outcome, migration_outcome::committed);
}

// What others got wrong: a lost commit reply leaves the request running at both sides.
TEST(MigrationSource, NeverResumesByItselfOnceTheCommitIsSent) {
  const std::vector<source::event> troubles{source::commit_answered{false}, source::peer_lost{}, source::stop{},
                                            source::copy_failed{0}};
  for (const auto& trouble : troubles) {
    auto m = committing();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<source::settle>(effects));
    EXPECT_FALSE(has<source::resume>(effects));
    EXPECT_FALSE(has<source::release>(effects));
    EXPECT_EQ(m.where(), phase::settling);
  }
}

TEST(MigrationSource, ACommitThatGoesUnansweredIsSettledByTheHome) {
  using how = source::settlement;
  const std::vector<std::pair<how, migration_outcome>> answers{{how::resumed, migration_outcome::reclaimed},
                                                               {how::moved, migration_outcome::committed},
                                                               {how::ended, migration_outcome::aborted},
                                                               {how::lost, migration_outcome::lost}};
  for (const auto& [answer, outcome] : answers) {
    auto m = committing();
    const auto newest = std::get<8>(m.state());
    EXPECT_TRUE(has<source::settle>(m.step(source::timed_out{newest})));
    EXPECT_TRUE(m.step(source::timed_out{newest}).empty());
    EXPECT_TRUE(m.step(source::commit_answered{true}).empty()) << "the home's word counts";
    EXPECT_EQ(end_of(m.step(source::settled{answer})).outcome, outcome);
  }
}

TEST(MigrationSource, ResumesByItselfUntilTheCommitIsSent) {
  const std::vector<source::event> troubles{source::peer_lost{}, source::stop{},
                                            source::gone{reason::request_preempted, false}};
  for (const auto& trouble : troubles) {
    auto m = parking();
    const auto effects = m.step(trouble);
    EXPECT_TRUE(has<source::resume>(effects)) << "the order to park is taken back";
    EXPECT_TRUE(has<source::abort_destination>(effects));
    EXPECT_EQ(end_of(effects).outcome, migration_outcome::aborted);
  }
}

TEST(MigrationSource, ResumesWhenTheDestinationHasNoRoomForAnExtension) {
  auto m = parking();
  (void)m.step(source::parked{{50, 0}});
  const auto effects = m.step(source::refused{reason::destination_full});
  EXPECT_TRUE(has<source::resume>(effects));
  EXPECT_EQ(end_of(effects).reason, reason::destination_full);
}

TEST(MigrationSource, ARequestThatEndedIsNotResumed) {
  auto m = parking();
  const auto effects = m.step(source::gone{reason::request_finished, true});
  EXPECT_FALSE(has<source::resume>(effects));
  EXPECT_TRUE(has<source::abort_destination>(effects));
  EXPECT_EQ(end_of(effects).reason, reason::request_finished);
}

TEST(MigrationSource, NoticesAPreemptionThatItWasNotToldOf) {
  auto looking = opened(40);
  EXPECT_EQ(end_of(looking.step(source::looked{{40, 1}})).reason, reason::request_preempted);
  auto parked = parking();
  EXPECT_EQ(end_of(parked.step(source::parked{{20, 1}})).reason, reason::request_preempted);
}

TEST(MigrationSource, GivesUpACopyThatDecodingOutruns) {
  auto m = opened(100);
  std::uint32_t tokens = 100;
  source::effects effects = m.step(source::looked{{tokens, 0}});
  for (std::uint32_t stage = 0; !m.done() && stage < 10; ++stage) {
    (void)m.step(source::reserved{stage});
    (void)m.step(source::copied{stage});
    tokens += 100;
    effects = m.step(source::looked{{tokens, 0}});
  }
  EXPECT_EQ(end_of(effects).reason, reason::not_converging);
  EXPECT_LT(m.stages(), limits.stages_max);
}

TEST(MigrationSource, ATimerThatWasReplacedChangesNothing) {
  auto m = opened(100);
  EXPECT_TRUE(m.step(source::timed_out{1}).empty());
  EXPECT_EQ(end_of(m.step(source::timed_out{std::get<8>(m.state())})).reason, reason::timed_out);
}

TEST(MigrationSource, LateAndRepeatedNewsChangeNothing) {
  auto m = committing();
  EXPECT_TRUE(m.step(source::prepared{false}).empty());
  EXPECT_TRUE(m.step(source::opened{}).empty());
  EXPECT_TRUE(m.step(source::reserved{0}).empty());
  EXPECT_TRUE(m.step(source::looked{{1, 9}}).empty());
  EXPECT_TRUE(m.step(source::parked{{1, 9}}).empty());
  (void)m.step(source::commit_answered{true});
  EXPECT_TRUE(m.step(source::peer_lost{}).empty());
  EXPECT_TRUE(m.step(source::stop{}).empty());
}

} // namespace
} // namespace godwit::protocols
