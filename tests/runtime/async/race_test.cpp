#include <godwit/runtime/async/abort.hpp>
#include <godwit/runtime/async/race.hpp>
#include <godwit/runtime/async/scope.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::runtime::async {
namespace {

task<int> wait_for(abort_token token, int value, int& live) {
  struct counted {
    explicit counted(int& n) : count(&n) { ++*count; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { --*count; }
    int* count;
  } c{live};
  co_await token.wait();
  co_return value;
}

task<std::string> now(std::string text) { co_return text; }

TEST(Race, GivesTheFirstAndDestroysTheLosersBeforeItReturns) {
  scope owner;
  abort_source a{owner};
  abort_source b{owner};
  int live = 0;
  std::size_t index = 9;
  int value = 0;
  int live_after = -1;
  auto body = [&](abort_token x, abort_token y) -> task<void> {
    auto first = co_await race(wait_for(x, 1, live), wait_for(y, 2, live), y.wait());
    index = first.index();
    value = first.index() == 1 ? first.get<1>() : -1;
    live_after = live;
  };
  owner.start(body(a.token(), b.token()), [](outcome<void> o) { EXPECT_FALSE(o.failure); });
  EXPECT_EQ(live, 2);
  b.abort();
  EXPECT_EQ(index, 9U) << "waiters do not resume on the aborter's stack";
  owner.run_ready();
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(live_after, 0) << "the winner's frame has ended, the loser's is destroyed";
  EXPECT_EQ(owner.waits(), 0U);
  EXPECT_EQ(owner.roots(), 0U);
}

TEST(Race, OneThatEndsAtOnceKeepsTheLaterOnesFromStarting) {
  scope owner;
  abort_source never{owner};
  int live = 0;
  std::string text;
  auto body = [&](abort_token t) -> task<void> {
    auto first = co_await race(now("first"), wait_for(t, 1, live));
    if (first.index() == 0) text = first.get<0>();
  };
  owner.start(body(never.token()), [](outcome<void>) {});
  EXPECT_EQ(text, "first");
  EXPECT_EQ(live, 0);
}

TEST(Race, ThrowsWhatTheWinnerThrows) {
  auto thrower = []() -> task<int> {
    throw std::runtime_error("lost");
    co_return 1;
  };
  scope owner;
  abort_source never{owner};
  bool thrown = false;
  auto body = [&](abort_token t) -> task<void> {
    try {
      (void)co_await race(t.wait(), thrower());
    } catch (const std::runtime_error&) {
      thrown = true;
    }
  };
  owner.start(body(never.token()), [](outcome<void>) {});
  EXPECT_TRUE(thrown);
  EXPECT_EQ(owner.waits(), 0U);
}

TEST(Race, OfManyGivesTheIndexOfTheFirst) {
  scope owner;
  std::vector<std::unique_ptr<abort_source>> sources;
  int live = 0;
  std::vector<task<int>> tasks;
  for (int i = 0; i < 20; ++i) {
    sources.push_back(std::make_unique<abort_source>(owner));
    tasks.push_back(wait_for(sources.back()->token(), i * 10, live));
  }
  std::pair<std::size_t, int> first{99, 0};
  auto body = [&](std::vector<task<int>> all) -> task<void> { first = co_await race(std::move(all)); };
  owner.start(body(std::move(tasks)), [](outcome<void>) {});
  EXPECT_EQ(live, 20);
  sources[13]->abort();
  sources[4]->abort();
  owner.run_ready();
  EXPECT_EQ(first.first, 13U);
  EXPECT_EQ(first.second, 130);
  EXPECT_EQ(live, 0);
}

TEST(Race, IsDestroyedWithTheFrameThatWaits) {
  int live = 0;
  {
    scope owner;
    abort_source a{owner};
    auto body = [&](abort_token t) -> task<void> {
      (void)co_await race(wait_for(t, 1, live), race(wait_for(t, 2, live), wait_for(t, 3, live)));
    };
    owner.start(body(a.token()), [](outcome<void>) {});
    EXPECT_EQ(live, 3);
    owner.destroy_all();
    EXPECT_EQ(live, 0);
    a.abort();
    owner.run_ready();
  }
  EXPECT_EQ(live, 0);
}

TEST(Abort, IsSeenAtOnceAndNeverSuspendsAfterwards) {
  scope owner;
  abort_source source{owner};
  const auto token = source.token();
  EXPECT_FALSE(token.aborted());
  source.abort();
  source.abort();
  EXPECT_TRUE(token.aborted());
  bool done = false;
  auto body = [&](abort_token t) -> task<void> {
    co_await t.wait();
    done = true;
  };
  owner.start(body(token), [](outcome<void>) {});
  EXPECT_TRUE(done);
}

// The first to resume drops the second, whose turn was to come, and the source is gone by then.
TEST(Abort, AWaiterThatIsDroppedBeforeItsTurnIsNotWoken) {
  scope owner;
  auto source = std::make_unique<abort_source>(owner);
  int live = 0;
  auto body = [&](abort_token t) -> task<void> { (void)co_await race(wait_for(t, 1, live), wait_for(t, 2, live)); };
  owner.start(body(source->token()), [](outcome<void> o) { EXPECT_FALSE(o.failure); });
  EXPECT_EQ(live, 2);
  source->abort();
  source.reset();
  owner.run_ready();
  EXPECT_EQ(live, 0);
  EXPECT_EQ(owner.roots(), 0U);
  EXPECT_EQ(owner.waits(), 0U);
}

TEST(Abort, ATokenOutlivesItsSource) {
  scope owner;
  abort_token token;
  bool woken = false;
  {
    abort_source source{owner};
    token = source.token();
    auto body = [&](abort_token t) -> task<void> {
      co_await t.wait();
      woken = true;
    };
    owner.start(body(token), [](outcome<void>) {});
  }
  owner.run_ready();
  EXPECT_FALSE(woken);
  EXPECT_FALSE(token.aborted());
  EXPECT_EQ(owner.roots(), 1U); // waits for ever; goes with the scope
}

} // namespace
} // namespace godwit::runtime::async
