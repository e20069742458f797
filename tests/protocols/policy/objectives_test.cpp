// What is left of a request's objectives when an instance is looked for, and what its client hears of them.
#include <godwit/protocols/policy/objectives.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace godwit::protocols {
namespace {

constexpr std::int64_t ms = 1'000'000;

TEST(Objectives, AreWhatIsLeftOfThemButForTheMargin) {
  const objectives_policy tenth{0.1, true};
  auto left = objectives_left({1000 * ms, 50 * ms, 300 * ms}, tenth);
  EXPECT_EQ(left.ttft_ns, 600 * ms);
  EXPECT_EQ(left.tpot_ns, 45 * ms) << "for each token, whenever it begins";
  EXPECT_TRUE(left.refusable);
  left = objectives_left({1000 * ms, 0, 2000 * ms}, {});
  EXPECT_EQ(left.ttft_ns, 1) << "one that is over is none the less there";
  EXPECT_EQ(left.tpot_ns, 0);
  EXPECT_FALSE(left.refusable);
  EXPECT_FALSE(objectives_left({}, tenth).any());
  const auto longest = std::numeric_limits<std::int64_t>::max();
  EXPECT_GT(objectives_left({longest, longest, 0}, {}).ttft_ns, 1'000'000 * ms);
}

TEST(Objectives, OfThoseWhoGoBeforeOthersNobodyIsTurnedAway) {
  const objectives_policy early{0, true};
  EXPECT_TRUE(objectives_left({ms, 0, 0, 0, 0}, early).refusable);
  EXPECT_TRUE(objectives_left({ms, 0, 0, 3, 0}, early).refusable);
  EXPECT_FALSE(objectives_left({ms, 0, 0, -1, 0}, early).refusable);
  EXPECT_FALSE(objectives_left({ms, 0, 0, 0, 1}, early).refusable);
}

TEST(Objectives, AreNamedWhereTheyAreNotToBeMet) {
  EXPECT_EQ(describe_lateness({2000 * ms, 0}, {0.1, true}, 5321 * ms, 0),
            "No instance is expected to meet the request's objectives with a margin of 10 %: 2000 ms to the first "
            "token, where 5321 ms are expected from now. Please try again later.");
  EXPECT_EQ(describe_lateness({2000 * ms, 20 * ms}, {}, 12 * ms, 31 * ms),
            "No instance is expected to meet the request's objectives: 2000 ms to the first token, where 12 ms are "
            "expected from now; 20 ms for each further one, where 31 ms are expected. Please try again later.");
  EXPECT_EQ(describe_lateness({0, 20 * ms}, {}, 0, 31 * ms),
            "No instance is expected to meet the request's objectives: 20 ms for each further one, where 31 ms are "
            "expected. Please try again later.");
}

} // namespace
} // namespace godwit::protocols
