#include <godwit/protocols/batching/draft_depth.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <utility>
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

/// What a step of some rows takes, in steps of one row: as measured (docs/design/speculation.md), and beyond that as
/// the last ones.
double in_between(std::initializer_list<std::pair<double, double>> points, double rows) {
  auto above = points.begin() + 1;
  while (above + 1 != points.end() && above->first < rows) ++above;
  const auto& [x0, y0] = *(above - 1);
  const auto& [x1, y1] = *above;
  return y0 + (y1 - y0) * (rows - x0) / (x1 - x0);
}
double one_thread(double rows) { return in_between({{1, 1}, {2, 1.17}, {5, 1.83}, {9, 2.96}, {17, 5.61}}, rows); }
double two_threads(double rows) { return in_between({{1, 1}, {2, 1.06}, {5, 1.27}, {9, 1.88}, {17, 3.41}}, rows); }
double gpu(double rows) { return 1 + 0.002 * rows; }

constexpr double unit_ns = 1e6;

/// Decodes whose guesses are right so often, where a pass of the draft model takes `pass` steps of one row.
struct drafting_load {
  std::vector<double> chances;
  double pass = 0;
  double (*step)(double rows) = nullptr;

  [[nodiscard]] double time_of(const std::vector<std::uint32_t>& depths) const {
    std::uint32_t rows = 0, deepest = 0;
    for (const auto k : depths) rows += 1 + k, deepest = std::max(deepest, k);
    return step(rows) + (deepest + 1) * pass;
  }
  /// Tokens for the time, and the time of a step, of the depth that is best for all alike.
  [[nodiscard]] std::pair<double, double> best_fixed(std::uint32_t most) const {
    std::pair<double, double> best;
    for (std::uint32_t k = 0; k <= most; ++k) {
      double tokens = 0;
      for (const auto a : chances) tokens += (1 - std::pow(a, k + 1)) / (1 - a);
      const auto time = time_of(std::vector(chances.size(), k));
      if (tokens / time > best.first) best = {tokens / time, time};
    }
    return best;
  }
};

/// The same as the planner does it: what comes is what it learns by.
class learned_drafting {
public:
  struct outcome {
    double rate = 0;    ///< tokens for the time
    double slowest = 0; ///< step
    std::vector<double> depths;
  };
  outcome play(const drafting_load& load, std::uint32_t most, int steps) {
    records_.resize(load.chances.size());
    outcome out;
    out.depths.assign(load.chances.size(), 0);
    double tokens = 0, time = 0;
    for (int s = 0; s < steps; ++s) {
      std::vector<double> hopes;
      for (const auto& record : records_) hopes.push_back(record.chance());
      const auto depths = meter_.depths(hopes, static_cast<std::uint32_t>(hopes.size()), most);
      std::uint32_t drafts = 0, deepest = 0;
      for (std::size_t i = 0; i < depths.size(); ++i) {
        const auto k = depths[i];
        std::uint32_t right = 0;
        while (right < k && dice_(random_) < load.chances[i]) ++right;
        if (k == 0)
          records_[i].rested();
        else
          records_[i].took(right, k);
        drafts += k, deepest = std::max(deepest, k);
        tokens += 1 + right;
        out.depths[i] += static_cast<double>(k) / steps;
      }
      const auto noise = dice_(random_) < 0.02 ? 3.0 : 0.9 + 0.2 * dice_(random_);
      const auto decodes = static_cast<std::uint32_t>(depths.size());
      meter_.took(deepest + 1, static_cast<std::int64_t>((deepest + 1) * load.pass * unit_ns), decodes, drafts,
                  static_cast<std::int64_t>(load.step(decodes + drafts) * unit_ns * noise));
      time += load.time_of(depths);
      out.slowest = std::max(out.slowest, load.time_of(depths));
    }
    out.rate = tokens / time;
    return out;
  }

private:
  draft_meter meter_;
  std::vector<draft_record> records_;
  std::mt19937 random_{5};
  std::uniform_real_distribution<double> dice_;
};

TEST(DraftMeter, BringsNearlyAsMuchAsTheBestDepthDoes) {
  for (auto* const step : {one_thread, two_threads, gpu})
    for (const double pass : {0.02, 0.1, 0.16, 0.4})
      for (const double a : {0.02, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97})
        for (const std::uint32_t most : {1U, 4U, 16U}) {
          const drafting_load one{{a}, pass, step};
          const auto learned = learned_drafting().play(one, most, 3000);
          EXPECT_GT(learned.rate, 0.9 * one.best_fixed(most).first)
              << (step == gpu          ? "gpu "
                  : step == one_thread ? "one thread "
                                       : "two threads ")
              << pass << ' ' << a << ' ' << most << ", mean depth " << learned.depths[0];
        }
}

TEST(DraftMeter, AsksForEachWhatItsOwnGuessesAreWorth) {
  const drafting_load both{{0.02, 0.95}, 0.05, one_thread};
  const auto learned = learned_drafting().play(both, 8, 3000);
  EXPECT_LT(learned.depths[0], 0.5) << "never right";
  EXPECT_GT(learned.depths[1], 2);
  EXPECT_GT(learned.rate, both.best_fixed(8).first) << "that is of one depth for all";
}

// Batches come and go; nobody waits for a step that is out of proportion, at the start or after a long rest.
TEST(DraftMeter, FollowsBatchesThatChange) {
  for (auto* const step : {one_thread, two_threads, gpu})
    for (const double a : {0.05, 0.6, 0.9}) {
      learned_drafting drafting;
      for (const std::size_t requests : {16U, 1U, 8U, 40U, 2U, 16U}) {
        const drafting_load load{std::vector(requests, a), 0.05, step};
        const auto [rate, time] = load.best_fixed(16);
        const auto learned = drafting.play(load, 16, 1500);
        EXPECT_GT(learned.rate, 0.85 * rate) << a << ", " << requests;
        EXPECT_LT(learned.slowest, 4 * std::max(time, load.time_of(std::vector(requests, 0U))))
            << a << ", " << requests;
      }
    }
}

TEST(DraftMeter, FindsOutWithOneRequest) {
  draft_meter meter;
  using depths = std::vector<std::uint32_t>;
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.9}, 2, 8), (depths{4, 0}));
  EXPECT_EQ(meter.depths(std::vector{0.9}, 1, 2), depths{2});
  meter.took(0, 5, 1, 0, 5);
  meter.took(3, 0, 1, 0, 5);
  meter.took(3, 5, 1, 0, -1);
  meter.took(3, 5, 0, 0, 5);
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.9}, 2, 8), (depths{4, 0})) << "nothing is known of what is no measurement";
  for (int i = 0; i < 9; ++i) meter.took(5, 50, 2, 4, 1000);
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.9}, 2, 8), (depths{4, 0})) << "of one number of rows follows nothing";
  EXPECT_EQ(meter.depths({}, 3, 8), depths{}) << "nobody wants any";
  for (int i = 0; i < 9; ++i) meter.took(1, 10, 2, 0, 1000);
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.9}, 2, 8), (depths{3, 3}))
      << "rows cost nothing, but there were four, a while ago";
  meter.took(5, 50, 2, 8, 1000);
  EXPECT_EQ(meter.depths(std::vector{0.9, 0.9}, 2, 8), (depths{8, 8}));
}

TEST(DraftMeter, BearsOneSlowStepAndAnyNumbers) {
  draft_meter meter;
  for (int i = 0; i < 40; ++i) meter.took(5, 5 * 50'000, 1, i % 2 == 0 ? 4 : 0, i % 2 == 0 ? 1'000'000 : 900'000);
  const auto before = meter.depths(std::vector{0.7}, 1, 8);
  meter.took(5, 5 * 50'000, 1, 4, 1'000'000'000);
  meter.took(5, 5'000'000'000, 1, 4, 1'000'000);
  EXPECT_NEAR(meter.depths(std::vector{0.7}, 1, 8).at(0), before.at(0), 1);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t ns : {std::int64_t{1}, most})
    for (const std::uint32_t rows : {1U, ~0U}) {
      meter.took(~0U, ns, 1, rows, most);
      meter.took(1, most, rows, rows, ns);
      for (const auto depth : meter.depths(std::vector{1e-9, 0.5, 1 - 1e-9}, 3, 64)) EXPECT_LE(depth, 64U);
    }
}

} // namespace
} // namespace godwit::protocols
