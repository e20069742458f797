// How a server reads requests: from polite ones to hostile ones, byte by byte.
#include "transport/http/echo_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::transport::http::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpRequests, AreParsedIntoTheirParts) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("POST /echo?a=1&b=%20 HTTP/1.1\r\nHost: t\r\nX-Thing:  some value \r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_THAT(c.read_until("body"), EndsWith("\r\n\r\nPOST a=1&b=%20 body"));
  const auto r = s.last().value();
  EXPECT_EQ(r.target, "/echo");
  EXPECT_EQ(r.fields.find("x-tHING"), "some value");
  EXPECT_THAT(r.peer, StartsWith("127.0.0.1:"));
}

TEST(HttpRequests, MayComeByteByByte) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  for (const char b : post("/echo", "slow")) {
    ASSERT_TRUE(c.send(std::string_view(&b, 1)));
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_THAT(c.read_until("slow"), EndsWith("POST  slow"));
}

TEST(HttpRequests, ArePipelinedOneAtATimeInOrder) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send(get("/hold") + post("/echo", "second") + post("/echo", "third"));
  auto first = s.held();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(s.last()->target, "/hold"); // the second waits for the first
  auto answer = response();
  answer.body = "first";
  first->respond(answer);
  const auto got = c.read_until("third");
  EXPECT_LT(got.find("first"), got.find("second"));
  EXPECT_LT(got.find("second"), got.find("third"));
  EXPECT_NE(got.find("third"), std::string::npos);
}

TEST(HttpRequests, ManyPipelinedAheadAreAllAnswered) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  auto all = std::string();
  for (int i = 0; i < 5000; ++i) all += get("/echo?" + std::to_string(i)); // more than may lie unparsed
  auto sender = std::thread([&] { c.send(all + post("/echo", "the last")); });
  EXPECT_THAT(c.read_until("the last", 20s), HasSubstr("GET 4999 "));
  sender.join();
}

TEST(HttpRequests, MayHaveChunkedBodies) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  std::this_thread::sleep_for(5ms);
  c.send("A;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_THAT(c.read_until("789"), EndsWith("POST  abc0123456789"));
}

TEST(HttpRequests, WithAnotherTransferEncodingAreNotTakenForChunked) {
  auto s = echo_server();
  for (const auto* encoding : {"gzip, chunked", "identity\r\nTransfer-Encoding: chunked", "gzip"}) {
    auto c = raw_socket(s.port());
    c.send(std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: ") + encoding +
           "\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 501 ")) << encoding;
  }
  auto old = raw_socket(s.port());
  old.send("POST /echo HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\nTransfer-Encoding: Chunked\r\n\r\n"
           "3\r\nabc\r\n0\r\n\r\n");
  EXPECT_THAT(old.read_to_end(), EndsWith("POST  abc")) << "and the connection ends";
}

TEST(HttpRequests, AreAskedForTheirBodyWhenTheyExpectIt) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(c.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("ok");
  EXPECT_THAT(c.read_until("POST  ok"), HasSubstr("HTTP/1.1 200 OK"));
}

TEST(HttpRequests, AreRefusedBeforeTheirBodyWhenItWouldBeTooLong) {
  auto settings = server_settings();
  settings.body_bytes_max = 10;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 413 Payload Too Large"));
  EXPECT_TRUE(c.closed());
}

TEST(HttpRequests, WithAnOversizedBodyGetA413ThatArrivesThoughTheBodyIsStillBeingSent) {
  auto settings = server_settings();
  settings.body_bytes_max = 100'000;
  auto s = echo_server(settings);
  for (const auto* framing : {"Content-Length: 3000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2DC6C0\r\n"}) {
    auto c = raw_socket(s.port());
    c.send(std::string("POST /echo HTTP/1.1\r\nHost: t\r\n") + framing);
    c.send(std::string(3'000'000, 'x'));
    EXPECT_THAT(c.read_to_end(), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("100000 bytes"), HasSubstr("close")));
  }
  EXPECT_EQ(s.get_server().stats().rejected_total, 2U);
}

TEST(HttpRequests, WithOversizedHeadersGetA431) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("GET /echo HTTP/1.1\r\nHost: t\r\nX: " + std::string(20'000, 'x'));
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 431 "));
  auto d = raw_socket(s.port());
  d.send("GET /" + std::string(20'000, 'x'));
  EXPECT_THAT(d.read_to_end(), StartsWith("HTTP/1.1 431 "));
}

TEST(HttpRequests, ThatAreMalformedGetA400AndTheEndOfTheConnection) {
  auto s = echo_server();
  for (const auto* garbage :
       {"\x16\x03\x01\x02garbage\r\n\r\n", "GET\r\n\r\n", "GET /echo\r\n\r\n", "GET /echo HTTP/2.0\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost t\r\n\r\n", "GET /echo HTTP/1.1\r\nHost : t\r\n\r\n",
        "GET /echo HTTP/1.1\nHost: t\n\n", "GET /echo HTTP/1.1\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"}) {
    auto c = raw_socket(s.port());
    c.send(garbage);
    EXPECT_THAT(c.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 Bad Request"), HasSubstr("{\"error\": "))) << garbage;
    EXPECT_TRUE(c.closed()) << garbage;
  }
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 501 "));
  auto d = raw_socket(s.port());
  d.send("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_THAT(d.read_to_end(), StartsWith("HTTP/1.1 417 "));
}

TEST(HttpRequests, ErrorsLookAsTheApplicationWants) {
  auto settings = server_settings();
  settings.body_bytes_max = 8;
  settings.error_response = [](int status, std::string message, const request* head) {
    auto out = response();
    out.status = status;
    out.body = "<" + message + ">" + (head != nullptr ? head->target : "");
    return out;
  };
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  c.send("garbage\r\n\r\n");
  EXPECT_THAT(c.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("<the request is not")));
  auto d = raw_socket(s.port());
  d.send("POST /echo?a=b HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n123456789");
  EXPECT_THAT(d.read_to_end(), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr(">/echo")));
}

TEST(HttpRequests, WhoseHeadDribblesGetA408) {
  auto settings = server_settings();
  settings.header_timeout = 150ms;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  const auto begin = std::chrono::steady_clock::now();
  c.send("GET /echo HTTP/1.1\r\n");
  while (std::chrono::steady_clock::now() - begin < 3s && c.send("X: y\r\n")) {
    c.read_until("408", 20ms);
    if (c.read_until("408", 1ms).find("408") != std::string::npos) break;
  }
  EXPECT_THAT(c.read_until("408"), StartsWith("HTTP/1.1 408 "));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 100ms);
  EXPECT_LT(took, 2s);
}

TEST(HttpRequests, WhoseBodyDoesNotComeGetA408) {
  auto settings = server_settings();
  settings.body_timeout = 100ms;
  auto s = echo_server(settings);
  auto c = raw_socket(s.port());
  c.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nx");
  EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 408 "));
}

TEST(HttpRequests, ThatEndInTheMiddleGetA400) {
  auto s = echo_server();
  for (const auto* part : {"GET /echo HT", "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nx"}) {
    auto c = raw_socket(s.port());
    c.send(part);
    c.half_close();
    EXPECT_THAT(c.read_to_end(), StartsWith("HTTP/1.1 400 ")) << part;
  }
}

TEST(HttpRequests, IdleConnectionsAreClosed) {
  auto settings = server_settings();
  settings.idle_timeout = 100ms;
  auto s = echo_server(settings);
  auto silent = raw_socket(s.port());
  auto used = raw_socket(s.port());
  used.send(get("/echo"));
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_TRUE(silent.closed());
  EXPECT_THAT(used.read_to_end(), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(used.closed());
}

TEST(HttpRequests, HeadIsAnsweredLikeGetWithoutTheBody) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("HEAD /echo?q HTTP/1.1\r\nHost: t\r\n\r\n" + post("/echo", "next"));
  const auto got = c.read_until("POST  next");
  EXPECT_THAT(got, AllOf(HasSubstr("Content-Length: 6\r\n"), Not(HasSubstr("GET q"))));
  EXPECT_EQ(got.find("\r\n\r\nHTTP/1.1 200 OK"), got.find("\r\n\r\n")); // nothing between the two
}

TEST(HttpRequests, OptionsOfTheServerAreAnsweredByItself) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n" + get("/echo"));
  const auto got = c.read_until("GET  ");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 204 No Content\r\n"));
  EXPECT_THAT(got, HasSubstr("Allow: GET, HEAD, POST, OPTIONS\r\n"));
}

TEST(HttpRequests, TheAbsoluteFormNamesTheSameResource) {
  auto s = echo_server();
  auto c = raw_socket(s.port());
  c.send("\r\nGET http://t/echo?x HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(c.read_until("GET x"), HasSubstr("GET x"));
}

} // namespace
} // namespace godwit::transport::http::test
