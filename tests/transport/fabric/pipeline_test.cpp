// Many sends under way at once over UCX: receipts come in time, each withdrawal concerns one transfer, a dead process
// all.
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace godwit::transport::testing {
namespace {

class FabricPipeline : public ::testing::TestWithParam<setup> {
protected:
  static constexpr std::size_t sends = 12, count = 64, bytes = 65536;

  side here_{GetParam()};
  [[nodiscard]] ucx::settings options() const {
    auto out = here_.settings();
    out.peer_timeout = 1000ms;
    return out;
  }
  /// Twelve lists of 4 MiB: more than a window together.
  struct lists {
    lists(const side& here, bool scribbled) {
      for (std::size_t i = 0; i < sends; ++i) {
        each.push_back(std::make_unique<block_memory>(here.blocks(count, bytes)));
        if (scribbled) each.back()->scribble(i);
      }
    }
    std::vector<std::unique_ptr<block_memory>> each;
  };
  static std::string list(std::size_t id) {
    return std::to_string(id) + " " + std::to_string(count) + " " + std::to_string(bytes);
  }
};

// Receipts wait for company; a sender whose window is much smaller than what the receiver waits for gets them still.
TEST_P(FabricPipeline, ASmallWindowGetsItsReceiptsAtOnce) {
  auto small = options();
  small.window_bytes = 4096;
  const auto a = here_.make(small), b = here_.make(options());
  auto from = here_.blocks(count, bytes);
  auto to = here_.blocks(count, bytes);
  from.scribble(1);
  post(*b, {1, 1}, to.regions());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  EXPECT_TRUE(same(from, to));
}

TEST_P(FabricPipeline, AMessageLargerThanASegmentArrives) {
  auto large = options();
  large.bytes_per_message = 1 << 20;
  const auto a = here_.make(large), b = here_.make(options());
  auto from = here_.blocks(5, 1'300'001);
  auto to = here_.blocks(5, 1'300'001);
  from.scribble(1);
  post(*b, {1, 1}, to.regions());
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  EXPECT_TRUE(same(from, to));
}

TEST_P(FabricPipeline, AWithdrawalConcernsOneOfManyTransfersUnderWay) {
  const auto a = here_.make(options()), b = here_.make(options());
  const lists from(here_, true), to(here_, false);
  for (std::uint32_t round = 0; round < 12; ++round) {
    std::vector<std::shared_ptr<answers<std::string>>> sent;
    for (std::size_t i = 0; i < sends; ++i) post(*b, {i, round}, to.each[i]->regions());
    for (std::size_t i = 0; i < sends; ++i)
      sent.push_back(send(*a, b->address(), {i, round}, 0, from.each[i]->regions()));
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    for (std::size_t i = 1; i < sends; i += 2) {
      ASSERT_TRUE(withdraw(*b, {i, round}, 2s));
      to.each[i]->poison(0xEE);
    }
    for (std::size_t i = 0; i < sends; i += 2) {
      EXPECT_EQ(sent[i]->next(), "") << "those beside it arrive";
      ASSERT_TRUE(withdraw(*b, {i, round}));
      EXPECT_TRUE(same(*from.each[i], *to.each[i]));
    }
    for (std::size_t i = 1; i < sends; i += 2) {
      EXPECT_TRUE(sent[i]->next()) << "an answer, whichever";
      ASSERT_TRUE(to.each[i]->all(0xEE)) << "round " << round << ", transfer " << i;
    }
  }
  EXPECT_EQ(a->figures().sends_open, 0U);
  EXPECT_EQ(b->figures().postings_open, 0U);
}

TEST_P(FabricPipeline, AReceiverThatIsKilledAnswersEverySend) {
  if (GetParam().how == way::remote_reads)
    GTEST_SKIP()
        << "UCX 1.13 can abort where whoever reads by its messages goes (docs/design/fabric.md); an adapter sends none";
  const auto mine = here_.make(options());
  const lists from(here_, true);
  for (std::uint32_t round = 0; round < 4; ++round) {
    peer_process peer(GetParam());
    for (std::size_t i = 0; i < sends; ++i) {
      peer.tell("post " + list(i));
      ASSERT_EQ(peer.hear(), "posted");
    }
    const auto keep = std::make_shared<int>(0);
    std::vector<std::shared_ptr<answers<std::string>>> sent;
    for (std::size_t i = 0; i < sends; ++i)
      sent.push_back(
          send(*mine, peer.address(), {i, 1}, 0, from.each[i]->regions(), transfer_priority::bulk, 60s, keep));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * round));
    peer.signal(SIGKILL);
    for (auto& one : sent) ASSERT_TRUE(one->next(5s));
    EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }, 3s));
    EXPECT_EQ(mine->figures().sends_open, 0U);
  }
}

TEST_P(FabricPipeline, ASenderThatIsKilledLeavesNoWriteInAnyPosting) {
  const auto mine = here_.make(options());
  const lists to(here_, false);
  for (std::uint32_t round = 0; round < 4; ++round) {
    peer_process peer(GetParam());
    for (std::size_t i = 0; i < sends; ++i) {
      const auto id = 100 * (round + 1) + i;
      post(*mine, {id, 1}, to.each[i]->regions());
      peer.tell("send " + mine->address() + " " + list(id));
    }
    ASSERT_EQ(peer.hear(), "sending");
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 5 * round));
    peer.signal(SIGKILL);
    for (std::size_t i = 0; i < sends; ++i) {
      ASSERT_TRUE(withdraw(*mine, {100 * (round + 1) + i, 1}, 1s));
      to.each[i]->poison(0xEE);
    }
    std::this_thread::sleep_for(5ms);
    for (const auto& one : to.each) ASSERT_TRUE(one->all(0xEE));
  }
  EXPECT_TRUE(eventually([&] { return mine->figures().peers_open == 0 && mine->figures().postings_open == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Ucx, FabricPipeline,
                         ::testing::Values(setup{way::cross_memory}, setup{way::streams}, setup{way::messages},
                                           setup{way::mapped}, setup{way::remote_reads}, setup{way::cross_memory, true},
                                           setup{way::streams, true}, setup{way::messages, true},
                                           setup{way::remote_reads, true}),
                         [](const auto& each) { return name(each.param); });

} // namespace
} // namespace godwit::transport::testing
