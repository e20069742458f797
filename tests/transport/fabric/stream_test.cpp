// Streams whose sender lies, stops in the middle, or is a stranger.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/raw_stream.hpp"
#include "transport/fabric/rig.hpp"
#include "ucx/core.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <mutex>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;
namespace wire = ucx::wire;

std::shared_ptr<fabric> make(std::chrono::milliseconds connect_timeout = 1500ms) {
  ucx::settings options;
  options.connect_timeout = connect_timeout;
  options.peer_timeout = 20s; // none of these is about a slow machine
  return ucx::make_fabric(options);
}

std::string header(std::uint64_t id, std::uint64_t bytes) { return wire::pack(message(id, bytes)).value(); }

TEST(FabricStreams, OneThatStopsInTheMiddleDelaysNoWithdrawalAndGoesOnBehindIt) {
  const auto b = make();
  block_memory to(1, 1'000'000), next(1, 1000);
  const auto landed = post(*b, {1, 1}, to.regions());
  const auto landed_next = post(*b, {2, 1}, next.regions());
  liar l(b->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  const raw_stream stream(l.where.host, welcome->stream_port);
  ASSERT_TRUE(stream.connected());
  stream.greet(welcome->stream_token);
  stream.say(header(1, 1'000'000) + std::string(400'000, 'x'));
  const auto& memory = to.regions().front();
  ASSERT_TRUE(eventually([&] { return memory.address[399'999] == std::byte{'x'}; }));
  ASSERT_TRUE(withdraw(*b, {1, 1}, 15s)) << "before its sender is given up";
  to.poison(0xEE);
  stream.say(std::string(600'000, 'y') + header(2, 1000) + std::string(1000, 'z'));
  const auto told = landed_next->next();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->error, "");
  EXPECT_TRUE(next.all('z'));
  EXPECT_TRUE(to.all(0xEE)) << "what came after the withdrawal went nowhere";
  const auto refusal = l.heard_of<wire::refusal>();
  ASSERT_TRUE(refusal) << "unanswered it would stay in its sender's window";
  EXPECT_EQ(refusal->number, 1U);
  l.worker.stop();
}

TEST(FabricStreams, OneThatEndsInTheMiddleKillsItsPosting) {
  const auto b = make();
  block_memory to(1, 1'000'000);
  const auto landed = post(*b, {1, 1}, to.regions());
  liar l(b->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  {
    const raw_stream stream(l.where.host, welcome->stream_port);
    stream.greet(welcome->stream_token);
    stream.say(header(1, 1'000'000) + std::string(400'000, 'x'));
  }
  EXPECT_THAT(landed->next().value_or(landing{}).error, HasSubstr("the sender is gone"));
  EXPECT_TRUE(l.until([&] { return l.closed; }));
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  l.worker.stop();
}

TEST(FabricStreams, BytesForNobodyAreRefusedAndThrownAway) {
  const auto b = make();
  block_memory to(1, 1000);
  const auto landed = post(*b, {2, 1}, to.regions());
  liar l(b->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  const raw_stream stream(l.where.host, welcome->stream_port);
  stream.greet(welcome->stream_token);
  stream.say(header(1, 100'000) + std::string(100'000, 'x') + header(2, 1000) + std::string(1000, 'z'));
  EXPECT_EQ(landed->next().value_or(landing{}).error, "");
  EXPECT_TRUE(to.all('z'));
  const auto refusal = l.heard_of<wire::refusal>();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->number, 1U);
  EXPECT_THAT(refusal->reason, HasSubstr("no posting"));
  l.worker.stop();
}

// As where a firewall lets UCX's ports pass and not this one: that is slower, and nobody would know.
TEST(FabricStreams, OneThatCannotBeHadIsToldOnceAndBlocksGoAsMessages) {
  std::mutex mutex;
  std::vector<ucx::link_end> told;
  ucx::settings options;
  options.on_end = [&](const ucx::link_end& what) {
    const std::lock_guard lock(mutex);
    told.push_back(what);
  };
  listening_liar b;
  b.pull = false;
  b.stream_port = 1; // nobody listens there
  {
    const auto a = ucx::make_fabric(options);
    block_memory from(1, 100'000);
    for (const auto priority : {transfer_priority::urgent, transfer_priority::bulk}) {
      b.heard.clear();
      (void)send(*a, b.address(), {1, 1}, 0, from.regions(), priority);
      ASSERT_TRUE(b.until([&] { return !b.heard.empty(); }));
      const auto* piece = std::get_if<ucx::wire::blocks>(&b.heard.front());
      ASSERT_NE(piece, nullptr);
      EXPECT_FALSE(piece->offered);
    }
  }
  std::erase_if(told, [](const auto& what) { return !what.goes_on; });
  ASSERT_EQ(told.size(), 1U) << "of both connections";
  EXPECT_EQ(told[0].reason, "no stream to port 1 there (Connection refused); blocks go as UCX messages");
  EXPECT_EQ(told[0].peer, "127.0.0.1:" + std::to_string(b.worker.port()));
}

TEST(FabricStreams, GarbageClosesTheConnection) {
  const auto b = make();
  wire::blocks offer;
  offer.offered = true;
  const std::string lies[] = {std::string(wire::stream_header_bytes, '\xff'), std::string(100'000, '\0'),
                              wire::pack(wire::ping{}).value(), wire::pack(offer).value()};
  for (const auto& lie : lies) {
    liar l(b->address());
    l.greet(false);
    const auto welcome = l.heard_of<wire::welcome>();
    ASSERT_TRUE(welcome);
    const raw_stream stream(l.where.host, welcome->stream_port);
    stream.greet(welcome->stream_token);
    stream.say(lie);
    EXPECT_TRUE(l.until([&] { return l.closed; }));
    EXPECT_TRUE(stream.shut(20'000));
    l.worker.stop();
  }
  EXPECT_TRUE(eventually([&] { return b->figures().peers_open == 0; }));
}

TEST(FabricStreams, StrangersAreShutOutAndOthersGoOn) {
  const auto a = make(), b = make();
  liar l(b->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  const raw_stream silent(l.where.host, welcome->stream_port), wrong(l.where.host, welcome->stream_port),
      noisy(l.where.host, welcome->stream_port);
  wrong.greet(welcome->stream_token + 1);
  noisy.say(std::string(3000, 'n'));
  EXPECT_TRUE(wrong.shut(20'000));
  EXPECT_TRUE(noisy.shut(20'000));
  EXPECT_TRUE(silent.shut(20'000)) << "after connect_timeout";
  const raw_stream first(l.where.host, welcome->stream_port), second(l.where.host, welcome->stream_port);
  first.greet(welcome->stream_token);
  EXPECT_FALSE(first.shut(200));
  second.greet(welcome->stream_token);
  EXPECT_TRUE(second.shut(20'000)) << "a token is good for one";
  ucx::settings streaming;
  streaming.cross_memory = false;
  const auto c = ucx::make_fabric(streaming);
  block_memory from(3, 100'000), to(3, 100'000);
  from.scribble(5);
  post(*b, {1, 1}, to.regions());
  EXPECT_EQ(send(*c, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_TRUE(same(from, to));
  l.worker.stop();
}

// A port scan, a load balancer's checks, a burst of links: who says its token at once gets through.
TEST(FabricStreams, ManyWhoSayNothingKeepNobodyOut) {
  const auto b = make(60s);
  liar l(b->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  std::list<raw_stream> silent;
  for (int i = 0; i < 150; ++i) silent.emplace_back(l.where.host, welcome->stream_port);
  EXPECT_TRUE(silent.front().shut(20'000)) << "the oldest makes room, long before its time is over";
  ucx::settings streaming;
  streaming.cross_memory = false;
  const auto c = ucx::make_fabric(streaming);
  block_memory from(3, 100'000), to(3, 100'000);
  from.scribble(5);
  post(*b, {1, 1}, to.regions());
  EXPECT_EQ(send(*c, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_TRUE(same(from, to));
  l.worker.stop();
}

} // namespace
} // namespace godwit::transport::testing
