#include "runtime/sim/node_actors.hpp"

#include <numeric>

namespace godwit::runtime::test {
namespace {

using async::error_code;
using way = question::way;

class Nodes : public two_nodes {};

TEST_F(Nodes, RequestsAreAnsweredFromAnotherNodeAndTakeTime) {
  EXPECT_TRUE(remote.ref().remote());
  const auto before = world.now();
  EXPECT_EQ(*b->ask(remote, 1s, question{way::value, 40}), number{42});
  EXPECT_GE(world.now() - before, 2 * sim::link_settings{}.latency_min);
  EXPECT_LE(world.now() - before, 2 * sim::link_settings{}.latency_max);
  auto near = b->spawn<near_actor>(remote, seen);
  EXPECT_EQ(*b->ask(near, 1s, question{way::coroutine, 1}), number{3});
}

TEST_F(Nodes, ErrorsAndExceptionsOfAHandlerComeBack) {
  const auto refused = b->ask(remote, 1s, question{way::error});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, error_code::refused);
  EXPECT_EQ(refused.error().message, "not today");
  const auto thrown = b->ask(remote, 1s, question{way::throws});
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, error_code::failed);
}

TEST_F(Nodes, OneWayMessagesArriveInOrderWhateverTheLinkDraws) {
  world.network().set_links({10us, 5ms, 0});
  for (std::int64_t i = 0; i < 300; ++i) b->tell(remote, number{i});
  world.run_for(1s);
  std::vector<std::int64_t> expected(300);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(told, expected);
}

TEST_F(Nodes, WhatHasNoWireFormatIsRefusedWithItsName) {
  const auto asked = b->ask(remote, 1s, anchored{std::make_shared<int>(3)});
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, error_code::unsupported);
  EXPECT_NE(asked.error().message.find("anchored"), std::string::npos) << asked.error().message;
  b->tell(remote, anchored{std::make_shared<int>(3)});
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].find("cannot leave this node"), std::string::npos) << reports[0];
  EXPECT_EQ(*a->ask(far, 1s, anchored{std::make_shared<int>(3)}), number{3}) << "at home it is an ordinary message";
}

TEST_F(Nodes, AHandleInAMessageIsAnsweredToDirectlyAndComesHomeAsItself) {
  auto near = b->spawn<near_actor>(remote, seen);
  b->tell(remote, introduce{handle<phone>{near}, 41});
  world.run_for(10ms);
  EXPECT_EQ(seen.told, std::vector<std::int64_t>{42});
  const auto book = b->ask(remote, 1s, whoami{});
  ASSERT_TRUE(book);
  EXPECT_EQ(book->all.at(0).ref(), remote.ref()) << "one proxy for one actor";
}

struct broker final : actor<interface<phone_book(whoami)>> {
  broker(actor_context x, handle<phone> o) : actor(x), of(std::move(o)) {}
  behavior_of<interface<phone_book(whoami)>> make_behavior() override {
    return {[this](whoami) {
      phone_book book;
      book.all.push_back(of);
      return book;
    }};
  } handle<phone> of;
};

// c knows b, b knows a: what c gets from b of a's actors goes by way of b.
class NodesInARow : public two_nodes {
protected:
  void SetUp() override {
    c = make("c");
    c->register_interfaces<far_interface>();
    ASSERT_TRUE(b->publish(b->spawn<broker>(handle<phone>{remote}), "b", 7));
    const auto found = c->remote<interface<phone_book(whoami)>>("b", 7);
    ASSERT_TRUE(found);
    const auto book = c->ask(*found, 1s, whoami{});
    ASSERT_TRUE(book);
    third = book->all.at(0);
    ASSERT_TRUE(third);
  }
  std::unique_ptr<sim::system> c;
  handle<phone> third;
};

TEST_F(NodesInARow, AHandleThatCameThroughASecondNodeReachesTheThird) {
  c->tell(third, number{5});
  world.run_for(10ms);
  EXPECT_EQ(told, std::vector<std::int64_t>{5});
  // its answers find the way back
  const handle<far_interface> same{third.ref()};
  EXPECT_EQ(*c->ask(same, 1s, question{way::value, 1}), number{3});
  EXPECT_EQ(world.network().connections(), 2U) << "nobody connects behind our back";
  // and they end with the way
  b->crash();
  world.run_for(10ms);
  const auto lost = c->ask(same, 1s, question{way::value, 1});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, error_code::down) << to_string(lost.error());
}

TEST_F(NodesInARow, TheEndOfAnActorOfTheThirdIsToldToWhoWatchesIt) {
  const auto watcher = c->spawn<near_actor>(handle<far_interface>{third.ref()}, seen);
  world.run_for(10ms);
  a->tell(far, poke{});
  world.run_for(10ms);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(seen.downs[0].first, stop_reason::failed);
  const auto lost = c->ask(handle<far_interface>{third.ref()}, 1s, question{way::value, 1});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, error_code::down);
}

TEST_F(Nodes, AHandleIsCheckedAgainstWhatTheActorUnderstands) {
  EXPECT_TRUE((b->remote<interface<number(question)>>("a", port)));
  const auto wrong = b->remote<interface<number(slow_question)>>("a", port);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, error_code::unsupported);
  EXPECT_NE(wrong.error().message.find("slow_question"), std::string::npos);
}

TEST_F(Nodes, AHandleSaysWhereItsActorWasWhenItsSystemIsGone) {
  EXPECT_TRUE(remote.ref().remote());
  EXPECT_FALSE(far.ref().remote());
  const auto id = far.id();
  b.reset();
  a.reset();
  EXPECT_TRUE(remote.ref().remote());
  EXPECT_FALSE(far.ref().remote());
  EXPECT_EQ(far.id(), id);
}

TEST_F(Nodes, AnActorIsFoundWithTheLongestTimeoutThatThereIs) {
  ASSERT_GT(world.now(), 0ns);
  const auto found = b->remote<far_interface>("a", port, std::chrono::nanoseconds::max());
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(found->ref(), remote.ref());
}

TEST_F(Nodes, APortInUseAnEmptyPlaceAndAnUnknownMachineAreErrorsAtOnce) {
  EXPECT_EQ(a->publish(a->spawn<far_actor>(), "a", port).error().code, error_code::refused);
  EXPECT_EQ(a->publish(far, "b", 0).error().code, error_code::refused) << "it is not this machine's name";
  const auto before = world.now();
  EXPECT_EQ(b->remote<far_interface>("a", 1).error().code, error_code::down);
  EXPECT_EQ(b->remote<far_interface>("nowhere", 1).error().code, error_code::down);
  EXPECT_LT(world.now() - before, 5ms);
  EXPECT_EQ(b->remote<far_interface>("a", port)->ref(), remote.ref()) << "the connection that there is";
  EXPECT_EQ(a->remote<far_interface>("a", port)->ref(), far.ref()) << "its own actor";
  EXPECT_EQ(world.network().connections(), 1U);
}

TEST_F(Nodes, APublishedActorThatHasEndedIsDown) {
  a->stop(far);
  world.run_for(10ms);
  EXPECT_EQ(b->remote<far_interface>("a", port).error().code, error_code::down);
}

TEST_F(Nodes, MonitorsAndLinksWorkAcross) {
  auto near = b->spawn<near_actor>(remote, seen);
  auto linked = b->spawn<near_actor>(remote, other);
  b->tell(linked, whoami{});
  world.run_for(10ms);
  b->tell(remote, poke{}); // it fails
  world.run_for(10ms);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(seen.downs[0].first, stop_reason::failed);
  EXPECT_FALSE(seen.stopped);
  EXPECT_TRUE(other.stopped) << "each ends with the other";
  const auto late = b->ask(near, 20s, question{way::value});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, error_code::down);
}

TEST_F(Nodes, AnActorOfAnotherNodeCanBeStopped) {
  b->stop(remote, stop_reason::killed);
  world.run_for(10ms);
  EXPECT_EQ(a->alive(), 0U);
}

TEST_F(Nodes, AnActorDeclaredDownIsDownAndALaterHandleIsANewOne) {
  auto near = b->spawn<near_actor>(remote, seen);
  world.run_for(1ms);
  b->declare_down(remote);
  world.run_for(1ms);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(b->ask(remote, 20s, question{way::value}).error().code, error_code::down);
  const auto again = b->remote<far_interface>("a", port);
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*b->ask(*again, 1s, question{way::value, 1}), number{3});
}

TEST_F(Nodes, ASystemThatGoesInGoodOrderSaysSoAtOnce) {
  auto near = b->spawn<near_actor>(remote, seen);
  world.run_for(1ms);
  const auto before = world.now();
  a.reset();
  world.run_for(1ms);
  ASSERT_EQ(seen.downs.size(), 1U);
  EXPECT_EQ(seen.downs[0].first, stop_reason::shutdown);
  EXPECT_LT(seen.downs[0].second - before, 1ms);
  EXPECT_EQ(world.network().connections(), 0U);
  EXPECT_EQ(b->remote<far_interface>("a", port).error().code, error_code::down);
}

TEST_F(Nodes, ASlowLinkTakesAsLongAsItsBandwidthSays) {
  world.network().set_link("a", "b", {1ms, 1ms, 1'000'000});
  question heavy{way::value, 1};
  heavy.padding = {std::string(100'000, 'x')};
  const auto before = world.now();
  EXPECT_TRUE(b->ask(remote, 1s, heavy));
  EXPECT_GE(world.now() - before, 102ms);
  EXPECT_LE(world.now() - before, 104ms);
}

TEST_F(Nodes, ANameMustBeFreeAndIsFreeAgainAfterACrash) {
  EXPECT_THROW(make("a"), std::invalid_argument);
  a->crash();
  EXPECT_NO_THROW(make("a"));
}

} // namespace
} // namespace godwit::runtime::test
