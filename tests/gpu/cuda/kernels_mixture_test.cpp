#include "cuda/kernels.hpp"

#include "kernels_inline_stream.hpp"
#include "kernels_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace godwit::gpu::cuda {

namespace {

using namespace testing;

/// Rows that are routed, and where the kernels say it.
struct routed {
  routed(std::uint32_t rows, std::uint32_t experts, std::uint32_t chosen, std::uint32_t tile_rows)
      : logits(std::size_t{rows} * (experts + 8), std::numeric_limits<float>::infinity()), experts_of(rows * chosen, 7),
        entries(rows * chosen, ~0U), rows_of(rows * chosen, ~0U), weights(rows * chosen, NAN),
        tiles(expert_tiles_max(rows * chosen, experts, tile_rows), expert_tile{1, 2, 3}) {
    job.logits = logits.data();
    job.stride = experts + 8; // what lies behind is none
    job.experts = experts;
    job.chosen = chosen;
    job.rows = rows;
    job.tile_rows = tile_rows;
    job.experts_of = experts_of.data();
    job.weights = weights.data();
    job.entries = entries.data();
    job.rows_of = rows_of.data();
    job.tiles = tiles.data();
    job.tiles_count = static_cast<std::uint32_t>(tiles.size());
  }
  float& logit(std::uint32_t row, std::uint32_t expert) { return logits[std::size_t{row} * job.stride + expert]; }
  void draw(unsigned seed) {
    random_source random(seed);
    for (std::uint32_t row = 0; row < job.rows; ++row) {
      const auto some = random_floats(random, job.experts, 3);
      for (std::uint32_t expert = 0; expert < job.experts; ++expert) logit(row, expert) = some[expert];
    }
  }
  /// By sorting: experts, rising, and their weights.
  std::pair<std::vector<std::uint32_t>, std::vector<double>> expected(std::uint32_t row) {
    std::vector<std::uint32_t> order(job.experts);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, std::greater{}, [&](std::uint32_t expert) { return logit(row, expert); });
    const double highest = double{logit(row, order.front())};
    const auto power = [&](std::uint32_t expert) { return std::exp(double{logit(row, expert)} - highest); };
    double sum = 0;
    for (std::uint32_t i = 0; i < (job.normed ? job.chosen : job.experts); ++i) sum += power(order[i]);
    order.resize(job.chosen);
    std::ranges::sort(order);
    std::vector<double> of;
    for (const auto expert : order) of.push_back(power(expert) / sum);
    return {order, of};
  }
  /// Entries lie expert by expert, each once, and the tiles have all of them.
  void expect_grouped() {
    std::vector<int> seen(rows_of.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ASSERT_LT(entries[i], seen.size());
      ++seen[entries[i]];
      EXPECT_EQ(rows_of[entries[i]], i / job.chosen);
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int n) { return n == 1; }));
    std::uint32_t at = 0, last_expert = 0;
    bool over = false;
    for (const auto& tile : tiles) {
      over = over || tile.count == 0;
      if (over) {
        EXPECT_EQ(tile.count, 0U) << "those that are none are the last ones";
        continue;
      }
      EXPECT_EQ(tile.first, at);
      EXPECT_LE(tile.count, job.tile_rows);
      EXPECT_GE(tile.expert, last_expert);
      for (std::uint32_t i = tile.first; i < tile.first + tile.count; ++i) {
        const auto of = std::ranges::find(entries, i) - entries.begin();
        EXPECT_EQ(experts_of[static_cast<std::size_t>(of)], tile.expert);
      }
      at += tile.count;
      last_expert = tile.expert;
    }
    EXPECT_EQ(at, entries.size());
  }
  aligned<float> logits;
  aligned<std::uint32_t> experts_of, entries, rows_of;
  aligned<float> weights;
  aligned<expert_tile> tiles;
  route_job job;
};

} // namespace

TEST(CudaMixture, EachRowTakesTheExpertsOfItsHighestLogits) {
  for (const auto& [rows, experts, chosen] : std::vector<std::array<std::uint32_t, 3>>{
           {1, 8, 2}, {9, 8, 1}, {5, 3, 3}, {40, 128, 8}, {3, 70, 40}, {2, 1024, 8}})
    for (const bool normed : {false, true})
      for (const std::uint32_t tile_rows : {8U, 32U}) {
        routed some(rows, experts, chosen, tile_rows);
        some.job.normed = normed;
        some.draw(rows + experts);
        inline_stream stream;
        launch(stream, some.job);
        for (std::uint32_t row = 0; row < rows; ++row) {
          const auto [which, weights] = some.expected(row);
          for (std::uint32_t i = 0; i < chosen; ++i) {
            EXPECT_EQ(some.experts_of[row * chosen + i], which[i]) << row << " of " << rows << ", " << i;
            EXPECT_NEAR(double{some.weights[row * chosen + i]}, weights[i], 1e-5 * weights[i] + 1e-9);
          }
        }
        some.expect_grouped();
      }
}

TEST(CudaMixture, OfEqualLogitsTheFirstExpertsAreTaken) {
  routed some(2, 40, 3, 8);
  for (std::uint32_t expert = 0; expert < 40; ++expert) {
    some.logit(0, expert) = 1;
    some.logit(1, expert) = expert == 39 || expert == 5 ? 2.0F : 1.0F;
  }
  inline_stream stream;
  launch(stream, some.job);
  const std::vector<std::uint32_t> got(some.experts_of.begin(), some.experts_of.end());
  EXPECT_EQ(got, (std::vector<std::uint32_t>{0, 1, 2, 0, 5, 39}));
}

// A row that is broken breaks no other one, and stays in its memory.
TEST(CudaMixture, WhatIsNoNumberHasItsEntriesLikeOthers) {
  routed some(3, 20, 4, 8);
  some.draw(3);
  for (std::uint32_t expert = 0; expert < 19; ++expert) some.logit(1, expert) = NAN;
  some.logit(1, 19) = 5;
  inline_stream stream;
  launch(stream, some.job);
  some.expect_grouped();
  EXPECT_EQ(some.experts_of[7], 19U) << "what is a number comes first";
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(some.weights[4 + i])) << "and the row is none";
  for (const std::uint32_t row : {0U, 2U}) {
    const auto [which, weights] = some.expected(row);
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(some.experts_of[row * 4 + i], which[i]);
  }
}

// The order of summation is that of the fixed product: an entry's bits are those of its row and its expert alone.
TEST(CudaMixture, ProductsOfExpertsHaveTheBitsOfEachAlone) {
  random_source random(5);
  for (const auto type : {data_type::bf16, data_type::f16})
    for (const auto y_type : {data_type::f32, type})
      for (const std::uint32_t tile_rows : {expert_gemm_job::few, expert_gemm_job::many}) {
        constexpr std::uint32_t rows = 21, experts = 5, chosen = 2, columns = 40, depth = 104;
        routed some(rows, experts, chosen, tile_rows);
        some.draw(9);
        inline_stream stream;
        launch(stream, some.job);
        const auto x = random_narrow(random, type, rows * depth);
        const auto w = random_narrow(random, type, std::size_t{experts} * columns * depth);
        const std::size_t size = y_type == data_type::f32 ? 4 : 2;
        aligned<std::uint8_t> y(rows * chosen * columns * size, 0xAA), own(columns * size, 0);
        expert_gemm_job all;
        all.product.type = type;
        all.product.y_type = y_type;
        all.product.x = x.data();
        all.product.w = w.data();
        all.product.y = y.data();
        all.product.rows = rows * chosen;
        all.product.columns = columns;
        all.product.depth = depth;
        all.take = some.rows_of.data();
        all.tiles = some.tiles.data();
        all.tiles_count = static_cast<std::uint32_t>(some.tiles.size());
        all.tile_rows = tile_rows;
        launch_fixed(stream, all);
        for (std::uint32_t row = 0; row < rows; ++row)
          for (std::uint32_t i = 0; i < chosen; ++i) {
            auto one = all.product;
            one.x = x.data() + std::size_t{row} * depth;
            one.w = w.data() + std::size_t{some.experts_of[row * chosen + i]} * columns * depth;
            one.y = own.data();
            one.rows = 1;
            launch_fixed(stream, one);
            const auto* const got = y.data() + some.entries[row * chosen + i] * columns * size;
            EXPECT_EQ(std::memcmp(got, own.data(), columns * size), 0) << row << ' ' << i;
          }
      }
}

TEST(CudaMixture, EntriesAreAddedUpByTheirWeightsInTheirOrder) {
  random_source random(6);
  constexpr std::uint32_t rows = 4, chosen = 3, hidden = 2056;
  auto y = random_floats(random, std::size_t{rows} * chosen * hidden, 1);
  auto weights = random_floats(random, rows * chosen, 1);
  auto to = random_floats(random, rows * hidden, 1);
  const auto before = to;
  aligned<std::uint32_t> entries(rows * chosen);
  for (std::uint32_t i = 0; i < entries.size(); ++i) entries[i] = (i * 5 + 2) % (rows * chosen);
  combine_job job;
  job.y = y.data();
  job.weights = weights.data();
  job.entries = entries.data();
  job.chosen = chosen;
  job.to = to.data();
  job.rows = rows;
  job.hidden = hidden;
  for (const bool accumulate : {false, true}) {
    to = before;
    job.to = to.data();
    job.accumulate = accumulate;
    inline_stream stream;
    launch(stream, job);
    for (std::uint32_t row = 0; row < rows; ++row)
      for (std::uint32_t column = 0; column < hidden; ++column) {
        float sum = 0;
        for (std::uint32_t i = 0; i < chosen; ++i) {
          const float term = weights[row * chosen + i] * y[std::size_t{entries[row * chosen + i]} * hidden + column];
          sum += term;
        }
        if (accumulate) sum = before[row * hidden + column] + sum;
        ASSERT_EQ(to[row * hidden + column], sum) << row << ' ' << column;
      }
  }
}

TEST(CudaMixture, RefusesWhatItsKernelsAreNotMadeFor) {
  routed some(2, 8, 2, 8);
  inline_stream stream;
  for (const auto& [experts, chosen] : {std::pair{8U, 9U}, std::pair{8U, 0U}, std::pair{5000U, 2U}}) {
    auto job = some.job;
    job.experts = experts;
    job.chosen = chosen;
    EXPECT_THROW(launch(stream, job), std::invalid_argument);
  }
  expert_gemm_job product;
  product.tiles_count = 1;
  product.product.columns = 12;
  product.product.depth = 8;
  EXPECT_THROW(launch_fixed(stream, product), std::invalid_argument);
  product.product.columns = 16;
  product.tile_rows = 16;
  EXPECT_THROW(launch_fixed(stream, product), std::invalid_argument);
}

} // namespace godwit::gpu::cuda
