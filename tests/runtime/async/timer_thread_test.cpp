#include <godwit/runtime/async/timer_thread.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

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
