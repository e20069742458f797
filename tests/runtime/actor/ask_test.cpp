#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <mutex>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;
using std::chrono::nanoseconds;

/// The same claims hold on threads and in a simulated world.
class threads {
public:
  template <class... Args> auto ask(Args&&... args) { return host.ask(std::forward<Args>(args)...); }
  std::mutex mutex;
  std::vector<std::string> reports;
  // Ends first: an actor may report after it has answered.
  actor_system host{[&] {
    actor_system_settings s;
    s.report = [this](std::string_view, std::string_view text) {
      const std::lock_guard lock{mutex};
      reports.emplace_back(text);
    };
    return s;
  }()};
};
class simulated {
public:
  template <class... Args> auto ask(Args&&... args) { return host.ask(std::forward<Args>(args)...); }
  sim::world world{1};
  std::vector<std::string> reports;
  sim::system host{world, [&] {
                     sim::system_settings s;
                     s.report = [this](std::string_view, std::string_view text) { reports.emplace_back(text); };
                     return s;
                   }()};
};

template <class Host> class Ask : public ::testing::Test {
public:
  std::atomic<int> live{0};
  Host system;
};
using hosts = ::testing::Types<threads, simulated>;
TYPED_TEST_SUITE(Ask, hosts);

TYPED_TEST(Ask, GivesWhatAHandlerOrItsCoroutineReturns) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live);
  EXPECT_EQ(*this->system.ask(r, 1s, question{way::value, 41}), number{41});
  EXPECT_EQ(*this->system.ask(r, 1s, question{way::coroutine, 41}), number{42});
  EXPECT_EQ(this->live, 0);
}

template <class Reply> using giver_interface = interface<Reply(poke)>;
/// Answers with what its function gives.
template <class Reply, class Give> class giver final : public actor<giver_interface<Reply>> {
public:
  giver(actor_context context, Give give) : actor<giver_interface<Reply>>(context), give_(std::move(give)) {}
  behavior_of<giver_interface<Reply>> make_behavior() override {
    return {[this](poke) { return give_(); }};
  }

private:
  Give give_;
};
template <class Reply, class Host, class Give> async::expected<Reply> answer_of(Host& host, Give give) {
  return host.ask(host.template spawn<giver<Reply, Give>>(std::move(give)), 1s, poke{});
}
template <class T> async::task<T> later(T x) { co_return x; }

// Where the interface says std::int64_t, the handler gives an int; where a handle, one of an actor that understands
// more.
using poke_interface = interface<void(poke)>;
using poked = handle<poke_interface>;

TYPED_TEST(Ask, GivesTheInterfacesTypeWhereAHandlersValueConvertsToIt) {
  auto& host = this->system.host;
  const auto s = host.template spawn<server>(this->live);
  EXPECT_EQ(*answer_of<std::int64_t>(host, [] { return 7; }), 7);
  EXPECT_EQ(*answer_of<poked>(host, [s] { return s; }), poked{s});
}

TYPED_TEST(Ask, GivesTheInterfacesTypeWhereAHandlersExpectedValueConvertsToIt) {
  auto& host = this->system.host;
  const auto s = host.template spawn<server>(this->live);
  EXPECT_EQ(*answer_of<std::int64_t>(host, [] { return async::expected<int>{7}; }), 7);
  EXPECT_EQ(*answer_of<poked>(host, [s] { return async::expected{s}; }), poked{s});
  const auto x = answer_of<std::int64_t>(host, [] {
    return async::expected<int>{async::error{error_code::refused, "none"}};
  });
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error(), (async::error{error_code::refused, "none"}));
}

TYPED_TEST(Ask, GivesTheInterfacesTypeWhereACoroutinesValueConvertsToIt) {
  auto& host = this->system.host;
  const auto s = host.template spawn<server>(this->live);
  EXPECT_EQ(*answer_of<std::int64_t>(host, [] { return later(7); }), 7);
  EXPECT_EQ(*answer_of<poked>(host, [s] { return later(s); }), poked{s});
}

TYPED_TEST(Ask, GivesTheInterfacesTypeWhereACoroutinesExpectedValueConvertsToIt) {
  auto& host = this->system.host;
  const auto s = host.template spawn<server>(this->live);
  EXPECT_EQ(*answer_of<std::int64_t>(host, [] { return later(async::expected<int>{7}); }), 7);
  EXPECT_EQ(*answer_of<poked>(host, [s] { return later(async::expected{s}); }), poked{s});
}

TYPED_TEST(Ask, CarriesAnErrorAsAValue) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live);
  const auto x = this->system.ask(r, 1s, question{way::error});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error(), (async::error{error_code::refused, "not today"}));
}

TYPED_TEST(Ask, AnswersAnExceptionAndReportsItAndTheActorGoesOn) {
  auto s = this->system.host.template spawn<server>(this->live);
  for (const auto how : {way::throws, way::throws_later}) {
    const auto x = this->system.ask(s, 1s, question{how});
    ASSERT_FALSE(x);
    EXPECT_EQ(x.error().code, error_code::failed);
    EXPECT_NE(x.error().message.find("thrown"), std::string::npos);
  }
  EXPECT_EQ(*this->system.ask(s, 1s, question{way::value, 1}), number{1});
  EXPECT_EQ(this->system.reports.size(), 2U);
}

/// A function, not a coroutine: it throws before there is a task.
struct hasty final : actor<interface<number(question)>> {
  using actor::actor;
  behavior_of<interface<number(question)>> make_behavior() override {
    return {[](question&) -> async::task<number> { throw std::runtime_error("thrown before it began"); }};
  }
};

TYPED_TEST(Ask, AnswersAnExceptionBeforeTheFirstTask) {
  const auto x = this->system.ask(this->system.host.template spawn<hasty>(), 1s, question{way::value});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::failed) << to_string(x.error());
  EXPECT_NE(x.error().message.find("thrown before"), std::string::npos);
}

TYPED_TEST(Ask, EndsAtItsTimeout) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live);
  const auto x = this->system.ask(r, 2s, question{way::never});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::timeout);
  EXPECT_EQ(this->live, 1) << "the server's frame goes on, the relay's has ended";
}

// Twice, since a simulated clock begins at 0, to which anything can be added.
TYPED_TEST(Ask, WithTheLongestTimeoutThatThereIsWaits) {
  const auto s = this->system.host.template spawn<server>(this->live);
  const auto r = this->system.host.template spawn<relay>(s, this->live, nanoseconds::max());
  for (int i = 0; i < 2; ++i) {
    const auto x = this->system.ask(s, nanoseconds::max(), question{way::coroutine, 41});
    ASSERT_TRUE(x) << to_string(x.error());
    EXPECT_EQ(*x, number{42});
    EXPECT_EQ(*this->system.ask(r, nanoseconds::max(), slow_question{1ms, 43}), number{43});
  }
}

TYPED_TEST(Ask, FailsAtOnceWhereTheActorIsDead) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live);
  this->system.host.stop(s);
  const auto started = this->system.host.clock().now();
  async::expected<number> x{async::error{}};
  do x = this->system.ask(r, 5s, question{way::value, 1});
  while (x); // until the stop has arrived
  EXPECT_EQ(x.error().code, error_code::down);
  EXPECT_EQ(this->system.ask(s, 5s, question{way::value}).error().code, error_code::down);
  EXPECT_LT(this->system.host.clock().now() - started, 2s);
}

TYPED_TEST(Ask, ANullHandleIsDown) {
  auto r = this->system.host.template spawn<relay>(handle<server_interface>{}, this->live);
  EXPECT_EQ(this->system.ask(r, 5s, question{way::value}).error().code, error_code::down);
  EXPECT_EQ(this->system.ask(handle<server_interface>{}, 5s, question{way::value}).error().code, error_code::down);
}

/// Stops an actor a little later.
class stopper final : public actor<interface<void(poke)>> {
public:
  stopper(actor_context context, handle<server_interface> whom, stop_reason why)
      : actor(context), whom_(std::move(whom)), why_(why) {}
  behavior_of<interface<void(poke)>> make_behavior() override {
    start(later());
    return {[](poke) {}};
  }

  private : async::task<void>
            later() {
    co_await sleep_for(5ms);
    stop(whom_, why_);
    quit();
  }
  handle<server_interface> whom_;
  stop_reason why_;
};

// CAF 0.17 has no broken promise: without the guard in reply_to the asker would wait for its whole timeout.
TYPED_TEST(Ask, IsAnsweredWhenTheActorEndsWhileItsCoroutineWaits) {
  for (const auto reason : {stop_reason::shutdown, stop_reason::killed, stop_reason::normal}) {
    for (const auto how : {way::never, way::nested_never, way::quits_and_waits}) {
      auto s = this->system.host.template spawn<server>(this->live);
      auto r = this->system.host.template spawn<relay>(s, this->live);
      if (how != way::quits_and_waits) this->system.host.template spawn<stopper>(s, reason);
      const auto started = this->system.host.clock().now();
      const auto x = this->system.ask(r, 5s, question{how});
      ASSERT_FALSE(x);
      EXPECT_EQ(x.error().code, error_code::down) << to_string(x.error());
      EXPECT_LT(this->system.host.clock().now() - started, 2s);
    }
  }
  EXPECT_EQ(this->live, 0);
}

// The asker goes while its ask is under way: its own asker is answered, and the answer that comes later finds nobody.
TYPED_TEST(Ask, AnAskerThatQuitsAnswersWhatItOwes) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live);
  auto outer = this->system.host.template spawn<relay>(handle<server_interface>{r.ref()}, this->live);
  this->system.host.template spawn<stopper>(handle<server_interface>{r.ref()}, stop_reason::shutdown);
  const auto x = this->system.ask(outer, 5s, question{way::never});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::down);
}

TYPED_TEST(Ask, ALateAnswerFindsNobody) {
  auto s = this->system.host.template spawn<server>(this->live);
  auto r = this->system.host.template spawn<relay>(s, this->live, 1s);
  // the relay gives up after 1 s; the answer comes at 1.2 s, when the wait's slot serves another question
  EXPECT_EQ(this->system.ask(r, 30s, slow_question{1200ms, 1}).error().code, error_code::timeout);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(*this->system.ask(r, 30s, slow_question{10ms, 100 + i}), number{100 + i});
}

TYPED_TEST(Ask, OfATellIsAnsweredWhenHandled) {
  auto s = this->system.host.template spawn<server>(this->live);
  EXPECT_TRUE(this->system.ask(s, 1s, poke{}));
}

TYPED_TEST(Ask, HandlesManyWaitsAtOnceWithTimeoutsAmongThem) {
  struct crowd final : actor<interface<number(poke)>> {
    crowd(actor_context c, handle<server_interface> s) : actor(c), to(std::move(s)) {}
    behavior_of<interface<number(poke)>> make_behavior() override {
      return {[this](poke) {
        for (int i = 0; i < 1000; ++i) start(one(i));
        return respond(wait_all());
      }};
    } async::task<void> one(int i) {
      // every tenth is answered too late; the others in time also where the machine is busy
      auto x = co_await ask(to, 2s, slow_question{i % 10 == 0 ? std::chrono::nanoseconds(1h) : 1ms, i});
      if (x && x->value == i) ++good;
      if (!x && x.error().code == error_code::timeout) ++late;
    }
    async::task<number> wait_all() {
      while (good + late < 1000) co_await sleep_for(5ms);
      co_return number{good * 1000 + late};
    }
    handle<server_interface> to;
    int good = 0;
    int late = 0;
  };
  auto s = this->system.host.template spawn<server>(this->live);
  auto c = this->system.host.template spawn<crowd>(s);
  EXPECT_EQ(*this->system.ask(c, 60s, poke{}), number{900'100});
}

TEST(AskInVirtualTime, AnAnsweredAsksTimeoutTakesNoTime) {
  std::atomic<int> live{0};
  sim::world world{3};
  sim::system host{world};
  auto s = host.spawn<server>(live);
  auto r = host.spawn<relay>(s, live); // asks with 500 ms
  EXPECT_TRUE(host.ask(r, 1s, question{way::coroutine}));
  EXPECT_TRUE(world.run());
  EXPECT_EQ(world.now(), 1ms) << "the timeout of the answered ask must have left the clock";
}

TEST(AskInVirtualTime, TimesOutAtTheNanosecond) {
  std::atomic<int> live{0};
  sim::world world{3};
  sim::system host{world};
  auto s = host.spawn<server>(live);
  auto r = host.spawn<relay>(s, live);
  EXPECT_FALSE(host.ask(r, 1s, slow_question{1h, 0}));
  EXPECT_EQ(world.now(), 20ms);
}

/// Tells itself something as late as it can say.
class patient final : public actor<poke_interface> {
public:
  patient(actor_context context, std::vector<nanoseconds>& told) : actor(context), told_(told) {}
  behavior_of<poke_interface> make_behavior() override {
    tell_after(nanoseconds::max(), self(), poke{});
    return {[this](poke) { told_.push_back(now()); }};
  }

private:
  std::vector<nanoseconds>& told_;
};

TEST(TellAfter, TheLongestDelayThatThereIsLastsAYear) {
  std::vector<nanoseconds> told;
  sim::world world{3};
  sim::system host{world};
  world.run_for(5ms);
  host.spawn<patient>(told);
  EXPECT_TRUE(world.run());
  EXPECT_EQ(told, std::vector<nanoseconds>{async::longest_wait + 5ms});
}

} // namespace
} // namespace godwit::runtime::test
