#include <godwit/protocols/policy/dispatch_queue.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace godwit::protocols {
namespace {

std::string emptied(dispatch_queue<char>& queue) {
  std::string order;
  while (const auto next = queue.pop()) order += *next;
  return order;
}

// Llumnix section 4.4.1: requests of a high scheduling priority are scheduled earlier.
TEST(DispatchQueue, TheHighestSchedulingPriorityComesFirst) {
  dispatch_queue<char> queue{10};
  EXPECT_FALSE(queue.push(0, 1, 'b'));
  EXPECT_FALSE(queue.push(5, 0, 'c'));
  EXPECT_FALSE(queue.push(-3, 9, 'a'));
  EXPECT_EQ(emptied(queue), "abc");
}

TEST(DispatchQueue, WithinAPriorityTheFirstToArriveComesFirst) {
  dispatch_queue<char> queue{10};
  EXPECT_FALSE(queue.push(0, 30, 'c'));
  EXPECT_FALSE(queue.push(0, 10, 'a'));
  EXPECT_FALSE(queue.push(0, 20, 'b'));
  EXPECT_EQ(emptied(queue), "abc");
}

TEST(DispatchQueue, OfThoseThatArrivedTogetherTheFirstToBePushedComesFirst) {
  dispatch_queue<char> queue{100};
  std::string pushed;
  for (char c = 'a'; c <= 'z'; ++c) {
    pushed += c;
    EXPECT_FALSE(queue.push(0, 7, c));
  }
  EXPECT_EQ(emptied(queue), pushed);
}

TEST(DispatchQueue, WhenItIsFullTheLastInOrderHasToGo) {
  dispatch_queue<char> queue{2};
  EXPECT_FALSE(queue.push(1, 0, 'x'));
  EXPECT_FALSE(queue.push(0, 0, 'b'));
  EXPECT_EQ(queue.push(0, -1, 'a'), 'x') << "one that came before, but is less urgent";
  EXPECT_EQ(queue.push(0, 5, 'c'), 'c') << "or the one that comes";
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(emptied(queue), "ab");
  EXPECT_TRUE(queue.empty());
}

TEST(DispatchQueue, TakesWhatCannotBeCopied) {
  dispatch_queue<std::unique_ptr<int>> queue{1};
  EXPECT_FALSE(queue.push(0, 0, std::make_unique<int>(1)));
  const auto out = queue.push(-1, 0, std::make_unique<int>(2));
  ASSERT_TRUE(out);
  EXPECT_EQ(**out, 1);
  EXPECT_EQ(**queue.pop(), 2);
}

TEST(DispatchQueue, KeepsItsOrderWhateverComesAndGoes) {
  using entry = std::tuple<std::int32_t, std::int64_t, int>;
  workload::counter_random random{4};
  for (int round = 0; round < 200; ++round) {
    dispatch_queue<entry> queue{20};
    std::vector<entry> model;
    for (int i = 0; i < 60; ++i) {
      if (random.below(3) == 0) {
        const auto next = queue.pop();
        ASSERT_EQ(next.has_value(), !model.empty());
        if (!next) continue;
        const auto first = std::min_element(model.begin(), model.end());
        ASSERT_EQ(*next, *first);
        model.erase(first);
        continue;
      }
      const auto e = entry{static_cast<std::int32_t>(random.below(3)), random.below(5), i};
      model.push_back(e);
      const auto out = queue.push(std::get<0>(e), std::get<1>(e), e);
      ASSERT_EQ(out.has_value(), model.size() > 20);
      if (!out) continue;
      const auto last = std::max_element(model.begin(), model.end());
      ASSERT_EQ(*out, *last);
      model.erase(last);
    }
  }
}

} // namespace
} // namespace godwit::protocols
