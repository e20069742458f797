#include "gpu/sim/sim_support.hpp"

#include <godwit/gpu/sim/sim_device.hpp>

#include <gtest/gtest.h>

namespace godwit::gpu::sim::testing {
namespace {

using namespace std::chrono_literals;

TEST(SimStream, RunsWorkWhenItsCostHasPassed) {
  hand_timers timers;
  const auto device = make_sim_device(timers, 0);
  const auto stream = device->make_stream();
  int ran = 0;
  stream->enqueue([&] { ++ran; }, 100);
  stream->enqueue([&] { ++ran; }, 50);
  timers.pass(99ns);
  EXPECT_EQ(ran, 0);
  timers.pass(1ns);
  EXPECT_EQ(ran, 1);
  timers.pass(49ns);
  EXPECT_EQ(ran, 1);
  timers.pass(1ns);
  EXPECT_EQ(ran, 2);
}

TEST(SimStream, WaitsForTheEventOfAnother) {
  hand_timers timers;
  const auto device = make_sim_device(timers, 0);
  const auto copy = device->make_stream(), compute = device->make_stream();
  copy->enqueue([] {}, 1000);
  compute->wait(copy->record());
  bool ran = false;
  compute->enqueue([&] { ran = true; }, 10);
  timers.pass(1009ns);
  EXPECT_FALSE(ran);
  timers.pass(1ns);
  EXPECT_TRUE(ran);
}

TEST(SimStream, DropsItsWorkAndSetsItsEventsWhenDestroyed) {
  hand_timers timers;
  const auto device = make_sim_device(timers, 0);
  auto stream = device->make_stream();
  bool ran = false;
  stream->enqueue([&] { ran = true; }, 1000);
  const auto mark = stream->record();
  stream.reset();
  EXPECT_TRUE(mark.ready());
  timers.pass(1s);
  EXPECT_FALSE(ran);
  EXPECT_EQ(timers.waiting(), 0U);
}

TEST(SimMemory, IsCountedAndBounded) {
  hand_timers timers;
  const auto device = make_sim_device(timers, 1000);
  {
    const auto piece = device->memory().allocate(600, "a test");
    EXPECT_EQ(device->memory().available_bytes(), 400U);
    EXPECT_THROW((void)device->memory().allocate(401, "another"), out_of_memory);
  }
  EXPECT_EQ(device->memory().available_bytes(), 1000U);
}

} // namespace
} // namespace godwit::gpu::sim::testing
