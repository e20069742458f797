#include "gpu/sim/sim_support.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/sim/sim_stages.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace godwit::gpu::sim::testing {
namespace {

using namespace std::chrono_literals;

executor_info four_layers() {
  executor_info info;
  info.layers = 4;
  info.vocabulary = 500;
  info.positions_max = 1000;
  info.blocks = 8;
  info.block_bytes = 4000;
  return info;
}

// Of a block each stage copies its layers' part, all at once.
TEST(SimStages, SwapAsMuchQuickerAsTheyHaveFewerLayers) {
  hand_timers timers;
  sim_model model;
  model.swap = {.slots = 8, .blocks_per_second = 1000};
  const auto device =
      make_sim_stages(four_layers(), {}, timers, model, pipeline::cut_layers(4, 2, std::vector{1U, 3U}));
  ASSERT_EQ(device->stages().size(), 2U);
  EXPECT_EQ(device->stages()[0]->info().block_bytes, 1000U);
  EXPECT_EQ(device->stages()[1]->info().block_bytes, 3000U);
  const auto space = device->swap();
  ASSERT_TRUE(space);
  std::vector<std::string> ended;
  space->copy_out(gpu::testing::moves({0}, {0}), [&](const std::string& error) { ended.push_back("out" + error); });
  timers.pass(749us);
  EXPECT_TRUE(ended.empty());
  timers.pass(1us);
  EXPECT_EQ(ended, std::vector<std::string>{"out"});
}

TEST(SimStages, ShareTheTimesOfOneDevice) {
  latency_model whole;
  whole.base_us = 1000;
  whole.logits.points = {{1, 400}};
  const auto part = share_of(whole, 0.25, false), last = share_of(whole, 0.75, true);
  protocols::step_input step;
  step.slices.resize(1);
  step.slices[0].tokens.resize(10);
  step.slices[0].samples = true;
  EXPECT_NEAR(static_cast<double>((part.step_time(step) + last.step_time(step)).count()),
              static_cast<double>(whole.step_time(step).count()), 2);
  EXPECT_LT(part.step_time(step), last.step_time(step) / 3) << "without logits";
}

// A device twice as fast takes half of the time, logits and all; a stage that gets layers takes theirs, too.
TEST(SimStages, TakeTheTimeOfTheirLayersOnTheirDevices) {
  hand_timers timers;
  latency_model whole;
  whole.base_us = 4000;
  whole.per_decode_us = 0;
  whole.linear = {};
  whole.logits.points = {{1, 400}, {64, 400}};
  whole.per_kv_token_us = 0;
  const auto device = make_sim_stages(four_layers(), whole, timers, {}, pipeline::cut_layers(4, 2),
                                      {.speeds = {1, 2}, .move_time = 5ms});
  const auto time_of = [&](std::size_t stage) {
    protocols::step_input input;
    input.slices.resize(1);
    input.slices[0].tokens.resize(1);
    input.slices[0].blocks.resize(1);
    input.slices[0].samples = true;
    const auto step = device->stages()[stage]->begin(input);
    bool ran = false;
    step->advance(step->layers(), [&](const std::string& error) {
      EXPECT_EQ(error, "");
      ran = true;
    });
    std::chrono::microseconds took{0};
    for (; !ran; took += 50us) timers.pass(50us);
    return took;
  };
  EXPECT_EQ(time_of(0), 2000us);
  EXPECT_EQ(time_of(1), 1200us);
  const auto division = device->division();
  ASSERT_TRUE(division);
  ASSERT_EQ(division->beside().size(), 2U);
  EXPECT_EQ(division->beside()[0], 0);
  EXPECT_NEAR(division->beside()[1], 0.4, 0.01) << "400 us beside layers of 1,000";
  std::vector<std::string> said;
  const auto told = [&](std::string error) { said.push_back(std::move(error)); };
  division->move({1, 3}, told);
  EXPECT_THROW(division->move({3, 1}, told), std::logic_error) << "one after the other";
  timers.pass(4999us);
  EXPECT_TRUE(said.empty());
  timers.pass(1us);
  EXPECT_EQ(said, std::vector<std::string>{""});
  EXPECT_EQ(division->layers(), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(time_of(0), 1000us);
  EXPECT_EQ(time_of(1), 1700us);
  EXPECT_EQ(device->stages()[1]->info().block_bytes, 3000U);

  EXPECT_THROW(division->move({4, 0}, told), std::invalid_argument);
  {
    protocols::step_input input;
    input.slices.resize(1);
    input.slices[0].tokens.resize(1);
    input.slices[0].blocks.resize(1);
    const auto step = device->stages()[0]->begin(input);
    EXPECT_THROW(division->move({2, 2}, told), std::logic_error) << "in the middle of a step";
  }
  division->move({2, 2}, told);
  protocols::step_input input;
  input.slices.resize(1);
  input.slices[0].tokens.resize(1);
  input.slices[0].blocks.resize(1);
  const auto step = device->stages()[0]->begin(input);
  timers.pass(5ms);
  EXPECT_EQ(said.back(), "a step began while layers moved");
  EXPECT_EQ(division->layers(), (std::vector<std::uint32_t>{1, 3}));
  EXPECT_THROW((void)make_sim_stages(four_layers(), {}, timers, {}, pipeline::cut_layers(4, 2), {.speeds = {1}}),
               std::invalid_argument);
}

// Its KV is where one device has it, whichever stage that layer is of.
TEST(SimStages, LookLikeOneDeviceToWhoeverMovesKv) {
  hand_timers timers;
  const auto staged = make_sim_stages(four_layers(), {}, timers, {}, pipeline::cut_layers(4, 4));
  const auto one = make_sim_executor(four_layers(), {}, timers, {});
  EXPECT_EQ(staged->info().kv_layout, one->info().kv_layout);
  for (std::uint32_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(staged->key_region(layer, protocols::block_id{3}).bytes,
              one->key_region(layer, protocols::block_id{3}).bytes);
    EXPECT_EQ(staged->value_region(layer, protocols::block_id{3}).bytes, 0U);
  }
  EXPECT_THROW((void)make_sim_stages(four_layers(), {}, timers, {}, {}), std::invalid_argument);
}

} // namespace
} // namespace godwit::gpu::sim::testing
