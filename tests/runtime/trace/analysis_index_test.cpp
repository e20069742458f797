#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/analysis/follow.hpp>
#include <godwit/runtime/trace/analysis/index.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/analysis/selection.hpp>
#include <godwit/runtime/trace/analysis/stats.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace godwit::runtime::trace::analysis {
namespace {

recording everything() { return support::served({5, 3, 6, true, true}); }

TEST(TraceIndex, FindsEveryEventAndItsCauseInRandomForests) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto r = support::random_forest(seed);
    const index x(r);
    std::size_t effects = 0;
    for (position p = 0; p < x.size(); ++p) {
      EXPECT_EQ(x.find(x[p].id), p);
      EXPECT_EQ(x.cause(p), x.find(x[p].cause));
      EXPECT_EQ(x.depth(p), x.cause(p) == nowhere ? 0 : x.depth(x.cause(p)) + 1);
      effects += x.effects(p).size();
      for (const auto e : x.effects(p)) EXPECT_EQ(x.cause(e), p);
    }
    EXPECT_EQ(effects + x.roots().size(), x.size()) << seed;
    EXPECT_TRUE(check_causality(x).sound()) << seed;
  }
}

TEST(TraceIndex, KnowsNothingOfIdsThatAreNotThere) {
  const auto r = support::random_forest(1);
  const index x(r);
  EXPECT_EQ(x.find({}), nowhere);
  EXPECT_EQ(x.find({0, 1'000'000}), nowhere);
  EXPECT_EQ(x.find({77, 1}), nowhere);
}

TEST(TraceIndex, PairsQuestionsWithAnswers) {
  const auto r = everything();
  const index x(r);
  std::size_t pairs = 0;
  for (position p = 0; p < x.size(); ++p) {
    const auto answer = x.answer(p);
    if (answer == nowhere) continue;
    ++pairs;
    EXPECT_EQ(x[p].message, message_kind::request);
    EXPECT_EQ(x[answer].receiver, x[p].sender);
    EXPECT_EQ(x[answer].wait, x[p].wait);
    EXPECT_EQ(x.question(answer), p);
  }
  EXPECT_GT(pairs, 10U);
}

TEST(TraceIndex, AnswersAreAboutWhatTheirQuestionsWereAbout) {
  support::trace_builder b;
  b.process("p");
  const auto a = b.actor(0, "a");
  const auto c = b.actor(0, "c");
  support::sending ask;
  ask.kind = message_kind::request;
  ask.wait = 7;
  ask.request = 42;
  auto answer = ask;
  answer.kind = message_kind::answer;
  answer.request = 0;
  const auto q = b.deliver({}, a, c, "question", 100, 10, ask);
  b.deliver(q, c, a, "answer", 110, 10, answer);
  const auto r = b.finish();
  const index x(r);
  EXPECT_EQ(x.about(static_cast<position>(x.size() - 1)), 42U);
}

TEST(TraceRequests, AllOfARequestsMessagesAreReachedFromItsHttpRequest) {
  const auto r = everything();
  const index x(r);
  const auto all = model_requests(x);
  ASSERT_EQ(all.size(), 5U);
  std::set<position> reached; // a step that serves several follows from the request that woke the engine
  for (const auto& request : all) {
    ASSERT_NE(request.http, nowhere);
    const auto from = reachable(x, request.http);
    reached.insert(from.begin(), from.end());
  }
  for (const auto& request : all)
    for (const auto p : events_of(x, request.id)) EXPECT_TRUE(reached.contains(p)) << label(r, x[p].id);
  // What is about it alone before it meets others is reached from its own.
  for (const auto& request : all) {
    const auto own = reachable(x, request.http);
    for (const auto p : events_of(x, request.id)) {
      const auto type = short_type(r.name_of(x[p]));
      if (type != "submit_request" && type != "dispatch_query" && type != "generate_order" && type != "admission")
        continue;
      EXPECT_TRUE(std::binary_search(own.begin(), own.end(), p)) << type;
    }
  }
}

// Its answer comes of what the scheduler told itself, which is about nobody, and because of another's question.
TEST(TraceRequests, HaveTheirOwnDecisionAndNoOthers) {
  const auto r = support::decided_together();
  const index x(r);
  for (const std::uint64_t request : {1U, 2U}) {
    std::map<std::string, std::size_t> there;
    for (const auto p : events_of(x, request)) {
      ++there[r.name_of(x[p])];
      EXPECT_TRUE(x.about(p) == 0 || x.about(p) == request) << r.name_of(x[p]);
      EXPECT_NE(x[p].message, message_kind::timer) << "it was over by then";
    }
    for (const auto* const name : {"submit_request", "request.accepted", "dispatch_query", "decide_queued",
                                   "decision.dispatch", "local<dispatch_decision>", "dispatch_decision"})
      EXPECT_EQ(there[name], 1U) << name << " of " << request;
  }
}

TEST(TraceRequests, HaveTheTokensThatOtherProcessesSent) {
  support::served_settings settings;
  settings.requests = 1;
  settings.instances = 1;
  settings.node = true;
  const auto r = support::served(settings);
  const index x(r);
  std::size_t tokens = 0;
  for (const auto p : events_of(x, 1))
    if (x[p].kind == event_kind::delivery && short_type(r.name_of(x[p])) == "token_updates") ++tokens;
  EXPECT_EQ(tokens, settings.tokens);
}

TEST(TraceRequests, AreFoundByNumberClientIdLastAndSlowest) {
  const auto r = everything();
  const index x(r);
  const auto all = model_requests(x);
  EXPECT_EQ(find_request(all, "3")->id, 3U);
  EXPECT_EQ(find_request(all, "cmpl-4")->id, 4U);
  EXPECT_EQ(find_request(all, "last")->id, 5U);
  for (const auto& one : all) EXPECT_LE(one.duration_ns(), find_request(all, "slowest")->duration_ns());
  EXPECT_FALSE(find_request(all, "cmpl-9"));
  EXPECT_FALSE(find_request(all, ""));
  EXPECT_FALSE(find_request({}, "last"));
  EXPECT_EQ(find_request(all, "3")->outcome, "200");
}

// A stream has the status of its beginning, however it ends.
TEST(TraceRequests, AnOutcomeSaysHowTheAnswerEnded) {
  auto r = support::served({4, 1, 2});
  const std::vector<std::vector<attribute>> ends{{{"status", "200"}, {"outcome", "complete"}},
                                                 {{"status", "200"}, {"outcome", "disconnected"}},
                                                 {{"status", "200"}, {"outcome", "complete"}, {"error", "late"}},
                                                 {{"abandoned", "true"}}};
  std::size_t next = 0;
  for (auto& e : r.events)
    if (r.name_of(e) == "http.request") {
      std::erase_if(e.attributes, [](const auto& a) { return a.name == "status"; });
      e.attributes.insert(e.attributes.end(), ends.at(next).begin(), ends.at(next).end());
      ++next;
    }
  const index x(r);
  std::multiset<std::string> told;
  for (const auto& request : model_requests(x)) told.insert(request.outcome);
  EXPECT_EQ(told, (std::multiset<std::string>{"200", "200, disconnected", "200, late", "abandoned"}));
}

// Without HTTP: somebody asks for its history long after.
TEST(TraceRequests, OneIsOverWhenItsHomeGivesItUp) {
  support::trace_builder b;
  b.process("p");
  const auto home = b.actor(0, "frontend"), other = b.actor(0, "llumlet");
  support::sending about;
  about.request = 7;
  const auto begun = b.deliver({}, other, home, "submit_request", 1'000, 10, about);
  b.note(begun, home, "ownership", 1'005, {{"request", "7"}, {"what", "dispatched"}}, 7);
  const auto last = b.deliver(begun, other, home, "token_updates", 5'000, 20, about);
  b.note(last, home, "ownership", 5'010, {{"request", "7"}, {"what", "finished"}}, 7);
  b.deliver({}, other, home, "history_query", 900'000, 10, about);
  const auto r = b.finish();
  const index x(r);
  const auto all = model_requests(x);
  ASSERT_EQ(all.size(), 1U);
  const auto updates = std::ranges::find(r.events, "token_updates", [&](const auto& e) { return r.name_of(e); });
  ASSERT_NE(updates, r.events.end());
  EXPECT_EQ(all[0].end_ns, updates->end_ns);
}

TEST(TraceSelection, CombinesItsConditions) {
  const auto r = everything();
  const index x(r);
  selection s;
  EXPECT_EQ(select(x, s).size(), x.size());
  s.type = "step_*";
  s.actor = "llumlet";
  s.messages = {message_kind::answer};
  const auto steps = select(x, s);
  ASSERT_FALSE(steps.empty());
  for (const auto p : steps) EXPECT_EQ(short_type(r.name_of(x[p])), "step_output");
  s.process = "node-2";
  const auto away = select(x, s);
  EXPECT_LT(away.size(), steps.size());
  EXPECT_FALSE(away.empty());
  s.from_ns = 1'000'000'000'000;
  EXPECT_TRUE(select(x, s).empty());
}

TEST(TraceSelection, TakesActorsByNumberAndByExactLabel) {
  support::trace_builder b;
  b.process("p");
  std::vector<actor_id> many;
  for (int i = 0; i < 12; ++i) many.push_back(b.actor(0, "llumlet"));
  for (const auto& who : many) b.deliver({}, {}, who, "t", 10, 1);
  const auto r = b.finish();
  const index x(r);
  selection s;
  s.kinds = {event_kind::delivery};
  s.actor = "llumlet 1";
  EXPECT_EQ(select(x, s).size(), 1U);
  s.actor = "11";
  EXPECT_EQ(select(x, s).size(), 1U);
  s.actor = "llumlet";
  EXPECT_EQ(select(x, s).size(), 12U);
  s.actor = "*1?";
  EXPECT_EQ(select(x, s).size(), 3U); // 10, 11, 12
}

TEST(TraceSelection, FiltersByTheTimeThatAMessageWaitedOrTook) {
  const auto r = everything();
  const index x(r);
  selection s;
  s.queue_min_ns = 50'000;
  for (const auto p : select(x, s)) EXPECT_GE(x[p].begin_ns - x[p].queued_ns, 50'000);
  EXPECT_FALSE(select(x, s).empty());
  selection t;
  t.handling_min_ns = 300'000;
  t.kinds = {event_kind::span};
  EXPECT_FALSE(select(x, t).empty());
}

TEST(TraceFollow, GivesCausesToTheRootAndEveryEffectOnce) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto r = support::random_forest(seed);
    const index x(r);
    for (position p = 0; p < x.size(); p += 17) {
      follow_limits wide;
      wide.causes_max = wide.depth_max = wide.events_max = 100'000;
      const auto tree = follow(x, p, wide);
      EXPECT_EQ(tree.causes.size(), x.depth(p));
      EXPECT_FALSE(tree.cause_missing);
      if (!tree.causes.empty()) {
        EXPECT_EQ(x.cause(tree.causes.front()), nowhere);
      }
      std::vector<position> got;
      for (const auto& line : tree.effects) {
        got.push_back(line.what);
        EXPECT_EQ(line.left_out, 0U);
      }
      std::sort(got.begin(), got.end());
      EXPECT_EQ(got, reachable(x, p));
    }
  }
}

TEST(TraceFollow, SaysWhatItsLimitsLeaveOut) {
  const auto r = everything();
  const index x(r);
  const auto http = find_request(model_requests(x), "1")->http;
  follow_limits tight;
  tight.events_max = 10;
  const auto tree = follow(x, http, tight);
  EXPECT_LE(tree.effects.size(), 10U);
  std::size_t left_out = 0;
  for (const auto& line : tree.effects) left_out += line.left_out;
  EXPECT_GT(left_out, 0U);
  tight.causes_max = 2;
  EXPECT_TRUE(follow(x, static_cast<position>(x.size() - 1), tight).causes_cut);
}

TEST(TraceStats, CountMeanAndPercentilesAreThoseOfTheSamples) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 100; i >= 1; --i) values.push_back(i);
  const auto s = summarise(values);
  EXPECT_EQ(s.count, 100U);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_EQ(s.p50, 50);
  EXPECT_EQ(s.p99, 99);
  EXPECT_EQ(s.max, 100);
  EXPECT_EQ(summarise({}).count, 0U);
  EXPECT_EQ(summarise({7}).p99, 7);
}

// A file may say that something ended long before it began, several times.
TEST(TraceStats, WhatTookLessThanNothingIsTheLast) {
  support::trace_builder b;
  b.process("p");
  const auto a = b.actor(0, "a");
  std::vector<event_id> odd;
  for (int i = 0; i < 3; ++i) odd.push_back(b.deliver({}, {}, a, "odd", 1'000, 10));
  b.deliver({}, {}, a, "short", 1'000, 10);
  b.deliver({}, {}, a, "long", 1'000, 1'000);
  for (const auto each : odd) b.get(each).end_ns = std::numeric_limits<std::int64_t>::min() / 2;
  const auto r = b.finish();
  const index x(r);
  const auto all = stats(x, select(x, {})).types;
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "long");
  EXPECT_EQ(all[1].name, "short");
  EXPECT_EQ(all[2].name, "odd");
  EXPECT_EQ(all[2].handling_ns.sum, std::numeric_limits<std::int64_t>::min());
}

TEST(TraceStats, BusyTimeIsTheSumOfHandlings) {
  const auto r = everything();
  const index x(r);
  const auto all = stats(x, select(x, {}));
  std::int64_t handled = 0;
  std::size_t deliveries = 0;
  for (const auto& e : r.events)
    if (e.kind == event_kind::delivery) {
      handled += e.end_ns - e.begin_ns;
      ++deliveries;
    }
  std::int64_t busy = 0;
  std::size_t messages = 0;
  for (const auto& a : all.actors) {
    busy += a.busy_ns;
    messages += a.messages;
    EXPECT_GE(a.busy(), 0);
    EXPECT_LE(a.busy(), 1);
  }
  EXPECT_EQ(busy, handled);
  EXPECT_EQ(messages, deliveries);
  std::size_t by_type = 0;
  for (const auto& t : all.types) by_type += t.kind == event_kind::delivery ? t.handling_ns.count : 0;
  EXPECT_EQ(by_type, deliveries);
}

TEST(TraceCausality, FindsCyclesEffectsBeforeCausesAndMissingCauses) {
  auto r = everything();
  ASSERT_TRUE(check_causality(index(r)).sound());
  const auto delivery = [&r](std::size_t from) {
    while (r.events[from].kind != event_kind::delivery || !r.events[from].cause || r.events[from].outside) ++from;
    return from;
  };
  {
    auto cycle = r;
    const auto at = delivery(r.events.size() / 2);
    cycle.events[at].cause = cycle.events[at].id;
    const auto found = check_causality(index(cycle));
    ASSERT_FALSE(found.faults.empty());
    EXPECT_NE(found.faults.back().find("own cause"), std::string::npos);
  }
  {
    auto early = r;
    const auto at = delivery(r.events.size() / 2);
    early.events[at].queued_ns -= 1'000'000'000;
    EXPECT_EQ(check_causality(index(early)).fault_count, 1U);
  }
  {
    auto lost = r;
    const auto at = delivery(r.events.size() / 2);
    lost.events.erase(lost.events.begin() + static_cast<std::ptrdiff_t>(index(r).cause(static_cast<position>(at))));
    const auto found = check_causality(index(lost));
    EXPECT_EQ(found.fault_count, 0U);
    EXPECT_GT(found.missing, 0U);
    lost.events.back().kind = event_kind::gap; // it may lie there
    lost.events.back().id.process = lost.events[at - 1].id.process;
    EXPECT_EQ(check_causality(index(lost)).missing + check_causality(index(lost)).before, found.missing + found.before);
  }
}

} // namespace
} // namespace godwit::runtime::trace::analysis
