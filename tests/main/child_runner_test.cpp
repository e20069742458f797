#include "main/child_runner.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

namespace godwit::main {

using namespace std::chrono_literals;

namespace {

/// How a child ended, for a thread that waits.
class ending_child {
public:
  std::function<void(std::string)> taker() {
    return [this](std::string how) {
      const std::lock_guard lock(mutex_);
      how_ = std::move(how);
      ++times_;
      told_.notify_all();
    };
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    if (!told_.wait_for(lock, 20s, [this] { return how_.has_value(); })) return "nobody said";
    return *how_;
  }
  int times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::optional<std::string> how_;
  int times_ = 0;
};

/// What a child has come to a point of its script by: a file of this process.
class sign {
public:
  explicit sign(const std::string& name)
      : file_(::testing::TempDir() + "godwit_child_" + std::to_string(::getpid()) + "_" + name) {}
  sign(const sign&) = delete;
  sign& operator=(const sign&) = delete;
  ~sign() { std::filesystem::remove(file_); }
  [[nodiscard]] std::string give() const { return "touch '" + file_ + "'"; }
  [[nodiscard]] bool wait() const {
    for (int look = 0; look < 2000; ++look) {
      if (std::filesystem::exists(file_)) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

private:
  std::string file_;
};

child_order shell(const std::string& name, const std::string& command, ending_child& to) {
  child_order order;
  order.name = name;
  order.arguments = {"/bin/sh", "-c", command};
  order.ended = to.taker();
  return order;
}

} // namespace

TEST(ChildRunner, SaysHowAChildEnded) {
  child_runner children;
  ending_child good, bad, killed, missing;
  children.start(shell("a", "exit 0", good));
  children.start(shell("b", "exit 7", bad));
  children.start(shell("c", "kill -9 $$", killed));
  auto nobody = shell("d", "", missing);
  nobody.arguments[0] = "/nowhere/at/all";
  children.start(std::move(nobody));
  EXPECT_EQ(good.wait(), "");
  EXPECT_EQ(bad.wait(), "exit code 7");
  EXPECT_EQ(killed.wait(), "signal 9");
  EXPECT_EQ(missing.wait(), "cannot start /nowhere/at/all: No such file or directory");
  EXPECT_EQ(children.running(), 0U);
}

TEST(ChildRunner, WhatAChildPrintsComesWithItsErrorsOrIsDropped) {
  const auto printed = [](bool drops) {
    ::testing::internal::CaptureStderr();
    {
      child_runner children;
      ending_child end;
      auto talks = shell("talks", "echo said; echo wrong >&2", end);
      talks.drops_output = drops;
      children.start(std::move(talks));
      EXPECT_EQ(end.wait(), "");
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed(false), "said\nwrong\n");
  EXPECT_EQ(printed(true), "wrong\n");
}

TEST(ChildRunner, OneThatTakesTooLongIsKilledWithWhatItStarted) {
  child_runner children;
  ending_child end;
  auto slow = shell("slow", "sleep 1000 & wait", end);
  slow.time_max = 100ms;
  children.start(std::move(slow));
  EXPECT_EQ(end.wait(), "killed, since it took too long");
}

TEST(ChildRunner, OneThatIsStoppedMayEndByItselfAndIsKilledWhereItDoesNot) {
  child_runner children(2s); // in which the polite one ends by itself on a busy machine, too
  ending_child polite, deaf;
  const sign polite_is_ready("polite"), deaf_is_ready("deaf");
  children.start(
      shell("polite", "trap 'exit 5' TERM; " + polite_is_ready.give() + "; while :; do sleep 0.01; done", polite));
  children.start(shell("deaf", "trap '' TERM; " + deaf_is_ready.give() + "; while :; do sleep 0.01; done", deaf));
  ASSERT_TRUE(polite_is_ready.wait());
  ASSERT_TRUE(deaf_is_ready.wait());
  children.stop("polite");
  children.stop("deaf");
  children.stop("nobody");
  EXPECT_EQ(polite.wait(), "exit code 5");
  EXPECT_EQ(deaf.wait(), "signal 9");
}

TEST(ChildRunner, NoChildOutlivesIt) {
  ending_child first, second, late;
  {
    child_runner children(2s); // in which the first one ends by itself on a busy machine, too
    const sign first_runs("first"), second_is_ready("second");
    children.start(shell("first", first_runs.give() + "; sleep 1000", first));
    children.start(
        shell("second", "trap '' TERM; " + second_is_ready.give() + "; while :; do sleep 0.01; done", second));
    ASSERT_TRUE(first_runs.wait());
    ASSERT_TRUE(second_is_ready.wait());
    children.stop_all();
    EXPECT_EQ(children.running(), 0U);
    children.start(shell("late", "true", late));
  }
  EXPECT_EQ(first.wait(), "signal 15");
  EXPECT_EQ(second.wait(), "signal 9");
  EXPECT_EQ(late.wait(), "this process is shutting down");
  EXPECT_EQ(first.times(), 1);
  EXPECT_EQ(late.times(), 1);
}

TEST(ChildRunner, WhatSomebodyThrowsWhoIsToldOfAnEndIsNoAffairOfOthers) {
  child_runner children;
  ending_child first, second;
  for (auto* const end : {&first, &second}) {
    auto order = shell("throws", "exit 3", *end);
    order.ended = [tell = order.ended](std::string how) {
      tell(std::move(how));
      throw std::bad_alloc();
    };
    children.start(std::move(order));
    EXPECT_EQ(end->wait(), "exit code 3");
  }
  EXPECT_EQ(children.running(), 0U);
}

TEST(ChildRunner, ChildrenGetTheirEnvironmentAndNoneOfOurFiles) {
  child_runner children;
  ending_child end;
  auto order = shell("env", "test \"$WHO\" = me && test -z \"$HOME\" && test ! -e /proc/self/fd/9 && exit 42", end);
  order.environment = {"WHO=me"};
  const int file = ::dup2(0, 9); // as a socket of ours
  children.start(std::move(order));
  EXPECT_EQ(end.wait(), "exit code 42");
  EXPECT_EQ(file, 9);
}

} // namespace godwit::main
