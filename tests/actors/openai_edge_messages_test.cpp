// POST /v1/messages: a chat in Anthropic's words.
#include "actors/support/embedded_tokens.hpp"
#include "actors/support/openai_edge_fixture.hpp"

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

class OpenaiEdgeMessages : public openai_edge_fixture {
protected:
  std::shared_ptr<fake_exchange> ask(const std::string& more, const fields& head = {}) {
    return call("POST", "/v1/messages", R"({"messages":[{"role":"user","content":"What is a hacker?"}],)" + more + "}",
                head);
  }
};

json::value read_body(const fake_exchange& exchange) { return json::parse(exchange.whole.body); }

std::vector<json::value> named_events(const fake_exchange& exchange) {
  std::vector<json::value> out;
  transport::http::sse_parser parser;
  EXPECT_TRUE(parser.feed(exchange.body, [&](const auto& event) {
    out.push_back(json::parse(event.data));
    EXPECT_EQ(out.back().at("type"), json::string_view(event.type));
  }));
  return out;
}

/// What the deltas of text say.
std::string streamed_text(const std::vector<json::value>& events) {
  std::string out;
  for (const auto& event : events)
    if (event.at("type") == "content_block_delta") out += json::value_to<std::string>(event.at_pointer("/delta/text"));
  return out;
}
std::string whole_text(const json::value& message) {
  return json::value_to<std::string>(message.at_pointer("/content/0/text"));
}

} // namespace

TEST_F(OpenaiEdgeMessages, SayWhatAChatSays) {
  const auto message = ask(R"("system":"Be brief.","max_tokens":20,"seed":7)");
  ASSERT_EQ(message->whole.status, 200) << message->whole.body;
  const auto chat = call("POST", "/v1/chat/completions", R"({"messages":[{"role":"system","content":"Be brief."},
      {"role":"user","content":"What is a hacker?"}],"max_tokens":20,"seed":7})");
  const auto told = read_body(*message), other = read_body(*chat);
  EXPECT_EQ(json::string_view(whole_text(told)), other.at_pointer("/choices/0/message/content").as_string());
  EXPECT_EQ(told.at_pointer("/usage/input_tokens"), other.at_pointer("/usage/prompt_tokens"));
  EXPECT_EQ(told.at_pointer("/usage/output_tokens"), 20);
  EXPECT_EQ(told.at("type"), "message");
  EXPECT_EQ(told.at("model"), "sim-model");
  EXPECT_EQ(told.at("stop_reason"), "max_tokens");
  const auto id = json::value_to<std::string>(told.at("id"));
  EXPECT_TRUE(id.starts_with("msg_")) << id;
  EXPECT_EQ(message->whole.fields.find("X-Request-Id"), id);
  EXPECT_EQ(message->whole.fields.find("request-id"), id);
  EXPECT_FALSE(chat->whole.fields.contains("request-id"));
}

TEST_F(OpenaiEdgeMessages, AStreamTellsTheSame) {
  const std::string asked = R"("max_tokens":30,"seed":7,"temperature":1,"request_id":"mine")";
  const auto whole = read_body(*ask(asked));
  const auto streamed = ask(asked + R"(,"stream":true)");
  EXPECT_EQ(streamed->status, 200);
  EXPECT_EQ(streamed->fields.find("request-id"), "msg_mine");
  EXPECT_THAT(streamed->body, Not(HasSubstr("[DONE]")));
  const auto all = named_events(*streamed);
  ASSERT_GT(all.size(), 6U);
  EXPECT_EQ(all[0].at("type"), "message_start");
  EXPECT_EQ(all[0].at_pointer("/message/id"), "msg_mine");
  EXPECT_EQ(all[0].at_pointer("/message/usage/input_tokens"), whole.at_pointer("/usage/input_tokens"));
  EXPECT_EQ(all[1].at("type"), "ping");
  EXPECT_EQ(all[2].at("type"), "content_block_start");
  EXPECT_EQ(all[all.size() - 2].at("type"), "message_delta");
  EXPECT_EQ(all[all.size() - 2].at_pointer("/delta/stop_reason"), "max_tokens");
  EXPECT_EQ(all[all.size() - 2].at_pointer("/usage/output_tokens"), 30);
  EXPECT_EQ(all.back().at("type"), "message_stop");
  EXPECT_EQ(streamed_text(all), whole_text(whole));
}

TEST_F(OpenaiEdgeMessages, TheAnswerGoesOnFromWhatTheAssistantSaid) {
  const auto begun = call("POST", "/v1/messages", R"({"max_tokens":12,"seed":3,
      "messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"A hacker is"}]})");
  ASSERT_EQ(begun->whole.status, 200) << begun->whole.body;
  const auto chat = call("POST", "/v1/chat/completions", R"({"max_tokens":12,"seed":3,"add_generation_prompt":false,
      "continue_final_message":true,
      "messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"A hacker is"}]})");
  EXPECT_EQ(json::string_view(whole_text(read_body(*begun))),
            read_body(*chat).at_pointer("/choices/0/message/content").as_string());
}

// Anthropic's clients name the most that a model may say, whatever it is asked.
TEST_F(OpenaiEdgeMessages, WhatTheContextHasNoRoomForEndsTheAnswer) {
  restart({}, 64);
  const auto told = read_body(*ask(R"("max_tokens":64000,"seed":7,"ignore_eos":true)"));
  EXPECT_EQ(told.at("stop_reason"), "model_context_window_exceeded");
  EXPECT_EQ(told.at_pointer("/usage/output_tokens").to_number<int>() +
                told.at_pointer("/usage/input_tokens").to_number<int>(),
            64);
  EXPECT_EQ(read_body(*ask(R"("max_tokens":2,"ignore_eos":true)")).at("stop_reason"), "max_tokens");
}

TEST_F(OpenaiEdgeMessages, NothingIsSaidWhereNothingIsAskedFor) {
  const auto told = read_body(*ask(R"("max_tokens":0)"));
  EXPECT_EQ(told.at("content").as_array().size(), 0U);
  EXPECT_EQ(told.at("stop_reason"), "max_tokens");
  EXPECT_EQ(told.at_pointer("/usage/output_tokens"), 0);
}

TEST_F(OpenaiEdgeMessages, WhatIsCachedIsNoInput) {
  const std::string asked = R"("max_tokens":1,"seed":7,"system":")" + std::string(200, 'a') + "\"";
  const auto first = read_body(*ask(asked)), again = read_body(*ask(asked));
  const auto number = [](const json::value& of, const char* name) {
    return of.at_pointer(std::string("/usage/") + name).to_number<int>();
  };
  EXPECT_EQ(number(first, "cache_read_input_tokens"), 0);
  EXPECT_GT(number(again, "cache_read_input_tokens"), 0);
  EXPECT_EQ(number(again, "cache_read_input_tokens") + number(again, "input_tokens"), number(first, "input_tokens"));
}

TEST_F(OpenaiEdgeMessages, TokensAreCountedAsTheyAreAnswered) {
  const std::string body = R"({"system":"Be brief.","messages":[{"role":"user","content":"What is a hacker?"}])";
  const auto counted = call("POST", "/v1/messages/count_tokens", body + "}");
  ASSERT_EQ(counted->whole.status, 200) << counted->whole.body;
  const auto told = read_body(*call("POST", "/v1/messages", body + R"(,"max_tokens":1})"));
  EXPECT_EQ(read_body(*counted).at("input_tokens"), told.at_pointer("/usage/input_tokens"));
  // Also what does not fit: clients ask in order to learn that.
  const auto large = call("POST", "/v1/messages/count_tokens",
                          R"({"messages":[{"role":"user","content":")" + std::string(3000, 'q') + "\"}]}");
  EXPECT_GT(read_body(*large).at("input_tokens").to_number<int>(), 512);
  for (const auto* wrong : {R"({"messages":[]})", R"({"messages":[{"role":"user","content":"x"}],"n":2})"}) {
    const auto refused = call("POST", "/v1/messages/count_tokens", wrong);
    EXPECT_EQ(refused->whole.status, 400);
    EXPECT_EQ(read_body(*refused).at_pointer("/error/type"), "invalid_request_error");
  }
  EXPECT_EQ(call("POST", "/v1/messages/count_tokens", R"({"model":"gpt","messages":[{"role":"user","content":"x"}]})")
                ->whole.status,
            404);
}

TEST_F(OpenaiEdgeMessages, ErrorsAreInAnthropicsForm) {
  const auto refused = [&](const std::string& body, int status, const std::string& type, const std::string& says) {
    const auto answer = call("POST", "/v1/messages", body, {{"X-Request-Id", "gw-1"}});
    EXPECT_EQ(answer->whole.status, status) << answer->whole.body;
    EXPECT_EQ(answer->whole.fields.find("request-id"), "req-gw-1");
    const auto told = read_body(*answer);
    EXPECT_EQ(told.at("type"), "error");
    EXPECT_EQ(told.at("request_id"), "req-gw-1");
    EXPECT_EQ(told.at_pointer("/error/type"), json::string_view(type));
    EXPECT_THAT(json::value_to<std::string>(told.at_pointer("/error/message")), HasSubstr(says));
  };
  const std::string hi = R"({"messages":[{"role":"user","content":"x"}],)";
  refused(hi + R"("max_tokens":1,"model":"claude-opus-4-8"})", 404, "not_found_error", "claude-opus-4-8");
  refused(hi + R"("model":"sim-model"})", 400, "invalid_request_error", "'max_tokens' is required");
  refused(hi + R"("max_tokens":1,"n":2})", 400, "invalid_request_error", "'n'");
  refused(hi + R"("max_tokens":1,"stop_sequences":[""]})", 400, "invalid_request_error", "stop_sequences[0]");
  refused(R"({"max_tokens":1,"messages":[{"role":"user","content":")" + std::string(3000, 'q') + "\"}]}", 400,
          "invalid_request_error", "prompt is too long");
  refused(R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})", 400, "invalid_request_error",
          "messages[0].content[0].type");
  refused(hi + R"("max_tokens":1,"tools":[{"name":"f","input_schema":{}}]})", 400, "invalid_request_error", "tools");
  edge->drain();
  refused(hi + R"("max_tokens":1})", 503, "overloaded_error", "shutting down");
}

TEST_F(OpenaiEdgeMessages, ItsPathsAreAnthropics) {
  const auto method = call("GET", "/v1/messages");
  EXPECT_EQ(method->whole.status, 405);
  EXPECT_EQ(method->whole.fields.find("Allow"), "POST");
  EXPECT_EQ(read_body(*method).at("type"), "error");
  for (const auto* path : {"/v1/messages/batches", "/v1/messages/batches/msgbatch_1", "/v1/messages/nothing"}) {
    const auto answer = call("POST", path);
    EXPECT_EQ(answer->whole.status, 404);
    EXPECT_EQ(read_body(*answer).at_pointer("/error/type"), "not_found_error");
  }
  EXPECT_FALSE(read_body(*call("POST", "/v1/messagesx")).as_object().contains("type"));
}

TEST_F(OpenaiEdgeMessages, ModelsAreListedAsWhoAsksReadsThem) {
  aliases = {"claude-sonnet"};
  restart({});
  const auto page = read_body(*call("GET", "/v1/models", {}, {{"anthropic-version", "2023-06-01"}}));
  EXPECT_EQ(page.at("first_id"), "sim-model");
  EXPECT_EQ(page.at("last_id"), "claude-sonnet");
  EXPECT_EQ(page.at_pointer("/data/0/type"), "model");
  EXPECT_EQ(page.at_pointer("/data/0/created_at"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(read_body(*call("GET", "/v1/models")).at("object"), "list");
  const auto one = call("GET", "/v1/models/claude-sonnet", {}, {{"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(read_body(*one).at("display_name"), "claude-sonnet");
  const auto none = call("GET", "/v1/models/gpt", {}, {{"anthropic-version", "2023-06-01"}});
  EXPECT_EQ(none->whole.status, 404);
  EXPECT_EQ(read_body(*none).at_pointer("/error/type"), "not_found_error");
}

TEST_F(OpenaiEdgeMessages, WhereAskedToItTellsWhatItIgnored) {
  restart({}, 512, 0, true);
  const auto answer =
      ask(R"("max_tokens":1,"container":"c","n":2,"tools":[{"type":"web_search_20250305","name":"web_search"}])");
  ASSERT_EQ(answer->whole.status, 200) << answer->whole.body;
  EXPECT_EQ(answer->whole.fields.find("X-Godwit-Ignored"), "container, tools[0].type, n");
}

TEST_F(OpenaiEdgeMessages, AClientThatHangsUpFreesItsBlocks) {
  const auto exchange =
      begin("POST", "/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":400,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->body.size() > 3000; }));
  EXPECT_GT(cluster->blocks_used(), 0U);
  exchange->hang_up();
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() == 0; }));
  EXPECT_EQ(exchange.use_count(), 1) << "nothing keeps the exchange";
}

TEST_F(OpenaiEdgeMessages, AnErrorInTheMiddleOfAStreamEndsIt) {
  const auto exchange =
      begin("POST", "/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":400,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->body.size() > 3000; }));
  cluster->cluster.reset();
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  const auto all = named_events(*exchange);
  EXPECT_EQ(all.back().at("type"), "error");
  EXPECT_TRUE(all.back().at_pointer("/error/type").is_string());
}

TEST_F(OpenaiEdgeMessages, AHeartbeatIsAPing) {
  const auto exchange = begin("POST", "/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":4,
      "stream":true,"stream_options":{"heartbeat_interval":5}})");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->streaming; }));
  EXPECT_EQ(named_events(*exchange).size(), 2U);
  EXPECT_EQ(exchange->beats_every, std::chrono::seconds(5));
  EXPECT_EQ(exchange->beat, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  ASSERT_TRUE(cluster->run_until([&] { return exchange->complete; }));
  EXPECT_EQ(named_events(*exchange).back().at("type"), "message_stop");
}

TEST(OpenaiErrorResponse, IsInTheWordsOfWhoAsks) {
  transport::http::request head;
  head.target = "/v1/messages";
  const auto large = actors::openai_error_response(413, "the body is too large", &head);
  EXPECT_EQ(json::parse(large.body).at_pointer("/error/type"), "request_too_large");
  head.target = "/v1/responses";
  EXPECT_EQ(json::parse(actors::openai_error_response(413, "x", &head).body).at_pointer("/error/type"),
            "invalid_request_error");
  EXPECT_EQ(json::parse(actors::openai_error_response(500, "x").body).at_pointer("/error/type"), "server_error");
}

} // namespace godwit::test
