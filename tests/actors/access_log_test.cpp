// The log's line for each HTTP request.
#include "actors/support/fake_exchange.hpp"

#include <godwit/actors/http_gate.hpp>
#include <godwit/runtime/log/string_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace godwit::actors {
namespace {

namespace http = transport::http;
namespace log = runtime::log;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct hand_moved_clock final : runtime::clock {
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return time; }
  std::chrono::nanoseconds time{0};
};

struct logged_gate {
  explicit logged_gate(log::level level)
      : lines(std::make_shared<log::string_backend>()), clock(std::make_shared<hand_moved_clock>()),
        gate([this](const http::request& r, const std::shared_ptr<http::exchange>& e) { handler(r, e); },
             {{}, "", nullptr, log::logger(lines, log::level_filter(level)).component("http"), clock}) {}

  std::shared_ptr<test::fake_exchange> ask(const std::string& target) {
    http::request r;
    r.method = "POST";
    r.target = target;
    r.peer = "10.0.0.7:1234";
    const auto e = std::make_shared<test::fake_exchange>();
    gate.handle(std::move(r), e);
    return e;
  }
  void answer(int status, const std::string& error = {}, const std::string& id = {}) {
    handler = [=](const http::request&, const std::shared_ptr<http::exchange>& e) {
      http::response out;
      out.status = status;
      out.error = error;
      if (!id.empty()) out.fields.set("X-Request-Id", id);
      e->respond(std::move(out));
    };
  }
  [[nodiscard]] std::size_t lines_with(const std::string& part) const {
    const auto text = lines->text();
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }

  std::shared_ptr<log::string_backend> lines;
  std::shared_ptr<hand_moved_clock> clock;
  std::function<void(const http::request&, const std::shared_ptr<http::exchange>&)> handler;
  http_gate gate;
};

TEST(AccessLog, AtDebugEachRequestHasALine) {
  logged_gate g(log::level::debug);
  g.answer(200, {}, "cmpl-1");
  (void)g.ask("/v1/completions");
  EXPECT_THAT(g.lines->text(),
              AllOf(HasSubstr("debug http"), HasSubstr("request=cmpl-1"), HasSubstr("status=200"),
                    HasSubstr("peer=10.0.0.7:1234"), HasSubstr("POST /v1/completions: complete after 0.0 ms")));
}

TEST(AccessLog, AtInfoOnlyRefusalsHaveOneWithTheirReason) {
  logged_gate g(log::level::info);
  g.answer(200);
  (void)g.ask("/v1/completions");
  g.answer(503, "no instance is ready");
  (void)g.ask("/health");
  EXPECT_THAT(g.lines->text(), IsEmpty());
  g.answer(400, "the prompt has no tokens", "req-1");
  (void)g.ask("/v1/completions");
  EXPECT_THAT(g.lines->text(), AllOf(HasSubstr("info http"), HasSubstr("request=req-1"), HasSubstr("status=400"),
                                     HasSubstr("POST /v1/completions: refused: the prompt has no tokens")));
}

TEST(AccessLog, AStreamsLineComesWithItsEnd) {
  logged_gate g(log::level::debug);
  std::shared_ptr<http::exchange> running;
  g.handler = [&](const http::request&, const std::shared_ptr<http::exchange>& e) {
    http::headers fields;
    fields.set("X-Request-Id", "cmpl-2");
    e->on_close({});
    e->begin_stream(200, std::move(fields));
    running = e;
  };
  (void)g.ask("/v1/completions");
  EXPECT_THAT(g.lines->text(), IsEmpty());
  g.clock->time += milliseconds(1500);
  running->finish();
  EXPECT_THAT(g.lines->text(), AllOf(HasSubstr("request=cmpl-2"), HasSubstr("complete after 1500.0 ms")));
  g.ask("/v1/completions")->hang_up();
  EXPECT_EQ(g.lines_with("disconnected after"), 1U);
  running.reset();
  EXPECT_EQ(g.lines_with("\n"), 2U) << "one line a request: " << g.lines->text();
}

TEST(AccessLog, ManyRefusalsAreBoundedAndThoseLeftOutAreCounted) {
  logged_gate g(log::level::info);
  g.answer(401, "an API key is missing");
  for (int i = 0; i < 25; ++i) (void)g.ask("/v1/completions");
  EXPECT_EQ(g.lines_with("refused: "), 10U);
  g.clock->time += milliseconds(1000);
  (void)g.ask("/v1/completions");
  EXPECT_EQ(g.lines_with("refused: "), 11U);
  EXPECT_THAT(g.lines->text(), HasSubstr("refused 15 more requests"));
}

TEST(AccessLog, WhatTheServerRefusesByItselfIsLoggedToo) {
  logged_gate g(log::level::info);
  http::response answer;
  answer.status = 400;
  answer.error = "bad method";
  g.gate.rejected("10.0.0.7:1", nullptr, answer);
  EXPECT_THAT(g.lines->text(), HasSubstr("a request that could not be read: refused: bad method"));
}

TEST(AccessLog, AtWarningThereIsNothing) {
  logged_gate g(log::level::warning);
  g.answer(400, "no");
  (void)g.ask("/v1/completions");
  EXPECT_THAT(g.lines->text(), IsEmpty());
}

TEST(AccessLog, WhatWasLeftOutIsToldAtTheEndToo) {
  auto lines = std::make_shared<log::string_backend>();
  {
    logged_gate g(log::level::info);
    lines = g.lines;
    g.answer(401, "an API key is missing");
    for (int i = 0; i < 25; ++i) (void)g.ask("/v1/completions");
    g.answer(500, "broken");
    (void)g.ask("/v1/completions");
    EXPECT_EQ(g.lines_with("refused: broken"), 1U) << "those of the clients do not hide this side's";
  }
  EXPECT_THAT(lines->text(), HasSubstr("refused 15 more requests"));
}

TEST(AccessLog, AStreamThatEndsWithAnErrorIsToldAtInfo) {
  logged_gate g(log::level::info);
  g.handler = [](const http::request&, const std::shared_ptr<http::exchange>& e) {
    e->begin_stream(200, {});
    e->stream_failed("the request's time of 200 ms is over");
    e->finish();
  };
  (void)g.ask("/v1/completions");
  EXPECT_THAT(g.lines->text(), HasSubstr("POST /v1/completions: failed after 0.0 ms: the request's time of 200 ms is"));
}

} // namespace
} // namespace godwit::actors
