// Clients' sinks that throw, though they must not: only their own requests pay for it.
#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/log/string_backend.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Throws in one of its calls, and counts all of them.
class throwing_sink final : public actors::answer_sink {
public:
  explicit throwing_sink(std::string_view where) : where_(where) {}
  void on_accepted(protocols::request_id) override { called("on_accepted"); }
  void on_prompt_scores(std::vector<protocols::sampled_token>) override { called("on_prompt_scores"); }
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token>, bool) override {
    called("on_tokens");
    return true;
  }
  void on_finished(protocols::finish_reason, const actors::answer_usage&) override { called("on_finished"); }
  void on_failed(const actors::answer_failure&) override { called("on_failed"); }
  int calls_after = 0; ///< that it threw
  bool threw = false;

private:
  void called(std::string_view what) {
    if (threw) ++calls_after;
    if (what != where_) return;
    threw = true;
    throw std::runtime_error("a full disk");
  }
  std::string where_;
};

std::shared_ptr<actors::submission> submission_of(std::shared_ptr<actors::answer_sink> sink) {
  auto out = std::make_shared<actors::submission>();
  out->request.prompt = {1, 2, 3};
  out->request.stop.max_tokens = 20;
  out->request.sampling.prompt_logprobs = 0;
  out->sink = std::move(sink);
  return out;
}

sim_cluster_options one_instance() {
  sim_cluster_options o;
  o.instances = 1;
  return o;
}

} // namespace

TEST(ThrowingSink, EndsItsOwnRequestAndNoOther) {
  for (const char* where : {"on_accepted", "on_prompt_scores", "on_tokens", "on_finished"}) {
    SCOPED_TRACE(where);
    sim_cluster cluster(one_instance());
    std::vector<std::shared_ptr<recording_sink>> others{cluster.submit(1, 10, 20)};
    const auto thrower = std::make_shared<throwing_sink>(where);
    cluster.submit(submission_of(thrower));
    for (std::uint32_t i = 2; i < 6; ++i) others.push_back(cluster.submit(i, 10, 20));
    EXPECT_TRUE(cluster.run_until_ended(others));
    cluster.run_for(100ms);
    for (const auto& other : others) {
      EXPECT_EQ(other->tokens.size(), 20U);
      EXPECT_TRUE(other->finished);
      EXPECT_EQ(other->endings, 1);
    }
    EXPECT_TRUE(thrower->threw);
    EXPECT_EQ(thrower->calls_after, 0);
    EXPECT_EQ(cluster.status().requests_open, 0U);
    EXPECT_EQ(cluster.blocks_used(), 0U) << "its instance was told";
    EXPECT_THAT(cluster.reports,
                ElementsAre("frontend: a sink threw in " +
                            std::string(where == std::string("on_prompt_scores") ? "on_tokens" : where) +
                            ", and is not called any more: a full disk"));
  }
}

TEST(ThrowingSink, IsCountedAsAnErrorAndNamedInTheLog) {
  const auto lines = std::make_shared<runtime::log::string_backend>();
  runtime::metrics::registry metrics;
  auto o = one_instance();
  o.adjust = [&](actors::node_options& n) {
    n.frontend.log = runtime::log::logger(lines, runtime::log::level_filter(runtime::log::level::error));
    n.frontend.metrics = std::make_shared<actors::frontend_metrics>(metrics);
  };
  sim_cluster cluster(std::move(o));
  cluster.submit(submission_of(std::make_shared<throwing_sink>("on_tokens")));
  cluster.run_for(100ms);
  EXPECT_THAT(lines->text(), HasSubstr("its sink threw in on_tokens, and is not called any more: a full disk"));
  EXPECT_THAT(lines->text(), HasSubstr("request="));
  EXPECT_THAT(metrics.expose(), HasSubstr("godwit_requests_total{outcome=\"error\",execution_priority=\"normal\"} 1"));
  EXPECT_TRUE(cluster.reports.empty());
}

TEST(ThrowingSink, DoesNotKeepTheLastWordFromOthersWhenTheServerShutsDown) {
  sim_cluster cluster(one_instance());
  std::vector<std::shared_ptr<recording_sink>> others{cluster.submit(1, 10, 400)};
  const auto thrower = std::make_shared<throwing_sink>("on_failed");
  const auto long_one = submission_of(thrower);
  long_one->request.stop.max_tokens = 400;
  cluster.submit(long_one);
  others.push_back(cluster.submit(2, 10, 400));
  cluster.run_for(1ms);
  (void)cluster.cluster->shutdown(0ms);
  cluster.run_for(10ms);
  EXPECT_TRUE(thrower->threw);
  for (const auto& other : others) {
    EXPECT_EQ(other->endings, 1);
    ASSERT_TRUE(other->failed);
    EXPECT_EQ(other->failed->kind, actors::failure_kind::unavailable);
  }
}

TEST(ThrowingSink, OfASubmissionThatNobodyTakesEndsNoProcess) {
  sim_cluster cluster(one_instance());
  (void)cluster.cluster->shutdown(0ms);
  cluster.run_for(10ms);
  const auto thrower = std::make_shared<throwing_sink>("on_failed");
  EXPECT_FALSE(cluster.cluster->gate()->submit({submission_of(thrower)}));
  EXPECT_TRUE(thrower->threw);
  EXPECT_EQ(thrower->calls_after, 0);
}

TEST(ThrowingSink, OfARequestThatIsOneTooManyIsNotToldAgain) {
  auto o = one_instance();
  o.adjust = [](actors::node_options& n) { n.frontend.requests_max = 0; };
  sim_cluster cluster(std::move(o));
  const auto thrower = std::make_shared<throwing_sink>("on_failed");
  cluster.submit(submission_of(thrower));
  cluster.run_for(10ms);
  EXPECT_TRUE(thrower->threw);
  EXPECT_EQ(thrower->calls_after, 0);
}

// What an embedder's watchers throw is nobody's affair but theirs.
TEST(ThrowingWatcher, CostsNoRequestAnything) {
  int thrown = 0;
  const auto throws = [&thrown](auto&&...) {
    ++thrown;
    throw std::runtime_error("a full disk");
  };
  sim_cluster_options o;
  o.adjust = [&](actors::node_options& n) {
    n.frontend.on_forecast = throws;
    n.frontend.on_dispatched = throws;
    n.frontend.on_lost = throws;
    n.scheduler.on_report = throws;
    n.llumlet.on_report = throws;
    n.llumlet.on_preempted = throws;
    n.on_topology = throws;
  };
  sim_cluster cluster(std::move(o));
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < 6; ++i) sinks.push_back(cluster.submit(i, 10, 100));
  cluster.run_for(2ms);
  cluster.cluster->kill(protocols::instance_id{0});
  EXPECT_TRUE(cluster.run_until_ended(sinks));
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->tokens.size(), 100U);
    EXPECT_EQ(sink->endings, 1);
  }
  EXPECT_GT(thrown, 12) << "requests were lost, too";
  EXPECT_THAT(cluster.reports, ::testing::Contains("frontend: on_lost threw: a full disk"));
}

/// Throws where it has no business to.
class throwing_log final : public runtime::log::backend {
public:
  [[nodiscard]] std::chrono::nanoseconds now() override { return {}; }
  void write(const runtime::log::record& r) override {
    if (armed && (r.message.starts_with("accepted") || r.message.starts_with("failed")))
      throw std::runtime_error("no memory");
  }
  void flush() override {}
  [[nodiscard]] std::uint64_t dropped() const override { return 0; }
  bool armed = false;
};

// Its books may be wrong: it ends all that it has, and its node starts another one.
TEST(FrontEndThatFails, TellsEveryClientAndComesBack) {
  const auto log = std::make_shared<throwing_log>();
  auto o = one_instance();
  o.adjust = [&](actors::node_options& n) {
    n.frontend.log = runtime::log::logger(log, runtime::log::level_filter(runtime::log::level::debug));
  };
  sim_cluster cluster(std::move(o));
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < 3; ++i) sinks.push_back(cluster.submit(i, 10, 400));
  cluster.run_for(5ms);
  log->armed = true;
  sinks.push_back(cluster.submit(3, 10, 400));
  cluster.run_for(10ms);
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->endings, 1);
    ASSERT_TRUE(sink->failed);
    EXPECT_EQ(sink->failed->kind, actors::failure_kind::unavailable);
    EXPECT_THAT(sink->failed->message, HasSubstr("failed"));
  }
  log->armed = false;
  cluster.run_for(10s);
  const auto later = cluster.submit(4, 10, 20);
  EXPECT_TRUE(cluster.run_until_ended({later}));
  EXPECT_TRUE(later->finished);
  EXPECT_EQ(cluster.blocks_used(), 0U) << "instances dropped what nobody waits for";
}

} // namespace godwit::test
