// What a body of /v1/responses means: the conversation of a chat, in other words.
#include "protocols/openai/json_support.hpp"

#include <godwit/protocols/openai/chat_template.hpp>
#include <godwit/protocols/openai/request.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace godwit::protocols::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::read;
using testing_support::string_at;

using parsed_responses = expected<responses_request, api_error>;

parsed_responses responses_of(const std::string& body, bool lenient = false) {
  request_limits bounds;
  bounds.vocabulary = 1000;
  bounds.lists_unsupported = lenient;
  return parse_responses(body, {}, bounds);
}
parsed_responses with_field(const std::string& field, bool lenient = false) {
  return responses_of(R"({"input":"hi",)" + field + "}", lenient);
}
parsed_responses of_items(const std::string& items, const std::string& more = "") {
  return responses_of(R"({"input":[)" + items + "]" + more + "}");
}
/// The field that is to blame; "(none)": the request was taken.
std::string blamed(const parsed_responses& parsed) { return parsed ? "(none)" : parsed.error().param; }

boost::json::value echoed(const responses_request& request) { return read("{" + request.parameters + "}"); }

TEST(ResponsesRequest, ATextIsWhatTheUserSays) {
  const auto parsed = responses_of(R"({"input":"hi"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->messages, ElementsAre(chat_message(role::user, "hi")));
  EXPECT_FALSE(parsed->has_max_tokens);
  EXPECT_FALSE(parsed->add_special_tokens);
  EXPECT_EQ(parsed->sampling.logprobs, -1);
  EXPECT_EQ(parsed->choice, tool_choice::none);
  EXPECT_FALSE(parsed->tools.defined());
  EXPECT_EQ(parsed->n, 1U);
  EXPECT_EQ(parsed->prompt_field, "input");
}

TEST(ResponsesRequest, InstructionsAreTheSystemsMessageInFront) {
  const auto parsed = responses_of(R"({"instructions":"be brief","input":[{"role":"developer","content":"d"},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
      {"role":"system","content":"s"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  // With those of the system that follow at once: many templates know one, and only in front.
  EXPECT_THAT(parsed->messages, ElementsAre(chat_message(role::system, "be brief\n\nd"),
                                            chat_message(role::user, "a\nb"), chat_message(role::system, "s")));
  EXPECT_THAT(parsed->unknown, IsEmpty());
}

TEST(ResponsesRequest, ReadsEverythingSupported) {
  const auto parsed = with_field(
      R"("model":"m","max_output_tokens":7,"temperature":0.25,"top_p":0.5,"top_k":40,"min_p":0.125,"seed":3,
         "stop":["a","b"],"stop_token_ids":[4],"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,
         "logit_bias":{"5":-100},"min_tokens":3,"ignore_eos":true,"skip_special_tokens":false,
         "include_stop_str_in_output":true,"stream":true,
         "stream_options":{"include_obfuscation":false,"include_usage":true,"heartbeat_interval":5},"priority":-4,
         "request_id":"run-1","cache_salt":"s","user":"u","safety_identifier":"i","prompt_cache_key":"k",
         "prompt_cache_retention":"24h","timeout":9,"metadata":{"a":"b"},"store":true,"truncation":"disabled",
         "service_tier":"auto","background":false,"parallel_tool_calls":false,"top_logprobs":2,
         "include":["message.output_text.logprobs","reasoning.encrypted_content"],"tools":[],"tool_choice":"auto",
         "reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"},"verbosity":"medium"},
         "chat_template_kwargs":{"enable_thinking":false},"instructions":null,"previous_response_id":null,
         "conversation":null,"prompt":null,"max_tool_calls":null)");
  ASSERT_TRUE(parsed) << parsed.error().message << " " << parsed.error().param;
  const auto& r = *parsed;
  EXPECT_THAT(r.unknown, IsEmpty());
  EXPECT_EQ(r.model, "m");
  EXPECT_TRUE(r.has_max_tokens && r.length_given);
  EXPECT_EQ(r.stop.max_tokens, 7U);
  EXPECT_EQ(r.length_field, "max_output_tokens");
  EXPECT_EQ(r.sampling.temperature, 0.25F);
  EXPECT_EQ(r.sampling.top_p, 0.5F);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.min_p, 0.125F);
  EXPECT_EQ(r.seed, 3U);
  EXPECT_THAT(r.stop_strings, ElementsAre("a", "b"));
  EXPECT_THAT(r.stop.stop_token_ids, ElementsAre(4));
  EXPECT_EQ(r.stop.min_tokens, 3U);
  EXPECT_TRUE(r.stop.ignore_eos);
  EXPECT_EQ(r.sampling.logit_bias.size(), 1U);
  EXPECT_TRUE(r.stream);
  EXPECT_EQ(r.heartbeat_s, 5U);
  EXPECT_EQ(r.priority, -4);
  EXPECT_EQ(r.request_id, "run-1");
  EXPECT_EQ(r.cache_salt, "s");
  EXPECT_EQ(r.timeout_s, 9.0);
  EXPECT_EQ(r.sampling.logprobs, 2);
  EXPECT_FALSE(r.parallel_tool_calls);
  ASSERT_EQ(r.template_hints.size(), 2U);
  EXPECT_EQ(r.template_hints[0].first, "reasoning_effort");
  EXPECT_EQ(r.template_hints[1].first, "verbosity");
  ASSERT_EQ(r.template_variables.size(), 1U);
  EXPECT_EQ(r.template_variables[0].first, "enable_thinking");
}

TEST(ResponsesRequest, OneTurnOfTheAssistantIsOneMessage) {
  const auto parsed = of_items(R"({"role":"user","content":"q"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"status":"completed",
       "encrypted_content":null},
      {"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary",
       "content":[{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}","status":"completed"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":""},
      {"type":"function_call_output","call_id":"c1","output":"one"},
      {"type":"function_call_output","id":"o","status":"completed","call_id":"c2",
       "output":[{"type":"input_text","text":"two"}]},
      {"role":"assistant","content":"Done."})");
  ASSERT_TRUE(parsed) << parsed.error().message << " " << parsed.error().param;
  EXPECT_THAT(parsed->unknown, IsEmpty());
  const auto& all = parsed->messages;
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[1].who, role::assistant);
  EXPECT_EQ(all[1].content, "Let me see.");
  EXPECT_EQ(all[1].reasoning, "hm");
  EXPECT_FALSE(all[1].only_calls);
  EXPECT_THAT(all[1].tool_calls, ElementsAre(chat_tool_call{"c1", "f", "{\"a\":1}"}, chat_tool_call{"c2", "g", "{}"}));
  EXPECT_EQ(all[2].who, role::tool);
  EXPECT_EQ(all[2].tool_call_id, "c1");
  EXPECT_EQ(all[2].content, "one");
  EXPECT_EQ(all[3].tool_call_id, "c2");
  EXPECT_EQ(all[3].content, "two");
  EXPECT_EQ(all[4], chat_message(role::assistant, "Done."));
}

TEST(ResponsesRequest, ATurnMayOnlyCallOrSayMoreBehindACall) {
  const std::string call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})";
  const auto only = of_items(R"({"role":"user","content":"q"},)" + call);
  ASSERT_TRUE(only) << only.error().message;
  EXPECT_TRUE(only->messages.at(1).only_calls);
  const auto behind = of_items(call + R"(,{"role":"assistant","content":"more"})");
  ASSERT_TRUE(behind) << behind.error().message;
  ASSERT_EQ(behind->messages.size(), 1U);
  EXPECT_FALSE(behind->messages[0].only_calls);
  EXPECT_EQ(behind->messages[0].content, "more");
  // What is thought within a turn parts no calls, which are answered together.
  const auto two = of_items(
      call + R"(,{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},)" + call +
      R"(,{"type":"reasoning","summary":[]},{"role":"user","content":"u"},{"role":"assistant","content":"a"})");
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_EQ(two->messages.size(), 3U);
  EXPECT_EQ(two->messages[0].reasoning, "s");
  EXPECT_EQ(two->messages[0].tool_calls.size(), 2U);
  EXPECT_EQ(two->messages[2].reasoning, "");
}

TEST(ResponsesRequest, WhatWasThoughtBeforeNothingIsDropped) {
  const auto parsed =
      of_items(R"({"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]},{"role":"user","content":"u"},
                  {"role":"assistant","content":"a"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->messages, ElementsAre(chat_message(role::user, "u"), chat_message(role::assistant, "a")));
}

TEST(ResponsesRequest, ToolsAreToldToTemplatesAsAChatTellsThem) {
  const auto parsed = with_field(R"("tools":[{"type":"function","name":"weather","description":"Of a city.",
      "parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":true},
      {"type":"function","name":"add","parameters":null,"strict":false}])");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->choice, tool_choice::automatic);
  EXPECT_THAT(parsed->tool_names, ElementsAre("weather", "add"));
  const auto chat = parse_chat(R"({"messages":[{"role":"user","content":"hi"}],"tools":[
      {"type":"function","function":{"name":"weather","description":"Of a city.",
       "parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},
      {"type":"function","function":{"name":"add"}}]})",
                               {}, {});
  ASSERT_TRUE(chat) << chat.error().message;
  const auto shown = chat_template::compile({"{{ tools|tojson }}<tool_call>", {}, {}});
  ASSERT_TRUE(shown) << shown.error();
  const auto pieces = shown->pieces(*parsed, 0);
  ASSERT_TRUE(pieces) << pieces.error().message;
  EXPECT_EQ(*pieces, shown->pieces(*chat, 0).value());
  EXPECT_THAT(parsed->unknown, IsEmpty());
}

TEST(ResponsesRequest, ATemplateThatRefusesTheConversationBlamesTheInput) {
  const auto strict = chat_template::compile({"{{ raise_exception('no') }}", {}, {}});
  ASSERT_TRUE(strict) << strict.error();
  const auto refused = strict->pieces(responses_of(R"({"input":"hi"})").value(), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "input");
}

TEST(ResponsesRequest, AChoiceOfATool) {
  const std::string tools = R"("tools":[{"type":"function","name":"f","parameters":{"type":"object",
      "properties":{"a":{"type":"integer"}}}},{"type":"function","name":"g"}])";
  const auto named = with_field(tools + R"(,"tool_choice":{"type":"function","name":"f"})");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->choice, tool_choice::named);
  EXPECT_EQ(named->chosen_tool, "f");
  EXPECT_EQ(string_at(read(named->sampling.json_schema), "/properties/a/type"), "integer");
  const auto required = with_field(tools + R"(,"tool_choice":"required","parallel_tool_calls":false)");
  ASSERT_TRUE(required) << required.error().message;
  EXPECT_EQ(read(required->sampling.json_schema).at("maxItems"), 1);
  EXPECT_EQ(with_field(tools + R"(,"tool_choice":"none")")->choice, tool_choice::none);
  EXPECT_EQ(blamed(with_field(tools + R"(,"tool_choice":{"type":"function","name":"h"})")), "tool_choice");
  EXPECT_EQ(blamed(with_field(tools + R"(,"tool_choice":{"type":"web_search"})")), "tool_choice.type");
  EXPECT_EQ(blamed(with_field(tools + R"(,"tool_choice":{"type":"function"})")), "tool_choice.name");
  EXPECT_EQ(blamed(with_field(R"("tool_choice":"required")")), "tool_choice");
  const std::string format = R"(,"text":{"format":{"type":"json_object"}})";
  EXPECT_THAT(with_field(tools + format)->sampling.json_schema, ::testing::HasSubstr("<tool_call>"));
  EXPECT_EQ(with_field(tools + R"(,"tool_choice":"required")" + format)->sampling.json_schema,
            with_field(tools + R"(,"tool_choice":"required")")->sampling.json_schema);
  EXPECT_EQ(blamed(with_field(R"("tools":[{"type":"function","name":"f","parameters":{"type":"object",
      "properties":{"y":{"patternProperties":{}}}}}],"tool_choice":"required")")),
            "tools[0].parameters");
}

TEST(ResponsesRequest, AFormatIsFlat) {
  const auto parsed = with_field(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,"description":"d",
      "schema":{"type":"object","properties":{"a":{"type":"string"}}}}})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(string_at(read(parsed->sampling.json_schema), "/properties/a/type"), "string");
  EXPECT_EQ(with_field(R"("text":{"format":{"type":"json_object"}})")->sampling.json_schema, R"({"type":"object"})");
  EXPECT_EQ(with_field(R"("text":{"format":{"type":"text"}})")->sampling.json_schema, "");
  EXPECT_FALSE(with_field(R"("structured_outputs":{"choice":["a"]})")->sampling.json_schema.empty());
}

TEST(ResponsesRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(blamed(responses_of("{}")), "input");
  EXPECT_EQ(blamed(responses_of(R"({"input":null})")), "input");
  EXPECT_EQ(blamed(responses_of(R"({"input":[]})")), "input");
  EXPECT_EQ(blamed(responses_of(R"({"input":7})")), "input");
  EXPECT_EQ(blamed(of_items(R"({"type":"reasoning","summary":[]})")), "input");
  EXPECT_EQ(blamed(of_items("7")), "input[0]");
  EXPECT_EQ(blamed(of_items(R"({"content":"x"})")), "input[0].role");
  EXPECT_EQ(blamed(of_items(R"({"role":"tool","content":"x"})")), "input[0].role");
  EXPECT_EQ(blamed(of_items(R"({"role":"user"})")), "input[0].content");
  EXPECT_EQ(blamed(of_items(R"({"role":"user","content":7})")), "input[0].content");
  EXPECT_EQ(blamed(of_items(R"({"role":"user","content":["x"]})")), "input[0].content[0]");
  EXPECT_EQ(blamed(of_items(R"({"role":"user","content":[{"text":"x"}]})")), "input[0].content[0].type");
  EXPECT_EQ(blamed(of_items(R"({"role":"user","content":[{"type":"input_text"}]})")), "input[0].content[0].text");
  EXPECT_EQ(blamed(of_items(R"({"type":"function_call","name":"f","arguments":"{}"})")), "input[0].call_id");
  EXPECT_EQ(blamed(of_items(R"({"type":"function_call","call_id":"c"})")), "input[0].name");
  EXPECT_EQ(blamed(of_items(R"({"type":"function_call_output","call_id":"c"})")), "input[0].output");
  EXPECT_EQ(blamed(of_items(R"({"type":"function_call_output","output":"c"})")), "input[0].call_id");
  EXPECT_EQ(blamed(of_items(R"({"type":"reasoning","content":[{"type":"text","text":"x"}]})")),
            "input[0].content[0].type");
  EXPECT_EQ(blamed(with_field(R"("instructions":7)")), "instructions");
  EXPECT_EQ(blamed(with_field(R"("max_output_tokens":0)")), "max_output_tokens");
  EXPECT_EQ(blamed(with_field(R"("max_output_tokens":2,"min_tokens":3)")), "min_tokens");
  EXPECT_EQ(blamed(with_field(R"("temperature":3)")), "temperature");
  EXPECT_EQ(blamed(with_field(R"("top_logprobs":3)")), "top_logprobs");
  EXPECT_EQ(blamed(with_field(R"("top_logprobs":21,"include":["message.output_text.logprobs"])")), "top_logprobs");
  EXPECT_EQ(blamed(with_field(R"("include":"x")")), "include");
  EXPECT_EQ(blamed(with_field(R"("include":[1])")), "include[0]");
  EXPECT_EQ(blamed(with_field(R"("reasoning":{"effort":"much"})")), "reasoning.effort");
  EXPECT_EQ(blamed(with_field(R"("reasoning":{"effort":1})")), "reasoning.effort");
  EXPECT_EQ(blamed(with_field(R"("text":{"format":{}})")), "text.format.type");
  EXPECT_EQ(blamed(with_field(R"("text":{"format":{"type":"json_schema","schema":{}}})")), "text.format.name");
  EXPECT_EQ(blamed(with_field(R"("text":{"format":{"type":"json_schema","name":"n"}})")), "text.format.schema");
  EXPECT_THAT(blamed(with_field(
                  R"("text":{"format":{"type":"json_schema","name":"n","schema":{"properties":{"a":{"type":"x"}}}}})")),
              HasSubstr("text.format.schema"));
  EXPECT_EQ(blamed(with_field(R"("tools":[{"name":"f"}])")), "tools[0].type");
  EXPECT_EQ(blamed(with_field(R"("tools":[{"type":"function"}])")), "tools[0].name");
  EXPECT_EQ(blamed(with_field(R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}])")),
            "tools[1].name");
  EXPECT_EQ(blamed(with_field(R"("store":1)")), "store");
  EXPECT_EQ(blamed(with_field(R"("metadata":{"a":1})")), "metadata.a");
  EXPECT_EQ(blamed(with_field(R"("stream_options":{})")), "stream_options");
}

TEST(ResponsesRequest, WhatIsEchoedIsBounded) {
  const std::string label(513, 'x');
  for (const std::string name : {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})
    EXPECT_EQ(blamed(with_field("\"" + name + "\":\"" + label + "\"")), name);
  EXPECT_EQ(blamed(with_field(R"("metadata":{"a":")" + label + "\"}")), "metadata");
  EXPECT_EQ(blamed(with_field(R"("metadata":{")" + std::string(65, 'k') + R"(":"v"})")), "metadata");
  std::string many;
  for (int i = 0; i < 17; ++i) many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"v\"";
  EXPECT_EQ(blamed(with_field(R"("metadata":{)" + many + "}")), "metadata");
  std::string characters;
  for (int i = 0; i < 512; ++i) characters += "é";
  EXPECT_EQ(blamed(with_field(R"("metadata":{"a":")" + characters + "\"}")), "(none)");
  std::string items = R"({"role":"user","content":"x"})";
  for (int i = 0; i < 4096; ++i) items += R"(,{"role":"user","content":"x"})";
  EXPECT_EQ(blamed(of_items(items)), "input");
}

TEST(ResponsesRequest, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"("previous_response_id":"resp_1")", "previous_response_id"},
      {R"("conversation":"conv_1")", "conversation"},
      {R"("conversation":{"id":"c"})", "conversation"},
      {R"("background":true)", "background"},
      {R"("prompt":{"id":"p"})", "prompt"},
      {R"("max_tool_calls":3)", "max_tool_calls"},
      {R"("truncation":"auto")", "truncation"},
      {R"("context_management":[{"type":"compaction"}])", "context_management"},
      {R"("reasoning":{"summary":"detailed"})", "reasoning.summary"},
      {R"("reasoning":{"generate_summary":"concise"})", "reasoning.generate_summary"},
      {R"("include":["web_search_call.results"])", "include[0]"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function","name":"f"},{"type":"mcp","server_label":"x"}])", "tools[1].type"},
      {R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})",
       "stream_options.continuous_usage_stats"},
      {R"("tools":[{"type":"function","name":"f","defer_loading":true}])", "tools[0].defer_loading"},
  };
  for (const auto& [field, name] : refused) {
    const auto parsed = with_field(field);
    ASSERT_FALSE(parsed) << field;
    EXPECT_EQ(parsed.error().param, name) << parsed.error().message;
    EXPECT_EQ(parsed.error().code, "unsupported_parameter") << field;
    EXPECT_EQ(parsed.error().status, 400);
  }
  for (const std::string type : {"input_image", "input_file", "input_audio"})
    EXPECT_EQ(blamed(of_items(R"({"role":"user","content":[{"type":")" + type + R"("}]})")),
              "input[0].content[0].type");
  for (const std::string type : {"item_reference", "web_search_call", "custom_tool_call", "local_shell_call"})
    EXPECT_EQ(blamed(of_items(R"({"id":"x","type":")" + type + R"("})")), "input[0].type");
}

TEST(ResponsesRequest, WhereAskedToItIgnoresThem) {
  const auto parsed = with_field(
      R"("truncation":"auto","reasoning":{"summary":"detailed"},"include":["x"],
         "tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"})",
      true);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown, ::testing::UnorderedElementsAre("truncation", "reasoning.summary", "include[0]",
                                                               "tools[0].type", "tool_choice.type"));
  EXPECT_EQ(parsed->choice, tool_choice::automatic);
  EXPECT_THAT(parsed->tool_names, ElementsAre("f"));
  EXPECT_EQ(parsed->tools.items().size(), 1U);
  const auto none = with_field(R"("tools":[{"type":"web_search"}],"tool_choice":"auto")", true);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->tools.defined());
  EXPECT_EQ(none->choice, tool_choice::none);
  const auto required = with_field(R"("tools":[{"type":"web_search"}],"tool_choice":"required")", true);
  ASSERT_TRUE(required) << required.error().message;
  EXPECT_EQ(required->choice, tool_choice::none);
  // An answer without what came before would be another one.
  for (const std::string field : {"previous_response_id", "conversation", "prompt"})
    EXPECT_EQ(blamed(with_field("\"" + field + "\":\"x\"", true)), field);
  // What there was instead is told.
  EXPECT_EQ(echoed(*parsed).at("truncation"), "disabled");
  EXPECT_EQ(echoed(*parsed).at_pointer("/text/verbosity"), "medium");
}

TEST(ResponsesRequest, HowLongAnAnswerIsWantedIsAHint) {
  const auto parsed = with_field(R"("text":{"verbosity":"low"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->template_hints.size(), 1U);
  EXPECT_EQ(parsed->template_hints[0].first, "verbosity");
  EXPECT_EQ(echoed(*parsed).at_pointer("/text/verbosity"), "low");
  EXPECT_EQ(blamed(with_field(R"("text":{"verbosity":"lowest"})")), "text.verbosity");
  EXPECT_EQ(blamed(with_field(R"("service_tier":"slow")")), "service_tier");
}

TEST(ResponsesRequest, WhatSaysNothingOfTheAnswerIsTaken) {
  const auto parsed = responses_of(R"({"client_metadata":{"x":"y"},"stream":true,
      "stream_options":{"include_obfuscation":true},"tools":[{"type":"function","name":"f","defer_loading":false}],
      "input":[{"role":"user","content":"q"},
       {"type":"function_call","call_id":"c","name":"f","arguments":"{}","created_by":"us"},
       {"type":"function_call_output","call_id":"c","created_by":"us",
        "output":[{"type":"output_text","text":"one","annotations":[],"logprobs":[]}]}]})");
  ASSERT_TRUE(parsed) << parsed.error().message << " " << parsed.error().param;
  EXPECT_THAT(parsed->unknown, IsEmpty());
  EXPECT_EQ(parsed->messages.back().content, "one");
  EXPECT_EQ(blamed(with_field(R"("instructions":"s")")), "(none)");
  EXPECT_EQ(blamed(responses_of(R"({"instructions":"s","input":[{"type":"reasoning","summary":[]}]})")), "input");
  EXPECT_EQ(blamed(with_field(R"("text":{"format":{"type":"json_schema","name":"n","schema":{},"description":")" +
                              std::string(std::size_t{1} << 20U, 'x') + "\"}}")),
            "text");
}

TEST(ResponsesRequest, FieldsOfOtherEndpointsAreUnknown) {
  for (const std::string name : {"n", "max_tokens", "max_completion_tokens", "messages", "response_format", "logprobs",
                                 "reasoning_effort", "functions", "use_beam_search", "best_of", "echo"})
    EXPECT_THAT(with_field("\"" + name + "\":1")->unknown, ElementsAre(name));
  EXPECT_THAT(of_items(R"({"role":"user","content":"x","name":"bob"})")->unknown, ElementsAre("input[0].name"));
  EXPECT_THAT(with_field(R"("reasoning":{"depth":1})")->unknown, ElementsAre("reasoning.depth"));
  EXPECT_THAT(with_field(R"("text":{"style":1})")->unknown, ElementsAre("text.style"));
  // What some server answered is taken as it was.
  EXPECT_THAT(of_items(R"({"role":"assistant","content":"x","name":"bob"})")->unknown, IsEmpty());
}

TEST(ResponsesRequest, AnAnswerRepeatsWhatItWasAskedWith) {
  EXPECT_EQ(echoed(*responses_of(R"({"input":"hi"})")), read(R"({"background":false,"instructions":null,
      "max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,
      "prompt_cache_key":null,"prompt_cache_retention":null,"safety_identifier":null,"user":null,
      "reasoning":{"effort":null,"summary":null},"service_tier":"default","store":false,"temperature":1,
      "text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,
      "top_p":1,"truncation":"disabled"})"));
  const auto parsed = with_field(R"("instructions":"say \"x\"","max_output_tokens":5.0,"metadata":{"a":"b"},
      "parallel_tool_calls":false,"prompt_cache_key":"k","user":"u","reasoning":{"effort":"high","summary":"auto"},
      "temperature":0.7,"top_p":0.5,"store":true,"tools":[{"type":"function","name":"f","strict":true}],
      "tool_choice":{"type":"function","name":"f"},"include":["message.output_text.logprobs"],"top_logprobs":3)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->parameters, HasSubstr(R"("temperature":0.7,)"));
  EXPECT_EQ(echoed(*parsed), read(R"({"background":false,"instructions":"say \"x\"",
      "max_output_tokens":5,"metadata":{"a":"b"},"parallel_tool_calls":false,"previous_response_id":null,
      "prompt_cache_key":"k","prompt_cache_retention":null,"safety_identifier":null,"user":"u",
      "reasoning":{"effort":"high","summary":null},"service_tier":"default","store":false,"temperature":0.7,
      "text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":{"type":"function","name":"f"},
      "tools":[{"type":"function","name":"f","strict":true}],"top_logprobs":3,"top_p":0.5,"truncation":"disabled"})"));
}

} // namespace
} // namespace godwit::protocols::openai
