#include <godwit/protocols/openai/tool_parser.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace godwit::protocols::openai {
namespace {

struct told {
  std::string text;
  std::vector<std::string> calls; ///< name(arguments)
  friend bool operator==(const told&, const told&) = default;
};

std::ostream& operator<<(std::ostream& out, const told& one) {
  out << "text <" << one.text << ">";
  for (const auto& call : one.calls) out << " call " << call;
  return out;
}

/// What comes of an answer in pieces of `size` bytes.
told parse(tool_format format, const std::string& answer, std::size_t size, tool_parser::options how = {}) {
  tool_parser parser(format, std::move(how));
  told out;
  std::vector<std::pair<std::string, std::string>> calls;
  const auto add = [&](const tool_parser::emission& piece) {
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
  for (std::size_t at = 0; at < answer.size(); at += size) add(parser.push(answer.substr(at, size)));
  add(parser.finish());
  EXPECT_EQ(parser.calls(), calls.size());
  for (const auto& [name, arguments] : calls) out.calls.push_back(name + "(" + arguments + ")");
  return out;
}

/// The same however it is cut.
void expect(tool_format format, const std::string& answer, const told& wanted, const tool_parser::options& how = {}) {
  for (std::size_t size : {1UL, 2UL, 3UL, 7UL, 1000UL})
    EXPECT_EQ(parse(format, answer, size, how), wanted) << answer << "\nin pieces of " << size;
}

TEST(ToolParser, HermesCallsStandBetweenText) {
  const auto hermes = tool_format::hermes;
  expect(hermes, "Hello <b>there</b>", {"Hello <b>there</b>", {}});
  expect(hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>",
         {"", {"f({\"a\": [1, \"}\"]})"}});
  expect(hermes,
         "Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"name\": \"g\", "
         "\"arguments\": {\"x\": null}}\n</tool_call>\n",
         {"Let me see.\n", {"f({})", "g({\"x\": null})"}});
  expect(hermes, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call> done",
         {" done", {"f({\"a\": 1})"}});
  expect(hermes, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
         {"", {"f({\"a\": 1})"}});
  expect(hermes, "<tool_call>{\"name\": \"f\"}</tool_call>", {"", {"f({})"}});
}

TEST(ToolParser, ACallTellsWhichTextStandsBeforeIt) {
  const std::string answer =
      "Well.<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> Then <tool_call>{\"name\":\"g\","
      "\"arguments\":{\"x\":1}}</tool_call> so.";
  for (std::size_t size : {1UL, 2UL, 3UL, 7UL, 1000UL}) {
    tool_parser parser(tool_format::hermes);
    std::string order;
    const auto add = [&](const tool_parser::emission& piece) {
      std::size_t told = 0;
      for (const auto& call : piece.calls) {
        order += piece.text.substr(told, call.text_before - told);
        told = call.text_before;
        if (!call.name.empty()) order += "|" + call.name + "|";
      }
      order += piece.text.substr(told);
    };
    for (std::size_t at = 0; at < answer.size(); at += size) add(parser.push(answer.substr(at, size)));
    add(parser.finish());
    EXPECT_EQ(order, "Well.|f| Then |g| so.") << "in pieces of " << size;
  }
}

TEST(ToolParser, WhatIsNoCallStaysText) {
  const auto hermes = tool_format::hermes;
  for (const std::string answer :
       {"<tool_call>", "<tool_call>nonsense</tool_call>", "a <tool", "<tool_call>{\"name\": 1}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"argum", "<tool_call>{\"nome\": \"f\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", "<tool_call>[1]</tool_call>"})
    expect(hermes, answer, {answer, {}});
  expect(tool_format::none, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", {}});
  for (const std::string answer : {"{\"x\": 1}", "Just {\"name\": \"f\", \"parameters\": {}}", "{", " {\"name\"", "7"})
    expect(tool_format::llama, answer, {answer, {}});
  expect(tool_format::mistral, "[TOOL_CALLS] none today", {"[TOOL_CALLS] none today", {}});
  for (const std::string elsewhere : {"[TOOL_CALLS]name[ARGS]{}", "<tool_call><function=f>", "<tool_call>f<arg_key>a"})
    EXPECT_EQ(tool_format_of(elsewhere), tool_format::none) << elsewhere;
  EXPECT_EQ(tool_format_of("{{ '<tool_call>' }}"), hermes);
  EXPECT_EQ(tool_format_of("{{ '<|channel|>final<|message|>' }}"), tool_format::harmony);
  const std::string endless = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(40'000, 'x');
  EXPECT_EQ(parse(hermes, endless, 50), (told{endless, {}}));
}

TEST(ToolParser, ArgumentsThatAreNoJsonAreNotToldAsSuch) {
  const auto hermes = tool_format::hermes;
  // Nothing that JSON has no word for is written anew.
  for (const std::string answer : {R"(<tool_call>{"arguments":{"x":1e400},"name":"f"}</tool_call>)",
                                   R"(<tool_call>{"arguments":{"x":"\uZZZZ"},"name":"f"}</tool_call>)"})
    expect(hermes, answer, {answer, {}});
  // What has begun is told up to what is wrong.
  expect(hermes, R"(<tool_call>{"name":"f","arguments":{"x":"\u00eZ"}}</tool_call>)",
         {R"(Z"}}</tool_call>)", {R"(f({"x":"\u00e))"}});
  expect(hermes, R"(<tool_call>{"name":"f","arguments":{"x":"\u00e9"}}</tool_call>)", {"", {R"(f({"x":"\u00e9"}))"}});
}

TEST(ToolParser, FurtherFieldsOfACallMayBeObjects) {
  expect(tool_format::hermes, R"(<tool_call>{"name":"f","arguments":{},"id":{"k":[1,{"}":"]"}]}}</tool_call> tail)",
         {" tail", {"f({})"}});
}

TEST(ToolParser, ACutAnswerTellsWhatItHasOfTheArguments) {
  expect(tool_format::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, 2", {"", {"f({\"a\": [1, 2)"}});
  expect(tool_format::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}", {"", {"f({\"a\": 1})"}});
}

TEST(ToolParser, MistralCallsAreAList) {
  expect(tool_format::mistral,
         "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc}123\"}, {\"name\": \"g\", "
         "\"arguments\": "
         "{}}]",
         {"", {"f({\"a\": 1})", "g({})"}});
  expect(tool_format::mistral, "Well: [TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]", {"Well: ", {"f({})"}});
  expect(tool_format::mistral, "a [TOOL, not a call", {"a [TOOL, not a call", {}});
}

TEST(ToolParser, LlamaCallsAreTheWholeAnswer) {
  expect(tool_format::llama, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", {"", {"f({\"a\": \"b\"})"}});
  // An answer in JSON is no call because it has a name.
  for (const auto* answer :
       {R"({"name": "Ada", "born": 1815})", R"({"born": 1815, "name": "Ada"})", R"({"name": "Ada"})"})
    expect(tool_format::llama, answer, {answer, {}});
  tool_parser::options known;
  known.functions = {"f", "g"};
  expect(tool_format::llama, R"({"name": "h", "parameters": {"a": 1}})",
         {R"({"name": "h", "parameters": {"a": 1}})", {}}, known);
  expect(tool_format::llama, R"({"name": "g", "parameters": {"a": 1}})", {"", {R"(g({"a": 1}))"}}, known);
  expect(tool_format::llama, R"({"parameters": {"a": 1}, "name": "g"})", {"", {R"(g({"a": 1}))"}}, known);
  expect(tool_format::llama,
         "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
         {"", {"f({})", "g({})"}});
}

// Nor does it take ever longer to say so: each of these would take minutes.
TEST(ToolParser, WhiteSpaceWithoutEndIsNoCall) {
  const std::string white(80, ' ');
  for (const auto& [format, before] : {std::pair{tool_format::llama, ""},
                                       {tool_format::hermes, "<tool_call>"},
                                       {tool_format::mistral, "[TOOL_CALLS]"}}) {
    tool_parser parser(format);
    auto text = parser.push(before).text;
    for (int i = 0; i < 100'000; ++i) text += parser.push(white).text;
    EXPECT_EQ(parser.calls(), 0U);
    EXPECT_GT(text.size(), 7'000'000U) << before;
    text += parser.finish().text;
    EXPECT_EQ(text.size(), std::string(before).size() + 8'000'000U) << before;
    tool_parser whole(format);
    EXPECT_EQ(whole.push(before + text.substr(std::string(before).size())).text + whole.finish().text, text);
  }
  for (const std::string& before : {std::string("<tool_call>{\"name\":\"f\",\"arguments\":{}}"),
                                    std::string("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>")}) {
    tool_parser parser(tool_format::hermes);
    (void)parser.push(before);
    for (int i = 0; i < 100'000; ++i) EXPECT_EQ(parser.push(white).text, "");
    EXPECT_EQ(parser.push("<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>").text, "");
    EXPECT_EQ(parser.finish().text, "");
    EXPECT_GE(parser.calls(), 1U);
  }
}

TEST(ToolParser, AConstrainedListIsCallsOnly) {
  expect(tool_format::list, "[{\"name\": \"f\", \"parameters\": {\"a\": 1}},\n {\"name\": \"g\", \"parameters\": {}}]",
         {"", {"f({\"a\": 1})", "g({})"}});
  expect(tool_format::arguments, " {\"a\": {\"b\": true}}\n", {"", {"f({\"a\": {\"b\": true}})"}}, {128, "f", {}});
}

// Where an answer is cut short, its syntax is no text.
TEST(ToolParser, OfAConstrainedListThatIsCutNothingIsText) {
  const std::string whole = R"([{"name": "f", "parameters": {"a": 1}}, {"name": "g", "parameters": {"b": 2}}])";
  const auto first = whole.find("}}") + 2, second = whole.rfind("{\"b\"");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = parse(tool_format::list, whole.substr(0, size), 3);
    EXPECT_EQ(cut.text, "") << whole.substr(0, size);
    if (size >= first) {
      EXPECT_EQ(cut.calls.at(0), R"(f({"a": 1}))");
    }
    EXPECT_LE(cut.calls.size(), size > second ? 2U : 1U);
  }
}

TEST(ToolParser, CallsBeyondTheBoundAreLeftOut) {
  expect(tool_format::list, "[{\"name\": \"f\", \"parameters\": {\"a\": 1}}, {\"name\": \"g\", \"parameters\": {}}]",
         {"", {"f({\"a\": 1})"}}, {1, {}, {}});
}

TEST(ToolParser, ArgumentsComeAsTheyAreWritten) {
  tool_parser parser(tool_format::hermes);
  EXPECT_TRUE(parser.push("<tool_call>{\"name\": \"f\"").empty());
  const auto begun = parser.push(", \"arguments\": {\"city\": \"Zü");
  ASSERT_EQ(begun.calls.size(), 1U);
  EXPECT_EQ(begun.calls[0].name, "f");
  EXPECT_EQ(begun.calls[0].arguments, "{\"city\": \"Zü");
  const auto more = parser.push("rich\"");
  ASSERT_EQ(more.calls.size(), 1U);
  EXPECT_EQ(more.calls[0].arguments, "rich\"");
  EXPECT_EQ(more.calls[0].name, "");
}

TEST(ToolParser, ATemplateTellsTheFormat) {
  EXPECT_EQ(tool_format_of("...{{- '\\n<tool_call>\\n' }}"), tool_format::hermes);
  EXPECT_EQ(tool_format_of("{{- \"[TOOL_CALLS] [\" }}"), tool_format::mistral);
  EXPECT_EQ(tool_format_of("{{- \"<|python_tag|>\" + tool_call.name }}"), tool_format::llama);
  EXPECT_EQ(tool_format_of("{{ bos_token }}[INST]"), tool_format::none);
}

TEST(ToolParser, ArgumentsAreAsTheModelWroteThemWhereverTheyStand) {
  const auto hermes = tool_format::hermes;
  expect(hermes, R"(<tool_call>{"arguments": {"a": 1.0, "b": [1e2, "},\"{"] }, "name": "f"}</tool_call>)",
         {"", {R"(f({"a": 1.0, "b": [1e2, "},\"{"] }))"}});
  expect(hermes, R"(<tool_call>{"id": {"arguments": 1}, "argum\u0065nts" : {"x": 2.50} , "name": "f"}</tool_call>)",
         {"", {R"(f({"x": 2.50}))"}});
  expect(hermes, R"(<tool_call>{"name": "f", "id": 7, "parameters": {"x": 1.0}}</tool_call>)",
         {"", {R"(f({"x": 1.0}))"}});
}

} // namespace
} // namespace godwit::protocols::openai
