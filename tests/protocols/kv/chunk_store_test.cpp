#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_store.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace godwit::protocols {
namespace {

chunk_name name_of(std::uint64_t number) { return {number, ~number}; }

/// As a sender that brings it at once.
std::optional<chunk_store::slot> bring(chunk_store& store, std::uint64_t number) {
  const auto where = store.reserve(name_of(number), store.begin());
  if (where) store.file(*where);
  return where;
}

TEST(ChunkStore, HasWhatWasFiledAndKnowsWhatLands) {
  chunk_store store(2);
  const auto where = store.reserve(name_of(1), store.begin());
  ASSERT_TRUE(where);
  EXPECT_TRUE(store.knows(name_of(1)));
  EXPECT_FALSE(store.has(name_of(1)));
  EXPECT_FALSE(store.pin(name_of(1))) << "it may be half there";
  store.file(*where);
  EXPECT_TRUE(store.has(name_of(1)));
  EXPECT_EQ(store.pin(name_of(1)), where);
  store.unpin(*where);
  store.check();
}

TEST(ChunkStore, WhatWasUsedLongestAgoIsTakenForOthers) {
  chunk_store store(3);
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(bring(store, i));
  store.touch(name_of(1));
  ASSERT_TRUE(bring(store, 4));
  EXPECT_FALSE(store.has(name_of(2)));
  for (const std::uint64_t there : {1, 3, 4}) EXPECT_TRUE(store.has(name_of(there))) << there;
  EXPECT_EQ(store.figures().evicted, 1U);
  store.check();
}

TEST(ChunkStore, WhatIsReadOrLandsIsNobodyElses) {
  chunk_store store(2);
  ASSERT_TRUE(bring(store, 1));
  const auto read = store.pin(name_of(1));
  const auto landing = store.reserve(name_of(2), store.begin());
  ASSERT_TRUE(read && landing);
  EXPECT_FALSE(store.reserve(name_of(3), store.begin()));
  store.unpin(*read);
  EXPECT_EQ(store.reserve(name_of(3), store.begin()), read);
  store.abandon(*landing);
  EXPECT_FALSE(store.knows(name_of(2)));
  EXPECT_EQ(store.reserve(name_of(4), store.begin()), landing);
  store.check();
}

TEST(ChunkStore, WhatIsWantedSinceDoesNotMakeRoom) {
  chunk_store store(2);
  ASSERT_TRUE(bring(store, 1));
  ASSERT_TRUE(bring(store, 2));
  const auto since = store.begin();
  store.touch(name_of(1));
  EXPECT_TRUE(store.reserve(name_of(3), since)) << "for the other one";
  EXPECT_FALSE(store.reserve(name_of(4), since)) << "a prefix does not lose its beginning to its end";
  EXPECT_TRUE(store.has(name_of(1)));
}

TEST(ChunkStore, UsesThatAreNotMeantAreRefused) {
  chunk_store store(2);
  ASSERT_TRUE(bring(store, 1));
  EXPECT_THROW((void)store.reserve(name_of(1), 0), contract_violation);
  EXPECT_THROW(store.file(0), contract_violation) << "it is filed";
  EXPECT_THROW(store.unpin(0), contract_violation);
  EXPECT_THROW(store.abandon(7), contract_violation);
  EXPECT_FALSE(chunk_store(0).reserve(name_of(1), 0));
}

TEST(ChunkStore, WhatIsHeldKeepsItsPlaceInTheOrder) {
  chunk_store store(3);
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(bring(store, i));
  const auto held = store.hold(name_of(1));
  ASSERT_TRUE(held);
  EXPECT_FALSE(store.hold(name_of(4))) << "it is not there";
  ASSERT_TRUE(bring(store, 4));
  EXPECT_TRUE(store.has(name_of(1)));
  EXPECT_FALSE(store.has(name_of(2))) << "the oldest that nobody holds";
  EXPECT_EQ(store.displaced(), name_of(2));
  EXPECT_THROW(store.drop(*held), contract_violation);
  store.let_go(*held);
  EXPECT_THROW(store.let_go(*held), contract_violation);
  ASSERT_TRUE(bring(store, 5));
  EXPECT_FALSE(store.has(name_of(1))) << "it was older than the others all the while";
  store.check();
}

TEST(ChunkStore, WhatIsDroppedIsNotThereAndItsSlotIsTheNext) {
  chunk_store store(2);
  ASSERT_TRUE(bring(store, 1));
  const auto second = bring(store, 2);
  ASSERT_TRUE(second);
  store.drop(*second);
  EXPECT_FALSE(store.knows(name_of(2)));
  EXPECT_EQ(bring(store, 3), second);
  EXPECT_FALSE(store.displaced()) << "it was free";
  EXPECT_TRUE(store.has(name_of(1)));
  store.check();
}

TEST(ChunkStore, CopiesTheOldestFirst) {
  chunk_store store(4);
  EXPECT_FALSE(store.begin_copy());
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(bring(store, i));
  const auto first = store.begin_copy();
  ASSERT_TRUE(first);
  EXPECT_EQ(store.name_of(*first), name_of(1));
  EXPECT_TRUE(store.has_spare()) << "the free one";
  ASSERT_TRUE(bring(store, 4));
  EXPECT_FALSE(store.has_spare());
  ASSERT_TRUE(bring(store, 5));
  EXPECT_EQ(store.displaced(), name_of(2)) << "who is being copied is not overwritten";
  store.end_copy(*first, true);
  EXPECT_TRUE(store.has_spare());
  EXPECT_THROW(store.end_copy(*first, true), contract_violation);
  ASSERT_TRUE(bring(store, 6));
  EXPECT_EQ(store.displaced(), name_of(1));
  EXPECT_EQ(store.name_of(store.begin_copy().value()), name_of(3));
  EXPECT_EQ(store.name_of(store.begin_copy().value()), name_of(4));
  store.check();
}

TEST(ChunkStore, WhatIsReadIsNotCopied) {
  chunk_store store(2);
  ASSERT_TRUE(bring(store, 1));
  const auto read = store.pin(name_of(1));
  ASSERT_TRUE(read);
  EXPECT_FALSE(store.begin_copy());
  store.unpin(*read);
  EXPECT_EQ(store.begin_copy(), read);
  const auto again = store.pin(name_of(1));
  store.end_copy(*again, true);
  store.unpin(*again);
  EXPECT_FALSE(store.begin_copy()) << "it has its copy";
  store.check();
}

TEST(ChunkStore, ACopyThatFailedIsTriedAgainOnceTheChunkHasBeenUsed) {
  chunk_store store(2);
  const auto one = bring(store, 1);
  ASSERT_TRUE(one);
  ASSERT_EQ(store.begin_copy(), one);
  store.end_copy(*one, false);
  EXPECT_FALSE(store.begin_copy()) << "a disk that is full is not asked for ever";
  const auto two = bring(store, 2);
  EXPECT_EQ(store.begin_copy(), two);
  store.end_copy(*two, true);
  store.touch(name_of(1));
  EXPECT_EQ(store.begin_copy(), one);
  store.end_copy(*one, true);
  store.lose_copy(name_of(1));
  store.lose_copy(name_of(7)); // nobody's
  EXPECT_FALSE(store.begin_copy());
  store.touch(name_of(1));
  EXPECT_EQ(store.begin_copy(), one);
  store.check();
}

TEST(ChunkStore, WhatHasNoCopyIsNoSpare) {
  chunk_store store(2);
  const auto one = bring(store, 1), two = bring(store, 2);
  ASSERT_TRUE(one && two);
  ASSERT_EQ(store.begin_copy(), one);
  store.end_copy(*one, false);
  ASSERT_EQ(store.begin_copy(), two);
  store.end_copy(*two, true);
  EXPECT_FALSE(store.has_spare()) << "the oldest would be lost";
  EXPECT_FALSE(store.may_have_spare());
  EXPECT_TRUE(store.has_room());
  store.touch(name_of(1));
  EXPECT_TRUE(store.has_spare());
  store.lose_copy(name_of(2));
  EXPECT_FALSE(store.has_spare());
  const auto reads = store.pin(name_of(1)), more = store.pin(name_of(2));
  ASSERT_TRUE(reads && more);
  EXPECT_FALSE(store.has_room());
  store.check();
}

TEST(ChunkStore, RetiredSlotsAreNobodysUntilTheyAreRestored) {
  chunk_store store(4);
  const auto good = bring(store, 1);
  const auto bad = store.reserve(name_of(2), store.begin());
  ASSERT_TRUE(good && bad);
  store.retire(*bad);
  EXPECT_EQ(store.retired(), 3U) << "with those that are free";
  EXPECT_FALSE(store.knows(name_of(2)));
  EXPECT_EQ(bring(store, 3), good) << "what has been written can be again";
  EXPECT_EQ(store.displaced(), name_of(1));
  store.check();
  const auto tried = store.restore_one();
  ASSERT_TRUE(tried);
  EXPECT_NE(tried, bad) << "the last one that is tried again";
  EXPECT_EQ(bring(store, 4), tried);
  store.restore_all();
  EXPECT_EQ(store.retired(), 0U);
  EXPECT_FALSE(store.restore_one());
  ASSERT_TRUE(bring(store, 5));
  EXPECT_EQ(bring(store, 6), bad);
  EXPECT_TRUE(store.has(name_of(3)));
  store.check();
}

TEST(ChunkStore, WhatCameFromBelowHasItsCopy) {
  chunk_store store(2);
  const auto where = store.reserve(name_of(1), store.begin());
  ASSERT_TRUE(where);
  store.file(*where, true);
  const auto two = bring(store, 2);
  EXPECT_EQ(store.begin_copy(), two);
  EXPECT_FALSE(store.begin_copy());
  EXPECT_EQ(store.figures().filed, 1U) << "nobody brought the other one";
  store.check();
}

// Against books that forget nothing.
TEST(ChunkStore, KeepsItsPromisesOverManyRandomRuns) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    chunk_store store(1 + below(8));
    std::map<chunk_store::slot, std::uint64_t> landing, contents; // by slot
    std::vector<chunk_store::slot> pinned, held, copied;          // as often as they are
    std::set<chunk_store::slot> safe;                             // have a copy below
    std::uint32_t retired = 0;
    std::uint64_t since = 0;
    const auto in_use = [&](chunk_store::slot which) {
      return std::ranges::count(pinned, which) + std::ranges::count(held, which) + std::ranges::count(copied, which) >
             0;
    };
    const auto taken = [&](std::vector<chunk_store::slot>& from) {
      const auto which = from.begin() + below(static_cast<std::uint32_t>(from.size()));
      const auto out = *which;
      from.erase(which);
      return out;
    };
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t number = 1 + below(12);
      switch (below(14)) {
      case 0:
      case 1: {
        if (store.knows(name_of(number))) break;
        const bool room = store.has_room(), spare = store.has_spare();
        const auto where = store.reserve(name_of(number), below(4) == 0 ? since : store.begin());
        if (!where) break;
        ASSERT_TRUE(room);
        ASSERT_FALSE(landing.contains(*where));
        ASSERT_FALSE(in_use(*where)) << "somebody reads there, or copies it";
        ASSERT_EQ(store.displaced().has_value(), contents.contains(*where));
        if (store.displaced()) {
          ASSERT_EQ(*store.displaced(), name_of(contents.at(*where)));
          ASSERT_TRUE(!spare || safe.contains(*where)) << "it was the only place of that";
        }
        contents.erase(*where);
        safe.erase(*where);
        landing[*where] = number;
        break;
      }
      case 2:
      case 3: {
        if (landing.empty()) break;
        const auto [where, which] = *landing.begin();
        landing.erase(where);
        const auto how = below(6);
        if (how == 0) {
          store.abandon(where);
        } else if (how == 1) {
          store.retire(where);
          retired = store.slots() - static_cast<std::uint32_t>(contents.size() + landing.size());
        } else {
          store.file(where, how == 2);
          contents[where] = which;
          if (how == 2) safe.insert(where);
          break;
        }
        ASSERT_FALSE(store.knows(name_of(which)));
        break;
      }
      case 4:
        store.touch(name_of(number));
        break;
      case 5:
        if (const auto where = store.pin(name_of(number))) {
          ASSERT_EQ(contents.at(*where), number);
          pinned.push_back(*where);
        }
        break;
      case 6:
        if (!pinned.empty()) store.unpin(taken(pinned));
        break;
      case 7:
        if (const auto where = store.hold(name_of(number))) {
          ASSERT_EQ(contents.at(*where), number);
          held.push_back(*where);
        }
        break;
      case 8:
        if (!held.empty()) store.let_go(taken(held));
        break;
      case 9:
        if (const auto where = store.begin_copy()) {
          ASSERT_EQ(store.name_of(*where), name_of(contents.at(*where)));
          ASSERT_FALSE(safe.contains(*where)) << "it has its copy";
          copied.push_back(*where);
        }
        break;
      case 10:
        if (!copied.empty()) {
          const auto where = taken(copied);
          const bool well = below(3) > 0;
          store.end_copy(where, well);
          if (well) safe.insert(where);
        }
        break;
      case 11:
        store.lose_copy(name_of(number));
        std::erase_if(safe, [&](auto where) { return contents.at(where) == number; });
        break;
      case 12: {
        const auto where = std::ranges::find_if(contents, [&](const auto& one) { return !in_use(one.first); });
        if (where == contents.end() || below(3) > 0) break;
        store.drop(where->first);
        ASSERT_FALSE(store.knows(name_of(where->second)));
        safe.erase(where->first);
        contents.erase(where);
        break;
      }
      default:
        since = store.begin();
        if (const auto back = store.restore_one()) {
          ASSERT_FALSE(contents.contains(*back) || landing.contains(*back));
          --retired;
          if (below(2) == 0) store.restore_all(), retired = 0;
        }
      }
      store.check();
      ASSERT_EQ(store.filed(), contents.size());
      ASSERT_EQ(store.landing(), landing.size());
      ASSERT_EQ(store.retired(), retired);
      for (const auto& [where, which] : contents) ASSERT_TRUE(store.has(name_of(which)));
    }
  }
}

} // namespace
} // namespace godwit::protocols
