#include "gpu/sim/sim_support.hpp"
#include "gpu/swapped.hpp"

#include <godwit/gpu/sim/sim_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace godwit::gpu::sim::testing {
namespace {

using namespace std::chrono_literals;
using gpu::testing::moves;

std::unique_ptr<executor> swapping(runtime::async::timer_source& timers, sim_swap how,
                                   sim_memory memory = sim_memory::hashes) {
  executor_info info;
  info.layers = 1;
  info.vocabulary = 500;
  info.positions_max = 1000;
  info.blocks = 8;
  sim_model model;
  model.memory = memory;
  model.swap = std::move(how);
  return make_sim_executor(info, {}, timers, std::move(model));
}

std::uint64_t* slots_of(executor& device, std::uint32_t block) {
  return reinterpret_cast<std::uint64_t*>(device.key_region(0, protocols::block_id{block}).address);
}

TEST(SimSwap, CopiesTakeTheirTimeOneAfterTheOtherInEachDirection) {
  hand_timers timers;
  const auto device = swapping(timers, {.slots = 8, .blocks_per_second = 1000, .overhead = 500us});
  const auto space = device->swap();
  ASSERT_TRUE(space);
  EXPECT_EQ(space->slots(), 8U);
  std::vector<std::string> ended;
  const auto note = [&ended](const char* what) {
    return [&ended, what](const std::string& error) { ended.push_back(what + error); };
  };
  space->copy_out(moves({0, 1}, {0, 1}), note("first"));
  space->copy_out(moves({2}, {2}), note("second"));
  space->copy_in(moves({3}, {3}), note("back"));
  timers.pass(1499us);
  EXPECT_TRUE(ended.empty());
  timers.pass(1us);
  EXPECT_EQ(ended, std::vector<std::string>{"back"});
  timers.pass(1ms);
  EXPECT_EQ(ended, (std::vector<std::string>{"back", "first"}));
  timers.pass(1500us);
  EXPECT_EQ(ended, (std::vector<std::string>{"back", "first", "second"}));
}

TEST(SimSwap, ACopyIsMadeAtItsEndAndABlockComesBackAsItWas) {
  hand_timers timers;
  const auto device = swapping(timers, {.slots = 4});
  const auto space = device->swap();
  std::fill_n(slots_of(*device, 5), protocols::tokens_per_block, 1);
  space->copy_out(moves({5}, {2}), [](const std::string&) {});
  std::fill_n(slots_of(*device, 5), protocols::tokens_per_block, 2); // which nobody may do
  timers.pass(1s);
  space->copy_in(moves({1}, {2}), [](const std::string&) {});
  timers.pass(1s);
  EXPECT_EQ(slots_of(*device, 1)[0], 2U);
  EXPECT_EQ(slots_of(*device, 1)[protocols::tokens_per_block - 1], 2U);
}

TEST(SimSwap, FailuresAreTold) {
  hand_timers timers;
  sim_swap how;
  how.slots = 4;
  how.fails = [] { return "broken"; };
  const auto device = swapping(timers, how);
  std::fill_n(slots_of(*device, 0), protocols::tokens_per_block, 9);
  std::optional<std::string> error;
  device->swap()->copy_in(moves({0}, {0}), [&](std::string why) { error = std::move(why); });
  timers.pass(1s);
  EXPECT_EQ(error, "broken");
  EXPECT_EQ(slots_of(*device, 0)[0], 9U);
}

TEST(SimSwap, WhatHasNotEndedWhenItGoesNeverDoes) {
  hand_timers timers;
  auto device = swapping(timers, {.slots = 4});
  bool told = false;
  device->swap()->copy_out(moves({0}, {0}), [&](const std::string&) { told = true; });
  device.reset();
  EXPECT_EQ(timers.waiting(), 0U);
  timers.pass(1s);
  EXPECT_FALSE(told);
}

TEST(SimSwap, WithoutSlotsThereIsNoneAndWithoutMemoryItsTimesAreTheSame) {
  hand_timers timers;
  EXPECT_FALSE(swapping(timers, {})->swap());
  const auto device = swapping(timers, {.slots = 1'000'000}, sim_memory::none);
  bool told = false;
  device->swap()->copy_out(moves({3}, {999'999}), [&](const std::string& error) { told = error.empty(); });
  timers.pass(1ms);
  EXPECT_TRUE(told);
}

} // namespace
} // namespace godwit::gpu::sim::testing
