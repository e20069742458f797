// Memory of a device whose copies do not end: what a fabric leaves behind when it goes without them.
#include "transport/fabric/copier_beside.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::transport::testing {
namespace {

using godwit::testing::fake_copier;

/// As that of a GPU: its destructor waits for what is queued, and nothing may be done with the device by its callbacks.
class copier_of_a_gpu final : public copier_beside {
public:
  using copier_beside::copier_beside;
  ~copier_of_a_gpu() override {
    while (other_->waiting() != 0) std::this_thread::sleep_for(2ms);
  }
  void gather(std::vector<region> from, region into, urgency how, completion done) override {
    copier_beside::gather(std::move(from), into, how, called_back(std::move(done)));
  }
  void scatter(region from, std::vector<region> into, urgency how, completion done) override {
    copier_beside::scatter(from, std::move(into), how, called_back(std::move(done)));
  }
  void copy(std::vector<region> from, std::vector<region> into, urgency how, completion done) override {
    copier_beside::copy(std::move(from), std::move(into), how, called_back(std::move(done)));
  }
  static thread_local bool calls_back; ///< this thread does

private:
  static completion called_back(completion done) {
    return [done = std::move(done)](std::string error) {
      calls_back = true;
      done(std::move(error));
    };
  }
};
thread_local bool copier_of_a_gpu::calls_back = false;

const std::function<std::shared_ptr<fabric>(device_memory)> makers[] = {
    [](device_memory device) { return in_process::make_fabric(in_process::make_hub({.device = std::move(device)})); },
    [](device_memory device) {
      ucx::settings settings;
      settings.device = std::move(device);
      return ucx::make_fabric(std::move(settings));
    }};

TEST(FabricDeviceEnds, ADeviceThatNeverEndsACopyHoldsUpNobodyAndNothingIsLetGoOfByItsThreads) {
  for (const auto& make : makers)
    for (const bool from_device : {true, false}) {
      const auto device = std::make_shared<fake_device>();
      const auto held = std::make_shared<fake_copier>(device);
      auto copier = std::make_shared<copier_of_a_gpu>(held);
      const std::weak_ptr<copier_of_a_gpu> there = copier;
      device_memory options;
      options.copier = std::move(copier);
      options.patience = 100ms;
      auto one = make(std::exchange(options, {}));
      block_memory from(1, 100'000, 0, from_device ? device : nullptr), to(1, 100'000, 0, device);
      const auto let_go = std::make_shared<answers<bool>>();
      std::shared_ptr<void> keep(new char, [let_go](char* back) {
        delete back;
        let_go->put(copier_of_a_gpu::calls_back);
      });
      held->hold(true);
      post(*one, {1, 1}, to.regions(), std::exchange(keep, nullptr));
      const auto sent = send(*one, one->address(), {1, 1}, 0, from.regions());
      ASSERT_TRUE(eventually([&] { return held->waiting() != 0; }));
      answers<int> gone;
      std::thread end([&] {
        one.reset();
        gone.put(1);
      });
      EXPECT_TRUE(gone.next()) << "it waits for the device";
      EXPECT_EQ(sent->count(), 1U);
      EXPECT_EQ(let_go->count(), 0U) << "the copy may still land";
      EXPECT_FALSE(there.expired());
      held->hold(false);
      end.join();
      EXPECT_FALSE(let_go->next().value_or(true)) << "on a thread of the copier";
      EXPECT_TRUE(eventually([&] { return there.expired(); }));
    }
}

// A step, say: to free memory and to end streams waits for it, too.
TEST(FabricDeviceEnds, ADeviceThatNeverEndsWhatOthersHaveHoldsUpNobody) {
  for (const auto& make : makers) {
    const auto device = std::make_shared<fake_device>();
    const auto held = std::make_shared<fake_copier>(device);
    device_memory options;
    options.copier = std::make_shared<copier_of_a_gpu>(held);
    options.patience = 50ms;
    auto one = make(std::exchange(options, {}));
    held->hold(true);
    block_memory from(1, 1000, 0, device), to(1, 1000, 0, device);
    const auto of_others = std::make_shared<answers<std::string>>();
    held->copy(from.regions(), to.regions(), copier_beside::urgency::bulk,
               [of_others](std::string error) { of_others->put(std::move(error)); });
    answers<int> gone;
    std::thread end([&] {
      one.reset();
      gone.put(1);
    });
    EXPECT_TRUE(gone.next()) << "it waits for the device";
    EXPECT_EQ(of_others->count(), 0U);
    EXPECT_GT(held.use_count(), 1) << "the copier is left to itself";
    held->hold(false);
    end.join();
    EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }));
    EXPECT_EQ(of_others->next().value_or("none"), "");
  }
}

TEST(FabricDeviceEnds, ACopyToTheHostThatIsTooLateIsNotWrittenAndItsMemoryHeldUntilThen) {
  const auto device = std::make_shared<fake_device>();
  const auto copier = std::make_shared<fake_copier>(device);
  device_memory options;
  options.copier = copier;
  options.patience = 100ms;
  block_memory from(1, 100'000, 0, device), to(1, 100'000);
  const auto hub = in_process::make_hub({.device = options});
  const auto a = in_process::make_fabric(hub);
  auto b = in_process::make_fabric(hub);
  const auto keep = std::make_shared<int>(0);
  const auto withdrawn = std::make_shared<answers<int>>();
  copier->hold(true);
  post(*b, {1, 1}, to.regions(), keep);
  const auto sent = send(*a, b->address(), {1, 1}, 0, from.regions());
  ASSERT_TRUE(eventually([&] { return copier->waiting() != 0; }));
  b->withdraw({1, 1}, [withdrawn] { withdrawn->put(1); });
  b.reset(); // goes without the copy
  EXPECT_EQ(withdrawn->count(), 1U) << "no write can land any more";
  EXPECT_GT(keep.use_count(), 1);
  to.poison(0xEE);
  copier->hold(false);
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
  EXPECT_TRUE(to.all(0xEE));
  EXPECT_NE(sent->next().value_or(""), "");
}

/// Has no memory to begin so many copies with.
class copier_short_of_memory final : public copier_beside {
public:
  using copier_beside::copier_beside;
  void gather(std::vector<region> from, region into, urgency how, completion done) override {
    begin();
    copier_beside::gather(std::move(from), into, how, std::move(done));
  }
  void scatter(region from, std::vector<region> into, urgency how, completion done) override {
    begin();
    copier_beside::scatter(from, std::move(into), how, std::move(done));
  }
  void copy(std::vector<region> from, std::vector<region> into, urgency how, completion done) override {
    begin();
    copier_beside::copy(std::move(from), std::move(into), how, std::move(done));
  }
  std::atomic<int> short_for{0};

private:
  void begin() {
    if (short_for > 0 && short_for-- > 0) throw std::bad_alloc();
  }
};

TEST(FabricDeviceEnds, ACopyThatCannotBeginFailsItsTransferAndHoldsUpNobody) {
  for (const int kind : {0, 1, 2}) {
    SCOPED_TRACE(kind);
    const auto device = std::make_shared<fake_device>();
    const auto copier = std::make_shared<copier_short_of_memory>(std::make_shared<fake_copier>(device));
    device_memory options;
    options.copier = copier;
    options.patience = 60s; // of which nothing is needed
    block_memory from(1, 100'000, 0, kind != 0 ? device : nullptr), to(1, 100'000, 0, kind != 1 ? device : nullptr);
    const auto hub = in_process::make_hub({.device = options});
    auto a = in_process::make_fabric(hub), b = in_process::make_fabric(hub);
    for (std::uint32_t i = 1; i <= 6; ++i) { // more than there may be at a time
      copier->short_for = 1;
      const auto landed = post(*b, {i, 1}, to.regions());
      EXPECT_EQ(send(*a, b->address(), {i, 1}, 0, from.regions())->next().value_or(""), "std::bad_alloc");
      EXPECT_EQ(landed->next().value_or(landing{}).error, "std::bad_alloc");
      EXPECT_TRUE(withdraw(*b, {i, 1}));
    }
    post(*b, {7, 1}, to.regions());
    EXPECT_EQ(send(*a, b->address(), {7, 1}, 0, from.regions())->next().value_or("none"), "");
    const auto before = std::chrono::steady_clock::now();
    a.reset();
    b.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
  }
}

} // namespace
} // namespace godwit::transport::testing
