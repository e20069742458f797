// Timers of a process that stood still, or whose clock jumped: each that is overdue comes once, in order, and what sets
// itself anew does not make up for what it missed.
#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

namespace godwit::runtime::test {
namespace {

using std::chrono::nanoseconds;
using call = std::pair<int, nanoseconds>; ///< which, and when by the world's clock

class Standstill : public ::testing::Test {
protected:
  /// A timer of the process that notes its delay.
  void set_timer(int delay_ms, int name) {
    system.timers().call_after(std::chrono::milliseconds(delay_ms), [this, name] { note(name); });
  }
  void note(int name) { calls.emplace_back(name, world.now()); }
  /// Every 10 ms.
  void beat() {
    system.timers().call_after(10ms, [this] {
      note(0);
      beat();
    });
  }
  void stand_still(nanoseconds how_long) {
    system.freeze();
    world.run_for(how_long);
    system.thaw();
  }
  std::vector<call> calls;
  sim::world world{1};
  sim::system system{world};
};

TEST_F(Standstill, OverdueTimersComeOnceEachByTheirTimeAndThenAsTheyWereSet) {
  set_timer(30, 4);
  set_timer(10, 1);
  set_timer(20, 2);
  set_timer(20, 3);
  set_timer(150, 5); // not due
  stand_still(100ms);
  EXPECT_TRUE(calls.empty());
  world.run_for(10ms);
  EXPECT_EQ(calls, (std::vector<call>{{1, 100ms}, {2, 100ms}, {3, 100ms}, {4, 100ms}}));
  world.run_for(1s);
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_EQ(calls.back(), call(5, 150ms));
}

TEST_F(Standstill, ATimerThatIsOverdueCanStillBeCancelled) {
  const auto id = system.timers().call_after(10ms, [this] { note(0); });
  stand_still(100ms);
  EXPECT_TRUE(system.timers().cancel(id));
  EXPECT_FALSE(system.timers().cancel(id));
  world.run_for(1s);
  EXPECT_TRUE(calls.empty());
}

TEST_F(Standstill, WhatAClockJumpsOverComesAtOnceInOrderAndTheRestEarlierByThat) {
  set_timer(30, 3);
  set_timer(10, 1);
  set_timer(20, 2);
  set_timer(1000, 4);
  world.run_for(5ms);
  system.jump_clock(500ms);
  world.run_for(1s);
  EXPECT_EQ(calls, (std::vector<call>{{1, 5ms}, {2, 5ms}, {3, 5ms}, {4, 500ms}}));
}

TEST_F(Standstill, ABeatGoesOnAndDoesNotMakeUpForWhatItMissed) {
  beat();
  world.run_for(25ms);
  stand_still(100ms);
  world.run_for(25ms);
  EXPECT_EQ(calls, (std::vector<call>{{0, 10ms}, {0, 20ms}, {0, 125ms}, {0, 135ms}, {0, 145ms}}));
}

TEST_F(Standstill, NorForWhatItsClockJumpedOver) {
  beat();
  world.run_for(25ms);
  system.jump_clock(100ms);
  world.run_for(25ms);
  EXPECT_EQ(calls, (std::vector<call>{{0, 10ms}, {0, 20ms}, {0, 25ms}, {0, 35ms}, {0, 45ms}}));
}

/// Sleeps for as many milliseconds as each number says, for all at a time, and for 10 again and again once it is poked.
using sleeper_interface = interface<void(number), void(poke)>;
class sleeper final : public actor<sleeper_interface> {
public:
  sleeper(actor_context context, std::vector<call>& woken) : actor(context), woken_(woken) {}
  behavior_of<sleeper_interface> make_behavior() override {
    return {[this](number n) { start(sleep(n.value)); }, [this](poke) { start(beat()); }};
  }

private:
  async::task<void> sleep(std::int64_t ms) {
    co_await sleep_for(std::chrono::milliseconds(ms));
    woken_.emplace_back(static_cast<int>(ms), now());
  }
  async::task<void> beat() {
    for (;;) {
      co_await sleep_for(10ms);
      woken_.emplace_back(0, now());
    }
  }
  std::vector<call>& woken_;
};

TEST_F(Standstill, AnActorsSleepsThatAreOverEndOnceEachInTheirOrder) {
  const auto who = system.spawn<sleeper>(calls);
  for (const int ms : {30, 10, 150, 20}) system.tell(who, number{ms});
  world.run_for(1us); // it sleeps
  stand_still(100ms);
  world.run_for(10ms);
  const auto then = nanoseconds(100ms) + 1us;
  EXPECT_EQ(calls, (std::vector<call>{{10, then}, {20, then}, {30, then}}));
  world.run_for(1s);
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls.back(), call(150, 150ms));
}

TEST_F(Standstill, AnActorThatSleepsAgainAndAgainWakesOnceForAllThatItMissed) {
  const auto who = system.spawn<sleeper>(calls);
  system.tell(who, poke{});
  world.run_for(25ms);
  stand_still(100ms);
  world.run_for(25ms);
  EXPECT_EQ(calls, (std::vector<call>{{0, 10ms}, {0, 20ms}, {0, 125ms}, {0, 135ms}, {0, 145ms}}));
}

} // namespace
} // namespace godwit::runtime::test
