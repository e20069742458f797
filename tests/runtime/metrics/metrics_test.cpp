#include <godwit/runtime/metrics/registry.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <thread>

namespace godwit::runtime::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, ThePageIsPrometheusText) {
  auto r = registry();
  r.add_counter("godwit_requests_total", "Requests accepted.").increment(3);
  r.add_gauge("godwit_load", "Load\nwith a \\ in its help.").set(0.25);
  auto& h = r.add_histogram("godwit_ttft_seconds", "Time to the first token.", {0.1, 1, 10});
  for (const auto x : {0.05, 0.1, 0.5, 100.0}) h.observe(x);
  EXPECT_EQ(r.expose(), "# HELP godwit_requests_total Requests accepted.\n"
                        "# TYPE godwit_requests_total counter\n"
                        "godwit_requests_total 3\n"
                        "# HELP godwit_load Load\\nwith a \\\\ in its help.\n"
                        "# TYPE godwit_load gauge\n"
                        "godwit_load 0.25\n"
                        "# HELP godwit_ttft_seconds Time to the first token.\n"
                        "# TYPE godwit_ttft_seconds histogram\n"
                        "godwit_ttft_seconds_bucket{le=\"0.1\"} 2\n"
                        "godwit_ttft_seconds_bucket{le=\"1\"} 3\n"
                        "godwit_ttft_seconds_bucket{le=\"10\"} 3\n"
                        "godwit_ttft_seconds_bucket{le=\"+Inf\"} 4\n"
                        "godwit_ttft_seconds_sum 100.65\n"
                        "godwit_ttft_seconds_count 4\n");
}

TEST(Metrics, LabelValuesAreEscaped) {
  auto r = registry();
  auto& f = r.add_counter_family("answers_total", "Answers.", {"model", "status"});
  f.with({"a\"b\\c\nd", "200"}).increment();
  EXPECT_THAT(r.expose(), HasSubstr("answers_total{model=\"a\\\"b\\\\c\\nd\",status=\"200\"} 1\n"));
}

// Prometheus refuses a whole page for it.
TEST(Metrics, WhatIsNotUtf8InALabelIsReplaced) {
  auto r = registry();
  r.add_counter_family("c_total", "help \xff", {"name"})
      .with({"b\xff"
             "ad"})
      .increment();
  EXPECT_THAT(r.expose(), HasSubstr("# HELP c_total help \xEF\xBF\xBD\n"));
  EXPECT_THAT(r.expose(), HasSubstr("c_total{name=\"b\xEF\xBF\xBD"
                                    "ad\"} 1"));
}

TEST(Metrics, AHistogramFamilyPutsLeAfterItsLabels) {
  auto r = registry();
  r.add_histogram_family("h", "H.", {"kind"}, {1}).with({"x"}).observe(2);
  EXPECT_THAT(r.expose(), HasSubstr("h_bucket{kind=\"x\",le=\"1\"} 0\nh_bucket{kind=\"x\",le=\"+Inf\"} 1\n"
                                    "h_sum{kind=\"x\"} 2\nh_count{kind=\"x\"} 1\n"));
}

TEST(Metrics, TheNumberOfSeriesIsBounded) {
  auto r = registry();
  auto& f = r.add_counter_family("c_total", "C.", {"model"}, 3);
  auto& first = f.with({"m0"});
  for (int i = 0; i < 100; ++i) f.with({"m" + std::to_string(i)}).increment();
  EXPECT_EQ(&f.with({"m0"}), &first);
  const auto page = r.expose();
  EXPECT_THAT(page, HasSubstr("c_total{model=\"m2\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("c_total{model=\"other\"} 97\n"));
  EXPECT_THAT(page, Not(HasSubstr("m3")));
  EXPECT_THROW((void)f.with({"a", "b"}), std::invalid_argument);
}

TEST(Metrics, CallbacksAreReadWithThePageAndEndWithTheirRegistration) {
  auto value = 1.5;
  auto page = std::string();
  auto r = std::make_optional<registry>();
  auto kept = registry::registration();
  {
    auto gone = r->add_callback_gauge("g", "G.", [&] { return value; });
    kept = r->add_callback_gauges("per_instance", "I.", [] {
      return registry::samples{{{{"instance", "0"}}, 1},
                               {{{"instance", "1"}}, std::numeric_limits<double>::infinity()}};
    });
    value = 2.5;
    page = r->expose();
    EXPECT_THAT(page, HasSubstr("g 2.5\n"));
    EXPECT_THAT(page, HasSubstr("per_instance{instance=\"0\"} 1\nper_instance{instance=\"1\"} +Inf\n"));
  }
  EXPECT_THAT(r->expose(), Not(HasSubstr("g 2.5")));
  auto again = r->add_callback_counter("g", "The name is free again.", [] { return 7.0; });
  EXPECT_THAT(r->expose(), HasSubstr("# TYPE g counter\ng 7\n"));
  r.reset(); // registrations may outlive it
}

TEST(Metrics, ConcurrentUpdatesAreAllCounted) {
  auto r = registry();
  auto& c = r.add_counter("c_total", "C.");
  auto& g = r.add_gauge("g", "G.");
  auto& h = r.add_histogram("h", "H.", {10});
  auto threads = std::vector<std::thread>();
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        c.increment();
        g.add(1);
        h.observe(i % 20);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(c.value(), 40000U);
  EXPECT_EQ(g.value(), 40000.0);
  const auto now = h.read();
  EXPECT_EQ(now.cumulative.back(), 40000U);
  EXPECT_EQ(now.cumulative.front(), 22000U); // 0 .. 10 of 0 .. 19
  EXPECT_EQ(now.sum, 40000 * 9.5);
}

TEST(Metrics, ANotANumberSpoilsNothing) {
  auto h = histogram({1});
  h.observe(std::nan(""));
  h.observe(0.5);
  EXPECT_EQ(h.read().sum, 0.5);
  EXPECT_EQ(h.read().cumulative.back(), 1U);
}

TEST(Metrics, AWrongDeclarationIsABug) {
  auto r = registry();
  r.add_counter("c_total", "C.");
  EXPECT_THROW(r.add_gauge("c_total", "Twice."), std::logic_error);
  EXPECT_THROW(r.add_gauge("1c", "Illegal."), std::logic_error);
  EXPECT_THROW(r.add_gauge_family("g", "Illegal.", {"le"}), std::logic_error);
  EXPECT_THROW(r.add_histogram("h", "Not ascending.", {2, 1}), std::invalid_argument);
  r.add_histogram("h", "H.", {1});
  EXPECT_THROW(r.add_counter("h_count", "Taken by h."), std::logic_error);
  EXPECT_THAT(exponential_bounds(0.5, 2, 3), ::testing::ElementsAre(0.5, 1, 2));
}

} // namespace
} // namespace godwit::runtime::metrics
