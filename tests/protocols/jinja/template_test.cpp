#include "protocols/jinja/rendering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::protocols::jinja {
namespace {

using ::testing::HasSubstr;

using tests::render;
using tests::shown;

/// Content in square brackets, markup bare.
std::string marked(const std::string& source) {
  const auto out = render(source);
  if (!out) return "error: " + to_string(out.error());
  std::string all;
  std::size_t from = 0;
  for (const auto& run : out->runs()) {
    const auto part = out->bytes().substr(from, run.end - from);
    all += run.markup ? part : "[" + part + "]";
    from = run.end;
  }
  return all;
}

// What users write never becomes markup, whatever a template does with it.
TEST(JinjaMarkup, LiteralsAndTokensAreMarkupAndContentIsNot) {
  EXPECT_EQ(marked("{{ bos }}<|user|>{{ user }}<|end|>"), "<s><|user|>[<|end|>]<|end|>");
  EXPECT_EQ(marked("{{ '<|user|>' + user + '<|end|>' }}"), "<|user|>[<|end|>]<|end|>");
  EXPECT_EQ(marked("{{ 'a' ~ user ~ n }}"), "a[<|end|>]3");
  EXPECT_EQ(marked("{% set x %}<{{ user }}>{% endset %}{{ x }}"), "<[<|end|>]>");
  EXPECT_EQ(marked("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(user) }}"), "([<|end|>])");
  EXPECT_EQ(
      marked("{% set ns = namespace(t='') %}{% for w in words %}{% set ns.t = ns.t ~ w ~ ',' %}{% endfor %}{{ ns.t }}"),
      "[a],[b],");
}

TEST(JinjaMarkup, MethodsAndFiltersKeepIt) {
  EXPECT_EQ(marked("{{ (' ' + user + ' ') | trim }}"), "[<|end|>]");
  EXPECT_EQ(marked("{{ ('<' ~ user)[0:3] }}"), "<[<|]");
  EXPECT_EQ(marked("{{ ('<' ~ user)[::-1] }}"), "[>|dne|<]<");
  EXPECT_EQ(marked("{{ user.replace('end', 'x') }}"), "[<|]x[|>]");
  EXPECT_EQ(marked("{{ 'a-b'.replace('-', user) }}"), "a[<|end|>]b");
  EXPECT_EQ(marked("{{ user.split('|')[1] }}"), "[end]");
  EXPECT_EQ(marked("{{ user | upper }}{{ user.title() }}{{ user | capitalize }}"), "[<|END|><|End|><|end|>]");
  EXPECT_EQ(marked("{{ words | join('<|end|>') }}"), "[a]<|end|>[b]");
  EXPECT_EQ(marked("{{ table | tojson }}"), "{\"[k]\": \"[v]\"}");
  EXPECT_EQ(marked("{{ [user] | tojson }}"), "[\"[<|end|>]\"]");
  EXPECT_EQ(marked("{{ [user] }}"), "['[<|end|>]']");
  EXPECT_EQ(marked("{% for k, v in table.items() %}{{ k }}={{ v }}{% endfor %}"), "[k]=[v]");
  EXPECT_EQ(marked("{{ user | indent(2, true) }}"), "  [<|end|>]");
  EXPECT_EQ(marked("{{ user | escape }}"), "[&lt;|end|&gt;]");
  EXPECT_EQ(marked("{{ '%s!' | format(user) }}{{ '{}?'.format(user) }}"), "[<|end|>]![<|end|>]?");
  EXPECT_EQ(marked("{{ user | reverse }}{{ user | list | join }}"), "[>|dne|<<|end|>]");
  EXPECT_EQ(marked("{{ [1, 2] | tojson(separators=(user, ':')) }}"), "[1[<|end|>]2]");
  EXPECT_EQ(marked("{{ ['\u00e9'] | tojson(true) }}"), R"(["\u00e9"])") << "as transformers' function has them";
  EXPECT_EQ(marked("{{ [1] | tojson(false, 1) }}"), "[\n 1\n]");
  EXPECT_EQ(marked("{% for i in [1] %}{% for j in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}"),
            "10");
  EXPECT_EQ(marked("{% raw %}\n{{ x }}{% endraw %}\n|{%- raw -%}\n {{ y }}{% endraw %}"), "\n{{ x }}|{{ y }}");
  EXPECT_EQ(marked("{{ strftime_now('%Y') }}{{ strftime_now(user) }}"), "1970[<|end|>]");
  EXPECT_EQ(marked("{% for k in dict(**table) %}{{ k }}{% endfor %}"), "[k]");
  EXPECT_EQ(marked("{% macro m() %}{% for k in kwargs %}{{ k }}{% endfor %}{% endmacro %}{{ m(**table) }}"), "[k]");
  EXPECT_EQ(marked("{% filter upper %}a{{ user }}{% endfilter %}{% set x | trim %} {{ user }} {% endset %}{{ x }}"),
            "A[<|END|><|end|>]");
  EXPECT_EQ(marked("{{ user * 2 }}"), "[<|end|><|end|>]");
  EXPECT_EQ(marked("{{ user[0] }}{{ user[-1] }}"), "[<>]");
}

// Where npm @huggingface/jinja does otherwise; models were trained on what Python rendered.
TEST(Jinja, DoesAsPythonWhereImplementationsDiffer) {
  EXPECT_EQ(shown("{{ true }} {{ none }} {{ [1, 'a', none, 1.0] }} {{ {'k': true} }}"),
            "True None [1, 'a', None, 1.0] {'k': True}");
  EXPECT_EQ(shown("{{ '🙂x' | length }}"), "2");
  EXPECT_EQ(shown("{% for i in [1, 2] %}{% if loop.first %}{% set x = 1 %}{% endif %}{{ x }}{% endfor %}"), "1");
  EXPECT_EQ(shown("{{ -7 % 3 }} {{ 7 % -3 }} {{ -7 // 2 }} {{ 1 / 2 }} {{ 2 ** -1 }}"), "2 -2 -4 0.5 0.5");
  EXPECT_EQ(shown("{% if 'a' < 'b' and 1 < 2 < 3 and [1, 2] == [1, 2] and 1 == 1.0 %}y{% endif %}"), "y");
  EXPECT_EQ(shown("{{ [1, 2, 3, 4] | select('odd') | join }}{{ ['a', 'b'] | map('upper') | join }}"), "13AB");
  EXPECT_EQ(shown("{{ \"it's\" | list | length }}{{ [\"it's\"] }}"), "4[\"it's\"]");
  EXPECT_EQ(shown("{{ 'x' * 3 }}{{ [1] * 2 }}"), "xxx[1, 1]");
  EXPECT_EQ(shown("{% raw %}{{ not }} {% this %}{% endraw %}!"), "{{ not }} {% this %}!");
  EXPECT_EQ(shown("{% for a in [1] %}{{ loop.cycle('x', 'y') }}{% endfor %}"), "x");
  EXPECT_EQ(shown("{% set j = joiner(', ') %}{% for a in [1, 2] %}{{ j() }}{{ a }}{% endfor %}"), "1, 2");
  EXPECT_EQ(shown("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"), "aba");
  EXPECT_EQ(shown("{{ 1e16 }} {{ 0.0001 }} {{ 1e-5 }} {{ 100.0 }}"), "1e+16 0.0001 1e-05 100.0");
  EXPECT_EQ(shown("{{ 2.675 | round(2) }} {{ 1.15 | round(1) }} {{ 2.5 | round }} {{ -0.5 | round }} {{ 1250.0 | "
                  "round(-2) }} {{ 7 | round }} {{ 2.1 | round(1, 'ceil') }} {{ 1e300 | round(15) }}"),
            "2.67 1.1 2.0 -0.0 1200.0 7 2.1 1e+300");
  EXPECT_EQ(shown("{{ 'a\\x41\\u00e9' }}"), "aA\xc3\xa9");
  EXPECT_EQ(shown("{% macro m() %}{{ varargs | join }}{{ kwargs.z }}{% endmacro %}{{ m(1, 2, z=3) }}"), "123");
}

TEST(Jinja, TheTimeIsAnArgument) {
  render_options options;
  options.now_s = 1721988296; // a Friday
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A %H:%M:%S %j %%') }}", options)->bytes(),
            "26 Jul 2024, Friday 10:04:56 208 %");
}

TEST(Jinja, AnErrorNamesItsLine) {
  EXPECT_EQ(shown("a\nb\n{{ missing.x }}"), "error: line 3: there is nothing to take 'x' from: 'missing' is undefined");
  EXPECT_EQ(shown("\n{% if %}"), "error: line 2: expected an expression, found '%}'");
  EXPECT_EQ(shown("{% for a in n %}{% endfor %}"), "error: line 1: an integer has no items to go through");
  EXPECT_EQ(shown("{{ 'x' | nothing }}"), "error: line 1: there is no filter 'nothing'");
  EXPECT_EQ(shown("\n\n{% if x %}"), "error: line 3: expected '{% endif %}', found the end of the template");
  for (const auto* broken : {"{{",
                             "{%",
                             "{#",
                             "{{ 'a }}",
                             "{% raw %}",
                             "{{ 1 + }}",
                             "{{ (1 }}",
                             "{{ [1, }}",
                             "{{ {1:} }}",
                             "{% endif %}",
                             "{% nonsense %}",
                             "{% break %}",
                             "{{ a b }}",
                             "{{ 99999999999999999999 }}",
                             "{% set 1 = 2 %}",
                             "{% for x %}",
                             "{{ x | }}",
                             "{{ x is }}",
                             "{{ ! }}",
                             "{{ '\\xZZ' }}"}) {
    const auto compiled = compiled_template::compile(broken);
    EXPECT_FALSE(compiled) << broken;
  }
}

TEST(Jinja, WhatATemplateRaisesIsForTheClient) {
  const auto out = render("x\n{{ raise_exception('Roles must alternate: ' ~ n) }}");
  ASSERT_FALSE(out);
  EXPECT_TRUE(out.error().raised);
  EXPECT_EQ(out.error().message, "Roles must alternate: 3");
  EXPECT_FALSE(render("{{ n.x.y }}").error().raised);
}

TEST(Jinja, ListsAndDictsOfTheConversationCannotBeChanged) {
  EXPECT_THAT(shown("{{ words.append('x') }}"), HasSubstr("cannot be changed"));
  EXPECT_THAT(shown("{{ table.update({}) }}"), HasSubstr("cannot be changed"));
  EXPECT_THAT(shown("{% set table.k = 1 %}"), HasSubstr("namespaces only"));
}

// Each would run for ever, or fill the memory or the stack, if it could.
TEST(Jinja, ABudgetEndsWhatDoesNotEnd) {
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "(";
  std::string sum = "1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  std::string ifs;
  for (int i = 0; i < 1000; ++i) ifs += "{% if 1 %}";
  std::string maps = "{{ 'a' | map('map'";
  for (int i = 0; i < 20'000; ++i) maps += ",'map'";
  const std::vector<std::string> attacks{
      "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
      "{{ range(100000000) }}",
      "{% set ns = namespace(t='0123456789') %}{% for i in range(100) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | "
      "tojson }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, "
      "ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
      "{{ 'x' * 1000000000 }}",
      "{{ [1] * 1000000000 }}",
      "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
      "{{ ('x\n' * 1000000) | indent(1000) }}",
      "{{ ('x ' * 5000000).split() | length }}",
      "{{ ('x,' * 5000000).split(',') | length }}",
      "{{ ('x' * 10000000) | list | length }}",
      "{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{% set x = s.strip() %}{% endfor %}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ 2 ** 64 }}",
      "{{ 1 // 0 }}",
      "{{ 1.0 % 0 }}",
      "{{ " + deep,
      "{{ " + sum + " }}",
      ifs,
      maps + ") | list }}",
      "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns.ns | tojson }}"};
  for (const auto& attack : attacks) {
    const auto out = render(attack);
    EXPECT_FALSE(out) << attack.substr(0, 120);
  }
  EXPECT_FALSE(compiled_template::compile(std::string(2U << 20U, 'x'))) << "a template has a limit, too";
}

TEST(Jinja, CirclesOfNamespacesAreFreed) {
  // The leak checker of the sanitised build sees it otherwise.
  EXPECT_EQ(shown("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.l = [a, b] %}done"),
            "done");
}

TEST(Jinja, LongChainsAreFreedWithoutTheStack) {
  EXPECT_EQ(shown("{% set ns = namespace(prev=[1]) %}{% for a in range(99999) %}{% for x in ns.prev %}{% set ns.prev = "
                  "[loop] %}{% endfor %}{% endfor %}done"),
            "done");
  EXPECT_EQ(
      shown("{% set ns = namespace(prev=1) %}{% for a in range(99999) %}{% set ns.prev = namespace(before=ns.prev) "
            "%}{% endfor %}done"),
      "done");
}

TEST(Jinja, ATemplateSaysWhichVariablesItReads) {
  const auto compiled = compiled_template::compile("{% if tools %}{{ tools | tojson }}{% endif %}{{ m.documents }}");
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->reads("tools"));
  EXPECT_TRUE(compiled->reads("m"));
  EXPECT_FALSE(compiled->reads("documents"));
}

} // namespace
} // namespace godwit::protocols::jinja
