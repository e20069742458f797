#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/swap_ledger.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(SwapLedger, HandsOutEachSlotOnceAndAllOrNothing) {
  swap_ledger slots{4};
  const auto some = slots.take(3);
  ASSERT_TRUE(some);
  EXPECT_EQ(slots.used(), 3U);
  EXPECT_FALSE(slots.take(2)) << "one is left";
  const auto last = slots.take(1);
  ASSERT_TRUE(last);
  auto all = *some;
  all.insert(all.end(), last->begin(), last->end());
  EXPECT_THAT(all, UnorderedElementsAre(swap_slot{0}, swap_slot{1}, swap_slot{2}, swap_slot{3}));
  slots.give_back(*some);
  EXPECT_EQ(slots.available(), 3U);
  EXPECT_FALSE(slots.taken(some->front()));
  EXPECT_TRUE(slots.taken(last->front()));
  EXPECT_THAT(slots.take(3).value(), SizeIs(3));
}

TEST(SwapLedger, WhatIsGivenBackWasTaken) {
  swap_ledger slots{2};
  const auto one = slots.take(1).value();
  slots.give_back(one);
  EXPECT_THROW(slots.give_back(one), contract_violation);
  EXPECT_THROW(slots.give_back({swap_slot{7}}), contract_violation);
}

TEST(SwapLedger, NoSpaceHasNoSlots) {
  swap_ledger none;
  EXPECT_EQ(none.total(), 0U);
  EXPECT_FALSE(none.take(1));
  EXPECT_THAT(none.take(0).value(), SizeIs(0));
}

} // namespace
} // namespace godwit::protocols
