// Live migration through the production actors in a simulated world: requests that migrate at random moments answer as
// if nothing had happened, and nothing is left of it. Bad weather: migration_faults_test.cpp.
#include "actors/support/migration_storm.hpp"

#include <gtest/gtest.h>

#include <set>

namespace godwit::test {

TEST(MigrationStorm, TheSameSeedGivesTheSameMigrationsByteForByte) {
  std::uint64_t moves = 0;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const bool bad = seed > 3;
    const storm s{.seed = seed, .kills = bad, .coordinators = bad, .links = bad, .withdrawals = bad};
    const auto first = run_storm(s);
    const auto again = run_storm(s);
    EXPECT_EQ(first.hash, again.hash);
    EXPECT_EQ(first.events, again.events);
    EXPECT_EQ(first.ends, again.ends);
    moves += first.moves;
    hashes.insert(first.hash);
  }
  EXPECT_GT(moves, 50U);
  EXPECT_EQ(hashes.size(), 6U);
}

TEST(MigrationStorm, RequestsThatMigrateAtRandomMomentsAnswerAsIfTheyHadStayed) {
  const auto sum = run_storms({}, 300);
  EXPECT_EQ(sum.redispatches, 0U) << "moved, not computed anew";
  EXPECT_GT(sum.with_outcome("committed"), 2000U);
}

TEST(MigrationStorm, AndUnderMemoryPressureWithPreemptions) {
  const auto sum = run_storms({.memory_pressure = true}, 300);
  EXPECT_GT(sum.preemptions, 300U);
  EXPECT_GT(sum.ends.at("aborted request_preempted"), 10U);
  EXPECT_GT(sum.with_outcome("committed"), 1000U);
}

} // namespace godwit::test
