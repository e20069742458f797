#include "protocols/batching/waiting_request.hpp"
#include "protocols/second.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using testing_support::second_ns;

queue_place place_by(queue_order order, queued_request r, std::int64_t aging_ns = second_ns) {
  return place_in_queue({order, aging_ns}, r);
}

queued_request waits(std::int64_t arrival_ns, std::uint32_t expected, std::uint64_t serial = 1) {
  queued_request r;
  r.arrival_ns = arrival_ns;
  r.serial = serial;
  r.prompt_tokens = 10;
  r.expected_tokens = expected;
  return r;
}

TEST(QueueOrder, FirstComeFirstServedLooksAtNothingElse) {
  EXPECT_LT(place_by(queue_order::fcfs, waits(1, 1000)), place_by(queue_order::fcfs, waits(2, 1)));
  EXPECT_LT(place_by(queue_order::fcfs, waits(1, 9, 4)), place_by(queue_order::fcfs, waits(1, 9, 5))) << "by admission";
}

TEST(QueueOrder, TheShortestGoesFirstByPromptAndExpectedAnswer) {
  EXPECT_LT(place_by(queue_order::sjf, waits(2, 10)), place_by(queue_order::sjf, waits(1, 1000)));
  EXPECT_LT(place_by(queue_order::ljf, waits(2, 1000)), place_by(queue_order::ljf, waits(1, 10)));
  auto large = waits(1, 10);
  large.prompt_tokens = 4000;
  EXPECT_LT(place_by(queue_order::sjf, waits(2, 10)), place_by(queue_order::sjf, large));
  EXPECT_LT(place_by(queue_order::sjf, large), place_by(queue_order::sjf, waits(2, 4000)))
      << "a token of a prompt is no step of its own";
}

TEST(QueueOrder, NobodyIsOvertakenByThoseWhoComeMuchLater) {
  const auto old = place_by(queue_order::sjf, waits(0, 100));
  EXPECT_LT(place_by(queue_order::sjf, waits(89 * second_ns, 10)), old);
  EXPECT_LT(old, place_by(queue_order::sjf, waits(91 * second_ns, 10))) << "90 tokens are worth 90 s";
  EXPECT_LT(place_by(queue_order::sjf, waits(1, 500), 0), place_by(queue_order::sjf, waits(2, 1), 0)) << "0 is fcfs";
}

TEST(QueueOrder, TheEarliestDeadlineGoesFirstAndThoseWithoutOneDoNotStarve) {
  const auto by = [](std::int64_t arrival_ns, std::int64_t ttft_ns) {
    auto r = waits(arrival_ns, 10);
    r.ttft_ns = ttft_ns;
    return place_by(queue_order::edf, r);
  };
  EXPECT_LT(by(3 * second_ns, second_ns), by(0, 5 * second_ns));
  EXPECT_LT(by(0, 5 * second_ns), by(0, 0)) << "without an objective";
  EXPECT_LT(by(0, 0), by(undemanding_ttft_ns, second_ns));
}

TEST(QueueOrder, PriorityComesFirstThenWhoHasRunBefore) {
  auto urgent = waits(9, 1000);
  urgent.priority = -1;
  auto preempted = waits(5, 1000);
  preempted.begun = true;
  for (const auto order : {queue_order::sjf, queue_order::ljf, queue_order::edf}) {
    const auto usual = place_by(order, waits(1, 1));
    EXPECT_LT(place_by(order, urgent), usual);
    EXPECT_LT(place_by(order, preempted), usual) << "its client reads already";
    EXPECT_LT(place_by(order, urgent), place_by(order, preempted));
  }
}

TEST(QueueOrder, WhateverAPeerSaysOverflowsNothing) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  queued_request r;
  r.prompt_tokens = r.expected_tokens = std::numeric_limits<std::uint32_t>::max();
  for (const auto arrival : {most, least, std::int64_t{0}})
    for (const auto ttft : {most, least, std::int64_t{0}})
      for (const auto order : {queue_order::fcfs, queue_order::sjf, queue_order::ljf, queue_order::edf}) {
        r.arrival_ns = arrival;
        r.ttft_ns = ttft;
        (void)place_by(order, r, most); // under UBSan
      }
  r.arrival_ns = most;
  EXPECT_EQ(place_by(queue_order::sjf, r, most).due_ns, most);
  r.arrival_ns = least;
  EXPECT_EQ(place_by(queue_order::ljf, r, most).due_ns, least);
}

/// One request runs at a time; `order` of those that come while another one runs.
std::vector<std::uint64_t> started_in(queue_order order) {
  planner_settings settings;
  settings.blocks = 64;
  settings.context_length = 500;
  settings.running_max = 1;
  settings.queue.order = order;
  planner p{settings};
  const auto admit = [&p](std::uint64_t id, std::uint32_t expected, std::int64_t ttft_ns) {
    EXPECT_TRUE(p.admit(testing_support::waiting_request(id, expected, ttft_ns)).accepted());
  };
  std::vector<std::uint64_t> begun;
  const auto run = [&] {
    const auto input = p.plan();
    for (const auto id : p.take_effects().begun) begun.push_back(id.value());
    if (input) (void)testing_support::ends(p, *input);
    return input.has_value();
  };
  admit(1, 1, 0);
  EXPECT_TRUE(run());
  admit(2, 50, 3 * second_ns);
  admit(3, 5, 2 * second_ns);
  admit(4, 500, second_ns);
  EXPECT_EQ(p.move_candidates().at(0).request, request_id{order == queue_order::fcfs  ? 2U
                                                          : order == queue_order::sjf ? 3U
                                                                                      : 4U})
      << "the head of line is who starts next";
  while (run()) {
  }
  EXPECT_TRUE(p.idle());
  return begun;
}

TEST(QueueOrder, APlannerStartsThoseThatWaitInThatOrder) {
  EXPECT_THAT(started_in(queue_order::fcfs), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(started_in(queue_order::sjf), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(started_in(queue_order::ljf), ElementsAre(1, 4, 2, 3));
  EXPECT_THAT(started_in(queue_order::edf), ElementsAre(1, 4, 3, 2));
}

TEST(QueueOrder, WhatItGoesByMovesWithTheRequest) {
  planner_settings settings;
  settings.blocks = 64;
  settings.context_length = 500;
  settings.queue.order = queue_order::sjf;
  planner p{settings}, other{settings};
  generate_request request;
  request.request = request_id{1};
  request.epoch = epoch{1};
  request.prompt = {1, 2, 3};
  request.stop.max_tokens = 2;
  request.expected_tokens = 77;
  request.ttft_ns = 5;
  ASSERT_TRUE(p.admit(request).accepted());
  ASSERT_EQ(p.park(request.request, epoch{1}), planner::parking::parked);
  auto moved = p.snapshot(request.request, 0);
  EXPECT_EQ(moved.expected_tokens, 77U);
  EXPECT_EQ(moved.ttft_ns, 5);
  ASSERT_TRUE(other.adopt(std::move(moved), epoch{2}, {}).accepted());
  request.request = request_id{2};
  request.expected_tokens = 76;
  ASSERT_TRUE(other.admit(request).accepted());
  EXPECT_EQ(other.move_candidates().at(0).request, request_id{2}) << "it is shorter";
}

} // namespace
} // namespace godwit::protocols
