#include "ucx/poll_window.hpp"

#include <gtest/gtest.h>

namespace godwit::transport::ucx {
namespace {

using namespace std::chrono_literals;

struct timeline {
  poll_window window{48us};
  poll_window::time now{};
  /// Work begins after `pause`, with a sleep before it where the window was over.
  void work_after(std::chrono::microseconds pause) {
    if (!window.open(now + pause)) window.sleeps();
    now += pause;
    window.worked(now, now);
  }
  [[nodiscard]] bool polls_for(std::chrono::microseconds time) const { return window.open(now + time - 1ns); }
};

TEST(PollWindow, StaysOpenWhileWorkComesInTime) {
  timeline t;
  t.work_after(10us);
  EXPECT_TRUE(t.polls_for(48us));
  EXPECT_FALSE(t.window.open(t.now + 48us));
  t.work_after(40us);
  EXPECT_TRUE(t.polls_for(48us));
}

TEST(PollWindow, PollsLessAfterEachLongSleepAndThenNotAtAll) {
  timeline t;
  t.work_after(1us);
  for (const auto left : {24us, 12us, 6us}) {
    t.work_after(500us);
    EXPECT_TRUE(t.polls_for(left));
    EXPECT_FALSE(t.window.open(t.now + left));
  }
  t.work_after(500us);
  EXPECT_FALSE(t.window.open(t.now));
}

TEST(PollWindow, WorkWithoutASleepBeforeItChangesNothing) {
  timeline t;
  t.work_after(1us);
  t.work_after(500us);
  t.work_after(1us); // the same wake-up
  EXPECT_TRUE(t.polls_for(24us));
  EXPECT_FALSE(t.window.open(t.now + 24us));
}

TEST(PollWindow, OpensAtOnceWhenWorkComesSoonAfterItFellAsleep) {
  timeline t;
  t.work_after(1us);
  for (int i = 0; i < 5; ++i) t.work_after(500us);
  EXPECT_FALSE(t.window.open(t.now));
  t.work_after(80us); // came after 30, and took 50 to wake the thread
  EXPECT_TRUE(t.polls_for(48us));
}

TEST(PollWindow, NoneIsNone) {
  poll_window never{0us};
  const poll_window::time now{1s};
  never.worked(now, now);
  EXPECT_FALSE(never.open(now));
}

} // namespace
} // namespace godwit::transport::ucx
