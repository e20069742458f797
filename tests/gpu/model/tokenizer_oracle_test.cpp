#include "gpu/model/bpe_trainer.hpp"
#include "gpu/model/model_files.hpp"
#include "gpu/model/tiktoken_ranks.hpp"
#include "gpu/model/tokenizer_families.hpp"
#include "gpu/model/tokenizer_files.hpp"

#include <godwit/gpu/model/philox.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace godwit::gpu::model {
namespace {

using protocols::token_id;

constexpr auto oracle = GODWIT_SOURCE_DIR "/tests/gpu/model/oracle";

bool there_is_an_oracle() { return std::filesystem::exists(std::string(oracle) + "/node_modules/.package-lock.json"); }

std::string shown(std::string_view text) {
  const auto json = tests::json_string(text);
  return json.size() < 400 ? json : json.substr(0, 400) + "... (" + std::to_string(text.size()) + " bytes)";
}

std::string joined(const std::vector<token_id>& ids) {
  std::string out;
  for (const auto id : ids) (out += out.empty() ? "" : " ") += std::to_string(id);
  return out;
}

/// Where two lines part, with some of what comes before.
std::string parting(const std::string& oracles, const std::string& ours) {
  std::size_t at = 0;
  while (at < oracles.size() && at < ours.size() && oracles[at] == ours[at]) ++at;
  at = at > 60 ? at - 60 : 0;
  return "  oracle " + oracles.substr(at, 200) + "\n  ours   " + ours.substr(at, 200);
}

std::vector<std::vector<token_id>> random_lists(const tokenizer& tokens) {
  std::vector<std::vector<token_id>> lists;
  for (std::uint32_t round = 0; round < 500; ++round) {
    std::uint32_t drawn = 0;
    auto& list = lists.emplace_back();
    const auto below = [&](double bound) { return static_cast<token_id>(uniform(round, drawn++) * bound); };
    // Low ids are bytes and special tokens: mostly text that is none.
    for (auto count = 1 + below(20); count > 0; --count) {
      const auto id = below(2.0) == 0 ? below(262.0) : below(tokens.size());
      if (!tokens.bytes(id).empty()) list.push_back(id);
    }
  }
  return lists;
}

void expect_same(const std::string& name, const std::string& json, const std::vector<std::string>& texts) {
  if (!there_is_an_oracle())
    GTEST_SKIP() << "no node_modules in tests/gpu/model/oracle; `npm ci` there fetches the oracle";
  const auto ours = tokenizer::from_json(json);
  ASSERT_TRUE(ours) << ours.error().what();

  const tests::scratch_directory directory("oracle-" + name);
  const auto file = [&](const char* part) { return (directory.path() / part).string(); };
  const auto lists = random_lists(*ours);
  std::ofstream(file("tokenizer.json")) << json;
  {
    std::ofstream out(file("texts.json")), ids(file("ids.json"));
    for (std::size_t i = 0; i < texts.size(); ++i) out << (i == 0 ? "[" : ",\n") << tests::json_string(texts[i]);
    out << "]";
    for (std::size_t i = 0; i < lists.size(); ++i) {
      auto line = joined(lists[i]);
      std::replace(line.begin(), line.end(), ' ', ',');
      ids << (i == 0 ? "[[" : ",\n[") << line << "]";
    }
    ids << "]";
  }
  const auto command = "cd '" + std::string(oracle) + "' && node encode.mjs '" + file("tokenizer.json") + "' '" +
                       file("texts.json") + "' '" + file("ids.json") + "' '" + file("out.txt") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);

  std::ifstream in(file("out.txt"));
  std::string line;
  int wrong = 0;
  std::vector<std::vector<token_id>> encoded;
  for (const auto& text : texts) {
    auto ids = ours->encode(text, true);
    ASSERT_TRUE(std::getline(in, line));
    if (const auto mine = joined(ids); mine != line) {
      ADD_FAILURE() << shown(text) << "\n" << parting(line, mine);
      if (++wrong == 5) return;
    }
    ASSERT_TRUE(std::getline(in, line));
    auto whole = ours->prefix();
    whole.insert(whole.end(), ids.begin(), ids.end());
    whole.insert(whole.end(), ours->suffix().begin(), ours->suffix().end());
    EXPECT_TRUE((line.empty() && !ids.empty()) || joined(whole) == line) << shown(text);
    encoded.push_back(std::move(ids));
  }
  encoded.insert(encoded.end(), lists.begin(), lists.end());
  for (const auto& ids : encoded) {
    ASSERT_TRUE(std::getline(in, line));
    const auto theirs = boost::json::parse(line);
    for (const bool skip : {false, true}) {
      const std::string expected = theirs.as_array()[skip ? 1 : 0].as_string().c_str();
      const auto mine = ours->decode(ids, skip);
      if (mine.find('\0') != std::string::npos || mine == expected) continue; // c_str() ends there
      ADD_FAILURE() << "decoding " << joined(ids).substr(0, 400) << "\n" << parting(expected, mine);
      if (++wrong == 5) return;
    }
  }
}

void expect_same(const std::string& name, const std::string& json) { expect_same(name, json, tests::hard_texts()); }

TEST(TokenizerOracle, TheDefaultModelsTokenizerGivesTheSame) {
  expect_same("default", tests::default_tokenizer_json());
}

TEST(TokenizerOracle, DigitsBeforeBytesGiveTheSame) {
  expect_same("digits", tests::with_pre_tokenizer(tests::default_tokenizer_json(), tests::digits_steps));
}

class TokenizerOracleFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerOracleFamily, GivesTheSameIdsAndTextForHardTexts) {
  auto texts = tests::hard_texts();
  const auto scripts = tests::texts_of_many_scripts();
  texts.insert(texts.end(), scripts.begin(), scripts.end());
  for (const auto* text :
       {"<s>[INST] Hi there [/INST] Hello</s>", "a[INST]b[/INST] c", "[INST]b", " <mask> a <mask>b", "x <sep> y<sep>",
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
        "<tool_call>\n{\"name\": \"f\"}\n</tool_call><think>\n\n</think>", "  </s>  <s>  "})
    texts.emplace_back(text);
  expect_same(GetParam(), tests::family(GetParam()).json, texts);
}

// Without a pre-tokenizer a line is one word to the oracle, which takes many seconds for a megabyte of it.
TEST_P(TokenizerOracleFamily, GivesTheSameIdsAndTextForAMegabyteInOneLine) {
  const bool words = tests::family(GetParam()).json.find("\"ByteLevel\"") != std::string::npos;
  const std::size_t bytes = words || GetParam() == "llama2" ? 1000000 : 150000;
  auto line = tests::repository_text(bytes * 9 / 10);
  std::replace(line.begin(), line.end(), '\n', ' ');
  for (const auto& hard : tests::hard_texts())
    if (line.size() < bytes) line += hard;
  expect_same(GetParam(), tests::family(GetParam()).json, {line});
}

TEST_P(TokenizerOracleFamily, GivesTheSameIdsAndTextForLongRuns) {
  std::vector<std::string> texts;
  for (const auto* unit : {" ", "a", "\n", "7", "!", "the", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", " \n", "e\xCC\x81"}) {
    auto& text = texts.emplace_back("x");
    while (text.size() < 15000) text += unit;
  }
  expect_same(GetParam(), tests::family(GetParam()).json, texts);
}

// Real vocabularies: those that npm's tiktoken brings.
class TokenizerOracleTiktoken : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerOracleTiktoken, GivesTheSameIds) {
  if (!there_is_an_oracle())
    GTEST_SKIP() << "no node_modules in tests/gpu/model/oracle; `npm ci` there fetches the oracle";
  // One text: words end at its line breaks in each pattern, so that a difference stays where it is.
  std::string text = tests::repository_text(300000);
  for (const auto& list : {tests::hard_texts(), tests::texts_of_many_scripts()})
    for (const auto& one : list) text += one + "\nend\n";
  const tests::scratch_directory directory("tiktoken-" + GetParam());
  const auto file = [&](const char* part) { return (directory.path() / part).string(); };
  std::ofstream(file("text")) << text;
  const auto command = "node '" + std::string(oracle) + "/tiktoken.mjs' '" + oracle + "' " + GetParam() + " '" +
                       file("text") + "' '" + directory.path().string() + "' </dev/null >/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto ours = tokenizer::from_json(tests::tokenizer_json_of_tiktoken(directory.path().string()));
  ASSERT_TRUE(ours) << ours.error().what();
  std::string theirs;
  for (const auto& line : tests::lines_of(file("ids.txt"))) (theirs += theirs.empty() ? "" : " ") += line;
  const auto ids = ours->encode(text, false);
  const auto mine = joined(ids);
  EXPECT_TRUE(mine == theirs) << parting(theirs, mine);
  EXPECT_EQ(ours->decode(ids, true), text);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerOracleTiktoken,
                         ::testing::Values("r50k_base", "cl100k_base", "o200k_base"),
                         [](const auto& chosen) { return chosen.param; });

INSTANTIATE_TEST_SUITE_P(Families, TokenizerOracleFamily, ::testing::ValuesIn(tests::family_names()),
                         [](const auto& chosen) { return chosen.param; });

} // namespace
} // namespace godwit::gpu::model
