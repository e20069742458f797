#include <godwit/runtime/async/timer_thread.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>

namespace godwit::runtime::async {
namespace {

using namespace std::chrono_literals;

TEST(TimerThread, CallsInOrderOfTimeAndNotBefore) {
  timer_thread timers;
  std::string out;
  std::promise<std::chrono::nanoseconds> last;
  const auto begin = timers.now();
  timers.call_after(20ms, [&] {
    out += 'c';
    last.set_value(timers.now());
  });
  timers.call_after(1ms, [&] { out += 'a'; });
  timers.call_after(10ms, [&] { out += 'b'; });
  EXPECT_GE(last.get_future().get() - begin, 20ms);
  EXPECT_EQ(out, "abc");
}

TEST(TimerThread, DropsWhatIsCancelledOrLeftOver) {
  std::atomic<int> calls{0};
  {
    timer_thread timers;
    const auto id = timers.call_after(5ms, [&] { ++calls; });
    EXPECT_TRUE(timers.cancel(id));
    EXPECT_FALSE(timers.cancel(id));
    timers.call_after(1h, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
}

// What a function holds may have timers of its own, which it cancels as it goes.
TEST(TimerThread, WhatAFunctionHoldsMayUseTheTimersAsItGoes) {
  struct job {
    timer_thread& timers;
    std::promise<void>& gone;
    ~job() {
      timers.cancel(timers.call_after(1h, [] {}));
      gone.set_value();
    }
  };
  timer_thread timers;
  for (const bool cancelled : {false, true}) {
    std::promise<void> gone;
    auto held = std::make_shared<job>(timers, gone);
    const auto id = timers.call_after(cancelled ? 1h : 0ns, [held] { (void)held; });
    auto ended = gone.get_future();
    held.reset();
    if (cancelled) {
      EXPECT_TRUE(timers.cancel(id));
    }
    ASSERT_EQ(ended.wait_for(20s), std::future_status::ready);
  }
  std::promise<void> gone;
  auto ended = gone.get_future();
  {
    timer_thread left;
    left.call_after(1h, [held = std::make_shared<job>(left, gone)] { (void)held; });
  }
  EXPECT_EQ(ended.wait_for(0s), std::future_status::ready) << "left over";
}

void wait_until_past(const timer_thread& timers, std::chrono::nanoseconds time) {
  while (timers.now() <= time) std::this_thread::sleep_for(1ms);
}

/// Holds up the thread, as a process that is stopped would be, until the time that `meanwhile` returns is past.
template <class Function> void stand_still(timer_thread& timers, Function meanwhile) {
  std::promise<void> held, go_on;
  timers.call_after(0ms, [&held, wait = go_on.get_future().share()] {
    held.set_value();
    wait.get();
  });
  held.get_future().get();
  wait_until_past(timers, meanwhile());
  go_on.set_value();
}

TEST(TimerThread, WhatFellDueWhileItStoodStillIsCalledOnceEachInOrder) {
  std::string out;
  {
    std::promise<void> all;
    timer_thread timers;
    stand_still(timers, [&] {
      timers.call_after(100ms, [&] { out += 'c'; });
      timers.call_after(0ms, [&] { out += 'a'; });
      timers.call_after(50ms, [&] { out += 'b'; });
      timers.call_after(100ms, [&] { all.set_value(); });
      return timers.now() + 100ms;
    });
    all.get_future().get();
  }
  EXPECT_EQ(out, "abc");
}

TEST(TimerThread, WhatIsOverdueCanStillBeCancelled) {
  std::atomic<int> calls{0};
  std::promise<void> later;
  timer_thread timers;
  stand_still(timers, [&] {
    const auto id = timers.call_after(0ms, [&] { ++calls; });
    timers.call_after(0ms, [&] { later.set_value(); });
    const auto due = timers.now();
    wait_until_past(timers, due);
    EXPECT_TRUE(timers.cancel(id));
    return due;
  });
  later.get_future().get();
  EXPECT_EQ(calls, 0);
}

// For want of memory, say: it is no affair of the others'.
TEST(TimerThread, WhatAFunctionThrowsEndsNothing) {
  timer_thread timers;
  std::promise<void> later;
  timers.call_after(0ms, [] { throw std::bad_alloc(); });
  timers.call_after(1ms, [] { throw 7; });
  timers.call_after(2ms, [&] { later.set_value(); });
  EXPECT_EQ(later.get_future().wait_for(20s), std::future_status::ready);
}

TEST(TimerThread, TheLongestDelayThatThereIsDoesNotEndAtOnce) {
  std::atomic<int> calls{0};
  timer_thread timers;
  std::promise<void> later;
  timers.call_after(std::chrono::nanoseconds::max(), [&] { ++calls; });
  timers.call_after(5ms, [&] { later.set_value(); });
  later.get_future().get();
  EXPECT_EQ(calls, 0);
}

TEST(BoundedWait, IsAYearForAllThatIsLonger) {
  EXPECT_EQ(bounded_wait(std::chrono::nanoseconds::max()), longest_wait);
  EXPECT_EQ(bounded_wait(std::chrono::milliseconds::max()), longest_wait);
  EXPECT_EQ(bounded_wait(std::chrono::hours{24 * 366}), longest_wait);
  EXPECT_EQ(bounded_wait(longest_wait - 1ns), longest_wait - 1ns);
  EXPECT_EQ(bounded_wait(7ms), 7ms);
  EXPECT_EQ(bounded_wait(-1ms), -1ms);
}

} // namespace
} // namespace godwit::runtime::async
