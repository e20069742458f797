#include "main/settings.hpp"

#include <gtest/gtest.h>

namespace godwit::main {

TEST(Endpoint, KnowsAddressesThatNameNoMachine) {
  for (const char* all : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::0", "0::", "::ffff:0.0.0.0"})
    EXPECT_TRUE(is_wildcard(all)) << all;
  for (const char* one : {"127.0.0.1", "::1", "10.0.0.1", "localhost", "0.0.0.0.example", "::ffff:10.0.0.1", ""})
    EXPECT_FALSE(is_wildcard(one)) << one;
}

TEST(Endpoint, KnowsAddressesThatOthersDoNotReach) {
  for (const char* own : {"127.0.0.1", "127.9.9.9", "::1", "0:0:0:0:0:0:0:1", "localhost"})
    EXPECT_TRUE(is_loopback(own)) << own;
  for (const char* open : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example"}) EXPECT_FALSE(is_loopback(open)) << open;
}

} // namespace godwit::main
