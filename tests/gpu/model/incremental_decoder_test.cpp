#include "gpu/model/tokenizer_files.hpp"

#include <godwit/gpu/model/philox.hpp>

#include <gtest/gtest.h>

namespace godwit::gpu::model {
namespace {

using protocols::token_id;

std::shared_ptr<const tokenizer> tokens() {
  auto read = tokenizer::from_json(tests::default_tokenizer_json());
  if (!read) throw model_error(read.error());
  return std::make_shared<const tokenizer>(std::move(read).value());
}

token_id byte_token(const tokenizer& from, char byte) { return *from.find(std::string(1, byte)); }

TEST(IncrementalDecoder, ACharacterComesWholeOrNotYet) {
  const auto known = tokens();
  incremental_decoder decoder(known);
  const std::string face = "\xF0\x9F\x98\x80";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(decoder.feed(byte_token(*known, face[i])), "");
  EXPECT_EQ(decoder.feed(byte_token(*known, face[3])), face);
  EXPECT_EQ(decoder.finish(), "");
}

TEST(IncrementalDecoder, WhatStaysUnfinishedIsOneReplacementCharacter) {
  const auto known = tokens();
  incremental_decoder decoder(known);
  EXPECT_EQ(decoder.feed(byte_token(*known, 'a')), "a");
  EXPECT_EQ(decoder.feed(byte_token(*known, '\xF0')), "");
  EXPECT_EQ(decoder.feed(byte_token(*known, '\x9F')), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.feed(byte_token(*known, 'b')), "b");
}

TEST(IncrementalDecoder, BytesThatCanBecomeNothingAreReplacedAtOnce) {
  const auto known = tokens();
  incremental_decoder decoder(known);
  EXPECT_EQ(decoder.feed(byte_token(*known, '\xFF')), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.feed(byte_token(*known, '\xE4')), "");
  EXPECT_EQ(decoder.feed(byte_token(*known, 'x')), "\xEF\xBF\xBDx");
  EXPECT_EQ(decoder.feed(byte_token(*known, '\x80')), "\xEF\xBF\xBD");
}

TEST(IncrementalDecoder, SpecialTokensAreSkippedOrShown) {
  const auto known = tokens();
  incremental_decoder hides(known);
  incremental_decoder shows(known, false);
  EXPECT_EQ(hides.feed(2), "");
  EXPECT_EQ(shows.feed(2), "<|im_end|>");
}

// The property that the whole stream rests on, with any ids, valid text or not.
TEST(IncrementalDecoder, ThePiecesTogetherAreTheWholeForAnyIds) {
  const auto known = tokens();
  for (std::uint32_t round = 0; round < 3000; ++round) {
    std::vector<token_id> ids;
    std::uint32_t drawn = 0;
    const auto below = [&](double bound) { return static_cast<token_id>(uniform(round, drawn++) * bound); };
    // Bytes more often than words: mostly invalid text.
    for (auto count = below(40); count > 0; --count)
      ids.push_back(below(2.0) == 0 ? 3 + below(256.0) : below(1600.0) - 20);
    for (const bool skip : {true, false}) {
      incremental_decoder decoder(known, skip);
      std::string text;
      for (const auto id : ids) {
        const auto piece = decoder.feed(id);
        EXPECT_EQ(known->decode(known->encode(piece, false), false), piece) << "a piece is valid UTF-8";
        text += piece;
      }
      text += decoder.finish();
      ASSERT_EQ(text, known->decode(ids, skip)) << round;
      auto at_once = decoder.feed(ids);
      at_once += decoder.finish();
      EXPECT_EQ(at_once, text);
    }
  }
}

} // namespace
} // namespace godwit::gpu::model
