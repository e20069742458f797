#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "model/coded_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace godwit::gpu::cpu::testing {
namespace {

using model::data_type;

struct variant {
  std::string name;
  model::config config;
};

std::vector<variant> variants() {
  std::vector<variant> all;
  auto c = tiny_config();
  all.push_back({"llama", c});
  c.tied_embeddings = true;
  c.qkv_bias = true;
  all.push_back({"qwen2", c});
  c.qkv_bias = false;
  c.qk_norm = true;
  c.rms_norm_epsilon = 0.02; // large enough to be seen where it is left out
  all.push_back({"qwen3", c});
  c.qkv_bias = c.output_bias = true;
  c.head_size = 128;
  all.push_back({"qwen3_with_biases", c});
  c = tiny_config();
  c.sliding_window = 37;
  c.head_size = 32;
  all.push_back({"mistral_with_a_window", c});
  c = tiny_config();
  c.output_bias = c.mlp_bias = c.qkv_bias = true;
  c.rope.scaling = model::rope_config::scaling_kind::llama3;
  c.rope.factor = 8;
  c.rope.original_positions = 64;
  c.rope.theta = 500;
  c.head_size = 64;
  all.push_back({"llama3_with_biases", c});
  c = tiny_config();
  c.rope.scaling = model::rope_config::scaling_kind::yarn;
  c.rope.factor = 4;
  c.rope.original_positions = 256; // pairs of all three kinds
  c.rope.theta = 500;
  c.rope.fast_rotations = 8;
  c.rope.attention_factor = 1.139;
  c.head_size = 64;
  all.push_back({"stretched_by_yarn", c});
  c = tiny_config();
  c.kind = model::family::mixtral;
  c.intermediate = 72; // half of a tile is padding
  c.mixture = {5, 2, true};
  all.push_back({"mixtral", c});
  c.kind = model::family::qwen3_moe;
  c.qk_norm = true;
  c.intermediate = 40;
  c.mixture = {19, 6, false}; // more than a panel
  all.push_back({"qwen3_moe_with_weights_of_all", c});
  c = tiny_config();
  c.layers = 3;
  all.push_back({"gemma3", as_gemma3(c)});
  c.qkv_bias = c.output_bias = true;
  c.head_size = 64;
  c.hidden = 64;
  all.push_back({"gemma3_with_biases", as_gemma3(c)});
  c = tiny_config();
  c.layers = 3;
  c.intermediate = 72;
  all.push_back({"gpt_oss", as_gpt_oss(c)});
  c.head_size = 64;
  c.hidden = 64;
  all.push_back({"gpt_oss_with_heads_of_64", as_gpt_oss(c)});
  c = tiny_config();
  c.heads = c.kv_heads = 3;
  c.head_size = 8;
  c.hidden = 24;
  c.intermediate = 32;
  c.rope.scaling = model::rope_config::scaling_kind::linear;
  c.rope.factor = 2;
  all.push_back({"one_query_a_head", c});
  c = tiny_config();
  c.heads = 34;
  c.kv_heads = 2;
  c.head_size = 16;
  all.push_back({"seventeen_queries_a_head", c});
  return all;
}

class Logits : public ::testing::TestWithParam<variant> {};

TEST_P(Logits, OfF32WeightsAreThoseOfPlainLoopsInDouble) {
  const auto& c = GetParam().config;
  const memory_weights weights(c, data_type::f32, 7);
  const auto tokens = some_tokens(150, c.vocabulary, 3);
  const auto expected = plain_logits(c, weights, tokens);
  const auto logits = compute_logits(pack_model(c, weights, 1), tokens, {.threads = 2});
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - expected[i]));
  EXPECT_LT(worst, 1e-4);
}

TEST_P(Logits, OfBf16AndF16WeightsAreCloseToPlainLoopsOverTheSameWeights) {
  const auto& c = GetParam().config;
  const auto tokens = some_tokens(150, c.vocabulary, 3);
  for (const auto type : {data_type::bf16, data_type::f16}) {
    const memory_weights weights(c, type, 7);
    const auto expected = plain_logits(c, weights, tokens);
    const auto logits = compute_logits(pack_model(c, weights, 1), tokens, {.threads = 1});
    double squares = 0, differences = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      squares += expected[i] * expected[i];
      differences += (static_cast<double>(logits[i]) - expected[i]) * (static_cast<double>(logits[i]) - expected[i]);
    }
    EXPECT_LT(std::sqrt(differences / squares), type == data_type::bf16 ? 0.03 : 1e-5) << to_string(type);
  }
}

TEST_P(Logits, AreBitwiseTheSameHoweverThePromptIsCut) {
  const auto& c = GetParam().config;
  const auto tokens = some_tokens(300, c.vocabulary, 4);
  for (const auto type : {data_type::bf16, data_type::f16, data_type::f32}) {
    const auto packed = pack_model(c, memory_weights(c, type, 8), 1);
    const auto whole = compute_logits(packed, tokens, {.threads = 1});
    for (const std::uint32_t chunk : {1U, 7U, 16U, 100U, 131U})
      EXPECT_TRUE(same_bits(whole.data(), compute_logits(packed, tokens, {.threads = 2}, chunk).data(), whole.size()))
          << to_string(type) << " in chunks of " << chunk;
  }
}

TEST_P(Logits, AreBitwiseTheSameOnAllInstructionSetsAndThreadCounts) {
  const auto& c = GetParam().config;
  const auto tokens = some_tokens(70, c.vocabulary, 5);
  constexpr std::array types{data_type::bf16, data_type::f16, data_type::f32};
  constexpr std::array precisions{kv_precision::bf16, kv_precision::f32, kv_precision::fp8};
  const bool night = std::getenv("GODWIT_TEST_ROUNDS") != nullptr; // each with each: by day with one, not all the same
  const auto shift = GetParam().name.size();
  for (std::size_t i = 0; i < types.size(); ++i)
    for (std::size_t k = 0; k < precisions.size(); ++k) {
      if (!night && (i + shift) % precisions.size() != k) continue;
      const auto type = types[i];
      const auto kv = precisions[k];
      const auto packed = pack_model(c, memory_weights(c, type, 9), 2);
      const auto first = compute_logits(packed, tokens, {.threads = 1, .kv = kv, .isa = isa::scalar});
      for (const auto kind : isas_here())
        for (const std::uint32_t threads : {1U, 3U})
          for (const std::uint32_t chunk : {0U, 1U, 9U}) {
            if (kind == isa::scalar && chunk != 9) continue; // slow
            const auto logits = compute_logits(packed, tokens, {.threads = threads, .kv = kv, .isa = kind}, chunk);
            ASSERT_TRUE(same_bits(first.data(), logits.data(), first.size()))
                << to_string(type) << ", " << to_string(kind) << ", " << threads << " threads, chunks of " << chunk;
          }
    }
}

TEST_P(Logits, OfKvInEightBitsAreNotFarFromThoseOfWholeOnes) {
  const auto& c = GetParam().config;
  const memory_weights weights(c, data_type::f32, 7);
  const auto tokens = some_tokens(150, c.vocabulary, 3);
  const auto packed = pack_model(c, weights, 1);
  const auto expected = compute_logits(packed, tokens, {.threads = 2, .kv = kv_precision::f32});
  const auto logits = compute_logits(packed, tokens, {.threads = 2, .kv = kv_precision::fp8});
  double squares = 0, differences = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    differences += std::pow(static_cast<double>(logits[i]) - static_cast<double>(expected[i]), 2);
  }
  EXPECT_GT(std::sqrt(differences / squares), 1e-4);
  EXPECT_LT(std::sqrt(differences / squares), c.mixture.experts > 0 ? 0.4 : 0.2);
}

TEST(KvInEightBits, IsTheNearestThatThereIsAndHalfOfBf16) {
  auto c = tiny_config();
  c.kv_heads = 2;
  const memory_weights weights(c, data_type::f32, 7);
  const auto packed = pack_model(c, weights, 1);
  const auto tokens = some_tokens(16, c.vocabulary, 3);
  const std::vector<std::uint32_t> block{0};
  for (const auto kind : isas_here()) {
    const auto with = [&](kv_precision kv) {
      auto one =
          std::make_unique<runner>(packed, cpu_executor_settings{.threads = 1, .blocks = 1, .kv = kv, .isa = kind});
      one->step({slice_of(tokens, 0, 16, block)});
      return one;
    };
    const auto whole = with(kv_precision::f32), eighth = with(kv_precision::fp8);
    EXPECT_EQ(with(kv_precision::bf16)->get().info().block_bytes, 2 * eighth->get().info().block_bytes);
    EXPECT_THAT(eighth->get().info().kv_layout, ::testing::HasSubstr("cpu/fp8/"));
    for (const bool keys : {true, false}) { // of the first layer, which depend on no others
      const auto region = [&](const std::unique_ptr<runner>& of) {
        return keys ? of->get().key_region(0, protocols::block_id{0})
                    : of->get().value_region(0, protocols::block_id{0});
      };
      const auto is = region(whole), rounded = region(eighth);
      ASSERT_EQ(is.bytes, 4 * rounded.bytes);
      std::size_t seen = 0;
      for (std::uint64_t i = 0; i < rounded.bytes; ++i) {
        float value = 0;
        std::memcpy(&value, is.address + i * 4, 4);
        const auto code = std::to_integer<std::uint8_t>(rounded.address[i]);
        float nearest = 1e9F;
        for (int other = 0; other < 256; ++other)
          if ((other & 127) != 127)
            nearest = std::min(nearest, std::abs(model::widen_e4m3(static_cast<std::uint8_t>(other)) - value));
        ASSERT_EQ(std::abs(model::widen_e4m3(code) - value), nearest) << value << " as " << int{code};
        seen += value != 0 ? 1 : 0;
      }
      EXPECT_GT(seen, 16U * c.head_size);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Logits, ::testing::ValuesIn(variants()),
                         [](const auto& named) { return named.param.name; });

} // namespace
} // namespace godwit::gpu::cpu::testing
