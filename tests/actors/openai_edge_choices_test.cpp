#include "actors/support/openai_edge_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <set>

namespace godwit::test {

using ::testing::HasSubstr;
namespace json = boost::json;

namespace {

class OpenaiEdgeChoices : public openai_edge_fixture {
protected:
  json::value answer_to(const std::string& body) {
    const auto exchange = complete(body);
    EXPECT_EQ(exchange->whole.status, 200) << exchange->whole.body;
    return json::parse(exchange->whole.body);
  }
  static std::string text_of(const json::value& answer, std::size_t index) {
    const auto& choice = answer.at("choices").at(index);
    EXPECT_EQ(choice.at("index").to_number<std::size_t>(), index);
    return json::value_to<std::string>(choice.at("text"));
  }
};

} // namespace

TEST_F(OpenaiEdgeChoices, EachOfSeveralAnswersIsThatOfItsOwnSeedAndThePromptCountsOnce) {
  const std::string base = R"({"prompt":"A hacker is a person who","max_tokens":12,"temperature":1,"seed":)";
  const auto three = answer_to(base + R"(7,"n":3})");
  std::set<std::string> texts;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto alone = answer_to(base + std::to_string(7 + i) + "}");
    EXPECT_EQ(text_of(three, i), text_of(alone, 0));
    EXPECT_EQ(three.at("usage").at("prompt_tokens"), alone.at("usage").at("prompt_tokens"));
    texts.insert(text_of(three, i));
  }
  EXPECT_EQ(texts.size(), 3U);
  EXPECT_EQ(three.at("usage").at("completion_tokens").to_number<int>(), 36);
  EXPECT_EQ(three.at("choices").as_array().size(), 3U);
}

TEST_F(OpenaiEdgeChoices, SamplesOfOnePromptLieOnOneInstanceAndShareItsBlocks) {
  std::string prompt = "1";
  for (int i = 1; i < 320; ++i) prompt += ",1"; // 20 blocks
  const auto exchange =
      begin("POST", "/v1/completions", R"({"prompt":[)" + prompt + R"(],"n":4,"max_tokens":150,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] {
    std::set<std::string> seen;
    for (const auto& event : events(*exchange))
      if (event != "[DONE]") seen.insert(json::serialize(json::parse(event).at("choices").at(0).at("index")));
    return seen.size() == 4;
  }));
  std::size_t with_requests = 0;
  for (const auto& instance : cluster->status(true).instances) with_requests += instance.requests.empty() ? 0 : 1;
  EXPECT_EQ(with_requests, 1U);
  EXPECT_LT(cluster->blocks_used(), 20U + 4 * 12U); // apart, they would take four times the 20
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() == 0; }));
}

TEST_F(OpenaiEdgeChoices, SamplesOutliveTheInstanceTheyShared) {
  const std::string body = R"({"prompt":"A hacker is","max_tokens":100,"seed":11,"n":3})";
  const auto calm = answer_to(body);
  const auto exchange = begin("POST", "/v1/completions", body);
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() > 6; }));
  cluster->cluster->kill(protocols::instance_id{0});
  cluster->cluster->kill(protocols::instance_id{1});
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  const auto disturbed = json::parse(exchange->whole.body);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(text_of(disturbed, i), text_of(calm, i));
  for (const char* figure : {"prompt_tokens", "completion_tokens", "total_tokens"})
    EXPECT_EQ(disturbed.at("usage").at(figure), calm.at("usage").at(figure)) << figure;
}

TEST_F(OpenaiEdgeChoices, AnswersOverTheBoundOrThatContradictEachOtherAreRefused) {
  const auto refused = [&](const std::string& fields, const std::string& param) {
    const auto answer = complete(R"({"prompt":["a","b"],"max_tokens":2,)" + fields + "}");
    EXPECT_EQ(answer->whole.status, 400) << fields;
    EXPECT_THAT(answer->whole.body, HasSubstr("\"param\":\"" + param + "\"")) << fields;
  };
  refused(R"("n":0)", "n");
  refused(R"("n":129)", "n");
  refused(R"("n":65)", "n"); // of two prompts
  refused(R"("n":3,"best_of":2)", "best_of");
  refused(R"("best_of":2,"stream":true)", "best_of");
  refused(R"("prompt_logprobs":2,"stream":true)", "prompt_logprobs");
  refused(R"("logit_bias":{"a":1})", "logit_bias");
  refused(R"("logit_bias":{"1":101})", "logit_bias.1");
  refused(R"("timeout":-1)", "timeout");
  refused(R"("stream":true,"stream_options":{"heartbeat_interval":0})", "stream_options.heartbeat_interval");
}

// 512 tokens of context: what is told is counted by the room that there is.
TEST_F(OpenaiEdgeChoices, LogProbabilitiesOfAnswersWithoutALimitAreCountedByTheContext) {
  const auto few = call("POST", "/v1/chat/completions",
                        R"({"messages":[{"role":"user","content":"x"}],"n":4,"logprobs":true,"top_logprobs":20})");
  EXPECT_EQ(few->whole.status, 200) << few->whole.body;
}

TEST_F(OpenaiEdgeChoices, LogProbabilitiesOfALongContextStayWithinTheirBound) {
  restart({.blocks = 1024, .context = 12'000}, 12'000, 100'000);
  const auto told = call("POST", "/v1/chat/completions",
                         R"({"messages":[{"role":"user","content":"x"}],"ignore_eos":true,"logprobs":true,)"
                         R"("top_logprobs":20})");
  ASSERT_EQ(told->whole.status, 200) << told->whole.body;
  const auto drawn = json::parse(told->whole.body).at("usage").at("completion_tokens").to_number<int>();
  EXPECT_EQ(drawn, 100'000 / 21);
}

TEST_F(OpenaiEdgeChoices, OfTheAnswersDrawnTheWantedNumberIsGiven) {
  const auto answer = answer_to(R"({"prompt":["a","b"],"max_tokens":4,"n":2,"best_of":5})");
  EXPECT_EQ(answer.at("choices").as_array().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) (void)text_of(answer, i);
  EXPECT_EQ(answer.at("usage").at("completion_tokens").to_number<int>(), 40);
}

TEST_F(OpenaiEdgeChoices, ARequestWhoseTimeIsOverGetsA504AndItsBlocksAreFree) {
  const auto late = complete(R"({"prompt":"A hacker is","max_tokens":400,"timeout":0.05})");
  EXPECT_EQ(late->whole.status, 504);
  EXPECT_THAT(late->whole.body, HasSubstr("50 ms"));
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() == 0; }));
  const auto streamed = complete(R"({"prompt":"A hacker is","max_tokens":400,"timeout":0.05,"stream":true})");
  const auto all = events(*streamed);
  EXPECT_THAT(all[all.size() - 2], HasSubstr("\"code\":\"timeout\""));
  EXPECT_EQ(complete(R"({"prompt":"A hacker is","max_tokens":4,"timeout":1000})")->whole.status, 200);
  EXPECT_EQ(cluster->status().requests_open, 0U);
}

TEST_F(OpenaiEdgeChoices, AStreamThatAsksForItBeatsFromItsAdmissionOn) {
  const auto exchange =
      begin("POST", "/v1/completions",
            R"({"prompt":"x","max_tokens":40,"stream":true,"stream_options":{"heartbeat_interval":3}})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->streaming; }));
  EXPECT_TRUE(exchange->body.empty());
  EXPECT_EQ(exchange->beats_every, std::chrono::seconds(3));
  EXPECT_EQ(exchange->beat.front(), ':');
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
}

TEST_F(OpenaiEdgeChoices, AnEchoWithoutATokenIsThePromptAlone) {
  const auto answer = answer_to(R"({"prompt":"A hacker is","max_tokens":0,"echo":true,"logprobs":0})");
  EXPECT_EQ(text_of(answer, 0), "A hacker is");
  EXPECT_EQ(answer.at("usage").at("completion_tokens").to_number<int>(), 0);
  const auto& logprobs = answer.at("choices").at(0).at("logprobs");
  const auto prompt_tokens = answer.at("usage").at("prompt_tokens").to_number<std::size_t>();
  EXPECT_EQ(logprobs.at("tokens").as_array().size(), prompt_tokens);
  EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
  EXPECT_EQ(complete(R"({"prompt":"x","max_tokens":0})")->whole.status, 400);
}

// Nothing stands before it, so that nothing can be told of it.
TEST_F(OpenaiEdgeChoices, TheLogProbabilityOfAPromptsOnlyTokenIsNull) {
  const std::vector<protocols::token_id> prompt{300};
  const auto text = tokens->decode(prompt, true);
  for (const std::size_t drawn : {0U, 1U}) {
    SCOPED_TRACE("max_tokens " + std::to_string(drawn));
    const auto length = R"(,"ignore_eos":true,"max_tokens":)" + std::to_string(drawn);
    const auto answer = answer_to(R"({"prompt":[300],"echo":true,"logprobs":2,"n":2)" + length + "}");
    EXPECT_EQ(answer.at("usage").at("prompt_tokens").to_number<std::size_t>(), 1U);
    EXPECT_EQ(answer.at("usage").at("completion_tokens").to_number<std::size_t>(), 2 * drawn);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(text_of(answer, i).starts_with(text));
      const auto& told = answer.at("choices").at(i).at("logprobs");
      for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        ASSERT_EQ(told.at(list).as_array().size(), 1 + drawn) << list;
      EXPECT_EQ(told.at("tokens").at(0).as_string(), text);
      EXPECT_TRUE(told.at("token_logprobs").at(0).is_null());
      EXPECT_TRUE(told.at("top_logprobs").at(0).is_null());
      if (drawn == 0) {
        EXPECT_EQ(text_of(answer, i), text);
        continue;
      }
      EXPECT_TRUE(told.at("token_logprobs").at(1).is_number());
      EXPECT_TRUE(told.at("top_logprobs").at(1).is_object());
    }
    const auto as_vllm = answer_to(R"({"prompt":[300],"echo":true,"prompt_logprobs":2)" + length + "}");
    EXPECT_EQ(json::serialize(as_vllm.at("choices").at(0).at("prompt_logprobs")), "[null]");
    const auto streamed = complete(R"({"prompt":[300],"echo":true,"logprobs":2,"stream":true)" + length + "}");
    const auto first = json::parse(events(*streamed).at(0)).at("choices").at(0);
    EXPECT_TRUE(json::value_to<std::string>(first.at("text")).starts_with(text));
    EXPECT_TRUE(first.at("logprobs").at("token_logprobs").at(0).is_null());
    EXPECT_EQ(events(*streamed).back(), "[DONE]");
  }
  EXPECT_EQ(complete(R"({"prompt":[300],"max_tokens":0,"prompt_logprobs":2})")->whole.status, 400) << "without echo";
}

TEST_F(OpenaiEdgeChoices, TextsAndConversationsAreToldInTokensAndBack) {
  const auto told =
      json::parse(call("POST", "/tokenize", R"({"prompt":"A hacker is 漢字","return_token_strs":true})")->whole.body);
  const auto& ids = told.at("tokens").as_array();
  EXPECT_EQ(told.at("count").to_number<std::size_t>(), ids.size());
  EXPECT_EQ(told.at("max_model_len").to_number<int>(), 512);
  EXPECT_EQ(told.at("token_strs").as_array().size(), ids.size());
  const auto back = call("POST", "/detokenize", R"({"tokens":)" + json::serialize(ids) + "}");
  EXPECT_THAT(back->whole.body, HasSubstr("A hacker is 漢字"));
  const auto chat =
      json::parse(call("POST", "/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})")->whole.body);
  const auto asked = json::parse(
      call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1})")
          ->whole.body);
  EXPECT_EQ(chat.at("count").to_number<int>(), asked.at("usage").at("prompt_tokens").to_number<int>());
  EXPECT_EQ(call("POST", "/tokenize", "{}")->whole.status, 400);
  EXPECT_EQ(call("POST", "/detokenize", R"({"tokens":[99999999]})")->whole.status, 400);
  EXPECT_EQ(call("POST", "/detokenize", R"({"model":"other","tokens":[1]})")->whole.status, 404);
}

TEST_F(OpenaiEdgeChoices, AShortRequestMakesNoHugeAnswer) {
  std::string prompt = "1";
  for (int i = 1; i < 400; ++i) prompt += ",1";
  const std::string base = R"({"prompt":[)" + prompt + R"(],"max_tokens":1,"echo":true,)";
  const auto refused = complete(base + R"("n":128,"logprobs":20})");
  EXPECT_EQ(refused->whole.status, 400);
  EXPECT_THAT(refused->whole.body, HasSubstr("\"param\":\"logprobs\""));
  EXPECT_EQ(complete(base + R"("n":2,"logprobs":20})")->whole.status, 200);
}

TEST_F(OpenaiEdgeChoices, TheTokenizersFieldsAreUsedOrRefusedToo) {
  for (const char* body : {R"({"prompt":"x","foo":1})", R"({"messages":[{"role":"user","content":"x"}],"foo":1})"}) {
    const auto answer = call("POST", "/tokenize", body);
    EXPECT_EQ(answer->whole.status, 400) << body;
    EXPECT_THAT(answer->whole.body, HasSubstr("unknown_parameter"));
  }
  EXPECT_EQ(call("POST", "/detokenize", R"({"tokens":[1],"foo":1})")->whole.status, 400);
  EXPECT_EQ(call("POST", "/tokenize", R"({"messages":[{"role":"user","content":"x"}],"return_token_strs":true})")
                ->whole.status,
            200);
}

TEST_F(OpenaiEdgeChoices, EachDrawnTokenHasItsLogProbabilityAlsoTheLast) {
  // All tokens end an answer: one is drawn, and harnesses count on its entry behind those of the prompt.
  std::string all;
  for (std::uint32_t id = 0; id < 128; ++id) all += (id == 0 ? "" : ",") + std::to_string(id);
  const auto answer =
      answer_to(R"({"prompt":[9,8,7],"max_tokens":400,"echo":true,"logprobs":1,"temperature":1,"seed":3,)"
                R"("stop_token_ids":[)" +
                all + "]}");
  const auto& choice = answer.at("choices").at(0);
  ASSERT_EQ(choice.at("finish_reason"), "stop");
  const auto drawn = answer.at("usage").at("completion_tokens").to_number<std::size_t>();
  EXPECT_EQ(choice.at("logprobs").at("token_logprobs").as_array().size(), 3 + drawn);
}

TEST_F(OpenaiEdgeChoices, AStopTokenIsShownWhereStopsAre) {
  std::string all;
  for (std::uint32_t id = 0; id < 128; ++id) all += (id == 0 ? "" : ",") + std::to_string(300 + id);
  const std::string base = R"({"prompt":"A hacker is","max_tokens":400,"seed":7,"stop_token_ids":[)" + all + "]";
  const auto without = answer_to(base + "}");
  const auto with = answer_to(base + R"(,"include_stop_str_in_output":true})");
  const auto& end = without.at("choices").at(0).at("stop_reason");
  ASSERT_TRUE(end.is_int64());
  const std::vector<protocols::token_id> id{static_cast<protocols::token_id>(end.as_int64())};
  EXPECT_EQ(text_of(with, 0), text_of(without, 0) + tokens->decode(id, true));
}

TEST_F(OpenaiEdgeChoices, WhatIsIgnoredIsNamedWhereThatIsWanted) {
  const std::string fields = R"(,"max_tokens":2,"early_stopping":true,"no,such\nfield":1})";
  EXPECT_EQ(complete(R"({"prompt":"x")" + fields)->whole.status, 400);
  restart({}, 512, 0, true);
  const auto answer = complete(R"({"prompt":"x")" + fields);
  ASSERT_EQ(answer->whole.status, 200) << answer->whole.body;
  EXPECT_EQ(answer->whole.fields.find("X-Godwit-Ignored"), "early_stopping, no?such?field");
  EXPECT_EQ(
      call("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":2,"foo":1})")
          ->whole.fields.find("X-Godwit-Ignored"),
      "foo");
  EXPECT_EQ(complete(R"({"prompt":"x","max_tokens":2,")" + std::string(600, 'a') + R"(":1,"foo":1})")
                ->whole.fields.find("X-Godwit-Ignored"),
            std::string(64, 'a') + ", foo");
  EXPECT_FALSE(complete(R"({"prompt":"x","max_tokens":2})")->whole.fields.contains("X-Godwit-Ignored"));
  EXPECT_EQ(complete(R"({"prompt":"x","temperature":-1})")->whole.status, 400);
}

TEST_F(OpenaiEdgeChoices, AModelsNameIsFoundAsClientsEncodeIt) {
  EXPECT_EQ(call("GET", "/v1/models/sim%2Dmodel")->whole.status, 200);
  EXPECT_EQ(call("GET", "/v1/models/sim%2model")->whole.status, 404);
}

TEST_F(OpenaiEdgeChoices, WhatOthersServeIsRefusedByName) {
  const auto answer = call("POST", "/v1/embeddings", "{}");
  EXPECT_EQ(answer->whole.status, 404);
  EXPECT_THAT(answer->whole.body, HasSubstr("unsupported_endpoint"));
  EXPECT_EQ(call("POST", "/v1/audio/speech", "{}")->whole.status, 404);
  EXPECT_EQ(call("GET", "/v1/files")->whole.status, 404);
  EXPECT_EQ(call("GET", "/ping")->whole.status, 200);
  EXPECT_EQ(call("POST", "/ping")->whole.status, 200);
  EXPECT_EQ(call("DELETE", "/ping")->whole.fields.find("Allow"), "GET, HEAD, POST");
}

} // namespace godwit::test
