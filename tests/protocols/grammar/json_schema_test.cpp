#include <godwit/protocols/grammar/json_schema.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::grammar {
namespace {

struct claim {
  std::string_view schema;
  std::vector<std::string_view> allowed;
  std::vector<std::string_view> forbidden;
};

void check(const claim& one) {
  const auto made = compile_schema(one.schema);
  ASSERT_TRUE(made.has_value()) << one.schema << "\n" << made.error().path << ": " << made.error().message;
  for (const auto text : one.allowed) EXPECT_TRUE(made->accepts(text)) << one.schema << " should allow " << text;
  for (const auto text : one.forbidden) EXPECT_FALSE(made->accepts(text)) << one.schema << " should forbid " << text;
}

std::string fault_of(std::string_view schema, const schema_limits& limits = {}) {
  const auto made = compile_schema(schema, limits);
  return made ? std::string("none") : made.error().path + ": " + made.error().message;
}

TEST(JsonSchema, AnyValueIsAnyJson) {
  check({"{}",
         {"null", "true", "0", "-1.5e+3", "\"\"", "[]", "[ ]", "{}", "{\n}", R"({"a":[1,{"b":"c"}],"d":null})",
          R"([1, 2,3])", "[\n  1,\n  2\n]", R"("\u00e9\ud83d\ude00é😀\\\"\/")"},
         {"",
          " 1",
          "1 ",
          "01",
          "+1",
          "1.",
          ".5",
          "nul",
          "[1,]",
          "{\"a\" :1}",
          "[1  ,2]",
          "{1:2}",
          "'a'",
          "\"\n\"",
          "\"\\x\"",
          R"("\ud83d")",
          R"("\ude00\ud83d")",
          "\"\xff\"",
          "\"\xed\xa0\x80\"",
          "\"\xc0\x80\"",
          "\"",
          "[",
          "NaN"}});
  check({"true", {"1"}, {""}});
}

TEST(JsonSchema, NumbersThatAreNoneCannotBeAnswered) { check({R"({"enum":[1e400,2]})", {"2"}, {"inf", "1e400"}}); }

TEST(JsonSchema, ObjectsHaveTheirPropertiesInOrder) {
  check({R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},
            "required":["b"],"additionalProperties":false})",
         {R"({"b":""})", R"({"a":1,"b":"x"})", R"({"a":1,"b":"x","c":null})", R"({"b":"x","c":null})",
          "{\n  \"a\": 1,\n  \"b\": \"x\"\n}", R"({ "b": "x" })"},
         {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":1})", R"({"b":"x","d":1})", R"({"b":"x",})",
          R"({"b":"x","b":"x"})", R"({"a":1,"b":"x"}})", R"({"a":1 "b":"x"})"}});
  check({R"({"type":"object","properties":{"a":{},"b":{}}})",
         {"{}", "{ }", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"},
         {R"({"c":1})", R"({,"a":1})", R"({"a":1,"c":1})"}});
  check({R"({"type":"object"})", {"{}", R"({"x":1,"y":{}})"}, {"[]", "1"}});
  // A tool without parameters.
  check({R"({"type":"object","properties":{}})", {"{}", "{ }", "{\n}"}, {R"({"a":1})", "[]"}});
  check({R"({"type":"object","properties":{},"additionalProperties":true})", {"{}", R"({"a":1})"}, {"[]"}});
  check({R"({"type":"object","properties":{},"required":["z"]})", {R"({"z":[1]})"}, {"{}", R"({"z":1,"a":1})"}});
  check({R"({"required":["z"],"properties":{"a":{"type":"integer"}}})",
         {R"({"z":[]})", R"({"a":3,"z":1})"},
         {R"({"a":3})"}});
}

TEST(JsonSchema, AdditionalPropertiesBearOtherNames) {
  check({R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
         {"{}", R"({"ab":1})", R"({"ab":1,"a":true})", R"({"abc":true})", R"({"":true,"é":false,"b\"":true})",
          R"({"x":true,"y":false})"},
         {R"({"ab":true})", R"({"x":1})", R"({"x":true,"ab":1})", R"({"\u0061b":true})", R"({"a":true,})"}});
  check({R"({"properties":{"é":{"type":"integer"},"a\"":{"type":"null"}},"additionalProperties":true})",
         {R"({"é":1,"a\"":null,"è":2})", R"({"e":[]})"},
         {R"({"é":"x"})", R"({"a\"":1})"}});
}

TEST(JsonSchema, ArraysCountTheirElements) {
  check({R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1,2]", "[1, 2, 3]", "[\n 1\n]"},
         {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]", "[1 2]"}});
  check({R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
         {"[]", "[1]", "[1,\"a\"]"},
         {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}});
  check({R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":2,"maxItems":4})",
         {"[1,2]", "[1,2,3]", "[1,2,3,3]"},
         {"[]", "[1]", "[1,3]", "[1,2,3,3,3]"}});
  check({R"({"prefixItems":[{"const":1},{"const":2}],"maxItems":1})", {"[]", "[1]"}, {"[1,2]"}});
  check({R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}});
  check({R"({"type":"array","items":false})", {"[]"}, {"[1]"}});
}

TEST(JsonSchema, StringsCountCharacters) {
  check({R"({"type":"string","minLength":2,"maxLength":3})",
         {"\"ab\"", "\"äöü\"", "\"😀😀\"", R"("\n\t")", R"("\ud83d\ude00x")"},
         {"\"a\"", "\"abcd\"", "\"\"", "ab"}});
  check({R"({"type":"string","maxLength":0})", {"\"\""}, {"\"a\""}});
}

TEST(JsonSchema, PatternsAreSearchedForUnlessAnchored) {
  check({R"({"type":"string","pattern":"^[a-c]{2,3}$"})", {"\"ab\"", "\"ccc\""}, {"\"a\"", "\"abcc\"", "\"ad\""}});
  check({R"({"type":"string","pattern":"b+"})", {"\"b\"", "\"abbc\"", "\"äbö\""}, {"\"\"", "\"aac\""}});
  check({R"({"pattern":"^a|b$"})", {"\"ax\"", "\"xb\"", "\"ab\""}, {"\"xa\"", "\"bx\""}});
  check({R"({"pattern":"^(?:foo|ba[rz])?-\\d{2}$"})",
         {"\"foo-12\"", "\"-00\"", "\"baz-99\""},
         {"\"fo-12\"", "\"baz-9\""}});
  check({R"({"pattern":"^[^\\s\"]+\\\\$"})", {R"("a\\")"}, {R"("a b\\")", R"("a\"\\")", R"("a")"}});
  check({R"({"pattern":"^\\u00e9\\x41.$"})", {"\"éAx\"", "\"éA😀\""}, {"\"éA\"", "\"eAx\""}});
  check({R"({"pattern":"^[\\w-]+@\\w+\\.(com|org)$"})", {"\"a-b@c.org\""}, {"\"a-b@c.net\""}});
  check({R"({"pattern":"^a{2}?b*?$"})", {"\"aa\"", "\"aab\""}, {"\"ab\""}});
}

TEST(JsonSchema, AHyphenBesideAClassIsItself) {
  check({R"({"pattern":"^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$"})",
         {"\"a.b-c@d-e.org\"", "\"-@a.b.co\""},
         {"\"a b@c.org\"", "\"a@org\"", "\"a@c.museum\""}});
  check({R"({"pattern":"^[a-\\d]$"})", {"\"a\"", "\"-\"", "\"7\""}, {"\"b\"", "\"ab\""}});
  check({R"({"pattern":"^[^\\s-x]$"})", {"\"a\"", "\"y\""}, {"\" \"", "\"-\"", "\"x\""}});
  EXPECT_EQ(fault_of(R"({"pattern":"[z-a]"})"), "pattern: the pattern has a range that is none at character 5");
}

TEST(JsonSchema, LengthsBesideAPatternHoldWhereTheyCanBeSaid) {
  // One character repeated.
  check({R"({"pattern":"^[a-zé]+$","maxLength":3})", {"\"a\"", "\"éab\""}, {"\"\"", "\"abcd\"", "\"A\""}});
  check(
      {R"({"pattern":"^[^,]*$","minLength":2,"maxLength":3})", {"\"éé\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "\"a,\""}});
  check({R"({"pattern":"^\\d{2,9}$","minLength":1,"maxLength":3})", {"\"12\"", "\"123\""}, {"\"1\"", "\"1234\""}});
  EXPECT_EQ(fault_of(R"({"pattern":"^a{5,}$","maxLength":4})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"pattern":"^[A-Z]{3}$","minLength":4})"), ": no text can fulfil it");
  // All matches are as long as that.
  check({R"({"pattern":"^[A-Z]{3}-é?\\d{2}$","minLength":6,"maxLength":7})",
         {"\"ABC-12\"", "\"ABC-é12\""},
         {"\"ABC-1\""}});
  check({R"({"pattern":"a|bc","minLength":1})", {"\"a\"", "\"xbc\""}, {"\"\"", "\"b\""}});
  // Neither.
  for (const auto* schema : {R"({"pattern":"^[a-z][a-z0-9]*$","maxLength":9})",
                             R"({"pattern":"^(ab)*$","maxLength":4})", R"({"pattern":"a|bc","minLength":2})"})
    EXPECT_EQ(fault_of(schema), "pattern: 'pattern' together with 'minLength' or 'maxLength' is not supported; say the "
                                "lengths in the pattern");
}

TEST(JsonSchema, AFormatThatIsNotFollowedSaysNothing) {
  check({R"({"type":"string","format":"path"})", {"\"\"", "\"/tmp\""}, {"1"}});
  check({R"({"type":"integer","format":"int32"})", {"7"}, {"\"7\""}});
  check({R"({"format":"int32"})", {"7", "\"x\"", "null"}, {""}});
  check({R"({"enum":["a","b"],"format":"color"})", {"\"a\""}, {"\"c\""}});
  // Beside a pattern, too.
  check({R"({"type":"string","format":"uuid","pattern":"^([0-9a-f]{4}|0000)$"})", {"\"12af\""}, {"\"12AF\"", "\"1\""}});
  check({R"({"allOf":[{"type":"string","format":"date"},{"pattern":"^x$"}]})", {"\"x\""}, {"\"2024-01-01\""}});
  // A URL of Pydantic's.
  check({R"({"type":"string","format":"uri","minLength":1,"maxLength":9})",
         {"\"http://a\""},
         {"\"\"", "\"http://abc\""}});
}

TEST(JsonSchema, LengthsBesideAFormatGoFirst) {
  // Whatever has the format has the length.
  check({R"({"format":"uuid","minLength":36,"maxLength":36})",
         {"\"123e4567-E89b-12d3-a456-426614174000\""},
         {"\"123e4567-E89b-12d3-a456-42661417400g\""}});
  check({R"({"format":"email","minLength":1,"maxLength":254})", {"\"a@b.cd\""}, {"\"a\"", "\"a@b.1\""}});
  check({R"({"format":"date","maxLength":10})", {"\"2024-02-29\""}, {"\"2023-02-29\"", "\"x\""}});
  check({R"({"format":"date","maxLength":9})", {"\"2024\"", "\"\""}, {"\"2024-02-29\""}});
  EXPECT_EQ(fault_of(R"({"format":"date","minLength":3,"maxLength":2})"), ": no text can fulfil it");
}

TEST(JsonSchema, FormatsStandForThePatternsThatZodWritesBesideThem) {
  check(
      {R"zod({"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})zod",
       {"\"a.b@c.de\"", "\"a+1@b-c.d.org\""},
       {"\"a..b@c.de\"", "\".a@c.de\"", "\"a@c.d\"", "\"a@c.12\""}});
  check(
      {R"zod({"type":"string","format":"duration","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})zod",
       {"\"P1DT2H\"", "\"P3W\""},
       {"\"P\"", "\"P1D3W\""}});
  // Lengths must not make it forget the pattern.
  const std::string duration =
      R"zod({"format":"duration","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$","maxLength":)zod";
  check({duration + "99}", {"\"PT5M\""}, {"\"5M\""}});
  EXPECT_EQ(fault_of(duration + "5}").substr(0, 36), "pattern: 'pattern' together with 'mi");
  EXPECT_EQ(fault_of(R"({"format":"email","pattern":"^(?!x)a"})"),
            "pattern: the pattern has a look-around group, which is not supported, at character 4");
}

TEST(JsonSchema, FormatsAreExactWhereItMatters) {
  check({R"({"type":"string","format":"date"})",
         {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\"", "\"2023-04-30\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-1-1\"", "\"0000-01-01\""}});
  check({R"({"format":"date-time"})",
         {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.123+05:30\""},
         {"\"2024-02-29\"", "\"2024-02-29T24:00:00Z\"", "\"2024-02-29T23:59:59\""}});
  check({R"({"format":"time"})", {"\"12:00:00Z\""}, {"\"12:00\"", "\"25:00:00Z\""}});
  check(
      {R"({"format":"uuid"})", {"\"123e4567-E89b-12d3-a456-426614174000\""}, {"\"123e4567e89b12d3a456426614174000\""}});
  check({R"({"format":"email"})", {"\"a.b@c.de\""}, {"\"a@b\"", "\"@c.de\"", "\"a..b@c.de\""}});
  check({R"({"format":"ipv4"})", {"\"255.0.10.1\""}, {"\"256.0.0.1\"", "\"1.2.3\""}});
  check({R"({"format":"duration"})", {"\"P1Y2M3DT4H5M6S\"", "\"PT1M\"", "\"P3W\""}, {"\"P\"", "\"PT\"", "\"1Y\""}});
}

TEST(JsonSchema, IntegersKeepTheirBounds) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 0}, {0, 9}, {1, 10}, {-1, 1}, {-120, -7}, {5, 1234}, {99, 101}, {-1000, 1000}, {17, 17}, {-5, 0}}) {
    const auto made = compile_schema(R"({"type":"integer","minimum":)" + std::to_string(low) + R"(,"maximum":)" +
                                     std::to_string(high) + "}");
    ASSERT_TRUE(made.has_value());
    for (int i = -1300; i <= 1300; ++i)
      EXPECT_EQ(made->accepts(std::to_string(i)), low <= i && i <= high) << i << " in " << low << ".." << high;
    EXPECT_FALSE(made->accepts("-0"));
    EXPECT_FALSE(made->accepts("007"));
  }
  check({R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":6})", {"4", "5"}, {"3", "6", "4.0"}});
  check({R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}});
  check({R"({"type":"integer","minimum":-2.5,"exclusiveMaximum":-0.5})", {"-1", "-2"}, {"-3", "0"}});
  check({R"({"type":"integer","minimum":3})",
         {"3", "4", "10", "999999999999999999"},
         {"2", "0", "-3", "1000000000000000000"}});
  check({R"({"type":"integer"})", {"0", "-7", "123456789012345678"}, {"1.0", "1e3", "-0", "1234567890123456789"}});
}

TEST(JsonSchema, BoundsBeyondAllAnswersAreNone) {
  for (const auto* bounds : {R"("minimum":-9223372036854775808,"maximum":9223372036854775807)",
                             R"("minimum":-1.7976931348623157e308,"maximum":1.7976931348623157e308)",
                             R"("exclusiveMaximum":18446744073709551615)", R"("maximum":1000000000000000000)"}) {
    check({"{\"type\":\"integer\"," + std::string(bounds) + "}",
           {"0", "-7", "999999999999999999", "-999999999999999999"},
           {"1.5", "1000000000000000000", "-0"}});
    check({"{\"type\":\"number\"," + std::string(bounds) + "}",
           {"0", "-7.5", "999999999999999999.5", "-999999999999999999"},
           {"1000000000000000000", "1e5", "1."}});
  }
  check({R"({"type":"integer","minimum":3,"exclusiveMinimum":-1e300,"maximum":1e300})", {"3", "4"}, {"2", "-3"}});
  const std::string why = ": bounds of numbers may have 18 digits before the point and 16 behind it";
  EXPECT_EQ(fault_of(R"({"type":"integer","minimum":9223372036854775807})"), "minimum" + why);
  EXPECT_EQ(fault_of(R"({"type":"number","exclusiveMaximum":-1e18})"), "exclusiveMaximum" + why);
  EXPECT_EQ(fault_of(R"({"type":"number","minimum":1e-20})"), "minimum" + why);

  for (const auto* most : {"2147483647", "9007199254740991", "18446744073709551615", "1e30"}) {
    check({"{\"type\":\"string\",\"minLength\":1,\"maxLength\":" + std::string(most) + "}", {"\"ab\""}, {"\"\""}});
    check({"{\"type\":\"array\",\"minItems\":1,\"maxItems\":" + std::string(most) + "}", {"[1,2]"}, {"[]"}});
    EXPECT_EQ(fault_of("{\"minLength\":" + std::string(most) + "}"),
              "minLength: it must be an integer from 0 to 1000000000");
  }
  EXPECT_EQ(fault_of(R"({"maxLength":-1})"), "maxLength: it must be an integer from 0 to 1000000000");
  EXPECT_EQ(fault_of(R"({"maxItems":2.5})"), "maxItems: it must be an integer from 0 to 1000000000");
  check({R"({"type":"string","maxLength":2.0})", {"\"ab\""}, {"\"abc\""}});
}

TEST(JsonSchema, DecimalsKeepTheirBounds) {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1}, {-1, 1}, {0.25, 0.75}, {-2.5, -0.125}, {1.5, 12.25}, {0.1, 0.1}, {-0.05, 0.05}, {9.99, 100.01}})
    for (const bool exclusive : {false, true}) {
      if (exclusive && low == high) continue;
      const std::string minimum = exclusive ? "exclusiveMinimum" : "minimum",
                        maximum = exclusive ? "exclusiveMaximum" : "maximum";
      const auto made = compile_schema(R"({"type":"number",")" + minimum + "\":" + std::to_string(low) + ",\"" +
                                       maximum + "\":" + std::to_string(high) + "}");
      ASSERT_TRUE(made.has_value());
      for (int i = -3000; i <= 3000; i += 1) {
        const double value = i / 200.0;
        const auto text = std::to_string(value);
        const bool inside = exclusive ? low < value && value < high : low <= value && value <= high;
        if (text.starts_with("-0.000000")) continue;
        EXPECT_EQ(made->accepts(text), inside) << text << " in " << low << ".." << high;
        const auto shorter = text.substr(0, text.find_last_not_of('0') + 1);
        EXPECT_EQ(made->accepts(shorter), inside && shorter.back() != '.') << shorter;
      }
    }
  check({R"({"type":"number","minimum":0})", {"0", "0.0", "12.5", "3"}, {"-0.1", "-1", "1e5", "1."}});
  check({R"({"type":"number","exclusiveMinimum":0})", {"0.01", "12.5", "3"}, {"0", "0.0", "-1"}});
  check({R"({"type":"number"})", {"0", "-0", "1e10", "1.5E-7", "-12.25"}, {"1e100", ".5", "1.", "0x1", "00"}});
}

TEST(JsonSchema, EnumAndConstAreTheValuesThemselves) {
  check({R"({"enum":["a","ab\n",1,1.5,null,true,[1,"x"],{"k":2}]})",
         {"\"a\"", R"("ab\n")", "1", "1.5", "null", "true", "[1,\"x\"]", "[1, \"x\"]", R"({"k":2})", R"({ "k": 2 })"},
         {"\"b\"", "2", "false", "[]", "{}", "[1]"}});
  check({R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}});
  check({R"({"const":"x","enum":["x","y"],"title":"t"})", {"\"x\""}, {"\"y\""}});
  check({R"({"type":["integer","null"],"enum":[1,2,null]})", {"1", "null"}, {"3"}});
}

TEST(JsonSchema, AlternativesAreTriedTogether) {
  check(
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1},{"type":"array","items":{"anyOf":[{"type":"number"},{"type":"integer"}]}}]})",
       {"12", "\"a\"", "[1,2.5]"},
       {"\"ab\"", "[\"a\"]", "null"}});
  check({R"({"type":["string","null"]})", {"\"a\"", "null"}, {"1"}});
  // Two objects that differ late.
  check({R"({"oneOf":[
            {"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"integer"}},"required":["kind","r"],"additionalProperties":false},
            {"type":"object","properties":{"kind":{"const":"rect"},"w":{"type":"integer"},"h":{"type":"integer"}},"required":["kind","w","h"],"additionalProperties":false}],
            "discriminator":{"propertyName":"kind"}})",
         {R"({"kind":"circle","r":1})", R"({"kind":"rect","w":1,"h":2})"},
         {R"({"kind":"circle","w":1,"h":2})", R"({"kind":"other"})"}});
  check(
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]})",
       {R"({"a":1})", R"({"a":1,"b":null})", R"({"b":null})"},
       {"{}", R"({"b":1})"}});
}

TEST(JsonSchema, AllOfIsPutTogether) {
  check({R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":0}},"required":["a"]},
                      {"properties":{"a":{"maximum":9},"b":{"type":"string"}},"required":["b"]}]})",
         {R"({"a":5,"b":"x"})"},
         {R"({"a":10,"b":"x"})", R"({"a":5})"}});
  check({R"({"allOf":[{"$ref":"#/$defs/x"}],"description":"pydantic writes it so","$defs":{"x":{"enum":["p","q"]}}})",
         {"\"p\""},
         {"\"r\""}});
  check({R"({"allOf":[{"type":["integer","string"]},{"type":"number"}]})", {"1"}, {"1.5", "\"a\""}});
}

TEST(JsonSchema, ReferencesInsideAnAllOfOfOneMayBeRecursive) {
  check(
      {R"({"type":"object","properties":{"next":{"title":"t","default":null,"allOf":[{"$ref":"#/definitions/Node"}]}},
             "required":["next"],"definitions":{"Node":{"type":"object","properties":{
               "children":{"type":"array","items":{"description":"d","allOf":[{"$ref":"#/definitions/Node"}]}},
               "parent":{"allOf":[{"$ref":"#/definitions/Node"}],"nullable":true}}}}})",
       {R"({"next":{}})", R"({"next":{"children":[{"children":[{}]},{}]}})", R"({"next":{"parent":{"parent":null}}})"},
       {"{}", R"({"next":null})", R"({"next":{"children":[1]}})", R"({"next":{"children":null}})"}});
  EXPECT_EQ(fault_of(R"({"allOf":[{"$ref":"#"}]})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"allOf":[{"not":{}}]})"), "allOf[0].not: the keyword 'not' is not supported");
}

TEST(JsonSchema, NullableMeansOrNull) {
  check({R"({"type":"string","nullable":true,"maxLength":2})", {"\"ab\"", "null"}, {"\"abc\"", "1", "\"null"}});
  check({R"({"type":"string","nullable":false})", {"\"ab\""}, {"null"}});
  check({R"({"nullable":true})", {"1", "null", "{}"}, {""}});
  check({R"({"type":"string","enum":["a","b"],"nullable":true})", {"\"a\"", "null"}, {"\"c\""}});
  check({R"({"type":"string","enum":["a",null],"nullable":true})", {"\"a\"", "null"}, {"\"c\""}});
  check({R"({"const":1,"nullable":true})", {"1", "null"}, {"2"}});
  check({R"({"anyOf":[{"type":"integer"},{"type":"boolean"}],"nullable":true})", {"1", "true", "null"}, {"\"a\""}});
  check(
      {R"({"type":"object","properties":{"a":{"$ref":"#/$defs/a","nullable":true}},"$defs":{"a":{"type":"integer"}}})",
       {R"({"a":1})", R"({"a":null})"},
       {R"({"a":"x"})", "null"}});
  check({R"({"type":"object","nullable":true,"properties":{"nullable":{"type":"integer"}}})",
         {R"({"nullable":1})", "null"},
         {R"({"nullable":null})"}});
}

TEST(JsonSchema, NullIsPutTogetherLikeAnyOther) {
  check({R"({"allOf":[{"type":"string","nullable":true},{"maxLength":1}]})", {"\"a\"", "null"}, {"\"ab\""}});
  check({R"({"allOf":[{"type":"string","nullable":true},{"type":"string"}]})", {"\"a\""}, {"null"}});
  check({R"({"allOf":[{"enum":["a","b"],"nullable":true},{"description":"d"}]})", {"\"a\"", "null"}, {"\"c\""}});
  check({R"({"oneOf":[{"type":"string","nullable":true},{"type":"integer"}]})", {"\"a\"", "1", "null"}, {"true"}});
  check({R"({"oneOf":[{"$ref":"#/$defs/a","nullable":true},{"type":"boolean"}],"$defs":{"a":{"const":1}}})",
         {"1", "true", "null"},
         {"2"}});
  for (const auto* second : {R"({"type":"null"})", R"({"type":"integer","nullable":true})", R"({"enum":[1,null]})"})
    EXPECT_NE(
        fault_of(R"({"oneOf":[{"type":"string","nullable":true},)" + std::string(second) + "]}").find("may both hold"),
        std::string::npos)
        << second;
}

TEST(JsonSchema, WhatAsksForNothingPasses) {
  check({R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"integer"}})",
         {"{}", R"({"a":1})"},
         {R"({"a":"x"})"}});
  check({R"({"type":"object","propertyNames":{},"minProperties":0,"x-order":["a"]})", {"{}", R"({"a":1})"}, {"1"}});
  check({R"({"propertyNames":true})", {"1", "{}"}, {""}});
  check({R"({"type":"array","items":{"type":"integer","multipleOf":1},"uniqueItems":false})", {"[1,1]"}, {"[1.5]"}});
  check({R"({"type":["integer","null"],"multipleOf":1.0})", {"1", "null"}, {"1.5"}});
  check({R"({"type":"string","contentEncoding":"base64","contentMediaType":"image/png","contentSchema":{}})",
         {"\"a\""},
         {"1"}});
  check({R"({"enum":["a"],"x-enum-varnames":["A"]})", {"\"a\""}, {"\"b\""}});
  check({R"({"$ref":"#/$defs/a","x-nullable":1,"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}})",
         {"[[]]"},
         {"[1]"}});
}

TEST(JsonSchema, ReferencesMayBeRecursive) {
  check({R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
            "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}}})",
         {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
         {R"({"v":1})", R"({"v":1,"next":{"v":2}})", R"({"v":1,"next":{"v":2,"next":null})"}});
  check({R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}});
  check({R"({"definitions":{"a/b~c":{"type":"null"}},"$ref":"#/definitions/a~1b~0c"})", {"null"}, {"1"}});
  check(
      {R"({"properties":{"a":{"$ref":"#/$defs/s","description":"d"},"b":{"$ref":"#/properties/a"}},"$defs":{"s":{"type":"string"}}})",
       {R"({"a":"x","b":"y"})"},
       {R"({"b":1})"}});
  check({R"({"properties":{"a":{"$ref":"#/$defs/s","maxLength":1}},"$defs":{"s":{"type":"string"}}})",
         {R"({"a":"x"})"},
         {R"({"a":"xy"})"}});
}

TEST(JsonSchema, WhatCannotBeFinishedIsNotBegun) {
  EXPECT_EQ(fault_of(R"({"$ref":"#"})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]})"),
            ": no text can fulfil it");
  EXPECT_EQ(fault_of("false"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"type":"string","minLength":3,"maxLength":2})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"type":"integer","minimum":3,"maximum":2})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"),
            ": a $ref leads back to itself without anything in between");
  // An endless branch is left out, so that no answer enters it.
  check(
      {R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/e"}],"$defs":{"e":{"type":"array","items":{"$ref":"#/$defs/e"},"minItems":1}}})",
       {"null"},
       {"[]", "[[]]"}});
  auto made = compile_schema(
      R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/e"}],"$defs":{"e":{"type":"array","items":{"$ref":"#/$defs/e"},"minItems":1}}})");
  automaton run(*made);
  EXPECT_EQ(run.advance(run.start(), '['), dead);
}

// As Pydantic writes a union of models with `kind: Literal["cat"] = "cat"`.
TEST(JsonSchema, ADiscriminatorThatHasADefaultTellsAlternativesApart) {
  const std::string definitions =
      R"("$defs":{"Cat":{"properties":{"kind":{"const":"cat","default":"cat","type":"string"},"lives":{"type":"integer"}},"required":["lives"],"type":"object"},)"
      R"("Dog":{"properties":{"kind":{"enum":["dog","puppy"],"default":"dog","type":"string"},"friend":{"anyOf":[{"$ref":"#/$defs/Pet"},{"type":"null"}]}},"type":"object"},)"
      R"("Pet":{"discriminator":{"mapping":{"cat":"#/$defs/Cat","dog":"#/$defs/Dog"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}]}})";
  const std::vector<std::string_view> allowed{R"({"kind":"cat","lives":9})", R"({"kind":"dog"})",
                                              R"({"kind":"puppy","friend":{"kind":"cat","lives":1}})"};
  const std::vector<std::string_view> forbidden{R"({"lives":9})", "{}", R"({"kind":"cat"})", R"({"kind":"cow"})",
                                                R"({"kind":"dog","lives":9})"};
  for (const auto* root :
       {R"("$ref":"#/$defs/Pet")", R"("$ref":"#/$defs/Pet","type":"object")",
        R"("oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"discriminator":{"propertyName":"kind"})"})
    check({"{" + std::string(root) + "," + definitions + "}", allowed, forbidden});
  const std::string by_kind = R"(],"discriminator":{"propertyName":"kind"}})";
  for (const auto* second :
       {R"({"type":"object","properties":{"kind":{"const":"a"}}})", R"({"type":"object","properties":{"kind":{}}})",
        R"({"properties":{"kind":{"const":"b"}}})", R"({"type":"object"})",
        R"({"type":["object","null"],"properties":{"kind":{"const":"b"}}})",
        R"({"type":"object","properties":{"kind":{"const":"b"}},"nullable":true})"})
    EXPECT_NE(fault_of(R"({"oneOf":[{"type":"object","nullable":true,"properties":{"kind":{"enum":["a","c"]}}},)" +
                       std::string(second) + by_kind)
                  .find("may both hold"),
              std::string::npos)
        << second;
  // Two that stand in each other's way are hints all the same.
  const std::string two =
      R"("oneOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},{"type":"null"}])";
  check({R"({"allOf":[{)" + two + R"(,"discriminator":{"propertyName":"a"}},{)" + two +
             R"(,"discriminator":{"propertyName":"b"}}]})",
         {R"({"a":1})", "null"},
         {R"({"a":2})"}});
}

TEST(JsonSchema, PydanticsDecimalsAreNumbersOrTheirText) {
  check({R"({"anyOf":[{"type":"number"},{"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]})",
         {"1", "-1.5", R"("1")", R"("-0012.50")", R"("+.5")", R"("7.")"},
         {R"("")", R"("+")", R"("-.")", R"(".")", R"("1e5")", R"("1.2.3")"}});
}

TEST(JsonSchema, NoDoubleOfADecimalIsItsExclusiveBound) {
  check({R"({"type":"number","exclusiveMaximum":1})",
         {"0.999999999999999", "-123456789012345", "-1.5", "0", "-99999999999999.9"},
         {"0.99999999999999999", "0.9999999999999999", "1", "1.0", "-99999999999999.99", "-1234567890123456"}});
  check({R"({"type":"number","exclusiveMinimum":0.5,"maximum":123456.25})",
         {"0.500000000000001", "1", "9.5", "99999.0000000001", "123456.25", "100000"},
         {"0.5", "0.50000000000000001", "123456.3", "123457"}});
  check({R"({"type":"number","exclusiveMinimum":0})", {"0.000000000000001", "999999999999999"}, {"0", "0.0", "-1"}});
  check({R"({"type":"number","exclusiveMinimum":1e16,"maximum":2e16})", {"10000000000000002"}, {"10000000000000000"}});
  check({R"({"type":"number","maximum":1})", {"0.99999999999999999", "1.0"}, {"1.1"}});
  for (const auto* text : {"0.999999999999999", "0.500000000000001"})
    EXPECT_TRUE(std::strtod(text, nullptr) != 1 && std::strtod(text, nullptr) != 0.5);
}

TEST(JsonSchema, WhatStandsBesideAnEnumChoosesAmongItsValues) {
  check({R"({"enum":["a","bb","ccc",7,null],"minLength":2,"maxLength":2})",
         {"\"bb\"", "7", "null"},
         {"\"a\"", "\"ccc\""}});
  check({R"({"enum":["é","éé"],"maxLength":1})", {"\"é\""}, {"\"éé\""}});
  check({R"({"enum":[1,2.5,18446744073709551615,-3,"x"],"exclusiveMinimum":1,"maximum":18446744073709551614})",
         {"2.5", "\"x\""},
         {"1", "-3", "18446744073709551615"}});
  check({R"({"enum":["ab","b\"a","x"],"pattern":"a$"})", {R"("b\"a")"}, {"\"ab\"", "\"x\""}});
  check({R"({"const":"2024-01-01","type":"string","format":"date"})", {"\"2024-01-01\""}, {"\"2024-01-02\""}});
  check({R"({"allOf":[{"enum":["a","bb"]},{"minLength":2}]})", {"\"bb\""}, {"\"a\""}});
  EXPECT_EQ(fault_of(R"({"const":"a","minLength":2})"), ": no text can fulfil it");
  EXPECT_EQ(fault_of(R"({"enum":["a"],"pattern":"(a"})"),
            "pattern: the pattern has an unfinished group at character 3");
  EXPECT_EQ(fault_of(R"({"enum":[1],"minimum":"0"})"), "minimum: it must be a number");
  check({R"({"enum":[1],"pattern":"(?=a)b"})", {"1"}, {"2"}});
}

TEST(JsonSchema, WhatIsNotSupportedIsNamed) {
  EXPECT_EQ(fault_of(R"({"properties":{"a":{"type":"array","uniqueItems":true}}})"),
            "properties.a.uniqueItems: the keyword 'uniqueItems' is not supported");
  EXPECT_EQ(fault_of(R"({"anyOf":[{},{"not":{}}]})"), "anyOf[1].not: the keyword 'not' is not supported");
  EXPECT_EQ(fault_of(R"({"patternProperties":{}})"),
            "patternProperties: the keyword 'patternProperties' is not supported");
  EXPECT_EQ(fault_of(R"({"type":"text"})"),
            "type: a type is one of string, number, integer, boolean, null, object, array");
  EXPECT_EQ(fault_of(R"({"type":"string","format":7})"), "format: it must be a string");
  EXPECT_EQ(fault_of(R"({"propertyNames":{"enum":["a"]}})"),
            "propertyNames: the keyword 'propertyNames' is not supported");
  EXPECT_EQ(fault_of(R"({"propertyNames":{"type":"string","minLength":1}})"),
            "propertyNames: the keyword 'propertyNames' is not supported");
  EXPECT_EQ(fault_of(R"({"propertyNames":false})"), "propertyNames: the keyword 'propertyNames' is not supported");
  EXPECT_EQ(fault_of(R"({"minProperties":1})"), "minProperties: the keyword 'minProperties' is not supported");
  EXPECT_EQ(fault_of(R"({"type":"integer","multipleOf":2})"), "multipleOf: the keyword 'multipleOf' is not supported");
  EXPECT_EQ(fault_of(R"({"type":"number","multipleOf":1})"), "multipleOf: the keyword 'multipleOf' is not supported");
  EXPECT_EQ(fault_of(R"({"type":["integer","number"],"multipleOf":1})"),
            "multipleOf: the keyword 'multipleOf' is not supported");
  EXPECT_EQ(fault_of(R"({"multipleOf":1})"), "multipleOf: the keyword 'multipleOf' is not supported");
  EXPECT_EQ(fault_of(R"({"type":"string","nullable":"yes"})"), "nullable: it must be true or false");
  EXPECT_EQ(fault_of(R"({"type":"string","pattern":"(?=a)b"})"),
            "pattern: the pattern has a look-around group, which is not supported, at character 3");
  EXPECT_EQ(fault_of(R"({"type":"string","pattern":"(a"})"),
            "pattern: the pattern has an unfinished group at character 3");
  EXPECT_EQ(fault_of(R"({"pattern":"(a)\\1"})"),
            "pattern: the pattern has a back-reference, which is not supported, at character 6");
  EXPECT_EQ(
      fault_of(R"({"pattern":"a","maxLength":2})"),
      "pattern: 'pattern' together with 'minLength' or 'maxLength' is not supported; say the lengths in the pattern");
  EXPECT_EQ(fault_of(R"({"$ref":"http://x/y"})"),
            "$ref: 'http://x/y' is outside of this schema; only references that begin with '#' are supported");
  EXPECT_EQ(fault_of(R"({"$ref":"#/$defs/x"})"), "$ref: '#/$defs/x' leads nowhere");
  EXPECT_EQ(fault_of(R"({"items":[{}]})"), "items: a list of schemas is written as 'prefixItems'");
  EXPECT_EQ(fault_of(R"({"required":["b"],"properties":{"a":{}},"additionalProperties":false})"),
            "required[0]: 'b' is not among the properties, and additionalProperties forbids others");
  EXPECT_EQ(fault_of(R"({"minLength":"3","type":"string"})"), "minLength: it must be an integer from 0 to 1000000000");
  EXPECT_EQ(fault_of(R"({"exclusiveMinimum":true,"type":"integer"})"), "exclusiveMinimum: it must be a number");
  EXPECT_EQ(fault_of(R"({"enum":[["a"]],"minItems":2})"), "minItems: 'minItems' beside enum or const is not supported");
  EXPECT_EQ(fault_of(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})").substr(0, 34),
            "oneOf: alternatives 0 and 1 may bo");
  EXPECT_EQ(fault_of("12"), ": a schema must be an object or a boolean");
  EXPECT_EQ(fault_of("{"), ": it is not JSON: incomplete JSON");
}

TEST(JsonSchema, WhatIsTooMuchIsRefusedAndSoon) {
  EXPECT_EQ(fault_of("{\"title\":\"" + std::string(70000, 'x') + "\"}"),
            ": a schema may have 65536 bytes, this one has 70012");
  std::string deep, tail;
  for (int i = 0; i < 60; ++i) {
    deep += "{\"items\":";
    tail += "}";
  }
  EXPECT_NE(fault_of(deep + "{}" + tail).find("nested more than 48 deep"), std::string::npos);
  // Every level doubles what is put together.
  std::string doubling = R"({"$ref":"#/$defs/a0","$defs":{"a18":{"type":"null"})";
  for (int i = 0; i < 18; ++i)
    doubling += ",\"a" + std::to_string(i) + "\":{\"allOf\":[{\"$ref\":\"#/$defs/a" + std::to_string(i + 1) +
                "\"},{\"$ref\":\"#/$defs/a" + std::to_string(i + 1) + "\"}]}";
  EXPECT_NE(fault_of(doubling + "}}").find("subschemas in all"), std::string::npos) << fault_of(doubling + "}}");
  std::string many = "{\"enum\":[0";
  for (int i = 1; i < 2000; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(fault_of(many + "]}"), "enum: more than 1024 values");
  schema_limits small;
  small.terms_max = 100;
  EXPECT_EQ(fault_of(R"({"type":"string"})", small), ": it is too complex: its grammar would have more than 100 parts");
}

std::string closed_objects(int objects, int names) {
  std::string all = "{\"properties\":{";
  for (int o = 0, next = 0; o < objects; ++o) {
    all += (o == 0 ? "\"" : ",\"") + std::to_string(o) + R"(":{"additionalProperties":true,"properties":{)";
    for (int i = 0; i < names; ++i) {
      all += i == 0 ? "\"" : ",\"";
      for (int k = 0; k < 5; ++k) {
        next = (next + 137) % 20'000;
        const auto c = static_cast<unsigned>(0x4E00 + next); // CJK
        all += {static_cast<char>(0xE0U | c >> 12U), static_cast<char>(0x80U | (c >> 6U & 0x3FU)),
                static_cast<char>(0x80U | (c & 0x3FU))};
      }
      all += "\":{}";
    }
    all += "}}";
  }
  return all + "}}";
}

TEST(JsonSchema, NamesThatOthersMustNotBearAreBoundedWork) {
  EXPECT_EQ(fault_of(closed_objects(1, 100)), "none");
  EXPECT_NE(fault_of(closed_objects(20, 100)).find("too much to put together"), std::string::npos);
  // Each pair of alternatives is compared, value by value.
  const auto lists = [](int references, int values) {
    std::string out = R"({"oneOf":[{"anyOf":[)", a, b;
    for (int i = 0; i < references; ++i) out += std::string(i > 0 ? "," : "") + R"({"$ref":"#/$defs/a"})";
    for (int i = 0; i < values; ++i) {
      a += (i > 0 ? "," : "") + std::to_string(2 * i);
      b += (i > 0 ? "," : "") + std::to_string(2 * i + 1);
    }
    return out + R"(]},{"$ref":"#/$defs/b"}],"$defs":{"a":{"enum":[)" + a + R"(]},"b":{"enum":[)" + b + "]}}}";
  };
  EXPECT_EQ(fault_of(lists(2, 500)), "none");
  EXPECT_NE(fault_of(lists(100, 500)).find("too much to put together"), std::string::npos);
}

std::string times(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + std::string(text);
  return "[" + out + "]";
}

/// A class of so many characters that do not touch each other.
std::string separate_characters(int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) {
    const auto c = static_cast<unsigned>(0x4E00 + 2 * i);
    out += {static_cast<char>(0xE0U | c >> 12U), static_cast<char>(0x80U | (c >> 6U & 0x3FU)),
            static_cast<char>(0x80U | (c & 0x3FU))};
  }
  return out + "]";
}

double processor_seconds(std::string_view schema) {
  const auto before = std::clock();
  static_cast<void>(compile_schema(schema));
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

// Each took 1.2 to 180 s of a processor; now about 0.1 s at most. The bound leaves room for slow machines and
// sanitizers.
TEST(JsonSchema, SmallSchemasThatMeanMuchWorkAreCompiledOrRefusedSoon) {
  const auto pattern = "\"pattern\":\"" + separate_characters(1350) + "\"";
  const auto constant = [](std::size_t size) { return "\"const\":\"" + std::string(size, 'x') + "\""; };
  const auto items = [](const std::string& of, std::string_view beside, int count) {
    return "{\"$defs\":{\"q\":{" + of +
           "}},\"prefixItems\":" + times(R"({"$ref":"#/$defs/q",)" + std::string(beside) + "}", count) + "}";
  };
  const auto trues = "\"anyOf\":" + times("true", 1024) + ",";
  const std::vector<std::string> compiled{
      "{" + trues + pattern + "}",
      "{\"anyOf\":" + times("{}", 1024) + "," + pattern + "}",
      "{\"anyOf\":" + times(R"({"type":"string"})", 1024) + "," + pattern + "}",
      "{" + trues + constant(50'000) + "}",
      items(pattern, R"("type":"string")", 1000),
      items("\"anyOf\":" + times("true", 500) + "," + constant(30'000), R"("type":"string")", 10),
  };
  for (const auto& schema : compiled) {
    EXPECT_EQ(fault_of(schema), "none") << schema.substr(0, 60);
    EXPECT_LT(processor_seconds(schema), 0.9) << schema.substr(0, 60);
  }
  const std::string steps = "putting its grammar together takes more than 4194304 steps";
  const std::vector<std::pair<std::string, std::string>> refused{
      {"{\"anyOf\":" + times(R"({"type":"string"})", 500) + "," + constant(50'000) + "}", steps},
      {items(constant(30'000), R"("type":"string")", 700), steps},
      {items("\"pattern\":\"^" + std::string(4000, 'x') + "$\"", R"("maxLength":4000)", 1000), steps},
      {items(trues + constant(30'000), R"("type":"string")", 10), "more than 8192 subschemas in all"},
      {"{\"anyOf\":" + times(R"({"type":"null"})", 1000) + "," + constant(45'000) + "}", "too much to put together"},
  };
  for (const auto& [schema, why] : refused) {
    EXPECT_NE(fault_of(schema).find(why), std::string::npos) << fault_of(schema);
    EXPECT_LT(processor_seconds(schema), 3.0) << schema.substr(0, 60);
  }
}

TEST(JsonSchema, AnAlternativeThatAsksForNothingIsWhatStandsBeside) {
  check({R"({"type":"string","anyOf":[{"const":"a"},true,{"description":"any"}],"maxLength":2})",
         {"\"zz\""},
         {"1", "\"zzz\""}});
  check({R"({"type":"string","anyOf":[false,{"const":"a"}]})", {"\"a\""}, {"\"b\""}});
  EXPECT_EQ(fault_of(R"({"type":"string","anyOf":[{"$id":"x"}]})"), "anyOf[0].$id: '$id' is supported at the top only");
}

TEST(JsonSchema, ALongChainOfReferencesIsFollowedToItsEnd) {
  for (const bool ends : {true, false}) {
    std::string all = R"({"anyOf":[{"$ref":"#/$defs/a0"},{"type":"array","items":{"$ref":"#/$defs/a7"}}],"$defs":{)";
    for (int i = 0; i < 900; ++i)
      all += "\"a" + std::to_string(i) + R"(":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/a)" +
             std::to_string(i + 1) + "\"}},";
    const auto made = compile_schema(all + (ends ? R"("a900":{"type":"null"}}})" : R"("a900":false}})"));
    ASSERT_TRUE(made.has_value());
    EXPECT_TRUE(made->accepts("[]"));
    EXPECT_EQ(made->accepts(std::string(900, '[') + "null" + std::string(900, ']')), ends);
  }
}

TEST(JsonSchema, ItemsAreNotPutTogetherWithAnotherPartsPrefix) {
  const std::string why = "cannot be put together with the prefixItems";
  EXPECT_NE(fault_of(R"({"allOf":[{"type":"array","prefixItems":[{"type":"integer"}]},{"items":{"type":"string"}}]})")
                .find(why),
            std::string::npos);
  EXPECT_NE(fault_of(R"({"items":{"type":"string"},"anyOf":[{"prefixItems":[{"type":"integer"}]}]})").find(why),
            std::string::npos);
  EXPECT_NE(fault_of(R"({"$ref":"#/$defs/a","items":false,"prefixItems":[{}],"$defs":{"a":{"prefixItems":[{},{}]}}})")
                .find(why),
            std::string::npos);
  check({R"({"allOf":[{"prefixItems":[{"const":1}]},{"prefixItems":[{"const":1}],"items":{"const":2}}]})",
         {"[1,2]"},
         {"[1,1]", "[2]"}});
}

TEST(JsonSchema, AQuantifierNeedsSomethingToRepeat) {
  for (const auto* pattern : {"a{2}{3}", "{3}a", "a+{2}", "({2})", "a|{1,}"})
    EXPECT_NE(fault_of(pattern_schema(pattern)).find("a quantifier"), std::string::npos) << pattern;
  check({pattern_schema("a{2}?b"), {"aab"}, {"ab"}});
}

TEST(JsonSchema, OneNumberIsOneValueHoweverItIsWritten) {
  EXPECT_NE(fault_of(R"({"oneOf":[{"const":1},{"const":1.0}]})").find("may both hold"), std::string::npos);
  EXPECT_NE(fault_of(R"({"oneOf":[{"const":{"a":[1e1]}},{"enum":[2,{"a":[10]}]}]})").find("may both hold"),
            std::string::npos);
  check({R"({"oneOf":[{"const":1},{"const":1.5}]})", {"1", "1.5"}, {"2"}});
}

TEST(JsonSchema, ChoicesAndPatternsAreTextAsItIs) {
  const std::vector<std::string> texts{"yes", "no", "no \"way\"\n"};
  EXPECT_EQ(choice_schema(texts), R"(["yes","no","no \"way\"\n"])");
  const auto made = compile_schema(choice_schema(texts));
  ASSERT_TRUE(made.has_value());
  for (const auto& text : texts) EXPECT_TRUE(made->accepts(text));
  EXPECT_FALSE(made->accepts("\"yes\""));
  EXPECT_FALSE(made->accepts("ye"));
  const auto pattern = compile_schema(pattern_schema("[a-z]+é?\\d{2}"));
  ASSERT_TRUE(pattern.has_value());
  EXPECT_TRUE(pattern->accepts("abc12"));
  EXPECT_TRUE(pattern->accepts("xé99"));
  EXPECT_FALSE(pattern->accepts("abc1"));
  EXPECT_FALSE(pattern->accepts("-abc12"));
  EXPECT_EQ(fault_of("[]"), ": there must be 1 to 1024 choices");
}

TEST(JsonSchema, SeveralSchemasAndWhatStandsAroundThemAreOneGrammar) {
  // Both have rules of their own.
  constexpr auto ways = R"([[{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},
      "required":["a"],"additionalProperties":false}],
      [[",","<",{"type":"array","items":{"$ref":"#/$defs/b"},"$defs":{"b":{"type":"boolean"}}},">"]]])";
  check(
      {ways, {R"({"a":[1,2]})", "<[true]>", "<[]>,<[false]>"}, {"<[1]>", "<[]>,", "<[]><[]>", R"({"a":[true]})", ""}});
  check({R"([["a"],["b",true]])", {"a", "b1", "b{}"}, {"b", "ab"}});
  EXPECT_NE(fault_of(R"([[]])"), "");
  EXPECT_NE(fault_of(R"([["a"],"b"])"), "");
  EXPECT_NE(fault_of(R"([[[{}]]])"), "");
}

TEST(Automaton, EqualRestsAreOneState) {
  const auto made = compile_schema(R"({"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"number"}]}})");
  ASSERT_TRUE(made.has_value());
  automaton run(*made);
  EXPECT_EQ(run.advance(run.start(), "[1,22,3.5e7,"), run.advance(run.start(), "[0,"));
  // A string of bounded length far from its end is like one a little nearer to it.
  const auto bounded = compile_schema(R"({"type":"string","maxLength":1000})");
  automaton other(*bounded);
  const auto early = other.split(other.advance(other.start(), "\"ab")),
             late = other.split(other.advance(other.start(), "\"abcde"));
  ASSERT_EQ(early.size(), 1U);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_NE(early[0].first, late[0].first);
  EXPECT_EQ(other.within(early[0].first, 64), other.within(late[0].first, 64));
}

TEST(Automaton, AnExplosionEndsItAndNothingElse) {
  const auto made = compile_schema(pattern_schema("(?:(?:a|b)*a(?:a|b){400}c|(?:ab|ba|aab){0,4000}){0,300}d"));
  ASSERT_TRUE(made.has_value());
  automaton run(*made);
  auto at = run.start();
  for (int i = 0; i < 3000 && at != dead; ++i) at = run.advance(at, i % 3 == 0 ? 'a' : 'b');
  EXPECT_TRUE(at != dead || run.exhausted());
  EXPECT_LT(run.memory_bytes(), 256U << 20U);
}

} // namespace
} // namespace godwit::protocols::grammar
