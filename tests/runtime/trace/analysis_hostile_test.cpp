#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/analysis/diff.hpp>
#include <godwit/runtime/trace/analysis/exports.hpp>
#include <godwit/runtime/trace/analysis/follow.hpp>
#include <godwit/runtime/trace/analysis/selection.hpp>
#include <godwit/runtime/trace/analysis/sequence.hpp>
#include <godwit/runtime/trace/analysis/slow.hpp>
#include <godwit/runtime/trace/analysis/stats.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace godwit::runtime::trace::analysis {
namespace {

/// A recording that a reader would give, of events that never happened: its indices are right and nothing else is.
recording senseless(std::uint64_t seed) {
  support::served_settings s;
  s.seed = seed;
  s.node = true;
  s.migration = true;
  auto r = support::served(s);
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  for (auto& e : r.events) {
    const auto& other = r.events[below(r.events.size())];
    switch (below(12)) {
    case 0:
      e.cause = other.id; // cycles too
      break;
    case 1:
      e.id = other.id;
      break;
    case 2:
      e.begin_ns = static_cast<std::int64_t>(below(10'000'000)) - 5'000'000;
      break;
    case 3:
      e.end_ns -= 1'000'000'000;
      break;
    case 4:
      e.kind = static_cast<event_kind>(below(event_kinds));
      break;
    case 5:
      e.message = static_cast<message_kind>(below(message_kinds));
      e.wait = below(3);
      break;
    case 6:
      e.sender = other.receiver;
      e.receiver = {};
      break;
    case 7:
      e.request = below(7);
      break;
    case 8:
      e.name = static_cast<std::uint32_t>(below(r.names.size()));
      break;
    case 9:
      e.attributes = other.attributes;
      break;
    default:
      break;
    }
  }
  std::stable_sort(r.events.begin(), r.events.end(),
                   [&r](const auto& a, const auto& b) { return std::pair(r.at(a), a.id) < std::pair(r.at(b), b.id); });
  return r;
}

TEST(TraceAnalysis, AnswersWhateverARecordingSays) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto r = senseless(seed);
    const index x(r);
    const auto all = select(x, {});
    EXPECT_EQ(all.size(), r.events.size());
    (void)check_causality(x);
    (void)stats(x, all);
    for (const auto& request : model_requests(x)) {
      const auto path = critical_path(x, request);
      const auto sum = std::accumulate(path.sums.begin(), path.sums.end(), std::int64_t{0});
      EXPECT_EQ(sum, std::max<std::int64_t>(request.duration_ns(), 0)) << seed;
      selection one;
      one.request = request.id;
      (void)to_mermaid(make_sequence(x, select(x, one)));
    }
    for (position p = 0; p < x.size(); p += 13) {
      follow_limits limits;
      limits.depth_max = 1000;
      EXPECT_LE(follow(x, p, limits).effects.size(), limits.events_max);
      EXPECT_LE(reachable(x, p).size(), x.size());
    }
    for (const auto format : {0, 1}) {
      std::string out;
      const sink collect = [&out](std::string_view piece) {
        out += piece;
        return true;
      };
      if (format == 0)
        to_perfetto(x, all, collect);
      else
        to_otlp(x, all, {}, collect);
      EXPECT_NO_THROW(static_cast<void>(boost::json::parse(out))) << seed;
    }
    const auto other = senseless(seed + 1);
    EXPECT_LE(diff(x, index(other)).divergences.size(), 10U);
  }
}

TEST(TraceAnalysis, AnswersToNothing) {
  const recording none;
  const index x(none);
  EXPECT_TRUE(model_requests(x).empty());
  EXPECT_TRUE(check_causality(x).sound());
  EXPECT_TRUE(stats(x, {}).types.empty());
  EXPECT_TRUE(make_sequence(x, {}).steps.empty());
  EXPECT_TRUE(follow(x, 0).effects.empty());
  EXPECT_TRUE(diff(x, x).equal());
}

} // namespace
} // namespace godwit::runtime::trace::analysis
