#include <godwit/protocols/policy/stage_balance.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using layer_counts = std::vector<std::uint32_t>;

constexpr std::int64_t window = 1'000;

/// Stages whose layers take so long each, and what they do beside them.
struct stages_of_speed {
  std::vector<double> layer_ns, beside_ns;
  std::int64_t now = 0;

  [[nodiscard]] double part(std::size_t stage, const layer_counts& layers) const {
    return layer_ns[stage] * layers[stage] + (beside_ns.empty() ? 0 : beside_ns[stage]);
  }
  [[nodiscard]] double slowest(const layer_counts& layers) const {
    double most = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) most = std::max(most, part(i, layers));
    return most;
  }
  /// A window's parts, and what is said of them.
  std::optional<layer_move> window_of(stage_balance& balance, std::uint64_t parts = stage_balance::parts_min) {
    for (std::uint64_t i = 0; i < parts; ++i) {
      for (std::size_t s = 0; s < layer_ns.size(); ++s)
        balance.ran(s, static_cast<std::int64_t>(part(s, balance.layers())));
      if (i + 1 == parts) break;
      EXPECT_FALSE(balance.review(now)) << "before the window is over";
    }
    now += window;
    return balance.review(now);
  }
  /// Until nothing moves for a few windows; returns how often something did.
  std::size_t settle(stage_balance& balance) {
    std::size_t moves = 0;
    for (int calm = 0, windows = 0; calm < 3; ++windows) {
      EXPECT_LT(windows, 100) << "it comes to no end";
      if (windows == 100) break;
      const auto move = window_of(balance);
      calm = move ? 0 : calm + 1;
      if (!move) continue;
      ++moves;
      balance.moved(move->layers, now);
    }
    return moves;
  }
};

stage_balance balance_of(layer_counts layers, double gain_min = 0.1) {
  return stage_balance(std::move(layers), {gain_min, window});
}

TEST(StageBalance, MovesLayersFromASlowDeviceToAFastOne) {
  auto balance = balance_of({16, 16});
  stages_of_speed stages{{1000, 3000}, {}};
  EXPECT_FALSE(balance.review(0)) << "nothing is known";
  const auto move = stages.window_of(balance);
  ASSERT_TRUE(move);
  EXPECT_THAT(move->layers, ElementsAre(24, 8));
  EXPECT_EQ(move->slowest_ns, 48'000);
  EXPECT_EQ(move->expected_ns, 24'000);
  balance.moved(move->layers, stages.now);
  EXPECT_EQ(stages.settle(balance), 0U);
}

TEST(StageBalance, LeavesDevicesAloneThatAreAboutAsFast) {
  auto balance = balance_of({8, 8, 8, 8});
  EXPECT_EQ((stages_of_speed{{1000, 1050, 1090, 950}, {}}.settle(balance)), 0U) << "a layer of eight is a lot";
  auto fine = balance_of({80, 80});
  stages_of_speed stages{{1000, 1150}, {}};
  EXPECT_EQ(stages.settle(fine), 0U) << "7 percent";
  stages.layer_ns[1] = 1300;
  EXPECT_GT(stages.settle(fine), 0U) << "13 percent";
  EXPECT_THAT(fine.layers(), ElementsAre(90, 70));
}

TEST(StageBalance, NeverMovesWhereItMustNotOrKnowsTooLittle) {
  auto off = balance_of({16, 16}, 0);
  EXPECT_EQ((stages_of_speed{{1000, 9000}, {}}.settle(off)), 0U);
  auto few = balance_of({16, 16});
  stages_of_speed stages{{1000, 9000}, {}};
  for (std::uint64_t i = 0; i + 1 < stage_balance::parts_min; ++i) {
    few.ran(0, 16'000);
    few.ran(1, 144'000);
    EXPECT_FALSE(few.review(static_cast<std::int64_t>(i) * 10 * window));
  }
  auto one = balance_of({32});
  EXPECT_EQ((stages_of_speed{{1000}, {}}.settle(one)), 0U);
  auto least = balance_of({1, 1, 1});
  EXPECT_EQ((stages_of_speed{{1000, 9000, 1}, {}}.settle(least)), 0U) << "each has one at least";
  auto idle = balance_of({16, 16});
  EXPECT_EQ((stages_of_speed{{0, 0}, {}}.settle(idle)), 0U) << "nothing takes any time";
}

// What the last stage does beside its layers looks as if they were slow; a few moves get as near as whole layers allow.
TEST(StageBalance, ComesNearTheBestAlsoWhereAStageHasMoreToDoThanItsLayers) {
  auto balance = balance_of({16, 16});
  stages_of_speed stages{{1000, 1000}, {0, 8000}};
  EXPECT_LE(stages.settle(balance), 3U);
  EXPECT_LE(stages.slowest(balance.layers()), 1.1 * 20'000);
}

TEST(StageBalance, GoesBackWhenADeviceIsFreeAgain) {
  auto balance = balance_of({12, 12});
  stages_of_speed stages{{1000, 2000}, {}};
  EXPECT_GT(stages.settle(balance), 0U);
  EXPECT_THAT(balance.layers(), ElementsAre(16, 8));
  stages.layer_ns = {1000, 1000};
  EXPECT_GT(stages.settle(balance), 0U);
  EXPECT_LE(stages.slowest(balance.layers()), 13'000);
}

// A device that is slow every other window: moves become rare.
TEST(StageBalance, WhoGoesBackAndForthWaitsLonger) {
  auto balance = balance_of({12, 12});
  stages_of_speed stages{{1000, 1000}, {}};
  std::size_t moves = 0, early = 0;
  for (int i = 0; i < 400; ++i) {
    stages.layer_ns[1] = i % 2 == 0 ? 3000 : 1000;
    if (const auto move = stages.window_of(balance)) {
      balance.moved(move->layers, stages.now);
      (i < 20 ? early : moves) += 1;
    }
  }
  EXPECT_GT(early, 2U);
  EXPECT_LT(moves, 60U) << "of 380 windows";
}

// Against every division, for random speeds of up to four stages.
TEST(StageBalance, FindsTheBestDivision) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto stages = 2 + random() % 3;
    const auto all = static_cast<std::uint32_t>(stages + random() % 9);
    stages_of_speed speeds;
    for (std::size_t i = 0; i < stages; ++i) speeds.layer_ns.push_back(100.0 * static_cast<double>(1 + random() % 20));
    layer_counts now(stages, 1);
    for (auto left = all - stages; left > 0; --left) ++now[random() % stages];
    auto balance = balance_of(now, 1e-9);
    const auto move = speeds.window_of(balance);
    const auto got = move ? move->layers : now;
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0U), all);

    double best = speeds.slowest(now);
    layer_counts tried(stages, 1);
    const auto try_all = [&](const auto& self, std::size_t stage, std::uint32_t left) -> void {
      if (stage + 1 == stages) {
        tried[stage] = left;
        best = std::min(best, speeds.slowest(tried));
        return;
      }
      for (std::uint32_t own = 1; own + (stages - stage - 1) <= left; ++own) {
        tried[stage] = own;
        self(self, stage + 1, left - own);
      }
    };
    try_all(try_all, 0, all);
    EXPECT_DOUBLE_EQ(speeds.slowest(got), best);
  }
}

} // namespace
} // namespace godwit::protocols
