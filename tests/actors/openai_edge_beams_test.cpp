#include "actors/support/openai_edge_fixture.hpp"
#include "actors/support/recording_sink.hpp"
#include "beam_searcher.hpp"
#include "protocols/decoding/plain_beam_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

using protocols::testing_support::plain_beam_search;
using ::testing::HasSubstr;
namespace json = boost::json;

namespace {

class OpenaiEdgeBeams : public openai_edge_fixture {
protected:
  /// The most probable next tokens behind these, asked of the cluster as anybody would.
  std::vector<protocols::token_logprob> next(const std::vector<protocols::token_id>& behind, std::size_t count) {
    auto one = std::make_shared<actors::submission>();
    auto sink = std::make_shared<recording_sink>();
    one->request.prompt = behind;
    one->request.stop.max_tokens = 1;
    one->request.stop.ignore_eos = true;
    one->request.sampling.temperature = 0;
    one->request.sampling.logprobs = static_cast<std::int32_t>(count);
    one->seeded = true;
    one->sink = sink;
    cluster->submit(std::move(one));
    EXPECT_TRUE(cluster->run_until_ended({sink}));
    return sink->sampled.at(0).top;
  }
  std::vector<plain_beam_search::found> plainly(const std::vector<protocols::token_id>& from, std::size_t width,
                                                std::size_t tokens_max, double penalty = 1,
                                                std::vector<protocols::token_id> ends = {}) {
    return plain_beam_search{[&](const auto& behind) {
                               auto all = from;
                               all.insert(all.end(), behind.begin(), behind.end());
                               return next(all, 2 * width);
                             },
                             width,
                             tokens_max,
                             0,
                             penalty,
                             std::move(ends)}
        .run();
  }
  static std::string list_of(const std::vector<protocols::token_id>& ids) {
    std::string out;
    for (const auto id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
    return "[" + out + "]";
  }
  json::value answer_to(const std::string& body) {
    const auto exchange = complete(body);
    EXPECT_EQ(exchange->whole.status, 200) << exchange->whole.body;
    return json::parse(exchange->whole.body);
  }
  void expect(const json::value& choice, std::size_t index, const plain_beam_search::found& found) {
    EXPECT_EQ(choice.at("index").to_number<std::size_t>(), index);
    auto shown = found.answer;
    if (found.ended) shown.pop_back();
    EXPECT_EQ(json::value_to<std::string>(choice.at("text")), tokens->decode(shown, true));
    EXPECT_EQ(choice.at("finish_reason").as_string(), found.ended ? "stop" : "length");
    double sum = 0;
    const auto& each = choice.at("logprobs").at("token_logprobs").as_array();
    EXPECT_EQ(each.size(), found.answer.size());
    for (const auto& logprob : each) sum += logprob.to_number<double>();
    EXPECT_NEAR(sum, found.logprob, 1e-3);
  }
  const std::vector<protocols::token_id> prompt{300, 301, 302, 303, 304};
};

} // namespace

TEST_F(OpenaiEdgeBeams, AreWhatAPlainSearchOfTheSameModelFinds) {
  for (const auto& [width, penalty] : std::vector<std::pair<std::size_t, double>>{{1, 1}, {2, 1}, {4, 0}, {3, 2}}) {
    SCOPED_TRACE(std::to_string(width) + " beams");
    const auto expected = plainly(prompt, width, 7, penalty);
    const auto answer = answer_to(R"({"use_beam_search":true,"max_tokens":7,"logprobs":2,"prompt":)" + list_of(prompt) +
                                  R"(,"temperature":0.7,"seed":5,"n":)" + std::to_string(width) +
                                  R"(,"length_penalty":)" + std::to_string(penalty) + "}");
    const auto& choices = answer.at("choices").as_array();
    ASSERT_EQ(choices.size(), width);
    for (std::size_t i = 0; i < width; ++i) expect(choices[i], i, expected[i]);
    EXPECT_EQ(answer.at("usage").at("prompt_tokens").to_number<std::size_t>(), prompt.size());
    EXPECT_EQ(answer.at("usage").at("completion_tokens").to_number<std::size_t>(), width * 7);
    EXPECT_EQ(choices[0].at("logprobs").at("top_logprobs").as_array()[0].as_object().size(), 2U);
  }
  EXPECT_EQ(cluster->blocks_used(), 0U);
}

TEST_F(OpenaiEdgeBeams, EndWhereTheModelEndsThem) {
  // What the best beams come to at first, and a little later.
  std::vector<protocols::token_id> ends{plainly(prompt, 3, 1, 0)[0].answer[0]};
  for (const auto& found : plainly(prompt, 3, 3, 0, ends))
    if (!found.ended && ends.size() == 1) ends.push_back(found.answer.back());
  const auto expected = plainly(prompt, 3, 5, 0, ends);
  ASSERT_TRUE(expected[0].ended || expected[1].ended || expected[2].ended);
  const auto answer =
      answer_to(R"({"use_beam_search":true,"n":3,"max_tokens":5,"logprobs":0,"length_penalty":0,"stop_token_ids":)" +
                list_of(ends) + R"(,"prompt":)" + list_of(prompt) + "}");
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& choice = answer.at("choices").at(i);
    expect(choice, i, expected[i]);
    if (expected[i].ended) {
      EXPECT_EQ(choice.at("stop_reason").to_number<int>(), expected[i].answer.back());
    }
  }
}

TEST_F(OpenaiEdgeBeams, EndAtTheModelsOwnEndUnlessToldToGoOn) {
  eos = {plainly(prompt, 2, 1, 0)[0].answer[0]};
  const auto expected = plainly(prompt, 2, 5, 0, eos), on = plainly(prompt, 2, 5, 0);
  ASSERT_TRUE(expected[0].ended || expected[1].ended);
  restart({});
  const std::string body =
      R"({"use_beam_search":true,"n":2,"max_tokens":5,"logprobs":0,"length_penalty":0,"prompt":)" + list_of(prompt);
  const auto ending = answer_to(body + "}"), going_on = answer_to(body + R"(,"ignore_eos":true})");
  for (std::size_t i = 0; i < 2; ++i) {
    expect(ending.at("choices").at(i), i, expected[i]);
    expect(going_on.at("choices").at(i), i, on[i]);
  }
  const auto late = answer_to(body + R"(,"min_tokens":3})");
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_GE(late.at("choices").at(i).at("logprobs").at("tokens").as_array().size(), 3U);
}

TEST_F(OpenaiEdgeBeams, SeveralPromptsAndChatsHaveTheirOwn) {
  const std::vector<protocols::token_id> other{400, 401};
  const auto first = plainly(prompt, 2, 4), second = plainly(other, 2, 4);
  const auto answer = answer_to(R"({"use_beam_search":true,"n":2,"max_tokens":4,"logprobs":0,"prompt":[)" +
                                list_of(prompt) + "," + list_of(other) + "]}");
  ASSERT_EQ(answer.at("choices").as_array().size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) {
    expect(answer.at("choices").at(i), i, first[i]);
    expect(answer.at("choices").at(2 + i), 2 + i, second[i]);
  }
  const auto chatted =
      call("POST", "/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"x"}],"use_beam_search":true,"n":2,"max_tokens":4})");
  ASSERT_EQ(chatted->whole.status, 200) << chatted->whole.body;
  EXPECT_EQ(json::parse(chatted->whole.body).at("choices").as_array().size(), 2U);
}

TEST_F(OpenaiEdgeBeams, AClientThatLeavesLeavesNothingBehind) {
  const auto exchange = begin("POST", "/v1/completions",
                              R"({"use_beam_search":true,"n":4,"max_tokens":400,"prompt":)" + list_of(prompt) + "}");
  const auto busy = [&] { return cluster->blocks_used() > 0; };
  ASSERT_TRUE(cluster->run_until(busy));
  cluster->run_for(std::chrono::milliseconds(100));
  exchange->hang_up();
  cluster->run_for(std::chrono::seconds(1));
  EXPECT_FALSE(exchange->complete);
  EXPECT_EQ(cluster->blocks_used(), 0U);
  const auto before = cluster->status();
  cluster->run_for(std::chrono::seconds(1));
  const auto after = cluster->status();
  for (std::size_t i = 0; i < before.instances.size(); ++i)
    EXPECT_EQ(before.instances[i].load.generated_tokens_total, after.instances[i].load.generated_tokens_total);
}

TEST_F(OpenaiEdgeBeams, WhatCannotBeHadWithThemIsNamed) {
  const auto refused = [&](const std::string& path, const std::string& start, const std::string& field,
                           const std::string& name) {
    const auto answer = call("POST", path, start + R"(,"use_beam_search":true,)" + field + "}");
    EXPECT_EQ(answer->whole.status, 400) << field;
    const auto error = json::parse(answer->whole.body);
    EXPECT_EQ(error.at("error").at("param").as_string(), name) << answer->whole.body;
  };
  const std::string text = R"({"prompt":"x","n":2)", chat = R"({"messages":[{"role":"user","content":"x"}])";
  for (const auto& [field, name] : std::vector<std::pair<std::string, std::string>>{
           {R"("stream":true)", "stream"},
           {R"("stop":"a")", "stop"},
           {R"("logit_bias":{"5":1})", "logit_bias"},
           {R"("presence_penalty":1)", "presence_penalty"},
           {R"("frequency_penalty":1)", "frequency_penalty"},
           {R"("repetition_penalty":1.5)", "repetition_penalty"},
           {R"("prompt_logprobs":1)", "prompt_logprobs"},
           {R"("timeout":5)", "timeout"},
           {R"("best_of":3)", "best_of"},
           {R"("max_tokens":8193)", "max_tokens"},
           {R"("echo":true,"logprobs":1)", "echo"},
           {R"("echo":true,"max_tokens":0)", "max_tokens"},
           {R"("guided_choice":["a","b"])", "guided_choice"},
           {R"("response_format":{"type":"json_object"})", "response_format"},
           {R"("length_penalty":"long")", "length_penalty"},
           {R"("early_stopping":true)", "early_stopping"}})
    refused("/v1/completions", text, field, name);
  refused("/v1/completions", R"({"prompt":"x")", R"("n":17)", "n");
  refused("/v1/chat/completions", chat, R"("prediction":{"type":"content","content":"y"})", "prediction");
  const auto without = complete(R"({"prompt":"x","length_penalty":2})");
  EXPECT_EQ(without->whole.status, 400);
  EXPECT_THAT(without->whole.body, HasSubstr("unsupported_parameter"));
  EXPECT_EQ(complete(R"({"prompt":"x","max_tokens":2,"length_penalty":1,"use_beam_search":false})")->whole.status, 200);
}

TEST_F(OpenaiEdgeBeams, TheirTokensAreBounded) {
  eos.resize(tokens->size());
  std::iota(eos.begin(), eos.end(), 0);
  restart({}, 100'000);
  const auto status = [&](const std::string& more) {
    return complete(R"({"prompt":"x","use_beam_search":true,)" + more + "}")->whole.status;
  };
  EXPECT_EQ(status(R"("n":2,"max_tokens":8193)"), 400);
  EXPECT_EQ(status(R"("n":2,"max_tokens":8192)"), 200) << "it ends at once";
}

TEST_F(OpenaiEdgeBeams, WithoutAFrontEndTheSearchFailsOnce) {
  const auto gate = cluster->cluster->gate();
  gate->close();
  std::vector<std::shared_ptr<recording_sink>> sinks{std::make_shared<recording_sink>(),
                                                     std::make_shared<recording_sink>()};
  auto first = std::make_shared<actors::submission>();
  first->request.prompt = prompt;
  protocols::beam_settings settings;
  settings.width = 2;
  const auto search = std::make_shared<actors::beam_searcher>(
      gate, std::move(first), settings, std::vector<std::shared_ptr<actors::answer_sink>>{sinks[0], sinks[1]});
  search->start();
  EXPECT_EQ(sinks[0]->endings + sinks[1]->endings, 1);
  ASSERT_TRUE(sinks[0]->failed);
  EXPECT_EQ(sinks[0]->failed->kind, actors::failure_kind::unavailable);
  search->stop();
  EXPECT_EQ(sinks[0]->endings, 1);
}

TEST_F(OpenaiEdgeBeams, NothingIsLeftOfASearchThatIsOver) {
  const auto sink = std::make_shared<recording_sink>();
  auto first = std::make_shared<actors::submission>();
  first->request.prompt = prompt;
  protocols::beam_settings settings;
  settings.tokens_max = 3;
  auto search = std::make_shared<actors::beam_searcher>(cluster->cluster->gate(), std::move(first), settings,
                                                        std::vector<std::shared_ptr<actors::answer_sink>>{sink});
  const std::weak_ptr<actors::beam_searcher> there = search;
  std::exchange(search, nullptr)->start();
  EXPECT_FALSE(there.expired()) << "its steps keep it";
  ASSERT_TRUE(cluster->run_until_ended({sink}));
  EXPECT_EQ(sink->tokens.size(), 3U);
  EXPECT_EQ(sink->usage.prompt_tokens, prompt.size());
  cluster->run_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(there.expired());
}

TEST_F(OpenaiEdgeBeams, WithNobodyThereTheAnswerIsOneError) {
  cluster->cluster->gate()->close();
  const auto answer = complete(R"({"prompt":"x","use_beam_search":true,"n":3})");
  EXPECT_EQ(answer->whole.status, 503) << answer->whole.body;
}

} // namespace godwit::test
