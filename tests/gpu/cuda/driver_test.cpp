#include "cuda/emulated/emulated_driver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace godwit::gpu::cuda::emulated {
namespace {

using ::testing::HasSubstr;

class EmulatedDriver : public ::testing::Test {
protected:
  template <class T> static T* as(const allocation& piece) { return reinterpret_cast<T*>(piece.data()); }
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::exception& failure) {
      return failure.what();
    }
    return "";
  }

  std::shared_ptr<driver> driver_ = make_emulated_driver({std::uint64_t{16} << 20U, 0, 0, 0});
  std::unique_ptr<driver_stream> stream_ = driver_->make_stream(stream_priority::high);
  allocation device_ = driver_->allocate(4096, "numbers");
  allocation pinned_ = driver_->allocate_pinned(4096, "numbers");
};

TEST_F(EmulatedDriver, CopiesGoThroughPinnedMemoryAndBack) {
  std::memset(pinned_.data(), 7, 4096);
  stream_->copy(device_.data(), pinned_.data(), 4096);
  stream_->fill(device_.data(), 9, 16);
  stream_->copy(pinned_.data(), device_.data(), 4096);
  stream_->synchronize();
  EXPECT_EQ(pinned_.data()[0], std::byte{9});
  EXPECT_EQ(pinned_.data()[16], std::byte{7});
}

TEST_F(EmulatedDriver, TheCallerGoesOnWhileAKernelRuns) {
  std::promise<void> go;
  std::atomic<bool> ran = false;
  stream_->run("waits", [&, wait = go.get_future().share()] {
    wait.wait();
    ran = true;
  });
  const auto event = driver_->make_event();
  stream_->record(*event);
  EXPECT_FALSE(event->ready());
  EXPECT_FALSE(ran);
  go.set_value();
  event->synchronize();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event->ready());
}

TEST_F(EmulatedDriver, AStreamWaitsForAnotherOnesEvent) {
  const auto second = driver_->make_stream(stream_priority::low);
  const auto event = driver_->make_event();
  std::promise<void> go;
  stream_->run("writes", [&, wait = go.get_future().share()] {
    wait.wait();
    *as<int>(device_) = 42;
  });
  stream_->record(*event);
  second->wait(*event);
  second->copy(pinned_.data(), device_.data(), sizeof(int));
  go.set_value();
  second->synchronize();
  EXPECT_EQ(*as<int>(pinned_), 42);
}

TEST_F(EmulatedDriver, AnEventRecordedAgainIsWaitedForAnew) {
  const auto event = driver_->make_event();
  EXPECT_TRUE(event->ready());
  stream_->record(*event);
  event->synchronize();
  std::promise<void> go;
  stream_->run("waits", [wait = go.get_future().share()] { wait.wait(); });
  stream_->record(*event);
  EXPECT_FALSE(event->ready());
  go.set_value();
  event->synchronize();
}

TEST_F(EmulatedDriver, TimedEventsTellHowLongWorkTook) {
  const auto before = driver_->make_event(true), after = driver_->make_event(true);
  stream_->record(*before);
  stream_->run("sleeps", [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  stream_->record(*after);
  after->synchronize();
  EXPECT_GE(after->milliseconds_since(*before), 3.0);
}

TEST_F(EmulatedDriver, AGraphRunsAgainWithTheSameAddresses) {
  stream_->fill(device_.data(), 0, 4096);
  stream_->begin_capture();
  stream_->run("adds", [at = as<int>(device_)] { ++*at; });
  stream_->copy(pinned_.data(), device_.data(), sizeof(int));
  const auto graph = stream_->end_capture();
  stream_->synchronize();
  for (int i = 0; i < 3; ++i) stream_->launch(*graph);
  stream_->synchronize();
  EXPECT_EQ(*as<int>(pinned_), 3) << "captured work has not run, launched work three times";
}

TEST_F(EmulatedDriver, EventsAndNotificationsAreNotCaptured) {
  const auto event = driver_->make_event();
  stream_->begin_capture();
  EXPECT_THAT(message_of([&] { stream_->record(*event); }), HasSubstr("captures"));
  EXPECT_THAT(message_of([&] { stream_->wait(*event); }), HasSubstr("captures"));
  EXPECT_THAT(message_of([&] { stream_->notify([](const std::string&) {}); }), HasSubstr("captures"));
  EXPECT_NE(stream_->end_capture(), nullptr);
}

TEST_F(EmulatedDriver, WhatThrowsInAKernelEndsTheDevice) {
  stream_->run("breaks", [] { throw std::runtime_error("index 7 of 4"); });
  std::promise<std::string> told;
  stream_->notify([&](std::string error) { told.set_value(std::move(error)); });
  EXPECT_EQ(told.get_future().get(), "kernel breaks: index 7 of 4");
  EXPECT_THAT(message_of([&] { stream_->synchronize(); }), HasSubstr("index 7 of 4"));
  EXPECT_THAT(message_of([&] { stream_->fill(device_.data(), 0, 4); }), HasSubstr("index 7 of 4"));
  const auto other = driver_->make_stream(stream_priority::low);
  EXPECT_THAT(message_of([&] { other->fill(device_.data(), 0, 4); }), HasSubstr("index 7 of 4"));
}

TEST_F(EmulatedDriver, WorkAfterAFailureIsSkippedButTold) {
  std::atomic<bool> ran = false;
  std::promise<void> go;
  stream_->run("breaks", [wait = go.get_future().share()] {
    wait.wait();
    throw std::runtime_error("broken");
  });
  stream_->run("never", [&] { ran = true; });
  std::promise<std::string> told;
  stream_->notify([&](std::string error) { told.set_value(std::move(error)); });
  go.set_value();
  EXPECT_EQ(told.get_future().get(), "kernel breaks: broken");
  EXPECT_FALSE(ran);
}

TEST_F(EmulatedDriver, PageableMemoryIsNotCopied) {
  std::vector<std::byte> pageable(64);
  EXPECT_THAT(message_of([&] { stream_->copy(device_.data(), pageable.data(), 64); }), HasSubstr("pinned"));
  EXPECT_THAT(message_of([&] { stream_->copy(pageable.data(), device_.data(), 64); }), HasSubstr("pinned"));
  EXPECT_THAT(message_of([&] { stream_->copy(device_.data() + 4090, pinned_.data(), 64); }), HasSubstr("device"));
  EXPECT_THAT(message_of([&] { stream_->fill(pinned_.data(), 0, 64); }), HasSubstr("outside"));
}

TEST_F(EmulatedDriver, FreshMemoryIsFullOfNaN) {
  stream_->copy(pinned_.data(), device_.data(), 4096);
  stream_->synchronize();
  EXPECT_TRUE(as<float>(pinned_)[0] != as<float>(pinned_)[0]);
  EXPECT_EQ(as<std::uint16_t>(pinned_)[5], 0xFFFFU);
}

TEST_F(EmulatedDriver, MoreThanItsMemoryIsRefusedBeforeAnythingIsTaken) {
  const auto before = driver_->memory();
  const auto line = message_of([&] { (void)driver_->allocate(std::uint64_t{1} << 40U, "the KV cache"); });
  EXPECT_THAT(line, HasSubstr("the KV cache takes 1.0 TiB"));
  EXPECT_THAT(line, HasSubstr("emulated GPU has 16.0 MiB free of 16.0 MiB"));
  EXPECT_EQ(driver_->memory().free_bytes, before.free_bytes);
  {
    const auto some = driver_->allocate(1 << 20, "some");
    EXPECT_EQ(driver_->memory().free_bytes, before.free_bytes - (1 << 20));
  }
  EXPECT_EQ(driver_->memory().free_bytes, before.free_bytes);
}

TEST_F(EmulatedDriver, ProductsAddUpInF32AndRoundToTheNearest) {
  // x = [1 2; 3 4], w = [1 1; 0.5 -1; 0 2]
  const auto bf16 = [](float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U); };
  const auto y = driver_->allocate(64, "y");
  auto* numbers = as<std::uint16_t>(pinned_);
  int at = 0;
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F, 1.0F, 1.0F, 0.5F, -1.0F, 0.0F, 2.0F}) numbers[at++] = bf16(value);
  stream_->copy(device_.data(), pinned_.data(), 20);
  stream_->fill(y.data(), 0, 64);
  gemm_job job;
  job.x = device_.data();
  job.w = device_.data() + 8;
  job.y = y.data();
  job.rows = 2;
  job.columns = 3;
  job.depth = 2;
  job.accumulate = true;
  stream_->gemm(job);
  stream_->gemm(job);
  stream_->copy(pinned_.data(), y.data(), 24);
  stream_->synchronize();
  EXPECT_THAT(std::vector<float>(as<float>(pinned_), as<float>(pinned_) + 6),
              ::testing::ElementsAre(6, -3, 8, 14, -5, 16));
  job.accumulate = false;
  job.y_type = model::data_type::bf16;
  stream_->gemm(job);
  stream_->copy(pinned_.data(), y.data(), 12);
  stream_->synchronize();
  EXPECT_EQ(as<std::uint16_t>(pinned_)[5], bf16(8.0F));
  job.y_type = model::data_type::f16;
  EXPECT_THAT(message_of([&] { stream_->gemm(job); }), HasSubstr("f32 or of its factors' type"));
}

TEST_F(EmulatedDriver, HalvesRoundToTheNearestEven) {
  const auto y = driver_->allocate(64, "y");
  auto* numbers = as<std::uint16_t>(pinned_);
  // f16: 1 * (2049 as 2048 + 1 over two products), 65504 + 32 (overflow), 2^-24 halves (ties to even: 0)
  const std::vector<std::uint16_t> x = {0x3C00, 0x3C00}; // 1 1
  const std::vector<std::uint16_t> w = {0x6800, 0x3C00, 0x7BFF,
                                        0x5000, 0x0001, 0x0002}; // 2048 1, 65504 32, 1 ulp 2 ulp
  std::copy(x.begin(), x.end(), numbers);
  std::copy(w.begin(), w.end(), numbers + 2);
  stream_->copy(device_.data(), pinned_.data(), 16);
  gemm_job job{
      model::data_type::f16, model::data_type::f16, device_.data(), device_.data() + 4, y.data(), 1, 3, 2, false};
  stream_->gemm(job);
  stream_->copy(pinned_.data(), y.data(), 6);
  stream_->synchronize();
  EXPECT_EQ(numbers[0], 0x6800) << "2049 lies between 2048 and 2050, the even one is 2048";
  EXPECT_EQ(numbers[1], 0x7C00) << "infinity";
  EXPECT_EQ(numbers[2], 0x0003) << "subnormal numbers are exact";
}

using EmulatedMemoryDeathTest = EmulatedDriver;

TEST_F(EmulatedMemoryDeathTest, TheHostDiesWhenItTouchesDeviceMemory) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(*as<volatile int>(device_) = 1, "");
  EXPECT_DEATH((void)*as<volatile int>(device_), "");
}

TEST_F(EmulatedMemoryDeathTest, AKernelDiesBehindTheEndOfAPieceOfMemory) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        stream_->run("reads on", [at = as<volatile int>(device_)] { (void)at[1024]; });
        stream_->synchronize();
      },
      "");
}

} // namespace
} // namespace godwit::gpu::cuda::emulated
