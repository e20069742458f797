#include "device/resident_adapters.hpp"

#include <godwit/gpu/event.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace godwit::gpu {
namespace {

using namespace std::chrono_literals;
using protocols::adapter_ref;
using ::testing::HasSubstr;

adapter_ref named(std::uint64_t id) { return {"a" + std::to_string(id), id}; }

/// Adapters of 10 bytes each, unless `bytes` says otherwise, whose making waits while `gate` is locked.
class ResidentAdapters : public ::testing::Test {
protected:
  std::unique_ptr<resident_adapters> make(std::uint64_t bytes_max) {
    resident_adapters::source from;
    from.measure = [this](const adapter_ref& which) {
      if (which.id == 66) throw std::runtime_error("66 is broken");
      return bytes(which.id);
    };
    from.make = [this](const adapter_ref& which) -> std::shared_ptr<const void> {
      const std::lock_guard lock(gate);
      ++made;
      if (which.id == 67) throw adapter_not_now("not now");
      if (which.id == 68) throw std::bad_alloc();
      return std::make_shared<const std::uint64_t>(which.id);
    };
    return std::make_unique<resident_adapters>(bytes_max, std::move(from));
  }
  struct answer {
    std::promise<adapter_outcome> promise;
    std::future<adapter_outcome> future = promise.get_future();
    std::shared_ptr<const void> asker = std::make_shared<const bool>(true);
    [[nodiscard]] bool comes_within(std::chrono::milliseconds time) {
      return future.wait_for(time) == std::future_status::ready;
    }
    adapter_outcome get() { return future.get(); }
  };
  static std::shared_ptr<answer> ask(resident_adapters& store, std::uint64_t id) {
    auto out = std::make_shared<answer>();
    store.load(named(id), out->asker, [out](adapter_outcome what) { out->promise.set_value(std::move(what)); });
    return out;
  }

  std::function<std::uint64_t(std::uint64_t)> bytes = [](std::uint64_t) { return 10U; };
  std::mutex gate;
  std::atomic<int> made = 0;
};

TEST_F(ResidentAdapters, ComeOnceForAllWhoAskForThem) {
  const auto store = make(100);
  std::vector<std::shared_ptr<answer>> all;
  {
    const std::lock_guard slow(gate);
    for (int i = 0; i < 5; ++i) all.push_back(ask(*store, 1));
  }
  for (const auto& one : all) {
    const auto outcome = one->get();
    EXPECT_EQ(outcome.error, "");
    EXPECT_NE(outcome.held, nullptr);
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(store->counts().loads_total, 1U);
}

// A request for a large one must not keep those for others waiting, nor one whose request has gone.
TEST_F(ResidentAdapters, OneThatFindsNoRoomHoldsNobodyUp) {
  bytes = [](std::uint64_t id) { return id == 9 ? 95U : 10U; };
  const auto store = make(100);
  auto held = ask(*store, 1)->get();
  auto large = ask(*store, 9);
  EXPECT_EQ(ask(*store, 2)->get().error, "") << "beside the first";
  EXPECT_FALSE(large->comes_within(50ms)) << "the first one is held";
  EXPECT_NE(store->find(1), nullptr);
  large->asker.reset();
  EXPECT_EQ(ask(*store, 3)->get().error, "");
  held.held.reset();
  EXPECT_FALSE(large->comes_within(50ms)) << "nobody waits for it any more";
  EXPECT_EQ(store->find(9), nullptr);
}

TEST_F(ResidentAdapters, FailuresSayWhetherTheyPass) {
  const auto store = make(100);
  bytes = [](std::uint64_t id) { return id == 65 ? 101U : 10U; };
  const auto broken = ask(*store, 66)->get();
  EXPECT_EQ(broken.error, "66 is broken");
  EXPECT_FALSE(broken.passes);
  EXPECT_TRUE(ask(*store, 67)->get().passes);
  EXPECT_TRUE(ask(*store, 68)->get().passes);
  EXPECT_THAT(ask(*store, 65)->get().error, HasSubstr("more than the 100"));
  EXPECT_EQ(store->counts().failures_total, 4U);
  EXPECT_EQ(store->counts().bytes, 0U) << "room that was taken for them is free";
  EXPECT_EQ(ask(*store, 1)->get().error, "");
}

TEST_F(ResidentAdapters, TooManyWhoWaitAreTurnedAwayForTheMoment) {
  const auto store = make(100);
  std::vector<std::shared_ptr<answer>> all;
  std::shared_ptr<answer> more;
  {
    const std::lock_guard slow(gate);
    for (int i = 0; i < 4096; ++i) all.push_back(ask(*store, static_cast<std::uint64_t>(1 + i % 3)));
    more = ask(*store, 5);
    ASSERT_TRUE(more->comes_within(0ms));
  }
  const auto outcome = more->get();
  EXPECT_TRUE(outcome.passes);
  EXPECT_EQ(outcome.held, nullptr);
  for (const auto& one : all) EXPECT_EQ(one->get().error, "");
}

TEST_F(ResidentAdapters, MayEndBeforeThoseWhoHoldThem) {
  auto store = make(100);
  auto held = ask(*store, 1)->get();
  bytes = [](std::uint64_t) { return 95U; };
  const auto waits = ask(*store, 2);
  store.reset();
  EXPECT_FALSE(waits->comes_within(0ms)) << "nobody is told anything";
  held.held.reset();
}

// The last who has a store may be told something on its own thread.
TEST_F(ResidentAdapters, MayEndOnTheirOwnThread) {
  auto store = std::shared_ptr<resident_adapters>(make(100));
  const auto asker = std::make_shared<const bool>(true);
  const event ended;
  {
    const std::lock_guard slow(gate);
    auto* const raw = store.get();
    raw->load(named(1), asker, [own = std::move(store), ended](const adapter_outcome&) mutable {
      own.reset();
      ended.set();
    });
  }
  ended.wait();
}

TEST_F(ResidentAdapters, ManyThreadsAskAndLetGo) {
  bytes = [](std::uint64_t id) { return 10 * (1 + id % 5); };
  const auto store = make(100);
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 draw(t);
      std::vector<std::shared_ptr<const void>> held;
      for (int i = 0; i < 300; ++i) {
        auto one = ask(*store, 1 + draw() % 12);
        if (draw() % 4 == 0)
          one->asker.reset(); // gives up
        else if (one->comes_within(2ms)) {
          auto outcome = one->get();
          if (outcome.held) {
            ++got;
            held.push_back(std::move(outcome.held));
          }
        }
        if (held.size() > draw() % 3) held.erase(held.begin());
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(got, 100);
  EXPECT_LE(store->counts().bytes, 100U);
  EXPECT_EQ(ask(*store, 4)->get().error, "") << "nobody holds what is there";
}

} // namespace
} // namespace godwit::gpu
