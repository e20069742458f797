#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/exports.hpp>
#include <godwit/runtime/trace/analysis/selection.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <random>
#include <set>

namespace godwit::runtime::trace::analysis {
namespace {

namespace json = boost::json;

recording scene(bool together = false) {
  auto r = support::served({5, 3, 6, true, true});
  r.events[20].text = "evil \x1b[31m \"quoted\" \xff";
  if (together) // as a simulation: everything at one moment
    for (auto& e : r.events) e.queued_ns = e.begin_ns = e.end_ns = -r.processes[e.id.process].offset_ns;
  return r;
}

std::string perfetto(const recording& r) {
  const index x(r);
  std::string out;
  to_perfetto(x, select(x, {}), [&out](std::string_view piece) {
    out += piece;
    return true;
  });
  return out;
}

std::int64_t ns(const json::value& us) { return std::llround(us.to_number<double>() * 1000); }

struct slice {
  std::int64_t from;
  std::int64_t to;
};
using track = std::pair<std::int64_t, std::int64_t>;

// What the format's description asks for, and what ui.perfetto.dev's importer needs.
void expect_trace_event_format(const recording& r) {
  const auto root = json::parse(perfetto(r)).as_object();
  std::map<track, std::vector<slice>> slices;
  std::map<track, std::string> names;
  std::map<std::int64_t, std::vector<std::pair<track, std::int64_t>>> starts;
  std::map<std::int64_t, std::vector<std::pair<track, std::int64_t>>> finishes;
  std::set<std::int64_t> pids;
  std::map<std::int64_t, std::set<std::int64_t>> pids_of_tid;
  std::size_t deliveries = 0;
  for (const auto& value : root.at("traceEvents").as_array()) {
    const auto& e = value.as_object();
    const auto phase = std::string(e.at("ph").as_string());
    const auto pid = e.at("pid").as_int64();
    const auto tid = e.contains("tid") ? e.at("tid").as_int64() : 0;
    EXPECT_GT(pid, 0);
    pids.insert(pid);
    if (tid != 0) pids_of_tid[tid].insert(pid);
    if (phase == "M") {
      if (e.at("name") == "thread_name") names[{pid, tid}] = e.at("args").at("name").as_string().c_str();
      continue;
    }
    const auto at = ns(e.at("ts"));
    EXPECT_GE(at, 0);
    EXPECT_TRUE(e.at("name").is_string());
    if (phase == "X") {
      EXPECT_GT(ns(e.at("dur")), 0);
      slices[{pid, tid}].push_back({at, at + ns(e.at("dur"))});
      deliveries += e.at("cat") == "delivery" ? 1 : 0;
    } else if (phase == "s" || phase == "f") {
      (phase == "s" ? starts : finishes)[e.at("id").as_int64()].emplace_back(track(pid, tid), at);
      if (phase == "f") {
        EXPECT_EQ(e.at("bp"), "e");
      }
      EXPECT_EQ(e.at("cat"), "cause");
    } else if (phase == "i") {
      EXPECT_EQ(e.at("s"), "t");
    } else {
      EXPECT_EQ(phase, "C");
      EXPECT_GE(e.at("args").at("messages").as_int64(), 0);
    }
  }
  for (const auto& [tid, in] : pids_of_tid) {
    EXPECT_EQ(in.size(), 1U) << "thread " << tid << " is in several processes";
    EXPECT_FALSE(pids.contains(tid));
  }
  for (const auto& [where, list] : slices) {
    EXPECT_TRUE(names.contains(where));
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_GE(list[i].from, list[i - 1].to) << "slices overlap on " << names[where];
  }
  const auto inside = [&](const std::pair<track, std::int64_t>& end) {
    for (const auto& s : slices[end.first])
      if (s.from <= end.second && end.second < s.to) return true;
    return false;
  };
  ASSERT_EQ(starts.size(), finishes.size());
  for (const auto& [id, ends] : starts) {
    ASSERT_EQ(ends.size(), 1U);
    ASSERT_EQ(finishes[id].size(), 1U);
    EXPECT_TRUE(inside(ends.front()));
    EXPECT_TRUE(inside(finishes[id].front()));
    EXPECT_LE(ends.front().second, finishes[id].front().second);
  }
  std::size_t expected = 0;
  for (const auto& e : r.events) expected += e.kind == event_kind::delivery ? 1 : 0;
  EXPECT_EQ(deliveries, expected);
  EXPECT_GT(starts.size(), expected / 2);
}

TEST(TracePerfetto, FollowsTheTraceEventFormat) { expect_trace_event_format(scene()); }

TEST(TracePerfetto, ShowsASimulationsMomentsOneAfterTheOther) { expect_trace_event_format(scene(true)); }

// What an actor sends as it starts follows from what started it, though the start itself is nothing that has a length.
recording with_a_start() {
  support::trace_builder b;
  const auto here = b.process("here");
  const auto parent = b.actor(here, "parent");
  const auto order = b.deliver({}, {}, parent, "order", 1'000, 50'000);
  const auto child = b.actor(here, "child", 10'000, order);
  const auto grandchild = b.actor(here, "grandchild", 11'000, b.start_of(child));
  (void)b.deliver(b.start_of(grandchild), grandchild, parent, "hello", 12'000, 1'000);
  return b.finish();
}

TEST(TracePerfetto, LeadsPastTheStartsOfActors) {
  const auto root = json::parse(perfetto(with_a_start())).as_object();
  std::size_t arrows = 0;
  for (const auto& value : root.at("traceEvents").as_array()) arrows += value.at("ph") == "s" ? 1 : 0;
  EXPECT_EQ(arrows, 1U);
}

TEST(TracePerfetto, HoldsForRandomForests) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) expect_trace_event_format(support::random_forest(seed));
}

// Each span lies on the lowest lane that is free as it begins: said here with the search that says it most plainly.
TEST(TracePerfetto, SpansLieOnTheLowestFreeLane) {
  std::mt19937_64 random(3);
  support::trace_builder b;
  b.process("p");
  for (int i = 0; i < 3000; ++i) {
    const auto begin = static_cast<std::int64_t>(random() % 1'000'000);
    const auto length = static_cast<std::int64_t>(random() % (i % 2 == 0 ? 100'000 : 10));
    b.span({}, 0, {}, i % 3 == 0 ? "some" : "others", begin, begin + length, {});
  }
  const auto r = b.finish();
  std::map<std::string, std::vector<std::int64_t>> lanes;
  std::vector<std::string> expected;
  for (const auto& e : r.events) {
    auto& until = lanes[r.name_of(e)];
    const auto free = std::ranges::find_if(until, [&e](auto end) { return end <= e.begin_ns; });
    const auto lane = free - until.begin();
    if (free == until.end()) until.emplace_back();
    until[static_cast<std::size_t>(lane)] = std::max(e.end_ns, e.begin_ns + 1);
    expected.push_back(r.name_of(e) + (lane > 0 ? " " + std::to_string(lane + 1) : ""));
  }
  ASSERT_GT(lanes["others"].size(), 20U) << "not what this test needs";
  const auto root = json::parse(perfetto(r)).as_object();
  std::map<std::int64_t, std::string> names;
  std::vector<std::string> found;
  for (const auto& value : root.at("traceEvents").as_array()) {
    const auto& e = value.as_object();
    if (e.at("name") == "thread_name") names[e.at("tid").as_int64()] = e.at("args").at("name").as_string().c_str();
    if (e.at("ph") == "X") found.push_back(names[e.at("tid").as_int64()]);
  }
  EXPECT_EQ(found, expected);
}

TEST(TracePerfetto, ManySpansAtOnceAreWrittenSoon) {
  constexpr std::int64_t count = 300'000;
  support::trace_builder b;
  b.process("p");
  for (std::int64_t i = 0; i < count; ++i) b.span({}, 0, {}, "http.request", i, 2 * count, {});
  const auto r = b.finish();
  const index x(r);
  const auto all = select(x, {});
  const auto begin = std::chrono::steady_clock::now();
  to_perfetto(x, all, [](std::string_view) { return true; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(TracePerfetto, StopsWhenTheSinkHasEnough) {
  const auto r = support::random_forest(1, 5000);
  const index x(r);
  auto pieces = 0;
  to_perfetto(x, select(x, {}), [&pieces](std::string_view) { return ++pieces < 2; });
  EXPECT_EQ(pieces, 2);
}

TEST(TracePerfetto, AnHttpRequestOfSeveralAnswersHasAllTheirNumbers) {
  auto r = support::served({1, 1, 2});
  for (auto& e : r.events)
    if (r.name_of(e) == "http.request") {
      std::erase_if(e.attributes, [](const auto& a) { return a.name == "request"; });
      e.request = 1;
      e.attributes.emplace_back("request", "1 2 3");
    }
  EXPECT_THAT(perfetto(r), ::testing::HasSubstr(R"("request":"1 2 3")"));
}

struct otlp_span {
  json::object what;
  std::string resource;
};

std::map<std::string, otlp_span> otlp(const recording& r, std::size_t spans_max = 0) {
  const index x(r);
  std::map<std::string, otlp_span> out;
  otlp_options options;
  options.spans_max = spans_max;
  const auto take = [&](std::string_view piece) {
    const auto root = json::parse(piece).as_object();
    std::size_t spans = 0;
    for (const auto& resource : root.at("resourceSpans").as_array()) {
      const auto name = std::string(
          resource.at("resource").at("attributes").as_array().at(1).at("value").at("stringValue").as_string());
      for (const auto& scope : resource.at("scopeSpans").as_array())
        for (const auto& span : scope.at("spans").as_array()) {
          ++spans;
          EXPECT_TRUE(out.emplace(span.at("spanId").as_string().c_str(), otlp_span{span.as_object(), name}).second);
        }
    }
    if (spans_max > 0) {
      EXPECT_LE(spans, spans_max);
    }
    return true;
  };
  std::string whole;
  const auto collect = [&whole](std::string_view piece) { return whole += piece, true; };
  to_otlp(x, select(x, {}), options, spans_max > 0 ? sink(take) : sink(collect));
  if (spans_max == 0) take(whole);
  return out;
}

bool is_hex(const json::value& v, std::size_t digits) {
  const auto text = std::string(v.as_string());
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos &&
         text.find_first_not_of('0') != std::string::npos;
}

TEST(TraceOtlp, FollowsProtobufsJsonMapping) {
  const auto r = scene();
  const auto spans = otlp(r);
  std::size_t expected = 0;
  for (const auto& e : r.events)
    expected += e.kind == event_kind::delivery || e.kind == event_kind::sent || e.kind == event_kind::span ? 1 : 0;
  EXPECT_EQ(spans.size(), expected);
  std::size_t notes = 0;
  for (const auto& [id, span] : spans) {
    const auto& s = span.what;
    EXPECT_TRUE(is_hex(s.at("traceId"), 32));
    EXPECT_TRUE(is_hex(s.at("spanId"), 16));
    EXPECT_TRUE(s.at("kind").is_int64());
    const auto start = std::stoull(s.at("startTimeUnixNano").as_string().c_str());
    const auto end = std::stoull(s.at("endTimeUnixNano").as_string().c_str());
    EXPECT_LE(start, end);
    EXPECT_GE(start, 1'700'000'000'000'000'000ULL);
    EXPECT_LT(end, 1'700'000'001'000'000'000ULL) << "clocks of processes are brought together";
    for (const auto& a : s.at("attributes").as_array()) {
      const auto& value = a.at("value").as_object();
      ASSERT_EQ(value.size(), 1U);
      EXPECT_TRUE(value.contains("stringValue") || value.at("intValue").is_string());
    }
    if (s.contains("events")) notes += s.at("events").as_array().size();
  }
  EXPECT_GT(notes, 4U);
}

TEST(TraceOtlp, ParentsAndLinksNameSpansThatAreThere) {
  const auto spans = otlp(scene());
  std::size_t parents = 0;
  std::size_t clients = 0;
  std::size_t links = 0;
  for (const auto& [id, span] : spans) {
    if (const auto* parent = span.what.if_contains("parentSpanId")) {
      const auto found = spans.find(std::string(parent->as_string()));
      if (*parent == "00f067aa0ba902b7") { // the client's own
        ++clients;
        continue;
      }
      ASSERT_NE(found, spans.end());
      EXPECT_EQ(found->second.what.at("traceId"), span.what.at("traceId"));
      ++parents;
    }
    if (const auto* list = span.what.if_contains("links"))
      for (const auto& link : list->as_array()) {
        const auto found = spans.find(std::string(link.at("spanId").as_string()));
        ASSERT_NE(found, spans.end());
        EXPECT_EQ(found->second.what.at("traceId"), link.at("traceId"));
        ++links;
      }
  }
  EXPECT_EQ(clients, 5U);
  EXPECT_GT(parents, 50U);
  EXPECT_GT(links, 0U);
}

TEST(TraceOtlp, LeadsPastTheStartsOfActors) {
  const auto spans = otlp(with_a_start());
  std::string order, cause;
  for (const auto& [id, span] : spans) {
    if (span.what.at("name") == "order") order = id;
    if (span.what.at("name") != "hello") continue;
    if (const auto* parent = span.what.if_contains("parentSpanId")) cause = parent->as_string().c_str();
    if (const auto* links = span.what.if_contains("links")) cause = links->at(0).at("spanId").as_string().c_str();
  }
  EXPECT_NE(order, "");
  EXPECT_EQ(cause, order);
}

TEST(TraceOtlp, ARequestIsOneTraceAndItsClientsIfThereIsOne) {
  const auto r = scene();
  const index x(r);
  std::map<std::string, std::set<std::string>> traces;
  for (const auto& [id, span] : otlp(r))
    for (const auto& a : span.what.at("attributes").as_array())
      if (a.at("key") == "godwit.request")
        traces[a.at("value").at("stringValue").as_string().c_str()].insert(span.what.at("traceId").as_string().c_str());
  ASSERT_EQ(traces.size(), 5U);
  for (const auto& [request, ids] : traces) {
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_EQ(ids.begin()->substr(0, 30), "4bf92f3577b34da6a3ce929d0e0e47");
  }
}

TEST(TraceOtlp, AnHttpRequestsSpanIsTheOneThatItsAnswerNamed) {
  auto r = support::served({1, 1, 2});
  std::size_t told = 0;
  for (auto& e : r.events)
    if (r.name_of(e) == "http.request") {
      ++told;
      std::erase_if(e.attributes, [](const auto& a) { return a.name == "traceparent"; });
      e.attributes.emplace_back("answered", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    }
  ASSERT_EQ(told, 1U);
  const auto spans = otlp(r);
  const auto found = spans.find("b7ad6b7169203331");
  ASSERT_NE(found, spans.end());
  EXPECT_EQ(found->second.what.at("traceId"), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(found->second.what.if_contains("parentSpanId"), nullptr);
}

TEST(TraceOtlp, ARequestsSubmissionIsInItsTrace) {
  std::size_t found = 0;
  const auto spans = otlp(scene());
  for (const auto& [id, span] : spans) {
    if (span.what.at("name") != "submit_request" && span.what.at("name") != "dispatch_query") continue;
    ++found;
    EXPECT_EQ(span.what.at("traceId").as_string().subview(0, 30), "4bf92f3577b34da6a3ce929d0e0e47");
    EXPECT_TRUE(span.what.contains("parentSpanId"));
  }
  EXPECT_EQ(found, 10U);
}

TEST(TraceOtlp, TheAnswersTraceparentNamesTheHttpSpan) {
  auto r = support::served({1, 1, 2});
  for (auto& e : r.events)
    for (auto& a : e.attributes)
      if (a.name == "traceparent") a = {"answered", "00-0123456789abcdef0123456789abcdef-fedcba9876543210-01"};
  const auto spans = otlp(r);
  ASSERT_TRUE(spans.contains("fedcba9876543210"));
  const auto& span = spans.at("fedcba9876543210").what;
  EXPECT_EQ(span.at("name"), "http.request");
  EXPECT_EQ(span.at("traceId"), "0123456789abcdef0123456789abcdef");
  EXPECT_FALSE(span.contains("parentSpanId"));
}

TEST(TraceOtlp, ATraceparentThatIsNoneIsNotTaken) {
  auto r = support::served({1, 1, 2});
  for (auto& e : r.events)
    for (auto& a : e.attributes)
      if (a.name == "traceparent") a.value = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
  for (const auto& [id, span] : otlp(r)) {
    EXPECT_TRUE(is_hex(span.what.at("traceId"), 32));
    const auto* parent = span.what.if_contains("parentSpanId");
    EXPECT_TRUE(parent == nullptr || *parent != "00f067aa0ba902b7");
  }
}

TEST(TraceOtlp, ComesInPiecesForACollector) {
  const auto r = scene();
  EXPECT_EQ(otlp(r, 7).size(), otlp(r).size());
}

// A recording's text is many times as large as the recording.
TEST(TraceOtlp, IsNeverWholeInMemoryForAFile) {
  support::served_settings settings;
  settings.requests = 40;
  const auto r = support::served(settings);
  const index x(r);
  std::size_t pieces = 0, largest = 0;
  to_otlp(x, select(x, {}), {}, [&](std::string_view piece) {
    ++pieces;
    largest = std::max(largest, piece.size());
    return true;
  });
  EXPECT_GT(pieces, 3U);
  EXPECT_LT(largest, 128U * 1024);
  pieces = 0;
  to_otlp(x, select(x, {}), {}, [&](std::string_view) { return ++pieces, false; });
  EXPECT_EQ(pieces, 1U) << "it goes on though the sink has enough";
}

TEST(TraceOtlp, AnHttpRequestThatFailedHasTheStatusOfAnError) {
  auto r = support::served({4, 1, 2});
  const std::vector<std::vector<attribute>> ends{{{"status", "200"}, {"outcome", "complete"}},
                                                 {{"status", "200"}, {"error", "its time is over"}},
                                                 {{"status", "504"}},
                                                 {{"status", "429"}, {"error", "the queue is full"}}};
  std::size_t next = 0;
  for (auto& e : r.events)
    if (r.name_of(e) == "http.request") {
      std::erase_if(e.attributes, [](const auto& a) { return a.name == "status"; });
      e.attributes.insert(e.attributes.end(), ends.at(next).begin(), ends.at(next).end());
      ++next;
    }
  ASSERT_EQ(next, ends.size());
  std::multiset<std::string> told;
  for (const auto& [id, span] : otlp(r))
    if (span.what.at("name") == "http.request") {
      const auto* status = span.what.if_contains("status");
      told.insert(status ? json::serialize(*status) : "none");
    }
  EXPECT_EQ(told, (std::multiset<std::string>{"none", "none", R"({"code":2})",
                                              R"({"code":2,"message":"its time is over"})"}));
}

// The processes of all simulations have the same keys, and the first alone tells the run.
TEST(TraceOtlp, SpansOfTwoSimulationsHaveIdsOfTheirOwn) {
  const auto ids = [](const recording& r) {
    std::set<std::string> out;
    for (const auto& [id, span] : otlp(r)) out.insert(id);
    return out;
  };
  for (auto one : {support::served({1, 1, 2}), support::random_forest(1)}) {
    for (auto& e : one.events) std::erase_if(e.attributes, [](const auto& a) { return a.name == "traceparent"; });
    one.processes.front().facts = {{"command", "sim"}, {"argument:0", "sim"}, {"argument:1", "--seed=1"}};
    auto other = one;
    other.processes.front().facts.back().value = "--seed=2";
    auto found = one;
    found.processes.front().facts = {{"command", "explore"}, {"scenario", "calm"}, {"seed", "1"}};
    auto next = found;
    next.processes.front().facts.back().value = "2";
    auto served = one;
    served.processes.front().facts.front().value = "serve";
    auto again = served;
    again.processes.front().facts.back().value = "--port=1";
    EXPECT_EQ(ids(one), ids(one));
    std::set<std::string> all;
    std::size_t spans = 0;
    for (const auto& r : {one, other, found, next, served}) {
      const auto own = ids(r);
      spans += own.size();
      all.insert(own.begin(), own.end());
    }
    EXPECT_EQ(all.size(), spans);
    EXPECT_EQ(ids(served), ids(again)) << "a server's key is its own";
  }
}

} // namespace
} // namespace godwit::runtime::trace::analysis
