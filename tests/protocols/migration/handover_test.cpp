#include <godwit/protocols/migration/handover.hpp>

#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

using claim = ownership_claim::action;
using reclaim = ownership_reclaim::action;
using home_answer = ownership_reclaim::answer;

TEST(OwnershipClaim, IsAdoptedUnderTheEpochThatTheHomeGrants) {
  ownership_claim c(3);
  EXPECT_EQ(c.begin(), claim::ask);
  EXPECT_EQ(c.answered(true, epoch{7}), claim::adopt);
  EXPECT_EQ(c.granted(), epoch{7});
}

TEST(OwnershipClaim, ADeniedOneGivesItsBlocksBack) {
  ownership_claim c(3);
  (void)c.begin();
  EXPECT_EQ(c.answered(false, {}), claim::give_back);
}

TEST(OwnershipClaim, AsksABoundedNumberOfTimesAndThenSaysThatItGaveUp) {
  ownership_claim c(3);
  EXPECT_EQ(c.begin(), claim::ask);
  EXPECT_EQ(c.unanswered(), claim::ask);
  EXPECT_EQ(c.unanswered(), claim::ask);
  EXPECT_EQ(c.unanswered(), claim::disown);
}

TEST(OwnershipClaim, ADeadHomeWantsNothingAnyMore) {
  ownership_claim c(3);
  (void)c.begin();
  EXPECT_EQ(c.home_down(), claim::give_back);
}

TEST(OwnershipReclaim, DoesWhatTheHomeSays) {
  const auto told = [](home_answer how) {
    ownership_reclaim r(2);
    EXPECT_EQ(r.begin(), reclaim::ask);
    return r.answered(how, epoch{5});
  };
  EXPECT_EQ(told(home_answer::granted), reclaim::resume);
  EXPECT_EQ(told(home_answer::moved), reclaim::release_moved);
  EXPECT_EQ(told(home_answer::ended), reclaim::release_ended);
}

TEST(OwnershipReclaim, ResumesUnderTheNewEpoch) {
  ownership_reclaim r(2);
  (void)r.begin();
  (void)r.unanswered();
  (void)r.answered(home_answer::granted, epoch{5});
  EXPECT_EQ(r.granted(), epoch{5});
}

// It may have been granted: nobody would run it if the home were not told.
TEST(OwnershipReclaim, GivesUpWithAWordAfterABoundedNumberOfAsks) {
  ownership_reclaim r(2);
  EXPECT_EQ(r.begin(), reclaim::ask);
  EXPECT_EQ(r.unanswered(), reclaim::ask);
  EXPECT_EQ(r.unanswered(), reclaim::disown);
  EXPECT_EQ(ownership_reclaim(2).home_down(), reclaim::release_ended);
}

} // namespace
} // namespace godwit::protocols
