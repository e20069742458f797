#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <thread>

#include <malloc.h>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;

struct note {
  std::vector<std::string> lines;
};

using keeper_interface = interface<void(poke)>;

/// Waits in many ways at once, and notes how it ends.
class keeper final : public actor<keeper_interface> {
public:
  keeper(actor_context context, handle<server_interface> to, std::atomic<int>& live, note& out)
      : actor(context), to_(std::move(to)), live_(live), out_(out) {}
  ~keeper() override { out_.lines.emplace_back("destroyed with " + std::to_string(live_)); }
  behavior_of<keeper_interface> make_behavior() override {
    start(ask_for_ever());
    start(race_for_ever());
    start(call_back());
    return {[](poke) {}};
  }
  void on_stop() override { out_.lines.emplace_back("stopping with " + std::to_string(live_)); }

private:
  async::task<void> ask_for_ever() {
    const probe p{live_};
    (void)co_await ask(to_, 1h, question{way::never});
    out_.lines.emplace_back("answered?");
  }
  async::task<void> race_for_ever() {
    const probe p{live_};
    (void)co_await async::race(sleep_for(1h), ask(to_, 1h, question{way::never}));
    out_.lines.emplace_back("raced?");
  }
  async::task<void> call_back() {
    const probe p{live_};
    (void)co_await callback<int>([this](completer<int> c) { held_.emplace(std::move(c)); });
    out_.lines.emplace_back("called?");
  }
  handle<server_interface> to_;
  std::atomic<int>& live_;
  note& out_;
  std::optional<completer<int>> held_;
};

TEST(Lifetime, OnStopComesFirstThenTheFramesThenTheActor) {
  for (const auto reason : {stop_reason::shutdown, stop_reason::killed}) {
    std::atomic<int> live{0};
    std::atomic<int> server_live{0};
    note out;
    sim::world world{5};
    sim::system host{world};
    auto s = host.spawn<server>(server_live);
    auto k = host.spawn<keeper>(s, live, out);
    world.run_for(10ms);
    EXPECT_EQ(live, 3);
    host.stop(k, reason);
    world.run_for(10ms);
    EXPECT_EQ(out.lines, (std::vector<std::string>{"stopping with 3", "destroyed with 0"}));
    EXPECT_EQ(live, 0);
    EXPECT_EQ(host.alive(), 1U);
  }
}

TEST(Lifetime, AnActorLivesWithoutAnybodyHoldingItsHandle) {
  std::atomic<int> live{0};
  note out;
  sim::world world{5};
  sim::system host{world};
  host.spawn<keeper>(host.spawn<server>(live), live, out);
  world.run_for(1s);
  EXPECT_EQ(host.alive(), 2U);
  EXPECT_TRUE(out.lines.empty());
}

TEST(Lifetime, TheSystemsEndDestroysEveryFrame) {
  std::atomic<int> live{0};
  note out;
  {
    sim::world world{5};
    sim::system host{world};
    for (int i = 0; i < 50; ++i) host.spawn<keeper>(host.spawn<server>(live), live, out);
    world.run_for(1ms);
    EXPECT_EQ(live, 50 * (3 + 2));
  }
  EXPECT_EQ(live, 0);
}

TEST(Lifetime, TheLongestWaitForTheLastActorThatThereIsEndsWithIt) {
  std::atomic<int> live{0};
  actor_system host;
  const auto s = host.spawn<server>(live);
  std::thread later{[&] {
    std::this_thread::sleep_for(20ms); // while the other one waits
    host.stop(s);
  }};
  EXPECT_TRUE(host.wait_until_empty(std::chrono::milliseconds::max()));
  later.join();
}

/// Asks once, and ends.
class passer_by final : public actor<keeper_interface> {
public:
  passer_by(actor_context context, handle<server_interface> whom) : actor(context), whom_(std::move(whom)) {}
  behavior_of<keeper_interface> make_behavior() override {
    monitor(whom_, [](stop_reason) {});
    start(ask_and_go());
    return {[](poke) {}};
  }

private:
  async::task<void> ask_and_go() {
    (void)co_await ask(whom_, 1s, question{question::way::value});
    quit();
  }
  handle<server_interface> whom_;
};

TEST(Lifetime, ALongLivedActorDoesNotRememberThoseWhoAskedItAndEnded) {
  std::atomic<int> live{0};
  sim::world world{5};
  sim::system host{world};
  const auto s = host.spawn<server>(live);
  const auto pass_by = [&](int count) {
    for (int i = 0; i < count; ++i) {
      host.spawn<passer_by>(s);
      world.run_for(1ms);
    }
    EXPECT_EQ(host.alive(), 1U);
    return ::mallinfo2().uordblks;
  };
  const auto before = pass_by(1000);
  const auto after = pass_by(5000);
  EXPECT_LT(after, before + 5000 * 16) << "bytes are held for each of them";
}

class watcher final : public actor<keeper_interface> {
public:
  watcher(actor_context context, handle<server_interface> whom, std::vector<stop_reason>& seen, bool give_up)
      : actor(context), whom_(std::move(whom)), seen_(seen), give_up_(give_up) {}
  behavior_of<keeper_interface> make_behavior() override {
    monitor(whom_, [this](stop_reason why) { seen_.push_back(why); });
    const auto second = monitor(whom_, [this](stop_reason why) { seen_.push_back(why); });
    if (give_up_) demonitor(second);
    return {[](poke) {}};
  }

private:
  handle<server_interface> whom_;
  std::vector<stop_reason>& seen_;
  bool give_up_;
};

TEST(Monitor, TellsWhyAnActorEndedOnceForEachThatAsked) {
  std::atomic<int> live{0};
  std::vector<stop_reason> seen;
  sim::world world{9};
  sim::system host{world};
  auto s = host.spawn<server>(live);
  host.spawn<watcher>(s, seen, false);
  host.spawn<watcher>(s, seen, true);
  world.run();
  host.stop(s, stop_reason::killed);
  world.run();
  EXPECT_EQ(seen, std::vector<stop_reason>(3, stop_reason::killed));
  // one that is dead already is reported too
  host.spawn<watcher>(s, seen, true);
  world.run();
  EXPECT_EQ(seen.size(), 4U);
}

class linked final : public actor<keeper_interface> {
public:
  linked(actor_context context, handle<server_interface> whom) : actor(context), whom_(std::move(whom)) {}
  behavior_of<keeper_interface> make_behavior() override {
    link(whom_);
    return {[this](poke) { quit(stop_reason::failed); }};
  }

private:
  handle<server_interface> whom_;
};

TEST(Link, EndsOneWithTheOther) {
  std::atomic<int> live{0};
  sim::world world{9};
  sim::system host{world};
  auto s = host.spawn<server>(live);
  auto l = host.spawn<linked>(s);
  world.run();
  host.tell(l, poke{});
  world.run();
  EXPECT_EQ(host.alive(), 0U);
}

struct stubborn final : actor<keeper_interface> {
  explicit stubborn(actor_context c) : actor(c) {}
  behavior_of<keeper_interface> make_behavior() override { throw std::runtime_error("cannot start"); }
};

TEST(Lifetime, AnActorThatCannotStartEndsAndSaysSo) {
  sim::world world{9};
  sim::system_settings settings;
  std::vector<std::string> reports;
  settings.report = [&](std::string_view, std::string_view text) { reports.emplace_back(text); };
  sim::system host{world, settings};
  auto s = host.spawn<stubborn>();
  EXPECT_EQ(host.ask(s, 1s, poke{}).error().code, error_code::down);
  EXPECT_EQ(host.alive(), 0U);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].find("cannot start"), std::string::npos);
}

struct unmade final : actor<keeper_interface> {
  explicit unmade(actor_context c) : actor(c) { throw std::runtime_error("no"); }
  behavior_of<keeper_interface> make_behavior() override {
    return {[](poke) {}};
  }
};

TEST(Lifetime, AConstructorsExceptionReachesTheSpawner) {
  actor_system host;
  EXPECT_THROW(host.spawn<unmade>(), std::runtime_error);
  EXPECT_EQ(host.alive(), 0U);
}

TEST(ActorSystem, EndsInBoundedTimeWithAskersAndSleepersAndTimers) {
  std::atomic<int> live{0};
  const auto begin = std::chrono::steady_clock::now();
  {
    actor_system host;
    for (int i = 0; i < 20; ++i) {
      auto s = host.spawn<server>(live);
      auto r = host.spawn<relay>(s, live);
      host.tell(r, question{way::never});
      host.tell(s, question{way::nested_never});
    }
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_EQ(live, 0);
}

TEST(ActorSystem, HandlesOutliveIt) {
  std::atomic<int> live{0};
  handle<server_interface> s;
  {
    actor_system host;
    s = host.spawn<server>(live);
    EXPECT_TRUE(host.ask(s, 1s, question{way::value}));
  }
  const auto copy = s;
  EXPECT_TRUE(copy == s);
  actor_system other;
  EXPECT_EQ(other.ask(other.spawn<relay>(copy, live), 5s, question{way::value}).error().code, error_code::down);
}

TEST(ActorSystem, SeveralLiveInOneProcess) {
  std::atomic<int> live{0};
  actor_system a;
  actor_system b;
  auto x = a.spawn<server>(live);
  auto y = b.spawn<server>(live);
  EXPECT_EQ(*a.ask(x, 1s, question{way::value, 1}), number{1});
  EXPECT_EQ(*b.ask(y, 1s, question{way::value, 2}), number{2});
}

TEST(ActorSystem, SurvivesActorsThatComeAndGoFromManyThreads) {
  std::atomic<int> live{0};
  std::atomic<int> answers{0};
  {
    actor_system host;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          auto s = host.spawn<server>(live);
          auto r = host.spawn<relay>(s, live);
          host.tell(r, question{way::nested_never});
          if (host.ask(r, 5s, question{i % 2 == 0 ? way::value : way::coroutine, i})) ++answers;
          host.stop(s, i % 2 == 0 ? stop_reason::killed : stop_reason::shutdown);
          host.stop(r);
        }
      });
    for (auto& t : threads) t.join();
    EXPECT_TRUE(host.wait_until_empty(5s));
  }
  EXPECT_EQ(answers, 400);
  EXPECT_EQ(live, 0);
}

} // namespace
} // namespace godwit::runtime::test
