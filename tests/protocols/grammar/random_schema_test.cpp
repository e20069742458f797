// Schemas at random: whatever the automaton lets through is valid by them, and whatever is valid, it lets through.
#include "protocols/grammar/random_schemas.hpp"

#include <godwit/protocols/grammar/json_schema.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace godwit::protocols::grammar {
namespace {

namespace json = boost::json;
using testing_support::schema_maker;
using testing_support::valid;

/// A random text of the grammar, byte by byte; after a while it makes for the end. Empty: it did not come to it.
std::string random_text(automaton& run, std::mt19937& random) {
  constexpr std::size_t calm = 200, bytes_max = 4000;
  std::string text;
  auto at = run.start();
  while (text.size() < bytes_max) {
    const auto next = run.following(at);
    std::vector<unsigned> bytes;
    for (unsigned b = 0; b < 256; ++b)
      if (next[b]) bytes.push_back(b);
    if (run.may_end(at) && (bytes.empty() || random() % 4 == 0 || text.size() > calm)) return text;
    if (bytes.empty()) {
      ADD_FAILURE() << "a dead end after " << text;
      return {};
    }
    auto byte = bytes[random() % bytes.size()];
    // Most bytes are no ends of anything, so ends are chosen on purpose.
    for (const unsigned char end : {'"', ']', '}'})
      if (next[end] && random() % (text.size() > calm ? 1 : 6) == 0) byte = end;
    text += static_cast<char>(byte);
    at = run.advance(at, static_cast<std::uint8_t>(byte));
  }
  return {};
}

constexpr std::uint32_t schemas = 300;

TEST(RandomSchemas, WhateverIsLetThroughIsValid) {
  std::size_t texts = 0, unfinished = 0, unfit = 0;
  for (std::uint32_t seed = 0; seed < schemas; ++seed) {
    schema_maker make(seed);
    const auto schema = make.document();
    const auto made = compile_schema(json::serialize(schema));
    if (!made) {
      // Some stand for nothing: references that lead to themselves.
      EXPECT_TRUE(made.error().message.starts_with("no text") || made.error().message.starts_with("a $ref leads back"))
          << made.error().path << ": " << made.error().message << "\n"
          << json::serialize(schema);
      ++unfit;
      continue;
    }
    automaton run(*made);
    std::mt19937 random(seed);
    for (int i = 0; i < 6; ++i) {
      const auto text = random_text(run, random);
      ++texts;
      if (text.empty()) {
        ++unfinished;
        continue;
      }
      boost::system::error_code why;
      json::parse_options deep;
      deep.max_depth = 1000;
      const auto parsed = json::parse(text, why, {}, deep);
      ASSERT_FALSE(why) << text;
      EXPECT_TRUE(valid(schema, parsed, schema)) << json::serialize(schema) << "\n" << text;
      EXPECT_TRUE(made->accepts(text));
    }
  }
  EXPECT_LT(unfinished * 10, texts); // some nest on and on
  EXPECT_LT(unfit * 4, schemas);
}

TEST(RandomSchemas, WhateverIsValidIsLetThrough) {
  std::size_t texts = 0;
  for (std::uint32_t seed = 0; seed < schemas; ++seed) {
    schema_maker make(seed);
    const auto schema = make.document();
    const auto made = compile_schema(json::serialize(schema));
    if (!made) continue;
    for (int i = 0; i < 8; ++i) {
      const auto text = make.text_for(schema, schema, 8);
      if (text.empty()) continue;
      ++texts;
      EXPECT_TRUE(made->accepts(text)) << json::serialize(schema) << "\n" << text;
    }
  }
  EXPECT_GT(texts, schemas);
}

TEST(RandomSchemas, WhatIsNotValidIsNotLetThrough) {
  // Valid texts with a byte changed, added or lost; where they still parse, the automaton agrees with the validator.
  std::size_t compared = 0;
  for (std::uint32_t seed = 0; seed < schemas; ++seed) {
    schema_maker make(seed);
    const auto schema = make.document();
    const auto made = compile_schema(json::serialize(schema));
    if (!made) continue;
    for (int i = 0; i < 8; ++i) {
      auto text = make.text_for(schema, schema, 8);
      if (text.empty()) continue;
      const auto place = make.below(static_cast<std::uint32_t>(text.size()));
      constexpr std::string_view bytes = "\"0123456789ab{}[],:. -";
      if (make.below(2) == 0)
        text[place] = bytes[make.below(static_cast<std::uint32_t>(bytes.size()))];
      else
        text.erase(place, 1);
      if (!made->accepts(text)) continue;
      boost::system::error_code why;
      const auto parsed = json::parse(text, why);
      ASSERT_FALSE(why) << text;
      EXPECT_TRUE(valid(schema, parsed, schema)) << json::serialize(schema) << "\n" << text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 50U);
}

// The same by another validator: Python's jsonschema, where it is installed.
TEST(RandomSchemas, AnotherValidatorAgrees) {
  if (std::system("python3 -c 'import jsonschema; jsonschema.Draft202012Validator' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "python3-jsonschema is not installed";
  const auto file =
      std::filesystem::temp_directory_path() / ("godwit_schemas_" + std::to_string(std::random_device{}()));
  std::size_t cases = 0;
  {
    std::ofstream out(file);
    for (std::uint32_t seed = 1000; seed < 1000 + schemas; ++seed) {
      schema_maker make(seed);
      const auto schema = make.document();
      const auto made = compile_schema(json::serialize(schema));
      if (!made) continue;
      automaton run(*made);
      std::mt19937 random(seed);
      for (int i = 0; i < 4; ++i) {
        const auto text = random_text(run, random);
        if (text.empty()) continue;
        out << json::serialize(json::object{{"schema", schema}, {"text", text}}) << "\n";
        ++cases;
      }
    }
  }
  const std::string check =
      "python3 -c \"import json,sys,jsonschema\n"
      "v=jsonschema.Draft202012Validator\n"
      "for line in open(sys.argv[1]):\n"
      "  case=json.loads(line)\n"
      "  for e in v(case['schema'], format_checker=v.FORMAT_CHECKER).iter_errors(json.loads(case['text'])):\n"
      "    print(line, e.message); sys.exit(1)\n"
      "\" " +
      file.string();
  EXPECT_EQ(std::system(check.c_str()), 0);
  EXPECT_GT(cases, schemas);
  std::filesystem::remove(file);
}

} // namespace
} // namespace godwit::protocols::grammar
