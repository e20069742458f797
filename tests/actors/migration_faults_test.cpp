// Live migration in bad weather: instances, coordinators, homes and links fail and clients leave at random moments. No
// token is lost or repeated, every request ends, and nothing is left behind.
#include "actors/support/migration_storm.hpp"

#include <gtest/gtest.h>

namespace godwit::test {

TEST(MigrationFaults, ClientsThatLeaveDuringMigrations) {
  const auto sum = run_storms({.withdrawals = true, .memory_pressure = true}, 200);
  EXPECT_GT(sum.ends.at("aborted request_cancelled"), 20U);
}

TEST(MigrationFaults, InstancesThatDieDuringMigrations) {
  const auto sum = run_storms({.kills = true}, 200);
  EXPECT_GT(sum.redispatches, 300U);
  EXPECT_GT(sum.ends.at("aborted peer_lost"), 20U);
  EXPECT_GT(sum.with_outcome("committed"), 500U);
}

TEST(MigrationFaults, CoordinatorsThatDieAnywhereHarmTheirMigrationOnly) {
  const auto sum = run_storms({.coordinators = true}, 300);
  EXPECT_GT(sum.ends.at("aborted stopped"), 100U);
  EXPECT_GT(sum.ends.at("aborted peer_lost"), 100U);
  EXPECT_GT(sum.with_outcome("reclaimed"), 20U);
  EXPECT_GT(sum.with_outcome("committed"), 500U);
  EXPECT_EQ(sum.redispatches, 0U) << "a coordinator's death costs no request its instance";
}

// Each place by itself, every time: what comes after it is never seen.
TEST(MigrationFaults, CoordinatorsThatAlwaysDieAtOnePlace) {
  for (const char* place :
       {"source.opened", "source.copying", "source.copied", "source.last_copy", "source.parked", "source.committing",
        "source.committed", "destination.opened", "destination.reserved", "destination.landed", "destination.commit",
        "destination.adopting", "destination.answered"}) {
    SCOPED_TRACE(place);
    const auto sum = run_storms({.coordinators = true, .fault_permille = 1000, .only = place}, 8);
    EXPECT_GT(sum.hits.at(place), 10U);
    EXPECT_EQ(sum.redispatches, 0U);
  }
}

TEST(MigrationFaults, LinksThatAreCutFrozenOrLoseAcknowledgements) {
  const auto sum = run_storms({.links = true}, 300);
  EXPECT_GT(sum.ends.at("aborted timed_out") + sum.ends.at("aborted transfer_failed"), 100U);
  EXPECT_GT(sum.with_outcome("reclaimed"), 50U);
  EXPECT_GT(sum.with_outcome("committed"), 500U);
}

TEST(MigrationFaults, HomesThatDieDuringMigrations) {
  const auto sum = run_storms({.frontends = true}, 150);
  EXPECT_GT(sum.with_outcome("committed"), 300U);
}

TEST(MigrationFaults, EverythingAtOnce) {
  const auto sum = run_storms(
      {.kills = true, .coordinators = true, .links = true, .withdrawals = true, .memory_pressure = true}, 400);
  EXPECT_GT(sum.preemptions, 30U);
  EXPECT_GT(sum.with_outcome("committed"), 500U);
}

} // namespace godwit::test
