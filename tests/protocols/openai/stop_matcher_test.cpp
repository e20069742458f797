#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/openai/stop_matcher.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {
namespace {

std::shared_ptr<const stop_patterns> patterns(std::vector<std::string> stops, std::vector<std::string> own = {}) {
  return std::make_shared<const stop_patterns>(std::move(stops), std::move(own));
}

TEST(StopMatcher, WithoutStopStringsNothingIsHeldBack) {
  stop_matcher matcher{nullptr};
  EXPECT_EQ(matcher.push("hello").text, "hello");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStopString) {
  stop_matcher matcher{patterns({"END"})};
  EXPECT_EQ(matcher.push("the E").text, "the ");
  EXPECT_EQ(matcher.push("N").text, "");
  EXPECT_EQ(matcher.push("T").text, "ENT");
  EXPECT_EQ(matcher.push(" EN").text, " ");
  EXPECT_EQ(matcher.finish(), "EN");
}

TEST(StopMatcher, EndsTheAnswerBeforeOrBehindTheStopString) {
  stop_matcher before{patterns({"x", "END"})};
  EXPECT_EQ(before.push("text E").text, "te") << "x ends it";
  EXPECT_TRUE(before.stopped());
  stop_matcher matcher{patterns({"END", "STOP"})};
  EXPECT_EQ(matcher.push("some S").text, "some ");
  const auto end = matcher.push("TOP and more END");
  EXPECT_EQ(end.text, "");
  EXPECT_EQ(end.matched, 1U);
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_EQ(matcher.finish(), "");
  stop_matcher behind{patterns({"END"}), true};
  EXPECT_EQ(behind.push("the END.").text, "the END");
}

// What ends a turn where the vocabulary has no token for it.
TEST(StopMatcher, WhatNobodyAskedForIsNeverLeftInTheText) {
  const auto stops = patterns({"END"}, {"<end>"});
  EXPECT_TRUE(stops->asked_for(0));
  EXPECT_FALSE(stops->asked_for(1));
  stop_matcher matcher{stops, true};
  const auto end = matcher.push("the text<end>");
  EXPECT_EQ(end.text, "the text");
  EXPECT_EQ(end.matched, 1U);
  EXPECT_EQ((stop_matcher{stops, true}.push("the END.").text), "the END");
  const auto same = patterns({"END"}, {"END"});
  EXPECT_EQ((stop_matcher{same, true}.push("the END.").matched), 0U) << "it was asked for, too";
}

TEST(StopMatcher, OverlappingBeginningsAreNotMissed) {
  stop_matcher matcher{patterns({"aab"})};
  EXPECT_EQ(matcher.push("aaa").text, "a");
  const auto end = matcher.push("b");
  EXPECT_EQ(end.text, "");
  EXPECT_TRUE(end.matched);
}

TEST(StopMatcher, OfSeveralThatEndTogetherTheLongestCounts) {
  stop_matcher matcher{patterns({"b", "ab"})};
  const auto end = matcher.push("xab");
  EXPECT_EQ(end.text, "x");
  EXPECT_EQ(end.matched, 1U);
}

TEST(StopMatcher, SplitsNoCharacter) {
  stop_matcher matcher{patterns({"é!"})};
  EXPECT_EQ(matcher.push("caf").text, "caf");
  EXPECT_EQ(matcher.push("é").text, "");
  EXPECT_EQ(matcher.push("ê").text, "éê") << "which begins with the same byte";
}

TEST(StopMatcher, AnEmptyStopStringIsABug) { EXPECT_THROW(stop_patterns{{""}}, contract_violation); }

TEST(StopMatcher, WhatComesOutDoesNotDependOnThePieces) {
  std::mt19937 random{7};
  const auto word = [&](std::size_t size) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops;
    for (auto n = 1 + random() % 4; n > 0; --n) stops.push_back(word(1 + random() % 6));
    const auto text = word(random() % 40);
    const bool include = random() % 2 == 0;
    // By brute force: the first end of any stop string, of those that end there the longest.
    auto expected = text;
    bool stopped = false;
    for (std::size_t end = 1; end <= text.size() && !stopped; ++end) {
      std::size_t longest = 0;
      for (const auto& stop : stops)
        if (std::string_view{text}.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      if (longest == 0) continue;
      stopped = true;
      expected = text.substr(0, include ? end : end - longest);
    }
    stop_matcher matcher{patterns(stops), include};
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto size = std::min<std::size_t>(1 + random() % 5, text.size() - at);
      out += matcher.push(std::string_view{text}.substr(at, size)).text;
      at += size;
      ASSERT_LT(matcher.held_bytes(), 6U);
    }
    ASSERT_EQ(matcher.stopped(), stopped);
    out += matcher.finish();
    ASSERT_EQ(out, expected) << text;
  }
}

} // namespace
} // namespace godwit::protocols::openai
