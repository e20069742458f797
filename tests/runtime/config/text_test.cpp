// Values in the notation of users, through the public registry.
#include <godwit/runtime/config/registry.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace godwit::runtime::config {
namespace {

std::optional<std::int64_t> read_duration(const std::string& text) {
  auto x = std::chrono::nanoseconds(-77);
  auto r = registry();
  r.add("x", x, {.doc = "A time."});
  if (r.set("x", text, {source::flag, ""})) return std::nullopt;
  return x.count();
}

std::optional<std::uint64_t> read_bytes(const std::string& text) {
  auto x = std::uint64_t{77};
  auto r = registry();
  r.add("x", x, {.doc = "A size.", .unit = "bytes"});
  if (r.set("x", text, {source::flag, ""})) return std::nullopt;
  return x;
}

TEST(ConfigText, DurationsNeedAUnit) {
  EXPECT_EQ(read_duration("200ms"), 200'000'000);
  EXPECT_EQ(read_duration("1h30m"), 5'400'000'000'000);
  EXPECT_EQ(read_duration("1.5s"), 1'500'000'000);
  EXPECT_EQ(read_duration("2 s"), 2'000'000'000);
  EXPECT_EQ(read_duration("-5us"), -5'000);
  EXPECT_EQ(read_duration("0"), 0);
  EXPECT_EQ(read_duration(".5s"), 500'000'000);
  EXPECT_EQ(read_duration("1.1h"), 3'960'000'000'000);
  EXPECT_EQ(read_duration("0.0000000005s"), std::nullopt) << "half a nanosecond";
  for (std::int64_t ms = 0; ms < 70'000; ms += 7) { // no double is 4.1
    const auto digits = std::to_string(1000 + ms % 1000).substr(1);
    const auto text = std::to_string(ms / 1000) + "." + digits + "s";
    ASSERT_EQ(read_duration(text), ms * 1'000'000) << text;
  }
  for (const auto* text : {"", "5", "ms", "5x", "1.2.3s", "1e3s", "99999999999h", "- 5s", "5ss"})
    EXPECT_EQ(read_duration(text), std::nullopt) << text;
}

TEST(ConfigText, SizesTakeBothKindsOfUnits) {
  EXPECT_EQ(read_bytes("4096"), 4096U);
  EXPECT_EQ(read_bytes("512MiB"), 512ULL << 20);
  EXPECT_EQ(read_bytes("512 mib"), 512ULL << 20);
  EXPECT_EQ(read_bytes("2GB"), 2'000'000'000U);
  EXPECT_EQ(read_bytes("0.5KiB"), 512U);
  EXPECT_EQ(read_bytes("8.2GB"), 8'200'000'000U);
  EXPECT_EQ(read_bytes("1.1GiB"), 1'181'116'006U) << "whole bytes";
  EXPECT_EQ(read_bytes("16777215.9999999999TiB"), 18446744073709551506ULL);
  EXPECT_EQ(read_bytes("16777216TiB"), std::nullopt);
  for (const auto* text : {"", "MiB", "-1", "1.3B", "5XB", "99999999999999TiB", "nan"})
    EXPECT_EQ(read_bytes(text), std::nullopt) << text;
}

TEST(ConfigText, IntegersKeepAll64Bits) {
  auto x = std::uint64_t{0};
  auto y = std::int64_t{0};
  auto z = std::int8_t{0};
  auto r = registry();
  r.add("x", x, {.doc = "Unsigned."}).add("y", y, {.doc = "Signed."}).add("z", z, {.doc = "Small."});
  EXPECT_EQ(r.set("x", "18446744073709551615", {}), std::nullopt);
  EXPECT_EQ(x, 18446744073709551615ULL);
  EXPECT_EQ(r.set("y", "-9223372036854775808", {}), std::nullopt);
  EXPECT_EQ(y, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(r.set("x", "100_000", {}), std::nullopt);
  EXPECT_EQ(x, 100'000U);
  EXPECT_TRUE(r.set("x", "18446744073709551616", {}).has_value());
  EXPECT_TRUE(r.set("z", "128", {}).has_value());
  EXPECT_TRUE(r.set("z", "1 2", {}).has_value());
}

} // namespace
} // namespace godwit::runtime::config
