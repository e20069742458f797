// A fabric may end at any moment, also while a connection is being made.
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>

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

constexpr int rounds_each = 50;
const int rounds = 3 * rounds_each * times_asked_for();

/// Waits in each round for another part of that time, from none to one and a half of it; it is measured now and then.
/// And in every other round for up to two milliseconds, for machines that connect within one: a machine that is busy
/// meanwhile measures more.
class moments {
public:
  void wait(int round, const block_memory& from, const block_memory& to) {
    if (round % rounds_each == 0) takes_ = connecting_takes(from, to);
    std::this_thread::sleep_for(round % 2 == 0 ? takes_ * (round % rounds_each) * 3 / (2 * rounds_each)
                                               : 13us * (round % 150));
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

void end_many_at_once() {
  const auto from = block_memory(1, 65536);
  const auto to = block_memory(1, 65536);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int each = 0; each < 4; ++each)
    threads.emplace_back([&from, &to, &wrong, each] {
      moments moment;
      for (int round = each; round < 60; ++round) try {
          auto a = ucx::make_fabric({}), b = ucx::make_fabric({});
          post(*b, {1, 1}, to.regions());
          const auto sent = send(*a, b->address(), {1, 1}, 0, from.regions());
          moment.wait(round, from, to);
          if (round % 2 == 0) std::swap(a, b);
          a.reset();
          b.reset();
          if (sent->count() != 1U) ++wrong;
        } catch (const std::exception& error) {
          std::cerr << error.what() << '\n';
          ++wrong;
        }
    });
  for (auto& one : threads) one.join();
  std::cerr << "every fabric has ended, " << wrong.load() << " of them wrongly\n";
}

// The thread on which UCX takes connections is one for all fabrics of a process. In about one of a hundred runs two
// faults of UCX 1.13.1 that only a process with several fabrics can meet end it (docs/design/fabric.md): by their
// names, in a process of their own.
TEST(FabricEndsDeathTest, ManyMayEndAtOnce) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        end_many_at_once();
        std::_Exit(0);
      },
      [](int status) { return WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGABRT; },
      "every fabric has ended, 0 of them wrongly|async\\.c:643|tcp_sockcm_ep\\.c:416");
}

} // namespace
} // namespace godwit::transport::testing
