// What an HTTP request leaves in a recording, and how it is tied to its client's trace.
#include "actors/support/fake_exchange.hpp"
#include "actors/support/sim_cluster.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/protocols/trace_context.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace godwit::test {

namespace trace = runtime::trace;

namespace {

class EdgeTrace : public ::testing::Test {
protected:
  void SetUp() override {
    auto files = gpu::model::embedded_model();
    if (!files) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
    auto model = gpu::model::open_model(files);
    ASSERT_TRUE(model);
    sim_cluster_options options;
    options.vocabulary = model->tokens->size();
    options.record = [this](const runtime::clock& clock) {
      return recorder = std::make_shared<trace::recorder>(trace::process{}, trace::recorder_settings{}, clock);
    };
    cluster = std::make_unique<sim_cluster>(std::move(options));
    actors::edge_options o;
    o.model = {"sim-model", model->tokens, 512, model->tokens->size(), {}};
    o.unix_time_s = [] { return std::int64_t{1700000000}; };
    o.random_seed = 0;
    o.limits.execution_levels = {"normal", "high"};
    o.recorder = recorder;
    o.on_ended = [this](const actors::ended_request& request) { ended.push_back(request); };
    edge = std::make_unique<actors::openai_edge>(cluster->cluster->gate(), std::move(o));
  }
  std::shared_ptr<fake_exchange> begin(const std::string& method, const std::string& target, std::string body = {},
                                       std::vector<std::string> traceparents = {}) {
    auto exchange = std::make_shared<fake_exchange>();
    transport::http::request request;
    request.method = method;
    request.target = target;
    request.body = std::move(body);
    for (auto& one : traceparents) request.fields.add("TraceParent", std::move(one));
    edge->handle(std::move(request), exchange);
    return exchange;
  }
  std::shared_ptr<fake_exchange> complete(const std::string& body, std::vector<std::string> traceparents = {}) {
    auto exchange = begin("POST", "/v1/completions", body, std::move(traceparents));
    EXPECT_TRUE(cluster->run_until([&] { return exchange->complete; }));
    return exchange;
  }
  /// Attributes of the HTTP requests, in the order of their ends.
  std::vector<std::map<std::string, std::string>> requests() {
    const auto all = recorder->snapshot();
    std::vector<std::map<std::string, std::string>> out;
    for (const auto& e : all.events) {
      if (all.name_of(e) != "http.request") continue;
      auto& one = out.emplace_back();
      for (const auto& a : e.attributes) one[a.name] = a.value;
    }
    return out;
  }

  std::vector<actors::ended_request> ended; // grows until the cluster has ended
  std::shared_ptr<trace::recorder> recorder;
  std::unique_ptr<sim_cluster> cluster;
  std::unique_ptr<actors::openai_edge> edge;
};

constexpr const char* short_answer = R"({"prompt":"A hacker is","max_tokens":12,"request_id":"mine"})";
constexpr const char* clients = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

std::optional<protocols::trace_context> answered(const transport::http::headers& fields) {
  const auto found = fields.find("traceparent");
  return found ? protocols::parse_traceparent(*found) : std::nullopt;
}

} // namespace

TEST_F(EdgeTrace, ARequestsMessagesFollowFromItsSpan) {
  const auto exchange = complete(short_answer);
  ASSERT_EQ(exchange->whole.status, 200);
  const auto all = recorder->snapshot();
  const trace::analysis::index index(all);
  const auto found = trace::analysis::model_requests(index);
  ASSERT_EQ(found.size(), 1U);
  const auto& request = found.front();
  EXPECT_EQ(request.client_id, "cmpl-mine");
  EXPECT_EQ(request.target, "/v1/completions");
  ASSERT_NE(request.http, trace::analysis::nowhere);
  EXPECT_EQ(index[request.http].request, request.id);
  const auto reached = trace::analysis::reachable(index, request.http);
  std::size_t about = 0;
  for (trace::analysis::position p = 0; p < index.size(); ++p) {
    if (index.about(p) != request.id) continue;
    ++about;
    EXPECT_NE(std::find(reached.begin(), reached.end(), p), reached.end())
        << trace::to_string(index[p].kind) << " " << all.name_of(index[p]);
  }
  EXPECT_GT(about, 4U);
}

TEST_F(EdgeTrace, ARequestThatIsNotDispatchedYetIsFoundByItsClientsName) {
  const auto exchange = begin("POST", "/v1/completions", short_answer);
  const auto noted = [this](const std::string& name) {
    const auto all = recorder->snapshot();
    return std::ranges::any_of(all.events, [&](const auto& e) { return all.name_of(e) == name; });
  };
  ASSERT_TRUE(cluster->run_until([&] { return noted("request.accepted") || noted("ownership"); }));
  ASSERT_FALSE(noted("ownership"));
  const auto all = recorder->snapshot();
  const trace::analysis::index index(all);
  const auto requests = trace::analysis::model_requests(index);
  const auto found = trace::analysis::find_request(requests, "cmpl-mine");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->http, trace::analysis::nowhere) << "its span has not ended";
  EXPECT_TRUE(cluster->run_until([&] { return exchange->complete; }));
}

TEST_F(EdgeTrace, TheSpanSaysWhatBecameOfIt) {
  (void)complete(short_answer);
  (void)complete(R"({"prompt":["A","B"],"max_tokens":3,"stream":true})");
  const auto all = requests();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("method"), "POST");
  EXPECT_EQ(all[0].at("status"), "200");
  EXPECT_EQ(all[0].at("outcome"), "complete");
  EXPECT_EQ(trace::analysis::numbers_in(all[1].at("request")).size(), 2U);
  EXPECT_EQ(all[1].at("outcome"), "complete");
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].client_id, "cmpl-mine");
  EXPECT_GT(ended[0].took.count(), 0);
}

TEST_F(EdgeTrace, TheSpanOfARefusalSaysWhatTheClientWasTold) {
  (void)begin("POST", "/v1/completions", R"({"prompt":""})");
  (void)begin("POST", "/v1/completions", R"({"prompt":"A","model":"another"})");
  (void)begin("GET", "/nothing");
  const auto all = requests();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].at("status"), "400");
  EXPECT_EQ(all[0].at("error"), "the prompt has no tokens");
  EXPECT_EQ(all[1].at("status"), "404");
  EXPECT_THAT(all[1].at("error"), ::testing::HasSubstr("another"));
  EXPECT_EQ(all[2].at("target"), "/nothing");
  EXPECT_EQ(all[2].at("status"), "404");
  EXPECT_TRUE(all[2].contains("error"));
}

TEST_F(EdgeTrace, ARequestThatIsOpenIsFoundByItsClientsName) {
  const auto exchange = begin("POST", "/v1/completions", R"({"prompt":"A","max_tokens":400,"request_id":"mine"})");
  cluster->run_for(std::chrono::milliseconds(10));
  ASSERT_FALSE(exchange->complete);
  const auto all = recorder->snapshot();
  const trace::analysis::index index(all);
  EXPECT_TRUE(trace::analysis::find_request(trace::analysis::model_requests(index), "cmpl-mine"));
}

TEST_F(EdgeTrace, AClientThatGoesAwayEndsTheSpanAndIsTheCauseOfTheWithdrawal) {
  const auto exchange = begin("POST", "/v1/completions", R"({"prompt":"A","max_tokens":400,"stream":true})");
  ASSERT_TRUE(cluster->run_until([&] { return !exchange->body.empty(); }));
  exchange->hang_up();
  cluster->run_for(std::chrono::milliseconds(100));
  const auto found = requests();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].at("outcome"), "disconnected");
  const auto all = recorder->snapshot();
  const trace::analysis::index index(all);
  bool withdrawn = false;
  for (trace::analysis::position p = 0; p < index.size(); ++p)
    if (all.name_of(index[p]).ends_with("withdraw_request")) {
      withdrawn = true;
      ASSERT_NE(index.cause(p), trace::analysis::nowhere);
      EXPECT_EQ(all.name_of(index[index.cause(p)]), "http.request");
    }
  EXPECT_TRUE(withdrawn);
}

TEST_F(EdgeTrace, TheAnswerIsPartOfTheClientsTrace) {
  const auto exchange = complete(short_answer, {clients});
  const auto context = answered(exchange->whole.fields);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_NE(context->parent, "b7ad6b7169203331") << "a span of our own";
  EXPECT_EQ(context->flags, 1) << "it was recorded";
  const auto all = requests();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].at("traceparent"), clients);
  EXPECT_EQ(all[0].at("answered"), to_traceparent(*context));
}

TEST_F(EdgeTrace, StreamsNameTheirTraceToo) {
  const auto exchange = complete(R"({"prompt":"A","max_tokens":3,"stream":true})", {clients});
  const auto context = answered(exchange->fields);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, "0af7651916cd43dd8448eb211c80319c");
}

TEST_F(EdgeTrace, WithoutARightTraceparentTheTraceIsNew) {
  const auto first = answered(complete(short_answer)->whole.fields);
  const auto second = answered(complete(short_answer, {"00-wrong"})->whole.fields);
  const auto third = answered(complete(short_answer, {clients, clients})->whole.fields);
  ASSERT_TRUE(first && second && third);
  EXPECT_NE(first->trace, second->trace);
  EXPECT_NE(first->parent, second->parent);
  EXPECT_NE(third->trace, "0af7651916cd43dd8448eb211c80319c") << "two are as good as none";
  for (const auto& one : requests()) EXPECT_EQ(one.count("traceparent"), 0U);
}

TEST_F(EdgeTrace, AtLevelOffThereIsNoSpanAndNoHeader) {
  recorder->set_level(trace::level::off);
  const auto exchange = complete(short_answer, {clients});
  EXPECT_EQ(exchange->whole.status, 200);
  EXPECT_FALSE(exchange->whole.fields.contains("traceparent"));
  EXPECT_TRUE(requests().empty());
}

} // namespace godwit::test
