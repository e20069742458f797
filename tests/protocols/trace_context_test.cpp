// https://www.w3.org/TR/trace-context/, section 3.2.
#include <godwit/protocols/trace_context.hpp>

#include <gtest/gtest.h>

namespace godwit::protocols {
namespace {

constexpr const char* usual = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

} // namespace

TEST(TraceContext, IsReadAndWritten) {
  const auto read = parse_traceparent(usual);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(read->parent, "b7ad6b7169203331");
  EXPECT_EQ(read->flags, 1);
  EXPECT_EQ(to_traceparent(*read), usual);
}

TEST(TraceContext, IsIgnoredUnlessItIsExactlyRight) {
  for (const char* wrong : {
           "",
           "00",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",    // no flags
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", // upper case
           "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01", // no digit
           "00-00000000000000000000000000000000-b7ad6b7169203331-01", // no trace
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", // no parent
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", // no version
           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", // version 00 ends here
           "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x", // others go on with a dash
           " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
       })
    EXPECT_FALSE(parse_traceparent(wrong)) << wrong;
}

TEST(TraceContext, OfLaterVersionsWhatIsKnownIsRead) {
  EXPECT_TRUE(parse_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  const auto more = parse_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-what the future holds");
  ASSERT_TRUE(more);
  EXPECT_EQ(more->flags, 3);
}

TEST(TraceContext, DigitsAreNeverAllZero) {
  EXPECT_EQ(trace_digits(0xABCDEF0123456789), "abcdef0123456789");
  EXPECT_EQ(trace_digits(0), "0000000000000001");
}

} // namespace godwit::protocols
