#include "gpu/model/bpe_trainer.hpp"
#include "gpu/model/tokenizer_families.hpp"
#include "gpu/model/tokenizer_files.hpp"

#include "model/utf8.hpp"

#include <godwit/gpu/model/philox.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace godwit::gpu::model {
namespace {

using protocols::token_id;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const tokenizer> opened(const std::string& json) {
  auto read = tokenizer::from_json(json);
  if (!read) throw model_error(read.error());
  return std::make_shared<const tokenizer>(std::move(read).value());
}

class TokenizerFamily : public ::testing::TestWithParam<std::string> {
protected:
  const tests::tokenizer_family& family_ = tests::family(GetParam());
  std::shared_ptr<const tokenizer> tokens_ = opened(family_.json);
};

TEST_P(TokenizerFamily, TextComesBackFromItsIdsButForASpaceInFront) {
  auto texts = tests::hard_texts();
  const auto scripts = tests::texts_of_many_scripts();
  texts.insert(texts.end(), scripts.begin(), scripts.end());
  for (const auto& text : texts) {
    if (text.find("\xE2\x96\x81") != std::string::npos) continue; // what spaces are written as
    const auto back = tokens_->decode(tokens_->encode(text, false), true);
    if (family_.lossless)
      EXPECT_TRUE(back == text || " " + back == text) << text << "\n" << back;
    else
      EXPECT_TRUE(is_utf8(back)) << "it changes text, but into text";
  }
}

TEST_P(TokenizerFamily, ThePiecesOfAStreamAreTheWholeForAnyIds) {
  for (std::uint32_t round = 0; round < 1500; ++round) {
    std::vector<token_id> ids;
    std::uint32_t drawn = 0;
    const auto below = [&](double bound) { return static_cast<token_id>(uniform(round, drawn++) * bound); };
    // Low ids are bytes: mostly text that is none.
    for (auto count = below(12); count > 0; --count)
      ids.push_back(below(2.0) == 0 ? below(270.0) : below(tokens_->size() + 20.0) - 10);
    for (const bool skip : {true, false}) {
      incremental_decoder decoder(tokens_, skip);
      std::string text;
      for (const auto id : ids) text += decoder.feed(id);
      text += decoder.finish();
      ASSERT_EQ(text, tokens_->decode(ids, skip)) << round;
      auto at_once = decoder.feed(ids);
      at_once += decoder.finish();
      EXPECT_EQ(at_once, text);
    }
  }
}

TEST_P(TokenizerFamily, PlainTextNeverBecomesASpecialToken) {
  for (const auto& text : tests::hard_texts())
    for (const auto id : tokens_->encode(text + "<s></s><|begin_of_text|>[INST]<sep><mask><|im_end|>", false))
      ASSERT_TRUE(!tokens_->is_special(id) || GetParam() == "unknown") << text; // the unknown token is special
}

TEST_P(TokenizerFamily, FragmentsAreEncodedAsOneText) {
  const auto texts = tests::hard_texts();
  for (std::size_t i = 0; i + 2 < texts.size(); i += 7) {
    const auto whole = texts[i] + texts[i + 1] + texts[i + 2];
    for (const bool special : {false, true}) {
      const std::vector<tokenizer::fragment> fragments{
          {texts[i], special}, {texts[i + 1], special}, {texts[i + 2], special}};
      EXPECT_EQ(tokens_->encode(fragments), tokens_->encode(whole, special)) << whole;
    }
  }
}

// Quadratic work on one of these would take minutes.
TEST_P(TokenizerFamily, AMegabyteTakesSecondsAtMostWhateverItIs) {
  auto prose = tests::repository_text(1000000);
  std::replace(prose.begin(), prose.end(), '\n', ' ');
  std::vector<std::string> texts{prose};
  for (const auto* unit :
       {"a", " ", "7", "\n", "<", "<s>", "\xE4\xBD\xA0", "e\xCC\x81", "\xCC\x81", "\xFF", " \n", "'", "aA"}) {
    auto& text = texts.emplace_back();
    while (text.size() < 1000000) text += unit;
  }
  for (const auto& text : texts) {
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = tokens_->encode(text, true);
    (void)tokens_->decode(ids, false);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(taken.count(), 20.0) << text.substr(0, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerFamily, ::testing::ValuesIn(tests::family_names()),
                         [](const auto& chosen) { return chosen.param; });

TEST(TokenizerByCharacter, SpacesAreMarksAndUnknownCharactersAreBytes) {
  const auto tokens = opened(tests::family("llama2").json);
  EXPECT_THAT(tokens->prefix(), ElementsAre(1));
  const auto ids = tokens->encode("\xF0\x9F\xA6\xA4", false); // a dodo; no text here has one
  ASSERT_EQ(ids.size(), 5U);
  EXPECT_EQ(tokens->bytes(ids[0]), " ");
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(tokens->bytes(ids[i]).size(), 1U);
  EXPECT_EQ(tokens->decode(ids, true), "\xF0\x9F\xA6\xA4");
  incremental_decoder decoder(tokens);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(decoder.feed(ids[i]), "");
  EXPECT_EQ(decoder.feed(ids[4]), "\xF0\x9F\xA6\xA4");
}

TEST(TokenizerByCharacter, AnAnswerThatContinuesAPromptKeepsItsSpace) {
  const auto tokens = opened(tests::family("llama2").json);
  const auto ids = tokens->encode("the end", false);
  EXPECT_EQ(tokens->decode(ids, true), "the end");
  EXPECT_EQ(tokens->leading_strip().most, 1U);
  incremental_decoder own(tokens), after(tokens, true, incremental_decoder::start::continuation);
  EXPECT_EQ(own.feed(ids) + own.finish(), "the end");
  EXPECT_EQ(after.feed(ids) + after.finish(), " the end");
  EXPECT_EQ(own.feed(ids) + own.finish(), "the end") << "as new after finish";
}

TEST(TokenizerByCharacter, MetaspacePutsASpaceInFrontWhereTheFileSaysSo) {
  const auto json = tests::family("mistral").json;
  const auto with = [&](const std::string& scheme) {
    return opened(tests::replaced(json, R"("prepend_scheme":"first")", R"("prepend_scheme":")" + scheme + '"'));
  };
  const auto text = [](const tokenizer& tokens, std::string_view of) {
    std::string out;
    for (const auto id : tokens.encode(of, true)) out += tokens.bytes(id);
    return out;
  };
  EXPECT_EQ(text(*with("first"), "a[INST]b"), " a[INST]b");
  EXPECT_EQ(text(*with("always"), "a[INST]b"), " a[INST] b");
  EXPECT_EQ(text(*with("never"), "a[INST]b"), "a[INST]b");
  EXPECT_EQ(text(*with("always"), " a"), " a");
  EXPECT_EQ(text(*with("first"), "[INST]b"), "[INST]b");
}

TEST(TokenizerByCharacter, MetaspaceWithSplitCutsAtEverySpace) {
  const auto json = tests::family("mistral").json;
  const auto whole = opened(json);
  const auto cut = opened(tests::replaced(json, R"("split":false)", R"("split":true)"));
  EXPECT_LT(whole->encode("a          b", false).size(), 8U) << "a run of spaces is a few tokens";
  EXPECT_EQ(cut->encode("a          b", false).size(), 11U) << "each space begins a word";
  EXPECT_EQ(cut->encode("the end of it", false), whole->encode("the end of it", false));
}

TEST(TokenizerFragments, SpecialTokensCountOnlyWhereTheyAreAllowed) {
  const auto tokens = opened(tests::family("llama3").json);
  const auto id = *tokens->find("<|eot_id|>");
  const auto count = [&](const std::vector<tokenizer::fragment>& fragments) {
    const auto ids = tokens->encode(fragments);
    return std::count(ids.begin(), ids.end(), id);
  };
  EXPECT_EQ(count({{"a", false}, {"<|eot_id|>", true}, {"b", false}}), 1);
  EXPECT_EQ(count({{"<|eot", true}, {"_id|>", true}}), 1) << "allowed on both sides of the seam";
  EXPECT_EQ(count({{"<|eot", true}, {"_id|>", false}}), 0);
  EXPECT_EQ(count({{"<|eot_id|>", false}, {"<|eot_id|>", true}, {"<|eot_id|>", false}}), 1);
  EXPECT_EQ(tokens->encode(std::vector<tokenizer::fragment>{}).size(), 0U);
}

TEST(TokenizerFragments, SpecialTokensCountWhereTheNormalizerChangesTheTextAroundThem) {
  const auto count = [](const tokenizer& tokens, const std::vector<tokenizer::fragment>& fragments) {
    const auto ids = tokens.encode(fragments);
    return std::count(ids.begin(), ids.end(), tokens.find("<s>").value());
  };
  // As in files that llama-2's older converters wrote: "<s>" is sought in normalized text, there as U+2581 and <s>.
  const auto json =
      tests::replaced(tests::family("llama2").json,
                      R"("content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false)",
                      R"("content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":true)");
  const auto llama = opened(json);
  EXPECT_EQ(count(*llama, {{"<s>[INST] ", true}, {"hi", false}, {" [/INST]", true}}), 1);
  EXPECT_EQ(count(*llama, {{"<s>[INST] ", true}, {"hi there", false}, {" [/INST] <s>[INST] ", true}, {"b", false}}), 2);
  EXPECT_EQ(count(*llama, {{"[INST] ", true}, {"hi <s>", false}, {" [/INST] <s>", true}}), 1);
  EXPECT_EQ(count(*llama, {{"a", true}, {" <s>", false}, {" b", true}}), 0);
  EXPECT_EQ(count(*llama, {{"<s>", false}, {" b", true}}), 0);
  EXPECT_EQ(count(*llama, {{"a ", true}, {"<s>", false}, {" b", true}}), 0);
  EXPECT_EQ(count(*llama, {{"a", false}, {" <", true}, {"s", false}, {">", true}}), 0);
  for (const auto* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    const auto composes = opened(
        tests::replaced(json, R"("normalizer":{"type":"Sequence",)",
                        R"("normalizer":{"type":")" + std::string(form) + R"("},"ignored":{"type":"Sequence",)"));
    EXPECT_EQ(count(*composes, {{"<s>", true}, {"\xE4\xB8\xAD e\xCC\x81 \xEF\xAC\x81", false}, {"<s>", true}}), 2)
        << form;
    EXPECT_EQ(count(*composes, {{"\xC3\xA9<s>", true}, {"\xC3\xA9", false}, {"x<s>", true}}), 2) << form;
    EXPECT_EQ(count(*composes, {{"<s", true}, {"\xEF\xBC\x9E\xC3\xA9", false}}), 0) << form << ": a wide >";
    EXPECT_EQ(count(*composes, {{"a\xC3\xA9", true}, {"\xEF\xBC\x9Cs\xEF\xBC\x9E", false}, {"e\xCC\x81", true}}), 0);
    EXPECT_EQ(count(*composes, {{"<s>", true}, {"\xCC\xB8", false}}), 0) << form << ": its end is another character";
  }
}

TEST(TokenizerFragments, ManyPiecesInManyFragmentsTakeLinearTime) {
  auto json = tests::default_tokenizer_json();
  const auto at = json.find("\"added_tokens\": [") + 17;
  json.insert(at, R"({"id": 1536, "content": "<call>", "normalized": false, "special": false},)");
  const auto tokens = opened(json);
  std::string calls;
  for (int i = 0; i < 400'000; ++i) calls += "<call>.";
  std::vector<tokenizer::fragment> fragments;
  for (int i = 0; i < 16'000; ++i) fragments.insert(fragments.end(), {{"a", true}, {"b", false}});
  fragments.push_back({calls, false});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(tokens->encode(fragments).size(), 800'000U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << "some 200 ms";
}

TEST(TokenizerAddedTokens, ASingleWordIsMatchedOnlyAlone) {
  auto json = tests::default_tokenizer_json();
  const auto at = json.find("\"added_tokens\": [") + 17;
  json.insert(at, R"({"id": 1536, "content": "word", "single_word": true, "normalized": false, "special": false},)");
  const auto tokens = opened(json);
  const auto count = [&](std::string_view text) {
    const auto ids = tokens->encode(text, false);
    return std::count(ids.begin(), ids.end(), 1536);
  };
  EXPECT_EQ(count("word"), 1);
  EXPECT_EQ(count("a word, word."), 2);
  EXPECT_EQ(count("words sword word_ 1word \xC3\xA9word word\xCC\x81"), 0);
}

TEST(TokenizerByCharacter, WhatIsNotSupportedIsRefusedByName) {
  const auto error_of = [](std::string_view from, std::string_view to) {
    const auto read = tokenizer::from_json(tests::replaced(tests::family("llama2").json, from, to));
    return read ? std::string() : std::string(read.error().what());
  };
  EXPECT_THAT(error_of(R"("type":"Prepend")", R"("type":"Lowercase")"), HasSubstr("\"Lowercase\""));
  EXPECT_THAT(error_of(R"("type":"Fuse")", R"("type":"CTC")"), HasSubstr("\"CTC\""));
  EXPECT_THAT(error_of(R"("stop":0)", R"("stop":1)"), HasSubstr("stop"));
  EXPECT_THAT(error_of(R"({"type":"Fuse"},)", ""), HasSubstr("\"Strip\" is supported only after Fuse"));
  EXPECT_THAT(error_of(R"({"type":"ByteFallback"},{"type":"Fuse"})", R"({"type":"Fuse"},{"type":"ByteFallback"})"),
              HasSubstr("\"ByteFallback\" after Fuse"));
  EXPECT_THAT(error_of(R"("pattern":{"String":" "})", R"("pattern":{"Regex":"[a-z]"})"), HasSubstr("pattern"));
  EXPECT_EQ(error_of(R"("pattern":{"String":" "})", R"("pattern":{"Regex":" "})"), "") << "nothing special in it";
  EXPECT_THAT(error_of(R"("unk_token":"<unk>")", R"("unk_token":"<none>")"), HasSubstr("\"<none>\" is not in vocab"));
  EXPECT_EQ(error_of(R"("unk_token":"<unk>")", R"("unk_token":null)"), "") << "all bytes are there";
  EXPECT_EQ(error_of(R"("<0x00>")", R"("<0xZZ>")"), "") << "one byte less, but there is an unknown token";
  EXPECT_THAT(error_of(R"({"type":"Prepend","prepend":"▁"})",
                       R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaa"},)"
                       R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaa"})"),
              HasSubstr("more than 64 times"));
}

} // namespace
} // namespace godwit::gpu::model
