// How a server answers: framing, keep-alive, handlers that fail.
#include "transport/http/echo_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace godwit::transport::http::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpAnswers, KeepTheConnectionUnlessToldOtherwise) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  for (int i = 0; i < 3; ++i) {
    c.forget();
    c.send(post("/echo", "ping"));
    EXPECT_THAT(c.read_until("ping"), Not(HasSubstr("Connection:")));
  }
  c.forget();
  c.send("GET /echo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(c.closed());
  EXPECT_EQ(s.get_server().stats().requests_total, 4U);
}

TEST(HttpAnswers, Http10ClosesUnlessToldOtherwise) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(c.read_until("GET  "), HasSubstr("Connection: keep-alive\r\n"));
  c.forget();
  c.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("GET  ")));
  EXPECT_TRUE(c.closed());
}

TEST(HttpAnswers, HaveADateAndTheHandlersFields) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto answer = response();
  answer.status = 429;
  answer.fields = {{"Retry-After", "3"}, {"Content-Length", "999"}, {"X-Model", "a\r\nSet-Cookie: forged"}};
  answer.body = "{}";
  s.held()->respond(answer);
  const auto got = c.read_until("{}");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 429 Too Many Requests\r\nDate: "));
  EXPECT_THAT(got, HasSubstr("Retry-After: 3\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"));
  EXPECT_THAT(got, Not(HasSubstr("\r\nSet-Cookie"))); // what a client sent cannot become a field
  EXPECT_THAT(got, Not(HasSubstr("999")));
}

TEST(HttpAnswers, StreamInChunks) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  e->begin_stream(200, {{"Content-Type", "text/event-stream"}});
  const auto head = c.read_until("\r\n\r\n");
  EXPECT_THAT(head,
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), HasSubstr("Content-Type: text/event-stream\r\n")));
  e->write("data: 1\n\n");
  EXPECT_THAT(c.read_until("data: 1\n\n\r\n"), EndsWith("9\r\ndata: 1\n\n\r\n"));
  e->write("");
  e->write("data: 2\n\n");
  e->finish();
  EXPECT_THAT(c.read_until("0\r\n\r\n"), EndsWith("9\r\ndata: 2\n\n\r\n0\r\n\r\n"));
  c.forget();
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), StartsWith("HTTP/1.1 200")); // the connection is still good
}

TEST(HttpAnswers, StreamToHttp10UntilTheConnectionEnds) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto e = s.held();
  e->begin_stream(200, {});
  e->write("one");
  e->write("two");
  e->finish();
  const auto got = c.read_to_end();
  EXPECT_THAT(got, AllOf(Not(HasSubstr("chunked")), HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\nonetwo")));
  EXPECT_TRUE(c.closed());
}

TEST(HttpAnswers, AStreamForHeadIsItsHeadOnly) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("HEAD /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  auto e = s.held();
  e->begin_stream(200, {});
  e->write("unseen");
  e->finish();
  c.send(post("/echo", "next"));
  EXPECT_THAT(c.read_until("next"), AllOf(Not(HasSubstr("unseen")), HasSubstr("chunked\r\n\r\nHTTP/1.1 200")));
}

TEST(HttpAnswers, ARequestMayBeRefusedBeforeItsBodyIsRead) {
  server_settings settings;
  settings.on_head = [](const request& head) -> std::optional<response> {
    if (head.target != "/echo" || head.fields.contains("Authorization")) return std::nullopt;
    response answer;
    answer.status = 401;
    answer.body = "no key for " + head.method;
    return answer;
  };
  auto s = echo_server(std::move(settings));
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
  const auto got = c.read_to_end();
  EXPECT_THAT(got, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(got, EndsWith("no key for POST"));
  EXPECT_EQ(s.get_server().stats().requests_total, 0U);
  auto other = raw_socket(s.port());
  other.send("POST /echo HTTP/1.1\r\nHost: t\r\nAuthorization: x\r\nContent-Length: 4\r\n\r\nping");
  EXPECT_THAT(other.read_until("ping"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpAnswers, WhatTheHandlerDoesNotSeeIsToldToTheLog) {
  server_settings settings;
  settings.body_bytes_max = 10;
  std::mutex mutex;
  std::vector<std::string> told;
  settings.on_rejected = [&](const std::string& peer, const request* head, const response& answer) {
    const std::lock_guard lock(mutex);
    told.push_back((head == nullptr ? "?" : head->target) + " " + std::to_string(answer.status));
    EXPECT_THAT(peer, StartsWith("127.0.0.1:"));
  };
  auto s = echo_server(std::move(settings));
  auto large = raw_socket(s.port());
  large.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n");
  EXPECT_THAT(large.read_to_end(), StartsWith("HTTP/1.1 413 "));
  auto broken = raw_socket(s.port());
  broken.send("nonsense\r\n\r\n");
  EXPECT_THAT(broken.read_to_end(), StartsWith("HTTP/1.1 400 "));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(told, ::testing::ElementsAre("/echo 413", "? 400"));
}

TEST(HttpAnswers, FieldsMayBeAddedToTheServersOwn) {
  server_settings settings;
  settings.body_bytes_max = 10;
  settings.on_own_answer = [](const request& head, headers& fields) {
    fields.set("X-Of",
               head.method + " " + head.target + " by " + std::string(head.fields.find("Origin").value_or("?")));
  };
  auto s = echo_server(std::move(settings));
  auto c = raw_socket(s.port());
  c.send("POST /echo?x=1 HTTP/1.1\r\nHost: t\r\nOrigin: o\r\nContent-Length: 11\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("X-Of: POST /echo by o\r\n")));
  auto other = raw_socket(s.port());
  other.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n99\r\n" + std::string(0x99, 'x'));
  EXPECT_THAT(other.read_to_end(), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("X-Of: POST /echo by ?\r\n")));
  auto none = raw_socket(s.port());
  none.send("POST /echo\r\n\r\n"); // no head that anybody could know
  EXPECT_THAT(none.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 "), Not(HasSubstr("X-Of"))));
}

TEST(HttpAnswers, LongOnesArriveWhole) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  const auto body = std::string(5'000'000, 'y');
  auto sender = std::thread([&] { c.send(post("/echo", body + "END")); });
  EXPECT_THAT(c.read_until("END", 20s), EndsWith(body + "END"));
  sender.join();
}

TEST(HttpAnswers, AHandlerThatThrowsOrDropsItsExchangeIsA500) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  for (const auto* target : {"/throw", "/drop"}) {
    c.forget();
    c.send(get(target));
    EXPECT_THAT(c.read_until("}"), StartsWith("HTTP/1.1 500 Internal Server Error")) << target;
  }
  c.forget();
  c.send(get("/hold"));
  s.held().reset();
  EXPECT_THAT(c.read_until("}"), StartsWith("HTTP/1.1 500 "));
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().exchanges == 0; }));
}

// As where there is no memory for it.
TEST(HttpAnswers, WhereTheServersOwnCannotBeMadeTheConnectionEnds) {
  auto settings = server_settings();
  settings.error_response = [](int, const std::string&, const request*) -> response { throw std::bad_alloc(); };
  auto s = echo_server(settings);
  for (const auto* target : {"/throw", "/drop"}) {
    auto c = raw_socket(s.port());
    c.send(get(target));
    EXPECT_EQ(c.read_to_end(), "");
    EXPECT_TRUE(c.closed()) << target;
  }
  EXPECT_TRUE(eventually([&] { return s.get_server().stats().connections == 0; }));
  EXPECT_EQ(s.get_server().stats().exchanges, 0U);
  auto c = raw_socket(s.port());
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), ::testing::StartsWith("HTTP/1.1 200"));
}

TEST(HttpAnswers, AStreamThatIsDroppedEndsWithoutTheEndMark) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  auto told = std::atomic<bool>(false);
  e->on_close([&] { told = true; });
  e->begin_stream(200, {});
  e->write("part");
  EXPECT_THAT(c.read_until("part\r\n"), EndsWith("4\r\npart\r\n"));
  e.reset();
  EXPECT_THAT(c.read_to_end(), Not(HasSubstr("0\r\n\r\n")));
  EXPECT_TRUE(c.closed());
  EXPECT_FALSE(told); // nobody is left who could care
}

TEST(HttpAnswers, WhatComesAfterTheAnswerIsIgnored) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  auto told = std::atomic<bool>(false);
  e->on_close([&] { told = true; });
  auto answer = response();
  answer.body = "once";
  e->respond(answer);
  e->respond(answer);
  e->begin_stream(200, {});
  e->write("more");
  e->finish();
  c.send("GET /echo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  const auto got = c.read_to_end();
  EXPECT_EQ(got.find("once"), got.rfind("once"));
  EXPECT_THAT(got, AllOf(Not(HasSubstr("more")), EndsWith("GET  ")));
  EXPECT_FALSE(e->closed());
  EXPECT_FALSE(told);
}

TEST(HttpAnswers, AStreamWithNothingToSendBeatsUntilItsEnd) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold"));
  auto e = s.held();
  e->keep_alive_every(20ms, ": still here\n\n");
  std::this_thread::sleep_for(60ms); // nothing before the stream has begun: its status is still open
  e->begin_stream(200, {});
  EXPECT_THAT(c.read_until("still here"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("e\r\n: still here\n\n\r\n")));
  e->write("token");
  c.read_until("token");
  c.forget();
  EXPECT_THAT(c.read_until("still here"), HasSubstr(": still here"));
  e->keep_alive_every(0ms, {});
  e->write("last");
  c.read_until("last");
  c.forget();
  std::this_thread::sleep_for(60ms);
  e->finish();
  EXPECT_EQ(c.read_until("0\r\n\r\n"), "0\r\n\r\n");
  c.forget();
  c.send(get("/echo"));
  EXPECT_THAT(c.read_until("GET  "), StartsWith("HTTP/1.1 200")); // the connection goes on
}

TEST(HttpAnswers, AStreamThatIsBusyDoesNotBeat) {
  auto s = echo_server();
  std::string got;
  // A machine that stands still for half a second makes it idle: then once more.
  for (int attempt = 0; attempt < 10; ++attempt) {
    auto c = raw_socket(s.port());
    c.send(get("/hold"));
    auto e = s.held();
    e->begin_stream(200, {});
    e->keep_alive_every(500ms, ": still here\n\n");
    for (int i = 0; i < 60; ++i) {
      e->write("t");
      std::this_thread::sleep_for(10ms);
    }
    e->finish();
    got = c.read_until("0\r\n\r\n", 30s);
    EXPECT_THAT(got, HasSubstr("0\r\n\r\n"));
    if (got.find("still here") == std::string::npos) break;
  }
  EXPECT_THAT(got, Not(HasSubstr("still here")));
}

} // namespace
} // namespace godwit::transport::http::test
