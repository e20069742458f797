// Two processes, one of which is killed or stopped: bounded time, a clear error, nothing left, and a fresh start works.
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <thread>

namespace godwit::transport::testing {
namespace {

class FabricProcesses : public ::testing::TestWithParam<setup> {
protected:
  static constexpr std::size_t count = 1024, bytes = 65536;
  [[nodiscard]] std::shared_ptr<fabric> make(std::chrono::milliseconds peer_timeout = 3000ms) const {
    auto options = here_.settings();
    options.peer_timeout = peer_timeout;
    return here_.make(options);
  }
  [[nodiscard]] block_memory memory() const { return here_.blocks(count, bytes); }
  side here_{GetParam()};
  static std::string list(std::uint64_t id) {
    return std::to_string(id) + " " + std::to_string(count) + " " + std::to_string(bytes);
  }
  /// Until the peer says `line`. Of transfers that were given up it may say late that they are dead, or have landed
  /// with the bytes that they had; with others they must not.
  static ::testing::AssertionResult hears(peer_process& peer, const std::string& line) {
    for (;;) {
      const auto heard = peer.hear();
      if (heard == line) return ::testing::AssertionSuccess();
      if (!heard.starts_with("dead ") && heard != "landed right")
        return ::testing::AssertionFailure() << "'" << heard << "' and not '" << line << "'";
    }
  }
  static void expect_nothing_open(fabric& mine) {
    EXPECT_TRUE(eventually([&] {
      const auto now = mine.figures();
      return now.sends_open == 0 && now.postings_open == 0 && now.peers_open == 0;
    })) << mine.figures().peers_open
        << " connections";
  }
};

TEST_P(FabricProcesses, BlocksGoToAnotherProcessAndBack) {
  const auto mine = make(20s);
  peer_process peer(GetParam());
  auto from = memory(), to = memory(), wanted = memory();
  from.scribble(1);
  wanted.scribble(2);
  peer.tell("post " + list(1));
  ASSERT_EQ(peer.hear(), "posted");
  EXPECT_EQ(send(*mine, peer.address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_EQ(peer.hear(), "landed right");
  post(*mine, {2, 1}, to.regions());
  peer.tell("send " + mine->address() + " " + list(2));
  EXPECT_EQ(peer.hear(), "sending");
  EXPECT_EQ(peer.hear(), "sent ");
  EXPECT_TRUE(withdraw(*mine, {2, 1}));
  EXPECT_TRUE(same(to, wanted));
}

TEST_P(FabricProcesses, AReceiverThatIsKilledIsNoticedSoon) {
  if (GetParam().how == way::remote_reads)
    GTEST_SKIP()
        << "UCX 1.13 can abort where whoever reads by its messages goes (docs/design/fabric.md); an adapter sends none";
  const auto mine = make();
  auto from = memory();
  from.scribble(1);
  int cut_short = 0;
  for (int round = 0; round < 8; ++round) {
    peer_process peer(GetParam());
    peer.tell("post " + list(1));
    ASSERT_EQ(peer.hear(), "posted");
    const auto keep = std::make_shared<int>(0);
    const auto sent = send(*mine, peer.address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10min, keep);
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
    peer.signal(SIGKILL);
    const auto error = sent->next(30s);
    ASSERT_TRUE(error) << "long before its time is over";
    if (!error->empty()) ++cut_short;
    EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }, 30s)) << "the memory is not held any more";
  }
  EXPECT_GT(cut_short, 0);
  expect_nothing_open(*mine);
  peer_process peer(GetParam());
  peer.tell("post " + list(1));
  ASSERT_EQ(peer.hear(), "posted");
  EXPECT_EQ(send(*mine, peer.address(), {1, 1}, 0, from.regions())->next(), "") << "the next one is reached";
}

TEST_P(FabricProcesses, ASenderThatIsKilledLeavesNoWriteBehind) {
  const auto mine = make();
  auto to = memory();
  for (std::uint32_t round = 0; round < 8; ++round) {
    peer_process peer(GetParam());
    const auto keep = std::make_shared<int>(0);
    const transfer_key key{round + 1, 1};
    post(*mine, key, to.regions(), keep);
    peer.tell("send " + mine->address() + " " + list(round + 1));
    ASSERT_EQ(peer.hear(), "sending");
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
    peer.signal(SIGKILL);
    ASSERT_TRUE(withdraw(*mine, key, 20s));
    EXPECT_EQ(keep.use_count(), 1);
    to.poison(0xEE);
    std::this_thread::sleep_for(5ms);
    ASSERT_TRUE(to.all(0xEE));
  }
  expect_nothing_open(*mine);
}

TEST_P(FabricProcesses, AReceiverThatStandsStillTimesOutAndIsReachedAgainLater) {
  if (GetParam().how == way::remote_reads)
    GTEST_SKIP()
        << "UCX 1.13 can abort where whoever reads by its messages goes (docs/design/fabric.md); an adapter sends none";
  const auto mine = make();
  auto from = memory();
  from.scribble(1);
  peer_process peer(GetParam());
  for (int id = 1; id <= 3; ++id) {
    peer.tell("post " + list(1 + static_cast<std::uint64_t>(id)));
    ASSERT_EQ(peer.hear(), "posted");
  }
  const auto keep = std::make_shared<int>(0);
  peer.signal(SIGSTOP);
  const auto by_deadline = send(*mine, peer.address(), {2, 1}, 0, from.regions(), transfer_priority::bulk, 300ms, keep);
  EXPECT_EQ(by_deadline->next(), "timed out") << "before the peer is given up";
  const auto by_silence = send(*mine, peer.address(), {3, 1}, 0, from.regions(), transfer_priority::bulk, 10min, keep);
  const auto error = by_silence->next(30s);
  ASSERT_TRUE(error);
  EXPECT_NE(*error, "");
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }, 30s));
  from.scribble(4);
  peer.signal(SIGCONT);
  // What it reads now of the two that were given up does not count.
  EXPECT_EQ(send(*mine, peer.address(), {4, 1}, 0, from.regions())->next(), "");
  std::string heard;
  do {
    heard = peer.hear(20'000);
    EXPECT_NE(heard, "landed wrong");
  } while (!heard.empty() && heard != "landed right");
  EXPECT_EQ(heard, "landed right");
}

// Sizes around what the sockets take, so that some sends end with their last pieces still to be written.
TEST_P(FabricProcesses, MemoryThatIsUsedAgainAfterATimeoutDoesNotArrive) {
  if (GetParam().how == way::remote_reads)
    GTEST_SKIP()
        << "UCX 1.13 can abort where whoever reads by its messages goes (docs/design/fabric.md); an adapter sends none";
  auto options = here_.settings();
  options.window_bytes = std::size_t{64} << 20; // the sockets are the bound
  const auto mine = here_.make(options);
  peer_process peer(GetParam());
  auto marker = here_.blocks(1, bytes);
  std::uint64_t id = 0;
  const auto step = std::max<std::size_t>(32 / static_cast<std::size_t>(times_asked_for()), 1);
  for (std::size_t blocks = 240; blocks <= 560; blocks += step) {
    auto from = here_.blocks(blocks, bytes);
    from.scribble(++id);
    peer.tell("post " + std::to_string(id) + " " + std::to_string(blocks) + " " + std::to_string(bytes));
    ASSERT_TRUE(hears(peer, "posted"));
    // The connection is there before the peer stands still.
    peer.tell("post " + std::to_string(1000 + id) + " 1 " + std::to_string(bytes));
    ASSERT_TRUE(hears(peer, "posted"));
    marker.scribble(1000 + id);
    ASSERT_EQ(send(*mine, peer.address(), {1000 + id, 1}, 0, marker.regions())->next(), "");
    ASSERT_TRUE(hears(peer, "landed right"));
    peer.signal(SIGSTOP);
    ASSERT_EQ(
        send(*mine, peer.address(), {id, 1}, 0, from.regions(), transfer_priority::bulk, 150ms, from.owner())->next(),
        "timed out");
    from.scribble(5000 + id);
    peer.signal(SIGCONT);
    const auto heard = peer.hear(200);
    EXPECT_NE(heard, "landed wrong") << blocks << " blocks";
  }
}

TEST_P(FabricProcesses, ASenderThatStandsStillDoesNotDelayAWithdrawal) {
  if (GetParam().how == way::remote_reads)
    GTEST_SKIP() << "a third of peer_timeout, and then its connection is closed: the next test";
  const auto mine = make(20s); // it is not missed meanwhile
  auto to = memory();
  peer_process peer(GetParam());
  for (std::uint32_t round = 1; round <= 6; ++round) {
    const auto keep = std::make_shared<int>(0);
    const transfer_key key{round, 1};
    const auto landed = post(*mine, key, to.regions(), keep);
    peer.tell("send " + mine->address() + " " + list(round));
    ASSERT_EQ(peer.hear(), "sending");
    if (round % 2 == 0) landed->next(1s);
    peer.signal(SIGSTOP);
    ASSERT_TRUE(withdraw(*mine, key, 10s));
    EXPECT_EQ(keep.use_count(), 1);
    to.poison(0xEE);
    peer.signal(SIGCONT);
    EXPECT_TRUE(peer.hear().starts_with("sent ")) << "it learns that its place is gone, or had sent all";
    ASSERT_TRUE(to.all(0xEE));
  }
}

// What reads by itself has to be stopped: the connection ends with it.
TEST_P(FabricProcesses, ASenderThatStandsStillForGoodHoldsUpAWithdrawalForABoundedTime) {
  const auto mine = make(1500ms);
  auto to = memory();
  for (std::uint32_t round = 1; round <= 3; ++round) {
    peer_process peer(GetParam());
    const auto keep = std::make_shared<int>(0);
    const transfer_key key{round, 1};
    const auto landed = post(*mine, key, to.regions(), keep);
    peer.tell("send " + mine->address() + " " + list(round));
    ASSERT_EQ(peer.hear(), "sending");
    if (round != 1) landed->next(1s);
    peer.signal(SIGSTOP);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(withdraw(*mine, key, 10s));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
    EXPECT_EQ(keep.use_count(), 1);
    to.poison(0xEE);
    std::this_thread::sleep_for(5ms);
    ASSERT_TRUE(to.all(0xEE));
    peer.signal(SIGKILL);
  }
  expect_nothing_open(*mine);
}

INSTANTIATE_TEST_SUITE_P(Ucx, FabricProcesses,
                         ::testing::Values(setup{way::cross_memory}, setup{way::streams}, setup{way::messages},
                                           setup{way::mapped}, setup{way::remote_reads}, setup{way::cross_memory, true},
                                           setup{way::streams, true}, setup{way::messages, true},
                                           setup{way::remote_reads, true}),
                         [](const auto& each) { return name(each.param); });

} // namespace
} // namespace godwit::transport::testing
