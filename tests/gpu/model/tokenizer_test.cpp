#include "gpu/model/tokenizer_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace godwit::gpu::model {
namespace {

using protocols::token_id;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

tokenizer from(const std::string& json) {
  auto read = tokenizer::from_json(json);
  if (!read) throw model_error(read.error());
  return std::move(read).value();
}

/// Bytes, the given merges, added tokens; ids of single letters are 100 + the byte.
std::string made(const std::string& extra_vocab, const std::string& merges, const std::string& added = "",
                 const std::string& model_fields = "") {
  auto json = tests::default_tokenizer_json();
  std::string vocab;
  // The bytes' spellings are the entries 3 .. 258 of the default vocabulary.
  const auto begin = json.find("\"vocab\": {") + 10;
  auto at = json.find("\"<|im_end|>\": 2,", begin) + 16;
  for (int byte = 0; byte < 256; ++byte) {
    const auto end = json.find(": " + std::to_string(3 + byte) + ",", at);
    vocab += json.substr(at, end - at) + ": " + std::to_string(100 + byte) + ",";
    at = json.find(',', end) + 1;
  }
  vocab.pop_back();
  return R"({"added_tokens": [)" + added +
         R"(], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", )" +
         model_fields + R"("vocab": {)" + vocab + extra_vocab + R"(}, "merges": [)" + merges + "]}}";
}

std::string error_of(const std::string& json) {
  const auto read = tokenizer::from_json(json);
  return read ? "" : read.error().what();
}

TEST(Tokenizer, TextComesBackFromItsIds) {
  const auto tokens = from(tests::default_tokenizer_json());
  for (const auto& text : tests::hard_texts()) {
    EXPECT_EQ(tokens.decode(tokens.encode(text, true), false), text);
    EXPECT_EQ(tokens.decode(tokens.encode(text, false), true), text) << "plain text has no special tokens to skip";
  }
}

TEST(Tokenizer, MergesGoByRankAndThenFromTheLeft) {
  const auto tokens = from(made(R"(,"ab": 1, "bc": 2, "aa": 3, "abc": 4)", R"("b c", "a b", "a a", "ab c")"));
  EXPECT_THAT(tokens.encode("abc", false), ElementsAre(197, 2)); // "b c" is first, then nothing joins a and bc
  EXPECT_THAT(tokens.encode("aaa", false), ElementsAre(3, 197));
  EXPECT_THAT(tokens.encode("aab", false), ElementsAre(197, 1));
}

TEST(Tokenizer, MergesAreReadInBothSpellings) {
  const auto old_spelling = from(made(R"(,"ab": 1)", R"("a b")"));
  const auto new_spelling = from(made(R"(,"ab": 1)", R"(["a", "b"])"));
  EXPECT_EQ(old_spelling.encode("ab", false), new_spelling.encode("ab", false));
  EXPECT_THAT(new_spelling.encode("ab", false), ElementsAre(1));
}

TEST(Tokenizer, LongWordsMergeAsShortOnes) {
  // The heap and the scan must agree: the same letters, once as words of up to 48 bytes and once in the middle of long
  // ones.
  const auto tokens = from(tests::default_tokenizer_json());
  std::string word;
  for (int i = 0; i < 400; ++i) word += "etaoinshr"[(i * i + i / 7) % 9];
  // Against a plain quadratic implementation by the vocabulary's own order: merges are ids in order of rank.
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    std::optional<token_id> best;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      if (const auto id = tokens.find(parts[i] + parts[i + 1]); id && (!best || *id < *best)) best = id, place = i;
    if (!best) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  std::vector<token_id> expected;
  for (const auto& part : parts) expected.push_back(*tokens.find(part));
  EXPECT_EQ(tokens.encode(word, false), expected);
}

TEST(Tokenizer, IgnoreMergesTakesWholeWordsOfTheVocabulary) {
  EXPECT_THAT(from(made(R"(,"abc": 4)", "", "", R"("ignore_merges": true, )")).encode("abc", false), ElementsAre(4));
  EXPECT_THAT(from(made(R"(,"abc": 4)", "")).encode("abc", false), ElementsAre(197, 198, 199));
}

TEST(Tokenizer, SpecialTokensInTextAreTextUnlessAllowed) {
  const auto tokens = from(tests::default_tokenizer_json());
  EXPECT_THAT(tokens.encode("<|im_end|>", true), ElementsAre(2));
  const auto plain = tokens.encode("<|im_end|>", false);
  EXPECT_GT(plain.size(), 3U);
  for (const auto id : plain) EXPECT_FALSE(tokens.is_special(id));
  EXPECT_TRUE(tokens.is_special(2));
  EXPECT_EQ(tokens.decode(std::vector<token_id>{1, 2}, true), "");
  EXPECT_EQ(tokens.decode(std::vector<token_id>{1, 2}, false), "<|im_start|><|im_end|>");
}

TEST(Tokenizer, NoMergeMakesASpecialTokenOfPlainText) {
  const auto tokens = from(made(R"(,"ab": 1)", R"("a b")", R"({"id": 1, "content": "ab", "special": true})"));
  EXPECT_THAT(tokens.encode("ab", true), ElementsAre(1));
  EXPECT_THAT(tokens.encode("ab", false), ElementsAre(197, 198));
}

TEST(Tokenizer, OfAPairThatMergesTwiceTheLastCounts) {
  const auto tokens = from(made(R"(,"ab": 1, "bc": 2)", R"("a b", "b c", "a b")"));
  EXPECT_THAT(tokens.encode("abc", false), ElementsAre(197, 2));
}

TEST(Tokenizer, OfAddedTokensTheLongestMatches) {
  const auto tokens = from(made("", "", R"({"id": 1, "content": "<a>", "special": true, "normalized": false},
                                           {"id": 2, "content": "<a><b>", "special": true, "normalized": false},
                                           {"id": 3, "content": "<tool>", "special": false, "normalized": false})"));
  EXPECT_THAT(tokens.encode("<a><a><b><tool>", true), ElementsAre(1, 2, 3));
  // Not special: matched in any text.
  EXPECT_EQ(tokens.encode("<tool>", false), (std::vector<token_id>{3}));
}

TEST(Tokenizer, AddedTokensTakeTheWhiteSpaceThatTheyAskFor) {
  const auto tokens = from(made("", "", R"({"id": 1, "content": "<l>", "lstrip": true, "special": true},
                                           {"id": 2, "content": "<r>", "rstrip": true, "special": true})"));
  EXPECT_THAT(tokens.encode("a \n<l> b", true), ElementsAre(197, 1, 132, 198));
  EXPECT_THAT(tokens.encode("a <r>\xE3\x80\x80 b", true), ElementsAre(197, 132, 2, 198));
  EXPECT_THAT(tokens.encode("<r>  <l>", true), ElementsAre(2, 1));
}

TEST(Tokenizer, NormalizedAddedTokensAreSoughtAfterTheOthers) {
  const auto tokens = from(made("", "", R"({"id": 1, "content": "ab", "special": false, "normalized": true},
                                           {"id": 2, "content": "bc", "special": false, "normalized": false})"));
  EXPECT_THAT(tokens.encode("abc", false), ElementsAre(197, 2));
}

TEST(Tokenizer, APrefixSpaceIsAddedWhereTheFileSaysSo) {
  const auto json = tests::replaced(made("", ""), R"("add_prefix_space": false)", R"("add_prefix_space": true)");
  EXPECT_THAT(from(json).encode("a", false), ElementsAre(132, 197));
  EXPECT_THAT(from(json).encode(" a", false), ElementsAre(132, 197));
}

TEST(Tokenizer, ThePostProcessorsTokensArePrefixAndSuffix) {
  const auto json = tests::replaced(made("", "", R"({"id": 1, "content": "<s>", "special": true})"), R"("decoder")",
                                    R"("post_processor": {"type": "Sequence", "processors": [
      {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}]},
      "decoder")");
  const auto tokens = from(json);
  EXPECT_THAT(tokens.prefix(), ElementsAre(1));
  EXPECT_TRUE(tokens.suffix().empty());
  EXPECT_THAT(tokens.encode("a", true), ElementsAre(197));
}

TEST(Tokenizer, InvalidUtf8CountsAsReplacementCharacters) {
  const auto tokens = from(tests::default_tokenizer_json());
  EXPECT_EQ(tokens.decode(tokens.encode("a\xFF\xC3(", false), true), "a\xEF\xBF\xBD\xEF\xBF\xBD(");
}

TEST(Tokenizer, UnknownIdsGiveNothing) {
  const auto tokens = from(tests::default_tokenizer_json());
  EXPECT_EQ(tokens.decode(std::vector<token_id>{-1, 1 << 30, static_cast<token_id>(tokens.size())}, false), "");
  EXPECT_EQ(tokens.bytes(-5), "");
  EXPECT_FALSE(tokens.is_special(-5));
  EXPECT_FALSE(tokens.find("no such token at all"));
  EXPECT_EQ(tokens.size(), 1536U);
}

// Quadratic work on one of these would take minutes.
TEST(Tokenizer, AMegabyteTakesSecondsAtMostWhateverItIs) {
  const auto json = tests::default_tokenizer_json();
  const auto gpt2 = from(json);
  const auto llama3 = from(tests::with_pre_tokenizer(json, tests::split_by(tests::llama3_pattern)));
  std::string prose;
  while (prose.size() < 1000000)
    prose += "The hackers at MIT wrote " + std::to_string(prose.size()) + " programs, didn't they?\n";
  for (const auto& text : {prose, std::string(1000000, 'a'), std::string(1000000, ' '), std::string(1000000, '7'),
                           std::string(1000000, '\n')}) {
    for (const auto* cutter : {&gpt2, &llama3}) {
      const auto begin = std::chrono::steady_clock::now();
      const auto ids = cutter->encode(text, true);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(taken.count(), 5.0);
      EXPECT_EQ(cutter->decode(ids, false), text);
    }
  }
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const auto tokens = from(tests::default_tokenizer_json());
  const auto text = tests::hard_texts().back();
  const auto expected = tokens.encode(text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) ASSERT_EQ(tokens.encode(text, true), expected);
    });
  for (auto& thread : threads) thread.join();
}

TEST(Tokenizer, OtherKindsAreRefusedByName) {
  const auto good = made("", "");
  EXPECT_EQ(error_of(good), "");
  const auto broken = [&](std::string_view text, std::string_view by) {
    return error_of(tests::replaced(good, text, by));
  };
  EXPECT_THAT(broken(R"("type": "BPE")", R"("type": "Unigram")"),
              AllOf(HasSubstr("model.type: \"Unigram\""), HasSubstr("BPE")));
  EXPECT_THAT(broken(R"("type": "BPE")", R"("dropout": 0.1)"), HasSubstr("dropout"));
  EXPECT_THAT(broken(R"("type": "BPE")", R"("end_of_word_suffix": "</w>")"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(broken(R"("normalizer": null)", R"("normalizer": {"type": "Lowercase"})"),
              HasSubstr("normalizer.type: \"Lowercase\""));
  EXPECT_THAT(broken(R"({"type": "ByteLevel", "add_prefix_space": false})", R"({"type": "Metaspace"})"),
              HasSubstr("pre_tokenizer: has no ByteLevel step, but the decoder is ByteLevel"));
  EXPECT_THAT(
      broken(R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})", R"("pre_tokenizer": null)"),
      HasSubstr("pre_tokenizer: has no ByteLevel step"));
  EXPECT_THAT(broken(R"({"type": "ByteLevel", "add_prefix_space": false})", R"({"type": "BertPreTokenizer"})"),
              HasSubstr("\"BertPreTokenizer\""));
  EXPECT_THAT(broken(R"({"type": "ByteLevel", "add_prefix_space": false})", tests::split_by("[a-z]+")),
              HasSubstr("\"[a-z]+\" is not supported"));
  EXPECT_THAT(broken(R"("decoder": {"type": "ByteLevel"})", R"("decoder": {"type": "WordPiece"})"),
              HasSubstr("decoder"));
  EXPECT_THAT(broken(R"("merges": [])", R"("merges": ["q x"])"), HasSubstr("merges: \"qx\" (entry 0)"));
  EXPECT_THAT(broken(R"("merges": [])", R"("merges": ["a b c"])"), HasSubstr("merges: must hold"));
  EXPECT_THAT(broken(R"("merges": [])", R"("merges": 7)"), HasSubstr("merges: must be an array"));
  EXPECT_THAT(broken(R"("a": 197)", R"("a": 198)"), HasSubstr("gives id 198 twice"));
  EXPECT_THAT(broken(R"("a": 197)", R"("a": -1)"), HasSubstr("token ids must be"));
  EXPECT_THAT(broken(R"("a": 197)", R"("a": 99999999)"), HasSubstr("token ids must be"));
  EXPECT_THAT(broken(R"("a": 197)", R"("aa": 197)"), HasSubstr("has no token for byte 97"));
  EXPECT_THAT(broken(R"("added_tokens": [])", R"("added_tokens": [{"id": 1, "content": ""}])"), HasSubstr("content"));
  EXPECT_THAT(broken(R"("decoder")", R"("post_processor": {"type": "BertProcessing"}, "decoder")"),
              HasSubstr("\"BertProcessing\""));
}

} // namespace
} // namespace godwit::gpu::model
