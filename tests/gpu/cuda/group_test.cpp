#include "cuda/emulated/emulated_driver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// What devices that share a model tell each other, on their streams.
namespace godwit::gpu::cuda::emulated {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmulatedGroup : public ::testing::Test {
protected:
  struct rank {
    std::shared_ptr<driver> device;
    std::unique_ptr<driver_stream> stream;
    allocation numbers, host; ///< 64 floats each
    std::shared_ptr<group_end> end;

    [[nodiscard]] float* values() const { return reinterpret_cast<float*>(numbers.data()); }
    void put(const std::vector<float>& from) {
      std::memcpy(host.data(), from.data(), from.size() * sizeof(float));
      stream->copy(numbers.data(), host.data(), from.size() * sizeof(float));
      stream->synchronize();
    }
    [[nodiscard]] std::vector<float> get(std::size_t count) const {
      stream->copy(host.data(), numbers.data(), count * sizeof(float));
      stream->synchronize();
      std::vector<float> out(count);
      std::memcpy(out.data(), host.data(), count * sizeof(float));
      return out;
    }
  };

  void make(std::uint32_t count, std::chrono::nanoseconds wait_max = 60s, const emulated_settings& settings = {}) {
    const auto devices = make_emulated_drivers(std::vector(count, settings));
    auto ends = devices.front()->make_group(devices, wait_max, {});
    for (std::uint32_t i = 0; i < count; ++i) {
      auto& device = *devices[i];
      ranks_.push_back({devices[i], device.make_stream(stream_priority::high), device.allocate(256, "numbers"),
                        device.allocate_pinned(256, "numbers"), std::move(ends[i])});
    }
  }
  static std::string message_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const driver_error& failure) {
      return failure.what();
    }
    return "";
  }

  std::vector<rank> ranks_;
};

TEST_F(EmulatedGroup, AddsInTheOrderOfTheRanksWhoeverComesFirst) {
  emulated_settings late;
  late.delay_us_max = 300;
  make(3, 60s, late);
  const std::vector<float> big{1e8F, 1, -1e8F};
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < 3; ++i) ranks_[i].put({big[i], static_cast<float>(i)});
    for (const std::size_t i : {2U, 0U, 1U}) ranks_[i].end->all_reduce(*ranks_[i].stream, ranks_[i].values(), 2);
    for (const auto& one : ranks_) EXPECT_THAT(one.get(2), ElementsAre((big[0] + big[1]) + big[2], 3));
  }
}

TEST_F(EmulatedGroup, GathersWhatEachHas) {
  make(2);
  for (std::size_t i = 0; i < 2; ++i) ranks_[i].put({static_cast<float>(i), static_cast<float>(10 + i)});
  for (auto& one : ranks_) {
    one.end->all_gather(*one.stream, one.values(), one.values() + 2, 2);
    EXPECT_EQ(one.end->ranks(), 2U);
  }
  for (const auto& one : ranks_)
    EXPECT_THAT(one.get(6), ElementsAre(static_cast<float>(one.end->rank()), ::testing::_, 0, 10, 1, 11));
}

TEST_F(EmulatedGroup, MeetsInGraphsAgainAndAgain) {
  make(2);
  std::vector<std::unique_ptr<driver_graph>> graphs;
  for (auto& one : ranks_) {
    one.put({1, 2});
    one.stream->begin_capture();
    one.end->all_reduce(*one.stream, one.values(), 2);
    graphs.push_back(one.stream->end_capture());
  }
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < 2; ++i) ranks_[i].stream->launch(*graphs[i]);
  for (const auto& one : ranks_) EXPECT_THAT(one.get(2), ElementsAre(8, 16));
}

TEST_F(EmulatedGroup, IsBrokenByAnOperationThatNotAllHaveCapturedTogether) {
  for (const bool captured_twice : {false, true}) {
    ranks_.clear();
    make(2);
    std::vector<std::unique_ptr<driver_graph>> graphs;
    for (auto& one : ranks_) {
      one.put({1, 2});
      for (int time = 0; time < 2; ++time) {
        one.stream->begin_capture();
        one.end->all_reduce(*one.stream, one.values(), 2);
        graphs.push_back(one.stream->end_capture());
      }
    }
    ranks_[0].stream->launch(*graphs[0]);
    if (captured_twice)
      ranks_[1].stream->launch(*graphs[3]);
    else
      ranks_[1].end->all_reduce(*ranks_[1].stream, ranks_[1].values(), 2);
    for (const auto& one : ranks_) {
      one.stream->synchronize();
      EXPECT_THAT(one.end->error(), HasSubstr("launches what was not captured with the others'"));
    }
  }
}

TEST_F(EmulatedGroup, ThatIsBrokenReleasesItsDevicesWhichServeOn) {
  make(3);
  for (const std::size_t i : {0U, 1U}) ranks_[i].end->all_reduce(*ranks_[i].stream, ranks_[i].values(), 4);
  ranks_[2].end->abort("enough");
  ranks_[1].end->abort("too late to be the reason");
  for (auto& one : ranks_) {
    one.stream->synchronize();
    EXPECT_EQ(one.end->error(), "enough");
    EXPECT_EQ(message_of([&] { one.end->all_reduce(*one.stream, one.values(), 4); }), "enough");
    one.put({7});
    EXPECT_THAT(one.get(1), ElementsAre(7));
  }
}

TEST_F(EmulatedGroup, IsBrokenByAnEndThatGoesAndByOneThatStaysAway) {
  make(2, 30ms);
  ranks_[1].end->all_reduce(*ranks_[1].stream, ranks_[1].values(), 4);
  ranks_[1].stream->synchronize();
  EXPECT_THAT(ranks_[0].end->error(), HasSubstr("rank 0 did not come to a sum of 4 values within 30 ms"));
  ranks_.clear();
  make(2);
  ranks_[1].end->all_reduce(*ranks_[1].stream, ranks_[1].values(), 4);
  ranks_[0].end.reset();
  ranks_[1].stream->synchronize();
  EXPECT_EQ(ranks_[1].end->error(), "rank 0 is gone");
}

TEST_F(EmulatedGroup, OfADeviceThatFailsWaitsForWhoeverTellsIt) {
  emulated_settings settings;
  make(2, 60s, settings);
  ranks_[1].stream->run("breaks", [] { throw std::runtime_error("broken"); });
  std::promise<std::string> told;
  for (auto& one : ranks_)
    if (one.end->rank() == 0) one.end->all_reduce(*one.stream, one.values(), 4);
  ranks_[1].stream->notify([&](const std::string& error) {
    ranks_[1].end->abort("rank 1: " + error); // from a reaction
    told.set_value(error);
  });
  EXPECT_EQ(told.get_future().get(), "kernel breaks: broken");
  ranks_[0].stream->synchronize();
  EXPECT_EQ(ranks_[0].end->error(), "rank 1: kernel breaks: broken");
}

TEST_F(EmulatedGroup, StreamsCopyFromOneDeviceToAnother) {
  make(3);
  ranks_[0].put({1, 2, 3});
  ranks_[1].put({0, 0, 0});
  ranks_[2].stream->copy(ranks_[1].numbers.data(), ranks_[0].numbers.data(), 12); // of neither
  ranks_[2].stream->synchronize();
  EXPECT_THAT(ranks_[1].get(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(message_of([&] { ranks_[2].stream->fill(ranks_[1].numbers.data(), 0, 12); }), HasSubstr("outside"));
}

} // namespace
} // namespace godwit::gpu::cuda::emulated
