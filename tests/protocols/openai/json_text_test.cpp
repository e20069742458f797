#include "protocols/openai/json_support.hpp"

#include <godwit/protocols/openai/json_text.hpp>
#include <godwit/protocols/openai/sse.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace godwit::protocols::openai {
namespace {

std::string round_trip(std::string_view text) {
  const auto value = testing_support::read(json_string(text));
  return {value.as_string().data(), value.as_string().size()};
}

TEST(JsonText, EscapesWhatJsonDemandsAndNothingElse) {
  EXPECT_EQ(json_string("a\"b\\c/\n\r\t\b\f"), R"("a\"b\\c/\n\r\t\b\f")");
  EXPECT_EQ(json_string(std::string_view{"\0\x01\x1f", 3}), R"("\u0000\u0001\u001f")");
  EXPECT_EQ(json_string("é😀"), "\"é😀\"");
}

TEST(JsonText, AnyCharacterComesBackUnchanged) {
  for (std::uint32_t c = 0; c < 0x110000; c += (c < 0x3000 ? 1 : 61)) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    if (c < 0x80)
      text += static_cast<char>(c);
    else if (c < 0x800)
      text = {static_cast<char>(0xC0 | c >> 6U), static_cast<char>(0x80 | (c & 63U))};
    else if (c < 0x10000)
      text = {static_cast<char>(0xE0 | c >> 12U), static_cast<char>(0x80 | (c >> 6U & 63U)),
              static_cast<char>(0x80 | (c & 63U))};
    else
      text = {static_cast<char>(0xF0 | c >> 18U), static_cast<char>(0x80 | (c >> 12U & 63U)),
              static_cast<char>(0x80 | (c >> 6U & 63U)), static_cast<char>(0x80 | (c & 63U))};
    ASSERT_EQ(round_trip(text), text) << c;
  }
}

TEST(JsonText, WhatIsNotUtf8IsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(round_trip("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(round_trip("\xC3"), r) << "cut off";
  EXPECT_EQ(round_trip("\xE2\x82"), r) << "cut off: one replacement for the beginning of one character";
  EXPECT_EQ(round_trip("\xE2\x82("), r + "(");
  EXPECT_EQ(round_trip("\xC0\x80"), r + r) << "overlong";
  EXPECT_EQ(round_trip("\xED\xA0\x80"), r + r + r) << "a surrogate";
  EXPECT_EQ(round_trip("\xF4\x90\x80\x80"), r + r + r + r) << "beyond U+10FFFF";
}

TEST(JsonText, AnyBytesGiveJson) {
  std::mt19937 random{1};
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 2 == 0 ? 0x80 + random() % 128 : random() % 256);
    ASSERT_NO_THROW(round_trip(bytes));
  }
}

TEST(JsonText, NumbersAreShortAndAlwaysJson) {
  const auto text = [](float value) {
    std::string out;
    append_json_number(out, value);
    return out;
  };
  EXPECT_EQ(text(-0.5F), "-0.5");
  EXPECT_EQ(text(0.1F), "0.1");
  EXPECT_EQ(text(-INFINITY), "-9999");
  EXPECT_EQ(text(NAN), "-9999");
  EXPECT_NO_THROW(testing_support::read(text(-1e-30F)));
}

TEST(ServerSentEvents, AreFramedLineByLine) {
  EXPECT_EQ(sse_event("{}"), "data: {}\n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_done(), "data: [DONE]\n\n");
  EXPECT_EQ(sse_keep_alive().front(), ':');
}

} // namespace
} // namespace godwit::protocols::openai
