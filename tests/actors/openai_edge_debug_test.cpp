#include "actors/support/sim_cluster.hpp"
#include "support/trace_builder.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace godwit::test {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

namespace {

/// Answered on another thread.
class waited_exchange final : public transport::http::exchange {
public:
  void respond(transport::http::response answer) override { answer_.set_value(std::move(answer)); }
  void begin_stream(int, transport::http::headers) override {}
  void write(std::string) override {}
  void finish() override {}
  void on_close(std::function<void()>) override {}
  [[nodiscard]] bool closed() const override { return false; }
  std::future<transport::http::response> future() { return answer_.get_future(); }

private:
  std::promise<transport::http::response> answer_;
};

/// The endpoint's /debug/, over a recording made by hand.
class EdgeDebug : public ::testing::Test {
protected:
  void SetUp() override {
    const auto files = gpu::model::embedded_model();
    if (!files) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
    auto model = gpu::model::open_model(files);
    ASSERT_TRUE(model);
    options.model = {"sim-model", model->tokens, 512, model->tokens->size(), {}};
    options.unix_time_s = [] { return std::int64_t{1700000000}; };
    options.random_seed = 0;
    options.debug_page = "<!doctype html>the page";
    cluster = std::make_unique<sim_cluster>(sim_cluster_options{});
  }

  void record() {
    options.debug_recording = [this](std::chrono::nanoseconds last) {
      asked.push_back(last);
      support::trace_builder b;
      b.process("head");
      const auto frontend = b.actor(0, "frontend");
      for (int i = 0; i < 9; ++i) b.deliver({}, {}, frontend, "submit_request", 1000 * i, 10);
      return b.finish();
    };
  }

  std::future<transport::http::response> begin(const std::string& method, const std::string& target,
                                               const std::string& query = {}) {
    if (!edge) edge = std::make_unique<actors::openai_edge>(cluster->cluster->gate(), options);
    const auto exchange = std::make_shared<waited_exchange>();
    auto answer = exchange->future();
    transport::http::request request;
    request.method = method;
    request.target = target;
    request.query = query;
    edge->handle(std::move(request), exchange);
    return answer;
  }

  transport::http::response call(const std::string& method, const std::string& target, const std::string& query = {}) {
    return begin(method, target, query).get();
  }

  actors::edge_options options;
  std::unique_ptr<sim_cluster> cluster;
  std::unique_ptr<actors::openai_edge> edge;
  std::vector<std::chrono::nanoseconds> asked;
};

} // namespace

TEST_F(EdgeDebug, IsUnknownUnlessEnabled) {
  const auto unknown = call("GET", "/nowhere");
  for (const auto* const path : {"/debug", "/debug/", "/debug/recording.json"}) {
    EXPECT_EQ(call("GET", path).status, unknown.status);
    EXPECT_EQ(call("POST", path).status, unknown.status) << "405 would tell that there is something";
  }
}

TEST_F(EdgeDebug, ServesThePageAndTheLastSeconds) {
  record();
  EXPECT_EQ(call("GET", "/debug").status, 308);
  const auto page = call("GET", "/debug/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.content_type, HasSubstr("text/html"));
  EXPECT_EQ(page.body, options.debug_page);
  EXPECT_TRUE(asked.empty());

  const auto all = call("GET", "/debug/recording.json");
  EXPECT_EQ(all.status, 200);
  EXPECT_EQ(all.content_type, "application/json");
  EXPECT_THAT(all.body, HasSubstr("\"live\":true"));
  EXPECT_THAT(all.body, HasSubstr("\"submit_request\""));
  EXPECT_THAT(all.body, HasSubstr("\"left_out\":0"));
  EXPECT_EQ(asked, std::vector<std::chrono::nanoseconds>{10s});
  EXPECT_EQ(call("POST", "/debug/recording.json").status, 405);
}

TEST_F(EdgeDebug, WhatIsAskedForIsBounded) {
  record();
  EXPECT_THAT(call("GET", "/debug/recording.json", "last_ms=2500&events=4").body, HasSubstr("\"left_out\":6"));
  call("GET", "/debug/recording.json", "events=0&last_ms=99999999999999");
  call("GET", "/debug/recording.json", "last_ms=99999999999999999999999&&=");
  call("GET", "/debug/recording.json", "else=x&last_ms_=x");
  EXPECT_EQ(asked, (std::vector<std::chrono::nanoseconds>{2500ms, 600s, 600s, 10s}));
}

TEST_F(EdgeDebug, WhatIsNoNumberIsRefused) {
  record();
  for (const std::string wrong : {"abc", "", "-3", "10s", "99999999999999999999999s", "1.5"})
    for (const std::string name : {"last_ms", "events"}) {
      const auto refused = call("GET", "/debug/recording.json", "x=1&" + name + "=" + wrong);
      EXPECT_EQ(refused.status, 400) << name << "=" << wrong;
      EXPECT_THAT(refused.body, HasSubstr(R"("type":"invalid_request_error")"));
      EXPECT_THAT(refused.body, HasSubstr(name + " is to be a whole number"));
    }
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(call("GET", "/debug/recording.json").status, 200) << "and nobody is kept waiting by it";
}

TEST_F(EdgeDebug, ASecondPageIsToldToComeAgainAndNobodyWaits) {
  std::promise<void> go_on;
  options.debug_recording = [wait = go_on.get_future().share()](std::chrono::nanoseconds) {
    wait.wait();
    return runtime::trace::recording{};
  };
  auto first = begin("GET", "/debug/recording.json"); // comes back at once
  const auto second = begin("GET", "/debug/recording.json").get();
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(second.fields.find("Retry-After"), "1");
  EXPECT_EQ(call("GET", "/version").status, 200);
  go_on.set_value();
  EXPECT_EQ(first.get().status, 200);
}

// Each on a thread of its own, as the server's I/O threads are; one that has its answer is never told to come again by
// what it asked for itself.
TEST_F(EdgeDebug, ManyPagesAtOnceAreEachServedOrToldToComeAgain) {
  options.debug_recording = [](std::chrono::nanoseconds) { return runtime::trace::recording{}; };
  call("GET", "/version"); // the edge is there
  std::atomic<int> served{0}, told{0}, others{0};
  std::vector<std::thread> pages;
  for (int page = 0; page < 4; ++page)
    pages.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto status = call("GET", "/debug/recording.json").status;
        (status == 200 ? served : status == 503 ? told : others) += 1;
      }
    });
  for (auto& page : pages) page.join();
  EXPECT_GT(served, 0);
  EXPECT_EQ(others, 0);
  EXPECT_EQ(served + told, 2000);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(call("GET", "/debug/recording.json").status, 200);
}

TEST_F(EdgeDebug, AFailureIsAnAnswer) {
  options.debug_recording = [](std::chrono::nanoseconds) -> runtime::trace::recording { throw std::bad_alloc(); };
  EXPECT_EQ(call("GET", "/debug/recording.json").status, 500);
  EXPECT_EQ(call("GET", "/debug/recording.json").status, 500) << "and the next one is served";
}

} // namespace godwit::test
