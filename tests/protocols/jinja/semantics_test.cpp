#include "openai/json_value.hpp"
#include "protocols/jinja/rendering.hpp"

#include <boost/json/value.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

// What Python's Jinja 3.1 gives for the same.
namespace godwit::protocols::jinja {
namespace {

using ::testing::HasSubstr;
using tests::shown;

TEST(JinjaSemantics, FiltersOfListsTakeWhatIsFalseAsEmpty) {
  EXPECT_EQ(shown("{{ none|selectattr('a')|list }}{{ none|rejectattr('a')|list }}{{ none|map('upper')|list }}"
                  "{{ none|map(attribute='a')|list }}{{ none|select|list }}{{ 0|reject('odd')|list }}"),
            "[][][][][][]");
  EXPECT_EQ(
      shown("{%- set x = none | selectattr('type', 'equalto', 'code_interpreter') | list | length > 0 -%}{{ x }}"),
      "False");
  EXPECT_THAT(shown("{{ 5|select|list }}"), HasSubstr("no items"));
}

TEST(JinjaSemantics, ABreakLeavesTheBlocksThatItStandsIn) {
  EXPECT_EQ(
      shown("{% for i in [1,2,3] %}{% set x %}a{% if i==2 %}{% break %}{% endif %}b{% endset %}{{ x }}{% endfor %}"),
      "ab");
  EXPECT_EQ(shown("{% for i in [1,2,3] %}{% filter upper %}a{% if i==2 %}{% continue %}{% endif %}b{% endfilter %}"
                  "{% endfor %}"),
            "ABAB");
}

TEST(JinjaSemantics, ElseIsForLoopsOfWhichNoRoundWasFinished) {
  EXPECT_EQ(shown("{% for i in [1,2] %}{% break %}{% else %}e{% endfor %}"), "e");
  EXPECT_EQ(shown("{% for i in [1,2] %}{% continue %}{% else %}e{% endfor %}"), "e");
  EXPECT_EQ(shown("{% for i in [1,2] %}{% if i==1 %}{% continue %}{% endif %}{{ i }}{% else %}e{% endfor %}"), "2");
}

TEST(JinjaSemantics, MethodsOfStringsTakeBounds) {
  EXPECT_EQ(shown("{{ 'abcabc'.find('b', 2) }} {{ 'abcabc'.find('b', 2, 4) }} {{ 'abcabc'.rfind('b', 0, -2) }} "
                  "{{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'abc'.index('c', -1) }} {{ 'abc'.rfind('') }} "
                  "{{ '\u00e4b\u00e4'.rfind('\u00e4') }} {{ '\u00e4b\u00e4'.find('\u00e4', 1) }}"),
            "4 -1 1 3 -1 2 3 2 2");
  EXPECT_EQ(shown("{{ 'abcabc'.count('b', 2) }} {{ 'abc'.count('', 1) }} {{ 'abc'.count('', 4) }} "
                  "{{ 'abc'.count('', 2, 1) }} {{ 'abc'.count('b', none, none) }} {{ 'abab'.rindex('a', none) }}"),
            "1 3 0 0 1 2");
  EXPECT_EQ(shown("{{ '\u00e4bc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'abc'.startswith('', 4) }} "
                  "{{ 'abc'.endswith(('x', 'b'), 0, -1) }} {{ 'abc'.startswith('abc', 0, 2) }}"),
            "True True False True False");
  EXPECT_THAT(shown("{{ 'abc'.index('a', 1) }}"), HasSubstr("no such part"));
}

TEST(JinjaSemantics, PartsAreSoughtFromBothEnds) {
  EXPECT_EQ(
      shown("{{ 'a-b--c'.rsplit('-', 2) }} {{ 'aaa'.rsplit('aa') }} {{ 'aaa'.split('aa') }} {{ 'aaa'.rfind('aa') }} "
            "{{ 'a'.rsplit('bc') }} {{ 'abc'.rfind('x') }} {{ 'xaXa'.strip('a') }} "
            "{{ '\u2014\u00e9\u2014'.strip('-\u2014') }} {{ 'abcb'.replace('b', '') }}"),
      "['a-b', '', 'c'] ['a', ''] ['', 'a'] 1 ['a'] -1 xaX \u00e9 ac");
}

TEST(JinjaSemantics, IntegersHaveABase) {
  EXPECT_EQ(shown("{{ 'ff'|int(base=16) }} {{ '0x1F'|int(0, 16) }} {{ '101'|int(base=2) }} {{ 'zz'|int(7, 16) }} "
                  "{{ '0b11'|int(base=0) }} {{ '12'|int(base=99) }} {{ '1_000'|int }} {{ 12|int(base=16) }} "
                  "{{ '-ff'|int(base=16) }} {{ '010'|int }} {{ '0x10'|int }} {{ ' 7 '|int }} {{ '+-7'|int(8) }} "
                  "{{ '_1'|int(8) }} {{ '-9223372036854775808'|int }}"),
            "255 31 5 7 3 12 1000 12 -255 10 0 7 8 8 -9223372036854775808");
  EXPECT_EQ(shown("{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 0XFF_FF }} {{ 1_000 }}"), "31 5 15 65535 1000");
  for (const auto* broken : {"{{ 0x }}", "{{ 0b2 }}", "{{ 0xffffffffffffffffff }}"})
    EXPECT_FALSE(compiled_template::compile(broken)) << broken;
}

TEST(JinjaSemantics, ArgumentsTooManyAreAnError) {
  const std::string one = "{% macro m(a) %}{{ a }}{% endmacro %}";
  const std::vector<std::string> wrong{
      "{{ 'a'.upper(1) }}",
      "{{ 'a'.find('a', 0, 1, 2) }}",
      "{{ 'a,b'.split(',', 1, 2) }}",
      "{{ 'a'.strip(characters='a') }}",
      "{{ 'a'|upper(1) }}",
      "{{ 'a'|default('b', true, 1) }}",
      "{{ [1]|tojson(indent=2, foo=1) }}",
      "{{ [3, 1]|sort(nothing=1) }}",
      "{{ [3, 1]|sort(true, reverse=false) }}",
      "{{ [1, 2]|join(',', none, 3) }}",
      "{{ [1, 2]|first(1) }}",
      "{{ ['a']|map('upper', attribute='x')|list }}",
      "{{ ['a']|map(attribute='x', z=1)|list }}",
      "{{ [1]|select('odd', 1)|list }}",
      "{{ '%s'|format(1, 2) }}",
      "{{ table.get('a', 1, 2) }}",
      "{{ table.items(1) }}",
      "{{ words.count('a', 1) }}",
      "{{ words.copy(1) }}",
      "{{ range(1, 2, 3, 4) }}",
      "{{ namespace(1, 2) }}",
      "{{ joiner(', ')(1) }}",
      "{{ cycler('a').next(1) }}",
      "{{ strftime_now('%d', 1) }}",
      "{{ 3 is odd(1) }}",
      "{{ 3 is divisibleby(3, 1) }}",
      one + "{{ m(1, 2) }}",
      one + "{{ m(1, z=2) }}",
      one + "{{ m(1, a=2) }}",
      one + "{% call m(1) %}x{% endcall %}",
      "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a) m() %}x{% endcall %}"};
  for (const auto& source : wrong) EXPECT_THAT(shown(source), HasSubstr("error: line 1: ")) << source;
  EXPECT_EQ(shown("{{ m(1) }}{% macro m(a) %}{% endmacro %}"), "error: line 1: 'm' is undefined");
  EXPECT_EQ(shown(one + "{{ m(1, 2) }}"), "error: line 1: m() has too many arguments");
  EXPECT_EQ(shown(one + "{{ m(1, z=2) }}"), "error: line 1: m() takes no argument 'z'");
  EXPECT_EQ(shown("{{ 'a'.upper(1) }}"), "error: line 1: upper() has too many arguments");
  EXPECT_EQ(shown("{% macro m(a) %}{{ a }}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, a=2) }}"), "1{'a': 2}[2]");
  EXPECT_EQ(shown("{% macro m(caller=none) %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}"), "x");
  EXPECT_EQ(shown("{{ [1, 2]|join(',', none) }}{{ [2, 1]|sort(attribute=none) }}{{ 'a'.strip(none) }}"), "1,2[1, 2]a");
}

TEST(JinjaSemantics, KeysOfDictsAreStrings) {
  EXPECT_EQ(shown("{% if false %}{{ {'a': 1, 2: 'b'} }}{% endif %}"),
            "error: line 1: a key of a dict must be a string");
  EXPECT_FALSE(compiled_template::compile("{{ {true: 1} }}"));
  EXPECT_EQ(shown("{{ {'a' ~ n: 1} }}"), "{'a3': 1}");
}

TEST(JinjaSemantics, LettersHaveTwoCases) {
  EXPECT_EQ(shown("{{ '\u0139\u013a\u0147\u0148\u0179\u017a\u017d\u017e\u00ff\u00df\u00b5'.upper() }}"),
            "\u0139\u0139\u0147\u0147\u0179\u0179\u017d\u017d\u0178SS\u039c");
  EXPECT_EQ(shown("{{ '\u0139\u013a\u0147\u0148\u0179\u017a\u017d\u017e\u0178'.lower() }}"),
            "\u013a\u013a\u0148\u0148\u017a\u017a\u017e\u017e\u00ff");
  EXPECT_EQ(shown("{{ '\u03ac\u03ad\u03ae\u03af\u03cc\u03cd\u03ce\u03ca\u03cb\u03c2'.upper() }}"),
            "\u0386\u0388\u0389\u038a\u038c\u038e\u038f\u03aa\u03ab\u03a3");
  EXPECT_EQ(shown("{{ '\u0386\u0388\u0389\u038a\u038c\u038e\u038f\u03aa\u03ab'.lower() }}"),
            "\u03ac\u03ad\u03ae\u03af\u03cc\u03cd\u03ce\u03ca\u03cb");
  EXPECT_EQ(
      shown("{{ '\u1e00\u1e01\u1e95\u1ea1\u1ebf\u1ef9\u1eff'.upper() }}{{ '\u1e00\u1e94\u1ea0\u1ebe\u1e9e'.lower() }}"),
      "\u1e00\u1e00\u1e94\u1ea0\u1ebe\u1ef8\u1efe\u1e01\u1e95\u1ea1\u1ebf\u00df");
  EXPECT_EQ(shown("{{ '\u0439\u0451\u04c0\u04cf\u04c1\u04c2\u04d1\u048b'.upper() }}"),
            "\u0419\u0401\u04c0\u04c0\u04c1\u04c1\u04d0\u048a");
  EXPECT_EQ(shown("{{ 'a\u4e2db a\u00e9b-c\\'d'.title() }}"), "A\u4e2dB A\u00e9b-C'D");
}

TEST(JinjaSemantics, LettersAreToldFromSigns) {
  EXPECT_EQ(shown("{{ '\U0001f600'.isalpha() }}{{ '\u2014'.isalnum() }}{{ '\u00d7'.isalpha() }}{{ '\u20ac'.isalnum() }}"
                  "{{ '\u3002'.isalpha() }}{{ 'a1'.isalpha() }}"),
            "FalseFalseFalseFalseFalseFalse");
  EXPECT_EQ(shown("{{ '\u00e9\u4e2d\u0436\u0e01\uac00a'.isalpha() }}{{ '\u00e91'.isalnum() }}"), "TrueTrue");
}

TEST(JinjaSemantics, LinesEndAsInPython) {
  EXPECT_EQ(shown("{{ 'a\\vb\\fc\\x1cd\\x85e\\u2028f\\u2029g\\r\\nh'.splitlines()|join('|') }}"), "a|b|c|d|e|f|g|h");
  EXPECT_EQ(shown("{{ 'a\\u2028b\\n'.splitlines(true)|join('|') }}"), "a\u2028|b\n");
}

TEST(JinjaSemantics, LongChainsAreNoNesting) {
  std::string branches = "{% if n == 0 %}0";
  std::string joined = "{{ n";
  for (int i = 1; i < 900; ++i) {
    branches += "{% elif n == " + std::to_string(903 - i) + " %}" + std::to_string(i);
    joined += " ~ 'x'";
  }
  EXPECT_EQ(shown(branches + "{% endif %}"), "");
  EXPECT_EQ(shown(branches + "{% elif n == 3 %}yes{% else %}no{% endif %}"), "yes");
  EXPECT_EQ(shown(branches + "{% else %}no{% endif %}"), "no");
  EXPECT_EQ(shown(joined + " }}"), "3" + std::string(899, 'x'));
  std::string endless = "{% if 1 %}";
  std::string sum = "{{ 1";
  for (int i = 0; i < 20'000; ++i) {
    endless += "{% elif 1 %}";
    sum += "~1";
  }
  EXPECT_THAT(shown(endless + "{% endif %}"), HasSubstr("branches"));
  EXPECT_THAT(shown(sum + "}}"), HasSubstr("joined by '~'"));
}

TEST(JinjaSemantics, RoundedIntegersAreIntegers) {
  EXPECT_EQ(shown("{{ 25|round(-1) }} {{ 35|round(-1) }} {{ 7|round }} {{ 7|round(2) }} {{ -25|round(-1) }} "
                  "{{ -26|round(-1) }} {{ 5|round(-1) }} {{ 25|round(-1, 'ceil') }} {{ 25.0|round(-1) }}"),
            "20 40 7 7 -20 -30 0 30.0 20.0");
  EXPECT_THAT(shown("{{ 9223372036854775807|round(-1) }}"), HasSubstr("out of range"));
}

TEST(JinjaSemantics, WhatIsUndefinedIsAnEmptySequence) {
  EXPECT_EQ(shown("{{ x is sequence }}{{ x is iterable }}{{ x is mapping }}{{ none is sequence }}"),
            "TrueTrueFalseFalse");
}

TEST(JinjaSemantics, CyclersTellTheirPlace) {
  EXPECT_EQ(
      shown("{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.current }}"),
      "aabba");
}

TEST(JinjaSemantics, LoopsAreReadableBehindTheirEnd) {
  EXPECT_EQ(
      shown("{% set ns = namespace() %}{% for i in [1,2,3] %}{% set ns.l = loop %}{% if i == 2 %}{% break %}{% endif %}"
            "{% endfor %}{{ ns.l.index }}{{ ns.l.length }}{{ ns.l.last }}"),
      "23False");
  EXPECT_EQ(shown("{% set ns = namespace() %}{% for i in [1,2,3] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}"
                  "{{ ns.l.revindex0 }}{{ ns.l.last }}{{ ns.l.nextitem is defined }}"),
            "30TrueFalse");
}

TEST(JinjaSemantics, TheTimeIsShownInManyWays) {
  render_options options;
  options.now_s = 1721988296; // a Friday
  EXPECT_EQ(tests::render("{{ strftime_now('%-d|%-m|%-H|%Z|%z|%c|%x|%X|%D|%R|%-I|%-j|%-S|%-e|%-y|%-q|%-') }}", options)
                ->bytes(),
            "26|7|10|||Fri Jul 26 10:04:56 2024|07/26/24|10:04:56|07/26/24|10:04|10|208|56|26|24|%-q|%-");
  options.now_s = 1720170124; // 5 July, 09:02:04
  EXPECT_EQ(tests::render("{{ strftime_now('%-d %-H %-M %-S %d %c') }}", options)->bytes(),
            "5 9 2 4 05 Fri Jul  5 09:02:04 2024");
}

// Beyond int64, within uint64: for showing.
TEST(JinjaSemantics, LargeIntegersKeepTheirDigits) {
  const auto whole = [](std::uint64_t number) { return openai::to_template_value(boost::json::value(number)); };
  const variables given{{"big", whole(18446744073709551615U)}, {"small", whole(7)}};
  EXPECT_EQ(shown("{{ big }} {{ [big]|tojson }} {{ [big] }} {{ big|string }} {{ '%d'|format(big) }} {{ big|int }} {{ "
                  "big|abs }} "
                  "{{ +big }} {{ 'a' ~ big }} {{ small + 1 }} {{ big|round }}",
                  given),
            "18446744073709551615 [18446744073709551615] [18446744073709551615] 18446744073709551615 "
            "18446744073709551615 18446744073709551615 18446744073709551615 18446744073709551615 "
            "a18446744073709551615 8 18446744073709551615");
  EXPECT_EQ(
      shown("{{ big == big }} {{ big > 1 }} {{ big is integer }} {{ big is number }} {{ big in [big] }} {{ not big }} "
            "{{ big|float }} {{ -big }} {{ big + 1 }} {{ big == small }}",
            given),
      "True True True True True False 1.8446744073709552e+19 -1.8446744073709552e+19 1.8446744073709552e+19 False");
}

} // namespace
} // namespace godwit::protocols::jinja
