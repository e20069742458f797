#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/profile.hpp>

#include <gtest/gtest.h>

namespace godwit::gpu::sim::testing {
namespace {

using protocols::step_input;
using namespace std::chrono_literals;

protocols::step_slice slice(std::uint32_t first, std::uint32_t tokens, bool samples) {
  protocols::step_slice out;
  out.first_position = first;
  out.tokens.assign(tokens, 1);
  out.samples = samples;
  return out;
}

step_input step(std::vector<protocols::step_slice> slices) {
  step_input out;
  out.slices = std::move(slices);
  return out;
}

latency_model nothing() {
  latency_model out;
  out.base_us = out.per_decode_us = out.per_kv_token_us = 0;
  out.linear.points.clear();
  return out;
}

step_table table(std::initializer_list<step_table::point> points) {
  step_table out;
  out.points = points;
  return out;
}

TEST(StepTable, IsFlatBelowItsPointsLinearBetweenThemAndInProportionBeyond) {
  const auto t = table({{4, 100}, {8, 200}, {10, 200}});
  EXPECT_EQ(t.at(0), 0);
  EXPECT_EQ(t.at(1), 100);
  EXPECT_EQ(t.at(4), 100);
  EXPECT_EQ(t.at(5), 125);
  EXPECT_EQ(t.at(8), 200);
  EXPECT_EQ(t.at(9), 200);
  EXPECT_EQ(t.at(30), 600);
  EXPECT_EQ(step_table{}.at(7), 0);
}

// The sums of the first simulations, in the order in which they were added up: their runs must not shift by a
// nanosecond.
TEST(LatencyModel, TakesTheToysTimeToTheLastBit) {
  const latency_model toy;
  for (std::uint32_t n = 1; n < 60; ++n) {
    double us = 2000;
    std::vector<protocols::step_slice> slices;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto tokens = i % 3 == 0 ? 1 + (i * 7) % 50 : 1;
      slices.push_back(slice(i * 13 % 97, tokens, i % 2 == 0));
      us += tokens == 1 ? 50.0 : 30.0 * tokens;
      us += 0.2 * (slices.back().first_position + static_cast<double>(tokens));
    }
    EXPECT_EQ(toy.step_time(step(slices)).count(), static_cast<std::int64_t>(us * 1000)) << n;
  }
}

TEST(LatencyModel, CountsTheLinearLayersByAllTokensOfTheStep) {
  auto m = nothing();
  m.linear = table({{1, 100}, {16, 100}, {32, 200}});
  EXPECT_EQ(m.step_time(step({slice(0, 1, true)})), 100us);
  EXPECT_EQ(m.step_time(step({slice(0, 1, true), slice(9, 15, false)})), 100us);
  EXPECT_EQ(m.step_time(step({slice(0, 16, true), slice(3, 16, false)})), 200us);
}

TEST(LatencyModel, MakesEveryChunkAttendToAllPositionsBeforeIt) {
  auto m = nothing();
  m.per_pair_us = 1;
  const auto whole = m.step_time(step({slice(0, 1000, true)}));
  EXPECT_EQ(whole, 500'500us);
  auto chunks = 0ns;
  for (std::uint32_t first = 0; first < 1000; first += 100) chunks += m.step_time(step({slice(first, 100, false)}));
  EXPECT_EQ(chunks, whole);
}

TEST(LatencyModel, ReadsTheKvOfADecodeAndComputesThePairsOfAPrefill) {
  auto m = nothing();
  m.per_kv_token_us = 10;
  m.per_pair_us = 1;
  EXPECT_EQ(m.step_time(step({slice(499, 1, true)})), 5000us);    // 500 positions read; 500 pairs
  EXPECT_EQ(m.step_time(step({slice(450, 50, true)})), 23'775us); // 500 read; 450 * 50 + 50 * 51 / 2 pairs
  EXPECT_EQ(m.step_time(step({slice(499, 1, true), slice(99, 1, true)})), 6000us);
}

TEST(LatencyModel, ReadsTheKvOfAllDecodesTogetherWhereATableSaysHow) {
  auto m = nothing();
  m.per_kv_token_us = 10;
  m.kv = table({{100, 100}, {200, 300}});
  EXPECT_EQ(m.step_time(step({slice(99, 1, true)})), 100us);
  EXPECT_EQ(m.step_time(step({slice(99, 1, true), slice(49, 1, true)})), 200us);
  EXPECT_EQ(m.step_time(step({slice(99, 1, true), slice(0, 7, true)})), 170us) << "a chunk reads by itself";
}

TEST(LatencyModel, DrawsFromTheRowsThatSampleAndCopiesBlocks) {
  auto m = nothing();
  m.logits = table({{1, 7}, {2, 9}});
  m.per_copy_us = 100;
  auto input = step({slice(0, 5, false), slice(3, 5, true), slice(8, 1, true)});
  EXPECT_EQ(m.step_time(input), 9us);
  input.copies.resize(3);
  EXPECT_EQ(m.step_time(input), 309us);
}

TEST(LatencyModel, FollowsFromTheBandwidthsOfAProfile) {
  profile p;
  p.kv_bytes_per_token = 1000;
  p.kv_bytes_per_second = 1e9;
  p.flops_per_pair = 5e6;
  p.flops_per_second = 1e12;
  const latency_model m(p);
  EXPECT_DOUBLE_EQ(m.per_kv_token_us, 1);
  EXPECT_DOUBLE_EQ(m.per_pair_us, 5);
}

} // namespace
} // namespace godwit::gpu::sim::testing
