// The global scheduler among llumlets that only keep what they are told: what it decides from which reports, what it
// forgets, and what marks it sends.
#include "actors/support/idle_llumlet.hpp"

#include <godwit/actors/global_scheduler.hpp>
#include <godwit/runtime/log/string_backend.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_id;
using protocols::load_report;
using protocols::migration_cause;
using protocols::migration_policy;
using ::testing::HasSubstr;

namespace {

/// Asks many questions at once and keeps who got an instance.
struct start_asking {
  start_asking() noexcept {}
  auto fields() { return std::tie(); }
};
struct asker_interface : runtime::interface<void(start_asking)> {};
class asker final : public runtime::actor<asker_interface> {
public:
  struct journal {
    std::vector<actors::dispatch_query> queries;
    std::vector<std::size_t> placed, refused; ///< indices
    std::vector<std::size_t> left;            ///< of those who are to dispatch without the scheduler
  };
  asker(runtime::actor_context context, runtime::handle<actors::scheduler_interface> whom, std::shared_ptr<journal> to)
      : actor(context), whom_(std::move(whom)), to_(std::move(to)) {}
  [[nodiscard]] runtime::behavior_of<asker_interface> make_behavior() override {
    return {[this](start_asking&) {
      for (std::size_t i = 0; i < to_->queries.size(); ++i) start(ask_one(i));
    }};
  }

private:
  runtime::async::task<void> ask_one(std::size_t index) {
    const auto answer = co_await ask(whom_, 10s, to_->queries[index]);
    if (!answer || answer->stale) {
      to_->left.push_back(index);
      co_return;
    }
    EXPECT_TRUE(answer->found || answer->overloaded);
    (answer->found ? to_->placed : to_->refused).push_back(index);
  }
  runtime::handle<actors::scheduler_interface> whom_;
  std::shared_ptr<journal> to_;
};

/// A policy as an embedder may have.
class highest_id final : public protocols::dispatcher {
public:
  [[nodiscard]] std::string_view name() const noexcept override { return "highest_id"; }

private:
  [[nodiscard]] double rate(const load_report& report, const picked_load&) const noexcept override {
    return report.instance.value();
  }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
};

/// One that chooses as it is told.
class own_choice final : public protocols::dispatcher {
public:
  using function = std::function<std::size_t(std::size_t places, const protocols::dispatch_demand& demand)>;
  explicit own_choice(function choose) : choose_(std::move(choose)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "own_choice"; }

private:
  [[nodiscard]] double rate(const load_report&, const picked_load&) const noexcept override { return 0; }
  [[nodiscard]] double score(double rating) const noexcept override { return rating; }
  [[nodiscard]] finding find(const std::vector<place>& places, const protocols::dispatch_demand& demand) override {
    finding out;
    out.best = choose_(places.size(), demand);
    out.candidates = static_cast<std::uint32_t>(places.size());
    return out;
  }
  function choose_;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class Scheduler : public ::testing::Test {
protected:
  void start(std::uint32_t count, const std::function<void(actors::scheduler_options&)>& adjust = {},
             std::uint64_t seed = 1) {
    stop();
    world = std::make_unique<runtime::sim::world>(seed);
    system = std::make_unique<runtime::sim::system>(*world, runtime::sim::system_settings{});
    actors::scheduler_options o;
    o.metrics = std::make_shared<actors::scheduler_metrics>(*metrics);
    o.on_report = [this](const load_report& report) { seen.push_back(report.instance.value()); };
    lines = std::make_shared<runtime::log::string_backend>();
    o.log = runtime::log::logger(lines, runtime::log::level_filter(runtime::log::level::error));
    if (adjust) adjust(o);
    scheduler = system->spawn<actors::global_scheduler>(std::move(o));
    for (std::uint32_t i = 0; i < count; ++i) {
      journals.push_back(std::make_shared<idle_llumlet::journal>());
      llumlets.emplace_back(system->spawn<idle_llumlet>(journals.back()));
      news.instances.edit().emplace_back(instance_id{i}, 1, true, llumlets.back());
    }
    announce();
  }
  void stop() {
    news = {};
    scheduler = {};
    for (auto& journal : journals) journal->marks.clear(); // handles go before their system
    journals.clear();
    llumlets.clear();
    if (system) {
      EXPECT_TRUE(system->shutdown());
    }
    system.reset();
    world.reset();
    metrics = std::make_unique<runtime::metrics::registry>();
  }
  void SetUp() override { stop(); }
  void TearDown() override { stop(); }

  void announce() {
    news.version = ++version;
    system->tell(scheduler, news);
    world->run_for(1us);
  }
  /// 64 blocks, of which so many are used by so many running requests.
  load_report load(std::uint32_t instance, std::uint32_t used, std::uint32_t running) {
    load_report r{instance_id{instance}, 1, ++sequence, true};
    r.blocks_total = 64;
    r.blocks_used = used;
    r.running = running;
    r.running_max = 16;
    r.waiting_max = 64;
    return r;
  }
  void report(const load_report& r) {
    system->tell(scheduler, r);
    world->run_for(1us);
  }
  /// These say the same each 50 ms.
  void run_with(const std::vector<load_report>& loads, std::chrono::milliseconds time) {
    for (auto left = time; left > 0ms; left -= 50ms) {
      for (auto r : loads) {
        r.sequence = ++sequence;
        report(r);
      }
      world->run_for(50ms);
    }
  }
  actors::dispatch_decision decide(std::int32_t priority = 0) {
    const auto answer = system->ask(scheduler, 1s, actors::dispatch_query{20, 10, priority});
    EXPECT_TRUE(answer);
    return answer ? *answer : actors::dispatch_decision{};
  }
  std::set<std::uint32_t> picked(int questions = 30) {
    std::set<std::uint32_t> out;
    for (int i = 0; i < questions; ++i)
      if (const auto d = decide(); d.found) out.insert(d.instance.value());
    return out;
  }
  protocols::scheduling_status status() {
    const auto answer = system->ask(scheduler, 1s, actors::status_query{});
    EXPECT_TRUE(answer);
    return answer ? answer->scheduling : protocols::scheduling_status{};
  }

  /// With a policy that chooses like this.
  void start_choosing(std::uint32_t count, const own_choice::function& choose) {
    start(count, [&](auto& o) {
      o.dispatchers["own_choice"] = [choose] { return std::make_unique<own_choice>(choose); };
      o.policies.dispatch = "own_choice";
    });
  }

  std::shared_ptr<runtime::log::string_backend> lines;
  std::unique_ptr<runtime::metrics::registry> metrics;
  std::unique_ptr<runtime::sim::world> world;
  std::unique_ptr<runtime::sim::system> system;
  runtime::handle<actors::scheduler_interface> scheduler;
  std::vector<std::shared_ptr<idle_llumlet::journal>> journals;
  std::vector<runtime::handle<actors::llumlet_interface>> llumlets;
  std::vector<std::uint32_t> seen;
  actors::topology news;
  std::uint64_t version = 0, sequence = 0;
};

} // namespace

// An instance dies, and its requests try again until everybody has heard of it.
TEST_F(Scheduler, WhatNeverArrivedFillsNoQueue) {
  start(1);
  report(load(0, 0, 0));
  actors::dispatch_query query{20, 10, 0};
  for (int i = 0; i < 200; ++i) {
    const auto answer = system->ask(scheduler, 1s, query);
    ASSERT_TRUE(answer && answer->found) << i;
    query.failed = answer->number;
    query.failed_at = answer->instance;
  }
  const auto view = system->ask(scheduler, 1s, actors::status_query{});
  ASSERT_TRUE(view);
  ASSERT_EQ(view->under_way.size(), 1U);
  EXPECT_EQ(view->under_way.front().requests, 1U);
}

TEST_F(Scheduler, SaysWhatIsExpectedWhereObjectivesAreOutOfReach) {
  start(1);
  auto busy = load(0, 10, 2);
  busy.prefill_tokens = 1000;
  busy.step_tokens = 512;
  busy.pace.knows_prompts = true;
  busy.pace.token = 1e6;
  busy.pace.decode = 30e6;
  report(busy);
  actors::dispatch_query query{100, 10, 0};
  query.objectives.ttft_ns = 500'000'000;
  query.objectives.tpot_ns = 50'000'000;
  const auto served = system->ask(scheduler, 1s, query);
  ASSERT_TRUE(served && served->found) << "late, where it may not be refused";
  EXPECT_EQ(served->why.ttft_ns, 1'100'000'000);
  query.objectives.refusable = true;
  const auto late = system->ask(scheduler, 1s, query);
  ASSERT_TRUE(late);
  EXPECT_FALSE(late->found || late->overloaded || late->stale);
  EXPECT_TRUE(late->late);
  EXPECT_EQ(late->ttft_ns, 1'200'000'000) << "the one before is on its way there";
  EXPECT_EQ(late->tpot_ns, 30'000'000);
}

// What an instance was sent before binds no request to it that did not get there.
TEST_F(Scheduler, ADispatchThatFailedIsTriedElsewhere) {
  start(2);
  for (std::uint32_t i = 0; i < 2; ++i) report(load(i, 0, 0));
  actors::dispatch_query query{200, 10, 0};
  query.prefix = {1, 2, 3};
  const auto first = system->ask(scheduler, 1s, query);
  ASSERT_TRUE(first && first->found);
  query.failed = first->number;
  query.failed_at = first->instance;
  const auto second = system->ask(scheduler, 1s, query);
  ASSERT_TRUE(second && second->found);
  EXPECT_NE(second->instance, first->instance);
  EXPECT_EQ(second->why.prefix_tokens, 0U);
}

// Llumnix section 4.4.3: highest scheduling priority first, first come first served within.
TEST_F(Scheduler, OfQueriesThatWaitTogetherTheMostUrgentIsDecidedFirstThenTheOldest) {
  int urgent = 0, together = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    start(1, {}, seed);
    auto full = load(0, 60, 15); // one place in the batch, none in the queue
    full.waiting_max = 1;
    full.waiting = 1;
    report(full);
    const auto journal = std::make_shared<asker::journal>();
    for (int i = 0; i < 8; ++i) {
      auto& query = journal->queries.emplace_back(20U, 10U, i == 7 ? -1 : 5);
      query.arrival_ns = 100 - i; // of those before, the later sent one is the older one
    }
    const auto who = system->spawn<asker>(scheduler, journal);
    system->tell(who, start_asking{});
    world->run_for(1ms);
    ASSERT_EQ(journal->placed.size(), 1U) << "seed " << seed;
    ASSERT_EQ(journal->refused.size(), 7U);
    urgent += journal->placed[0] == 7 ? 1 : 0;
    together += journal->placed[0] != 0 ? 1 : 0;
  }
  EXPECT_GT(together, 5) << "the first that was sent does not win where others waited with it";
  EXPECT_GT(urgent, 0);
}

TEST_F(Scheduler, MoreQueriesThanMayWaitAreAnsweredThatTheQueuesAreFull) {
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    start(
        1, [](auto& o) { o.queries_max = 3; }, seed);
    auto roomy = load(0, 1, 1);
    roomy.waiting_max = 1000;
    report(roomy);
    const auto journal = std::make_shared<asker::journal>();
    journal->queries.assign(200, actors::dispatch_query{20, 10, 0});
    const auto who = system->spawn<asker>(scheduler, journal);
    system->tell(who, start_asking{});
    world->run_for(1ms);
    EXPECT_EQ(journal->placed.size() + journal->refused.size(), 200U) << "each has its answer; seed " << seed;
    EXPECT_GE(journal->placed.size(), 3U);
    refused += journal->refused.size();
  }
  EXPECT_GT(refused, 0U) << "no run reaches what it is for";
}

// Two or three quick requests could go to one instance, whose reports were made before the first of them came.
TEST_F(Scheduler, AReportThatDoesNotNameADecisionDoesNotTakeItBack) {
  start(2, [](auto& o) { o.policies.dispatch = "least_requests"; });
  const auto say = [this](std::uint32_t instance, std::uint32_t running, std::uint64_t dispatched) {
    auto r = load(instance, running, running);
    r.dispatched = dispatched;
    report(r);
  };
  say(0, 0, 0);
  say(1, 0, 0);
  const auto first = decide();
  EXPECT_GT(first.number, 0U);
  const auto whom = first.instance.value();
  say(whom, 0, 0);
  const auto second = decide();
  EXPECT_EQ(second.instance, instance_id{1 - whom});
  EXPECT_GT(second.number, first.number);
  say(whom, 1, first.number); // it runs there now, and is one, not two
  say(1 - whom, 0, 0);
  const auto third = decide();
  EXPECT_EQ(third.why.score, 1);
  EXPECT_EQ(third.why.runner_up, 1);
}

// Otherwise the numbers that instances have heard would be above all that a successor gives.
TEST_F(Scheduler, ItsDecisionsAreNumberedAboveThoseOfItsPredecessor) {
  start(2);
  report(load(0, 0, 0));
  report(load(1, 0, 0));
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) last = decide().number;
  system->stop(scheduler);
  world->run_for(1ms);
  scheduler = system->spawn<actors::global_scheduler>(actors::scheduler_options{});
  announce();
  auto heard = load(0, 0, 0);
  heard.dispatched = last;
  report(heard);
  news.instances.edit().pop_back();
  announce();
  const auto next = decide();
  EXPECT_GT(next.number, last);
  heard.sequence = ++sequence;
  report(heard);
  EXPECT_EQ(decide().why.blocks, next.why.blocks);
  actors::scheduling_policies wish;
  wish.dispatch = "least_requests";
  system->tell(scheduler, wish);
  world->run_for(1us);
  EXPECT_EQ(decide().why.score, 2) << "the old number counts none of the new ones";
}

TEST_F(Scheduler, WhatAnInstanceHoldsBackOfAPredecessorIsNoneOfItsOwn) {
  start(1, [](auto& o) { o.policies.dispatch = "least_requests"; });
  report(load(0, 0, 0));
  const auto before = decide().number;
  system->stop(scheduler);
  world->run_for(1ms);
  actors::scheduler_options anew;
  anew.policies.dispatch = "least_requests";
  scheduler = system->spawn<actors::global_scheduler>(std::move(anew));
  announce();
  report(load(0, 0, 0));
  const auto own = decide().number;
  auto busy = load(0, 0, 0);
  busy.dispatched = own;
  busy.held_back = {before, own};
  report(busy);
  EXPECT_EQ(decide().why.score, 1) << "one is held back";
}

TEST_F(Scheduler, PoliciesOfOnesOwnDecideWhenTheyAreNamed) {
  start(3, [](auto& o) {
    o.dispatchers["highest_id"] = [] { return std::make_unique<highest_id>(); };
    o.policies.dispatch = "highest_id";
  });
  for (std::uint32_t i = 0; i < 3; ++i) report(load(i, 10 * i, i)); // the first is the freest
  EXPECT_EQ(picked(), std::set<std::uint32_t>{2});
  EXPECT_EQ(status().dispatch_policy, "highest_id");
  EXPECT_EQ(decide().why.score, 2);
  actors::scheduling_policies wish;
  wish.dispatch = "round_robin";
  system->tell(scheduler, wish);
  world->run_for(1us);
  EXPECT_EQ(picked(), (std::set<std::uint32_t>{0, 1, 2}));
  wish.dispatch = "highest_id";
  system->tell(scheduler, wish);
  world->run_for(1us);
  EXPECT_EQ(picked(), std::set<std::uint32_t>{2});
}

TEST_F(Scheduler, APairingOfOnesOwnIsAskedEachRoundWithThePolicyInForce) {
  std::vector<migration_policy> asked;
  std::vector<std::uint64_t> rounds;
  start(3, [&](auto& o) {
    o.pair = [&](const std::vector<load_report>& loads, const protocols::pairing_settings& settings,
                 std::uint64_t round) {
      asked.push_back(settings.policy);
      rounds.push_back(round);
      EXPECT_EQ(loads.size(), 3U);
      return std::vector<protocols::migration_pair>{{instance_id{0}, instance_id{2}}};
    };
  });
  const auto same = {load(0, 10, 1), load(1, 10, 1), load(2, 10, 1)}; // of which the built-in one pairs none
  run_with(same, 450ms);
  EXPECT_EQ(rounds, (std::vector<std::uint64_t>{1, 2}));
  const auto pairs = status().pairs;
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].first, instance_id{0});
  EXPECT_EQ(pairs[0].second, instance_id{2});
  ASSERT_FALSE(journals[0]->marks.empty());
  EXPECT_EQ(journals[0]->marks.back().destinations.front().to, instance_id{2});
  actors::scheduling_policies paused;
  paused.migration_paused = true;
  system->tell(scheduler, paused);
  world->run_for(1us);
  EXPECT_EQ(asked, (std::vector{migration_policy::freeness, migration_policy::freeness, migration_policy::none}));
}

TEST_F(Scheduler, AnAutoscalerOfOnesOwnIsAskedUnlessScalingIsOff) {
  int asked = 0;
  start(2, [&](auto& o) {
    o.scale = [&](const protocols::scaling_view& view) {
      ++asked;
      protocols::scaling_decision one;
      one.why = std::to_string(view.loads.size()) + " are too few";
      return std::optional{one};
    };
  });
  const auto loads = {load(0, 10, 1), load(1, 10, 1)};
  run_with(loads, 450ms);
  EXPECT_EQ(asked, 0);
  actors::scheduling_policies dry;
  dry.scaling = protocols::scaling_mode::dry_run;
  system->tell(scheduler, dry);
  run_with(loads, 200ms);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(status().scaling_last, "out (dry run): 2 are too few");
}

// Whoever embeds it may err; what the others do must not end with that.
TEST_F(Scheduler, APairingThatThrowsPairsNobodyInThatRoundAndTheNextOneGoesOn) {
  int asked = 0;
  bool throws = false;
  start(2, [&](auto& o) {
    o.pair = [&](const std::vector<load_report>&, const protocols::pairing_settings&, std::uint64_t) {
      ++asked;
      if (throws) throw std::runtime_error("no such table");
      return std::vector<protocols::migration_pair>{{instance_id{0}, instance_id{1}}};
    };
  });
  const auto loads = {load(0, 10, 1), load(1, 10, 1)};
  run_with(loads, 250ms);
  EXPECT_EQ(status().pairs.size(), 1U);
  throws = true;
  run_with(loads, 400ms);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(status().rounds_total, 3U);
  EXPECT_TRUE(status().pairs.empty());
  ASSERT_FALSE(journals[0]->marks.empty());
  EXPECT_TRUE(journals[0]->marks.back().destinations.empty()) << "unmarked";
  EXPECT_EQ(count_of(lines->text(), "the pairing failed: no such table"), 1U) << lines->text();
  throws = false;
  run_with(loads, 200ms);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(status().pairs.size(), 1U);
}

TEST_F(Scheduler, OfAPairingOfOnesOwnIsLeftOutWhatMakesNoSense) {
  std::vector<protocols::migration_pair> pairs;
  const auto pair = [](std::uint32_t from, std::uint32_t to) {
    return protocols::migration_pair{instance_id{from}, instance_id{to}};
  };
  start(3, [&](auto& o) {
    o.pair = [&](const std::vector<load_report>&, const protocols::pairing_settings&, std::uint64_t) { return pairs; };
  });
  const auto loads = {load(0, 10, 1), load(1, 10, 1), load(2, 10, 1)};
  const auto expect = [&](std::vector<protocols::migration_pair> said, const std::string& blamed) {
    pairs = std::move(said);
    const auto before = lines->text().size();
    run_with(loads, 11s); // what is wrong otherwise is said ten seconds later
    const auto text = lines->text().substr(before);
    const auto now = status().pairs;
    ASSERT_EQ(now.size(), 1U) << blamed;
    EXPECT_EQ(now[0].first, instance_id{0}) << blamed;
    EXPECT_EQ(now[0].second, instance_id{2}) << blamed;
    EXPECT_EQ(count_of(text, "the pairing failed: "), blamed.empty() ? 0U : 1U) << text;
    EXPECT_THAT(text, HasSubstr(blamed));
  };
  expect({pair(0, 2)}, "");
  expect({pair(1, 1), pair(0, 2)}, "the pairing failed: it pairs instance 1 with itself");
  expect({pair(0, 2), pair(1, 9)}, "the pairing failed: there is no instance 9");
  expect({pair(7, 1), pair(0, 2)}, "the pairing failed: there is no instance 7");
  expect(std::vector(100'000, pair(0, 2)), "the pairing failed: instance 0 is the source of two pairs");
}

// A prefill instance may have several destinations, one after the other, and no more than in the built-in pairing.
TEST_F(Scheduler, APairingOfOnesOwnMayHandOverToSeveral) {
  std::vector<protocols::migration_pair> pairs;
  const auto pair = [](std::uint32_t from, std::uint32_t to) {
    return protocols::migration_pair{instance_id{from}, instance_id{to}};
  };
  start(3, [&](auto& o) {
    o.pair = [&](const std::vector<load_report>&, const protocols::pairing_settings&, std::uint64_t) { return pairs; };
  });
  auto prefill = load(0, 10, 1), other = load(1, 10, 1);
  prefill.role = protocols::instance_role::prefill;
  const auto kept = [&](std::vector<protocols::migration_pair> said) {
    pairs = std::move(said);
    run_with({prefill, other, load(2, 10, 1)}, 1s);
    return status().pairs.size();
  };
  EXPECT_EQ(kept({pair(0, 1), pair(0, 2)}), 2U);
  ASSERT_FALSE(journals[0]->marks.empty());
  EXPECT_EQ(journals[0]->marks.back().destinations.size(), 2U) << "in one mark";
  EXPECT_EQ(journals[0]->marks.back().why, migration_cause::kind::handoff);
  EXPECT_EQ(lines->text().find("the pairing failed"), std::string::npos);
  EXPECT_EQ(kept({pair(0, 1), pair(1, 2), pair(0, 2)}), 2U) << "not together";
  EXPECT_EQ(kept({pair(1, 2), pair(1, 0)}), 1U) << "no prefill instance";
  EXPECT_EQ(kept(std::vector(100'000, pair(0, 2))), protocols::handoff_destinations);
  other.role = protocols::instance_role::prefill;
  EXPECT_EQ(kept({pair(0, 1), pair(0, 2)}), 1U) << "the first hands nothing over";
}

TEST_F(Scheduler, APairingThatIsWrongInAnotherWayEachRoundIsBlamedEveryTenSeconds) {
  std::uint32_t rounds = 0;
  start(2, [&](auto& o) {
    o.pair = [&](const std::vector<load_report>&, const protocols::pairing_settings&, std::uint64_t) {
      return std::vector{protocols::migration_pair{instance_id{0}, instance_id{++rounds + 10}}};
    };
  });
  run_with({load(0, 10, 1), load(1, 10, 1)}, 25s);
  EXPECT_GT(rounds, 100U);
  EXPECT_EQ(count_of(lines->text(), "the pairing failed: there is no instance "), 3U) << lines->text();
}

TEST_F(Scheduler, AnAutoscalerOfOnesOwnWantsNoMoreAtOnceThanThereMayBe) {
  start(1, [&](auto& o) {
    o.policies.scaling = protocols::scaling_mode::dry_run;
    o.scaling.instances_max = 5;
    o.scale = [](const protocols::scaling_view&) {
      protocols::scaling_decision many;
      many.count = 4'000'000'000;
      many.why = "a slip of the pen";
      return std::optional{many};
    };
  });
  run_with({load(0, 10, 1)}, 250ms);
  EXPECT_EQ(status().scaling_last, "out (dry run): a slip of the pen (4 instances)") << "there is one already";
}

// Its reports may say only later that an instance leaves.
TEST_F(Scheduler, AnAutoscalerOfOnesOwnDrainsNoMoreThanMayLeave) {
  std::uint32_t next = 0;
  start(4, [&](auto& o) {
    o.policies.scaling = protocols::scaling_mode::on;
    o.scaling.instances_min = 2;
    o.scale = [&](const protocols::scaling_view&) {
      protocols::scaling_decision less;
      less.what = protocols::scaling_decision::kind::in;
      less.instance = instance_id{next++ % 4};
      less.why = "night";
      return std::optional{less};
    };
  });
  run_with({load(0, 10, 1), load(1, 10, 1), load(2, 10, 1), load(3, 10, 1)}, 2s);
  EXPECT_GT(next, 5U);
  EXPECT_THAT(metrics->expose(), HasSubstr("godwit_scaling_decisions_total{decision=\"in\",dry=\"false\"} 2\n"));
}

TEST_F(Scheduler, AnAutoscalerOfOnesOwnThatMayHaveNoneDecidesNothing) {
  start(1, [&](auto& o) {
    o.policies.scaling = protocols::scaling_mode::on;
    o.scaling.instances_max = 0;
    o.scale = [](const protocols::scaling_view&) { return std::optional{protocols::scaling_decision{}}; };
  });
  run_with({load(0, 10, 1)}, 250ms);
  EXPECT_EQ(status().scaling_last, "");
  EXPECT_EQ(count_of(lines->text(), "scaling "), 0U) << lines->text();
}

TEST_F(Scheduler, AnAutoscalerThatThrowsIsAskedAgainTheNextRound) {
  int asked = 0;
  start(1, [&](auto& o) {
    o.policies.scaling = protocols::scaling_mode::dry_run;
    o.scale = [&](const protocols::scaling_view&) -> std::optional<protocols::scaling_decision> {
      if (++asked < 3) throw std::runtime_error("the forecast is not there");
      protocols::scaling_decision one;
      one.why = "it is";
      return one;
    };
  });
  run_with({load(0, 10, 1)}, 650ms);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(status().rounds_total, 3U);
  EXPECT_EQ(status().scaling_last, "out (dry run): it is");
  EXPECT_EQ(count_of(lines->text(), "the autoscaling failed: the forecast is not there"), 1U) << lines->text();
}

// Homes then dispatch in turn, and need not wait until the policy has thought better of it.
TEST_F(Scheduler, ADispatchPolicyThatThrowsHasHomesDispatchWithoutItUntilItDoesNot) {
  bool throws = true;
  start_choosing(2, [&](std::size_t, const protocols::dispatch_demand&) -> std::size_t {
    if (throws) throw std::runtime_error("no such table");
    return 1;
  });
  for (std::uint32_t i = 0; i < 2; ++i) report(load(i, 10, 1));
  for (int i = 0; i < 3; ++i) {
    const auto none = decide();
    EXPECT_FALSE(none.found);
    EXPECT_TRUE(none.stale);
    EXPECT_FALSE(none.overloaded);
  }
  EXPECT_EQ(count_of(lines->text(), "the dispatch policy failed: no such table"), 1U) << lines->text();
  throws = false;
  EXPECT_EQ(decide().instance, instance_id{1});
}

// Nobody knows then what its books are worth. Homes hear of it, and dispatch without it.
TEST_F(Scheduler, EndsWithAllThatStandInItsLineWhenItsBooksAreWrong) {
  bool throws = true;
  start_choosing(2, [&](std::size_t, const protocols::dispatch_demand&) -> std::size_t {
    if (std::exchange(throws, false)) throw protocols::contract_violation("an instance has two places");
    return 1;
  });
  for (std::uint32_t i = 0; i < 2; ++i) report(load(i, 10, 1));
  const auto journal = std::make_shared<asker::journal>();
  journal->queries.assign(4, actors::dispatch_query{20, 10, 0});
  system->tell(system->spawn<asker>(scheduler, journal), start_asking{});
  world->run_for(100ms);
  EXPECT_EQ(journal->left.size(), 4U) << "at once, and not when they are tired of waiting";
  EXPECT_FALSE(system->ask(scheduler, 1s, actors::status_query{})) << "its node starts another";
}

TEST_F(Scheduler, APolicyIsToldWhoseRequestItIsAndWithWhichAdapter) {
  protocols::dispatch_demand told;
  start_choosing(1, [&](std::size_t, const protocols::dispatch_demand& demand) -> std::size_t {
    told = demand;
    return 0;
  });
  report(load(0, 10, 1));
  actors::dispatch_query query{20, 77, 0};
  query.request = protocols::request_id{5};
  query.adapter = 6;
  query.salt = 7;
  ASSERT_TRUE(system->ask(scheduler, 1s, query));
  EXPECT_EQ(told.request, protocols::request_id{5});
  EXPECT_EQ(told.adapter, 6U);
  EXPECT_EQ(told.salt, 7U);
  EXPECT_EQ(told.answer_tokens_max, 77U);
}

TEST_F(Scheduler, APolicyIsToldWhatARequestsPlaceInAQueueDependsOn) {
  std::vector<protocols::queued_request> told;
  start_choosing(1, [&](std::size_t, const protocols::dispatch_demand& demand) -> std::size_t {
    told.push_back(demand.in_queue.value_or(protocols::queued_request{}));
    return 0;
  });
  report(load(0, 10, 1));
  actors::dispatch_query query{20, 10, -3};
  query.arrival_ns = 77;
  query.begun = true;
  query.expected_tokens = 40;
  query.ttft_ns = 5'000'000;
  ASSERT_TRUE(system->ask(scheduler, 1s, std::move(query)));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].priority, -3);
  EXPECT_EQ(told[0].arrival_ns, 77);
  EXPECT_TRUE(told[0].begun);
  EXPECT_EQ(told[0].prompt_tokens, 20U);
  EXPECT_EQ(told[0].expected_tokens, 40U);
  EXPECT_EQ(told[0].ttft_ns, 5'000'000);
}

TEST_F(Scheduler, AChoiceThatIsNoneIsNotFollowed) {
  std::size_t choice = 7;
  start_choosing(2, [&](std::size_t, const protocols::dispatch_demand&) { return choice; });
  for (std::uint32_t i = 0; i < 2; ++i) report(load(i, 10, 1));
  EXPECT_TRUE(decide().stale);
  EXPECT_TRUE(decide().stale);
  EXPECT_EQ(
      count_of(lines->text(),
               "the dispatch policy failed: it chose what is no place, or not eligible, or gave no finite rating"),
      1U)
      << lines->text();
  choice = ~std::size_t{0}; // "none, for now": homes ask again
  EXPECT_FALSE(decide().found);
  EXPECT_FALSE(decide().stale);
}

// A restarted pair counts its reports from one again.
TEST_F(Scheduler, TheFirstReportOfANewGenerationCounts) {
  start(1);
  sequence = 1000;
  report(load(0, 1, 1));
  news.instances.edit()[0].ready = false;
  announce();
  news.instances.edit()[0].ready = true;
  news.instances.edit()[0].generation = 2;
  announce();
  sequence = 0;
  auto first = load(0, 1, 1);
  first.generation = 2;
  report(first);
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(Scheduler, AnInstanceThatHasJustBecomeReadyIsNotSilent) {
  start(2, [](auto& o) { o.stale_after = 1s; });
  news.instances.edit()[1].ready = false;
  announce();
  run_with({load(0, 30, 3)}, 5s);
  news.instances.edit()[1].ready = true;
  announce();
  run_with({load(0, 30, 3)}, 500ms); // and one round
  EXPECT_TRUE(picked().contains(1));
}

TEST_F(Scheduler, AHighPrioritysHeadroomCountsFromThePickOn) {
  start(2, [](auto& o) { o.levels = {{"normal", 0}, {"high", 40}}; });
  report(load(0, 4, 1));
  report(load(1, 10, 1));
  actors::dispatch_query high{20, 10, 0};
  high.execution_level = 1;
  const auto first = system->ask(scheduler, 1s, high);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->instance, instance_id{0});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(decide().instance, instance_id{1}) << i;
}

TEST_F(Scheduler, AnInstanceWithoutFreshReportsIsNeitherPickedNorPaired) {
  start(3);
  const auto busy = load(1, 60, 10), idle = load(2, 0, 0);
  report(load(0, 0, 0));
  EXPECT_TRUE(picked().contains(0));
  run_with({busy, idle}, 1500ms); // instance 0 says nothing
  EXPECT_FALSE(picked().contains(0));
  for (const auto& pair : status().pairs) EXPECT_NE(pair.second, instance_id{0});
  report(load(0, 0, 0));
  EXPECT_TRUE(picked().contains(0));
}

TEST_F(Scheduler, WhenNobodyIsHeardOfItSaysSoThatHomesDispatchWithoutIt) {
  start(2);
  report(load(0, 0, 0));
  report(load(1, 0, 0));
  EXPECT_TRUE(decide().found);
  world->run_for(1300ms);
  const auto none = decide();
  EXPECT_FALSE(none.found);
  EXPECT_TRUE(none.stale);
  EXPECT_FALSE(none.overloaded);
  report(load(1, 0, 0));
  EXPECT_EQ(decide().instance, instance_id{1});
}

TEST_F(Scheduler, FullQueuesAndNoInstancesAreNotStale) {
  start(1);
  auto full = load(0, 64, 16);
  full.waiting = full.waiting_max;
  report(full);
  auto none = decide();
  EXPECT_TRUE(!none.found && none.overloaded && !none.stale);
  news.instances.edit().clear();
  announce();
  none = decide();
  EXPECT_TRUE(!none.found && !none.overloaded && !none.stale);
}

TEST_F(Scheduler, AnInstanceThatTheHeadDrainsIsNotPickedEvenBeforeItSaysSo) {
  start(2);
  report(load(0, 0, 0));
  report(load(1, 30, 3));
  news.instances.edit()[0].draining = true;
  announce();
  EXPECT_EQ(picked(), std::set<std::uint32_t>{1});
  report(load(0, 0, 0));
  EXPECT_EQ(picked(), std::set<std::uint32_t>{1});
  news.instances.edit()[0].draining = false;
  announce();
  EXPECT_TRUE(picked().contains(0));
}

// Llumnix section 4.4.3: pairs are marked each round, and unmarked once they do not cross the thresholds any more.
TEST_F(Scheduler, ASourceIsMarkedEachRoundWhileItsPairLastsAndUnmarkedThen) {
  start(3);
  auto full = load(0, 63, 10), half = load(1, 40, 3), idle = load(2, 0, 0);
  run_with({full, half, idle}, 1000ms);
  auto& marks = journals[0]->marks;
  ASSERT_GE(marks.size(), 4U);
  EXPECT_LE(marks.size(), 5U);
  for (const auto& mark : marks) {
    ASSERT_EQ(mark.destinations.size(), 1U);
    EXPECT_EQ(mark.destinations[0].to, instance_id{2});
    EXPECT_EQ(mark.destinations[0].llumlet, llumlets[2]);
    EXPECT_EQ(mark.destinations[0].load.blocks_total, 64U);
    EXPECT_EQ(mark.lease_ns, std::chrono::nanoseconds(600ms).count());
    EXPECT_EQ(mark.why, migration_cause::kind::freeness);
  }
  EXPECT_LT(marks.front().round, marks.back().round);
  EXPECT_TRUE(journals[1]->marks.empty());
  EXPECT_TRUE(journals[2]->marks.empty());
  auto page = status();
  EXPECT_EQ(page.marks_total, 1U) << "counted once while it lasts";
  EXPECT_EQ(page.pairs, (std::vector<std::pair<instance_id, instance_id>>{{instance_id{0}, instance_id{2}}}));
  EXPECT_THAT(metrics->expose(), HasSubstr("godwit_scheduler_marks_total{policy=\"freeness\"} 1"));

  full.blocks_used = 10;
  marks.clear();
  run_with({full, half, idle}, 600ms);
  ASSERT_EQ(marks.size(), 1U);
  EXPECT_TRUE(marks[0].destinations.empty());
  EXPECT_TRUE(status().pairs.empty());
}

// A destination may be free enough and yet have no room for any of the source's requests: a head of line waited for
// many seconds behind such a pair, with room elsewhere.
TEST_F(Scheduler, ASourceIsPairedAnewEachRound) {
  start(3);
  const auto full = load(0, 63, 2);
  const auto half = load(1, 40, 2); // F = 12
  auto other = load(2, 50, 2);      // F = 7
  run_with({full, half, other}, 500ms);
  auto& marks = journals[0]->marks;
  ASSERT_FALSE(marks.empty());
  EXPECT_EQ(marks.back().destinations.front().to, instance_id{1});
  other.blocks_used = 20;
  run_with({full, half, other}, 500ms);
  EXPECT_EQ(marks.back().destinations.front().to, instance_id{2});
  for (const auto& mark : marks) EXPECT_FALSE(mark.destinations.empty()) << "never unmarked in between";
  EXPECT_EQ(status().marks_total, 2U);
  EXPECT_EQ(status().pairs, (std::vector<std::pair<instance_id, instance_id>>{{instance_id{0}, instance_id{2}}}));
}

TEST_F(Scheduler, PausedOrWithoutAPolicyOnlyInstancesThatDrainAreMarked) {
  start(3);
  const auto full = load(0, 63, 10), leaving = load(1, 10, 2), idle = load(2, 0, 0);
  run_with({full, leaving, idle}, 400ms);
  EXPECT_FALSE(journals[0]->marks.empty());
  actors::scheduling_policies wish;
  wish.dispatch = "freeness";
  for (const bool paused : {true, false}) {
    wish.migration = migration_policy::freeness;
    wish.migration_paused = false;
    system->tell(scheduler, wish);
    run_with({full, leaving, idle}, 400ms);
    wish.migration_paused = paused;
    wish.migration = paused ? migration_policy::freeness : migration_policy::none;
    journals[0]->marks.clear();
    system->tell(scheduler, wish);
    world->run_for(1us);
    ASSERT_EQ(journals[0]->marks.size(), 1U) << "unmarked at once";
    EXPECT_TRUE(journals[0]->marks[0].destinations.empty());
    run_with({full, leaving, idle}, 1000ms);
    EXPECT_EQ(journals[0]->marks.size(), 1U);
  }
  news.instances.edit()[1].draining = true;
  announce();
  run_with({full, leaving, idle}, 400ms);
  ASSERT_FALSE(journals[1]->marks.empty());
  EXPECT_EQ(journals[1]->marks[0].why, migration_cause::kind::drain);
  EXPECT_EQ(journals[1]->marks[0].destinations.front().to, instance_id{2});
}

TEST_F(Scheduler, TheDispatchPolicyIsSwitchedAtOnceAndKnowsWhatTheOldOneKnew) {
  start(2, [](auto& o) { o.policies.dispatch = "freeness"; });
  report(load(0, 60, 1));
  report(load(1, 0, 9));
  EXPECT_EQ(decide().why.policy, "freeness");
  actors::scheduling_policies wish;
  wish.dispatch = "least_requests";
  system->tell(scheduler, wish);
  world->run_for(1us);
  const auto d = decide();
  EXPECT_EQ(d.why.policy, "least_requests");
  EXPECT_EQ(d.instance, instance_id{0});
  EXPECT_EQ(status().dispatch_policy, "least_requests");
}

TEST_F(Scheduler, ReportsOfAllInstancesReachTheMetricsButThoseOfTheDeadDoNot) {
  start(2);
  report(load(0, 0, 0));
  report(load(1, 0, 0));
  auto old = load(1, 0, 0);
  old.generation = 0;
  report(old);
  report(load(7, 0, 0));
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{0, 1}));
}

TEST_F(Scheduler, ADryRunOfAutoscalingIsSaidAndCountedAndChangesNothing) {
  start(2, [](auto& o) {
    o.policies.scaling = protocols::scaling_mode::dry_run;
    o.scaling.hold_ns = std::chrono::nanoseconds(1s).count();
  });
  run_with({load(0, 0, 0), load(1, 0, 0)}, 1500ms);
  const auto page = status();
  EXPECT_EQ(page.scaling, "dry_run");
  EXPECT_THAT(page.scaling_last, HasSubstr("in (dry run): mean freeness 64"));
  EXPECT_THAT(metrics->expose(), HasSubstr("godwit_scaling_decisions_total{decision=\"in\",dry=\"true\"} 1"));
}

TEST_F(Scheduler, AutoscalingWaitsForInstancesThatStart) {
  start(2, [](auto& o) {
    o.policies.scaling = protocols::scaling_mode::dry_run;
    o.scaling.hold_ns = std::chrono::nanoseconds(1s).count();
  });
  news.instances.edit()[1].ready = false;
  announce();
  run_with({load(0, 63, 10)}, 3000ms);
  EXPECT_EQ(status().scaling_last, "");
  news.instances.edit().pop_back();
  announce();
  run_with({load(0, 63, 10)}, 1500ms);
  EXPECT_THAT(status().scaling_last, HasSubstr("out (dry run)"));
}

TEST_F(Scheduler, WhatItSaysIsFinite) {
  start(0, [](auto& o) { o.policies.scaling = protocols::scaling_mode::dry_run; });
  world->run_for(1s);
  const auto page = status();
  EXPECT_TRUE(std::isfinite(page.mean_freeness));
  EXPECT_TRUE(std::isfinite(decide().why.score));
}

} // namespace godwit::test
