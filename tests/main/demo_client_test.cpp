#include "main/demo_client.hpp"

#include <godwit/transport/http/server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;

/// What the demo makes of a server that streams these events.
demo_answer demo_answer_to(const std::string& events) {
  namespace http = transport::http;
  auto server = http::server({}, [&events](const http::request&, const std::shared_ptr<http::exchange>& e) {
    auto said = http::response();
    said.content_type = "text/event-stream";
    said.body = events;
    e->respond(std::move(said));
  });
  EXPECT_FALSE(server.listen("127.0.0.1", 0).has_value());
  auto round = demo_round("http://127.0.0.1:" + std::to_string(server.local_port()), "m", {demo_request()});
  EXPECT_TRUE(round.wait_for(std::chrono::seconds(5))) << "it waits for ever";
  return round.answers().front();
}

std::string sse_line(const std::string& data) { return "data: " + data + "\n\n"; }

TEST(DemoClient, TakesTextAndCountsFromAStream) {
  const auto answer =
      demo_answer_to(sse_line(R"({"choices":[{"delta":{"content":"one "}}]})") +
                     sse_line(R"({"choices":[{"delta":{"content":"two"},"finish_reason":"stop"}]})") +
                     sse_line(R"({"choices":[],"usage":{"completion_tokens":2}})") + sse_line("[DONE]"));
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.text, "one two");
  EXPECT_EQ(answer.finish_reason, "stop");
  EXPECT_EQ(answer.tokens, 2U);
}

// It may be pointed at any server.
TEST(DemoClient, AnAnswerOfAnotherFormIsAnError) {
  const std::pair<const char*, const char*> others[] = {
      {R"({"usage":{}})", "completion_tokens"},
      {R"({"usage":{"completion_tokens":"two"}})", "completion_tokens"},
      {R"({"usage":{"completion_tokens":-2}})", "completion_tokens"},
      {R"({"choices":["text"]})", "a choice is no object"},
      {"[]", "not JSON"},
      {"{", "not JSON"},
      {R"({"error":"as asked"})", "as asked"},
  };
  for (const auto& [data, error] : others)
    EXPECT_THAT(demo_answer_to(sse_line(data) + sse_line("[DONE]")).error, HasSubstr(error)) << data;
}

} // namespace
} // namespace godwit::main
