#include "gpu/model/model_files.hpp"
#include "gpu/model/tokenizer_files.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace godwit::gpu::model {
namespace {

constexpr auto oracle = GODWIT_SOURCE_DIR "/tests/gpu/model/oracle";

std::string json_string(std::string_view text) {
  constexpr auto hex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (byte < 0x20)
      ((out += "\\u00") += hex[byte >> 4U]) += hex[byte & 15U];
    else
      out += c;
  }
  return out + "\"";
}

void expect_same_ids(const std::string& name, const std::string& json) {
  if (!std::filesystem::exists(std::string(oracle) + "/node_modules/@huggingface/tokenizers"))
    GTEST_SKIP() << "no node_modules in tests/gpu/model/oracle; `npm ci` there fetches the oracle";
  const auto ours = tokenizer::from_json(json);
  ASSERT_TRUE(ours) << ours.error().what();

  const tests::scratch_directory directory("oracle-" + name);
  const auto file = [&](const char* part) { return (directory.path() / part).string(); };
  const auto texts = tests::hard_texts();
  std::ofstream(file("tokenizer.json")) << json;
  {
    std::ofstream out(file("texts.json"));
    for (std::size_t i = 0; i < texts.size(); ++i) out << (i == 0 ? "[" : ",\n") << json_string(texts[i]);
    out << "]";
  }
  const auto command = "cd '" + std::string(oracle) + "' && node encode.mjs '" + file("tokenizer.json") + "' '" +
                       file("texts.json") + "' '" + file("ids.txt") + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);

  std::ifstream in(file("ids.txt"));
  std::string line;
  int wrong = 0;
  for (const auto& text : texts) {
    ASSERT_TRUE(std::getline(in, line));
    std::string mine;
    for (const auto id : ours->encode(text, true)) mine += (mine.empty() ? "" : " ") + std::to_string(id);
    if (mine == line) continue;
    ADD_FAILURE() << json_string(text) << "\n  oracle " << line << "\n  ours   " << mine;
    if (++wrong == 5) return;
  }
}

TEST(TokenizerOracle, TheDefaultModelsTokenizerGivesTheSameIds) {
  expect_same_ids("default", tests::default_tokenizer_json());
}

TEST(TokenizerOracle, Llama3sPatternGivesTheSameIds) {
  expect_same_ids("llama3",
                  tests::with_pre_tokenizer(tests::default_tokenizer_json(), tests::split_by(tests::llama3_pattern)));
}

TEST(TokenizerOracle, Qwen2sPatternAndNormalizerGiveTheSameIds) {
  const auto json = tests::with_pre_tokenizer(tests::default_tokenizer_json(), tests::split_by(tests::qwen2_pattern));
  expect_same_ids("qwen2", tests::replaced(json, R"("normalizer": null)", R"("normalizer": {"type": "NFC"})"));
}

TEST(TokenizerOracle, DigitsBeforeBytesGiveTheSameIds) {
  expect_same_ids("digits", tests::with_pre_tokenizer(tests::default_tokenizer_json(), tests::digits_steps));
}

} // namespace
} // namespace godwit::gpu::model
