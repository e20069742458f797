#include <godwit/protocols/adapters/adapter_orders.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using asking = adapter_orders::asking;
using work_kind = adapter_orders::work::what;

adapter_ref named(std::uint64_t id) { return {"a" + std::to_string(id), id}; }

/// Brings what is next, which is to be `id`.
std::vector<adapter_orders::ticket> bring(adapter_orders& orders, std::uint64_t id, std::uint64_t bytes) {
  auto next = orders.next();
  EXPECT_EQ(next.kind, work_kind::measure);
  EXPECT_EQ(next.which.id, id);
  EXPECT_THAT(orders.measured(bytes), IsEmpty());
  next = orders.next();
  EXPECT_EQ(next.kind, work_kind::bring);
  EXPECT_EQ(next.which.id, id);
  return orders.brought();
}

TEST(AdapterOrders, AreOneForEachAdapterHoweverManyAsk) {
  adapter_orders orders(100, 10);
  EXPECT_EQ(orders.ask(named(1), 11), asking::waits);
  EXPECT_EQ(orders.ask(named(2), 12), asking::waits);
  EXPECT_EQ(orders.ask(named(1), 13), asking::waits);
  EXPECT_THAT(bring(orders, 1, 50), ElementsAre(11, 13));
  EXPECT_EQ(orders.ask(named(1), 14), asking::there);
  EXPECT_THAT(bring(orders, 2, 50), ElementsAre(12));
  EXPECT_EQ(orders.next().kind, work_kind::none);
  EXPECT_EQ(orders.waiting(), 0U);
  for (int i = 0; i < 3; ++i) orders.release(1);
  EXPECT_THROW(orders.release(1), contract_violation);
}

TEST(AdapterOrders, OneThatFindsNoRoomLetsOthersPass) {
  adapter_orders orders(100, 10);
  (void)orders.ask(named(1), 11);
  EXPECT_THAT(bring(orders, 1, 30), ElementsAre(11));
  (void)orders.ask(named(2), 12);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  EXPECT_THAT(orders.measured(90), IsEmpty());
  EXPECT_EQ(orders.next().kind, work_kind::none) << "while the first one is used";
  (void)orders.ask(named(3), 13);
  EXPECT_THAT(bring(orders, 3, 30), ElementsAre(13));
  orders.release(1);
  EXPECT_EQ(orders.next().kind, work_kind::none);
  orders.release(3);
  const auto next = orders.next();
  EXPECT_EQ(next.kind, work_kind::bring);
  EXPECT_EQ(next.which.id, 2U);
  EXPECT_THAT(next.evicted, ElementsAre(1, 3));
  EXPECT_THAT(orders.brought(), ElementsAre(12));
}

TEST(AdapterOrders, ThatNobodyWaitsForAnyMoreGo) {
  adapter_orders orders(100, 2);
  (void)orders.ask(named(1), 11);
  (void)orders.ask(named(2), 12);
  EXPECT_EQ(orders.ask(named(3), 13), asking::too_many);
  orders.leave(11);
  orders.leave(11);
  EXPECT_THAT(bring(orders, 2, 10), ElementsAre(12));
  EXPECT_EQ(orders.next().kind, work_kind::none);
  // Under way: it is brought all the same, and used by nobody.
  (void)orders.ask(named(3), 14);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  EXPECT_THAT(orders.measured(10), IsEmpty());
  ASSERT_EQ(orders.next().kind, work_kind::bring);
  orders.leave(14);
  EXPECT_THAT(orders.brought(), IsEmpty());
  EXPECT_TRUE(orders.shelf().has(3));
  EXPECT_THROW(orders.release(3), contract_violation);
  // Measured in vain: it ends there.
  (void)orders.ask(named(4), 15);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  orders.leave(15);
  EXPECT_THAT(orders.measured(10), IsEmpty());
  EXPECT_EQ(orders.next().kind, work_kind::none);
}

TEST(AdapterOrders, ThatFailOrNeverFitTellWhoWaited) {
  adapter_orders orders(100, 10);
  (void)orders.ask(named(1), 11);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  EXPECT_THAT(orders.failed(), ElementsAre(11));
  (void)orders.ask(named(2), 12);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  EXPECT_THAT(orders.measured(101), ElementsAre(12));
  (void)orders.ask(named(3), 13);
  ASSERT_EQ(orders.next().kind, work_kind::measure);
  (void)orders.measured(100);
  ASSERT_EQ(orders.next().kind, work_kind::bring);
  EXPECT_EQ(orders.ask(named(3), 14), asking::waits) << "it is not there yet";
  EXPECT_THAT(orders.failed(), ElementsAre(13, 14));
  EXPECT_EQ(orders.shelf().bytes(), 0U);
  EXPECT_EQ(orders.next().kind, work_kind::none);
  EXPECT_EQ(orders.waiting(), 0U);
}

// Askers come, leave, get, let go at random: every one gets its adapter or hears that it will not, and the books end at
// nothing.
TEST(AdapterOrders, NobodyIsForgotten) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 draw(seed);
    adapter_orders orders(100, 20);
    std::map<adapter_orders::ticket, std::uint64_t> waits, has; // by ticket, whose adapter
    std::optional<adapter_orders::work> under_way;
    adapter_orders::ticket last = 0;
    const auto bytes_of = [](std::uint64_t id) { return id % 7 == 0 ? 120U : 10 * (1 + id % 6); };
    const auto step = [&](bool asks) {
      const auto choice = draw() % 6;
      if (choice < 2 && asks) {
        const auto id = 1 + draw() % 9;
        const auto answer = orders.ask(named(id), ++last);
        if (answer == asking::waits) waits.emplace(last, id);
        if (answer == asking::there) has.emplace(last, id);
        ASSERT_EQ(answer == asking::too_many, waits.size() == 20 && answer != asking::there && answer != asking::waits);
      } else if (choice == 2 && !waits.empty()) {
        const auto who = std::next(waits.begin(), static_cast<std::ptrdiff_t>(draw() % waits.size()));
        orders.leave(who->first);
        waits.erase(who);
      } else if (choice == 3 && !has.empty()) {
        const auto who = std::next(has.begin(), static_cast<std::ptrdiff_t>(draw() % has.size()));
        orders.release(who->second);
        has.erase(who);
      } else if (under_way) {
        const auto id = under_way->which.id;
        const bool fails = draw() % 5 == 0;
        const bool measures = under_way->kind == work_kind::measure;
        const auto told = fails ? orders.failed() : measures ? orders.measured(bytes_of(id)) : orders.brought();
        for (const auto who : told) {
          ASSERT_EQ(waits.at(who), id);
          waits.erase(who);
          if (!fails && !measures) has.emplace(who, id);
        }
        if (measures && !fails && bytes_of(id) > 100) {
          for (const auto& [who, whose] : waits) ASSERT_NE(whose, id) << "it never fits";
        }
        under_way.reset();
      } else if (auto next = orders.next(); next.kind != work_kind::none) {
        under_way = std::move(next);
      }
      ASSERT_EQ(orders.waiting(), waits.size());
      ASSERT_LE(orders.shelf().bytes(), 100U);
      for (const auto& [who, id] : has) ASSERT_TRUE(orders.shelf().has(id));
    };
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(step(true));
    for (int i = 0; i < 5000 && !(waits.empty() && has.empty()); ++i) ASSERT_NO_FATAL_FAILURE(step(false));
    EXPECT_TRUE(waits.empty() && has.empty());
  }
}

} // namespace
} // namespace godwit::protocols
