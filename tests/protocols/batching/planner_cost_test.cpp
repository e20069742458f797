#include "protocols/batching/planner_support.hpp"

#include <gtest/gtest.h>

#include <chrono>

/// What a planner does between two steps must not grow with what merely waits. The bounds are far from what is needed
/// and from what it took when it did grow.
namespace godwit::protocols {
namespace {

using namespace std::chrono_literals;
using testing_support::asks_for;
using testing_support::counting_from;
using testing_support::drawn_by;
using testing_support::settings_for;

planner_settings spacious(std::uint32_t blocks) {
  auto settings = settings_for(blocks, 64, 1'000'000);
  settings.context_length = 1'000'000;
  settings.waiting_max = 1'000'000;
  return settings;
}

generate_request long_request(std::uint64_t id, std::size_t prompt, std::int32_t priority = 0) {
  auto request = asks_for(id, prompt, 100'000, priority);
  request.prompt = counting_from(static_cast<token_id>(id % 1000 * 1'000'000), prompt);
  return request;
}

/// Of how many requests a step was; without the planner's own checks, which take long.
std::size_t quick_step(planner& p) {
  const auto input = p.plan();
  if (!input) return 0;
  (void)p.complete(drawn_by(*input));
  return input->slices.size();
}

std::chrono::nanoseconds time_of(const auto& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::steady_clock::now() - began;
}

TEST(PlannerCost, AReportDoesNotCountAnewWhatTheQueueNeeds) {
  constexpr std::uint64_t waiting = 50'000;
  planner p{spacious(100)};
  for (std::uint64_t id = 1; id <= waiting; ++id) ASSERT_TRUE(p.admit(long_request(id, 20)).accepted());
  std::uint64_t blocks = 0;
  const auto taken = time_of([&] {
    for (int i = 0; i < 4'000; ++i) blocks += p.load().waiting_blocks;
  });
  EXPECT_EQ(blocks, 4'000 * waiting * 2);
  EXPECT_LT(taken, 4s);
}

/// 1 decodes and has nearly all of the pool; the prompt of 2, whose beginning is that of 1, lacks the rest.
planner with_a_long_known_prefix_in_front(std::size_t prefix) {
  planner p{spacious(static_cast<std::uint32_t>(prefix / tokens_per_block + 1'000))};
  EXPECT_TRUE(p.admit(long_request(1, prefix)).accepted());
  (void)quick_step(p);
  auto behind = long_request(1, prefix);
  behind.request = request_id{2};
  behind.prompt.resize(prefix + 1'000 * tokens_per_block, 3);
  EXPECT_TRUE(p.admit(std::move(behind)).accepted());
  return p;
}

TEST(PlannerCost, APrefixIsNotLookedUpInEveryStepWhileMemoryIsMissing) {
  auto p = with_a_long_known_prefix_in_front(160'000);
  const auto taken = time_of([&] {
    for (int i = 0; i < 8'000; ++i) ASSERT_EQ(quick_step(p), 1U);
  });
  EXPECT_LT(taken, 2s);
  p.check();
}

/// Of the 32 known tokens of 4, which waits while 3 generates `answer` tokens and takes more and more blocks: those
/// that are known when it starts. 2 ends meanwhile, so that its two blocks are cached later than the two of 4.
std::uint64_t known_after(std::uint32_t answer) {
  planner p{spacious(12)};
  const auto admit = [&](std::uint64_t id, generate_request request, std::uint32_t tokens) {
    request.request = request_id{id};
    request.stop.max_tokens = tokens;
    EXPECT_TRUE(p.admit(std::move(request)).accepted());
  };
  admit(1, long_request(1, 32), 1);
  (void)quick_step(p);
  admit(2, long_request(2, 32), 3);
  admit(3, long_request(3, 48), answer);
  (void)quick_step(p);
  admit(4, long_request(1, 132), 1);
  while (p.waiting() > 0 && quick_step(p) > 0) p.check();
  return p.load().prefix_hit_tokens_total;
}

TEST(PlannerCost, ThePrefixOfWhoWaitsIsEvictedLastAllTheSame) {
  EXPECT_EQ(known_after(112), 32U); // all that was cached, but for two blocks
  EXPECT_EQ(known_after(128), 16U);
}

/// With KV of all but the last token of the prompt.
void adopt(planner& p, generate_request request, std::vector<block_id> blocks) {
  moved_request moved{request.request, request.epoch, request.prompt, {}, request.sampling, request.stop};
  moved.state = request_state::running;
  moved.computed = static_cast<std::uint32_t>(request.prompt.size() - 1);
  ASSERT_TRUE(p.adopt(std::move(moved), request.epoch, std::move(blocks)).accepted());
}

TEST(PlannerCost, WhoLacksMemoryStartsAsSoonAsMoreOfItsPrefixIsKnown) {
  planner p{spacious(8)};
  ASSERT_TRUE(p.admit(long_request(1, 20)).accepted());
  (void)quick_step(p);
  ASSERT_TRUE(p.hold_place());
  auto blocks = p.reserve(4).value();
  ASSERT_TRUE(p.admit(long_request(2, 70)).accepted()); // 5 blocks, and 2 are free
  (void)quick_step(p);
  ASSERT_EQ(p.waiting(), 1U);
  auto known = long_request(2, 65);
  known.request = request_id{3};
  adopt(p, std::move(known), std::move(blocks));
  (void)quick_step(p);
  EXPECT_EQ(p.waiting(), 0U);
}

TEST(PlannerCost, WhoLacksMemoryStartsAsSoonAsCachedBlocksOfItsPrefixAreUsed) {
  planner p{spacious(15)};
  for (const std::uint64_t id : {1, 5}) {
    auto first = long_request(id, 48);
    first.stop.max_tokens = 1;
    ASSERT_TRUE(p.admit(std::move(first)).accepted());
    (void)quick_step(p);
  }
  ASSERT_EQ(p.load().blocks_cached, 6U);
  ASSERT_TRUE(p.admit(long_request(2, 20)).accepted());
  (void)quick_step(p);
  ASSERT_TRUE(p.hold_place());
  auto blocks = p.reserve(3).value();
  auto behind = long_request(1, 162);
  behind.request = request_id{3};
  ASSERT_TRUE(p.admit(std::move(behind)).accepted()); // 3 cached blocks and 8 more, and 10 are available
  (void)quick_step(p);
  ASSERT_EQ(p.waiting(), 1U);
  auto known = long_request(1, 49);
  known.request = request_id{4};
  adopt(p, std::move(known), std::move(blocks)); // its own blocks are free again
  (void)quick_step(p);
  EXPECT_EQ(p.waiting(), 0U);
}

TEST(PlannerCost, BlocksOfOutrankedRequestsAreNotCountedOneByOneWhereAllOfThemWouldNotSuffice) {
  planner p{spacious(21'000)};
  ASSERT_TRUE(p.admit(long_request(1, 16'000, 0)).accepted());
  ASSERT_TRUE(p.admit(long_request(2, 300'000, 5)).accepted());
  (void)quick_step(p);
  ASSERT_TRUE(p.admit(long_request(3, 335'000, 1)).accepted()); // with those of 1 more than the pool has
  const auto taken = time_of([&] {
    for (int i = 0; i < 8'000; ++i) ASSERT_EQ(quick_step(p), 2U);
  });
  EXPECT_LT(taken, 2s);
  EXPECT_EQ(p.load().preemptions_total, 0U);
}

} // namespace
} // namespace godwit::protocols
