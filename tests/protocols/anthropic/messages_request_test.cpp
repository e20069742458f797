// What a body of /v1/messages means: the conversation of a chat, in Anthropic's words.
#include "protocols/openai/json_support.hpp"

#include <godwit/protocols/anthropic/messages_request.hpp>
#include <godwit/protocols/openai/chat_template.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::anthropic {
namespace {

using openai::chat_message;
using openai::chat_tool_call;
using openai::role;
using openai::tool_choice;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using parsed_messages = expected<messages_request, openai::api_error>;

parsed_messages parsed_of(const std::string& body, bool lenient = false) {
  openai::request_limits bounds;
  bounds.vocabulary = 1000;
  bounds.lists_unsupported = lenient;
  return parse_messages(body, {}, bounds);
}
parsed_messages with(const std::string& field, bool lenient = false) {
  return parsed_of(R"({"max_tokens":8,"messages":[{"role":"user","content":"hi"}],)" + field + "}", lenient);
}
parsed_messages conversation_of(const std::string& messages, const std::string& more = "") {
  return parsed_of(R"({"max_tokens":8,"messages":[)" + messages + "]" + more + "}");
}
/// The field that is to blame; "(none)": the request was taken.
std::string to_blame(const parsed_messages& parsed) { return parsed ? "(none)" : parsed.error().param; }

chat_message said(role who, std::string text) { return {who, std::move(text)}; }

TEST(MessagesRequest, ATextIsWhatTheUserSays) {
  const auto parsed = parsed_of(R"({"max_tokens":8,"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->messages, ElementsAre(said(role::user, "hi")));
  EXPECT_TRUE(parsed->has_max_tokens);
  EXPECT_EQ(parsed->stop.max_tokens, 8U);
  EXPECT_TRUE(parsed->add_generation_prompt);
  EXPECT_FALSE(parsed->continue_final_message);
  EXPECT_FALSE(parsed->add_special_tokens);
  EXPECT_FALSE(parsed->only_prompt);
  EXPECT_TRUE(parsed->tells_thoughts);
  EXPECT_FALSE(parsed->manages_context);
  EXPECT_EQ(parsed->choice, tool_choice::none);
  EXPECT_FALSE(parsed->tools.defined());
  EXPECT_THAT(parsed->template_hints, IsEmpty());
}

TEST(MessagesRequest, TheSystemSpeaksInFrontWithoutTheBill) {
  const auto parsed = conversation_of(R"({"role":"user","content":"hi"})",
                                      R"(,"system":[{"type":"text","text":"x-anthropic-billing-header: cc=1; cch=ab;"},
      {"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}])");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->messages, ElementsAre(said(role::system, "a\nb"), said(role::user, "hi")));
  const auto text = conversation_of(R"({"role":"system","content":"first"},{"role":"user","content":"hi"})",
                                    R"(,"system":"x-anthropic-billing-header: cch=1\nbe brief")");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(text->messages, ElementsAre(said(role::system, "be brief\n\nfirst"), said(role::user, "hi")));
  EXPECT_THAT(conversation_of(R"({"role":"user","content":"hi"})", R"(,"system":"")")->messages.size(), 1U);
}

TEST(MessagesRequest, WhoSpeaksOnGoesOnWithTheSameMessage) {
  const auto parsed = conversation_of(R"({"role":"user","content":"a"},{"role":"user","content":[
      {"type":"text","text":"b","cache_control":{"type":"ephemeral"}},{"type":"text","text":"c"}]},
    {"role":"assistant","content":[{"type":"text","text":"d","citations":null},{"type":"text","text":"e"}]},
    {"role":"assistant","content":"f"},{"role":"user","content":"g"},
    {"role":"system","content":"s"},{"role":"system","content":[{"type":"text","text":"t"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->messages, ElementsAre(said(role::user, "a\nb\nc"), said(role::assistant, "def"),
                                            said(role::user, "g"), said(role::system, "s\n\nt")));
  EXPECT_TRUE(parsed->system_may_be_users);
  EXPECT_FALSE(parsed->continue_final_message);
}

TEST(MessagesRequest, CallsAndWhatCameOfThemAreThoseOfAChat) {
  const auto parsed = conversation_of(R"({"role":"user","content":"q"},
    {"role":"assistant","id":"msg_1","content":[{"type":"thinking","thinking":"hm","signature":"xyz"},
      {"type":"redacted_thinking","data":"abc"},{"type":"text","text":"let me see"},
      {"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1},"caller":{"type":"direct"}},
      {"type":"thinking","thinking":"and","signature":""},{"type":"tool_use","id":"toolu_2","name":"g","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"one","cache_control":{}},
      {"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"no"},
        {"type":"text","text":"way"}]},
      {"type":"text","text":"go on"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->messages.size(), 5U);
  const auto& turn = parsed->messages[1];
  EXPECT_EQ(turn.content, "let me see");
  EXPECT_EQ(turn.reasoning, "hm\nand");
  EXPECT_THAT(turn.tool_calls,
              ElementsAre(chat_tool_call{"toolu_1", "f", R"({"a":1})"}, chat_tool_call{"toolu_2", "g", "{}"}));
  EXPECT_FALSE(turn.only_calls);
  EXPECT_EQ(parsed->messages[2].who, role::tool);
  EXPECT_EQ(parsed->messages[2].tool_call_id, "toolu_1");
  EXPECT_EQ(parsed->messages[2].content, "one");
  EXPECT_EQ(parsed->messages[3].content, "Error: no\nway");
  EXPECT_EQ(parsed->messages[4], said(role::user, "go on"));
  EXPECT_THAT(parsed->unknown, IsEmpty());

  const auto bare = conversation_of(R"({"role":"user","content":"q"},
    {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]})");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_TRUE(bare->messages[1].only_calls);
  EXPECT_EQ(bare->messages[2].content, "");
}

TEST(MessagesRequest, TheAnswerGoesOnFromTheAssistantsLastWords) {
  const auto parsed =
      conversation_of(R"({"role":"user","content":"q"},{"role":"assistant","content":"The best is ("})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(parsed->continue_final_message);
  EXPECT_FALSE(parsed->add_generation_prompt);
  EXPECT_EQ(parsed->messages.back().content, "The best is (");
  // Nothing to go on from.
  const auto empty = conversation_of(R"({"role":"user","content":"q"},{"role":"assistant","content":[]})");
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_FALSE(empty->continue_final_message);
  EXPECT_THAT(empty->messages, ElementsAre(said(role::user, "q")));
  const auto fails = [](const std::string& last) {
    const auto refused = conversation_of(R"({"role":"user","content":"q"},)" + last);
    EXPECT_EQ(to_blame(refused), "messages");
    return refused ? std::string() : refused.error().message;
  };
  EXPECT_THAT(fails(R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]})"),
              HasSubstr("calls of tools"));
  EXPECT_THAT(fails(R"({"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""}]})"),
              HasSubstr("thought"));
}

TEST(MessagesRequest, ItsFieldsAreThoseOfAChatByOtherNames) {
  const auto parsed = with(R"("model":"m","stop_sequences":["END","\n"],"temperature":0.5,"top_p":0.9,"top_k":5,
      "seed":7,"priority":-2,"stream":true,"stream_options":{"heartbeat_interval":5},"service_tier":"standard_only",
      "metadata":{"user_id":null},"cache_control":{"type":"ephemeral"},"diagnostics":{"previous_message_id":null},
      "speed":"standard","mcp_servers":[],"cache_salt":"s","request_id":"mine","min_tokens":2,
      "chat_template_kwargs":{"a":1},"guided_choice":["x","y"])");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->model, "m");
  EXPECT_THAT(parsed->stop_strings, ElementsAre("END", "\n"));
  EXPECT_FLOAT_EQ(parsed->sampling.temperature, 0.5F);
  EXPECT_EQ(parsed->sampling.top_k, 5);
  EXPECT_EQ(parsed->seed, 7U);
  EXPECT_EQ(parsed->priority, -2);
  EXPECT_EQ(parsed->heartbeat_s, 5U);
  EXPECT_EQ(parsed->stop.min_tokens, 2U);
  EXPECT_TRUE(parsed->stream);
  EXPECT_FALSE(parsed->sampling.json_schema.empty());
  EXPECT_THAT(parsed->unknown, IsEmpty());
  EXPECT_EQ(to_blame(with(R"("metadata":{"user_id":7})")), "metadata.user_id");
  EXPECT_EQ(to_blame(with(R"("stop_sequences":["a",""])")), "stop_sequences[1]");
}

TEST(MessagesRequest, HowLongTheAnswerMayBeIsToBeSaid) {
  EXPECT_EQ(to_blame(parsed_of(R"({"messages":[{"role":"user","content":"hi"}]})")), "max_tokens");
  EXPECT_EQ(to_blame(parsed_of(R"({"max_tokens":-1,"messages":[{"role":"user","content":"hi"}]})")), "max_tokens");
  const auto none = parsed_of(R"({"max_tokens":0,"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->only_prompt);
  EXPECT_EQ(none->stop.max_tokens, 1U);
  const auto counted = parse_count_tokens(R"({"messages":[{"role":"user","content":"hi"}]})", {}, {});
  ASSERT_TRUE(counted) << counted.error().message;
  EXPECT_FALSE(counted->only_prompt);
  EXPECT_FALSE(parse_count_tokens(R"({"messages":[]})", {}, {}));
}

TEST(MessagesRequest, ToolsAreShownAsChatsHaveThem) {
  const auto parsed = with(R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},
      "cache_control":{"type":"ephemeral"},"eager_input_streaming":true,"strict":true,"allowed_callers":["direct"]},
      {"type":"custom","name":")" +
                           std::string(128, 'g') + R"(","input_schema":{}}],
      "tool_choice":{"type":"auto","disable_parallel_tool_use":true})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->choice, tool_choice::automatic);
  EXPECT_FALSE(parsed->parallel_tool_calls);
  EXPECT_THAT(parsed->tool_names, ElementsAre("f", std::string(128, 'g')));
  EXPECT_THAT(parsed->unknown, IsEmpty());
  const auto compiled = openai::chat_template::compile({"{{ tools|tojson }}", {}, {}});
  ASSERT_TRUE(compiled);
  auto request = *parsed;
  request.choice = tool_choice::none; // it need not know how calls are written
  const auto shown = compiled->pieces(request, 0);
  ASSERT_TRUE(shown) << shown.error().message;
  std::string text;
  for (const auto& piece : *shown) text += piece.text;
  const auto list = openai::testing_support::read(text);
  EXPECT_EQ(list.at(0),
            openai::testing_support::read(
                R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})"));
}

TEST(MessagesRequest, AChoiceThatHasToBeMadeBindsTheAnswer) {
  const std::string tools =
      R"("tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}},
      {"name":"g","input_schema":{"type":"object"}}],"tool_choice":)";
  const auto any = with(tools + R"({"type":"any"})");
  ASSERT_TRUE(any) << any.error().message;
  EXPECT_EQ(any->choice, tool_choice::required);
  EXPECT_TRUE(any->parallel_tool_calls);
  EXPECT_THAT(any->sampling.json_schema, HasSubstr("minItems"));
  const auto named = with(tools + R"({"type":"tool","name":"f"})");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->choice, tool_choice::named);
  EXPECT_EQ(named->chosen_tool, "f");
  EXPECT_THAT(named->sampling.json_schema, HasSubstr("integer"));
  EXPECT_EQ(with(tools + R"({"type":"none"})")->choice, tool_choice::none);
  EXPECT_EQ(to_blame(with(tools + R"({"type":"tool","name":"h"})")), "tool_choice");
  EXPECT_EQ(to_blame(with(tools + R"({"type":"tool"})")), "tool_choice.name");
  EXPECT_EQ(to_blame(with(tools + R"({"type":"required"})")), "tool_choice.type");
  EXPECT_EQ(to_blame(with(tools + R"("auto")")), "tool_choice");
  EXPECT_EQ(to_blame(with(R"("tool_choice":{"type":"any"})")), "tool_choice");
  EXPECT_EQ(to_blame(with(R"("tools":[{"name":"f"}])")), "tools[0].input_schema");
  EXPECT_EQ(to_blame(with(R"("tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}])")),
            "tools[1].name");
  EXPECT_EQ(to_blame(with(R"("tools":[{"name":"f","input_schema":{"type":"array"}}],"tool_choice":{"type":"any"})")),
            "tools[0].input_schema");
}

TEST(MessagesRequest, BlocksMakeNoMoreMessagesThanThereMayBe) {
  const auto many = [](const std::string& one, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + one;
    return out;
  };
  const auto asks = [&](const std::string& role, const std::string& blocks) {
    return conversation_of(R"({"role":")" + role + R"(","content":[)" + blocks + R"(]},{"role":"user","content":"a"})");
  };
  const std::string result = R"({"type":"tool_result","tool_use_id":""})";
  EXPECT_TRUE(asks("user", many(result, 100)));
  const auto results = asks("user", many(result, 5000));
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().param, "messages");
  const std::string call = R"({"type":"tool_use","id":"t","name":"f","input":{}})";
  EXPECT_TRUE(asks("assistant", many(call, 100)));
  EXPECT_FALSE(asks("assistant", many(call, 1100)));
}

TEST(MessagesRequest, ASchemaIsFollowed) {
  const std::string schema =
      R"({"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"integer"}}}})";
  const auto parsed = with(R"("output_config":{"effort":"low","format":)" + schema + "}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->sampling.json_schema, HasSubstr("integer"));
  ASSERT_EQ(parsed->template_hints.size(), 1U);
  EXPECT_EQ(parsed->template_hints[0].first, "reasoning_effort");
  EXPECT_EQ(with(R"("output_format":)" + schema)->sampling.json_schema, parsed->sampling.json_schema);
  EXPECT_EQ(to_blame(with(R"("output_format":)" + schema + R"(,"output_config":{"format":)" + schema + "}")),
            "output_format.schema");
  EXPECT_EQ(to_blame(with(R"("output_config":{"format":{"type":"xml"}})")), "output_config.format.type");
  EXPECT_EQ(to_blame(with(R"("output_config":{"format":{"type":"json_schema"}})")), "output_config.format.schema");
  EXPECT_EQ(to_blame(with(R"("output_config":{"effort":"much"})")), "output_config.effort");
  for (const auto& format : {R"("output_config":{"format":)" + schema + "}", R"("output_format":)" + schema}) {
    const auto or_calls = with(R"("tools":[{"name":"f","input_schema":{}}],)" + format);
    ASSERT_TRUE(or_calls) << or_calls.error().message;
    EXPECT_THAT(or_calls->sampling.json_schema, AllOf(HasSubstr("integer"), HasSubstr("<tool_call>")));
  }
}

TEST(MessagesRequest, ThinkingIsAHintToTemplates) {
  const auto hints = [](const std::string& thinking) {
    const auto parsed = with(R"("thinking":)" + thinking);
    EXPECT_TRUE(parsed) << parsed.error().message;
    std::vector<std::pair<std::string, bool>> out;
    for (const auto& [name, value] : parsed->template_hints) out.emplace_back(name, value.as_boolean());
    return out;
  };
  EXPECT_THAT(hints(R"({"type":"enabled","budget_tokens":1024})"),
              ElementsAre(std::pair("enable_thinking", true), std::pair("thinking", true)));
  EXPECT_THAT(hints(R"({"type":"adaptive"})"),
              ElementsAre(std::pair("enable_thinking", true), std::pair("thinking", true)));
  EXPECT_THAT(hints(R"({"type":"disabled"})"),
              ElementsAre(std::pair("enable_thinking", false), std::pair("thinking", false)));
  EXPECT_FALSE(with(R"("thinking":{"type":"adaptive","display":"omitted"})")->tells_thoughts);
  EXPECT_TRUE(with(R"("thinking":{"type":"adaptive","display":"summarized"})")->tells_thoughts);
  const auto own = with(R"("thinking":{"type":"disabled"},"chat_template_kwargs":{"enable_thinking":true})");
  ASSERT_TRUE(own) << own.error().message;
  ASSERT_EQ(own->template_hints.size(), 1U);
  EXPECT_EQ(own->template_hints[0].first, "thinking") << "the client's own word counts";
  EXPECT_EQ(to_blame(with(R"("thinking":{"type":"enabled"})")), "thinking.budget_tokens");
  EXPECT_EQ(to_blame(with(R"("thinking":{"type":"enabled","budget_tokens":10})")), "thinking.budget_tokens");
  EXPECT_EQ(to_blame(with(R"("thinking":{"type":"on"})")), "thinking.type");
  EXPECT_EQ(to_blame(with(R"("thinking":{})")), "thinking.type");
}

TEST(MessagesRequest, NothingOfTheContextIsCleared) {
  const auto parsed = with(R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},
      {"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":1000}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(parsed->manages_context);
  EXPECT_THAT(parsed->unknown, IsEmpty());
  EXPECT_EQ(to_blame(with(R"("context_management":{"edits":[{"type":"compact_20260112"}]})")),
            "context_management.edits[0].type");
}

TEST(MessagesRequest, WhatIsNotSupportedIsNamed) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"("container":"c")", "container"},
      {R"("mcp_servers":[{"type":"url"}])", "mcp_servers"},
      {R"("inference_geo":"us")", "inference_geo"},
      {R"("service_tier":"priority")", "service_tier"},
      {R"("speed":"fast")", "speed"},
      {R"("output_config":{"task_budget":{"type":"tokens"}})", "output_config.task_budget"},
      {R"("thinking":{"type":"adaptive","display":"updates"})", "thinking.display"},
      {R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"bash_20250124","name":"bash"}])", "tools[0].type"},
      {R"("tools":[{"name":"f","input_schema":{},"defer_loading":true}])", "tools[0].defer_loading"},
      {R"("tools":[{"name":"f","input_schema":{},"allowed_callers":["code_execution_20250825"]}])",
       "tools[0].allowed_callers"},
  };
  for (const auto& [field, name] : refused) {
    const auto parsed = with(field);
    ASSERT_FALSE(parsed) << field;
    EXPECT_EQ(parsed.error().param, name) << parsed.error().message;
    EXPECT_EQ(parsed.error().code, "unsupported_parameter") << field;
  }
  const auto thread = with(R"("thread":{"type":"create"})");
  EXPECT_EQ(to_blame(thread), "thread");
  EXPECT_EQ(thread.error().code, "thread_unsupported_request") << "clients do without then";
  for (const std::string type : {"image", "document", "search_result", "container_upload"}) {
    EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":[{"type":")" + type + R"("}]})")),
              "messages[0].content[0].type");
    EXPECT_EQ(to_blame(conversation_of(
                  R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":")" + type +
                  R"("}]}]})")),
              "messages[0].content[0].content[0].type");
  }
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"assistant","content":[{"type":"server_tool_use"}]})")),
            "messages[0].content[0].type");
}

TEST(MessagesRequest, WhereAskedToItIgnoresThem) {
  const auto parsed = with(R"("container":"c","speed":"fast","n":2,"tools":[{"type":"web_search_20250305",
      "name":"web_search"},{"name":"f","input_schema":{}}],"context_management":{"edits":[{"type":"compact_20260112"}]})",
                           true);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown,
              UnorderedElementsAre("container", "speed", "n", "tools[0].type", "context_management.edits[0].type"));
  EXPECT_THAT(parsed->tool_names, ElementsAre("f"));
  // An answer without what came before would be another one.
  EXPECT_EQ(to_blame(with(R"("thread":{"type":"continue","previous_message_id":"msg_1"})", true)), "thread");
}

TEST(MessagesRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(to_blame(parsed_of(R"({"max_tokens":1})")), "messages");
  EXPECT_EQ(to_blame(conversation_of("")), "messages");
  EXPECT_EQ(to_blame(conversation_of("7")), "messages[0]");
  EXPECT_EQ(to_blame(conversation_of(R"({"content":"x"})")), "messages[0].role");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"tool","content":"x"})")), "messages[0].role");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user"})")), "messages[0].content");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":7})")), "messages[0].content");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":[7]})")), "messages[0].content[0]");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":[{"text":"x"}]})")), "messages[0].content[0].type");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":[{"type":"text"}]})")), "messages[0].content[0].text");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"user","content":[{"type":"tool_result"}]})")),
            "messages[0].content[0].tool_use_id");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f"}]})")),
            "messages[0].content[0].input");
  EXPECT_EQ(to_blame(conversation_of(
                R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"","input":{}}]})")),
            "messages[0].content[0].name");
  EXPECT_EQ(to_blame(conversation_of(R"({"role":"assistant","content":[]})")), "messages") << "nobody said anything";
  EXPECT_EQ(to_blame(with(R"("system":7)")), "system");
  EXPECT_EQ(to_blame(with(R"("system":[{"type":"image"}])")), "system[0].type");
  EXPECT_THAT(with(R"("stop":["x"])")->unknown, ElementsAre("stop"));
  EXPECT_THAT(conversation_of(R"({"role":"user","content":"x","name":"bob"})")->unknown,
              ElementsAre("messages[0].name"));
  EXPECT_THAT(conversation_of(R"({"role":"user","content":[{"type":"text","text":"x","tone":1}]})")->unknown,
              ElementsAre("messages[0].content[0].tone"));
}

} // namespace
} // namespace godwit::protocols::anthropic
