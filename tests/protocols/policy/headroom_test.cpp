#include <godwit/protocols/policy/headroom.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace godwit::protocols {
namespace {

std::string error_of(std::string_view text) {
  const auto parsed = parse_execution_levels(text);
  return parsed ? "" : parsed.error();
}

TEST(Headroom, LevelsAreNamesWithBlocksOrAuto) {
  const auto parsed = parse_execution_levels("normal=0, high=auto,batch-2=17");
  ASSERT_TRUE(parsed) << parsed.error();
  const std::vector<execution_level> expected{{"normal", 0}, {"high", std::nullopt}, {"batch-2", 17}};
  EXPECT_EQ(*parsed, expected);
}

TEST(Headroom, AFaultyListOfLevelsIsExplainedInOneLine) {
  EXPECT_NE(error_of("normal"), "");
  for (const auto* text : {"", "normal=0,", "=4", "a b=4", "normal=-1", "normal=", "normal=4x", "normal=99999999999"})
    EXPECT_NE(error_of(text), "") << text;
  EXPECT_NE(error_of("a=1,b=2,a=3").find("twice"), std::string::npos);
  std::string many = "l0=0";
  for (int i = 1; i < 17; ++i) many += ",l" + std::to_string(i) + "=0";
  EXPECT_NE(error_of(many).find("more than 16"), std::string::npos);
  for (const auto* text : {"", "a", "a=x", "a=1,a=2"}) EXPECT_EQ(error_of(text).find('\n'), std::string::npos);
}

// Llumnix, Algorithm 1: GetHeadroom is divided by the number of requests of the priority, and summed over them.
TEST(Headroom, EachLevelWithRunningRequestsCountsOnceHoweverManyTheyAre) {
  const auto levels = *parse_execution_levels("normal=0,some=5,high=auto");
  EXPECT_EQ(headroom_of(levels, {0, 0, 0}, 40), 0U);
  EXPECT_EQ(headroom_of(levels, {9, 0, 0}, 40), 0U);
  EXPECT_EQ(headroom_of(levels, {0, 1, 0}, 40), 5U);
  EXPECT_EQ(headroom_of(levels, {0, 7, 0}, 40), 5U);
  EXPECT_EQ(headroom_of(levels, {3, 7, 2}, 40), 45U);
}

TEST(Headroom, LevelsBeyondTheLastCountAsTheLast) {
  const auto levels = *parse_execution_levels("normal=0,high=9");
  EXPECT_EQ(headroom_of(levels, {0, 0, 0, 4}, 0), 9U);
  EXPECT_EQ(headroom_of(levels, {0, 1, 0, 4}, 0), 9U) << "once";
}

struct outcome {
  headroom_profile profile;
  int points = 0;
};

outcome drive(headroom_profile profile, const std::function<std::int64_t(const profile_point&)>& step) {
  outcome out{std::move(profile)};
  while (const auto batch = out.profile.next()) {
    EXPECT_GE(batch->sequences, 1U);
    EXPECT_GE(batch->blocks_each, 1U);
    out.profile.took(step(*batch));
    if (++out.points > 100) {
      ADD_FAILURE() << "does not end";
      break;
    }
  }
  return out;
}

TEST(HeadroomProfile, WhereLoadDoesNoHarmThereIsNoHeadroom) {
  const auto out = drive({1000, 64, 100}, [](const auto&) { return 5'000'000; });
  EXPECT_EQ(out.profile.harmless(), 1000U);
  EXPECT_EQ(out.profile.headroom(), 0U);
}

TEST(HeadroomProfile, WhereEveryLoadHarmsAllButOneSequenceIsHeadroom) {
  const auto out = drive({640, 64, 100}, [](const auto& batch) { return batch.sequences * 1'000'000LL; });
  EXPECT_EQ(out.profile.harmless(), 10U);
  EXPECT_EQ(out.profile.headroom(), 630U);
}

TEST(HeadroomProfile, FindsTheStep) {
  for (std::uint32_t step = 1; step < 64; ++step) {
    const auto out =
        drive({640, 64, 100}, [&](const auto& batch) { return batch.sequences <= step ? 1'000'000 : 1'100'000; });
    ASSERT_EQ(out.profile.harmless(), step * 10) << step;
  }
}

// base 10 ms, 100 us for each sequence: 5 % are reached at the sixth.
TEST(HeadroomProfile, FindsWhereALinearStepTimeExceedsTheTolerance) {
  const auto linear = [](const auto& batch) { return 10'000'000LL + batch.sequences * 100'000LL; };
  const auto out = drive({640, 64, 100}, linear);
  EXPECT_EQ(out.profile.harmless(), 60U);
  EXPECT_EQ(out.profile.headroom(), 580U);
}

TEST(HeadroomProfile, NoiseMovesTheAnswerNoFurtherThanItMovesTheTimes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    const auto noisy = [&](const auto& batch) {
      const auto noise = 1 + (static_cast<double>(random() % 2001) - 1000) / 1e5; // within 1 %
      return static_cast<std::int64_t>((10'000'000.0 + batch.sequences * 20'000.0) * noise);
    };
    const auto out = drive({1024, 128, 100}, noisy);
    // 5 % are 25 sequences; two measurements are off by 1 % each
    EXPECT_GE(out.profile.harmless(), 14U * 8) << "seed " << seed;
    EXPECT_LE(out.profile.harmless(), 37U * 8) << "seed " << seed;
  }
}

TEST(HeadroomProfile, AsksForFewBatchesAndNoneThatThePoolOrTheContextCannotHold) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random{seed};
    const auto blocks = static_cast<std::uint32_t>(1 + random() % 5000);
    const auto sequences = static_cast<std::uint32_t>(1 + random() % 300);
    const auto each_max = static_cast<std::uint32_t>(1 + random() % 300);
    const auto limit = static_cast<std::uint32_t>(random() % 400);
    const auto out = drive({blocks, sequences, each_max}, [&](const auto& batch) {
      EXPECT_LE(batch.blocks(), blocks);
      EXPECT_LE(batch.sequences, sequences);
      EXPECT_LE(batch.blocks_each, each_max);
      return batch.sequences > limit ? 2'000'000 : 1'000'000;
    });
    EXPECT_LE(out.points, 2 * std::log2(sequences) + 2);
    EXPECT_LE(out.profile.harmless(), blocks);
    EXPECT_GE(out.profile.harmless(), 1U);
  }
}

TEST(HeadroomProfile, EndedEarlyItKnowsWhatWasFoundByThen) {
  headroom_profile profile{640, 64, 100};
  EXPECT_EQ(profile.headroom(), 0U) << "nothing is known";
  for (const auto sequences : {1U, 2U, 4U}) {
    ASSERT_EQ(profile.next()->sequences, sequences);
    profile.took(1'000'000);
  }
  EXPECT_EQ(profile.harmless(), 40U);
  EXPECT_EQ(profile.headroom(), 600U);
}

TEST(HeadroomProfile, WithoutAPoolOrContextThereIsNothingToAsk) {
  EXPECT_FALSE((headroom_profile{0, 64, 100}.next()));
  EXPECT_FALSE((headroom_profile{640, 64, 0}.next()));
  EXPECT_EQ((headroom_profile{640, 64, 0}.headroom()), 0U);
}

} // namespace
} // namespace godwit::protocols
