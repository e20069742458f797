#include <godwit/protocols/openai/reasoning_splitter.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {
namespace {

using start = reasoning_splitter::start;
using parts = std::pair<std::string, std::string>; // what is thought, what is said

parts split(start where, std::string_view text, std::size_t piece) {
  reasoning_splitter splitter(where);
  parts out;
  const auto take = [&](const reasoning_splitter::emission& more) {
    out.first += more.reasoning;
    out.second += more.text;
  };
  for (std::size_t at = 0; at < text.size(); at += piece) take(splitter.push(text.substr(at, piece)));
  take(splitter.finish());
  return out;
}

struct example {
  start where;
  std::string text;
  parts wanted;
};

TEST(ReasoningSplitter, TellsWhatIsThoughtFromWhatIsSaidHoweverItIsCut) {
  const std::vector<example> examples{
      {start::answer, "<think>\nAdd them.\n</think>\n\nIt is 5.\n", {"Add them.", "It is 5.\n"}},
      {start::answer, "\n <think>a\n\nb</think>c", {"a\n\nb", "c"}},
      {start::answer, "It is 5.", {"", "It is 5."}},
      {start::answer, " It <think> is </think> 5", {"", " It <think> is </think> 5"}},
      {start::answer, "<think>\n\n</think>\n\nIt is 5.", {"", "It is 5."}},
      {start::answer, "<thin", {"", "<thin"}},
      {start::answer, "<thinking>x", {"", "<thinking>x"}},
      {start::answer, "<think>and was cut </thi", {"and was cut </thi", ""}},
      {start::answer, "", {"", ""}},
      {start::answer, "<think>a</think>b</think><think>c", {"a", "b</think><think>c"}},
      {start::answer, "<think>a << </ </think> </think>", {"a << </", "</think>"}},
      {start::thinking, "\nAdd them.\n</think>\n\nIt is 5.", {"Add them.", "It is 5."}},
      {start::thinking, "</think>It is 5.", {"", "It is 5."}},
      {start::thinking, "cut off  ", {"cut off", ""}},
      {start::off, "<think>a</think>b", {"", "<think>a</think>b"}},
  };
  for (const auto& one : examples)
    for (std::size_t piece = 1; piece <= one.text.size() + 1; ++piece)
      EXPECT_EQ(split(one.where, one.text, piece), one.wanted) << one.text << " in pieces of " << piece;
}

TEST(ReasoningSplitter, HoldsBackWhatMayBeAMarkerAndNothingElse) {
  reasoning_splitter splitter(start::answer);
  EXPECT_TRUE(splitter.push("<thi").empty());
  EXPECT_EQ(splitter.push("nk>why").reasoning, "why");
  EXPECT_EQ(splitter.push(" not <").reasoning, " not");
  EXPECT_EQ(splitter.push("/b></think").reasoning, " </b>");
  EXPECT_EQ(splitter.push("> so").text, "so");
  EXPECT_EQ(splitter.push(" it is ").text, " it is ");
}

// It would take minutes if each piece were looked at with all that came before it.
TEST(ReasoningSplitter, WhiteSpaceWithoutEndTakesNoLongerThanOtherText) {
  reasoning_splitter splitter(reasoning_start::thinking);
  EXPECT_EQ(splitter.push("Hm").reasoning, "Hm");
  const std::string white(80, ' ');
  for (int i = 0; i < 100'000; ++i) EXPECT_TRUE(splitter.push(white).empty());
  const auto more = splitter.push("well </think> so");
  EXPECT_EQ(more.reasoning.size(), 8'000'004U);
  EXPECT_EQ(more.text, "so");
}

TEST(ReasoningSplitter, APromptSaysWhetherItsAnswerBeginsWithin) {
  EXPECT_EQ(reasoning_splitter::behind("<|im_start|>assistant\n<think>\n"), start::thinking);
  EXPECT_EQ(reasoning_splitter::behind("<|im_start|>assistant\n"), start::answer);
  EXPECT_EQ(reasoning_splitter::behind("<|im_start|>assistant\n<think>\n\n</think>\n\n"), start::off);
  EXPECT_EQ(reasoning_splitter::behind(""), start::answer);
}

struct counted {
  start where;
  std::vector<std::string> tokens;
  std::uint32_t thought;
};

TEST(ReasoningCounter, CountsTheTokensBetweenTheMarkersWhateverTheseAreMadeOf) {
  const std::vector<counted> examples{
      {start::answer, {"<think>", "\n", "So", ".", "</think>", "\n\n", "5"}, 3},
      {start::answer, {"\n", "<think>", "So", "</think>"}, 1},
      {start::answer, {"<", "think", ">", "So", ".", "</", "think", ">", "5"}, 2},
      {start::answer, {"<", "think", ">\n", "So", ".</", "think", ">\n", "5"}, 3},
      {start::answer, {"<", "thinks", ">"}, 0},
      {start::answer, {"It", " is", " <think>", "5", "</think>"}, 0},
      {start::answer, {"<think>", "</think>", "5"}, 0},
      {start::answer, {"<think></think>", "5"}, 0},
      {start::answer, {"<think>a</think>", "5"}, 1},
      {start::thinking, {"So", "</", "thin", "<", "/think>", "5"}, 3},
      {start::thinking, {"So", " ", "\xf0\x9f", "\x98\x80", "</think>", "a", "b"}, 4},
      {start::thinking, {"</think>", "5"}, 0},
      {start::off, {"<think>", "So", "</think>"}, 0},
      // Cut within.
      {start::answer, {"<think>", "So", "</", "thi"}, 3},
      {start::thinking, {"So", "", "</"}, 3},
      {start::thinking, {}, 0},
  };
  for (const auto& one : examples) {
    reasoning_counter counter(one.where);
    std::uint32_t before = 0;
    for (const auto& token : one.tokens) {
      counter.push(token);
      EXPECT_GE(counter.tokens(), before) << "what a stream has told stands";
      before = counter.tokens();
    }
    counter.finish();
    EXPECT_EQ(counter.tokens(), one.thought) << ::testing::PrintToString(one.tokens);
  }
}

TEST(ReasoningCounter, WhatMayBeTheClosingMarkerIsCountedOnceItIsNot) {
  reasoning_counter counter(start::thinking);
  counter.push("a");
  counter.push("</");
  EXPECT_EQ(counter.tokens(), 1U);
  counter.push("b");
  EXPECT_EQ(counter.tokens(), 3U);
}

} // namespace
} // namespace godwit::protocols::openai
