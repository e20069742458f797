// A fabric may end at any moment, also while a connection is being made.
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::transport::testing {
namespace {

/// How long a first send to a fabric takes here, most of it connecting.
std::chrono::nanoseconds connecting_takes(const block_memory& from, const block_memory& to) {
  const auto a = ucx::make_fabric({}), b = ucx::make_fabric({});
  post(*b, {1, 1}, to.regions());
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  return std::chrono::steady_clock::now() - begun;
}

constexpr int rounds = 400, rounds_each = 50;

/// Waits in each round for another part of that time, from none to one and a half of it; it is measured now and then.
/// And in every other round for up to two milliseconds, for machines that connect within one: a machine that is busy
/// meanwhile measures more.
class moments {
public:
  void wait(int round, const block_memory& from, const block_memory& to) {
    if (round % rounds_each == 0) takes_ = connecting_takes(from, to);
    std::this_thread::sleep_for(round % 2 == 0 ? takes_ * (round % rounds_each) * 3 / (2 * rounds_each)
                                               : 10us * (round % 200));
  }

private:
  std::chrono::nanoseconds takes_{0};
};

// UCX 1.13 read what it had freed where a caller's first word came as the listener ended, and aborted the process where
// a connection was reset and could not be made again within one call.
TEST(FabricEnds, AReceiverThatEndsWhileItIsConnectedToIsAnError) {
  const auto from = block_memory(1, 65536);
  const auto to = block_memory(1, 65536);
  const auto sender = ucx::make_fabric({});
  moments moment;
  for (int round = 0; round < rounds; ++round) {
    auto receiver = ucx::make_fabric({});
    post(*receiver, {1, 1}, to.regions());
    const auto sent = send(*sender, receiver->address(), {1, 1}, 0, from.regions());
    moment.wait(round, from, to);
    receiver.reset();
    ASSERT_TRUE(sent->next()) << "neither sent nor failed, round " << round;
  }
  EXPECT_EQ(sender->figures().sends_open, 0U);
}

TEST(FabricEnds, ASenderThatEndsWhileItConnectsHurtsNobody) {
  const auto from = block_memory(1, 65536);
  auto to = block_memory(1, 65536);
  const auto receiver = ucx::make_fabric({});
  moments moment;
  for (int round = 0; round < rounds; ++round) {
    auto sender = ucx::make_fabric({});
    post(*receiver, {1, 1}, to.regions());
    const auto sent = send(*sender, receiver->address(), {1, 1}, 0, from.regions());
    moment.wait(round, from, to);
    sender.reset();
    ASSERT_EQ(sent->count(), 1U) << "before the destructor returned, round " << round;
    ASSERT_TRUE(withdraw(*receiver, {1, 1})) << "round " << round;
  }
  EXPECT_TRUE(eventually([&] { return receiver->figures().peers_open == 0; }));
}

// The thread on which UCX takes connections is one for all fabrics of a process.
TEST(FabricEnds, ManyMayEndAtOnce) {
  const auto from = block_memory(1, 65536);
  const auto to = block_memory(1, 65536);
  std::vector<std::thread> threads;
  for (int each = 0; each < 4; ++each)
    threads.emplace_back([&from, &to, each] {
      moments moment;
      for (int round = each; round < 60; ++round) {
        auto a = ucx::make_fabric({}), b = ucx::make_fabric({});
        post(*b, {1, 1}, to.regions());
        const auto sent = send(*a, b->address(), {1, 1}, 0, from.regions());
        moment.wait(round, from, to);
        if (round % 2 == 0) std::swap(a, b);
        a.reset();
        b.reset();
        EXPECT_EQ(sent->count(), 1U);
      }
    });
  for (auto& one : threads) one.join();
}

} // namespace
} // namespace godwit::transport::testing
