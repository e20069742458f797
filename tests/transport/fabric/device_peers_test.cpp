// Memory of a device, and peers that do not do their part: page-locked pieces are few, and nobody may keep them.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/one_piece.hpp"
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/raw_stream.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;
using clock = std::chrono::steady_clock;
using godwit::testing::fake_copier;
namespace wire = ucx::wire;

/// A sender with one page-locked piece for bulk.
struct one_piece_to_send {
  explicit one_piece_to_send(std::chrono::milliseconds peer_timeout) {
    settings.peer_timeout = peer_timeout;
    settings.window_bytes = std::size_t{64} << 20;
    settings.device.copier = std::make_shared<fake_copier>(device);
    settings.device.pieces = 2;
    settings.device.urgent_pieces = 1;
    from.scribble(1);
  }
  void expect_it_sends(fabric& a) {
    const auto b = ucx::make_fabric(settings);
    block_memory to(40, 1'000'000, 0, device);
    post(*b, {2, 1}, to.regions());
    EXPECT_EQ(send(a, b->address(), {2, 1}, 0, from.regions())->next(), "");
    EXPECT_TRUE(withdraw(*b, {2, 1}));
    EXPECT_TRUE(same(from, to));
  }
  std::shared_ptr<fake_device> device = std::make_shared<fake_device>();
  ucx::settings settings;
  block_memory from{40, 1'000'000, 0, device};
};

TEST(FabricDevicePeers, WhatWasOfferedByASendThatIsOverIsForOthers) {
  one_piece_to_send here(60s);
  const auto a = ucx::make_fabric(here.settings);
  listening_liar l; // reads nothing, and is not given up for a minute
  const auto sent = send(*a, l.address(), {1, 1}, 0, here.from.regions(), transfer_priority::bulk, 2s);
  ASSERT_TRUE(l.until([&] { return !l.heard.empty(); })) << "an offer";
  EXPECT_TRUE(l.until([&] { return sent->count() != 0; }));
  EXPECT_EQ(sent->next(), "timed out");
  here.expect_it_sends(*a);
  EXPECT_FALSE(l.closed);
  l.worker.stop();
}

// Signs of life alone would keep the window of the connection, and the pieces that lie in its stream, for good.
TEST(FabricDevicePeers, OneThatAnswersNothingButThatItLivesLosesTheConnection) {
  for (const bool pull : {true, false}) {
    one_piece_to_send here(1500ms);
    const auto a = ucx::make_fabric(here.settings);
    const deaf_listener deaf;
    ASSERT_NE(deaf.port(), 0);
    listening_liar l;
    l.lives = true;
    l.pull = pull;
    l.stream_port = deaf.port();
    const auto over = send(*a, l.address(), {1, 1}, 0, here.from.regions(), transfer_priority::bulk, 2s);
    ASSERT_TRUE(l.until([&] { return a->figures().messages_sent != 0; }));
    const auto behind = send(*a, l.address(), {2, 1}, 0, here.from.regions(), transfer_priority::bulk, 60s);
    EXPECT_TRUE(l.until([&] { return l.closed; }));
    EXPECT_EQ(over->next(), "timed out");
    EXPECT_NE(behind->next().value_or(""), "");
    EXPECT_TRUE(eventually([&] { return a->figures().peers_open == 0; }));
    here.expect_it_sends(*a);
    l.worker.stop();
  }
}

// Otherwise a peer that reads nothing could say that all has landed, and keep what lies in its stream.
TEST(FabricDevicePeers, OneThatSaysThatWhatIsStillInTheStreamHasLandedLosesTheConnection) {
  struct kind {
    wire::fate what;
    const char* why;
  };
  for (const auto& kind : {kind{wire::fate::landed, "landed what was not sent to its end"},
                           kind{wire::fate::pulled, "read what was not offered"}}) {
    SCOPED_TRACE(kind.why);
    one_piece_to_send here(60s);
    const auto a = ucx::make_fabric(here.settings);
    const deaf_listener deaf;
    ASSERT_NE(deaf.port(), 0);
    listening_liar l;
    l.lives = true;
    l.pull = false;
    l.stream_port = deaf.port();
    const auto sent = send(*a, l.address(), {1, 1}, 0, here.from.regions(), transfer_priority::bulk, 60s);
    std::uint64_t last = 0;
    auto since = clock::now();
    ASSERT_TRUE(l.until([&] { // nothing more goes out: what was sent last is not out
      const auto count = a->figures().messages_sent;
      if (count != last) since = clock::now();
      last = count;
      return last != 0 && clock::now() - since > 500ms;
    }));
    ASSERT_LT(last, 40U);
    wire::receipts early;
    early.what = kind.what;
    early.numbers = {last};
    l.say(early);
    EXPECT_TRUE(l.until([&] { return l.closed; }));
    EXPECT_THAT(sent->next().value_or(""), HasSubstr(kind.why));
    l.worker.stop();
  }
}

// A stream that does not come to the end of a piece holds memory that others wait for: only for `peer_timeout`.
TEST(FabricDevicePeers, AStreamThatIsSlowWithAPieceDoesNotStarveOthersForLong) {
  struct kind {
    const char* name;
    bool urgent, trickles;
  };
  for (const auto& kind :
       {kind{"it stops", false, false}, kind{"urgent", true, false}, kind{"trickles", false, true}}) {
    SCOPED_TRACE(kind.name);
    const one_piece b;
    block_memory stuck(1, 500'000, 0, b.device), to(8, 500'000, 0, b.device), from(8, 500'000);
    from.scribble(1);
    const auto landed = post(*b.fabric, {1, 1}, stuck.regions());
    post(*b.fabric, {2, 1}, to.regions());
    liar l(b.fabric->address());
    l.greet(false, kind.urgent);
    const auto welcome = l.heard_of<wire::welcome>();
    ASSERT_TRUE(welcome);
    const raw_stream stream(l.where.host, welcome->stream_port);
    ASSERT_TRUE(stream.connected());
    stream.greet(welcome->stream_token);
    stream.say(wire::pack(message(1, 500'000)).value() + std::string(200'000, 'x'));
    std::this_thread::sleep_for(100ms); // it has the piece
    const auto a = ucx::make_fabric(settings_for(way::streams));
    const auto sent = send(*a, b.fabric->address(), {2, 1}, 0, from.regions());
    EXPECT_TRUE(eventually([&] {
      if (kind.trickles) stream.say("x");
      return sent->count() != 0;
    }));
    EXPECT_EQ(sent->next(), "");
    EXPECT_THAT(landed->next().value_or(landing{}).error, HasSubstr("too slow"));
    EXPECT_TRUE(withdraw(*b.fabric, {2, 1}));
    EXPECT_TRUE(same(from, to));
    l.worker.stop();
  }
}

/// Seven messages for as many postings on a device that ends no copy: one is being scattered, the others wait.
struct messages_that_wait {
  messages_that_wait() {
    b.copier->hold(true);
    for (std::uint64_t id = 1; id <= 14; ++id) {
      to.emplace_back(1, 60'000, 0, b.device);
      landed.push_back(post(*b.fabric, {id, 1}, to.back().regions()));
    }
    l->greet(false);
    (void)l->heard_of<wire::welcome>();
    say(1, 7);
  }
  ~messages_that_wait() {
    b.copier->hold(false);
    for (std::uint64_t id = 1; id <= 14; ++id) (void)withdraw(*b.fabric, {id, 1});
    end();
  }
  void end() {
    if (l) l->worker.stop();
    l.reset();
  }
  void say(std::uint64_t first, std::uint64_t last) {
    for (auto id = first; id <= last; ++id) l->say(wire::encode(message(id, 60'000)), std::string(60'000, 'x'));
  }
  one_piece b{100'000, 20s}; // takes four times as much of one connection
  std::unique_ptr<liar> l = std::make_unique<liar>(b.fabric->address());
  std::list<block_memory> to;
  std::vector<std::shared_ptr<answers<landing>>> landed;
};

TEST(FabricDevicePeers, MessagesThatWaitGoWithTheirPostings) {
  messages_that_wait some;
  ASSERT_TRUE(some.l->taken());
  for (std::uint64_t id = 3; id <= 7; ++id) EXPECT_TRUE(withdraw(*some.b.fabric, {id, 1}));
  EXPECT_TRUE(some.l->until([&] { return some.l->count_of<wire::refusal>() == 5; }))
      << "their sender is told at once, and not when it is their turn";
  some.say(8, 12);
  EXPECT_TRUE(some.l->taken()) << "there is room for as many again";
  EXPECT_FALSE(some.l->closed);
  some.b.copier->hold(false);
  for (const std::uint64_t id : {1, 2, 8, 9, 10, 11, 12})
    EXPECT_EQ(some.landed[id - 1]->next().value_or(landing{0, "nothing"}).error, "");
  EXPECT_TRUE(std::next(some.to.begin(), 2)->all(0));
}

TEST(FabricDevicePeers, MessagesThatWaitGoWithTheirConnection) {
  messages_that_wait some;
  ASSERT_TRUE(some.l->taken());
  some.end();
  for (std::uint64_t id = 2; id <= 7; ++id)
    EXPECT_THAT(some.landed[id - 1]->next().value_or(landing{}).error, HasSubstr("the sender is gone"));
  EXPECT_EQ(some.b.copier->waiting(), 1U);
  EXPECT_EQ(some.landed[0]->count(), 0U) << "it is being copied, and lands";
}

} // namespace
} // namespace godwit::transport::testing
