#include <godwit/protocols/openai/request.hpp>

#include <gtest/gtest.h>

#include <string>

namespace godwit::protocols::openai {
namespace {

expected<chat_request, api_error> chat_with(const std::string& fields, const request_limits& limits = {}) {
  return parse_chat(R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}", {}, limits);
}
std::string schema_of(const std::string& fields) {
  const auto parsed = chat_with(fields);
  return parsed ? parsed->sampling.json_schema : "400 " + parsed.error().param + ": " + parsed.error().message;
}

TEST(ResponseFormat, SaysWhatTheAnswerMayBe) {
  EXPECT_EQ(schema_of(R"("temperature":1)"), "");
  EXPECT_EQ(schema_of(R"("response_format":null)"), "");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"text"})"), "");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"a-B_1","strict":true,
                          "description":"d","schema":{"type":"object","properties":{"b":{},"a":{}}}}})"),
            R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_EQ(schema_of(R"("structured_outputs":{"json":{"type":"null"}})"), R"({"type":"null"})");
  EXPECT_EQ(schema_of(R"("structured_outputs":{"json":"{\"type\": \"null\"}"})"), R"({"type":"null"})");
  const auto deep = [](const std::string& quote) { // beyond Boost's own bound
    std::string out;
    for (int i = 0; i < 20; ++i) out += "{" + quote + "default" + quote + ":{" + quote + "x" + quote + ":";
    out += "1";
    return out + std::string(40, '}');
  };
  EXPECT_EQ(schema_of(R"("structured_outputs":{"json":")" + deep("\\\"") + R"("})"), deep("\""));
  EXPECT_EQ(schema_of(R"("structured_outputs":{"choice":["a","b\""]})"), R"(["a","b\""])");
  EXPECT_EQ(schema_of(R"("structured_outputs":{"regex":"a+\\d"})"), R"("a+\\d")");
  EXPECT_EQ(schema_of(R"("structured_outputs":{"json_object":true})"), R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"("guided_json":{"const":1})"), R"({"const":1})");
  EXPECT_EQ(schema_of(R"("guided_choice":["a"])"), R"(["a"])");
  EXPECT_EQ(schema_of(R"("guided_regex":"x")"), R"("x")");
  const auto completion =
      parse_completion(R"({"prompt":"p","response_format":{"type":"json_object"}})", {}, request_limits{});
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->sampling.json_schema, R"({"type":"object"})");
}

TEST(ResponseFormat, NamesThePlaceThatIsWrong) {
  EXPECT_EQ(schema_of(R"("response_format":{"type":"xml"})"),
            "400 response_format.type: 'response_format.type' must be 'text', 'json_object' or 'json_schema'.");
  EXPECT_EQ(schema_of(R"("response_format":{})"), "400 response_format.type: 'response_format.type' is missing.");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_schema"})"),
            "400 response_format.json_schema: 'response_format.json_schema' is missing.");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})"),
            "400 response_format.json_schema.schema: 'response_format.json_schema.schema' is missing.");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}})"),
            "400 response_format.json_schema.name: 'response_format.json_schema.name' must be 1 to 64 letters, digits, "
            "'-' and '_'.");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":
                          {"properties":{"x":{"type":"array","uniqueItems":true}}}}})"),
            "400 response_format.json_schema.schema.properties.x.uniqueItems: The schema cannot be followed at "
            "'properties.x.uniqueItems': the keyword 'uniqueItems' is not supported.");
  EXPECT_EQ(schema_of(R"("guided_json":{"anyOf":[{},{"type":"no"}]})").substr(0, 34),
            "400 guided_json.anyOf[1].type: The");
  EXPECT_EQ(schema_of(R"("guided_json":false)"),
            "400 guided_json: The schema cannot be followed: no text can fulfil it.");
  EXPECT_EQ(schema_of(R"("guided_json":"{")"), "400 guided_json: 'guided_json' is not valid JSON (incomplete JSON).");
  EXPECT_EQ(schema_of(R"("guided_json":3)"), "400 guided_json: 'guided_json' must be a JSON Schema, not a number.");
  EXPECT_EQ(schema_of(R"("guided_choice":["a",1])"),
            "400 guided_choice[1]: 'guided_choice[1]' must be a string, not a number.");
  EXPECT_EQ(schema_of(R"("guided_choice":[])"),
            "400 guided_choice: The schema cannot be followed: there must be 1 to 1024 choices.");
  EXPECT_EQ(schema_of(R"("guided_regex":"(")").substr(0, 20), "400 guided_regex: Th");
  EXPECT_EQ(schema_of(R"("guided_regex":"x","guided_choice":["x"])"),
            "400 guided_regex: 'guided_choice' and 'guided_regex' cannot both be followed.");
  EXPECT_EQ(schema_of(R"("structured_outputs":{"grammar":"root ::= x"})").substr(0, 32),
            "400 structured_outputs.grammar: ");
  EXPECT_EQ(schema_of(R"("response_format":{"type":"json_object"},"ignore_eos":true)").substr(0, 16),
            "400 ignore_eos: ");
}

TEST(ResponseFormat, ASchemaBesideAnotherTypeIsNotDropped) {
  for (const auto* type : {"json_object", "text"}) {
    const auto parsed =
        parse_chat(std::string(R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":")") + type +
                       R"(","json_schema":{"schema":{}}}})",
                   {}, {});
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().param, "response_format.json_schema");
  }
}

TEST(ResponseFormat, ASchemaHasABound) {
  request_limits limits;
  limits.schema_bytes_max = 100;
  const auto parsed = chat_with("\"guided_json\":{\"title\":\"" + std::string(100, 'x') + "\"}", limits);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "A schema may have 100 bytes, this one has 112.");
}

} // namespace
} // namespace godwit::protocols::openai
