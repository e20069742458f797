#include <godwit/runtime/machine.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace godwit::test {

TEST(Machine, NoTwoDrawsAreAlike) {
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(runtime::entropy());
  EXPECT_EQ(drawn.size(), 1000U);
}

TEST(Machine, KnowsTheTime) {
  const auto before = runtime::unix_time_s();
  EXPECT_GT(before, 1'700'000'000);
  EXPECT_GE(runtime::unix_time_s(), before);
}

} // namespace godwit::test
