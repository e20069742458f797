#include "runtime/sim/node_actors.hpp"

#include <godwit/runtime/actor_system.hpp>

#include <numeric>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;

class Links : public two_nodes {
protected:
  void SetUp() override {
    near = b->spawn<near_actor>(remote, seen, 200ms);
    world.run_for(1ms);
  }
  handle<near_interface> near;
};

TEST(LinkSettings, SilenceIsNoticedAsInProduction) {
  const actor_system_settings production;
  const sim::detection_settings simulated;
  EXPECT_EQ(simulated.least, production.connection_timeout);
  EXPECT_EQ(simulated.most, production.connection_timeout + production.heartbeat_interval);
}

TEST_F(Links, AShortCutDelaysAndLosesNothing) {
  world.network().cut("a", "b");
  EXPECT_TRUE(world.network().is_cut("a", "b"));
  for (std::int64_t i = 0; i < 20; ++i) b->tell(remote, number{i});
  world.run_for(300ms);
  EXPECT_TRUE(told.empty());
  world.network().heal("a", "b");
  world.run_for(10ms);
  std::vector<std::int64_t> expected(20);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(told, expected);
  world.run_for(5s);
  EXPECT_TRUE(seen.downs.empty());
  EXPECT_EQ(*b->ask(near, 1s, question{way::value, 1}), number{3});
}

TEST_F(Links, WhatIsUnderWayWhenTheLinkIsCutArrivesAfterwards) {
  world.network().set_links({1ms, 1ms, 0});
  b->tell(remote, number{1});
  world.run_for(500us);
  world.network().cut("a", "b");
  world.run_for(100ms);
  EXPECT_TRUE(told.empty());
  world.network().heal("a", "b");
  world.run_for(2ms);
  EXPECT_EQ(told.size(), 1U);
}

TEST_F(Links, AnAskOverACutLinkEndsAtItsTimeout) {
  world.network().cut("a", "b");
  const auto before = world.now();
  const auto x = b->ask(near, 10s, question{way::value});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::timeout);
  EXPECT_EQ(world.now() - before, 200ms);
}

TEST_F(Links, ALongCutIsNoticedByBothSidesInTime) {
  // a watches an actor of b
  auto back = b->spawn<far_actor>();
  const auto door = b->publish(back, "b", 9);
  auto from_a = a->remote<far_interface>("b", *door);
  ASSERT_TRUE(from_a);
  auto watcher = a->spawn<near_actor>(*from_a, other);
  world.run_for(1ms);
  const auto cut_at = world.now();
  world.network().cut("a", "b");
  world.run_for(1s);
  for (const auto* s : {&seen, &other}) {
    ASSERT_EQ(s->downs.size(), 1U);
    EXPECT_EQ(s->downs[0].first, stop_reason::unreachable);
    EXPECT_GE(s->downs[0].second - cut_at, 500ms);
    EXPECT_LE(s->downs[0].second - cut_at, 600ms);
  }
  EXPECT_EQ(world.network().connections(), 0U);
}

TEST_F(Links, AnAskUnderWayEndsWhenTheLinkIsGivenUp) {
  const auto patient = b->spawn<near_actor>(remote, seen, 1h);
  const auto before = world.now();
  world.timers().call_after(10ms, [&] { world.network().cut("a", "b"); });
  const auto x = b->ask(patient, 2h, question{way::never});
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, error_code::down);
  EXPECT_LE(world.now() - before, 611ms);
}

TEST_F(Links, AfterALongCutOnlyANewHandleReaches) {
  world.network().cut("a", "b");
  world.run_for(1s);
  world.network().heal("a", "b");
  world.run_for(1s);
  const auto old = b->ask(remote, 20s, question{way::value});
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, error_code::down);
  const auto again = b->remote<far_interface>("a", port);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_NE(again->ref(), remote.ref());
  EXPECT_EQ(*b->ask(*again, 1s, question{way::value, 1}), number{3});
  EXPECT_EQ(b->ask(remote, 20s, question{way::value}).error().code, error_code::down) << "the old one stays dead";
}

TEST_F(Links, ConnectingOverACutLinkTakesTheTimeoutAndNoMore) {
  const auto c = make("c");
  world.network().cut("a", "c");
  auto before = world.now();
  EXPECT_EQ(c->remote<far_interface>("a", port, 300ms).error().code, error_code::down);
  EXPECT_EQ(world.now() - before, 300ms);
  before = world.now();
  world.timers().call_after(500ms, [&] { world.network().heal("a", "c"); });
  EXPECT_TRUE(c->remote<far_interface>("a", port, 10s)) << "it knocks until then";
  EXPECT_LE(world.now() - before, 1s);
}

TEST_F(Links, ALinkThatIsCutOneWayIsGivenUpByBothSides) {
  world.network().cut_one_way("a", "b"); // b hears nothing, and says so when it has had enough
  b->tell(remote, number{1});
  world.run_for(100ms);
  EXPECT_EQ(told.size(), 1U);
  world.run_for(900ms);
  EXPECT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(world.network().connections(), 0U);
}

TEST_F(Links, OneSideMayGiveUpJustBeforeTheLinkIsWhole) {
  world.network().set_detection({500ms, 700ms});
  for (int round = 0; round < 20; ++round) {
    world.network().cut("a", "b");
    world.run_for(550ms + 5ms * round);
    world.network().heal("a", "b");
    const auto again = b->remote<far_interface>("a", port);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*b->ask(*again, 1s, question{way::value, 1}), number{3});
    world.run_for(1s);
    const auto works = b->ask(*again, 1s, question{way::value, 1});
    // the half that was left may have taken the new one with it
    EXPECT_TRUE(works || works.error().code == error_code::down);
    EXPECT_LE(world.network().connections(), 1U);
  }
}

TEST_F(Links, ExtraDelayIsAddedAndMayLookLikeSilence) {
  world.network().delay("a", "b", 50ms);
  auto before = world.now();
  EXPECT_TRUE(b->ask(remote, 1s, question{way::value}));
  EXPECT_GE(world.now() - before, 100ms);
  world.run_for(200ms); // nothing overtakes what is under way
  world.network().delay("a", "b", 0ms);
  before = world.now();
  EXPECT_TRUE(b->ask(remote, 1s, question{way::value}));
  EXPECT_LE(world.now() - before, 1ms);
  EXPECT_TRUE(seen.downs.empty());
  world.network().delay("a", "b", 2s);
  world.run_for(1s);
  EXPECT_EQ(seen.downs.size(), 1U);
}

TEST(LinksOfThree, ACutBetweenTwoConcernsNobodyElse) {
  sightings seen_one;
  sightings seen_two;
  sim::world world{3};
  sim::system head{world, {nullptr, "head"}};
  sim::system one{world, {nullptr, "one"}};
  sim::system two{world, {nullptr, "two"}};
  const auto port = head.publish(head.spawn<far_actor>(), "head", 0);
  ASSERT_TRUE(port);
  auto a = one.spawn<near_actor>(*one.remote<far_interface>("head", *port), seen_one);
  auto b = two.spawn<near_actor>(*two.remote<far_interface>("head", *port), seen_two);
  world.network().cut("one", "head");
  world.run_for(3s);
  EXPECT_EQ(seen_one.downs.size(), 1U);
  EXPECT_TRUE(seen_two.downs.empty());
  EXPECT_EQ(*two.ask(b, 1s, question{way::value, 1}), number{3});
}

} // namespace
} // namespace godwit::runtime::test
