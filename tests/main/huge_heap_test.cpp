#include "main/huge_heap.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace godwit::main {
namespace {

/// Of this process, in KiB.
std::size_t resident() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;)
    if (word == "VmRSS:") {
      std::size_t out = 0;
      in >> out;
      return out;
    }
  return 0;
}

bool linux_gives_them() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(in, text);
  return text.find("[madvise]") != std::string::npos || text.find("[always]") != std::string::npos;
}

/// In a process of its own: the heap stays as it is made.
[[noreturn]] void take_some() {
  constexpr std::size_t asked = std::size_t{64} << 20, page = std::size_t{2} << 20;
  const auto before = resident();
  const auto marked = use_huge_pages(asked);
  if (marked + 2 * page < asked || marked > asked + 2 * page) std::exit(1);
  if (resident() > before + 8 * 1024) std::exit(2);
  std::vector<std::string> some; // the heap is as good as before
  for (int i = 0; i < 10'000; ++i) some.emplace_back(200, 'x');
  for (const auto& one : some)
    if (one != std::string(200, 'x')) std::exit(3);
  std::exit(resident() < before + 16 * 1024 ? 0 : 4);
}

TEST(HugeHeap, IsMarkedAndTakesNoMemoryUntilItIsUsed) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another malloc";
#endif
  if (resident() == 0 || !linux_gives_them()) GTEST_SKIP() << "no huge pages to be had here";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(take_some(), ::testing::ExitedWithCode(0), "");
}

TEST(HugeHeap, AskedForNothingDoesNothing) { EXPECT_EQ(use_huge_pages(0), 0U); }

} // namespace
} // namespace godwit::main
