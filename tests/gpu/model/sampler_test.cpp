#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/philox.hpp>
#include <godwit/gpu/model/sampler.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace godwit::gpu::model {
namespace {

using protocols::step_slice;
using protocols::token_id;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

step_slice slice_with(float temperature, std::uint64_t seed = 1, std::uint32_t index = 0) {
  step_slice slice;
  slice.samples = true;
  slice.sample_index = index;
  slice.sampling.temperature = temperature;
  slice.sampling.seed = seed;
  return slice;
}

token_id draw(std::vector<float> logits, const step_slice& slice) { return sampler{}.draw(logits, slice).id; }

std::vector<float> some_logits(std::size_t count, std::uint32_t salt = 0) {
  std::vector<float> logits(count);
  for (std::size_t i = 0; i < count; ++i)
    logits[i] = static_cast<float>(uniform(salt, static_cast<std::uint32_t>(i)) * 8.0 - 4.0);
  return logits;
}

/// How often each id comes in `draws` draws.
std::map<token_id, int> frequencies(const std::vector<float>& logits, step_slice slice, std::uint32_t draws) {
  std::map<token_id, int> counts;
  sampler drawer;
  for (std::uint32_t i = 0; i < draws; ++i) {
    auto copy = logits;
    slice.sample_index = i;
    ++counts[drawer.draw(copy, slice).id];
  }
  return counts;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp(static_cast<double>(logit) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

double chi_square(const std::map<token_id, int>& counts, const std::vector<double>& p, double draws) {
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto found = counts.find(static_cast<token_id>(i));
    const double seen = found == counts.end() ? 0.0 : found->second;
    if (p[i] > 0.0) sum += (seen - draws * p[i]) * (seen - draws * p[i]) / (draws * p[i]);
  }
  return sum;
}

// kat_vectors of Random123, philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedVectors) {
  using words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsTheFirst53BitsAndBelowOne) {
  EXPECT_EQ(uniform(0, 0), static_cast<double>((0x6627e8d5ULL << 21U) ^ (0xe169c58dU >> 11U)) * 0x1.0p-53);
  for (std::uint32_t i = 0; i < 10000; ++i) {
    EXPECT_GE(uniform(7, i), 0.0);
    EXPECT_LT(uniform(7, i), 1.0);
  }
}

TEST(Sampler, GreedyTakesTheHighestAndOfEqualsTheLowestId) {
  EXPECT_EQ(draw({1.0F, 3.0F, 2.0F, 3.0F}, slice_with(0.0F)), 1);
  EXPECT_EQ(draw({-5.0F}, slice_with(0.0F)), 0);
}

TEST(Sampler, FrequenciesMatchTheProbabilities) {
  const auto logits = some_logits(20);
  constexpr std::uint32_t draws = 50000;
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    auto slice = slice_with(temperature, 99);
    const auto counts = frequencies(logits, slice, draws);
    // 19 degrees of freedom: above 43.8 in one of a thousand cases.
    EXPECT_LT(chi_square(counts, softmax(logits, static_cast<double>(temperature)), draws), 43.8) << temperature;
    // The same distribution on the way through the sorted candidates.
    slice.sampling.min_p = 1e-30F;
    EXPECT_LT(chi_square(frequencies(logits, slice, draws), softmax(logits, static_cast<double>(temperature)), draws),
              43.8);
  }
}

TEST(Sampler, TheDrawDependsOnSeedIndexAndLogitsOnly) {
  const auto logits = some_logits(5000);
  sampler used;
  std::set<token_id> drawn;
  for (std::uint32_t index = 0; index < 64; ++index) {
    const auto slice = slice_with(1.0F, 1234567890123456789ULL, index);
    auto other = some_logits(3000, index);
    (void)used.draw(other, slice_with(0.7F, index));
    auto copy = logits;
    const auto id = used.draw(copy, slice).id;
    EXPECT_EQ(id, draw(logits, slice));
    drawn.insert(id);
  }
  EXPECT_GT(drawn.size(), 50U);
  EXPECT_NE(draw(logits, slice_with(1.0F, 1)), draw(logits, slice_with(1.0F, 1ULL << 32U)));
}

// Changes here change what every seed gives: not without a reason.
TEST(Sampler, KnownSeedsGiveKnownTokens) {
  std::vector<token_id> ids;
  for (std::uint32_t index = 0; index < 8; ++index) {
    auto slice = slice_with(0.8F, 42, index);
    slice.sampling.top_p = 0.95F;
    ids.push_back(draw(some_logits(1000), slice));
  }
  EXPECT_EQ(ids, (std::vector<token_id>{909, 949, 656, 287, 537, 681, 845, 966}));
}

TEST(Sampler, TopKLeavesExactlyKWithTiesByTheLowestId) {
  auto slice = slice_with(1.0F);
  slice.sampling.top_k = 3;
  const auto counts = frequencies({1.0F, 2.0F, 1.0F, 1.0F, 2.0F, 0.0F}, slice, 3000);
  std::set<token_id> ids;
  for (const auto& [id, count] : counts) ids.insert(id);
  EXPECT_EQ(ids, (std::set<token_id>{0, 1, 4}));
}

TEST(Sampler, TopKOfOneIsGreedy) {
  auto slice = slice_with(5.0F);
  slice.sampling.top_k = 1;
  for (std::uint32_t salt = 0; salt < 20; ++salt)
    EXPECT_EQ(draw(some_logits(100, salt), slice), draw(some_logits(100, salt), slice_with(0.0F)));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const std::vector<float> logits{std::log(0.15F), std::log(0.5F), std::log(0.05F), std::log(0.3F)};
  const auto kept = [&](float top_p) {
    auto slice = slice_with(1.0F);
    slice.sampling.top_p = top_p;
    std::set<token_id> ids;
    for (const auto& [id, count] : frequencies(logits, slice, 4000)) ids.insert(id);
    return ids;
  };
  EXPECT_EQ(kept(0.4F), (std::set<token_id>{1}));
  EXPECT_EQ(kept(0.79F), (std::set<token_id>{1, 3}));
  EXPECT_EQ(kept(0.9F), (std::set<token_id>{0, 1, 3}));
  EXPECT_EQ(kept(0.999F), (std::set<token_id>{0, 1, 2, 3}));
  EXPECT_EQ(kept(1e-9F), (std::set<token_id>{1}));
}

TEST(Sampler, TopPCountsWithinWhatTopKLeft) {
  // Probabilities 0.4, 0.3, 0.3: of the first two, 0.4 is 0.57.
  const std::vector<float> logits{std::log(0.4F), std::log(0.3F), std::log(0.3F)};
  auto slice = slice_with(1.0F);
  slice.sampling.top_k = 2;
  slice.sampling.top_p = 0.5F;
  EXPECT_EQ(frequencies(logits, slice, 500).size(), 1U);
  slice.sampling.top_k = 0;
  EXPECT_EQ(frequencies(logits, slice, 500).size(), 2U);
}

TEST(Sampler, MinPIsRelativeToTheMostProbableAfterTemperature) {
  const std::vector<float> logits{0.0F, std::log(0.5F), std::log(0.1F)};
  auto slice = slice_with(1.0F);
  slice.sampling.min_p = 0.2F;
  EXPECT_EQ(frequencies(logits, slice, 2000).count(2), 0U);
  EXPECT_EQ(frequencies(logits, slice, 2000).size(), 2U);
  slice.sampling.temperature = 2.0F; // 0.1 becomes 0.32
  EXPECT_EQ(frequencies(logits, slice, 2000).size(), 3U);
}

TEST(Sampler, TopPOfAFlatLargeVocabularyIsDrawnFromAllOfIt) {
  const std::vector<float> logits(20000, 0.5F);
  auto slice = slice_with(1.0F);
  slice.sampling.top_p = 0.5F;
  token_id highest = 0;
  for (const auto& [id, count] : frequencies(logits, slice, 400)) highest = std::max(highest, id);
  EXPECT_LT(highest, 10001); // equals stand by id
  EXPECT_GT(highest, 9000);
}

TEST(Sampler, ForbiddenTokensAreNeverDrawn) {
  auto slice = slice_with(0.0F);
  slice.forbidden = {1, 3, -7, 4000};
  EXPECT_EQ(draw({1.0F, 3.0F, 2.0F, 3.0F}, slice), 2);
  slice.sampling.temperature = 1.0F;
  const auto counts = frequencies({1.0F, 3.0F, 2.0F, 3.0F}, slice, 500);
  EXPECT_EQ(counts.count(1) + counts.count(3), 0U);
}

// OpenAI's formula: logit - count * frequency - (count > 0) * presence, over the answer so far.
TEST(Sampler, PresenceAndFrequencyCountTheAnswerAndNotThePrompt) {
  auto slice = slice_with(0.0F);
  slice.prompt = {0, 0, 0};
  slice.generated = {1, 1, 2};
  std::vector<float> logits{0.0F, 0.0F, 0.0F, 0.0F};
  slice.sampling.presence_penalty = 0.5F;
  slice.sampling.frequency_penalty = 0.25F;
  (void)sampler{}.draw(logits, slice);
  EXPECT_EQ(logits, (std::vector<float>{0.0F, -1.0F, -0.75F, 0.0F}));
}

TEST(Sampler, RepetitionCountsPromptAndAnswerOnceAndPushesTowardsLess) {
  auto slice = slice_with(0.0F);
  slice.prompt = {0, 0};
  slice.generated = {1, 99};
  slice.sampling.repetition_penalty = 2.0F;
  std::vector<float> logits{4.0F, -4.0F, 3.0F};
  EXPECT_EQ(sampler{}.draw(logits, slice).id, 2);
  EXPECT_EQ(logits, (std::vector<float>{2.0F, -8.0F, 3.0F}));
}

TEST(Sampler, LogprobsAreThoseOfTheRawLogits) {
  auto slice = slice_with(0.3F);
  slice.forbidden = {1};
  slice.generated = {0};
  slice.sampling.presence_penalty = 2.0F;
  slice.sampling.logprobs = 2;
  const std::vector<float> logits{1.0F, 2.0F, 0.5F, 0.5F};
  auto copy = logits;
  const auto drawn = sampler{}.draw(copy, slice);
  const auto p = softmax(logits, 1.0);
  EXPECT_NEAR(drawn.logprob, std::log(p[static_cast<std::size_t>(drawn.id)]), 1e-6);
  ASSERT_EQ(drawn.top.size(), 2U);
  EXPECT_EQ(drawn.top[0].id, 1);
  EXPECT_EQ(drawn.top[1].id, 0);
  EXPECT_NEAR(drawn.top[0].logprob, std::log(p[1]), 1e-6);
  EXPECT_NEAR(drawn.top[1].logprob, std::log(p[0]), 1e-6);
}

TEST(Sampler, LogprobsOfZeroMeansTheChosenTokenOnly) {
  auto slice = slice_with(0.0F);
  slice.sampling.logprobs = 0;
  std::vector<float> logits{0.0F, 0.0F};
  const auto drawn = sampler{}.draw(logits, slice);
  EXPECT_NEAR(drawn.logprob, std::log(0.5), 1e-6);
  EXPECT_TRUE(drawn.top.empty());
}

TEST(Sampler, MoreLogprobsThanTokensGiveAllTokensInOrder) {
  auto slice = slice_with(0.0F);
  slice.sampling.logprobs = 20;
  std::vector<float> logits{0.0F, 1.0F, 0.0F};
  const auto drawn = sampler{}.draw(logits, slice);
  ASSERT_EQ(drawn.top.size(), 3U);
  EXPECT_EQ(drawn.top[0].id, 1);
  EXPECT_EQ(drawn.top[1].id, 0);
  EXPECT_EQ(drawn.top[2].id, 2);
}

TEST(Sampler, TheExponentialIsGoodToFloatPrecision) {
  // Through the logprob of the far token: log(e^x / (1 + e^x)).
  for (float x = -30.0F; x < 0.0F; x += 0.37F) {
    auto slice = slice_with(0.0F);
    slice.sampling.logprobs = 1;
    std::vector<float> logits{0.0F, x};
    const auto drawn = sampler{}.draw(logits, slice);
    EXPECT_NEAR(drawn.logprob, -std::log1p(std::exp(static_cast<double>(x))), 2e-7) << x;
  }
}

TEST(Sampler, ANanIsNeverDrawn) {
  EXPECT_EQ(draw({nan_value, 1.0F, nan_value, 2.0F}, slice_with(0.0F)), 3);
  for (const auto& [id, count] : frequencies({nan_value, 1.0F, nan_value, 1.0F}, slice_with(1.0F), 200))
    EXPECT_TRUE(id == 1 || id == 3);
}

TEST(Sampler, PlusInfinityLeavesOnlyTheTokensThatHaveIt) {
  const auto counts = frequencies({infinity, 9.0F, infinity, -infinity}, slice_with(1.0F), 400);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_GT(counts.at(0), 100);
  EXPECT_GT(counts.at(2), 100);
}

TEST(Sampler, WithoutAnyTokenLeftItSaysSo) {
  EXPECT_THROW((void)draw({nan_value, -infinity}, slice_with(0.0F)), std::runtime_error);
  EXPECT_THROW((void)draw({}, slice_with(1.0F)), std::runtime_error);
  auto slice = slice_with(1.0F);
  slice.forbidden = {0, 1};
  EXPECT_THROW((void)draw({1.0F, 2.0F}, slice), std::runtime_error);
}

TEST(Sampler, ATinyTemperatureIsAlmostGreedy) {
  EXPECT_EQ(draw({1.0F, 1.001F, 0.0F}, slice_with(1e-30F)), 1);
  EXPECT_EQ(frequencies({1.0F, 1.001F, 0.0F}, slice_with(1e-6F), 100).size(), 1U);
}

TEST(Sampler, AMaskLeavesNothingElse) {
  const auto logits = some_logits(200);
  token_mask mask;
  mask.words = {0, std::uint64_t{1} << 3U, std::uint64_t{1} << 60U, 0};
  std::set<token_id> seen;
  for (std::uint32_t i = 0; i < 200; ++i) {
    auto copy = logits;
    seen.insert(sampler{}.draw(copy, slice_with(1.5F, 1, i), &mask).id);
  }
  EXPECT_EQ(seen, (std::set<token_id>{67, 188}));
  auto copy = logits;
  mask.words.assign(4, 0);
  EXPECT_THROW((void)sampler{}.draw(copy, slice_with(0.0F), &mask), std::runtime_error);
}

TEST(Sampler, AMaskThatLeavesOnlyTheEndIsStrongerThanWhatForbidsIt) {
  auto slice = slice_with(0.0F);
  slice.forbidden = {5, 6};
  token_mask mask;
  mask.words = {std::uint64_t{1} << 5U};
  mask.must_end = true;
  auto logits = some_logits(64);
  EXPECT_EQ((sampler{}.draw(logits, slice, &mask).id), 5);
  mask.must_end = false;
  logits = some_logits(64);
  EXPECT_THROW((void)sampler{}.draw(logits, slice, &mask), std::runtime_error);
}

} // namespace
} // namespace godwit::gpu::model
