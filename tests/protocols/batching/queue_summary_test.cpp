#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/batching/queue_summary.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace godwit::protocols {
namespace {

queue_part one(std::int32_t priority, bool fresh, std::int64_t due_ns, std::uint64_t tokens = 10) {
  const queue_place place{priority, fresh, due_ns, 0, 0};
  return {place, place, 1, 2, tokens, 3};
}

std::vector<queue_part> summary_of(const std::vector<queue_part>& queue) {
  queue_summary sum(queue.size());
  for (const auto& r : queue) sum.add(r);
  return std::move(sum).parts();
}

queue_place due_at(std::int64_t ns, std::int32_t priority = 0) { return {priority, true, ns, 0, 0}; }

TEST(QueueSummary, HasAPartForEachOfAFew) {
  const auto parts = summary_of({one(0, true, 1, 10), one(0, true, 2, 20), one(0, true, 3, 30)});
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(queued_behind(due_at(0), parts).tokens, 60U);
  EXPECT_EQ(queued_behind(due_at(1), parts).tokens, 60U) << "equal: before it";
  EXPECT_EQ(queued_behind(due_at(2), parts).tokens, 50U);
  const auto behind = queued_behind(due_at(3), parts);
  EXPECT_EQ(behind.tokens, 30U);
  EXPECT_EQ(behind.requests, 1U);
  EXPECT_EQ(behind.blocks, 2U);
  EXPECT_EQ(behind.pairs, 3);
  EXPECT_EQ(queued_behind(due_at(4), parts), queue_part{});
  EXPECT_TRUE(summary_of({}).empty());
}

TEST(QueueSummary, CutsBetweenPriorities) {
  std::vector<queue_part> queue;
  for (int i = 0; i < 5; ++i) queue.push_back(one(-1, true, i));
  for (int i = 0; i < 3; ++i) queue.push_back(one(0, false, i));
  for (int i = 0; i < 192; ++i) queue.push_back(one(0, true, i));
  const auto parts = summary_of(queue);
  EXPECT_EQ(queued_behind(due_at(1'000'000, -2), parts).requests, 200U);
  EXPECT_EQ(queued_behind(due_at(1'000'000, -1), parts).requests, 195U);
  EXPECT_EQ(queued_behind(due_at(-1), parts).requests, 192U);
  EXPECT_EQ(queued_behind(due_at(1'000'000), parts).requests, 0U);
}

// Whatever waits: all of it is counted once, and an estimate is wrong by half of a part.
TEST(QueueSummary, IsWrongByHalfOfAPart) {
  workload::counter_random random(3);
  for (int round = 0; round < 2'000; ++round) {
    const auto kinds = 1 + random.below(random.below(2) == 0 ? 3 : 40);
    std::vector<queue_part> queue(random.below(300));
    for (auto& r : queue)
      r = one(static_cast<std::int32_t>(random.below(kinds)), random.below(4) != 0,
              static_cast<std::int64_t>(random.below(1'000)), 1);
    std::ranges::sort(queue, {}, &queue_part::first);
    const auto parts = summary_of(queue);
    ASSERT_LE(parts.size(), queue_summary::parts_max);
    std::uint64_t requests = 0, most = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ASSERT_LE(parts[i].first, parts[i].last);
      if (i > 0) {
        ASSERT_LE(parts[i - 1].last, parts[i].first);
      }
      ASSERT_GT(parts[i].requests, 0U);
      requests += parts[i].requests;
      most = std::max(most, parts[i].requests);
    }
    ASSERT_EQ(requests, queue.size());
    ASSERT_LE(most, (queue.size() + queue_summary::equal_parts - 1) / queue_summary::equal_parts);
    for (int i = 0; i < 20; ++i) {
      const auto place = one(static_cast<std::int32_t>(random.below(kinds)), random.below(4) != 0,
                             static_cast<std::int64_t>(random.below(1'000)));
      const auto exact = static_cast<double>(
          std::ranges::count_if(queue, [&](const queue_part& r) { return r.first >= place.first; }));
      const auto behind = queued_behind(place.first, parts);
      // Equal ones, of which a part has some, lie on both sides.
      const auto equal = static_cast<double>(
          std::ranges::count_if(queue, [&](const queue_part& r) { return r.first == place.first; }));
      ASSERT_NEAR(static_cast<double>(behind.requests), exact, static_cast<double>(most + 1) / 2 + equal);
    }
  }
}

TEST(QueueSummary, MorePartsThanThereCanBeAreNotRead) {
  const std::vector<queue_part> parts(1'000, one(0, true, 1));
  EXPECT_EQ(queued_behind(due_at(0), parts).requests, queue_summary::parts_max);
}

generate_request asks(std::uint64_t id, std::int32_t priority, std::int64_t arrival_ns, std::uint32_t expected) {
  generate_request r;
  r.request = request_id{id};
  r.epoch = epoch{1};
  r.prompt.resize(40);
  std::iota(r.prompt.begin(), r.prompt.end(), static_cast<token_id>(id * 100));
  r.stop.max_tokens = 100;
  r.priority = priority;
  r.arrival_ns = arrival_ns;
  r.expected_tokens = expected;
  return r;
}

planner planner_with(queue_rule rule) {
  planner_settings settings;
  settings.blocks = 1'000;
  settings.context_length = 1'000;
  settings.running_max = 2;
  settings.queue = rule;
  return planner{settings};
}

TEST(QueueSummary, OfAPlannersQueueIsInItsReports) {
  const std::int64_t second = 1'000'000'000;
  auto p = planner_with({queue_order::sjf, second});
  EXPECT_TRUE(p.load().queue.empty());
  for (std::uint64_t i = 1; i <= 4; ++i)
    ASSERT_TRUE(p.admit(asks(i, 0, 1, static_cast<std::uint32_t>(50 * i))).accepted());
  ASSERT_TRUE(p.admit(asks(5, -1, 2, 900)).accepted());
  const auto load = p.load();
  EXPECT_EQ(load.order, (queue_rule{queue_order::sjf, second}));
  ASSERT_EQ(load.queue.size(), 5U);
  EXPECT_EQ(load.queue[0].last.priority, -1);
  std::uint64_t blocks = 0, tokens = 0;
  double pairs = 0;
  for (const auto& part : load.queue) {
    blocks += part.blocks;
    tokens += part.tokens;
    pairs += part.pairs;
  }
  EXPECT_EQ(blocks, load.waiting_blocks);
  EXPECT_EQ(tokens, load.prefill_tokens);
  EXPECT_EQ(pairs, load.prefill_pairs);

  queued_request next;
  next.arrival_ns = 3;
  next.prompt_tokens = 40;
  next.expected_tokens = 120;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 2U) << "150 and 200 tokens";
  next.priority = 1;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 0U);
  next.priority = -2;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 5U);
}

TEST(QueueSummary, OfOnePriorityInOrderOfArrivalIsOnePart) {
  auto p = planner_with({});
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(p.admit(asks(i, 3, static_cast<std::int64_t>(i), 0)).accepted());
  auto load = p.load();
  ASSERT_EQ(load.queue.size(), 1U);
  EXPECT_EQ(load.queue[0].requests, 4U);
  EXPECT_EQ(load.queue[0].blocks, load.waiting_blocks);
  EXPECT_EQ(load.queue[0].tokens, load.prefill_tokens);
  queued_request next;
  next.arrival_ns = 5;
  next.priority = 3;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 0U);
  next.priority = 2;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 4U);
  ASSERT_TRUE(p.admit(asks(9, 2, 9, 0)).accepted());
  load = p.load();
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 5U) << "it came before";
  next.arrival_ns = 10;
  EXPECT_EQ(queued_behind(place_in_queue(load.order, next), load.queue).requests, 4U);
}

} // namespace
} // namespace godwit::protocols
