#include <godwit/protocols/grammar/reasoning_tracker.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::grammar {
namespace {

using part = reasoning_tracker::part;

struct example {
  reasoning_start start;
  std::string text;
  part where;
  std::uint64_t thought = 0;
  std::uint32_t matched = 0;
};

const std::vector<example> examples{
    {reasoning_start::answer, "", part::before},
    {reasoning_start::answer, "\n <thi", part::before, 0, 4},
    {reasoning_start::answer, "<think>", part::within},
    {reasoning_start::answer, "<think>ab", part::within, 2},
    {reasoning_start::answer, "<thinking>", part::answer},
    {reasoning_start::answer, "{<think>", part::answer},
    {reasoning_start::answer, "<think></think>", part::behind},
    {reasoning_start::answer, "<think></think>\n\n", part::behind},
    {reasoning_start::answer, "<think>a</think>\n{", part::answer, 1},
    {reasoning_start::thinking, "", part::within},
    {reasoning_start::thinking, "<think>", part::within, 7},
    {reasoning_start::thinking, "a</thi", part::within, 1, 5},
    {reasoning_start::thinking, "a<<</", part::within, 3, 2},
    {reasoning_start::thinking, "a</think</think>", part::behind, 8},
    {reasoning_start::thinking, "a</think>b<think>c", part::answer, 1},
    {reasoning_start::off, "<think>a", part::answer},
};

TEST(ReasoningTracker, WhereAnAnswerStandsIsAFunctionOfItsBytesHoweverTheyAreCut) {
  for (const auto& one : examples)
    for (std::size_t piece = 1; piece <= one.text.size() + 1; ++piece) {
      reasoning_tracker tracker(one.start);
      for (std::size_t at = 0; at < one.text.size(); at += piece)
        tracker.push(std::string_view(one.text).substr(at, piece));
      SCOPED_TRACE(one.text + " in pieces of " + std::to_string(piece));
      EXPECT_EQ(tracker.where(), one.where);
      EXPECT_EQ(tracker.thought(), one.thought);
      EXPECT_EQ(tracker.matched(), one.matched);
      EXPECT_EQ(tracker.over(), one.where == part::behind || one.where == part::answer);
    }
}

TEST(ReasoningTracker, WithoutAStartAllIsAnswer) {
  reasoning_tracker tracker;
  tracker.push("<think>");
  EXPECT_EQ(tracker.where(), part::answer);
}

} // namespace
} // namespace godwit::protocols::grammar
