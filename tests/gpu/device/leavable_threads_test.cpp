#include "device/leavable_threads.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace godwit::gpu {
namespace {

using namespace std::chrono_literals;

TEST(LeavableThreads, AreWaitedForUntilAllHaveEnded) {
  leavable_threads threads;
  EXPECT_EQ(threads.join(0s), 0U);
  const auto owned = std::make_shared<int>(0);
  std::promise<void> go;
  const auto may = go.get_future().share();
  for (int i = 0; i < 3; ++i) threads.start([owned, may] { may.wait(); });
  EXPECT_EQ(threads.join(1ms), 3U);
  go.set_value();
  EXPECT_EQ(threads.join(1min), 0U);
  EXPECT_EQ(owned.use_count(), 1) << "what they own has gone with them";
}

TEST(LeavableThreads, ThatNeverEndAreLeftWithWhatTheyOwn) {
  std::promise<void> ends_after_all;
  std::weak_ptr<int> kept;
  {
    leavable_threads threads;
    const auto owned = std::make_shared<int>(7);
    kept = owned;
    threads.start([owned, may = ends_after_all.get_future().share()] { may.wait(); });
    threads.start([] {});
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(threads.join(20ms), 1U);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  }
  EXPECT_FALSE(kept.expired());
  ends_after_all.set_value(); // for who looks for leaks
  for (const auto until = std::chrono::steady_clock::now() + 30s;
       !kept.expired() && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(kept.expired());
}

TEST(LeavableThreads, DoOnePieceOfWorkWithinAPatience) {
  auto owned = std::make_shared<int>(7);
  const std::weak_ptr<int> kept = owned;
  EXPECT_TRUE(ends_within(1min, [owned = std::move(owned)] {}));
  EXPECT_TRUE(kept.expired());
  std::promise<void> go;
  EXPECT_FALSE(ends_within(1ms, [may = go.get_future().share()] { may.wait(); }));
  go.set_value();
}

} // namespace
} // namespace godwit::gpu
