#include "runtime/sim/node_actors.hpp"

#include <numeric>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;

class NodeFaults : public two_nodes {
protected:
  void SetUp() override {
    near = b->spawn<near_actor>(remote, seen, 200ms);
    world.run_for(1ms);
    begin = world.now();
  }
  handle<near_interface> near;
  std::chrono::nanoseconds begin{};
};

TEST_F(NodeFaults, AKilledNodeIsNoticedAtOnceAndRunsNothingMore) {
  auto inside = a->spawn<near_actor>(far, other);
  world.run_for(1ms);
  begin = world.now();
  a->crash(sim::crash_kind::reset);
  EXPECT_EQ(a->state(), sim::system::state_type::crashed);
  a->tell(far, number{1});
  world.run_for(100ms);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(seen.downs[0].first, stop_reason::unreachable);
  EXPECT_LT(seen.downs[0].second - begin, 1ms);
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(other.stopped) << "no last words";
  EXPECT_EQ(b->ask(near, 1s, question{way::value}).error().code, error_code::down);
  EXPECT_EQ(b->remote<far_interface>("a", port, 10s).error().code, error_code::down);
  EXPECT_LT(world.now() - begin, 200ms) << "its machine refuses at once";
  a.reset();
  EXPECT_TRUE(other.stopped);
}

TEST_F(NodeFaults, ANodeWhoseMachineIsGoneIsNoticedByItsSilence) {
  a->crash(sim::crash_kind::silent);
  EXPECT_EQ(b->ask(near, 1s, question{way::value}).error().code, error_code::timeout);
  world.run_for(1s);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_GE(seen.downs[0].second - begin, 500ms);
  EXPECT_LE(seen.downs[0].second - begin, 600ms);
  const auto before = world.now();
  EXPECT_EQ(b->remote<far_interface>("a", port, 2s).error().code, error_code::down);
  EXPECT_EQ(world.now() - before, 2s) << "nobody is there to refuse";
}

TEST_F(NodeFaults, ANodeStartedAnewUnderItsNameIsReachedByANewHandleOnly) {
  a->crash();
  world.run_for(1s);
  std::vector<std::int64_t> told_now;
  auto second = make("a");
  EXPECT_NE(second->number(), a->number());
  const auto again = second->spawn<far_actor>(&told_now);
  EXPECT_EQ(again.id(), far.id()) << "ids repeat from one life to the next";
  ASSERT_TRUE(second->publish(again, "a", port));
  b->tell(remote, number{1});
  world.run_for(10ms);
  EXPECT_TRUE(told_now.empty()) << "nothing of the first life passes for something of the second";
  const auto found = b->remote<far_interface>("a", port);
  ASSERT_TRUE(found);
  b->tell(*found, number{2});
  world.run_for(10ms);
  EXPECT_EQ(told_now, std::vector<std::int64_t>{2});
  EXPECT_FALSE(*found == remote);
  EXPECT_TRUE(*found < remote || remote < *found);
}

TEST_F(NodeFaults, TheLastWordsOfAKilledNodeStillArrive) {
  for (std::int64_t i = 0; i < 10; ++i) b->tell(remote, number{i});
  world.run_until([&] { return world.network().messages() > 0; });
  b->crash(); // what its machine has taken goes out
  world.run_for(10ms);
  EXPECT_EQ(told.size(), 10U);
}

TEST_F(NodeFaults, AFrozenNodeGetsEverythingWhenItThaws) {
  a->freeze();
  EXPECT_EQ(a->state(), sim::system::state_type::frozen);
  for (std::int64_t i = 0; i < 20; ++i) b->tell(remote, number{i});
  EXPECT_EQ(b->ask(near, 1s, question{way::value}).error().code, error_code::timeout);
  EXPECT_TRUE(told.empty());
  a->thaw();
  world.run_for(10ms);
  std::vector<std::int64_t> expected(20);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(told, expected);
  EXPECT_EQ(*b->ask(near, 1s, question{way::value, 1}), number{3});
  world.run_for(2s);
  EXPECT_TRUE(seen.downs.empty());
}

TEST_F(NodeFaults, TimersOfAFrozenNodeComeLateAndOthersDoNot) {
  std::chrono::nanoseconds fired_a{};
  std::chrono::nanoseconds fired_b{};
  a->timers().call_after(10ms, [&] { fired_a = world.now(); });
  b->timers().call_after(10ms, [&] { fired_b = world.now(); });
  a->freeze();
  world.run_for(100ms);
  EXPECT_EQ(fired_a, 0ns);
  EXPECT_EQ(fired_b - begin, 10ms);
  a->thaw();
  world.run_for(1ms);
  EXPECT_EQ(fired_a - begin, 100ms);
  // and those of its actors
  auto slow = a->spawn<far_actor>();
  auto waits = a->spawn<near_actor>(slow, other, 20ms);
  a->tell(waits, poke{});
  world.run_for(1us);
  ASSERT_EQ(other.answers.size(), 1U);
}

TEST_F(NodeFaults, ANodeFrozenForLongIsGivenUpAndLearnsItWhenItThaws) {
  auto back = b->spawn<far_actor>();
  const auto door = b->publish(back, "b", 9);
  auto from_a = a->remote<far_interface>("b", *door);
  ASSERT_TRUE(from_a);
  auto watcher = a->spawn<near_actor>(*from_a, other);
  world.run_for(1ms);
  begin = world.now();
  a->freeze();
  b->tell(remote, number{7});
  world.run_for(2s);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_LE(seen.downs[0].second - begin, 600ms);
  EXPECT_TRUE(other.downs.empty());
  a->thaw();
  world.run_for(10ms);
  EXPECT_EQ(other.downs.size(), 1U);
  EXPECT_EQ(told, std::vector<std::int64_t>{7}) << "what its machine took before the end is still read";
  EXPECT_EQ(world.network().connections(), 0U);
}

TEST_F(NodeFaults, AFrozenNodeTakesConnectionsAndSaysNothing) {
  const auto c = make("c");
  a->freeze();
  auto before = world.now();
  EXPECT_EQ(c->remote<far_interface>("a", port, 300ms).error().code, error_code::down);
  EXPECT_EQ(world.now() - before, 300ms);
  world.timers().call_after(300ms, [&] { a->thaw(); });
  EXPECT_TRUE(c->remote<far_interface>("a", port, 10s)) << "until it goes on";
}

TEST_F(NodeFaults, AClockThatJumpsBringsDeadlinesForwardOnItsNodeOnly) {
  EXPECT_EQ(a->clock().now(), b->clock().now());
  const auto patient = b->spawn<near_actor>(remote, seen, 10s);
  std::optional<async::error_code> ended;
  world.timers().call_after(1ms, [&] { b->jump_clock(20s); });
  const auto before = world.now();
  const auto x = b->ask(patient, 1h, question{way::never});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::timeout);
  EXPECT_LT(world.now() - before, 2ms);
  EXPECT_EQ(b->clock().now() - a->clock().now(), 20s);
  EXPECT_EQ(*b->ask(patient, 1s, question{way::value, 1}), number{3});
  b->jump_clock(-5s);
  EXPECT_EQ(b->clock().now() - a->clock().now(), 20s) << "clocks are steady";
}

TEST_F(NodeFaults, AFrozenNodeCanBeTakenDown) {
  for (int i = 0; i < 5; ++i) b->tell(remote, number{i});
  a->freeze();
  world.run_for(10ms);
  a.reset();
  world.run_for(10ms);
  EXPECT_EQ(seen.downs.size(), 1U);
}

TEST_F(NodeFaults, ASearchForAnActorDiesWithItsNode) {
  int calls = 0;
  b->find<far_interface>("a", port, 1s, [&](const auto&) { ++calls; });
  b->crash();
  world.run_for(5s);
  EXPECT_EQ(calls, 0);
}

} // namespace
} // namespace godwit::runtime::test
