#include <godwit/runtime/machine.hpp>
#include <godwit/runtime/version.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <regex>
#include <set>
#include <string>

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

TEST(Version, IsThatOfTheProject) {
  EXPECT_TRUE(std::regex_match(std::string(runtime::version()), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
}

} // namespace godwit::test
