#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_store.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
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
  chunk_store store(2);
  const auto bad = store.reserve(name_of(1), store.begin());
  ASSERT_TRUE(bad);
  store.retire(*bad);
  EXPECT_EQ(store.retired(), 1U);
  EXPECT_FALSE(store.knows(name_of(1)));
  ASSERT_TRUE(bring(store, 2));
  ASSERT_TRUE(bring(store, 3));
  EXPECT_EQ(store.displaced(), name_of(2)) << "the other one is used again and again";
  store.check();
  store.restore_one();
  EXPECT_EQ(bring(store, 4), bad);
  store.restore_one(); // there is none
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
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    chunk_store store(1 + below(8));
    std::map<chunk_store::slot, std::uint64_t> landing, contents; // by slot
    std::map<std::uint64_t, std::vector<chunk_store::slot>> read;
    std::map<chunk_store::slot, std::uint64_t> copied; // under way
    for (int i = 0; i < 400; ++i) {
      const std::uint64_t number = 1 + below(12);
      const auto what = below(9);
      if (what == 0 && !store.knows(name_of(number))) {
        if (const auto where = store.reserve(name_of(number), store.begin())) {
          ASSERT_FALSE(landing.contains(*where));
          for (const auto& [other, slots] : read)
            for (const auto slot : slots) ASSERT_NE(slot, *where) << "somebody reads there";
          ASSERT_FALSE(copied.contains(*where)) << "it is being copied";
          contents.erase(*where);
          landing[*where] = number;
        }
      } else if (what == 1 && !landing.empty()) {
        const auto [where, which] = *landing.begin();
        landing.erase(where);
        if (below(3) == 0) {
          store.abandon(where);
          ASSERT_FALSE(store.knows(name_of(which)));
        } else {
          store.file(where);
          contents[where] = which;
        }
      } else if (what == 2) {
        store.touch(name_of(number));
      } else if (what <= 4) {
        if (const auto where = store.pin(name_of(number))) {
          ASSERT_EQ(contents.at(*where), number);
          read[number].push_back(*where);
        }
      } else if (what == 5) {
        if (const auto where = store.begin_copy()) {
          ASSERT_EQ(store.name_of(*where), name_of(contents.at(*where)));
          ASSERT_TRUE(copied.emplace(*where, contents.at(*where)).second);
        }
      } else if (what == 6 && !copied.empty()) {
        const auto [where, which] = *copied.begin();
        ASSERT_EQ(contents.at(where), which) << "overwritten while it was copied";
        store.end_copy(where, below(3) > 0);
        copied.erase(where);
      } else if (what == 7) {
        store.lose_copy(name_of(number));
      } else if (!read.empty()) {
        auto& slots = read.begin()->second;
        ASSERT_EQ(contents.at(slots.back()), read.begin()->first) << "overwritten while it was read";
        store.unpin(slots.back());
        slots.pop_back();
        if (slots.empty()) read.erase(read.begin());
      }
      store.check();
      ASSERT_EQ(store.filed(), contents.size());
      ASSERT_EQ(store.landing(), landing.size());
    }
  }
}

} // namespace
} // namespace godwit::protocols
