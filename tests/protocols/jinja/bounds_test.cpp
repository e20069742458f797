#include "protocols/jinja/rendering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sys/resource.h>

// A rendering ends in time and in its memory, whatever a template does.
namespace godwit::protocols::jinja {
namespace {

using ::testing::HasSubstr;
using tests::shown;

class JinjaBounds : public ::testing::Test {
protected:
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - begin_, std::chrono::seconds(20)) << "an unbounded one takes a minute";
  }

private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// A dict of `count` keys of the same size.
value table(std::size_t count, const std::string& before = {}) {
  std::vector<dict_entry> entries;
  for (std::size_t i = 0; i < count; ++i)
    entries.push_back({text(before + std::to_string(1'000'000 + i), false), value(std::int64_t{1})});
  return value::dict(std::move(entries));
}

TEST_F(JinjaBounds, SearchesAreLinear) {
  const std::string before = "{% set s = 'a' * 1000000 %}{% set half = 'a' * 500000 %}";
  EXPECT_EQ(shown(before +
                  "{{ half ~ 'b' in s }} {{ s.find(half ~ 'b') }} {{ s.rfind(half ~ 'b') }} "
                  "{{ s.count(half ~ 'b') }} {{ s.split(half ~ 'b')|length }} {{ s.rsplit(half ~ 'b')|length }} "
                  "{{ s.replace(half ~ 'b', '')|length }} {{ s.rfind('b' ~ half) }}"),
            "False -1 -1 0 1 1 1000000 -1");
}

TEST_F(JinjaBounds, WhatIsLongerThanATextIsNotLookedFor) {
  const variables given{{"big", value::content(std::string(1'000'000, 'b'))}};
  EXPECT_EQ(
      shown("{% for i in range(30000) %}{% set x = 'a'.rfind(big) %}{% set x = 'a'.rsplit(big) %}{% endfor %}", given),
      "");
}

TEST_F(JinjaBounds, PlacesOfFormatsAreNotLookedForByName) {
  std::vector<dict_entry> entries;
  for (std::size_t i = 0; i < 300'000; ++i)
    entries.push_back({text(std::to_string(1'000'000 + i), false), value(std::int64_t{1})});
  entries.push_back({text("", false), value(std::int64_t{1})});
  EXPECT_THAT(shown("{{ ('{}' * 150000).format(**d) }}", {{"d", value::dict(std::move(entries))}}),
              HasSubstr("has no value for"));
}

TEST_F(JinjaBounds, ScopesWithinScopesAreSteps) {
  std::string source, ends;
  for (int i = 0; i < 80; ++i) {
    source += "{% for i" + std::to_string(i) + " in [1] %}";
    ends += "{% endfor %}";
  }
  EXPECT_THAT(shown("{% set far = 1 %}" + source +
                    "{% for i in range(100000) %}{% set x = [far, far, far] %}{% endfor %}" + ends),
              HasSubstr("steps"));
}

TEST_F(JinjaBounds, StrippingIsLinear) {
  EXPECT_EQ(shown("{{ ('a' * 300000).strip('bcdefg' * 50000 ~ 'a')|length }}"), "0");
  EXPECT_THAT(shown("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s.strip('bc') %}{% endfor %}"),
              HasSubstr("more than"));
}

TEST_F(JinjaBounds, VariablesAreSteps) {
  std::string source;
  for (int i = 0; i < 20'000; ++i) source += "{% set v" + std::to_string(10'000 + i) + " = 1 %}";
  source += "{% for i in range(100000) %}{% set x = [v29999, v29999, v29999, v29999, v29999, v29999] %}{% endfor %}";
  EXPECT_THAT(shown(source), HasSubstr("steps"));
}

TEST_F(JinjaBounds, AttributesOfNamespacesAreSteps) {
  EXPECT_THAT(shown("{% set ns = namespace(**t) %}{% for i in range(100000) %}{% set ns.last = i %}{% endfor %}",
                    {{"t", table(200'000)}}),
              HasSubstr("steps"));
}

TEST_F(JinjaBounds, ArgumentsOfMacrosAreSteps) {
  std::string source = "{% macro m(p0=1";
  for (int i = 1; i < 5000; ++i) source += ",p" + std::to_string(100'000 + i) + "=1";
  source += ") %}{{ kwargs|length }}{% endmacro %}{% for i in range(20) %}{{ m(**t) }}{% endfor %}";
  EXPECT_THAT(shown(source, {{"t", table(100'000)}}), HasSubstr("steps"));
}

TEST_F(JinjaBounds, LongKeysAreSteps) {
  const std::string before(1'000'000, 'k');
  EXPECT_THAT(shown("{% for i in range(100000) %}{% set x = t[k] %}{% endfor %}",
                    {{"t", table(8, before)}, {"k", value::content(before + "1000007")}}),
              HasSubstr("steps"));
  EXPECT_THAT(
      shown("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l + [{k: 1}] %}{% endfor %}",
            {{"k", value::content(before)}}),
      HasSubstr("bytes of text"));
  EXPECT_FALSE(compiled_template::compile("{{ " + std::string(5000, 'n') + " }}"));
}

TEST_F(JinjaBounds, TestsOfLettersAreSteps) {
  EXPECT_THAT(shown("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s is lower }}{% endfor %}"),
              HasSubstr("steps"));
}

TEST_F(JinjaBounds, NumbersInTextsAreSteps) {
  const std::string before = "{% set s = '1' * 1000000 %}{% for i in range(100000) %}{% set x = ";
  for (const auto* how : {"s|float", "s|int", "[[1]]|map(attribute=s)|list"})
    EXPECT_THAT(shown(before + how + " %}{% endfor %}"), HasSubstr("steps")) << how;
}

TEST_F(JinjaBounds, RunsOfContentAreMemory) {
  const variables given{{"c", value::content("c")}};
  EXPECT_THAT(shown("{% set x = ('<' ~ c) * 10000000 %}", given), HasSubstr("bytes of text"));
  EXPECT_THAT(shown("{% set x = ('<' ~ c) * 1000000 %}{% for i in range(10) %}{{ x }}{% endfor %}", given),
              HasSubstr("bytes of text"));
}

TEST_F(JinjaBounds, LoopsDoNotCopyTheirLists) {
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto before = peak_kib();
  EXPECT_EQ(
      shown("{% set l = range(100000) %}{% for i in range(150) %}{% for x in l %}{% break %}{% endfor %}{% endfor %}"),
      "");
  EXPECT_LT(peak_kib() - before, 100 * 1024);
}

} // namespace
} // namespace godwit::protocols::jinja
