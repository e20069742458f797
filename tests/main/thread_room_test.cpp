#include "main/thread_room.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::main {

namespace {

rlim_t address_space() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace

TEST(ThreadRoom, SaysHowManyThreadsThereAreWhereTheyAreShort) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory has no room in what this test leaves";
#endif
  EXPECT_FALSE(check_threads(8));
  rlimit before{}, stack{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &stack), 0);
  if (stack.rlim_cur == RLIM_INFINITY) GTEST_SKIP() << "stacks have no size here by which they could be short";
  // Root is under no ulimit -u, but there is no thread without a stack.
  const rlimit little{address_space() + 4 * stack.rlim_cur, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  const auto wrong = check_threads(64);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->exit_code, 1);
  EXPECT_THAT(wrong->line,
              ::testing::MatchesRegex("this process gets [0-9]+ threads and wants 64: .*; raise the limit .*"));
  EXPECT_FALSE(check_threads(64));
}

TEST(ThreadRoom, CountsActorsAndDevices) {
  serve_settings settings;
  settings.runtime.worker_threads = 3;
  settings.instances.count = 2;
  settings.instances.threads = 5;
  const auto two = threads_of(settings);
  settings.instances.count = 3;
  EXPECT_EQ(threads_of(settings), two + 5 + 2);
  settings.runtime.worker_threads = 4;
  EXPECT_EQ(threads_of(settings), two + 5 + 2 + 1);
}

} // namespace godwit::main
