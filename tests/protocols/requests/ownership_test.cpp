#include <godwit/protocols/requests/ownership.hpp>

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <random>
#include <vector>

namespace godwit::protocols {
namespace {

using verdict = request_ownership::verdict;
using phase = request_ownership::phase;
using dispatch_error = request_ownership::dispatch_error;

std::vector<sampled_token> tokens(std::initializer_list<token_id> ids) {
  std::vector<sampled_token> list;
  for (const auto id : ids) list.emplace_back(id);
  return list;
}

TEST(RequestOwnership, TokensOfTheOwnerAreAcceptedInOrder) {
  request_ownership request;
  const auto epoch = request.dispatch(instance_id{3}).value();
  EXPECT_EQ(request.owner(), instance_id{3});
  const auto first = request.accept(epoch, 0, tokens({10, 11}), finish_reason::none);
  EXPECT_EQ(first.what, verdict::accepted);
  EXPECT_EQ(first.fresh, tokens({10, 11}));
  const auto second = request.accept(epoch, 2, tokens({12}), finish_reason::length);
  EXPECT_EQ(second.first_index, 2U);
  EXPECT_EQ(second.finish, finish_reason::length);
  EXPECT_TRUE(request.finished());
  EXPECT_EQ(request.answer(), (std::vector<token_id>{10, 11, 12}));
}

TEST(RequestOwnership, WhatIsRepeatedIsTrimmedAndWhatLeavesAGapIsDropped) {
  request_ownership request;
  const auto epoch = request.dispatch(instance_id{1}).value();
  (void)request.accept(epoch, 0, tokens({1, 2, 3}), finish_reason::none);
  EXPECT_EQ(request.accept(epoch, 1, tokens({2, 3}), finish_reason::none).what, verdict::repeated);
  const auto overlapping = request.accept(epoch, 2, tokens({3, 4}), finish_reason::none);
  EXPECT_EQ(overlapping.what, verdict::accepted);
  EXPECT_EQ(overlapping.first_index, 3U);
  EXPECT_EQ(overlapping.fresh, tokens({4}));
  EXPECT_EQ(request.accept(epoch, 5, tokens({6}), finish_reason::length).what, verdict::gap);
  EXPECT_FALSE(request.finished());
  EXPECT_EQ(request.next_index(), 4U);
}

TEST(RequestOwnership, AnOwnerThatWasLostIsNotHeardAnyMore) {
  request_ownership request;
  const auto first = request.dispatch(instance_id{1}).value();
  (void)request.accept(first, 0, tokens({1}), finish_reason::none);
  EXPECT_TRUE(request.owner_lost(first));
  EXPECT_FALSE(request.owner_lost(first));
  EXPECT_FALSE(request.owner());
  EXPECT_EQ(request.accept(first, 1, tokens({2}), finish_reason::none).what, verdict::stale_epoch) << "nobody owns it";
  const auto second = request.dispatch(instance_id{1}).value();
  EXPECT_GT(second, first);
  EXPECT_EQ(request.accept(first, 1, tokens({2}), finish_reason::stop).what, verdict::stale_epoch);
  EXPECT_EQ(request.accept(second, 1, tokens({2}), finish_reason::stop).what, verdict::accepted);
  EXPECT_EQ(request.answer(), (std::vector<token_id>{1, 2}));
}

TEST(RequestOwnership, AnEpochThatWasNeverGivenIsNotHeard) {
  request_ownership request;
  EXPECT_EQ(request.accept(epoch{0}, 0, tokens({1}), finish_reason::none).what, verdict::stale_epoch);
  (void)request.dispatch(instance_id{1});
  EXPECT_EQ(request.accept(epoch{9}, 0, tokens({1}), finish_reason::none).what, verdict::stale_epoch);
}

TEST(RequestOwnership, LosingAnInstanceConcernsItsOwnRequestsOnly) {
  request_ownership request;
  (void)request.dispatch(instance_id{1});
  EXPECT_FALSE(request.owner_lost(instance_id{2}));
  EXPECT_EQ(request.where(), phase::owned);
  EXPECT_TRUE(request.owner_lost(instance_id{1}));
  EXPECT_EQ(request.where(), phase::unowned);
}

TEST(RequestOwnership, HasOneOwnerAtATime) {
  request_ownership request;
  (void)request.dispatch(instance_id{1});
  EXPECT_EQ(request.dispatch(instance_id{2}).error(), dispatch_error::owned_already);
}

TEST(RequestOwnership, ARequestThatKillsItsInstancesIsGivenUp) {
  request_ownership request{{.attempts_max = 3, .attempts_total_max = 64}};
  for (int i = 0; i < 3; ++i) {
    const auto epoch = request.dispatch(instance_id{1});
    ASSERT_TRUE(epoch);
    request.owner_lost(*epoch);
  }
  EXPECT_EQ(request.dispatch(instance_id{1}).error(), dispatch_error::attempts_exhausted);
}

TEST(RequestOwnership, ProgressRenewsTheAttemptsUpToTheTotal) {
  request_ownership request{{.attempts_max = 2, .attempts_total_max = 5}};
  for (token_id i = 0; i < 5; ++i) {
    const auto epoch = request.dispatch(instance_id{1});
    ASSERT_TRUE(epoch) << i;
    (void)request.accept(*epoch, request.next_index(), tokens({i}), finish_reason::none);
    request.owner_lost(*epoch);
  }
  EXPECT_EQ(request.dispatch(instance_id{1}).error(), dispatch_error::attempts_exhausted);
  EXPECT_EQ(request.attempts(), 5U);
}

TEST(RequestOwnership, NothingIsAcceptedOrDispatchedAfterTheEnd) {
  request_ownership request;
  const auto epoch = request.dispatch(instance_id{1}).value();
  request.finish(finish_reason::cancelled);
  EXPECT_EQ(request.accept(epoch, 0, tokens({1}), finish_reason::none).what, verdict::finished);
  EXPECT_EQ(request.dispatch(instance_id{1}).error(), dispatch_error::finished);
  request.finish(finish_reason::length);
  EXPECT_EQ(request.finish_of(), finish_reason::cancelled) << "the first end counts";
}

TEST(RequestOwnership, AnEndWithoutATokenCounts) {
  request_ownership request;
  const auto epoch = request.dispatch(instance_id{1}).value();
  (void)request.accept(epoch, 0, tokens({1}), finish_reason::none);
  const auto end = request.accept(epoch, 1, {}, finish_reason::error);
  EXPECT_EQ(end.what, verdict::accepted);
  EXPECT_EQ(end.finish, finish_reason::error);
}

TEST(RequestOwnership, AClaimMakesTheDestinationTheOwnerUnderANewEpoch) {
  request_ownership request;
  const auto before = request.dispatch(instance_id{1}).value();
  const auto granted = request.claim(before, instance_id{2}, 7);
  ASSERT_TRUE(granted);
  EXPECT_GT(*granted, before);
  EXPECT_EQ(request.owner(), instance_id{2});
  EXPECT_TRUE(request.claimed_from(before));
  EXPECT_EQ(request.attempts(), 1U) << "a migration is no attempt";
  EXPECT_EQ(request.accept(before, 0, tokens({1}), finish_reason::none).what, verdict::stale_epoch);
  EXPECT_EQ(request.accept(*granted, 0, tokens({1}), finish_reason::none).what, verdict::accepted);
}

TEST(RequestOwnership, AClaimIsGrantedAgainToTheSameInstanceOnly) {
  request_ownership request;
  const auto before = request.dispatch(instance_id{1}).value();
  const auto granted = request.claim(before, instance_id{2}, 7);
  EXPECT_EQ(request.claim(before, instance_id{2}, 7), granted);
  EXPECT_FALSE(request.claim(before, instance_id{3}, 7));
  EXPECT_FALSE(request.claim(before, instance_id{2}, 8)) << "it was restarted meanwhile";
}

TEST(RequestOwnership, OneOfClaimAndReclaimIsGranted) {
  request_ownership claimed;
  const auto before = claimed.dispatch(instance_id{1}).value();
  ASSERT_TRUE(claimed.claim(before, instance_id{2}, 0));
  EXPECT_FALSE(claimed.reclaim(before));

  request_ownership reclaimed;
  ASSERT_EQ(reclaimed.dispatch(instance_id{1}).value(), before);
  const auto again = reclaimed.reclaim(before);
  ASSERT_TRUE(again);
  EXPECT_GT(*again, before);
  EXPECT_EQ(reclaimed.owner(), instance_id{1});
  EXPECT_FALSE(reclaimed.claim(before, instance_id{2}, 0));
  EXPECT_FALSE(reclaimed.claimed_from(before));
  EXPECT_EQ(reclaimed.reclaim(before), again) << "its answer may have been lost";
}

// A source that asks late, because the answer to its commit was lost, hears that the request has moved, although that
// one has moved on or is lost by then.
TEST(RequestOwnership, AClaimIsRememberedWhenTheRequestHasMovedOn) {
  request_ownership request;
  const auto first = request.dispatch(instance_id{1}).value();
  const auto second = request.claim(first, instance_id{2}, 0).value();
  const auto third = request.claim(second, instance_id{3}, 0).value();
  EXPECT_FALSE(request.claimed_from(first));
  EXPECT_TRUE(request.moved_from(first));
  EXPECT_TRUE(request.moved_from(second));
  EXPECT_FALSE(request.moved_from(third));
  EXPECT_FALSE(request.reclaim(first));
  EXPECT_TRUE(request.owner_lost(third));
  const auto fourth = request.dispatch(instance_id{1}).value();
  EXPECT_TRUE(request.moved_from(first));
  EXPECT_TRUE(request.moved_from(second));
  EXPECT_FALSE(request.moved_from(third)) << "its owner was lost";
  const auto fifth = request.reclaim(fourth).value();
  EXPECT_FALSE(request.moved_from(fourth));
  EXPECT_FALSE(request.moved_from(fifth));
}

TEST(RequestOwnership, WhatItsClaimantDisownedHasNotMoved) {
  request_ownership request;
  const auto first = request.dispatch(instance_id{1}).value();
  ASSERT_TRUE(request.claim(first, instance_id{2}, 0));
  ASSERT_TRUE(request.disown(first, instance_id{2}));
  EXPECT_FALSE(request.moved_from(first));
}

TEST(RequestOwnership, WhatHasEndedOrIsUnownedIsNeitherClaimedNorReclaimed) {
  request_ownership request;
  const auto first = request.dispatch(instance_id{1}).value();
  request.owner_lost(first);
  EXPECT_FALSE(request.claim(first, instance_id{2}, 0));
  EXPECT_FALSE(request.reclaim(first));
  const auto second = request.dispatch(instance_id{1}).value();
  EXPECT_FALSE(request.claim(first, instance_id{2}, 0)) << "the migration was of an earlier owner";
  request.finish(finish_reason::cancelled);
  EXPECT_FALSE(request.claim(second, instance_id{2}, 0));
  EXPECT_FALSE(request.reclaim(second));
}

TEST(RequestOwnership, WhoDisownsWhatItWasGrantedLeavesItUnowned) {
  request_ownership request;
  const auto before = request.dispatch(instance_id{1}).value();
  ASSERT_TRUE(request.claim(before, instance_id{2}, 0));
  EXPECT_FALSE(request.disown(before, instance_id{1})) << "the source has let go of it already";
  EXPECT_TRUE(request.disown(before, instance_id{2}));
  EXPECT_EQ(request.where(), phase::unowned);
  EXPECT_FALSE(request.disown(before, instance_id{2}));
}

TEST(RequestOwnership, ASourceThatGivesUpDisownsItsOwnEpoch) {
  request_ownership request;
  const auto before = request.dispatch(instance_id{1}).value();
  EXPECT_TRUE(request.disown(before, instance_id{1}));
  EXPECT_FALSE(request.claim(before, instance_id{2}, 0));
}

// Found by the model checker: the claim was overtaken by the message that its sender had given up, and was granted to
// an instance that had freed the request; the source heard that it had moved, and freed it too.
TEST(RequestOwnership, AClaimThatComesAfterItsSenderGaveUpIsNotGranted) {
  request_ownership request;
  const auto before = request.dispatch(instance_id{1}).value();
  EXPECT_FALSE(request.disown(before, instance_id{2})) << "it never had it";
  EXPECT_EQ(request.owner(), instance_id{1});
  EXPECT_FALSE(request.claim(before, instance_id{2}, 0));
  const auto again = request.reclaim(before);
  ASSERT_TRUE(again);
  EXPECT_TRUE(request.claim(*again, instance_id{2}, 0)) << "the next migration is another one";
}

TEST(RequestOwnership, AHugeIndexDoesNotWrapAround) {
  request_ownership request;
  const auto epoch = request.dispatch(instance_id{1}).value();
  EXPECT_EQ(request.accept(epoch, std::numeric_limits<std::uint32_t>::max(), tokens({1, 2}), finish_reason::stop).what,
            verdict::gap);
}

// Owners die, hang and come back; their messages arrive late, twice and in any order between owners.
TEST(RequestOwnership, TheClientSeesEachIndexOnceInOrderWhateverOwnersDo) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random{seed};
    constexpr std::uint32_t length = 30;
    const auto answer = [](std::uint32_t index) { return static_cast<token_id>(index * 7 + 1); };
    struct owner {
      epoch number;
      std::uint32_t next;
      std::deque<token_update> sent;
    };
    std::vector<owner> owners; // all there ever were; a lost one goes on for a while
    request_ownership request{{.attempts_max = 1000, .attempts_total_max = 1000}};
    std::vector<token_id> client;
    for (int step = 0; step < 3000 && !request.finished(); ++step) {
      if (request.where() == phase::unowned)
        owners.push_back({request.dispatch(instance_id{static_cast<std::uint32_t>(random() % 3)}).value(),
                          request.next_index(),
                          {}});
      auto& o =
          owners[std::max(owners.size(), std::size_t{4}) - 4 + random() % std::min(owners.size(), std::size_t{4})];
      switch (random() % 4) {
      case 0:
        if (random() % 4 == 0) request.owner_lost(request.current_epoch());
        break;
      case 1:
        if (o.next < length) {
          token_update update{request_id{1}, o.number, o.next, {}};
          for (auto n = 1 + random() % 3; n > 0 && o.next < length; --n) update.tokens.emplace_back(answer(o.next++));
          if (o.next == length) update.finish = finish_reason::length;
          o.sent.push_back(update);
        }
        break;
      default:
        if (o.sent.empty()) break;
        const auto update = o.sent.front();
        if (random() % 3 != 0) o.sent.pop_front();
        const auto result = request.accept(update);
        EXPECT_NE(result.what, verdict::gap);
        if (result.what != verdict::accepted) break;
        ASSERT_EQ(result.first_index, client.size());
        for (const auto& token : result.fresh) client.push_back(token.id);
      }
    }
    ASSERT_TRUE(request.finished()) << "seed " << seed;
    ASSERT_EQ(client.size(), length);
    for (std::uint32_t i = 0; i < length; ++i) ASSERT_EQ(client[i], answer(i));
  }
}

} // namespace
} // namespace godwit::protocols
