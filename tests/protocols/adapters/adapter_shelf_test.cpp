#include <godwit/protocols/adapters/adapter_shelf.hpp>
#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/cache_salt.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(AdapterShelf, WhoeverWasUsedLongestAgoMakesRoom) {
  adapter_shelf shelf(100);
  for (const std::uint64_t id : {1U, 2U, 3U}) shelf.put(id, 30);
  EXPECT_THAT(shelf.make_room(10), Optional(IsEmpty()));
  shelf.use(1);
  shelf.release(1); // now 2 was used longest ago
  EXPECT_THAT(shelf.make_room(40), Optional(ElementsAre(2)));
  EXPECT_FALSE(shelf.has(2));
  EXPECT_EQ(shelf.bytes(), 60U);
  EXPECT_THAT(shelf.make_room(100), Optional(ElementsAre(3, 1)));
}

TEST(AdapterShelf, WhoIsUsedStays) {
  adapter_shelf shelf(100);
  shelf.put(1, 60);
  shelf.put(2, 40);
  shelf.use(1);
  shelf.use(1);
  EXPECT_EQ(shelf.make_room(41), std::nullopt);
  EXPECT_TRUE(shelf.has(2)) << "in vain nobody goes";
  EXPECT_THAT(shelf.make_room(40), Optional(ElementsAre(2)));
  shelf.release(1);
  EXPECT_EQ(shelf.make_room(100), std::nullopt);
  shelf.release(1);
  EXPECT_THAT(shelf.make_room(100), Optional(ElementsAre(1)));
  EXPECT_EQ(shelf.make_room(101), std::nullopt) << "there is not so much";
  EXPECT_EQ(shelf.make_room(~std::uint64_t{0}), std::nullopt);
}

TEST(AdapterShelf, BooksThatDoNotAddUpAreABug) {
  adapter_shelf shelf(100);
  shelf.put(1, 60);
  EXPECT_THROW(shelf.put(1, 10), contract_violation);
  EXPECT_THROW(shelf.put(2, 50), contract_violation);
  EXPECT_THROW(shelf.release(1), contract_violation);
  EXPECT_THROW(shelf.use(2), contract_violation);
  shelf.use(1);
  EXPECT_THROW(shelf.drop(1), contract_violation);
}

// Against a list that is searched.
TEST(AdapterShelf, IsWhatAListWouldBe) {
  struct book {
    std::uint64_t bytes = 0, users = 0, used = 0;
  };
  std::mt19937 draw(7);
  adapter_shelf shelf(1000);
  std::map<std::uint64_t, book> books;
  std::uint64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t id = draw() % 20;
    const auto found = books.find(id);
    ASSERT_EQ(shelf.has(id), found != books.end());
    if (found == books.end()) {
      const std::uint64_t bytes = 1 + draw() % 300;
      std::uint64_t taken = 0, idle = 0;
      for (const auto& [other, one] : books) {
        taken += one.bytes;
        idle += one.users == 0 ? one.bytes : 0;
      }
      const auto room = shelf.make_room(bytes);
      ASSERT_EQ(room.has_value(), taken - idle + bytes <= 1000);
      if (!room) continue;
      for (const auto gone : *room) {
        const auto oldest = std::ranges::min_element(
            books, {}, [](const auto& one) { return one.second.users > 0 ? ~std::uint64_t{0} : one.second.used; });
        ASSERT_EQ(oldest->first, gone);
        ASSERT_GT(taken + bytes, 1000U) << "no more than it takes";
        taken -= oldest->second.bytes;
        books.erase(oldest);
      }
      ASSERT_LE(taken + bytes, 1000U);
      shelf.put(id, bytes);
      books[id] = {bytes, 0, ++now};
    } else if (found->second.users == 0 || draw() % 2 == 0) {
      shelf.use(id);
      ++found->second.users;
    } else {
      shelf.release(id);
      if (--found->second.users == 0) found->second.used = ++now;
    }
    std::uint64_t sum = 0;
    for (const auto& [other, one] : books) sum += one.bytes;
    ASSERT_EQ(shelf.bytes(), sum);
    ASSERT_EQ(shelf.count(), books.size());
  }
}

TEST(CacheSalt, OfAnAdapterIsAnotherOne) {
  const adapter_ref a("a", 1), b("b", 2);
  EXPECT_EQ(salt_with(77, {}), 77U);
  EXPECT_NE(salt_with(77, a), 77U);
  EXPECT_NE(salt_with(77, a), salt_with(77, b));
  EXPECT_NE(salt_with(77, a), salt_with(78, a));
  EXPECT_EQ(salt_with(77, a), salt_with(77, adapter_ref("called otherwise", 1)));
  EXPECT_NE(salt_with(0, a), 0U);
}

} // namespace
} // namespace godwit::protocols
