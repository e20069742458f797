// What a home can tell of a request: where it was dispatched and why, who lost it, how its migrations went. And where
// it sends requests while the scheduler is away.
#include "actors/support/idle_llumlet.hpp"
#include "actors/support/recording_sink.hpp"
#include "actors/support/sim_cluster.hpp"

#include <godwit/actors/frontend.hpp>
#include <godwit/protocols/kv/prefix_marks.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::epoch;
using protocols::instance_id;
using protocols::request_event;
using ::testing::HasSubstr;

namespace {

constexpr std::size_t instances = 3;

/// Answers with what it is told, and keeps what it was asked.
class told_scheduler final : public runtime::actor<actors::scheduler_interface> {
public:
  struct journal {
    std::vector<actors::dispatch_query> asked;
    actors::dispatch_decision answer;
    bool mute = false;
  };
  told_scheduler(runtime::actor_context context, std::shared_ptr<journal> to) : actor(context), to_(std::move(to)) {}
  [[nodiscard]] runtime::behavior_of<actors::scheduler_interface> make_behavior() override {
    return {[](protocols::load_report&) {}, [this](actors::dispatch_query& query) { return respond(decide(query)); },
            [](actors::topology&) {}, [](actors::status_query&) { return actors::scheduler_view{}; },
            [](actors::scheduling_policies&) {}};
  }

private:
  runtime::async::task<actors::dispatch_decision> decide(actors::dispatch_query query) {
    to_->asked.push_back(query);
    if (to_->mute) co_await sleep_for(1h);
    co_return to_->answer;
  }
  std::shared_ptr<journal> to_;
};

class FrontendHistory : public ::testing::Test {
protected:
  FrontendHistory() { start({}); }
  void start(actors::frontend_options options) {
    options.metrics = std::make_shared<actors::frontend_metrics>(metrics.emplace_back());
    home = system.spawn<actors::frontend>(std::move(options));
    scheduler = system.spawn<told_scheduler>(decisions);
    for (std::size_t i = 0; i < instances; ++i) {
      journals[i] = std::make_shared<idle_llumlet::journal>();
      llumlets[i] = system.spawn<idle_llumlet>(journals[i]);
    }
    news = {};
    for (std::uint32_t i = 0; i < instances; ++i)
      news.instances.edit().emplace_back(instance_id{i}, 1, true, llumlets[i]);
    announce();
  }
  ~FrontendHistory() override {
    news = {};
    home = {};
    scheduler = {};
    for (auto& llumlet : llumlets) llumlet = {};
  }

  void announce() {
    news.version = ++version;
    system.tell(home, news);
    world.run_for(1ms);
  }
  /// The scheduler decides, for this instance.
  void decide(std::uint32_t instance, double score = 0) {
    decisions->answer = {instance_id{instance}, 1};
    decisions->answer.why.policy = "freeness";
    decisions->answer.why.score = score;
    decisions->answer.why.candidates = instances;
    news.scheduler = scheduler;
    announce();
  }
  std::shared_ptr<recording_sink> submit(const std::string& name, std::int32_t priority = 0, std::uint8_t level = 0,
                                         std::chrono::nanoseconds ttft = 0ns, std::chrono::nanoseconds tpot = 0ns) {
    auto one = std::make_shared<actors::submission>();
    auto sink = std::make_shared<recording_sink>();
    one->request.prompt = {1, 2, 3};
    one->request.stop.max_tokens = 100;
    one->request.priority = priority;
    one->request.execution_level = level;
    one->client_id = name;
    one->ttft = ttft;
    one->tpot = tpot;
    one->sink = sink;
    system.tell(home, actors::submit_request{std::move(one)});
    world.run_for(1ms);
    return sink;
  }
  protocols::request_history history(const std::string& name) { return ask({{}, name}); }
  protocols::request_history history(protocols::request_id id) { return ask({id, {}}); }
  protocols::request_history ask(actors::history_query query) {
    const auto answer = system.ask(home, 1s, std::move(query));
    EXPECT_TRUE(answer);
    return answer ? *answer : protocols::request_history{};
  }
  void finish(const protocols::request_history& which, std::vector<protocols::token_id> ids) {
    protocols::token_updates updates;
    std::vector<protocols::sampled_token> tokens;
    for (const auto id : ids) tokens.emplace_back(id);
    updates.updates.emplace_back(which.request, which.epoch, 0, std::move(tokens));
    updates.updates.back().finish = protocols::finish_reason::length;
    system.tell(home, updates);
    world.run_for(1ms);
  }
  /// Instance `from` tells how a migration ended; the claim, where it was one.
  void migrate(const protocols::request_history& which, std::uint32_t from, std::uint32_t to,
               protocols::migration_outcome outcome) {
    if (outcome == protocols::migration_outcome::committed) {
      const auto granted =
          system.ask(home, 1s, protocols::claim_request{which.request, which.epoch, instance_id{to}, 1, 0, {}});
      ASSERT_TRUE(granted && granted->granted);
    }
    protocols::migration_report report;
    report.migration = protocols::make_migration_id(instance_id{from}, 1, ++migrations);
    report.request = which.request;
    report.epoch = which.epoch;
    report.source = instance_id{from};
    report.destination = instance_id{to};
    report.outcome = outcome;
    report.cause.what = protocols::migration_cause::kind::freeness;
    report.cause.source_before = 1.5;
    report.stall_ns = 700;
    system.tell(home, report);
    world.run_for(1ms);
  }

  std::list<runtime::metrics::registry> metrics; // outlives the actors
  std::uint32_t migrations = 0;
  runtime::sim::world world{1};
  runtime::sim::system system{world};
  std::shared_ptr<told_scheduler::journal> decisions = std::make_shared<told_scheduler::journal>();
  std::array<std::shared_ptr<idle_llumlet::journal>, instances> journals;
  runtime::handle<actors::frontend_interface> home;
  runtime::handle<actors::scheduler_interface> scheduler;
  std::array<runtime::handle<actors::llumlet_interface>, instances> llumlets;
  actors::topology news;
  std::uint64_t version = 0;
};

} // namespace

TEST_F(FrontendHistory, TheSchedulerIsToldThePrioritiesAndItsReasonIsKept) {
  decide(1, 12.5);
  submit("a", -3, 1);
  ASSERT_EQ(decisions->asked.size(), 1U);
  EXPECT_EQ(decisions->asked[0].priority, -3);
  EXPECT_EQ(decisions->asked[0].execution_level, 1);
  EXPECT_EQ(decisions->asked[0].arrival_ns, journals[1]->admitted.at(0).arrival_ns);
  EXPECT_EQ(journals[1]->admitted.at(0).execution_level, 1);
  const auto told = history("a");
  ASSERT_TRUE(told.found);
  EXPECT_FALSE(told.ended);
  EXPECT_TRUE(told.owned);
  EXPECT_EQ(told.instance, instance_id{1});
  EXPECT_EQ(told.priority, -3);
  ASSERT_EQ(told.events.size(), 1U);
  EXPECT_EQ(told.events[0].what, request_event::kind::dispatched);
  EXPECT_EQ(told.events[0].instance, instance_id{1});
  EXPECT_EQ(told.events[0].dispatch.policy, "freeness");
  EXPECT_EQ(told.events[0].dispatch.score, 12.5);
}

TEST_F(FrontendHistory, TheSchedulerIsToldTheBeginningsOfThePromptAndNotThePrompt) {
  decide(1);
  auto one = std::make_shared<actors::submission>();
  one->request.prompt.assign(200, 5);
  one->request.cache_salt = 9;
  one->request.stop.max_tokens = 100;
  one->client_id = "long";
  one->sink = std::make_shared<recording_sink>();
  const auto prompt = one->request.prompt;
  system.tell(home, actors::submit_request{std::move(one)});
  world.run_for(1ms);
  ASSERT_EQ(decisions->asked.size(), 1U);
  EXPECT_EQ(decisions->asked[0].prefix, protocols::prefix_marks(prompt, 9));
  EXPECT_EQ(decisions->asked[0].prefix.size(), 3U);
}

TEST_F(FrontendHistory, WithoutASchedulerRequestsGoToInstancesInTurn) {
  for (int i = 0; i < 6; ++i) submit("a");
  for (const auto& journal : journals) EXPECT_EQ(journal->admitted.size(), 2U);
  const auto told = history("a");
  EXPECT_EQ(told.events.at(0).dispatch.policy, "bypass");
  EXPECT_EQ(told.events.at(0).dispatch.candidates, instances);
  EXPECT_THAT(metrics.back().expose(), HasSubstr("godwit_dispatches_total{policy=\"bypass\"} 6"));
}

TEST_F(FrontendHistory, AStaleDecisionIsNotFollowed) {
  decide(1);
  decisions->answer = {};
  decisions->answer.stale = true;
  submit("a");
  EXPECT_EQ(history("a").events.at(0).dispatch.policy, "bypass");
  EXPECT_TRUE(history("a").owned);
}

TEST_F(FrontendHistory, ASchedulerThatDoesNotAnswerCostsARequestHalfASecondNotItsAnswer) {
  decide(1);
  decisions->mute = true;
  submit("a");
  world.run_for(400ms);
  EXPECT_FALSE(history("a").owned);
  world.run_for(200ms);
  EXPECT_TRUE(history("a").owned);
  EXPECT_EQ(history("a").events.at(0).dispatch.policy, "bypass");
}

TEST_F(FrontendHistory, ADeadSchedulerCostsNothing) {
  decide(1);
  system.stop(scheduler, runtime::stop_reason::killed);
  submit("a");
  EXPECT_TRUE(history("a").owned);
  EXPECT_EQ(history("a").events.at(0).dispatch.policy, "bypass");
}

TEST_F(FrontendHistory, AnInstanceThatDrainsGetsNoRequestsInTurn) {
  news.instances.edit()[1].draining = true;
  announce();
  for (int i = 0; i < 4; ++i) submit("a");
  EXPECT_EQ(journals[0]->admitted.size(), 2U);
  EXPECT_EQ(journals[1]->admitted.size(), 0U);
  EXPECT_EQ(journals[2]->admitted.size(), 2U);
}

TEST_F(FrontendHistory, ADecisionForAnInstanceThatDrainsIsAskedForAgain) {
  decide(1);
  news.instances.edit()[1].draining = true;
  announce();
  submit("a");
  world.run_for(100ms);
  EXPECT_EQ(journals[1]->admitted.size(), 0U);
  EXPECT_GT(decisions->asked.size(), 1U);
  decisions->answer.instance = instance_id{2};
  world.run_for(1s);
  EXPECT_EQ(history("a").instance, instance_id{2});
}

TEST_F(FrontendHistory, ARefusalLeavesNoTraceAndTheNextInTurnIsARetry) {
  decide(1);
  journals[1]->answer = protocols::refusal::queue_full;
  submit("a");
  const auto told = history("a");
  ASSERT_EQ(told.events.size(), 1U);
  EXPECT_NE(told.events[0].instance, instance_id{1});
  EXPECT_EQ(told.events[0].dispatch.policy, "retry");
  EXPECT_EQ(told.events[0].dispatch.candidates, 2U);
}

TEST_F(FrontendHistory, TheSchedulerIsAskedWithWhatIsLeftOfTheObjectives) {
  actors::frontend_options options;
  options.objectives.ttft_ns = std::chrono::nanoseconds(500ms).count();
  options.objectives.refusable = true;
  start(std::move(options));
  decide(1);
  decisions->answer.found = false; // nobody takes requests for now
  submit("a");
  submit("b", 0, 0, 100ms, 20ms);
  world.run_for(30ms);
  decisions->answer.found = true;
  world.run_for(200ms);
  ASSERT_TRUE(history("a").owned && history("b").owned);
  std::map<std::int64_t, std::vector<protocols::latency_objectives>> by_arrival;
  for (const auto& query : decisions->asked) by_arrival[query.arrival_ns].push_back(query.objectives);
  ASSERT_EQ(by_arrival.size(), 2U);
  const auto& of_a = by_arrival.begin()->second;
  const auto& of_b = by_arrival.rbegin()->second;
  EXPECT_EQ(of_a.front().ttft_ns, 500'000'000);
  EXPECT_EQ(of_a.front().tpot_ns, 0);
  EXPECT_TRUE(of_a.front().refusable);
  EXPECT_LT(of_a.back().ttft_ns, 500'000'000 - 10'000'000) << "its time runs while it looks for a place";
  EXPECT_EQ(of_b.front().ttft_ns, 100'000'000) << "its own";
  EXPECT_EQ(of_b.front().tpot_ns, 20'000'000);
  for (const auto& query : decisions->asked) { // for its place in a queue, which does not change
    EXPECT_EQ(query.ttft_ns, query.arrival_ns == by_arrival.begin()->first ? 500'000'000 : 100'000'000);
    EXPECT_FALSE(query.begun);
  }
  // Whoever was taken is not turned away for them.
  const auto asked = decisions->asked.size();
  auto& entries = news.instances.edit();
  entries.erase(entries.begin() + 1);
  decisions->answer.instance = instance_id{2};
  announce();
  ASSERT_EQ(decisions->asked.size(), asked + 2);
  for (auto i = asked; i < decisions->asked.size(); ++i)
    EXPECT_EQ(decisions->asked[i].objectives, protocols::latency_objectives{});
}

TEST_F(FrontendHistory, ARequestThatComesTooLateForItsObjectiveAsksForWhatNobodyCanDo) {
  actors::frontend_options options;
  options.objectives.ttft_ns = std::chrono::nanoseconds(5ms).count();
  start(std::move(options));
  decide(1);
  decisions->answer.found = false;
  submit("a");
  world.run_for(100ms);
  EXPECT_EQ(decisions->asked.back().objectives.ttft_ns, 1);
}

TEST_F(FrontendHistory, WhatTheSchedulerRejectsEndsAtOnceAndSaysWhatIsExpected) {
  decide(1);
  decisions->answer = {};
  decisions->answer.late = true;
  decisions->answer.ttft_ns = 1'234'500'000;
  decisions->answer.tpot_ns = 20'000'000;
  const auto sink = submit("a", 0, 0, 300ms, 10ms);
  ASSERT_TRUE(sink->failed);
  EXPECT_THAT(sink->failed->message, HasSubstr("the request's objectives: 300 ms"));
  EXPECT_EQ(sink->failed->kind, actors::failure_kind::rejected);
  EXPECT_THAT(sink->failed->message, HasSubstr("300 ms to the first token, where 1234 ms are expected from now"));
  EXPECT_THAT(sink->failed->message, HasSubstr("10 ms for each further one, where 20 ms are expected."));
  EXPECT_EQ(history("a").outcome, "rejected");
  EXPECT_THAT(metrics.back().expose(),
              HasSubstr("godwit_requests_total{outcome=\"rejected\",execution_priority=\"normal\"} 1"));
}

TEST_F(FrontendHistory, AMarginIsLeftOfObjectives) {
  actors::frontend_options options;
  options.objectives_margin = 0.25;
  start(std::move(options));
  decide(1);
  decisions->answer = {};
  decisions->answer.late = true;
  decisions->answer.ttft_ns = 310'000'000;
  const auto sink = submit("a", 0, 0, 400ms);
  EXPECT_EQ(decisions->asked.back().objectives.ttft_ns, 300'000'000);
  EXPECT_EQ(decisions->asked.back().objectives.tpot_ns, 0);
  ASSERT_TRUE(sink->failed);
  EXPECT_THAT(sink->failed->message, HasSubstr("objectives with a margin of 25 %: 400 ms to the first token, where "
                                               "310 ms are expected from now"));
}

TEST_F(FrontendHistory, HowLongAFirstTokenTookIsComparedWithWhatWasExpected) {
  decide(1);
  decisions->answer.why.ttft_ns = 10'000'000;
  submit("a");
  world.run_for(24ms); // and one that the submission itself took
  finish(history("a"), {7});
  EXPECT_THAT(metrics.back().expose(), HasSubstr("godwit_ttft_over_expected_count 1"));
  EXPECT_THAT(metrics.back().expose(), HasSubstr("godwit_ttft_over_expected_sum 2.5"));
  EXPECT_EQ(history("a").events.front().dispatch.ttft_ns, 10'000'000);
}

TEST_F(FrontendHistory, WhenEveryQueueIsFullTheClientIsToldSoInBypassModeToo) {
  for (auto& journal : journals) journal->answer = protocols::refusal::queue_full;
  const auto sink = submit("a");
  ASSERT_TRUE(sink->failed);
  EXPECT_EQ(sink->failed->kind, actors::failure_kind::overloaded);
  EXPECT_EQ(history("a").outcome, "overloaded");
}

// Its client has seen tokens, so it waits for a place instead of hearing that there is none.
TEST_F(FrontendHistory, ARequestWithTokensTriesEachInstanceAgainWhoseQueueWasFull) {
  submit("a");
  const auto placed = history("a");
  ASSERT_EQ(placed.instance, instance_id{0});
  protocols::token_updates updates;
  updates.updates.emplace_back(placed.request, placed.epoch, 0, std::vector{protocols::sampled_token{7}});
  system.tell(home, updates);
  world.run_for(1ms);
  for (auto& journal : journals) journal->answer = protocols::refusal::queue_full;
  auto& entries = news.instances.edit();
  entries.erase(entries.begin());
  announce();
  world.run_for(2s);
  EXPECT_FALSE(history("a").owned);
  EXPECT_GT(journals[1]->admitted.size(), 3U);
  EXPECT_LT(journals[1]->admitted.size(), 40U) << "with pauses";
  journals[2]->answer = protocols::refusal::none;
  world.run_for(1s);
  EXPECT_TRUE(history("a").owned);
  EXPECT_EQ(history("a").instance, instance_id{2});
}

TEST_F(FrontendHistory, ARequestThatWasTakenIsNotTurnedAwayWhenItsInstanceIsLostBeforeItsFirstToken) {
  const auto sink = submit("a");
  ASSERT_EQ(history("a").instance, instance_id{0});
  for (auto& journal : journals) journal->answer = protocols::refusal::queue_full;
  auto& entries = news.instances.edit();
  entries.erase(entries.begin());
  announce();
  world.run_for(2s);
  EXPECT_FALSE(sink->failed);
  journals[2]->answer = protocols::refusal::none;
  world.run_for(1s);
  EXPECT_EQ(history("a").instance, instance_id{2});
}

TEST_F(FrontendHistory, ARequestThatWasTakenDoesNotCompeteForPlacesInQueues) {
  submit("a");
  ASSERT_EQ(history("a").instance, instance_id{0});
  EXPECT_FALSE(journals[0]->admitted.at(0).taken_before);
  decisions->answer = {};
  decisions->answer.overloaded = true;
  auto& entries = news.instances.edit();
  entries.erase(entries.begin());
  news.scheduler = scheduler;
  announce();
  world.run_for(1s);
  EXPECT_TRUE(history("a").owned) << "whatever the scheduler says";
  EXPECT_TRUE(journals[1]->admitted.size() + journals[2]->admitted.size() == 1);
  for (const auto& journal : {journals[1], journals[2]})
    for (const auto& order : journal->admitted) EXPECT_TRUE(order.taken_before);
}

/// Says what it is told, and keeps what it hears.
class told_predictor final : public protocols::length_predictor {
public:
  struct journal {
    protocols::length_forecast answer{42, 3};
    std::vector<std::uint32_t> asked; ///< max_tokens
    std::vector<std::uint32_t> ended; ///< answers
  };
  explicit told_predictor(std::shared_ptr<journal> to) : to_(std::move(to)) {}
  protocols::length_forecast predict(const protocols::length_question& question) override {
    to_->asked.push_back(question.max_tokens);
    return to_->answer;
  }
  void ended(const protocols::length_question& question, std::uint32_t answer_tokens) override {
    EXPECT_EQ(question.prompt.size(), 3U);
    to_->ended.push_back(answer_tokens);
  }

private:
  std::shared_ptr<journal> to_;
};

TEST_F(FrontendHistory, WhatIsExpectedOfAnAnswerGoesWithItsRequestAndWhatItWasIsLearned) {
  const auto heard = std::make_shared<told_predictor::journal>();
  std::vector<std::uint32_t> seen;
  actors::frontend_options options;
  options.lengths = [heard] { return std::make_unique<told_predictor>(heard); };
  options.on_forecast = [&seen](protocols::request_id, protocols::length_forecast f) { seen.push_back(f.tokens); };
  start(std::move(options));
  const auto sink = submit("a", 0, 0, 7s);
  const auto& order = journals[0]->admitted.at(0);
  EXPECT_EQ(order.expected_tokens, 42U);
  EXPECT_EQ(order.ttft_ns, std::chrono::nanoseconds(7s).count());
  EXPECT_THAT(heard->asked, ::testing::ElementsAre(100));
  EXPECT_THAT(seen, ::testing::ElementsAre(42));
  finish(history("a"), {7, 8, 9, 10, 11});
  EXPECT_TRUE(sink->finished);
  EXPECT_THAT(heard->ended, ::testing::ElementsAre(5));
  EXPECT_NE(metrics.back().expose().find("godwit_length_forecasts_total{off=\"more\"} 1"), std::string::npos)
      << "[64, 128) was likely, and it had 5";

  const auto gone = submit("b");
  system.tell(home, actors::withdraw_request{gone});
  world.run_for(1ms);
  EXPECT_EQ(heard->ended.size(), 1U) << "nobody knows how long it would have been";
}

TEST_F(FrontendHistory, SamplesOfAPromptAreExpectedToBeAsLongAsTheFirstOne) {
  const auto heard = std::make_shared<told_predictor::journal>();
  actors::frontend_options options;
  options.lengths = [heard] { return std::make_unique<told_predictor>(heard); };
  start(std::move(options));
  const auto first = submit("a");
  heard->answer = {40, 3};
  auto one = std::make_shared<actors::submission>();
  one->request.prompt = {1, 2, 3};
  one->request.stop.max_tokens = 100;
  one->first_sample = first;
  one->sink = std::make_shared<recording_sink>();
  system.tell(home, actors::submit_request{std::move(one)});
  world.run_for(1ms);
  EXPECT_EQ(heard->asked.size(), 1U);
  ASSERT_EQ(journals[0]->admitted.size(), 2U);
  EXPECT_EQ(journals[0]->admitted[1].expected_tokens, 42U) << "or it might go before the one that it waits for";
}

/// Throws in everything.
class broken_predictor final : public protocols::length_predictor {
public:
  protocols::length_forecast predict(const protocols::length_question&) override {
    throw std::runtime_error("no idea");
  }
  void ended(const protocols::length_question&, std::uint32_t) override { throw std::runtime_error("no idea"); }
};

TEST_F(FrontendHistory, APredictorThatThrowsIsAskedNoMoreAndNobodySuffers) {
  for (const bool already : {true, false}) {
    actors::frontend_options options;
    options.lengths = [already]() -> std::unique_ptr<protocols::length_predictor> {
      if (already) throw std::runtime_error("no model");
      return std::make_unique<broken_predictor>();
    };
    start(std::move(options));
    const auto sink = submit("a");
    EXPECT_EQ(journals[0]->admitted.at(0).expected_tokens, 0U);
    finish(history("a"), {7});
    EXPECT_TRUE(sink->finished);
    EXPECT_TRUE(history("a").ended);
  }
}

TEST_F(FrontendHistory, WithoutAnybodyWhoKnowsNoLengthsAreExpected) {
  actors::frontend_options options;
  options.lengths = [] { return nullptr; };
  start(std::move(options));
  (void)submit("a");
  EXPECT_EQ(journals[0]->admitted.at(0).expected_tokens, 0U);
  finish(history("a"), {7});
}

TEST_F(FrontendHistory, LengthsAreLearnedFromTheAnswersBefore) {
  (void)submit("a");
  EXPECT_EQ(journals[0]->admitted.at(0).expected_tokens, 0U);
  finish(history("a"), {7, 8, 9, 10, 11});
  (void)submit("b");
  const auto& later = journals[1]->admitted.empty() ? journals[2]->admitted : journals[1]->admitted;
  EXPECT_EQ(later.at(0).expected_tokens, 5U);
}

TEST_F(FrontendHistory, WhatGoesOnWithSomethingIsNotTurnedAway) {
  decisions->answer = {};
  decisions->answer.overloaded = true;
  news.scheduler = scheduler;
  announce();
  const auto refused = submit("a");
  EXPECT_TRUE(refused->failed);
  auto one = std::make_shared<actors::submission>();
  const auto sink = std::make_shared<recording_sink>();
  one->request.prompt = {1, 2, 3};
  one->request.stop.max_tokens = 1;
  one->continues = true;
  one->client_id = "b";
  one->sink = sink;
  system.tell(home, actors::submit_request{std::move(one)});
  world.run_for(1s);
  EXPECT_FALSE(sink->failed);
  EXPECT_TRUE(history("b").owned);
  for (const auto& journal : journals)
    for (const auto& order : journal->admitted) EXPECT_TRUE(order.taken_before);
}

TEST(FrontendPlaces, WhatGoesOnNeedsNone) {
  sim_cluster cluster({.adjust = [](actors::node_options& o) { o.frontend.requests_max = 2; }});
  std::vector<std::shared_ptr<recording_sink>> sinks{cluster.submit(1, 10, 100), cluster.submit(2, 10, 100)};
  const auto refused = cluster.submit(3, 10, 20);
  auto more = std::make_shared<actors::submission>();
  sinks.push_back(std::make_shared<recording_sink>());
  more->request.prompt = {1, 2, 3};
  more->request.stop.max_tokens = 20;
  more->continues = true;
  more->sink = sinks.back();
  cluster.submit(std::move(more));
  EXPECT_TRUE(cluster.run_until_ended(sinks));
  for (const auto& sink : sinks) EXPECT_TRUE(sink->finished) << "a step of a search, between two of which others came";
  ASSERT_TRUE(refused->failed);
  EXPECT_EQ(refused->failed->kind, actors::failure_kind::overloaded);
}

TEST_F(FrontendHistory, AnInstanceWhoseWholePoolIsTooSmallIsAvoided) {
  journals[0]->answer = journals[1]->answer = protocols::refusal::never_fits;
  const auto sink = submit("a");
  world.run_for(1s);
  EXPECT_FALSE(sink->failed);
  EXPECT_EQ(history("a").instance, instance_id{2});
  journals[2]->answer = protocols::refusal::never_fits;
  const auto other = submit("b");
  world.run_for(1s);
  ASSERT_TRUE(other->failed) << "all are";
  EXPECT_EQ(other->failed->kind, actors::failure_kind::too_long);
  EXPECT_THAT(other->failed->message, ::testing::HasSubstr("larger KV cache"));
}

TEST_F(FrontendHistory, ALargerInstanceThatStartsIsWaitedFor) {
  journals[0]->answer = journals[1]->answer = protocols::refusal::never_fits;
  news.instances.edit()[2].ready = false;
  announce();
  const auto sink = submit("a");
  world.run_for(2s);
  EXPECT_FALSE(sink->failed);
  news.instances.edit()[2].ready = true;
  announce();
  world.run_for(1s);
  EXPECT_EQ(history("a").instance, instance_id{2});
  news.instances.edit()[2].ready = false;
  news.instances.edit()[2].llumlet = {};
  announce(); // 2 is lost, and the others are too small for good
  world.run_for(1h);
  ASSERT_TRUE(sink->failed);
  EXPECT_EQ(sink->failed->kind, actors::failure_kind::too_long);
}

TEST_F(FrontendHistory, ALossAndTheDispatchAfterItAreTold) {
  submit("a");
  news.instances.edit()[0].llumlet = {};
  news.instances.edit()[0].ready = false;
  announce();
  world.run_for(1s);
  const auto told = history("a");
  ASSERT_EQ(told.events.size(), 3U);
  EXPECT_EQ(told.events[1].what, request_event::kind::lost);
  EXPECT_EQ(told.events[1].instance, instance_id{0});
  EXPECT_EQ(told.events[1].epoch, epoch{1});
  EXPECT_EQ(told.events[2].what, request_event::kind::dispatched);
  EXPECT_EQ(told.events[2].instance, instance_id{1});
  EXPECT_EQ(told.events[2].epoch, epoch{2});
}

TEST_F(FrontendHistory, MigrationsAreToldWithTheirCauseWhetherCommittedOrNot) {
  submit("a");
  migrate(history("a"), 0, 2, protocols::migration_outcome::refused);
  migrate(history("a"), 0, 1, protocols::migration_outcome::committed);
  const auto told = history("a");
  EXPECT_EQ(told.instance, instance_id{1});
  EXPECT_EQ(told.epoch, epoch{2});
  ASSERT_EQ(told.events.size(), 3U);
  EXPECT_EQ(told.events[1].migration.outcome, protocols::migration_outcome::refused);
  EXPECT_EQ(told.events[2].migration.outcome, protocols::migration_outcome::committed);
  EXPECT_EQ(told.events[2].migration.cause.what, protocols::migration_cause::kind::freeness);
  EXPECT_EQ(told.events[2].migration.cause.source_before, 1.5);
}

TEST_F(FrontendHistory, MigrationsAreCountedByTheirCause) {
  actors::frontend_options options;
  options.migrations = std::make_shared<actors::migration_metrics>(metrics.emplace_back());
  const auto& page = metrics.back();
  start(std::move(options));
  submit("a");
  migrate(history("a"), 0, 1, protocols::migration_outcome::committed);
  EXPECT_THAT(page.expose(),
              HasSubstr("godwit_migrations_total{outcome=\"committed\",reason=\"none\",cause=\"freeness\"} 1"));
}

// Llumnix section 4.4.3: who drains moves its requests away; that must work though it takes none.
TEST_F(FrontendHistory, ADrainingInstanceMayStillGiveAndReclaimAndFinishAClaim) {
  submit("a");
  const auto before = history("a");
  for (auto& entry : news.instances.edit()) entry.draining = true;
  announce();
  EXPECT_TRUE(history("a").owned) << "draining is no loss";
  const auto kept = system.ask(home, 1s, protocols::reclaim_request{before.request, before.epoch});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->how, protocols::ownership_reclaim::answer::granted);
  // The destination began to drain after it had taken part.
  migrate(history("a"), 0, 1, protocols::migration_outcome::committed);
  EXPECT_EQ(history("a").instance, instance_id{1});
}

TEST_F(FrontendHistory, AnEndedRequestIsStillKnownByNameAndNumber) {
  submit("a");
  const auto open = history("a");
  world.run_for(1s);
  finish(open, {10, 11});
  world.run_for(1s);
  for (const auto& told : {history("a"), history(open.request)}) {
    ASSERT_TRUE(told.found);
    EXPECT_TRUE(told.ended);
    EXPECT_EQ(told.outcome, "length");
    EXPECT_EQ(told.answer_tokens, 2U);
    EXPECT_EQ(told.events.size(), 1U);
    EXPECT_LT(told.age_ns, std::chrono::nanoseconds(1100ms).count()) << "what it took, not what went by since";
  }
}

TEST_F(FrontendHistory, AMigrationWhoseReportComesAfterTheEndIsToldToo) {
  submit("a");
  const auto open = history("a");
  finish(open, {10});
  migrate(open, 0, 1, protocols::migration_outcome::aborted);
  EXPECT_EQ(history("a").events.size(), 2U);
}

TEST_F(FrontendHistory, AnOrderThatComesAfterTheEndIsNoneOfItsHistory) {
  submit("a");
  const auto open = history("a");
  finish(open, {10});
  actors::migrate_request order;
  order.request = open.request;
  order.to = protocols::instance_id{1};
  const auto report = system.ask(home, 1s, order);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, protocols::migration_reason::request_unknown);
  EXPECT_EQ(history("a").events.size(), 1U);
}

TEST_F(FrontendHistory, AnOrderToNobodyNamesWhereTheRequestIs) {
  submit("a");
  actors::migrate_request order;
  order.request = history("a").request;
  order.to = protocols::instance_id{7};
  const auto report = system.ask(home, 1s, order);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->reason, protocols::migration_reason::destination_not_ready);
  EXPECT_EQ(report->source, history("a").instance);
  EXPECT_EQ(report->epoch, history("a").epoch);
}

TEST_F(FrontendHistory, AClientThatGoesAwayLeavesAHistoryThatSaysSo) {
  auto sink = submit("a");
  system.tell(home, actors::withdraw_request{sink});
  world.run_for(1ms);
  EXPECT_EQ(history("a").outcome, "cancelled");
}

TEST_F(FrontendHistory, OfSeveralOfOneNameTheFirstOpenOneIsToldAndTheOthersNamed) {
  for (int i = 0; i < 3; ++i) submit("a");
  const auto first = history("a");
  ASSERT_EQ(first.namesakes.size(), 2U);
  EXPECT_LT(first.request, first.namesakes[0]);
  EXPECT_LT(first.namesakes[0], first.namesakes[1]);
  EXPECT_EQ(history(first.namesakes[1]).request, first.namesakes[1]);
  finish(first, {10});
  EXPECT_EQ(history("a").request, first.namesakes[0]) << "the open ones come first";
  finish(history("a"), {10});
  finish(history("a"), {10});
  EXPECT_EQ(history("a").request, first.namesakes[1]) << "of ended ones the last";
  EXPECT_EQ(history("a").namesakes.size(), 2U);
}

TEST_F(FrontendHistory, WhatNobodyAskedForIsNotFound) {
  EXPECT_FALSE(history("nobody").found);
  EXPECT_FALSE(history(protocols::request_id{99}).found);
}

TEST_F(FrontendHistory, TheOldestEventsAreDroppedAndCounted) {
  submit("a");
  for (int i = 0; i < 40; ++i) migrate(history("a"), 0, 2, protocols::migration_outcome::refused);
  const auto told = history("a");
  EXPECT_EQ(told.events.size(), 32U);
  EXPECT_EQ(told.events_dropped, 9U);
  EXPECT_EQ(told.events[0].what, request_event::kind::migrated);
}

TEST_F(FrontendHistory, OnlyTheLastEndedRequestsAreKept) {
  actors::frontend_options options;
  options.ended_max = 4;
  start(std::move(options));
  for (int i = 0; i < 6; ++i) {
    submit("r" + std::to_string(i));
    finish(history("r" + std::to_string(i)), {10});
  }
  EXPECT_FALSE(history("r1").found);
  EXPECT_TRUE(history("r2").found);
  EXPECT_TRUE(history("r5").found);
}

TEST_F(FrontendHistory, RequestsAreCountedByTheNameOfTheirExecutionPriority) {
  actors::frontend_options options;
  options.execution_levels = {"normal", "high"};
  start(std::move(options));
  submit("a", 0, 1);
  EXPECT_EQ(history("a").execution_priority, "high");
  finish(history("a"), {10});
  const auto page = metrics.back().expose();
  EXPECT_THAT(page, HasSubstr("godwit_requests_total{outcome=\"length\",execution_priority=\"high\"} 1"));
  EXPECT_THAT(page, HasSubstr("godwit_time_to_first_token_seconds_count{execution_priority=\"high\"} 1"));
  EXPECT_THAT(page, HasSubstr("godwit_time_to_first_token_seconds_count{execution_priority=\"normal\"} 0"));
}

} // namespace godwit::test
