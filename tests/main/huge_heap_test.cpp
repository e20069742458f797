#include "main/huge_heap.hpp"

#include <gtest/gtest.h>

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

TEST(HugeHeap, TakesNoMemoryUntilItIsUsed) {
  constexpr std::size_t asked = std::size_t{64} << 20;
  const auto before = resident();
  if (before == 0) GTEST_SKIP() << "no /proc/self/status here";
  const auto marked = use_huge_pages(asked);
  EXPECT_LE(marked, asked + (std::size_t{4} << 20)); // 0 where they cannot be had
  EXPECT_LT(resident(), before + 24 * 1024);
  std::vector<std::string> some; // the heap is as good as before
  for (int i = 0; i < 10'000; ++i) some.emplace_back(200, 'x');
  for (const auto& one : some) ASSERT_EQ(one.size(), 200U);
}

TEST(HugeHeap, AskedForNothingDoesNothing) { EXPECT_EQ(use_huge_pages(0), 0U); }

} // namespace
} // namespace godwit::main
