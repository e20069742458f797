// POST /v1/responses: a chat in other words.
#include "actors/support/embedded_tokens.hpp"
#include "actors/support/openai_edge_fixture.hpp"

#include "openai_answer.hpp"

#include <godwit/protocols/openai/responses_writer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <string>
#include <vector>

namespace godwit::test {

using ::testing::HasSubstr;
using ::testing::Not;
namespace json = boost::json;

namespace {

class OpenaiEdgeResponses : public openai_edge_fixture {
protected:
  std::shared_ptr<fake_exchange> respond(const std::string& asked, const fields& more = {}) {
    return call("POST", "/v1/responses", R"({"input":"What is a hacker?",)" + asked + "}", more);
  }
};

json::value body_of(const fake_exchange& exchange) { return json::parse(exchange.whole.body); }

std::vector<json::value> events_of(const fake_exchange& exchange) {
  std::vector<json::value> out;
  transport::http::sse_parser parser;
  EXPECT_TRUE(parser.feed(exchange.body, [&](const auto& event) {
    out.push_back(json::parse(event.data));
    EXPECT_EQ(out.back().at("type"), json::string_view(event.type));
    EXPECT_EQ(out.back().at("sequence_number"), out.size() - 1);
  }));
  return out;
}

/// What the deltas of text say.
std::string text_of(const std::vector<json::value>& events) {
  std::string out;
  for (const auto& event : events)
    if (event.at("type") == "response.output_text.delta") out += json::value_to<std::string>(event.at("delta"));
  return out;
}
std::string text_of(const json::value& response) {
  return json::value_to<std::string>(response.at_pointer("/output/0/content/0/text"));
}

/// One answer, fed with text, of whatever model.
struct response_under_test {
  explicit response_under_test(bool stream) : tokens(embedded_tokens()) {
    if (!tokens) return;
    actors::openai_answer_options how;
    how.id = "resp_1";
    how.stream = stream;
    how.writer = std::make_unique<protocols::openai::responses_writer>(
        protocols::openai::responses_writer::form{{how.id, "m", 1}, "u", "", stream});
    answer = std::make_shared<actors::openai_answer>(exchange, std::move(how));
    actors::openai_choice_options text;
    text.tokens = tokens;
    text.tools = protocols::openai::tool_format::hermes;
    text.reasoning = protocols::openai::reasoning_splitter::start::answer;
    text.counts_reasoning = true;
    text.id = "resp_1";
    choice = std::make_shared<actors::openai_choice>(answer, std::move(text));
    answer->set_choices({choice});
  }
  /// In steps of so many tokens.
  void say(const std::string& text, std::size_t step) {
    std::vector<protocols::sampled_token> all;
    for (const auto id : tokens->encode(text, false)) all.emplace_back(id);
    for (std::size_t at = 0; at < all.size(); at += step)
      EXPECT_TRUE(choice->on_tokens({all.data() + at, std::min(step, all.size() - at)}, false));
    choice->on_finished(protocols::finish_reason::stop, {});
  }
  std::shared_ptr<const gpu::model::tokenizer> tokens;
  std::shared_ptr<fake_exchange> exchange = std::make_shared<fake_exchange>();
  std::shared_ptr<actors::openai_answer> answer;
  std::shared_ptr<actors::openai_choice> choice;
};

} // namespace

TEST_F(OpenaiEdgeResponses, SaysWhatAChatSays) {
  const auto response = respond(R"("instructions":"Be brief.","max_output_tokens":20,"seed":7)");
  ASSERT_EQ(response->whole.status, 200) << response->whole.body;
  const auto chat = call("POST", "/v1/chat/completions", R"({"messages":[{"role":"system","content":"Be brief."},
      {"role":"user","content":"What is a hacker?"}],"max_tokens":20,"seed":7})");
  const auto told = body_of(*response), other = body_of(*chat);
  EXPECT_EQ(json::string_view(text_of(told)), other.at_pointer("/choices/0/message/content").as_string());
  EXPECT_EQ(told.at_pointer("/usage/input_tokens"), other.at_pointer("/usage/prompt_tokens"));
  EXPECT_EQ(told.at_pointer("/usage/output_tokens"), 20);
  EXPECT_EQ(told.at("object"), "response");
  EXPECT_EQ(told.at("model"), "sim-model");
  EXPECT_EQ(told.at("created_at"), 1700000000);
  EXPECT_EQ(told.at("status"), "incomplete");
  EXPECT_EQ(told.at_pointer("/incomplete_details/reason"), "max_output_tokens");
  EXPECT_EQ(told.at("instructions"), "Be brief.");
  const auto id = json::value_to<std::string>(told.at("id"));
  EXPECT_TRUE(id.starts_with("resp_")) << id;
  EXPECT_EQ(response->whole.fields.find("X-Request-Id"), id);
}

TEST_F(OpenaiEdgeResponses, AStreamTellsTheSameAndEndsWithTheResponse) {
  const std::string asked = R"("max_output_tokens":30,"seed":7,"temperature":1,"request_id":"mine")";
  const auto whole = body_of(*respond(asked));
  const auto streamed = respond(asked + R"(,"stream":true)");
  EXPECT_EQ(streamed->status, 200);
  EXPECT_THAT(std::string(*streamed->fields.find("content-type")), HasSubstr("text/event-stream"));
  EXPECT_EQ(streamed->fields.find("X-Request-Id"), "resp_mine");
  EXPECT_THAT(streamed->body, Not(HasSubstr("[DONE]")));
  const auto all = events_of(*streamed);
  ASSERT_GT(all.size(), 12U);
  EXPECT_EQ(all[0].at("type"), "response.created");
  EXPECT_EQ(all[1].at("type"), "response.in_progress");
  EXPECT_EQ(all.back().at("type"), "response.incomplete");
  const auto& response = all.back().at("response");
  EXPECT_EQ(text_of(all), text_of(whole));
  EXPECT_EQ(text_of(response), text_of(whole));
  EXPECT_EQ(response.at_pointer("/usage/output_tokens"), 30);
  EXPECT_EQ(response.at("id"), "resp_mine");
  EXPECT_NE(response.at_pointer("/output/0/id"), whole.at_pointer("/output/0/id")) << "the id may come again";
}

TEST_F(OpenaiEdgeResponses, LogprobsAreBoundedByHowOftenTheyAreTold) {
  restart({}, 512, 100);
  const std::string asked = R"("include":["message.output_text.logprobs"],"top_logprobs":1,"max_output_tokens":)";
  const auto told = body_of(*respond(asked + "10"));
  EXPECT_EQ(told.at_pointer("/output/0/content/0/logprobs").as_array().size(), 10U);
  const auto streamed = respond(asked + R"(10,"stream":true)");
  ASSERT_TRUE(streamed->streaming);
  std::size_t deltas = 0;
  for (const auto& event : events_of(*streamed))
    if (event.at("type") == "response.output_text.delta") deltas += event.at("logprobs").as_array().size();
  EXPECT_EQ(deltas, 10U);
  const auto refused = respond(asked + R"(11,"stream":true)");
  EXPECT_EQ(refused->whole.status, 400);
  EXPECT_EQ(body_of(*refused).at_pointer("/error/param"), "top_logprobs");
  EXPECT_EQ(respond(asked + "11")->whole.status, 200);
}

TEST_F(OpenaiEdgeResponses, WhatIsWrongIsCalledAsItWasAsked) {
  const auto blamed = [&](const std::string& body) {
    const auto answer = call("POST", "/v1/responses", body, {{"X-Request-Id", "gw-1"}});
    EXPECT_GE(answer->whole.status, 400) << answer->whole.body;
    EXPECT_EQ(answer->whole.fields.find("X-Request-Id"), "req-gw-1");
    return json::value_to<std::string>(body_of(*answer).at_pointer("/error/param"));
  };
  EXPECT_EQ(blamed(R"({"model":"gpt-5","input":"x"})"), "model");
  EXPECT_EQ(blamed(R"({"input":"x","max_output_tokens":5000})"), "max_output_tokens");
  EXPECT_EQ(blamed(R"({"input":"x","n":2})"), "n");
  EXPECT_EQ(blamed(R"({"input":"x","previous_response_id":"resp_1"})"), "previous_response_id");
  EXPECT_EQ(blamed(R"({"input":")" + std::string(3000, 'q') + "\"}"), "input");
  EXPECT_EQ(blamed(R"({"input":")" + std::string(4'000'000, '1') + "\"}"), "input") << "not tokenised";
  EXPECT_EQ(blamed(R"({"input":"x","tools":[{"type":"function","name":"f"}]})"), "tools") << "no template shows them";
  EXPECT_EQ(blamed(R"({"input":[{"role":"user","content":"x"},
      {"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]})"),
            "input");
  EXPECT_EQ(respond(R"("max_output_tokens":1)", {{"X-SLO-TTFT-MS", "soon"}})->whole.status, 400);
}

TEST_F(OpenaiEdgeResponses, WhereAskedToItTellsWhatItIgnored) {
  restart({}, 512, 0, true);
  const auto answer = respond(R"("max_output_tokens":1,"truncation":"auto","n":2,"tools":[{"type":"web_search"}])");
  ASSERT_EQ(answer->whole.status, 200) << answer->whole.body;
  EXPECT_EQ(answer->whole.fields.find("X-Godwit-Ignored"), "truncation, tools[0].type, n");
}

TEST_F(OpenaiEdgeResponses, NothingIsStored) {
  const std::vector<std::pair<std::string, std::string>> calls{{"GET", "/v1/responses/resp_1"},
                                                               {"DELETE", "/v1/responses/resp_1"},
                                                               {"POST", "/v1/responses/resp_1/cancel"},
                                                               {"GET", "/v1/responses/resp_1/input_items"}};
  for (const auto& [method, path] : calls) {
    const auto answer = call(method, path);
    EXPECT_EQ(answer->whole.status, 404);
    EXPECT_EQ(body_of(*answer).at_pointer("/error/code"), "not_found");
    EXPECT_THAT(answer->whole.body, HasSubstr("stores no responses"));
  }
  for (const auto* path : {"/v1/responses/compact", "/v1/responses/input_tokens", "/v1/conversations"})
    EXPECT_EQ(body_of(*call("POST", path)).at_pointer("/error/code"), "unsupported_endpoint");
  const auto method = call("GET", "/v1/responses");
  EXPECT_EQ(method->whole.status, 405);
  EXPECT_EQ(method->whole.fields.find("Allow"), "POST");
}

TEST_F(OpenaiEdgeResponses, PrioritiesReachTheInstance) {
  const auto exchange =
      begin("POST", "/v1/responses", R"({"input":"Hi","priority":-2,"execution_priority":"high","stream":true})");
  std::optional<protocols::request_status> seen;
  ASSERT_TRUE(cluster->run_until([&] {
    for (const auto& instance : cluster->status(true).instances)
      for (const auto& request : instance.requests) seen = request;
    return seen.has_value();
  }));
  EXPECT_EQ(seen->priority, -2);
  EXPECT_EQ(seen->execution_level, 1);
}

TEST_F(OpenaiEdgeResponses, AClientThatHangsUpFreesItsBlocks) {
  const auto exchange = begin("POST", "/v1/responses", R"({"input":"x","max_output_tokens":400,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->body.size() > 3000; }));
  EXPECT_GT(cluster->blocks_used(), 0U);
  exchange->hang_up();
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() == 0; }));
  EXPECT_EQ(exchange.use_count(), 1) << "nothing keeps the exchange";
}

TEST_F(OpenaiEdgeResponses, AnErrorInTheMiddleOfAStreamEndsItAsFailed) {
  const auto exchange = begin("POST", "/v1/responses", R"({"input":"x","max_output_tokens":400,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->body.size() > 3000; }));
  cluster->cluster.reset();
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  const auto all = events_of(*exchange);
  EXPECT_EQ(all[all.size() - 2].at("type"), "error");
  EXPECT_EQ(all.back().at("type"), "response.failed");
  EXPECT_EQ(all.back().at_pointer("/response/status"), "failed");
  EXPECT_EQ(text_of(all.back().at("response")), text_of(all));
}

TEST_F(OpenaiEdgeResponses, WithAHeartbeatTheResponseIsCreatedBeforeItsFirstToken) {
  const auto exchange =
      begin("POST", "/v1/responses",
            R"({"input":"x","max_output_tokens":4,"stream":true,"stream_options":{"heartbeat_interval":5}})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->streaming; }));
  EXPECT_EQ(events_of(*exchange).size(), 2U);
  EXPECT_EQ(exchange->beats_every, std::chrono::seconds(5));
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  EXPECT_EQ(events_of(*exchange).back().at("type"), "response.incomplete");
}

TEST(OpenaiAnswerResponses, ItemsAreTheSameStreamedOrNotHoweverTheTokensCome) {
  const std::string answer =
      "<think>\nHm.\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
      "{\"city\": \"Bern\"}}\n</tool_call>\nAnd <tool_call>{\"name\": \"add\", \"arguments\": "
      "{}}</tool_call>";
  json::value first;
  for (const bool stream : {false, true})
    for (const std::size_t step : {1U, 3U, 1000U}) {
      response_under_test one(stream);
      if (!one.tokens) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
      one.say(answer, step);
      const auto told = stream ? events_of(*one.exchange).back().at("response") : body_of(*one.exchange);
      if (first.is_null()) first = told;
      EXPECT_EQ(told, first) << stream << " " << step;
    }
  const auto& items = first.at("output").as_array();
  ASSERT_EQ(items.size(), 5U);
  EXPECT_EQ(items[0].at_pointer("/content/0/text"), "Hm.");
  EXPECT_EQ(items[1].at_pointer("/content/0/text"), "Let me see.\n");
  EXPECT_EQ(items[2].at("name"), "weather");
  EXPECT_TRUE(json::value_to<std::string>(items[2].at("call_id")).starts_with("call_"));
  EXPECT_EQ(items[3].at_pointer("/content/0/text"), "\nAnd ");
  EXPECT_EQ(items[4].at("arguments"), "{}");
  EXPECT_EQ(first.at("status"), "completed");
  EXPECT_GT(first.at_pointer("/usage/output_tokens_details/reasoning_tokens").to_number<int>(), 0);
}

} // namespace godwit::test
