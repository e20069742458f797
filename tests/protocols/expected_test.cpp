#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/expected.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace godwit::protocols {
namespace {

using number_or_reason = expected<int, std::string>;

TEST(Expected, HasAValueOrTheReasonWhyThereIsNone) {
  const number_or_reason seven = 7;
  EXPECT_TRUE(seven);
  EXPECT_EQ(*seven, 7);
  const number_or_reason none = unexpected(std::string("no number"));
  EXPECT_FALSE(none);
  EXPECT_EQ(none.error(), "no number");
}

// In a release build, too.
TEST(Expected, TheSideThatIsNotThereIsNotRead) {
  const number_or_reason seven = 7;
  number_or_reason none = unexpected(std::string("no number"));
  EXPECT_THROW((void)seven.error(), contract_violation);
  EXPECT_THROW((void)none.value(), contract_violation);
  EXPECT_THROW((void)*std::as_const(none), contract_violation);
  EXPECT_THROW((void)*std::move(none), contract_violation);
}

} // namespace
} // namespace godwit::protocols
