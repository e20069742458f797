#pragma once

#include "actors/support/fake_exchange.hpp"
#include "actors/support/sim_cluster.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/transport/http/sse_parser.hpp>

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

/// The HTTP endpoint over a simulated cluster, called as the server would call it.
class openai_edge_fixture : public ::testing::Test {
protected:
  void SetUp() override {
    auto files = gpu::model::embedded_model();
    if (!files) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
    auto model = gpu::model::open_model(files);
    ASSERT_TRUE(model);
    tokens = model->tokens;
    restart({});
  }
  void restart(sim_cluster_options options, std::uint32_t context = 512, std::uint64_t logprobs_told_max = 0,
               bool lenient = false) {
    edge.reset();
    cluster.reset();
    options.vocabulary = tokens->size();
    cluster = std::make_unique<sim_cluster>(std::move(options));
    actors::edge_options o;
    o.model = {"sim-model", tokens, context, tokens->size(), {}};
    o.model.adapters = adapters;
    o.model.aliases = aliases;
    o.model.eos = eos;
    o.version = "1.2.3";
    o.unix_time_s = [] { return std::int64_t{1700000000}; };
    o.random_seed = 0;
    o.limits.execution_levels = {"normal", "high"};
    o.limits.vocabulary = static_cast<std::uint32_t>(tokens->size());
    if (logprobs_told_max > 0) o.limits.logprobs_told_max = logprobs_told_max;
    o.limits.lists_unsupported = lenient;
    o.metrics = &metrics.emplace_back();
    edge = std::make_unique<actors::openai_edge>(cluster->cluster->gate(), std::move(o));
  }

  using fields = std::vector<std::pair<std::string, std::string>>;
  std::shared_ptr<fake_exchange> begin(const std::string& method, const std::string& target, std::string body = {},
                                       const fields& more = {}) {
    auto exchange = std::make_shared<fake_exchange>();
    transport::http::request request;
    request.method = method;
    request.target = target;
    request.body = std::move(body);
    for (const auto& [name, value] : more) request.fields.add(name, value);
    edge->handle(std::move(request), exchange);
    return exchange;
  }
  std::shared_ptr<fake_exchange> call(const std::string& method, const std::string& target, std::string body = {},
                                      const fields& more = {}) {
    auto exchange = begin(method, target, std::move(body), more);
    EXPECT_TRUE(cluster->run_until([&] { return exchange->complete; }));
    return exchange;
  }
  std::shared_ptr<fake_exchange> complete(const std::string& body) { return call("POST", "/v1/completions", body); }

  static std::vector<std::string> events(const fake_exchange& exchange) {
    std::vector<std::string> out;
    transport::http::sse_parser parser;
    EXPECT_TRUE(parser.feed(exchange.body, [&](const auto& event) { out.push_back(event.data); }));
    return out;
  }

  std::shared_ptr<const gpu::model::tokenizer> tokens;
  std::shared_ptr<const gpu::model::adapter_directory> adapters; ///< null: none
  std::vector<std::string> aliases;
  std::vector<protocols::token_id> eos; ///< that the endpoint knows of
  std::list<runtime::metrics::registry> metrics;
  std::unique_ptr<sim_cluster> cluster;
  std::unique_ptr<actors::openai_edge> edge;
};

/// The value of "text" or "content" in an answer or chunk; enough for the ASCII of these tests.
inline std::string field(const std::string& json, const std::string& name) {
  const auto key = "\"" + name + "\":\"";
  const auto at = json.find(key);
  if (at == std::string::npos) return {};
  std::string out;
  for (auto i = at + key.size(); i < json.size() && json[i] != '"'; ++i) {
    out += json[i];
    if (json[i] == '\\') out += json[++i];
  }
  return out;
}

} // namespace godwit::test
