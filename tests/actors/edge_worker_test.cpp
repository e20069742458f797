#include <godwit/actors/edge_worker.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <thread>

namespace godwit::actors {

TEST(EdgeWorker, DoesOneJobAfterTheOtherOnItsOwnThread) {
  edge_worker worker(8);
  std::promise<std::thread::id> first;
  std::promise<int> second;
  int order = 0;
  ASSERT_TRUE(worker.post([&] { order = 1, first.set_value(std::this_thread::get_id()); }));
  ASSERT_TRUE(worker.post([&] { second.set_value(order + 1); }));
  EXPECT_NE(first.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(second.get_future().get(), 2);
}

TEST(EdgeWorker, GoesOnAfterAJobThatFailed) {
  edge_worker worker(8);
  auto owned = std::make_shared<int>(7);
  std::promise<void> next;
  ASSERT_TRUE(worker.post([owned] { throw std::bad_alloc(); }));
  ASSERT_TRUE(worker.post([&] { next.set_value(); }));
  next.get_future().wait();
  EXPECT_EQ(owned.use_count(), 1) << "what it held is let go";
}

TEST(EdgeWorker, TakesNoMoreThanMayWaitAndDropsWhatHasNotBegunAtItsEnd) {
  std::promise<void> goes_on;
  std::promise<void> began;
  auto owned = std::make_shared<int>(7);
  {
    edge_worker worker(2);
    ASSERT_TRUE(worker.post([&, until = goes_on.get_future().share()] {
      began.set_value();
      until.wait();
    }));
    began.get_future().wait();
    EXPECT_TRUE(worker.post([owned] { ADD_FAILURE() << "it had not begun"; }));
    EXPECT_TRUE(worker.post([owned] { ADD_FAILURE() << "it had not begun"; }));
    EXPECT_FALSE(worker.post([] {}));
    std::thread ender([&] { worker.end(); });
    for (int look = 0; look < 30'000 && owned.use_count() > 1; ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(owned.use_count(), 1) << "dropped before the running one ends";
    goes_on.set_value();
    ender.join();
    EXPECT_FALSE(worker.post([] {}));
  }
  EXPECT_EQ(owned.use_count(), 1);
}

} // namespace godwit::actors
