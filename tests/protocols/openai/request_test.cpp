#include <godwit/protocols/openai/request.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace godwit::protocols::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

request_limits limits() {
  request_limits bounds;
  bounds.vocabulary = 1000;
  bounds.stops_max = 2;
  return bounds;
}

expected<completion_request, api_error> completion(const std::string& fields) {
  return parse_completion(R"({"prompt":"p")" + (fields.empty() ? "" : "," + fields) + "}", {}, limits());
}

expected<chat_request, api_error> chat(const std::string& fields) {
  return parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + (fields.empty() ? "" : "," + fields) + "}", {},
                    limits());
}

TEST(CompletionRequest, TakesTheDefaultsWhereTheClientSaysNothing) {
  request_defaults defaults;
  defaults.temperature = 0.6F;
  defaults.top_p = 0.9F;
  defaults.top_k = 20;
  const auto request = parse_completion(R"({"prompt":"once"})", defaults, limits()).value();
  EXPECT_EQ(request.prompts.at(0).text, "once");
  EXPECT_EQ(request.sampling.temperature, 0.6F);
  EXPECT_EQ(request.sampling.top_p, 0.9F);
  EXPECT_EQ(request.sampling.top_k, 20);
  EXPECT_EQ(request.sampling.logprobs, -1);
  EXPECT_EQ(request.stop.max_tokens, 16U);
  EXPECT_TRUE(request.has_max_tokens);
  EXPECT_FALSE(request.seed);
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.add_special_tokens);
}

TEST(CompletionRequest, ReadsEverythingSupported) {
  const auto parsed = completion(R"(
    "model":"m","max_tokens":7,"temperature":0.25,"top_p":0.5,"top_k":40,"min_p":0.125,"seed":-2,"stop":["a","b"],
    "stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"presence_penalty":1,
    "frequency_penalty":-2.0,"repetition_penalty":1.5,"min_tokens":3,"ignore_eos":true,"stop_token_ids":[4,5],
    "skip_special_tokens":false,"include_stop_str_in_output":true,"priority":-4,"request_id":"run-1.a","user":"u",
    "cache_salt":"s","logprobs":3,"add_special_tokens":false,"metadata":{"k":"v"},"n":1,"best_of":1,"suffix":null)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& r = *parsed;
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.stop.max_tokens, 7U);
  EXPECT_EQ(r.sampling.temperature, 0.25F);
  EXPECT_EQ(r.sampling.top_p, 0.5F);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.min_p, 0.125F);
  EXPECT_EQ(r.seed, ~std::uint64_t{1});
  EXPECT_THAT(r.stop_strings, ElementsAre("a", "b"));
  EXPECT_TRUE(r.stream && r.include_usage && r.continuous_usage);
  EXPECT_EQ(r.sampling.presence_penalty, 1.0F);
  EXPECT_EQ(r.sampling.frequency_penalty, -2.0F);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(r.stop.min_tokens, 3U);
  EXPECT_TRUE(r.stop.ignore_eos);
  EXPECT_THAT(r.stop.stop_token_ids, ElementsAre(4, 5));
  EXPECT_FALSE(r.skip_special_tokens);
  EXPECT_TRUE(r.include_stop_str_in_output);
  EXPECT_EQ(r.priority, -4);
  EXPECT_EQ(r.request_id, "run-1.a");
  EXPECT_EQ(r.user, "u");
  EXPECT_EQ(r.cache_salt, "s");
  EXPECT_EQ(r.sampling.logprobs, 3);
  EXPECT_FALSE(r.add_special_tokens);
  EXPECT_THAT(r.unknown, ElementsAre());
}

TEST(CompletionRequest, PromptsComeInFourKinds) {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion("{\"prompt\":" + prompt + "}", {}, limits()).value().prompts;
  };
  using list = std::vector<prompt_input>;
  EXPECT_EQ(prompts(R"("")"), (list{{"", {}}}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (list{{"a", {}}, {"b", {}}}));
  EXPECT_EQ(prompts("[1,2.0]"), (list{{"", {1, 2}}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"), (list{{"", {1}}, {"", {2, 3}}}));
}

TEST(ChatRequest, ReadsMessagesOfAllRolesAndTextParts) {
  const auto parsed = parse_chat(R"({"messages":[
      {"role":"system","content":"s"},{"role":"developer","content":"d"},
      {"role":"user","name":"bob","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
      {"role":"assistant","content":null,"refusal":null,"tool_calls":[]},{"role":"tool","tool_call_id":"x","content":"t"}],
      "max_completion_tokens":9,"max_tokens":5,"logprobs":true,"top_logprobs":2,"response_format":{"type":"text"},
      "tools":[],"tool_choice":"none","parallel_tool_calls":true})",
                                 {}, limits());
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->messages.size(), 5U);
  EXPECT_EQ(parsed->messages[2].content, "one\ntwo");
  EXPECT_EQ(parsed->messages[2].name, "bob");
  EXPECT_EQ(parsed->messages[3].content, "");
  EXPECT_EQ(parsed->messages[4].who, role::tool);
  EXPECT_EQ(parsed->stop.max_tokens, 9U) << "the newer name counts";
  EXPECT_EQ(parsed->sampling.logprobs, 2);
  EXPECT_FALSE(parsed->add_special_tokens);
}

TEST(ChatRequest, WithoutMaxTokensTheContextIsTheBound) { EXPECT_FALSE(chat("")->has_max_tokens); }

TEST(ApiRequest, WhatIsTooLongIsCalledAsTheClientCalledIt) {
  const auto newer = chat(R"("max_completion_tokens":3,"min_tokens":5)");
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().message, "'min_tokens' (5) must not exceed 'max_completion_tokens' (3).");
  EXPECT_EQ(chat(R"("max_completion_tokens":3)")->length_field, "max_completion_tokens");
  EXPECT_EQ(chat(R"("max_tokens":3)")->length_field, "max_tokens");
  EXPECT_TRUE(chat(R"("max_tokens":3)")->length_given);
  EXPECT_FALSE(completion("")->length_given);
}

TEST(ApiRequest, NumbersThatNoFloatHoldsAreToldTheirBounds) {
  EXPECT_EQ(completion(R"("repetition_penalty":1e308)").error().message,
            "'repetition_penalty' must be greater than 0 and at most 3.402823e+38, not 1e+308.");
  const auto tiny = completion(R"("top_p":1e-300)");
  ASSERT_TRUE(tiny) << "as small as a float can be";
  EXPECT_GT(tiny->sampling.top_p, 0.0F);
  EXPECT_LT(tiny->sampling.top_p, 1e-30F);
}

TEST(ApiRequest, WhatBelongsToBeamsSaysSo) {
  EXPECT_EQ(completion(R"("length_penalty":2)").error().message, "'length_penalty' needs 'use_beam_search': true.");
  EXPECT_TRUE(completion(R"("length_penalty":1)"));
  EXPECT_TRUE(completion(R"("use_beam_search":true,"echo":true)"));
  EXPECT_THAT(completion(R"("use_beam_search":true,"echo":true,"logprobs":0)").error().message,
              ::testing::HasSubstr("'echo' with 'logprobs' and 'use_beam_search'"));
  EXPECT_EQ(completion(R"("use_beam_search":true,"echo":true,"max_tokens":0)").error().message,
            "With 'use_beam_search' 'max_tokens' is at least 1.");
}

TEST(ChatRequest, LogprobsWithoutTopGiveTheChosenTokensOnly) {
  EXPECT_EQ(chat(R"("logprobs":true)")->sampling.logprobs, 0);
  EXPECT_EQ(chat(R"("logprobs":false)")->sampling.logprobs, -1);
}

TEST(ApiRequest, NullIsTheSameAsAbsent) {
  const auto parsed =
      completion(R"("temperature":null,"stop":null,"seed":null,"stream":null,"stream_options":null,"logprobs":null,
                            "tools":null,"logit_bias":null,"n":null,"user":null,"max_tokens":null,"no_such":null)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown, ElementsAre());
  // As a client has them that writes all fields of all roles.
  const auto messages =
      parse_chat(R"({"messages":[{"role":"user","content":"x","tool_calls":null,"tool_call_id":null,"name":null}]})",
                 {}, limits());
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_THAT(messages->unknown, ElementsAre());
}

TEST(ApiRequest, ASeedOfMinusOneIsNone) {
  EXPECT_FALSE(completion(R"("seed":-1)")->seed);
  EXPECT_EQ(completion(R"("seed":0)")->seed, 0U);
}

TEST(ApiRequest, WhatIsNotSupportedIsListedWhereThatIsWanted) {
  auto lists = limits();
  lists.lists_unsupported = true;
  const auto parsed =
      parse_completion(R"({"prompt":"p","suffix":"x","early_stopping":true,"bad_words":[],"foo":1})", {}, lists);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown, ::testing::UnorderedElementsAre("suffix", "early_stopping", "foo"));
  const auto chatted =
      parse_chat(R"({"messages":[{"role":"user","content":"x","audio":{}}],"modalities":["audio"]})", {}, lists);
  ASSERT_TRUE(chatted) << chatted.error().message;
  EXPECT_THAT(chatted->unknown, ::testing::UnorderedElementsAre("modalities", "messages[0].audio"));
  EXPECT_FALSE(parse_completion(R"({"prompt":"p","temperature":-1})", {}, lists)) << "what is supported must be right";
}

TEST(ChatRequest, NamesWhatPartsHaveBesides) {
  const auto parsed = parse_chat(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"annotations":[1]}],
          "stream":true,"stream_options":{"continuous_usage_stats":true}})",
      {}, limits());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown,
              ::testing::UnorderedElementsAre("messages[0].content[0].cache_control", "messages[0].annotations"));
  EXPECT_FALSE(parsed->continuous_usage) << "usage was not asked for";
  EXPECT_EQ(parse_chat(R"({"messages":[{"role":"user","content":"a"}],
                           "stream":true,"stream_options":{"continuous_usage_stats":1}})",
                       {}, limits())
                .error()
                .param,
            "stream_options.continuous_usage_stats");
  const auto answered = parse_chat(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","annotations":[{}],
      "content":[{"type":"refusal","refusal":"no"},{"type":"text","text":"but","annotations":[]}]}]})",
                                   {}, limits());
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_EQ(answered->messages[1].content, "no\nbut");
  EXPECT_THAT(answered->unknown, ElementsAre());
}

TEST(ChatRequest, TakesWhatOtherServersAnsweredAndHarnessesSend) {
  const auto parsed = parse_chat(R"({"messages":[{"role":"user","content":"hi","type":"text"},
      {"role":"assistant","content":"yes","reasoning":"because","provider":{"a":1},"tool_calls":[
          {"id":"c","type":"function","extra_content":{},"function":{"name":"get weather","arguments":"{\"city\":"}}]},
      {"role":"tool","tool_call_id":"c","content":"no such tool"}]})",
                                 {}, limits());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->unknown, ElementsAre());
  EXPECT_EQ(parsed->messages[1].reasoning, "because");
  EXPECT_EQ(parsed->messages[1].tool_calls[0], (chat_tool_call{"c", "get weather", "{\"city\":"}));
  EXPECT_EQ(parse_chat(R"({"messages":[{"role":"user","content":"hi","type":"image"}]})", {}, limits()).error().param,
            "messages[0].type");
}

TEST(ChatRequest, SaysWhetherSpecialTokensWereAskedFor) {
  EXPECT_FALSE(chat("")->says_special_tokens);
  EXPECT_TRUE(chat(R"("add_special_tokens":false)")->says_special_tokens);
  EXPECT_FALSE(chat(R"("add_special_tokens":false)")->add_special_tokens);
}

TEST(ChatRequest, AnEffortIsForTheTemplate) {
  EXPECT_EQ(chat(R"("reasoning_effort":"high")")->template_hints.size(), 1U);
  EXPECT_EQ(chat(R"("reasoning_effort":null)")->template_hints.size(), 0U);
  EXPECT_EQ(
      chat(R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})")->template_hints.size(),
      0U);
  EXPECT_EQ(chat(R"("reasoning_effort":"much")").error().param, "reasoning_effort");
}

TEST(ApiRequest, WhatNobodyKnowsIsIgnoredButNamed) {
  EXPECT_THAT(completion(R"("foo":1,"bar":{},"stream":true,"stream_options":{"baz":1})")->unknown,
              ::testing::UnorderedElementsAre("foo", "bar", "stream_options.baz"));
  EXPECT_THAT(parse_chat(R"({"messages":[{"role":"user","content":"x","mood":"good"}]})", {}, limits())->unknown,
              ElementsAre("messages[0].mood"));
}

struct fault {
  const char* body;
  const char* param;
  const char* message;
};
void PrintTo(const fault& f, std::ostream* out) { *out << f.body; }

class CompletionFault : public ::testing::TestWithParam<fault> {};
class ChatFault : public ::testing::TestWithParam<fault> {};

template <class Parsed> void expect_fault(const Parsed& parsed, const fault& f) {
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().status, 400);
  EXPECT_EQ(parsed.error().type, "invalid_request_error");
  EXPECT_EQ(parsed.error().param, f.param);
  EXPECT_THAT(parsed.error().message, HasSubstr(f.message));
}

TEST_P(CompletionFault, Is400WithTheParametersName) {
  expect_fault(parse_completion(GetParam().body, {}, limits()), GetParam());
}
TEST_P(ChatFault, Is400WithTheParametersName) { expect_fault(parse_chat(GetParam().body, {}, limits()), GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Body, CompletionFault,
    ::testing::Values(
        fault{"", "", "not valid JSON"}, fault{"{", "", "not valid JSON"}, fault{"{} {}", "", "not valid JSON"},
        fault{"[]", "", "must be a JSON object, not an array"}, fault{"nul", "", "not valid JSON"},
        fault{R"({"prompt":"a","prompt":"b"})", "", "'prompt' occurs twice"},
        fault{R"({"prompt":"a","x":{"k":1,"\u006b":2}})", "", "'k' occurs twice"},
        fault{"{\"prompt\":\"\xff\"}", "", "The body is not UTF-8 (at byte 11)."},
        fault{"{\"prompt\":\"\xed\xa0\x80\"}", "", "The body is not UTF-8"},
        fault{R"({"prompt":"\ud800"})", "", "half of a surrogate pair"},
        fault{R"({"prompt":"\ud800\u0041"})", "", "half of a surrogate pair"},
        fault{R"({"prompt":"a\udc00"})", "", "half of a surrogate pair"},
        fault{R"({"prompt":"\ud83d\ude00",})", "", "not valid JSON"},
        fault{R"({"prompt":"\ud83d\ude00"x})", "", "not valid JSON"},
        fault{R"({"prompt":"\ud83d\ude00" "n":1})", "", "not valid JSON"},
        fault{R"({"prompt":"\ud83d\ude00)", "", "incomplete JSON"},
        fault{R"({"prompt":"\ud83d)", "", "incomplete JSON"}, fault{R"({"p":"C:\\ud800",})", "", "not valid JSON"},
        fault{"{\"a\",\"\xff\"}", "", "not valid JSON"},
        fault{R"({"prompt":"a","temperature":NaN})", "", "not valid JSON"},
        fault{
            R"({"prompt":"a","x":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]})",
            "", "nested deeper than 64"}));

INSTANTIATE_TEST_SUITE_P(
    Values, CompletionFault,
    ::testing::Values(
        fault{"{}", "prompt", "required"}, fault{R"({"prompt":null})", "prompt", "required"},
        fault{R"({"prompt":{}})", "prompt", "not an object"}, fault{R"({"prompt":[]})", "prompt", "empty"},
        fault{R"({"prompt":["a",1]})", "prompt[1]", "a string, not a number"},
        fault{R"({"prompt":[1,"a"]})", "prompt[1]", "a token id, not a string"},
        fault{R"({"prompt":[1,1000]})", "prompt[1]", "from 0 to 999"},
        fault{R"({"prompt":[[1],[]]})", "prompt[1]", "empty"}, fault{R"({"prompt":[1.5]})", "prompt[0]", "token id"},
        fault{R"({"prompt":"p","model":3})", "model", "a string, not a number"},
        fault{R"({"prompt":"p","temperature":2.5})", "temperature", "at most 2, not 2.5"},
        fault{R"({"prompt":"p","temperature":-0.1})", "temperature", "at least 0"},
        fault{R"({"prompt":"p","temperature":"1"})", "temperature", "a number, not a string"},
        fault{R"({"prompt":"p","temperature":true})", "temperature", "a number, not a boolean"},
        fault{R"({"prompt":"p","top_p":0})", "top_p", "greater than 0"},
        fault{R"({"prompt":"p","top_p":1.1})", "top_p", "at most 1"},
        fault{R"({"prompt":"p","top_k":-2})", "top_k", "from -1"},
        fault{R"({"prompt":"p","min_p":1.5})", "min_p", "at most 1"},
        fault{R"({"prompt":"p","presence_penalty":3})", "presence_penalty", "at most 2"},
        fault{R"({"prompt":"p","repetition_penalty":0})", "repetition_penalty", "greater than 0"},
        fault{R"({"prompt":"p","repetition_penalty":1e99})", "repetition_penalty", "greater than 0"},
        fault{R"({"prompt":"p","max_tokens":0})", "max_tokens", "from 1"},
        fault{R"({"prompt":"p","max_tokens":1.5})", "max_tokens", "an integer"},
        fault{R"({"prompt":"p","max_tokens":1e18})", "max_tokens", "an integer"},
        fault{R"({"prompt":"p","max_tokens":18446744073709551615})", "max_tokens", "an integer"},
        fault{R"({"prompt":"p","min_tokens":9,"max_tokens":8})", "min_tokens", "must not exceed"},
        fault{R"({"prompt":"p","min_tokens":17})", "min_tokens", "exceeds"},
        fault{R"({"prompt":"p","seed":"x"})", "seed", "an integer"},
        fault{R"({"prompt":"p","stop":""})", "stop", "empty"},
        fault{R"({"prompt":"p","stop":["a","b","c"]})", "stop", "up to 2"},
        fault{R"({"prompt":"p","stop":["a",2]})", "stop[1]", "a string"},
        fault{R"({"prompt":"p","stop":7})", "stop", "a string or an array"},
        fault{R"({"prompt":"p","stop_token_ids":[-1]})", "stop_token_ids[0]", "from 0 to 999"},
        fault{R"({"prompt":"p","stream":1})", "stream", "a boolean"},
        fault{R"({"prompt":"p","stream_options":{"include_usage":true}})", "stream_options", "only with 'stream'"},
        fault{R"({"prompt":"p","stream":true,"stream_options":{"include_usage":1}})", "stream_options.include_usage",
              "a boolean"},
        fault{R"({"prompt":"p","logprobs":21})", "logprobs", "from 0 to 20"},
        fault{R"({"prompt":"p","request_id":"a b"})", "request_id", "letters"},
        fault{R"({"prompt":"p","request_id":"a\nb"})", "request_id", "letters"},
        fault{R"({"prompt":"p","priority":3000000000})", "priority", "an integer"},
        fault{R"({"prompt":"p","execution_priority":1})", "execution_priority", "a string, not a number"},
        fault{R"({"prompt":"p","execution_priority":""})", "execution_priority", "one of 'normal'"},
        fault{R"({"prompt":"p","execution_priority":"high"})", "execution_priority", "one of 'normal'."},
        fault{R"({"prompt":"p","metadata":{"a":1}})", "metadata.a", "a string"}));

INSTANTIATE_TEST_SUITE_P(
    Messages, ChatFault,
    ::testing::Values(fault{"{}", "messages", "required"}, fault{R"({"messages":[]})", "messages", "empty"},
                      fault{R"({"messages":"hi"})", "messages", "an array, not a string"},
                      fault{R"({"messages":["hi"]})", "messages[0]", "an object, not a string"},
                      fault{R"({"messages":[{"content":"x"}]})", "messages[0].role", "required"},
                      fault{R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role", "must be"},
                      fault{R"({"messages":[{"role":"user"}]})", "messages[0].content", "required"},
                      fault{R"({"messages":[{"role":"user","content":3}]})", "messages[0].content", "not a number"},
                      fault{R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
                            "messages[0].content[0].type", "'text'"},
                      fault{R"({"messages":[{"role":"user","content":[{"type":"refusal","refusal":"x"}]}]})",
                            "messages[0].content[0].type", "'text'"},
                      fault{R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
                            "messages[0].content[0].text", "required"},
                      fault{R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content[0]", "an object"},
                      fault{R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":2})", "top_logprobs",
                            "needs"},
                      fault{R"({"messages":[{"role":"user","content":"x"}],"logprobs":3})", "logprobs", "a boolean"}));

TEST(ApiRequest, NamesTheExecutionPriorityOfBothEndpointsByItsLevel) {
  request_limits limits;
  limits.execution_levels = {"normal", "high", "urgent"};
  const auto level = [&](const std::string& field) {
    const auto text = parse_completion(R"({"prompt":"p")" + field + "}", {}, limits);
    const auto talk = parse_chat(R"({"messages":[{"role":"user","content":"x"}])" + field + "}", {}, limits);
    EXPECT_TRUE(text && talk && text->execution_level == talk->execution_level && talk->unknown.empty());
    return text ? text->execution_level : 255;
  };
  EXPECT_EQ(level(""), 0);
  EXPECT_EQ(level(R"(,"execution_priority":null)"), 0);
  EXPECT_EQ(level(R"(,"execution_priority":"normal")"), 0);
  EXPECT_EQ(level(R"(,"execution_priority":"urgent","priority":7)"), 2);
  const auto unknown = parse_completion(R"({"prompt":"p","execution_priority":"low"})", {}, limits);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().status, 400);
  EXPECT_EQ(unknown.error().param, "execution_priority");
  EXPECT_THAT(unknown.error().message, HasSubstr("'low'"));
  EXPECT_THAT(unknown.error().message, HasSubstr("'normal', 'high', 'urgent'"));
}

// What we know and cannot do is said, never silently left out of the answer.
TEST(ApiRequest, NamesWhatIsKnownButNotSupported) {
  for (const std::string field :
       {R"("guided_grammar":"x")", R"("early_stopping":true)", R"("truncate_prompt_tokens":5)", R"("bad_words":["x"])",
        R"("allowed_token_ids":[1])", R"("spaces_between_special_tokens":false)", R"("length_penalty":2)"}) {
    const auto name = field.substr(1, field.find('"', 1) - 1);
    const auto one = completion(field);
    ASSERT_FALSE(one) << field;
    EXPECT_EQ(one.error().param, name);
    EXPECT_EQ(one.error().code, "unsupported_parameter");
    EXPECT_EQ(chat(field).error().param, name);
  }
  for (const std::string field : {R"("suffix":"x")", R"("prompt_embeds":"x")"})
    EXPECT_EQ(completion(field).error().param, field.substr(1, field.find('"', 1) - 1));
  for (const std::string field : {R"("tool_choice":"required")", R"("functions":[{}])", R"("modalities":["audio"])",
                                  R"("audio":{})", R"("reasoning_effort":"much")", R"("include_reasoning":false)",
                                  R"("chat_template":"x")", R"("continue_final_message":true)", R"("echo":true)"})
    EXPECT_EQ(chat(field).error().param, field.substr(1, field.find('"', 1) - 1));
}

// What official clients send or their guides show, and what changes no answer.
TEST(ApiRequest, WhatOnlyItsServerWouldActOnIsTaken) {
  for (const std::string field : {R"("store":true)", R"("service_tier":"flex")", R"("service_tier":"priority")"}) {
    ASSERT_TRUE(completion(field)) << field;
    ASSERT_TRUE(chat(field)) << field;
    EXPECT_TRUE(chat(field)->unknown.empty());
  }
  for (const std::string field : {R"("store":1)", R"("service_tier":"slow")", R"("service_tier":1)"})
    EXPECT_EQ(chat(field).error().param, field.substr(1, field.find('"', 1) - 1));
}

TEST(ApiRequest, HowLongAnAnswerIsWantedIsAHint) {
  const auto brief = chat(R"("verbosity":"low")");
  ASSERT_TRUE(brief) << brief.error().message;
  ASSERT_EQ(brief->template_hints.size(), 1U);
  EXPECT_EQ(brief->template_hints[0].first, "verbosity");
  EXPECT_TRUE(chat(R"("verbosity":"low","chat_template_kwargs":{"verbosity":"high"})")->template_hints.empty());
  EXPECT_EQ(chat(R"("verbosity":"lowest")").error().param, "verbosity");
}

TEST(ApiRequest, ALargeBodyIs413) {
  auto bounds = limits();
  bounds.body_bytes_max = 100;
  const auto parsed = parse_completion("{\"prompt\":\"" + std::string(100, 'x') + "\"}", {}, bounds);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().status, 413);
  EXPECT_THAT(parsed.error().message, HasSubstr("100"));
}

TEST(ApiRequest, ListsAreBounded) {
  auto bounds = limits();
  bounds.prompts_max = 2;
  bounds.messages_max = 1;
  EXPECT_EQ(parse_completion(R"({"prompt":["a","b","c"]})", {}, bounds).error().param, "prompt");
  EXPECT_EQ(parse_chat(R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})", {}, bounds)
                .error()
                .param,
            "messages");
}

TEST(CompletionRequest, TheNewerNameOfALengthWinsOverNone) {
  const auto none = completion(R"("echo":true,"max_tokens":0)");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->only_prompt);
  const auto some = completion(R"("echo":true,"max_tokens":0,"max_completion_tokens":5)");
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_FALSE(some->only_prompt);
  EXPECT_EQ(some->stop.max_tokens, 5U);
}

TEST(ApiRequest, DamagedBodiesAreRefusedOrReadButNeverCrash) {
  const std::string whole = R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"h\u00e9\n"}]}],
    "temperature":0.5,"stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"seed":12})";
  ASSERT_TRUE(parse_chat(whole, {}, limits()));
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_FALSE(parse_chat(whole.substr(0, i), {}, limits()));
  std::mt19937 random{3};
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto damaged = whole;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const auto at = random() % damaged.size();
      switch (random() % 3) {
      case 0:
        damaged[at] = static_cast<char>(random());
        break;
      case 1:
        damaged.erase(at, 1 + random() % 8);
        break;
      default:
        damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 12));
      }
    }
    const auto parsed = parse_chat(damaged, {}, limits());
    if (parsed) continue;
    ++refused;
    ASSERT_EQ(parsed.error().status, 400);
    ASSERT_FALSE(parsed.error().message.empty());
  }
  EXPECT_GT(refused, 5000);
}

} // namespace
} // namespace godwit::protocols::openai
