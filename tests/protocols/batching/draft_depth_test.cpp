#include <godwit/protocols/batching/draft_depth.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace godwit::protocols {
namespace {

TEST(DraftRecord, IsHopefulAndLearns) {
  draft_record one;
  EXPECT_NEAR(one.chance(), 0.9, 1e-9);
  for (int i = 0; i < 100; ++i) one.took(4, 4);
  EXPECT_GT(one.chance(), 0.99);
  EXPECT_LT(one.chance(), 1);
  for (int i = 0; i < 100; ++i) one.took(0, 4);
  EXPECT_LT(one.chance(), 0.1);
  EXPECT_GT(one.chance(), 0);
  for (int i = 0; i < 100; ++i) one.took(2, 4); // two of three
  EXPECT_NEAR(one.chance(), 2.0 / 3, 0.05);
}

TEST(DraftRecord, HopesAgainAfterALongRest) {
  draft_record one;
  for (int i = 0; i < 100; ++i) one.took(0, 1);
  double before = one.chance();
  for (int i = 0; i < 300; ++i) {
    one.rested();
    EXPECT_GE(one.chance(), before);
    before = one.chance();
  }
  EXPECT_GT(before, 0.8);
}

/// Decodes whose guesses are right so often, on a device on which a pass of the draft model takes `pass_ns`, and a step
/// of some rows what `step` says.
struct bench_of_drafts {
  std::vector<double> chances;
  double pass_ns = 0;
  double (*step)(std::uint32_t rows) = nullptr;

  [[nodiscard]] double time_of(const std::vector<std::uint32_t>& depths) const {
    std::uint32_t rows = 0, deepest = 0;
    for (const auto k : depths) rows += 1 + k, deepest = std::max(deepest, k);
    return step(rows) + (deepest + 1) * pass_ns;
  }
  /// Tokens for the time that is best for all alike.
  [[nodiscard]] double best_fixed(std::uint32_t most) const {
    double best = 0;
    for (std::uint32_t k = 0; k <= most; ++k) {
      double tokens = 0;
      for (const auto a : chances) tokens += (1 - std::pow(a, k + 1)) / (1 - a);
      best = std::max(best, tokens / time_of(std::vector(chances.size(), k)));
    }
    return best;
  }
  /// And as the planner does it: what it gets is what it learns by.
  [[nodiscard]] double learned(std::uint32_t most, std::vector<double>& mean_depths) const {
    draft_meter meter;
    std::vector<draft_record> records(chances.size());
    std::mt19937 random(5);
    std::uniform_real_distribution<double> dice;
    double tokens = 0, time = 0;
    mean_depths.assign(chances.size(), 0);
    constexpr int steps = 3000;
    for (int s = 1; s <= steps; ++s) {
      std::vector<double> hopes;
      for (const auto& record : records) hopes.push_back(record.chance());
      auto depths = meter.depths(hopes, static_cast<std::uint32_t>(chances.size()), most);
      std::uint32_t rows = 0, deepest = 0;
      for (std::size_t i = 0; i < depths.size(); ++i) {
        if (depths[i] == 0) records[i].rested();
        auto& k = depths[i];
        if (s % 8 == 0) k /= 2;
        std::uint32_t right = 0;
        while (right < k && dice(random) < chances[i]) ++right;
        if (k > 0) records[i].took(right, k);
        rows += 1 + k, deepest = std::max(deepest, k);
        tokens += 1 + right;
        mean_depths[i] += static_cast<double>(k) / steps;
      }
      const auto noise = 0.9 + 0.2 * dice(random);
      meter.took(deepest + 1, static_cast<std::int64_t>((deepest + 1) * pass_ns), rows,
                 static_cast<std::int64_t>(step(rows) * noise));
      time += time_of(depths);
    }
    return tokens / time;
  }
};

double of_a_cpu(std::uint32_t rows) { return 1e6 * (0.75 + 0.25 * rows); } // as measured on one thread of an EPYC
double of_two_threads(std::uint32_t rows) { return 1e6 * (0.85 + 0.14 * rows); }
double of_a_gpu(std::uint32_t rows) { return 1e6 * (1 + 0.002 * rows); }

TEST(DraftMeter, BringsNearlyAsMuchAsTheBestDepthDoes) {
  std::vector<double> depths;
  for (auto* const step : {of_a_cpu, of_two_threads, of_a_gpu})
    for (const double pass : {0.02, 0.1, 0.16, 0.4})
      for (const double a : {0.02, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97})
        for (const std::uint32_t most : {1U, 4U, 16U}) {
          const bench_of_drafts one{{a}, pass * 1e6, step};
          EXPECT_GT(one.learned(most, depths), 0.9 * one.best_fixed(most))
              << pass << ' ' << a << ' ' << most << ' ' << depths[0];
        }
}

TEST(DraftMeter, AsksForEachWhatItsOwnGuessesAreWorth) {
  std::vector<double> depths;
  const bench_of_drafts both{{0.02, 0.95}, 5e4, of_a_cpu};
  const auto rate = both.learned(8, depths);
  EXPECT_LT(depths[0], 0.5) << "never right";
  EXPECT_GT(depths[1], 2);
  EXPECT_GT(rate, both.best_fixed(8)) << "that is of one depth for all";
}

TEST(DraftMeter, KnowsAtFirstNothing) {
  draft_meter meter;
  using depths = std::vector<std::uint32_t>;
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.1}, 2, 8), (depths{4, 4}));
  EXPECT_EQ(meter.depths(std::vector{0.9}, 1, 2), depths{2});
  meter.took(0, 5, 1, 5);
  meter.took(3, 0, 1, 5);
  meter.took(3, 5, 1, -1);
  meter.took(3, 5, 0, 5);
  EXPECT_EQ(meter.depths(std::vector{0.9}, 1, 8), depths{4}) << "nor of what is no measurement";
  meter.took(3, 3, 4, 10);
  EXPECT_EQ(meter.depths({}, 3, 8), depths{}) << "nobody wants any";
}

// A first step that takes ten times as long is forgotten.
TEST(DraftMeter, BearsOneSlowStep) {
  draft_meter meter;
  for (int i = 0; i < 40; ++i) meter.took(5, 5 * 50'000, 5, 1'000'000);
  const auto before = meter.depths(std::vector{0.7}, 1, 8);
  meter.took(5, 5 * 50'000, 5, 1'000'000'000);
  meter.took(5, 5'000'000'000, 5, 1'000'000);
  EXPECT_EQ(meter.depths(std::vector{0.7}, 1, 8), before);
}

} // namespace
} // namespace godwit::protocols
