#include <godwit/gpu/collective.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace godwit::gpu::collective {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Runs `body` on a thread for each rank and waits for all.
void run_ranks(const std::vector<std::shared_ptr<communicator>>& group,
               const std::function<void(communicator&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(group.size());
  for (const auto& end : group) threads.emplace_back([&body, end] { body(*end); });
  for (auto& thread : threads) thread.join();
}

std::vector<float> values_of(std::uint32_t rank, std::size_t count, unsigned seed) {
  std::mt19937 engine(seed * 100 + rank);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (auto& value : out) value = std::ldexp(normal(engine), static_cast<int>(engine() % 30) - 15);
  return out;
}

std::vector<float> sum_in_order(std::uint32_t ranks, std::size_t count, unsigned seed) {
  auto sum = values_of(0, count, seed);
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const auto next = values_of(rank, count, seed);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// A moment, so that the ranks come in some other order each time.
void dawdle(std::mt19937& engine) {
  switch (engine() % 3) {
  case 0:
    std::this_thread::sleep_for(std::chrono::microseconds(engine() % 200));
    break;
  case 1:
    std::this_thread::yield();
    break;
  default:
    break;
  }
}

// Floating-point sums depend on their order; an answer must not depend on which device was first.
TEST(HostGroup, SumsInTheOrderOfTheRanksWhoeverComesFirst) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 7U}) {
    const auto group = make_host_group(ranks);
    run_ranks(group, [&](communicator& mine) {
      std::mt19937 engine(mine.rank() + 17 * ranks);
      for (unsigned round = 0; round < 60; ++round) {
        const std::size_t count = std::vector<std::size_t>{0, 1, 15, 16, 100, 4096, 5000, 9001}[round % 8];
        auto values = values_of(mine.rank(), count, round);
        dawdle(engine);
        EXPECT_EQ(mine.all_reduce(values), "");
        EXPECT_TRUE(same_bits(values, sum_in_order(ranks, count, round))) << ranks << " ranks, round " << round;
      }
    });
  }
}

TEST(HostGroup, MixedOperationsInOneOrderGiveEverybodyTheSame) {
  constexpr std::uint32_t ranks = 4;
  const auto group = make_host_group(ranks);
  run_ranks(group, [&](communicator& mine) {
    std::mt19937 own(mine.rank() + 1), common(5);
    for (unsigned round = 0; round < 300; ++round) {
      const std::size_t count = common() % 300;
      auto values = values_of(mine.rank(), count, round);
      dawdle(own);
      if (common() % 2 == 0) {
        ASSERT_EQ(mine.all_reduce(values), "");
        ASSERT_TRUE(same_bits(values, sum_in_order(ranks, count, round)));
      } else {
        std::vector<float> all(count * ranks);
        ASSERT_EQ(mine.all_gather(values, all), "");
        for (std::uint32_t other = 0; other < ranks; ++other)
          ASSERT_TRUE(same_bits({all.begin() + static_cast<std::ptrdiff_t>(count * other),
                                 all.begin() + static_cast<std::ptrdiff_t>(count * (other + 1))},
                                values_of(other, count, round)));
      }
    }
  });
}

TEST(HostGroup, NobodyLeavesASumBeforeAllHaveCome) {
  const auto group = make_host_group(3);
  std::atomic<int> come{0};
  run_ranks(group, [&](communicator& mine) {
    std::mt19937 engine(mine.rank());
    for (int round = 1; round <= 100; ++round) {
      dawdle(engine);
      ++come;
      std::vector<float> one(1);
      EXPECT_EQ(mine.all_reduce(one), "");
      EXPECT_GE(come.load(), 3 * round);
      EXPECT_EQ(mine.all_reduce(one), "");
    }
  });
}

/// What the ranks that wait get to hear when `ending` happens, and how long they took to hear it.
struct ended {
  std::vector<std::string> errors;
  steady_clock::duration longest{};
};
ended end_while_others_wait(std::uint32_t ranks, const std::function<std::string(communicator&)>& wait,
                            const std::function<void(std::shared_ptr<communicator>&)>& ending) {
  auto group = make_host_group(ranks, 20s);
  ended out;
  out.errors.resize(ranks - 1);
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> near{0};
  std::vector<steady_clock::time_point> ends(ranks - 1);
  for (std::uint32_t i = 0; i + 1 < ranks; ++i)
    threads.emplace_back([&, i, mine = group[i + 1]] {
      ++near;
      out.errors[i] = wait(*mine);
      ends[i] = steady_clock::now();
    });
  while (near != ranks - 1) std::this_thread::yield();
  std::this_thread::sleep_for(10ms);
  const auto began = steady_clock::now();
  ending(group[0]);
  for (auto& thread : threads) thread.join();
  for (const auto at : ends) out.longest = std::max(out.longest, at - began);
  return out;
}

std::string reduces(communicator& mine) {
  std::vector<float> values(100);
  return mine.all_reduce(values);
}
std::string gathers(communicator& mine) {
  std::vector<float> values(100), all(100 * mine.ranks());
  return mine.all_gather(values, all);
}

TEST(HostGroup, AnAbortEndsEveryWaitAtOnceWhateverIsWaitedFor) {
  for (const auto& wait : {reduces, gathers}) {
    const auto out = end_while_others_wait(4, wait, [](auto& end) { end->abort("a person said so"); });
    for (const auto& error : out.errors) EXPECT_EQ(error, "a person said so");
    EXPECT_LT(out.longest, 5s);
  }
}

TEST(HostGroup, ARankThatGoesAwayEndsEveryWaitAtOnce) {
  for (const auto& wait : {reduces, gathers}) {
    const auto out = end_while_others_wait(3, wait, [](auto& end) { end.reset(); });
    for (const auto& error : out.errors) EXPECT_EQ(error, "rank 0 is gone");
    EXPECT_LT(out.longest, 5s);
  }
}

// Who is first says what the others come to: on a busy machine that may be rank 0.
TEST(HostGroup, OneThatComesToSomethingElseIsAnErrorForAll) {
  std::string own;
  auto out = end_while_others_wait(3, reduces, [&](auto& end) { own = gathers(*end); });
  EXPECT_THAT(own, AnyOf("rank 0 comes to a gathering of 100 values, others to a sum of 100 values",
                         "rank 1 comes to a sum of 100 values, others to a gathering of 100 values",
                         "rank 2 comes to a sum of 100 values, others to a gathering of 100 values"));
  for (const auto& error : out.errors) EXPECT_EQ(error, own);
  out = end_while_others_wait(2, reduces, [&](auto& end) {
    std::vector<float> fewer(99);
    own = end->all_reduce(fewer);
  });
  EXPECT_THAT(own, AnyOf("rank 0 comes to a sum of 99 values, others to a sum of 100 values",
                         "rank 1 comes to a sum of 100 values, others to a sum of 99 values"));
  EXPECT_EQ(out.errors[0], own);
}

TEST(HostGroup, ASizeThatCannotBeIsRefusedAndBreaksTheGroup) {
  const auto group = make_host_group(2);
  std::vector<float> own(4), all(7);
  EXPECT_THAT(group[0]->all_gather(own, all), HasSubstr("another size"));
  EXPECT_THAT(group[1]->all_reduce(own), HasSubstr("another size"));
}

TEST(HostGroup, WhoNeverComesIsNamedWhenTheTimeIsUp) {
  const auto group = make_host_group(4, 1s);
  std::vector<std::string> errors(4);
  std::vector<std::thread> threads;
  for (const std::uint32_t rank : {0U, 2U})
    threads.emplace_back([&errors, rank, mine = group[rank]] { errors[rank] = reduces(*mine); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(errors[0], "ranks 1, 3 did not come to a sum of 100 values within 1000 ms");
  EXPECT_EQ(errors[2], errors[0]);
  EXPECT_EQ(reduces(*group[1]), errors[0]) << "who comes too late hears it, too";
}

TEST(HostGroup, AfterAnErrorNothingBeginsAndTheFirstReasonStays) {
  const auto group = make_host_group(2);
  group[0]->abort("first");
  group[1]->abort("second");
  for (const auto& end : group)
    for (const auto& operation : {reduces, gathers}) EXPECT_EQ(operation(*end), "first");
  group[0]->abort("");
  EXPECT_EQ(reduces(*group[0]), "first");
}

// At every moment: before, within, and after any of the operations.
TEST(HostGroup, AnAbortAtAnyMomentLetsEveryRankGo) {
  std::mt19937 engine(3);
  for (unsigned round = 0; round < 150; ++round) {
    auto group = make_host_group(2 + round % 3, 20s);
    std::thread breaker([&group, wait = engine() % 400, how = round % 2] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      if (how == 0)
        group.back()->abort("now");
      else
        group[0]->abort("now");
    });
    run_ranks(group, [&](communicator& mine) {
      std::vector<float> values(64, 1.0F), all(64 * mine.ranks());
      for (;;) {
        std::fill(values.begin(), values.end(), 1.0F);
        auto error = mine.all_reduce(values);
        if (error.empty()) {
          for (const float value : values) ASSERT_EQ(value, static_cast<float>(mine.ranks()));
          error = mine.all_gather(values, all);
        }
        if (!error.empty()) {
          EXPECT_EQ(error, "now");
          return;
        }
      }
    });
    breaker.join();
  }
}

TEST(HostGroup, AGroupOfOneNeedsNobody) {
  const auto group = make_host_group(1);
  std::vector<float> values{1, 2, 3}, all(3);
  EXPECT_EQ(group[0]->all_reduce(values), "");
  EXPECT_EQ(group[0]->all_gather(values, all), "");
  EXPECT_EQ(all, values);
  EXPECT_THROW((void)make_host_group(0), std::invalid_argument);
}

} // namespace
} // namespace godwit::gpu::collective
