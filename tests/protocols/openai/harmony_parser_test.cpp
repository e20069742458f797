#include <godwit/protocols/openai/harmony_parser.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {
namespace {

using began = harmony_parser::start;

struct heard {
  std::string reasoning, text;
  std::vector<std::string> calls; ///< name(arguments)
  friend bool operator==(const heard&, const heard&) = default;
};

std::ostream& operator<<(std::ostream& out, const heard& one) {
  out << "thought <" << one.reasoning << "> text <" << one.text << ">";
  for (const auto& call : one.calls) out << " call " << call;
  return out;
}

template <class Cut> heard hear(std::string_view answer, harmony_parser::options how, const Cut& next_piece) {
  harmony_parser parser(how);
  heard out;
  std::vector<std::pair<std::string, std::string>> calls;
  const auto add = [&](const harmony_parser::emission& piece) {
    out.reasoning += piece.reasoning;
    out.text += piece.text;
    for (const auto& delta : piece.calls) {
      if (delta.index == calls.size()) {
        EXPECT_FALSE(delta.name.empty());
        calls.emplace_back(delta.name, delta.arguments);
      } else {
        EXPECT_EQ(delta.index + 1, calls.size());
        EXPECT_TRUE(delta.name.empty());
        calls.back().second += delta.arguments;
      }
    }
  };
  for (std::size_t at = 0; at < answer.size();) {
    const auto size = next_piece();
    add(parser.push(answer.substr(at, size)));
    at += size;
  }
  add(parser.finish());
  EXPECT_EQ(parser.calls(), calls.size());
  for (const auto& [name, arguments] : calls) out.calls.push_back(name + "(" + arguments + ")");
  return out;
}

/// The same however it is cut.
void expect_heard(std::string_view answer, const heard& wanted, harmony_parser::options how = {}) {
  for (const std::size_t size : {1U, 2U, 3U, 5U, 7U, 11U, 100000U})
    EXPECT_EQ(hear(answer, how, [size] { return size; }), wanted) << answer << "\nin pieces of " << size;
  std::mt19937 random(7);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(hear(answer, how, [&] { return std::size_t{1} + random() % 13; }), wanted) << answer;
}

TEST(HarmonyParser, TellsChannelsApart) {
  expect_heard(
      "<|channel|>analysis<|message|>Two and three.<|end|><|start|>assistant<|channel|>final<|message|>It is 5.",
      {"Two and three.", "It is 5.", {}});
  expect_heard("<|channel|>final<|message|>It is 5.<|return|>", {"", "It is 5.", {}});
  expect_heard("<|channel|>analysis<|message|>a <b> <| c|> <|en <|end<|end|>", {"a <b> <| c|> <|en <|end", "", {}});
  expect_heard("<|channel|>analysis<|message|>cut <|en", {"cut <|en", "", {}});
  expect_heard("<|channel|>analysis<|message|>", {});
  expect_heard("<|channel|>anal", {});
  expect_heard("", {});
  expect_heard("<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>final<|message|>Done.",
               {"", "I look it up.\nDone.", {}});
  expect_heard("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>"
               "<|start|>assistant<|channel|>final<|message|>c",
               {"a\nb", "c", {}});
  expect_heard("<|message|>no channel", {"", "no channel", {}});
}

TEST(HarmonyParser, MessagesToFunctionsAreCalls) {
  const std::string thought = "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant";
  expect_heard(thought + "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Bern\"}",
               {"Look.", "", {"weather({\"city\": \"Bern\"})"}});
  expect_heard(thought + " to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"Bern\"}<|call|>",
               {"Look.", "", {"weather({\"city\": \"Bern\"})"}});
  expect_heard(" to=functions.f<|channel|>commentary<|message|> {\"a\": \"<|end\", \"b\": [1, 2]} and more<|call|>",
               {"", "", {"f({\"a\": \"<|end\", \"b\": [1, 2]})"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>commentary "
               "to=functions.g<|message|>{\"x\":1}<|call|>",
               {"", "", {"f({})", "g({\"x\":1})"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|><|call|>", {"", "", {"f({})"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|>", {"", "", {"f({})"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|>{\"a\": [1, 2", {"", "", {"f({\"a\": [1, 2)"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|>{\"a\": nonsense}", {"", "", {"f({\"a\": nonsense)"}});
  expect_heard("<|channel|>commentary to=functions.f<|message|>a.b()<|call|>", {"", "a.b()", {}});
}

TEST(HarmonyParser, WhatIsSaidToOtherToolsIsThought) {
  expect_heard("<|channel|>analysis to=python code<|message|>1 + 1<|call|>", {"1 + 1", "", {}});
  expect_heard("<|channel|>commentary to=browser.search<|message|>{\"q\": 1}<|call|>", {"{\"q\": 1}", "", {}});
}

TEST(HarmonyParser, AToolOfTheRequestIsCalledByItsBareNameToo) {
  const std::string answer = "<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|><|start|>assistant to=g"
                             "<|channel|>commentary<|message|>{\"x\":1}<|call|>";
  expect_heard(answer, {"", "", {"f({})", "g({\"x\":1})"}}, {began::header, true, 128, {"f", "g"}});
  expect_heard(answer, {"{\"x\":1}", "", {"f({})"}}, {began::header, true, 128, {"f"}});
  expect_heard(answer, {"{}\n{\"x\":1}", "", {}});
  expect_heard(answer, {"", "{}\n{\"x\":1}", {}}, {began::header, false, 128, {"f", "g"}});
  expect_heard("<|channel|>commentary to=functions.h<|message|>{}", {"", "", {"h({})"}},
               {began::header, true, 128, {"f"}});
  expect_heard("<|channel|>analysis to=python code<|message|>1 + 1<|call|>", {"1 + 1", "", {}},
               {began::header, true, 128, {"f"}});
}

TEST(HarmonyParser, CallsBeyondTheLimitAreLeftOutAndNoneAreTakenWhereThereAreNoTools) {
  const std::string two = "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>"
                          "commentary to=functions.g<|message|>{\"x\":1}<|call|><|start|>assistant<|channel|>final"
                          "<|message|>Done.";
  expect_heard(two, {"", "Done.", {"f({})"}}, {began::header, true, 1});
  expect_heard(two, {"", "{}\n{\"x\":1}\nDone.", {}}, {began::header, false, 128});
}

TEST(HarmonyParser, AnAnswerBeginsWhereThePromptEnds) {
  expect_heard("and on.<|return|>", {"", "and on.", {}}, {began::text, true, 128});
  expect_heard("and on.<|end|><|start|>assistant<|channel|>final<|message|>So.", {"and on.", "So.", {}},
               {began::thought, true, 128});
  expect_heard("<|start|>assistant<|channel|>final<|message|>So.", {"", "So.", {}}, {began::between, true, 128});
  EXPECT_EQ(harmony_parser::behind("<|start|>user<|message|>Hi<|end|><|start|>assistant", false), began::header);
  EXPECT_EQ(harmony_parser::behind("x<|end|>", false), began::between);
  EXPECT_EQ(harmony_parser::behind("<|channel|>final<|message|>It is", true), began::text);
  EXPECT_EQ(harmony_parser::behind("<|channel|>analysis<|message|>", false), began::thought);
  EXPECT_EQ(harmony_parser::behind("<|channel|>final<|message|>", false), began::text);
  EXPECT_EQ(harmony_parser::behind("", false), began::header);
}

TEST(HarmonyParser, WhatAPromptGoesOnWithIsAHeader) {
  expect_heard(harmony_parser::opening_of_text() + "{\"a\": 1}", {"", "{\"a\": 1}", {}});
  expect_heard(harmony_parser::opening_of_call("f") + "{\"a\": 1}", {"", "", {"f({\"a\": 1})"}});
}

TEST(HarmonyParser, AHeaderThatBreaksOffIsLeftOut) {
  const std::string answer = "<|start|>assistant<|channel|>final<|message|>Answer";
  for (const std::string marker : {"<|end|>", "<|return|>", "<|call|>", ""}) {
    for (const std::string header :
         {"<|channel|>analysis", "<|channel|>commentary to=functions.f <|constrain|>json", ""})
      expect_heard(header + marker + answer, {"", "Answer", {}});
    expect_heard("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final" + marker + answer,
                 {"Hm.", "Answer", {}});
  }
  expect_heard("<|channel|>analysis<|end|>", {});
  expect_heard("<|channel|>analysis<|end|>Answer", {"", "Answer", {}});
}

TEST(HarmonyParser, TheFirstHeaderMayRepeatTheRole) {
  expect_heard("<|start|>assistant<|channel|>final<|message|>Hi", {"", "Hi", {}});
  expect_heard("\n<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
               "<|message|>Hi",
               {"Hm.", "Hi", {}});
  expect_heard("<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>", {"", "", {"f({})"}});
  expect_heard("<|start up", {"", "<|start up", {}});
}

// Models that are asked for something else, or are very small.
TEST(HarmonyParser, WhatIsNoHeaderIsText) {
  expect_heard("It is 5.", {"", "It is 5.", {}});
  expect_heard("to be or not", {"", "to be or not", {}});
  expect_heard(" <b> <|message|>", {"", " <b> <|message|>", {}});
  expect_heard("<|channel|>final<|message|>a<|end|>b<|end|><|end|>c", {"", "a\nb\nc", {}});
  expect_heard("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", {"a", "b", {}});
  expect_heard("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b", {"a", "b", {}});
  for (const std::size_t size : {4000U, 4096U, 4097U, 5000U}) {
    const std::string name(size - std::string_view("<|channel|>").size(), 'x');
    const auto whole = "<|channel|>" + name + "<|message|>a";
    expect_heard(whole, {"", size <= 4096 ? "a" : "<|channel|>" + name + "<|message|>a", {}});
  }
}

TEST(HarmonyParser, GivesOutWhatItHasAtOnce) {
  harmony_parser parser;
  EXPECT_TRUE(parser.push("<|channel|>analysis<|message|>").empty());
  EXPECT_TRUE(parser.thinks());
  EXPECT_EQ(parser.push("Two and").reasoning, "Two and");
  EXPECT_EQ(parser.push(" three <").reasoning, " three ");
  EXPECT_EQ(parser.push("b>").reasoning, "<b>");
  EXPECT_TRUE(parser.push("<|end|>").empty());
  EXPECT_FALSE(parser.thinks());
  EXPECT_TRUE(parser.push("<|start|>assistant<|channel|>commentary to=functions.f<|message|>").empty());
  const auto begun = parser.push("{");
  ASSERT_EQ(begun.calls.size(), 1U);
  EXPECT_EQ(begun.calls[0].name, "f");
  EXPECT_EQ(begun.calls[0].arguments, "{");
  EXPECT_EQ(parser.push("\"a\"").calls.at(0).arguments, "\"a\"");
}

} // namespace
} // namespace godwit::protocols::openai
