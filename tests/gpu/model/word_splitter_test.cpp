#include "gpu/model/model_files.hpp"
#include "gpu/model/tokenizer_families.hpp"
#include "gpu/model/tokenizer_files.hpp"

#include "model/word_splitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace godwit::gpu::model {
namespace {

using ::testing::ElementsAre;

std::vector<std::string_view> cut(std::string_view text, const split_step& step) {
  std::vector<std::string_view> words;
  step.cut(text, words);
  return words;
}

std::vector<std::string_view> cut(std::string_view text, split_pattern pattern) {
  return cut(text, split_step{pattern, {}, {}});
}

std::vector<std::string_view> cut_at(std::string_view text, std::string literal, delimiter behavior) {
  return cut(text, split_step{split_pattern::gpt2, std::move(literal), behavior});
}

TEST(WordSplitter, WordsTakeTheSpaceBeforeThem) {
  EXPECT_THAT(cut("Hello  wide world's 12345 ends!\n\n x", split_pattern::gpt2),
              ElementsAre("Hello", " ", " wide", " world", "'s", " 12345", " ends", "!", "\n\n", " x"));
  EXPECT_THAT(cut("Hello  wide world'S 12345 ends!\n\n x", split_pattern::llama3),
              ElementsAre("Hello", " ", " wide", " world", "'S", " ", "123", "45", " ends", "!\n\n", " x"));
  EXPECT_THAT(cut("(Hello) 12", split_pattern::qwen2), ElementsAre("(Hello", ")", " ", "1", "2"));
}

TEST(WordSplitter, NewerPatternsCutWhereSmallLettersEnd) {
  EXPECT_THAT(cut("camelCase HTTPServer IT'S a/b", split_pattern::o200k),
              ElementsAre("camel", "Case", " HTTPServer", " IT'S", " a", "/b"));
  // Of capitals with a mark among them the first alternative takes those up to the mark.
  EXPECT_THAT(cut("A\xCC\x81"
                  "BC",
                  split_pattern::tekken),
              ElementsAre("A\xCC\x81", "BC"));
  // A mark in front may lead a word, but is one itself for the first alternative.
  EXPECT_THAT(cut("\xCC\x81"
                  "BC",
                  split_pattern::tekken),
              ElementsAre("\xCC\x81", "BC"));
  EXPECT_THAT(cut("it's", split_pattern::tekken), ElementsAre("it", "'s"));
}

TEST(WordSplitter, LiteralsAreCutAtAsTheirBehaviorSays) {
  EXPECT_THAT(cut_at("-a--b-", "-", delimiter::removed), ElementsAre("a", "b"));
  EXPECT_THAT(cut_at("-a--b-", "-", delimiter::isolated), ElementsAre("-", "a", "-", "-", "b", "-"));
  EXPECT_THAT(cut_at("-a--b-", "-", delimiter::with_previous), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(cut_at("-a--b-", "-", delimiter::with_next), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(cut_at("-a--b-", "-", delimiter::contiguous), ElementsAre("-", "a", "--", "b", "-"));
  EXPECT_THAT(cut_at("none", "-", delimiter::isolated), ElementsAre("none"));
}

TEST(WordSplitter, DigitsStandAloneOrInRuns) {
  EXPECT_THAT(cut("a12 3", split_pattern::digits), ElementsAre("a", "1", "2", " ", "3"));
  EXPECT_THAT(cut("a12 3", split_pattern::digit_runs), ElementsAre("a", "12", " ", "3"));
}

std::string without_json_escapes(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') ++i;
    out += pattern[i];
  }
  return out;
}

// Each scanner against the regular expression that it stands for, where there is node.
TEST(WordSplitterOracle, ScannersCutAsTheirRegularExpressions) {
  if (std::system("node --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no node, the oracle";
  auto texts = tests::hard_texts();
  const auto scripts = tests::texts_of_many_scripts();
  texts.insert(texts.end(), scripts.begin(), scripts.end());
  for (const auto* text : {"A\xCC\x81"
                           "B\xCA\xB0"
                           "C\xCA\xB0"
                           "d",
                           "\xCC\x81"
                           "ABC",
                           "/\r\n/ // \n", "x'LL'Re's'T",
                           "-\xCC\x81"
                           "A",
                           " \xCC\x81"
                           "a\xCC\x81"})
    texts.emplace_back(text);
  const tests::scratch_directory directory("split");
  const auto file = [&](const char* part) { return (directory.path() / part).string(); };
  {
    std::ofstream out(file("texts.json"));
    for (std::size_t i = 0; i < texts.size(); ++i) out << (i == 0 ? "[" : ",\n") << tests::json_string(texts[i]);
    out << "]";
  }
  const std::string gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  for (const auto& pattern :
       {gpt2, without_json_escapes(tests::llama3_pattern), without_json_escapes(tests::qwen2_pattern),
        without_json_escapes(tests::o200k_pattern), without_json_escapes(tests::tekken_pattern)}) {
    const auto kind = known_pattern(pattern);
    ASSERT_TRUE(kind) << pattern;
    std::ofstream(file("pattern.txt")) << pattern;
    const auto command = "node '" GODWIT_SOURCE_DIR "/tests/gpu/model/oracle/split.mjs' '" + file("pattern.txt") +
                         "' '" + file("texts.json") + "' '" + file("out.txt") + "'";
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream in(file("out.txt"));
    int wrong = 0;
    for (const auto& text : texts) {
      std::string line, ours;
      ASSERT_TRUE(std::getline(in, line));
      for (const auto word : cut(text, *kind)) (ours += ours.empty() ? "" : " ") += std::to_string(word.size());
      if (ours == line) continue;
      ADD_FAILURE() << pattern << "\n" << tests::json_string(text) << "\n  oracle " << line << "\n  ours   " << ours;
      if (++wrong == 3) break;
    }
  }
}

} // namespace
} // namespace godwit::gpu::model
