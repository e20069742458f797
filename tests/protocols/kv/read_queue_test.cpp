#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/read_queue.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace godwit::protocols {
namespace {

chunk_name chunk_called(std::uint64_t number) { return {number, ~number}; }
std::uint64_t number_of(const std::optional<read_queue::order>& order) { return order ? order->name.low : 0; }

TEST(ReadQueue, WhatSomebodyWaitsForGoesFirst) {
  read_queue queue(10, 10);
  for (std::uint64_t i = 1; i <= 3; ++i) queue.expect(chunk_called(i), i);
  EXPECT_TRUE(queue.await(chunk_called(9), 4));
  EXPECT_TRUE(queue.await(chunk_called(3), 5));
  queue.check();
  EXPECT_EQ(number_of(queue.next(true)), 9U);
  const auto third = queue.next(false);
  EXPECT_EQ(number_of(third), 3U);
  EXPECT_EQ(third->since, 5U) << "as it was wanted last";
  EXPECT_FALSE(queue.next(true));
  EXPECT_EQ(number_of(queue.next(false)), 1U);
  EXPECT_EQ(number_of(queue.next(false)), 2U);
  EXPECT_FALSE(queue.next(false));
  queue.check();
  for (const std::uint64_t begun : {1, 2, 3, 9}) queue.ended(chunk_called(begun));
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_THROW(queue.ended(chunk_called(1)), contract_violation);
}

TEST(ReadQueue, IsBounded) {
  read_queue queue(3, 2);
  for (std::uint64_t i = 1; i <= 5; ++i) queue.expect(chunk_called(i), 1);
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_TRUE(queue.await(chunk_called(6), 1));
  EXPECT_FALSE(queue.await(chunk_called(7), 1));
  EXPECT_TRUE(queue.await(chunk_called(6), 1)) << "it is there";
  queue.expect(chunk_called(8), 1);
  EXPECT_EQ(queue.size(), 3U);
  queue.check();
}

TEST(ReadQueue, WhatNobodyWaitsForAnyMoreIsAsExpected) {
  read_queue queue(10, 1);
  const auto one = queue.await(chunk_called(1), 1), again = queue.await(chunk_called(1), 1),
             two = queue.await(chunk_called(2), 1), three = queue.await(chunk_called(3), 1);
  ASSERT_TRUE(one && again && two && three);
  queue.give_up(chunk_called(1), *one);
  queue.check();
  EXPECT_EQ(number_of(queue.next(true)), 1U) << "somebody waits still";
  queue.give_up(chunk_called(1), *again); // while it is read
  queue.give_up(chunk_called(2), *two);
  queue.check();
  EXPECT_EQ(number_of(queue.next(false)), 3U);
  EXPECT_EQ(number_of(queue.next(false)), 2U);
  queue.ended(chunk_called(1));
  const auto later = queue.await(chunk_called(1), 2);
  ASSERT_TRUE(later);
  queue.give_up(chunk_called(1), *one);
  EXPECT_EQ(number_of(queue.next(true)), 1U) << "an old ticket is of no use";
  queue.check();
}

TEST(ReadQueue, ForgetsWhatIsOneTooMany) {
  read_queue queue(10, 1);
  const auto one = queue.await(chunk_called(1), 1), two = queue.await(chunk_called(2), 1);
  ASSERT_TRUE(one && two);
  queue.give_up(chunk_called(1), *one);
  queue.give_up(chunk_called(2), *two);
  EXPECT_EQ(queue.size(), 1U);
  queue.check();
  const auto next = queue.next(false);
  EXPECT_EQ(number_of(next), 1U);
  EXPECT_FALSE(next->awaited);
  EXPECT_FALSE(queue.next(false));
  queue.check();
}

TEST(ReadQueue, KeepsItsBooksOverManyRandomRuns) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    read_queue queue(6, 1 + below(4));
    std::multimap<std::uint64_t, read_queue::ticket> waiting;
    std::set<std::uint64_t> begun;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t number = 1 + below(10);
      const auto what = below(5);
      if (what == 0) {
        queue.expect(chunk_called(number), 1);
      } else if (what == 1) {
        if (const auto ticket = queue.await(chunk_called(number), 1)) waiting.emplace(number, *ticket);
      } else if (what == 2 && !waiting.empty()) {
        const auto [which, ticket] = *waiting.begin();
        waiting.erase(waiting.begin());
        queue.give_up(chunk_called(which), ticket);
      } else if (what == 3) {
        const bool awaited = below(2) == 0;
        if (const auto order = queue.next(awaited)) {
          ASSERT_TRUE(begun.insert(order->name.low).second) << "it is being read";
          ASSERT_EQ(order->awaited, waiting.contains(order->name.low));
          ASSERT_TRUE(order->awaited || !awaited);
          for (const auto& [other, ticket] : waiting) ASSERT_TRUE(order->awaited || begun.contains(other));
        }
      } else if (!begun.empty()) {
        const auto which = *begun.begin();
        begun.erase(which);
        queue.ended(chunk_called(which));
        waiting.erase(which); // they are answered
      }
      queue.check();
    }
  }
}

} // namespace
} // namespace godwit::protocols
