#include "gpu/model/model_files.hpp"

#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/philox.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace godwit::gpu::model {
namespace {

/// A random stream for one mutation.
class dice {
public:
  explicit dice(std::uint32_t seed) : seed_(seed) {}
  std::uint32_t below(std::size_t bound) {
    return static_cast<std::uint32_t>(uniform(seed_, next_++) * static_cast<double>(bound));
  }

private:
  std::uint32_t seed_;
  std::uint32_t next_ = 0;
};

constexpr std::array<std::string_view, 24> splices{"{",          "}",       "[",          "]",
                                                   "null",       "-1",      "1e308",      "18446744073709551615",
                                                   "0",          "\"\"",    "\"a\"",      ",",
                                                   ":",          "true",    "4294967296", "9223372036854775807",
                                                   "\\u0000",    "\xFF",    "[[[[",       "{\"a\":{\"b\":{}}}",
                                                   "2147483648", "\"F64\"", "\"I64\"",    "1.5"};

void mutate(std::vector<std::byte>& bytes, dice& random) {
  if (bytes.empty()) return;
  // The weights' zeros are dull: stay near the front, where headers are.
  const auto span = std::min<std::size_t>(bytes.size(), 6000);
  const auto at = random.below(span);
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(6)) {
  case 0:
    bytes[at] = static_cast<std::byte>(random.below(256));
    break;
  case 1:
    bytes[at] ^= static_cast<std::byte>(1U << random.below(8));
    break;
  case 2:
    bytes.erase(place,
                place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(bytes.size() - at, 1 + random.below(20))));
    break;
  case 3: {
    const auto text = tests::bytes_of_text(splices[random.below(splices.size())]);
    bytes.insert(place, text.begin(), text.end());
    break;
  }
  case 4: {
    const auto text = tests::bytes_of_text(splices[random.below(splices.size())]);
    for (std::size_t i = 0; i < text.size() && at + i < bytes.size(); ++i) bytes[at + i] = text[i];
    break;
  }
  default:
    bytes.resize(random.below(bytes.size()));
    break;
  }
}

// What opens must be usable, what does not must say so in one line. Under asan this also finds reads out of bounds.
void try_mutations(const std::string& file, std::uint32_t rounds) {
  const auto good = tests::small_model();
  std::uint32_t opened = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    dice random(round);
    auto files = good;
    for (auto times = 1 + random.below(3); times > 0; --times) mutate(files[file], random);
    const auto result = open_model(memory_source("mutated", files));
    if (!result) {
      const std::string line = result.error().what();
      EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("\n"))) << round;
      EXPECT_LT(line.size(), 600U) << round;
      continue;
    }
    ++opened;
    for (const auto* name : {"model.norm.weight", "model.embed_tokens.weight"}) {
      const auto* tensor = result->tensors->find(name);
      ASSERT_NE(tensor, nullptr);
      unsigned sum = 0;
      for (std::uint64_t i = 0; i < tensor->bytes; ++i) sum += std::to_integer<unsigned>(tensor->data[i]);
      EXPECT_LT(sum, 256 * tensor->bytes);
    }
    const auto ids = result->tokens->encode("a b<|im_end|> aa\xF0\x9F\x98\x80", true);
    for (const auto id : ids) EXPECT_LT(id, 260);
    (void)result->tokens->decode(ids, false);
  }
  EXPECT_GT(opened, 0U) << "mutations should leave some files valid";
  EXPECT_LT(opened, rounds);
}

TEST(Mutations, AnyConfigIsReadOrRefused) { try_mutations("config.json", 4000); }
TEST(Mutations, AnySafetensorsHeaderIsReadOrRefused) { try_mutations("model.safetensors", 4000); }
TEST(Mutations, AnyTokenizerIsReadOrRefused) { try_mutations("tokenizer.json", 4000); }

/// Anywhere in a file: in its header, or in what tensors hold.
void mutate_anywhere(std::vector<std::byte>& bytes, dice& random) {
  if (random.below(2) == 0) return mutate(bytes, random);
  for (auto times = 1 + random.below(4); times > 0 && !bytes.empty(); --times)
    bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
}

// Matrices in codes lead from tensor to tensor: what opens is packed, too.
TEST(Mutations, AnyQuantizedFilesArePackedOrRefused) {
  for (const std::string name : {"gptq4", "gptq4-act-order", "gptq8", "awq4", "packed4-asym", "packed4-act-order",
                                 "fp8-block", "int8-channel"}) {
    const auto good = tests::golden_files("quantized/" + name);
    std::uint32_t opened = 0;
    constexpr std::uint32_t rounds = 200;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      dice random(round);
      auto files = good;
      mutate_anywhere(files[random.below(4) == 0 ? "config.json" : "model.safetensors"], random);
      const auto result = open_model(memory_source("mutated", files));
      if (!result) continue;
      ++opened;
      EXPECT_GT(cpu::packed_bytes(*cpu::pack_model(result->configuration, *result->tensors, 1)), 0U) << round;
    }
    EXPECT_GT(opened, 0U) << name;
    EXPECT_LT(opened, rounds) << name;
  }
}

TEST(Mutations, AnyGgufFileIsPackedOrRefused) {
  const auto path = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden/gguf";
  for (const std::string name : {"llama-legacy", "qwen3moe-mxfp4", "phi3-q5_1"}) {
    const auto files = directory_source(path / name);
    const auto good = files->find("model.gguf").value();
    std::uint32_t opened = 0;
    constexpr std::uint32_t rounds = 400;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      dice random(round);
      std::vector<std::byte> bytes(good.begin(), good.end());
      for (auto times = 1 + random.below(3); times > 0; --times) mutate_anywhere(bytes, random);
      const auto result = open_gguf(memory_source("mutated", {{"m.gguf", bytes}}), "m.gguf");
      if (!result) {
        const std::string line = result.error().what();
        EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("\n"))) << round;
        EXPECT_LT(line.size(), 800U) << line;
        continue;
      }
      ++opened;
      EXPECT_GT(cpu::packed_bytes(*cpu::pack_model(result->configuration, *result->tensors, 1)), 0U) << round;
      (void)result->tokens->encode("a b<|im_end|> aa", true);
    }
    EXPECT_GT(opened, 0U) << name;
    EXPECT_LT(opened, rounds) << name;
  }
}

} // namespace
} // namespace godwit::gpu::model
