#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using caller_interface = interface<number(poke)>;

/// Waits once for a completion that the test's function starts.
class caller final : public actor<caller_interface> {
public:
  using starter = std::function<void(completer<std::string>)>;
  caller(actor_context context, starter how, std::chrono::nanoseconds timeout, std::atomic<int>& live)
      : actor(context), how_(std::move(how)), timeout_(timeout), live_(live) {}
  behavior_of<caller_interface> make_behavior() override {
    return {[this](poke) { return respond(run()); }};
  }

private:
  async::task<async::expected<number>> run() {
    const probe p{live_};
    auto text = co_await callback<std::string>(timeout_, [this](completer<std::string> c) { how_(std::move(c)); });
    if (!text) co_return text.error();
    co_return number{static_cast<std::int64_t>(text->size())};
  }
  starter how_;
  std::chrono::nanoseconds timeout_;
  std::atomic<int>& live_;
};

TEST(Callback, ResumesTheActorFromAnotherThread) {
  std::atomic<int> live{0};
  actor_system host;
  std::vector<std::thread> threads;
  auto c = host.spawn<caller>([&](completer<std::string> done) { threads.emplace_back([done] { done("four"); }); }, 0ns,
                              live);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*host.ask(c, 5s, poke{}), number{4});
  for (auto& t : threads) t.join();
  EXPECT_EQ(live, 0);
}

TEST(Callback, MayBeCalledBeforeTheCoroutineHasSuspended) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  auto c = host.spawn<caller>([](completer<std::string> done) { done("now"); }, 0ns, live);
  EXPECT_EQ(*host.ask(c, 1s, poke{}), number{3});
}

TEST(Callback, OnlyTheFirstCallCounts) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  auto c = host.spawn<caller>(
      [](completer<std::string> done) {
        const auto copy = done;
        copy("one");
        done("twice");
      },
      0ns, live);
  EXPECT_EQ(*host.ask(c, 1s, poke{}), number{3});
  EXPECT_EQ(*host.ask(c, 1s, poke{}), number{3});
}

TEST(Callback, ACompleterThatIsDroppedEndsTheWait) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  auto c = host.spawn<caller>([](completer<std::string>) {}, 0ns, live);
  EXPECT_EQ(host.ask(c, 1s, poke{}).error().code, error_code::aborted);
}

TEST(Callback, CanFail) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  auto c = host.spawn<caller>(
      [](completer<std::string> done) {
        done.fail(async::error{error_code::refused, "busy"});
      },
      0ns, live);
  EXPECT_EQ(host.ask(c, 1s, poke{}).error(), (async::error{error_code::refused, "busy"}));
}

TEST(Callback, HasATimeoutWhereOneIsGivenAndALateCallFindsNobody) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  std::vector<completer<std::string>> held;
  auto c = host.spawn<caller>([&](completer<std::string> done) { held.push_back(std::move(done)); }, 10ms, live);
  EXPECT_EQ(host.ask(c, 1s, poke{}).error().code, error_code::timeout);
  EXPECT_EQ(world.now(), 10ms);
  held.front()("late");
  EXPECT_EQ(host.ask(c, 1s, poke{}).error().code, error_code::timeout);
}

TEST(Callback, AfterTheActorsDeathDoesNothing) {
  std::atomic<int> live{0};
  std::optional<completer<std::string>> held;
  {
    actor_system host;
    std::thread late;
    {
      std::promise<void> taken; // which may be after the asker has given up
      auto c = host.spawn<caller>(
          [&](completer<std::string> done) {
            held.emplace(std::move(done));
            taken.set_value();
          },
          0ns, live);
      EXPECT_EQ(host.ask(c, 20ms, poke{}).error().code, error_code::timeout);
      ASSERT_EQ(taken.get_future().wait_for(30s), std::future_status::ready);
      host.stop(c);
      EXPECT_TRUE(host.wait_until_empty(30s));
    }
    late = std::thread{[&, copy = *held] { copy("too late"); }};
    late.join();
  }
  held->fail(async::error{}); // after its system's death too
  held.reset();
  EXPECT_EQ(live, 0);
}

TEST(Callback, ASimulatedDeviceCompletesInVirtualTime) {
  std::atomic<int> live{0};
  sim::world world{1};
  sim::system host{world};
  auto c = host.spawn<caller>(
      [&](completer<std::string> done) { world.timers().call_after(7ms, [done] { done("device"); }); }, 0ns, live);
  EXPECT_EQ(*host.ask(c, 1s, poke{}), number{6});
  EXPECT_EQ(world.now(), 7ms);
}

/// Hands a closure with captures of its own to a wait, by name.
class capturing final : public actor<caller_interface> {
public:
  using actor::actor;
  behavior_of<caller_interface> make_behavior() override {
    return {[this](poke) { return respond(run()); }};
  }

private:
  async::task<number> run() {
    std::int64_t sum = 0;
    for (int i = 0; i < 3; ++i) {
      auto owned = std::make_shared<std::string>(50, 'x');
      auto join = [owned, more = std::string(40, 'y')](completer<std::string> done) { done(*owned + more); };
      auto text = co_await callback<std::string>(join);
      sum += text ? static_cast<std::int64_t>(text->size()) : -1000;
      auto give = [owned, more = std::string(40, 'z')](completer<std::string> done) { done(more); };
      auto first = co_await async::race(callback<std::string>(give), sleep_for(1s));
      sum += first.index() == 0 && first.get<0>() ? static_cast<std::int64_t>(first.get<0>()->size()) : -1000;
      sum += owned.use_count() == 3 ? 0 : -1000;
    }
    co_return number{sum};
  }
};

// g++ 12 frees the captures of a closure temporary in a co_await expression twice, as it does with aggregates;
// `callback` refuses such temporaries and takes closures by name.
TEST(Callback, AClosuresCapturesAreFreedOnce) {
  sim::world world{1};
  sim::system host{world};
  EXPECT_EQ(*host.ask(host.spawn<capturing>(), 5s, poke{}), number{3 * (90 + 40)});
}

} // namespace
} // namespace godwit::runtime::test
