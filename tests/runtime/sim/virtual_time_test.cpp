#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

namespace godwit::runtime::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// The timers of a world against a list that is searched.
TEST(VirtualTime, TimersFireByTimeAndThenInTheOrderInWhichTheyWereSetWhateverIsCancelled) {
  sim::world world{1};
  auto random = world.random(1);
  struct planned {
    nanoseconds due;
    int number;
    timer_source::timer_id id;
  };
  std::vector<planned> list;
  int set = 0;
  int fired = 0;
  std::function<void()> act;
  const auto set_one = [&] {
    const nanoseconds delay{static_cast<std::int64_t>(random.below(5))}; // many at once
    const int number = set++;
    const auto id = world.timers().call_after(delay, [&, number] {
      const auto next = std::min_element(list.begin(), list.end(), [](const planned& a, const planned& b) {
        return a.due != b.due ? a.due < b.due : a.number < b.number;
      });
      ASSERT_NE(next, list.end());
      EXPECT_EQ(next->number, number);
      EXPECT_EQ(next->due, world.now());
      list.erase(next);
      ++fired;
      act();
    });
    list.push_back({world.now() + delay, number, id});
  };
  act = [&] {
    for (auto more = random.below(3); more > 0 && set < 5000; --more) set_one();
    if (list.empty() || random.below(3) != 0) return;
    const auto gone = list.begin() + static_cast<std::ptrdiff_t>(random.below(list.size()));
    EXPECT_TRUE(world.timers().cancel(gone->id));
    EXPECT_FALSE(world.timers().cancel(gone->id));
    list.erase(gone);
  };
  while (set < 5000) {
    for (int i = 0; i < 20; ++i) set_one();
    ASSERT_TRUE(world.run());
    EXPECT_TRUE(list.empty());
  }
  EXPECT_GT(fired, 1000);
}

TEST(VirtualTime, ATimerMayCancelThoseThatAreDueWithIt) {
  sim::world world{1};
  std::vector<timer_source::timer_id> others;
  int fired = 0;
  world.timers().call_after(1ns, [&] {
    ++fired;
    for (const auto id : others) EXPECT_TRUE(world.timers().cancel(id));
  });
  for (int i = 0; i < 10; ++i) others.push_back(world.timers().call_after(1ns, [&] { ++fired; }));
  world.run();
  EXPECT_EQ(fired, 1);
}

TEST(VirtualTime, TheLongestDelayThatThereIsDoesNotEndAtOnce) {
  sim::world world{1};
  sim::system system{world};
  world.run_for(1s);
  std::vector<nanoseconds> fired;
  world.timers().call_after(nanoseconds::max(), [&] { fired.push_back(world.now()); });
  system.timers().call_after(nanoseconds::max(), [&] { fired.push_back(world.now()); });
  world.run();
  EXPECT_EQ(fired, std::vector<nanoseconds>(2, async::longest_wait + 1s));
}

TEST(SimulatedThreadDeathTest, AMessageFromAnotherThreadEndsTheProgramAndNamesBothTheReceiverAndTheMessage) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto tell_from_another = [] {
    std::atomic<int> live{0};
    sim::world world{1};
    sim::system host{world};
    const auto s = host.spawn<server>(live);
    world.run();
    std::thread{[&] { host.tell(s, poke{}); }}.join();
  };
  EXPECT_DEATH(
      tell_from_another(),
      "in a simulated world server got godwit::runtime::test::poke from another thread; devices and fabrics of a "
      "world are gpu::sim and transport::sim");
}

struct nap {
  int number = 0;
  nap() = default;
  explicit nap(int n) : number(n) {}
  auto fields() { return std::tie(number); }
};
using napper_interface = interface<void(nap)>;
class napper final : public actor<napper_interface> {
public:
  napper(actor_context context, std::vector<int>& order) : actor(context), order_(order) {}
  behavior_of<napper_interface> make_behavior() override {
    return {[this](nap n) { start(sleep(n.number)); }};
  }

private:
  async::task<void> sleep(int number) {
    co_await sleep_for(1s);
    order_.push_back(number);
  }
  std::vector<int>& order_;
};

std::vector<int> who_wakes(std::uint64_t seed, int sleepers) {
  std::vector<int> order;
  sim::world world{seed};
  sim::system system{world};
  for (int i = 0; i < sleepers; ++i) system.tell(system.spawn<napper>(order), nap{i});
  world.run();
  EXPECT_EQ(world.now(), 1s);
  return order;
}

TEST(VirtualTime, AThousandActorsThatWakeAtOnceDoSoEachOnceInAnOrderOfTheSeed) {
  const auto order = who_wakes(1, 1000);
  EXPECT_EQ(order.size(), 1000U);
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 1000U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order, who_wakes(1, 1000));
  EXPECT_NE(order, who_wakes(2, 1000));
}

// Where messages take no time, a question within a process is answered before any timer. Where they take some, its
// patience may be over first, and which it is follows from the seed.
TEST(VirtualTime, MessagesThatTakeTimeLetAsksTimeOut) {
  const auto run = [](std::uint64_t seed, nanoseconds work) {
    sim::world world{seed};
    world.spend(work);
    sim::system system{world};
    std::atomic<int> live{0};
    const auto answering = system.spawn<server>(live);
    const auto asking = system.spawn<relay>(answering, live, 5us);
    std::string out;
    for (int i = 0; i < 20; ++i) {
      const auto answer = system.ask(asking, 1s, slow_question{0ns, i});
      out += answer ? 'a' : answer.error().code == async::error_code::timeout ? 't' : '?';
    }
    return out;
  };
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(run(seed, 0ns), std::string(20, 'a'));
    const auto one = run(seed, 4us);
    EXPECT_EQ(one, run(seed, 4us));
    EXPECT_EQ(one.find('?'), std::string::npos);
    seen.insert(one);
  }
  std::string all;
  for (const auto& one : seen) all += one;
  EXPECT_NE(all.find('a'), std::string::npos);
  EXPECT_NE(all.find('t'), std::string::npos);
  EXPECT_GT(seen.size(), 1U);
}

} // namespace
} // namespace godwit::runtime::test
