#include <godwit/protocols/batching/step_parts.hpp>
#include <godwit/protocols/policy/stage_balance.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using layer_counts = std::vector<std::uint32_t>;

constexpr std::int64_t window = 1'000'000;

/// Devices on which a layer takes a row so long; what a stage does for a row that is drawn from, in layers.
struct devices {
  std::vector<double> layer_ns, beside = {};
  double noise = 0; ///< of a step on a stage, as a share
  std::uint32_t rows = 1, drawn = 1;
  std::mt19937_64 random{3};

  [[nodiscard]] double step(std::size_t stage, const layer_counts& layers) const {
    return layer_ns[stage] * (layers[stage] * rows + (beside.empty() ? 0 : beside[stage] * drawn));
  }
  [[nodiscard]] double slowest(const layer_counts& layers) const {
    double most = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) most = std::max(most, step(i, layers));
    return most;
  }
  /// Steps until something is decided, or nothing in so many windows.
  std::optional<layer_move> run(stage_balance& balance, std::uint32_t windows = 1) {
    for (double busy = 0; busy < static_cast<double>(window) * windows;) {
      std::vector<std::int64_t> took;
      for (std::size_t i = 0; i < layer_ns.size(); ++i)
        took.push_back(static_cast<std::int64_t>(step(i, balance.layers()) *
                                                 (1 + std::uniform_real_distribution(-noise, noise)(random))));
      busy += std::max(1.0, static_cast<double>(*std::ranges::max_element(took)));
      balance.ran(took, rows, drawn);
      if (auto move = balance.review()) return move;
    }
    return std::nullopt;
  }
  /// Until nothing moves for a few windows; returns how often something did.
  std::size_t settle(stage_balance& balance) {
    std::size_t moves = 0;
    for (; moves < 100; ++moves) {
      const auto move = run(balance, 3 * stage_balance::waits_max);
      if (!move) return moves;
      balance.moved(move->layers);
    }
    ADD_FAILURE() << "it comes to no end";
    return moves;
  }
  [[nodiscard]] stage_balance balance_of(layer_counts layers, double gain_min = 0.1) const {
    auto known = beside;
    known.resize(layers.size());
    return stage_balance(std::move(layers), known, {gain_min, window});
  }
};

TEST(StageBalance, MovesLayersFromASlowDeviceToAFastOne) {
  devices two{{1000, 3000}};
  auto balance = two.balance_of({16, 16});
  EXPECT_FALSE(balance.review()) << "nothing is known";
  const auto move = two.run(balance, 2);
  ASSERT_TRUE(move);
  EXPECT_THAT(move->layers, ElementsAre(24, 8));
  EXPECT_EQ(move->slowest_ns, 48'000);
  EXPECT_EQ(move->expected_ns, 24'000);
  balance.moved(move->layers);
  EXPECT_EQ(two.settle(balance), 0U);
}

TEST(StageBalance, LeavesDevicesAloneThatAreAboutAsFast) {
  devices four{{1000, 1050, 1090, 950}};
  auto balance = four.balance_of({8, 8, 8, 8});
  EXPECT_EQ(four.settle(balance), 0U) << "a layer of eight is a lot";
  devices two{{1000, 1150}};
  auto fine = two.balance_of({80, 80});
  EXPECT_EQ(two.settle(fine), 0U) << "7 percent";
  two.layer_ns[1] = 1300;
  EXPECT_GT(two.settle(fine), 0U) << "13 percent";
  EXPECT_NEAR(fine.layers()[0], 90, 1) << "the first of these steps were of before";
}

TEST(StageBalance, DoesNotFollowNoise) {
  for (const double noise : {0.1, 0.3, 0.6}) {
    devices four{{1000, 1000, 1000, 1000}, {}, noise};
    auto balance = four.balance_of({8, 8, 8, 8});
    EXPECT_FALSE(four.run(balance, 500)) << noise;
  }
}

// Prompts take a stage many times as long as what decodes. Whatever is on its way when something is decided, the stages
// have computed the same.
TEST(StageBalance, EqualStagesThatHaveDifferentStepsUnderWayKeepTheirLayers) {
  constexpr std::uint32_t stages = 4;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed);
    stage_balance balance({8, 8, 8, 8}, {0, 0, 0, 0}, {0.1, 5'000'000'000});
    stage_schedule schedule(stages);
    struct step {
      std::uint64_t first = 0;
      std::uint32_t parts = 0;
      std::int64_t part_ns = 0;
      std::vector<std::int64_t> busy = std::vector<std::int64_t>(stages);
    };
    std::deque<step> line;
    std::multimap<std::int64_t, stage_schedule::turn> ends;
    std::int64_t now = 0;
    std::size_t moves = 0;
    const auto begin = [&] {
      for (const auto what : schedule.begin())
        for (const auto& one : line)
          if (what.part >= one.first && what.part < one.first + one.parts) ends.emplace(now + one.part_ns, what);
    };
    while (now < 1'000'000'000'000) {
      while (line.size() < stages) {
        const bool prompt = random() % 20 == 0;
        const auto parts = prompt ? 2U : 1U;
        line.push_back({schedule.add(parts), parts, prompt ? 1'000'000'000 : 40'000'000});
      }
      begin();
      const auto [at, what] = *ends.begin();
      ends.erase(ends.begin());
      now = at;
      const auto whose = std::ranges::find_if(
          line, [&](const step& one) { return what.part >= one.first && what.part < one.first + one.parts; });
      whose->busy[what.stage] += whose->part_ns;
      schedule.ended(what, whose->part_ns);
      if (schedule.done() < line.front().first + line.front().parts) continue;
      balance.ran(line.front().busy, line.front().parts == 2 ? 512 : 8, 8);
      (void)schedule.take(line.front().parts);
      line.pop_front();
      moves += balance.review() ? 1 : 0;
    }
    EXPECT_EQ(moves, 0U) << "seed " << seed;
  }
}

TEST(StageBalance, NeverMovesWhereItMustNotOrKnowsTooLittle) {
  devices two{{1000, 9000}};
  auto off = two.balance_of({16, 16}, 0);
  EXPECT_EQ(two.settle(off), 0U);
  auto few = two.balance_of({16, 16});
  for (std::uint64_t i = 0; i + 1 < stage_balance::steps_min; ++i) {
    few.ran(std::vector<std::int64_t>{100 * window, 900 * window}, 1, 1);
    EXPECT_FALSE(few.review());
  }
  auto soon = two.balance_of({16, 16});
  for (std::uint64_t i = 0; i < 2 * stage_balance::steps_min; ++i) {
    soon.ran(std::vector<std::int64_t>{100, 900}, 1, 1);
    EXPECT_FALSE(soon.review()) << "however long the time between";
  }
  devices alone{{1000}};
  auto one = alone.balance_of({32});
  EXPECT_EQ(alone.settle(one), 0U);
  devices three{{1000, 9000, 1}};
  auto least = three.balance_of({1, 1, 1});
  EXPECT_EQ(three.settle(least), 0U) << "each has one at least";
  for (const auto& silent : {std::vector<double>{0, 0}, {0, 1000}}) { // that says nothing of its time
    devices idle{silent};
    auto balance = idle.balance_of({16, 16});
    for (int i = 0; i < 1000; ++i) {
      balance.ran(
          std::vector{static_cast<std::int64_t>(silent[0]) * window, static_cast<std::int64_t>(silent[1]) * window}, 1,
          1);
      EXPECT_FALSE(balance.review());
    }
  }
}

// The last stage has the logits of what is drawn; from wherever layers begin they come to where it is best.
TEST(StageBalance, SeesWhatAStageDoesBesideItsLayers) {
  struct place {
    layer_counts begin;
    double logits;
    std::uint32_t rows, drawn;
  };
  for (const auto& [begin, logits, rows, drawn] :
       {place{{16, 16}, 8, 1, 1}, place{{20, 4}, 9, 8, 8}, place{{11, 1}, 4, 1, 1}, place{{11, 1}, 4, 512, 1},
        place{{2, 22}, 3, 4, 4}, place{{8, 8, 8}, 6, 16, 12}}) {
    devices some;
    some.layer_ns.assign(begin.size(), 1000.0 / rows);
    some.beside.assign(begin.size(), 0);
    some.beside.back() = logits;
    some.rows = rows;
    some.drawn = drawn;
    auto balance = some.balance_of(begin, 0.01);
    some.settle(balance);
    const auto all = std::accumulate(begin.begin(), begin.end(), 0.0);
    const auto share = (all * rows + logits * drawn) / static_cast<double>(begin.size());
    EXPECT_LE(some.slowest(balance.layers()), 1000.0 / rows * (share + rows)) << "within a layer of an even share";
  }
}

TEST(StageBalance, GoesBackWhenADeviceIsFreeAgain) {
  devices two{{1000, 2000}};
  auto balance = two.balance_of({12, 12});
  EXPECT_GT(two.settle(balance), 0U);
  EXPECT_THAT(balance.layers(), ElementsAre(16, 8));
  two.layer_ns = {1000, 1000};
  EXPECT_GT(two.settle(balance), 0U);
  EXPECT_LE(two.slowest(balance.layers()), 13'000);
}

// A device that is slow every other window: moves become rare.
TEST(StageBalance, WhoGoesBackAndForthWaitsLonger) {
  devices two{{1000, 1000}};
  auto balance = two.balance_of({12, 12});
  std::size_t moves = 0, early = 0;
  for (int i = 0; i < 400; ++i) {
    two.layer_ns[1] = i % 2 == 0 ? 3000 : 1000;
    if (const auto move = two.run(balance)) {
      balance.moved(move->layers);
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
    devices some;
    for (std::size_t i = 0; i < stages; ++i) {
      some.layer_ns.push_back(100.0 * static_cast<double>(1 + random() % 20));
      some.beside.push_back(static_cast<double>(random() % 3));
    }
    layer_counts now(stages, 1);
    for (auto left = all - stages; left > 0; --left) ++now[random() % stages];
    auto balance = some.balance_of(now, 1e-9);
    const auto move = some.run(balance, 2);
    const auto got = move ? move->layers : now;
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0U), all);

    double best = some.slowest(now);
    layer_counts tried(stages, 1);
    const auto try_all = [&](const auto& self, std::size_t stage, std::uint32_t left) -> void {
      if (stage + 1 == stages) {
        tried[stage] = left;
        best = std::min(best, some.slowest(tried));
        return;
      }
      for (std::uint32_t own = 1; own + (stages - stage - 1) <= left; ++own) {
        tried[stage] = own;
        self(self, stage + 1, left - own);
      }
    };
    try_all(try_all, 0, all);
    EXPECT_DOUBLE_EQ(some.slowest(got), best);
  }
}

} // namespace
} // namespace godwit::protocols
