// What stands before the endpoint's routes: keys, browsers' rules, names that lead here by a trick.
#include "actors/support/fake_exchange.hpp"

#include <godwit/actors/http_gate.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::actors {
namespace {

namespace http = transport::http;
using ::testing::HasSubstr;
using ::testing::Not;

struct gated {
  explicit gated(gate_options options = {})
      : gate(
            [this](http::request r, std::shared_ptr<http::exchange> e) {
              ++passed;
              last = std::move(r);
              http::response answer;
              answer.body = "behind the gate";
              e->respond(std::move(answer));
            },
            std::move(options)) {}

  http::response ask(const std::string& method, const std::string& target, http::headers fields = {}) {
    http::request r;
    r.method = method;
    r.target = target;
    r.fields = std::move(fields);
    const auto e = std::make_shared<test::fake_exchange>();
    gate.handle(std::move(r), e);
    return e->whole;
  }
  int post(http::headers fields) { return ask("POST", "/v1/completions", std::move(fields)).status; }

  http_gate gate;
  int passed = 0;
  http::request last;
};

std::shared_ptr<const api_keys> keys(std::string_view text) {
  auto parsed = api_keys::parse(text);
  EXPECT_TRUE(parsed);
  return std::make_shared<api_keys>(std::move(*parsed));
}

TEST(HttpGate, WithoutKeysEverythingPasses) {
  gated g;
  EXPECT_EQ(g.post({}), 200);
  EXPECT_EQ(g.post({{"Authorization", "Bearer whatever"}}), 200);
}

TEST(HttpGate, WithKeysWhoHasOneOfThemPassesAndNobodyElse) {
  gated g;
  g.gate.set_keys(keys("# ours\nsk-first\n\n  sk-second-longer \r\n"));
  EXPECT_EQ(g.post({{"Authorization", "Bearer sk-first"}}), 200);
  EXPECT_EQ(g.post({{"authorization", "bearer  sk-second-longer"}}), 200);
  EXPECT_EQ(g.passed, 2);
  for (const auto* wrong : {"", "Bearer", "Bearer ", "sk-first", "Basic sk-first", "Bearer sk-firs", "Bearer sk-first2",
                            "Bearer sk-firstsk-first", "Bearer # ours", "Bearer SK-FIRST", "Bearersk-first"})
    EXPECT_EQ(g.post({{"Authorization", wrong}}), 401) << wrong;
  EXPECT_EQ(g.passed, 2);
}

TEST(HttpGate, AKeyMayComeByItselfAsAnthropicsClientsSendIt) {
  gated g;
  g.gate.set_keys(keys("sk-first\nsk-second\n"));
  EXPECT_EQ(g.post({{"x-api-key", "sk-second"}}), 200);
  EXPECT_EQ(g.post({{"X-Api-Key", "sk-first"}, {"Authorization", "Bearer of-another-server"}}), 200);
  EXPECT_EQ(g.post({{"x-api-key", "of-another-server"}, {"Authorization", "Bearer sk-first"}}), 200);
  for (const auto* wrong : {"", "sk-firs", "sk-first2", "Bearer sk-first", "sk-first sk-second", "SK-FIRST"})
    EXPECT_EQ(g.post({{"x-api-key", wrong}}), 401) << wrong;
  EXPECT_EQ(g.post({{"x-api-key", std::string(2000, 'k')}}), 401);
}

TEST(HttpGate, WhereMessagesAreAskedForARefusalIsInAnthropicsForm) {
  gated g;
  g.gate.set_keys(keys("sk-secret"));
  const auto wrong = g.ask("POST", "/v1/messages", {{"x-api-key", "sk-other"}});
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.body, AllOf(HasSubstr(R"({"type":"error","error":{"type":"authentication_error")"),
                                HasSubstr("is wrong"), Not(HasSubstr("sk-"))));
  EXPECT_THAT(g.ask("GET", "/v1/models", {{"anthropic-version", "2023-06-01"}}).body,
              HasSubstr("authentication_error"));
  EXPECT_THAT(g.ask("POST", "/v1/messages", {{"x-api-key", "sk-secret"}, {"Content-Encoding", "gzip"}}).body,
              HasSubstr("behind the gate"))
      << "encodings are looked at by refuse_head";
  http::request head;
  head.target = "/v1/messages/count_tokens";
  head.fields = {{"x-api-key", "sk-secret"}, {"Content-Encoding", "gzip"}};
  const auto encoded = g.gate.refuse_head(head);
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->status, 415);
  EXPECT_THAT(encoded->body, HasSubstr(R"("type":"invalid_request_error")"));
}

TEST(HttpGate, ARefusalLooksLikeOpenAisAndSaysNothingOfTheKeys) {
  gated g;
  g.gate.set_keys(keys("sk-secret"));
  const auto missing = g.ask("GET", "/v1/models");
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.fields.find("WWW-Authenticate"), "Bearer");
  EXPECT_THAT(missing.body, AllOf(HasSubstr("\"code\":\"invalid_api_key\""), HasSubstr("is missing")));
  const auto wrong = g.ask("GET", "/v1/models", {{"Authorization", "Bearer sk-other"}});
  EXPECT_THAT(wrong.body, AllOf(HasSubstr("is wrong"), Not(HasSubstr("sk-"))));
}

TEST(HttpGate, ProbesAndMetricsNeedNoKeyAndAllElseDoes) {
  gated g;
  g.gate.set_keys(keys("sk-secret"));
  for (const auto* open : {"/health", "/ping", "/version", "/metrics"}) EXPECT_EQ(g.ask("GET", open).status, 200);
  for (const auto* guarded : {"/v1/models", "/v1/chat/completions", "/tokenize", "/detokenize", "/", "/nowhere",
                              "/health/../v1/models", "/metrics/", "//v1/models", "/HEALTH"})
    EXPECT_EQ(g.ask("POST", guarded).status, 401) << guarded;
}

TEST(HttpGate, NewKeysReplaceTheOldOnes) {
  gated g;
  g.gate.set_keys(keys("sk-old"));
  g.gate.set_keys(keys("sk-new"));
  EXPECT_EQ(g.post({{"Authorization", "Bearer sk-old"}}), 401);
  EXPECT_EQ(g.post({{"Authorization", "Bearer sk-new"}}), 200);
}

TEST(ApiKeys, AFileThatHoldsNoneOrSomethingElseIsAnErrorThatNamesTheLine) {
  EXPECT_EQ(api_keys::parse("# nothing\n\n").error(), "there is no key in it");
  EXPECT_THAT(api_keys::parse("sk-a\nsk b\n").error(), HasSubstr("line 2: a key has no blanks and nothing but ASCII"));
  EXPECT_THAT(api_keys::parse("sk-\xc3\xa4").error(), HasSubstr("line 1"));
  EXPECT_THAT(api_keys::parse(std::string(1025, 'k')).error(), HasSubstr("1024 bytes"));
  EXPECT_EQ(api_keys::parse("a\nb\nc")->size(), 3U);
}

TEST(HttpGate, WithKeysTheDebugPageWantsOneToo) {
  gated g;
  g.gate.set_keys(std::make_shared<api_keys>(*api_keys::parse("sesame")));
  EXPECT_EQ(g.ask("GET", "/debug/recording.json", {{"Host", "localhost"}}).status, 401);
  EXPECT_EQ(g.ask("GET", "/debug/", {{"Host", "localhost"}, {"Authorization", "Bearer sesame"}}).status, 200);
}

TEST(HttpGate, TheDebugPageIsForThoseWhoNameTheServerItself) {
  gate_options options;
  options.host = "serving.internal";
  gated g(options);
  for (const auto* direct :
       {"localhost", "localhost:8000", "127.0.0.1:8000", "10.1.2.3", "[::1]:8000", "[::1]", "Serving.Internal:8000"})
    EXPECT_EQ(g.ask("GET", "/debug/", {{"Host", direct}}).status, 200) << direct;
  for (const auto* other : {"evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "",
                            ":8000", "[evil.example]", "[]", "1.2.3.4x"})
    EXPECT_EQ(g.ask("GET", "/debug/recording.json", {{"Host", other}}).status, 403) << other;
  EXPECT_EQ(g.ask("GET", "/debug/").status, 403);
  EXPECT_EQ(g.ask("GET", "/v1/models", {{"Host", "evil.example"}}).status, 200); // a proxy's name for us
}

TEST(HttpGate, BrowsersGetNoLeaveUnlessOriginsAreNamed) {
  gated g;
  const auto answer = g.ask("GET", "/v1/models", {{"Origin", "https://app.example"}});
  EXPECT_FALSE(answer.fields.contains("Access-Control-Allow-Origin"));
  g.ask("OPTIONS", "/v1/models", {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "POST"}});
  EXPECT_EQ(g.last.method, "OPTIONS"); // nobody answered it on the way
}

TEST(HttpGate, OriginsThatAreNamedMayReadAnswersAndRefusals) {
  gate_options options;
  options.cors_origins = {"https://app.example", "https://other.example"};
  gated g(options);
  g.gate.set_keys(keys("sk-secret"));
  const http::headers origin{{"Origin", "https://app.example"}};
  const auto before = g.ask("OPTIONS", "/v1/chat/completions",
                            {{"Origin", "https://app.example"},
                             {"Access-Control-Request-Method", "POST"},
                             {"Access-Control-Request-Headers", "authorization, x-stainless-lang"}});
  EXPECT_EQ(before.status, 204); // browsers send no key with it
  EXPECT_EQ(before.fields.find("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(before.fields.find("Access-Control-Allow-Headers"), "authorization, x-stainless-lang");
  EXPECT_EQ(before.fields.find("Vary"), "Origin");
  const auto refused = g.ask("POST", "/v1/chat/completions", origin);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.fields.find("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_EQ(refused.fields.find("Vary"), "Origin");
  const auto stranger = g.ask("POST", "/v1/chat/completions", {{"Origin", "https://third.example"}});
  EXPECT_FALSE(stranger.fields.contains("Access-Control-Allow-Origin"));
  EXPECT_EQ(stranger.fields.find("Vary"), "Origin") << "a cache is not to give it to those who may read";
  // A server asks for this before it reads the body.
  http::request head;
  head.method = "POST";
  head.target = "/v1/chat/completions";
  head.fields = origin;
  const auto early = g.gate.refuse_head(head);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->fields.find("Access-Control-Allow-Origin"), "https://app.example");
  for (const auto* other : {"https://evil.example", "https://app.example.evil.example", "http://app.example", "null"})
    EXPECT_FALSE(g.ask("GET", "/health", {{"Origin", other}}).fields.contains("Access-Control-Allow-Origin")) << other;
}

TEST(HttpGate, ACompressedBodyIsRefusedBeforeItIsTakenForJson) {
  http_gate gate([](const http::request&, const std::shared_ptr<http::exchange>&) {}, {});
  http::request head;
  head.method = "POST";
  head.target = "/v1/completions";
  EXPECT_FALSE(gate.refuse_head(head));
  head.fields = {{"Content-Encoding", "identity"}};
  EXPECT_FALSE(gate.refuse_head(head));
  head.fields = {{"Content-Encoding", "gzip"}};
  const auto refused = gate.refuse_head(head);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 415);
  EXPECT_NE(refused->body.find("Content-Encoding"), std::string::npos) << refused->body;
  EXPECT_EQ(refused->fields.find("Accept-Encoding"), "identity");
}

TEST(HttpGate, WhatIsWrittenInFullIsSoBehindTheGateToo) {
  gate_options options;
  options.cors_origins = {"*"};
  http_gate gate(
      [](const http::request&, const std::shared_ptr<http::exchange>& e) {
        e->begin_stream(200, {});
        e->write_in_full("long");
      },
      options);
  http::request r;
  r.method = "POST";
  r.target = "/v1/completions";
  r.fields = {{"Origin", "https://anywhere.example"}};
  const auto e = std::make_shared<test::fake_exchange>();
  gate.handle(std::move(r), e);
  EXPECT_EQ(e->in_full, 4U);
}

TEST(HttpGate, AStarIsForAllOrigins) {
  gate_options options;
  options.cors_origins = {"*"};
  gated g(options);
  const auto answer = g.ask("GET", "/health", {{"Origin", "https://anywhere.example"}});
  EXPECT_EQ(answer.fields.find("Access-Control-Allow-Origin"), "*");
  EXPECT_FALSE(answer.fields.contains("Vary"));
  http::request head;
  head.method = "POST";
  head.target = "/v1/completions";
  head.fields = {{"Origin", "https://anywhere.example"}};
  http::headers own; // as of a 413
  g.gate.share(head, own);
  EXPECT_EQ(own.find("Access-Control-Allow-Origin"), "*");
}

TEST(HttpGate, NoOtherPageReadsTheTracePage) {
  const http::headers from{{"Origin", "https://anywhere.example"}, {"Host", "127.0.0.1:8000"}};
  gate_options options;
  options.cors_origins = {"*", "https://anywhere.example"};
  gated g(options);
  EXPECT_FALSE(g.ask("GET", "/debug/recording.json", from).fields.contains("Access-Control-Allow-Origin"));
  EXPECT_EQ(g.last.target, "/debug/recording.json");
}

} // namespace
} // namespace godwit::actors
