#include <godwit/protocols/policy/layer_placement.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace godwit::protocols {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr std::uint64_t gib = 1U << 30U;

std::vector<double> everywhere(std::size_t devices, double seconds) {
  return std::vector<double>(devices * devices, seconds);
}

layered_model of_layers(std::uint32_t layers, std::uint64_t bytes) {
  layered_model m;
  m.layers = layers;
  m.layer_bytes = bytes;
  return m;
}

// UELLM: a model over a slow and a fast GPU is faster the more of it the fast one has.
TEST(LayerPlacement, TheFastOneHasAsManyAsFitAndTheSlowOneTheRest) {
  const auto model = of_layers(32, gib / 2);
  const std::vector<layer_host> devices{{12 * gib, 300e9}, {24 * gib, 900e9}};
  const auto found = place_layers(model, devices, everywhere(2, 1e-5), 0);
  ASSERT_TRUE(found) << found.error();
  EXPECT_THAT(found->runs, ElementsAre(layer_run{1, 32})) << "it holds all";
  auto tight = devices;
  tight[1].memory_bytes = 31 * (gib / 2);
  const auto two = place_layers(model, tight, everywhere(2, 1e-5), 0);
  ASSERT_TRUE(two);
  EXPECT_THAT(two->runs, ElementsAre(layer_run{0, 1}, layer_run{1, 31}));
  EXPECT_DOUBLE_EQ(two->hop_seconds, 1e-5);
  EXPECT_NEAR(two->seconds, 1e-5 + 0.5 * gib / 300e9 + 31 * 0.5 * gib / 900e9, 1e-9);
}

TEST(LayerPlacement, AFurtherDeviceHasToSaveWhatItCosts) {
  const auto model = of_layers(10, gib);
  const std::vector<layer_host> devices{{20 * gib, 100e9}, {5 * gib, 1000e9}};
  const auto runs = [&](double device_seconds) {
    return place_layers(model, devices, everywhere(2, 1e-3), device_seconds)->runs;
  };
  EXPECT_THAT(runs(0), ElementsAre(layer_run{0, 5}, layer_run{1, 5})) << "the lowest latency";
  EXPECT_THAT(runs(10), ElementsAre(layer_run{0, 10})) << "the fewest devices";
  const double saved = 5 * gib / 100e9 - 5 * gib / 1000e9 - 1e-3;
  EXPECT_EQ(runs(saved * 0.99).size(), 2U);
  EXPECT_EQ(runs(saved * 1.01).size(), 1U);
}

TEST(LayerPlacement, WhatComesWithTheFirstAndTheLastLayerTakesRoomWhereTheyAre) {
  auto model = of_layers(8, gib);
  model.layer_reserve = gib; // KV
  model.first_bytes = 2 * gib;
  model.last_bytes = 4 * gib;
  const std::vector<layer_host> devices{{10 * gib, 100e9}, {12 * gib, 100e9}};
  const auto found = place_layers(model, devices, everywhere(2, 0), 0);
  ASSERT_TRUE(found) << "just so";
  EXPECT_THAT(found->runs, ElementsAre(layer_run{0, 4}, layer_run{1, 4}));
  model.last_bytes += gib;
  const auto none = place_layers(model, devices, everywhere(2, 0), 0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error(), HasSubstr("does not fit on these devices"));
}

TEST(LayerPlacement, WhereTwoAreAsGoodItIsTheFewerAndTheFirst) {
  for (std::uint32_t layers = 1; layers <= 40; ++layers)
    for (const double speed : {600e9, 7e9, 3.3e11}) {
      const std::vector<layer_host> equal(3, {80 * gib, speed});
      const auto found = place_layers(of_layers(layers, 123'456'789), equal, everywhere(3, 0), 0);
      ASSERT_TRUE(found);
      EXPECT_THAT(found->runs, ElementsAre(layer_run{0, layers})) << layers << " layers at " << speed;
    }
}

TEST(LayerPlacement, OfAsManyDevicesItIsTheQuickestHoweverMuchOneCosts) {
  const std::vector<layer_host> two{{24 * gib, 1e12}, {24 * gib, 1.1e12}};
  for (const double device_seconds : {0.0, 1.0, 1e6}) {
    const auto found = place_layers(of_layers(6, 1'000'000), two, everywhere(2, 1e-5), device_seconds);
    ASSERT_TRUE(found);
    EXPECT_THAT(found->runs, ElementsAre(layer_run{1, 6})) << device_seconds;
  }
}

TEST(LayerPlacement, SaysWhatIsWrong) {
  EXPECT_FALSE(place_layers(of_layers(1, 1), {}, {}, 0));
  const std::vector<layer_host> thirteen(13, {gib, 1e9});
  EXPECT_THAT(place_layers(of_layers(1, 1), thirteen, everywhere(13, 0), 0).error(), HasSubstr("1 to 12 devices"));
  const std::vector<layer_host> idle{{gib, 0}};
  EXPECT_FALSE(place_layers(of_layers(1, 1), idle, everywhere(1, 0), 0));
  const std::vector<layer_host> one{{gib, 1}};
  EXPECT_FALSE(place_layers(of_layers(1, 1), one, everywhere(2, 0), 0)) << "distances of two devices";
}

/// Every order of every subset with every number of layers.
double least_cost(const layered_model& m, const std::vector<layer_host>& devices, const std::vector<double>& hops,
                  double device_seconds) {
  double best = std::numeric_limits<double>::infinity();
  const auto n = devices.size();
  std::vector<std::size_t> order;
  std::vector<std::uint32_t> counts;
  const std::function<void(std::uint32_t)> divide = [&](std::uint32_t left) {
    if (counts.size() == order.size()) {
      if (left > 0) return;
      double cost = device_seconds * static_cast<double>(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& d = devices[order[i]];
        const auto bytes = counts[i] * (m.layer_bytes + m.layer_reserve) + (i == 0 ? m.first_bytes : 0) +
                           (i + 1 == order.size() ? m.last_bytes : 0) - (order.size() == 1 ? m.shared_bytes : 0);
        if (bytes > d.memory_bytes) return;
        cost += static_cast<double>(counts[i] * m.layer_bytes + (i + 1 == order.size() ? m.last_bytes : 0)) /
                d.bytes_per_second;
        if (i > 0) cost += hops[order[i - 1] * n + order[i]];
      }
      best = std::min(best, cost);
      return;
    }
    for (std::uint32_t own = 1; own <= left; ++own) {
      counts.push_back(own);
      divide(left - own);
      counts.pop_back();
    }
  };
  const std::function<void()> extend = [&] {
    if (!order.empty()) divide(m.layers);
    for (std::size_t next = 0; next < n; ++next) {
      if (std::ranges::find(order, next) != order.end()) continue;
      order.push_back(next);
      extend();
      order.pop_back();
    }
  };
  extend();
  return best;
}

TEST(LayerPlacement, IsTheBestOfAll) {
  std::mt19937 random{11};
  const auto below = [&](unsigned n) { return static_cast<std::uint64_t>(random() % n); };
  int placed = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    layered_model m;
    m.layers = static_cast<std::uint32_t>(1 + below(7));
    m.layer_bytes = 1 + below(20);
    m.layer_reserve = below(5);
    m.first_bytes = below(20);
    m.last_bytes = below(20);
    m.shared_bytes = below(static_cast<unsigned>(std::min(m.first_bytes, m.last_bytes)) + 1);
    std::vector<layer_host> devices(1 + below(4));
    for (auto& d : devices) d = {below(120), 1.0 + static_cast<double>(below(50))};
    std::vector<double> hops(devices.size() * devices.size());
    for (auto& h : hops) h = static_cast<double>(below(30)) / 10;
    const auto device_seconds = static_cast<double>(below(3));
    const auto expected = least_cost(m, devices, hops, device_seconds);
    const auto found = place_layers(m, devices, hops, device_seconds);
    ASSERT_EQ(found.has_value(), std::isfinite(expected));
    ++(found ? placed : refused);
    if (!found) continue;
    EXPECT_NEAR(found->seconds + device_seconds * static_cast<double>(found->runs.size()), expected, 1e-9);
    std::uint32_t sum = 0;
    double hop = 0;
    for (std::size_t i = 0; i < found->runs.size(); ++i) {
      sum += found->runs[i].layers;
      if (i > 0) hop += hops[found->runs[i - 1].device * devices.size() + found->runs[i].device];
    }
    EXPECT_EQ(sum, m.layers);
    EXPECT_NEAR(hop, found->hop_seconds, 1e-12);
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(refused, 20);
}

} // namespace
} // namespace godwit::protocols
