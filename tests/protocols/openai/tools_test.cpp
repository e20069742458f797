#include <godwit/protocols/grammar/json_schema.hpp>
#include <godwit/protocols/openai/request.hpp>
#include <godwit/protocols/openai/response.hpp>

#include "protocols/openai/json_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::protocols::openai {
namespace {

using ::testing::HasSubstr;

constexpr auto weather =
    R"({"type":"function","function":{"name":"weather","description":"Of a city.","parameters":{"type":"object",
        "properties":{"city":{"type":"string"}},"required":["city"]}}})";
constexpr auto add = R"({"type":"function","function":{"name":"add"}})";

expected<chat_request, api_error> chat_with_tools(const std::string& fields, const std::string& messages = "") {
  return parse_chat(R"({"messages":[{"role":"user","content":"hi"})" + messages + "]," + fields + "}", {}, {});
}
expected<chat_request, api_error> with_tools(const std::string& further) {
  return chat_with_tools("\"tools\":[" + std::string(weather) + "," + add + "]" + further);
}

TEST(Tools, AreAutomaticWhereTheClientSaysNothing) {
  const auto parsed = with_tools("");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->choice, tool_choice::automatic);
  EXPECT_EQ(parsed->tools.items().size(), 2U);
  EXPECT_TRUE(parsed->unknown.empty());
  EXPECT_TRUE(parsed->parallel_tool_calls);
  EXPECT_EQ(chat_with_tools(R"("tools":[])")->choice, tool_choice::none);
  EXPECT_EQ(with_tools(R"(,"tool_choice":"none")")->choice, tool_choice::none);
  EXPECT_EQ(with_tools(R"(,"tool_choice":"auto")")->choice, tool_choice::automatic);
}

TEST(Tools, ARequiredCallIsASchemaOfTheAnswer) {
  const auto parsed = with_tools(R"(,"tool_choice":"required","parallel_tool_calls":false)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto schema = testing_support::read(parsed->sampling.json_schema);
  EXPECT_EQ(testing_support::string_at(schema, "/type"), "array");
  EXPECT_EQ(schema.at_pointer("/minItems"), 1);
  EXPECT_EQ(schema.at_pointer("/maxItems"), 1);
  EXPECT_EQ(testing_support::string_at(schema, "/items/anyOf/0/properties/name/const"), "weather");
  EXPECT_EQ(testing_support::string_at(schema, "/items/anyOf/0/properties/parameters/required/0"), "city");
  EXPECT_EQ(testing_support::string_at(schema, "/items/anyOf/1/properties/name/const"), "add");
}

TEST(Tools, ANamedFunctionsArgumentsAreTheAnswer) {
  const auto parsed = with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"weather"}})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->choice, tool_choice::named);
  EXPECT_EQ(parsed->chosen_tool, "weather");
  EXPECT_EQ(testing_support::string_at(testing_support::read(parsed->sampling.json_schema), "/properties/city/type"),
            "string");
}

TEST(Tools, DefinitionsOfAToolMoveToTheRoot) {
  const auto parsed = chat_with_tools(
      R"("tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
         "$defs":{"x":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/x"}}}}}])");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto schema = testing_support::read(parsed->sampling.json_schema);
  EXPECT_EQ(testing_support::string_at(schema, "/$defs/x/type"), "integer");
}

expected<chat_request, api_error> with_parameters(const std::string& parameters, const std::string& choice) {
  return chat_with_tools("\"tool_choice\":" + choice +
                         R"(,"tools":[{"type":"function","function":{"name":"f","parameters":)" + parameters + "}}]");
}
constexpr auto named_f = R"({"type":"function","function":{"name":"f"}})";

TEST(Tools, WhoseSchemaIsNotSupportedIsNamed) {
  const auto refused = parse_chat(R"({"messages":[{"role":"user","content":"hi"}],"tool_choice":"required","tools":[
        {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}},
        {"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{"y":{"patternProperties":{}}}}}}]})",
                                  {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "tools[1].function.parameters");
  EXPECT_THAT(refused.error().message, HasSubstr("'g'"));
  EXPECT_THAT(refused.error().message, HasSubstr("patternProperties"));
  // Of one that is not chosen nobody minds.
  EXPECT_TRUE(with_parameters(R"({"type":"object","properties":{"a":{"type":"integer"}}}}},
        {"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{"y":{"patternProperties":{}}}})",
                              named_f));
}

TEST(Tools, ReferencesOfAToolMeanItsOwnDefinitions) {
  const auto parsed = with_parameters(R"({"type":"object","definitions":{"x":{"type":"integer"}},
         "properties":{"a":{"$ref":"#/definitions/x"}}})",
                                      R"("required")");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto schema = testing_support::read(parsed->sampling.json_schema);
  EXPECT_EQ(testing_support::string_at(schema, "/definitions/x/type"), "integer");
  for (const std::string choice : {R"("required")", named_f}) {
    const auto refused = with_parameters(R"({"type":"object","properties":{"a":{"$ref":"#"}}})", choice);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().param, "tools[0].function.parameters");
    EXPECT_THAT(refused.error().message, HasSubstr("'f'"));
    EXPECT_FALSE(with_parameters(R"({"properties":{"a":{"$ref":"#/$defs/of_another_tool"}}})", choice));
    // A name or a value is no reference.
    EXPECT_TRUE(
        with_parameters(R"({"type":"object","properties":{"$ref":{"type":"string"},"b":{"const":"$ref"}}})", choice));
  }
}

TEST(Tools, ArgumentsAreAnObject) {
  for (const auto* parameters :
       {"{}", R"({"type":["object","null"]})", R"({"properties":{"a":{}}})", R"({"type":"object","nullable":true})"}) {
    const auto parsed = with_parameters(parameters, named_f);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(testing_support::string_at(testing_support::read(parsed->sampling.json_schema), "/type"), "object");
    EXPECT_EQ(parsed->sampling.json_schema.find("nullable"), std::string::npos);
  }
  EXPECT_FALSE(with_parameters(R"({"type":"integer"})", named_f));
}

TEST(Tools, WhatIsWrongIsNamed) {
  const auto param = [](const expected<chat_request, api_error>& parsed) {
    return parsed ? std::string("(none)") : parsed.error().param;
  };
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"type":"function"}])")), "tools[0].function");
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"function":{"name":"f"}}])")), "tools[0].type");
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"type":"retrieval"}])")), "tools[0].type");
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"type":"function","function":{"name":"a b"}}])")),
            "tools[0].function.name");
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])")),
            "tools[0].function.parameters");
  EXPECT_EQ(param(chat_with_tools("\"tools\":[" + std::string(add) + "," + add + "]")), "tools[1].function.name");
  EXPECT_EQ(param(chat_with_tools(R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])")),
            "tools[0].function.strict");
  EXPECT_EQ(param(with_tools(R"(,"tool_choice":"required","ignore_eos":true)")), "ignore_eos");
  EXPECT_EQ(param(with_tools(R"(,"tool_choice":"some")")), "tool_choice");
  EXPECT_EQ(param(with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"other"}})")), "tool_choice");
  EXPECT_EQ(param(chat_with_tools(R"("tool_choice":"required")")), "tool_choice");
  EXPECT_EQ(param(with_tools(R"(,"tool_choice":"required","guided_json":{"type":"object"})")), "tool_choice");
  EXPECT_EQ(param(with_tools(R"(,"guided_regex":"a+")")), "tool_choice");
  EXPECT_EQ(param(with_tools(R"(,"tool_choice":"none","response_format":{"type":"json_object"})")), "(none)");
  std::string many;
  for (int i = 0; i < 129; ++i)
    many +=
        (i == 0 ? "" : ",") + std::string(R"({"type":"function","function":{"name":"f)") + std::to_string(i) + "\"}}";
  EXPECT_EQ(param(chat_with_tools("\"tools\":[" + many + "]")), "tools");
  std::string zeros = "0";
  for (int i = 0; i < 110'000; ++i) zeros += ",0";
  EXPECT_EQ(param(chat_with_tools("\"chat_template_kwargs\":{\"a\":[" + zeros + "]}")), "chat_template_kwargs");
  EXPECT_EQ(param(chat_with_tools("\"documents\":[" + zeros + "]")), "documents");
}

bool allows(const expected<chat_request, api_error>& parsed, std::string_view text) {
  if (!parsed) return false;
  const auto made = grammar::compile_schema(parsed->sampling.json_schema);
  return made && made->accepts(text);
}

// Agents have both: tools, and a schema for what they say in the end.
TEST(Tools, AnAnswerFollowsItsFormatOrCallsThem) {
  const std::string format = R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
      {"type":"object","properties":{"sum":{"$ref":"#/$defs/s"}},"required":["sum"],"additionalProperties":false,
       "$defs":{"s":{"type":"integer"}}}}})";
  const std::string call = R"(<tool_call>
{"name": "add", "arguments": {}}
</tool_call>)";
  const auto both = with_tools(format);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->choice, tool_choice::automatic);
  EXPECT_TRUE(allows(both, R"({"sum": 3})"));
  EXPECT_TRUE(allows(both, call));
  EXPECT_TRUE(allows(both, call + "\n" + call));
  EXPECT_FALSE(allows(both, call + R"({"sum": 3})"));
  EXPECT_FALSE(allows(both, R"({"sum": "3"})"));
  EXPECT_FALSE(allows(both, "text"));
  EXPECT_FALSE(allows(both, R"(<tool_call>
{"name": "divide", "arguments": {}}
</tool_call>)"));
  const auto one = with_tools(R"(,"parallel_tool_calls":false)" + format);
  EXPECT_TRUE(allows(one, call));
  EXPECT_FALSE(allows(one, call + "\n" + call));
}

TEST(Tools, ACallThatHasToBeMadeHasNoTextForAFormat) {
  const std::string format = R"(,"response_format":{"type":"json_object"})";
  for (const std::string choice :
       {R"(,"tool_choice":"required")", R"(,"tool_choice":{"type":"function","function":{"name":"add"}})"}) {
    const auto both = with_tools(choice + format);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_EQ(both->sampling.json_schema, with_tools(choice)->sampling.json_schema);
  }
}

TEST(Tools, AreTakenAsFrameworksSendThem) {
  const auto strict = chat_with_tools(R"("tools":[{"type":"function","function":{"name":"f","strict":true}}])");
  ASSERT_TRUE(strict) << strict.error().message;
  EXPECT_EQ(strict->choice, tool_choice::automatic);
  EXPECT_THAT(strict->tool_names, ::testing::ElementsAre("f"));
  const auto none = chat_with_tools(R"("tools":[],"tool_choice":"auto")");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->choice, tool_choice::none);
}

TEST(Tools, MessagesTellOfCallsAndTheirResults) {
  const auto parsed = chat_with_tools(
      R"("n":1)",
      R"(,{"role":"assistant","content":null,"tool_calls":[{"id":"c1","index":0,"type":"function","function":
            {"name":"weather","arguments":"{\"city\": \"Bern\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"rain"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->messages.size(), 3U);
  ASSERT_EQ(parsed->messages[1].tool_calls.size(), 1U);
  EXPECT_EQ(parsed->messages[1].tool_calls[0], (chat_tool_call{"c1", "weather", "{\"city\": \"Bern\"}"}));
  EXPECT_EQ(parsed->messages[2].tool_call_id, "c1");
  EXPECT_EQ(chat_with_tools(R"("n":1)", R"(,{"role":"assistant","tool_calls":[{"id":"c","function":{"name":""}}]})")
                .error()
                .param,
            "messages[1].tool_calls[0].function.name");
  EXPECT_EQ(chat_with_tools(R"("n":1)", R"(,{"role":"assistant","content":"x","tool_calls":[{}]})").error().param,
            "messages[1].tool_calls[0].function");
}

TEST(Tools, AMessageWithCallsHasNoContent) {
  choice one;
  one.finish_reason = "tool_calls";
  one.calls = {{0, "call_1", "weather", "{\"city\":\"Bern\"}"}, {1, "call_2", "add", "{}"}};
  const auto body = chat_object({"chatcmpl-1", "m", 1}, {one}, {});
  const auto read = testing_support::read(body);
  EXPECT_TRUE(read.at_pointer("/choices/0/message/content").is_null());
  EXPECT_EQ(testing_support::string_at(read, "/choices/0/message/tool_calls/0/function/arguments"),
            "{\"city\":\"Bern\"}");
  EXPECT_EQ(testing_support::string_at(read, "/choices/0/message/tool_calls/1/id"), "call_2");
  EXPECT_EQ(testing_support::string_at(read, "/choices/0/message/tool_calls/1/type"), "function");
}

TEST(Tools, ADeltaTellsIdAndNameOnce) {
  const chunk_writer writer(chunk_writer::endpoint::chat, {"chatcmpl-1", "m", 1}, false);
  choice added;
  added.calls = {{0, "call_1", "weather", "{\"ci"}};
  auto read = testing_support::read(writer.delta(added, {}));
  EXPECT_EQ(testing_support::string_at(read, "/choices/0/delta/tool_calls/0/function/name"), "weather");
  EXPECT_EQ(testing_support::string_at(read, "/choices/0/delta/tool_calls/0/id"), "call_1");
  EXPECT_EQ(read.at_pointer("/choices/0/delta").as_object().if_contains("content"), nullptr);
  added.calls = {{0, "", "", "ty\""}};
  const auto more = writer.delta(added, {});
  EXPECT_THAT(more, HasSubstr(R"("tool_calls":[{"index":0,"function":{"arguments":"ty\""}}])"));
}

} // namespace
} // namespace godwit::protocols::openai
