// A model on several devices: what its logits have to do with those of one device, and with each other.
#include "gpu/cpu/kernel_support.hpp"
#include "gpu/cpu/tiny_model.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace godwit::gpu::cpu::testing {
namespace {

using model::data_type;
using shards = std::vector<std::shared_ptr<const packed_model>>;
using tokens_of = std::vector<protocols::token_id>;

/// Eight heads over four KV heads; no size is a multiple of anything.
model::config divisible_shape() {
  auto c = tiny_config();
  c.heads = 8;
  c.kv_heads = 4;
  c.intermediate = 210;
  c.vocabulary = 333;
  return c;
}

struct numbers {
  std::string name;
  model::config config;
};
std::vector<numbers> all_numbers() {
  std::vector<numbers> all;
  auto c = divisible_shape();
  all.push_back({"llama", c});
  c.tied_embeddings = c.qkv_bias = true;
  all.push_back({"qwen2", c});
  c.qkv_bias = false;
  c.qk_norm = true;
  all.push_back({"qwen3", c});
  c = divisible_shape();
  c.output_bias = c.mlp_bias = c.qkv_bias = true;
  c.sliding_window = 37;
  c.head_size = 32;
  all.push_back({"all_biases_and_a_window", c});
  c = divisible_shape();
  c.kind = model::family::qwen3_moe;
  c.intermediate = 130; // of each expert; five tiles
  c.mixture = {6, 3, true};
  all.push_back({"a_mixture_of_experts", c});
  c = divisible_shape();
  c.layers = 3;
  all.push_back({"gemma3", as_gemma3(c)});
  c.intermediate = 130;
  all.push_back({"gpt_oss", as_gpt_oss(c)});
  c = divisible_shape();
  c.heads = 4;
  c.hidden = 24;
  c.intermediate = 90; // fewer tiles than devices
  c.vocabulary = 50;
  c.head_size = 8;
  all.push_back({"less_than_a_tile_each", c});
  return all;
}

/// How far apart two sets of logits are, by the size of the first.
double distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0, differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += double{a[i]} * double{a[i]};
    differences += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  }
  return std::sqrt(differences / squares);
}
double largest_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  return worst;
}

/// The greedy choices of one are those of the other wherever the best two logits are more than `apart` apart.
void expect_same_choices(std::span<const float> a, std::span<const float> b, std::size_t vocabulary, double apart) {
  std::size_t clear = 0;
  for (std::size_t row = 0; row < a.size() / vocabulary; ++row) {
    const auto one = a.subspan(row * vocabulary, vocabulary), other = b.subspan(row * vocabulary, vocabulary);
    const auto best = std::max_element(one.begin(), one.end());
    float second = -INFINITY;
    for (auto at = one.begin(); at != one.end(); ++at)
      if (at != best) second = std::max(second, *at);
    if (double{*best} - double{second} <= apart) continue;
    ++clear;
    EXPECT_EQ(best - one.begin(), std::max_element(other.begin(), other.end()) - other.begin()) << "row " << row;
  }
  EXPECT_GT(clear, a.size() / vocabulary / 3) << "too few rows are clear for this to say anything";
}

class DividedLogits : public ::testing::TestWithParam<numbers> {};

TEST_P(DividedLogits, OfF32WeightsAreThoseOfPlainLoopsInDouble) {
  const auto& c = GetParam().config;
  const memory_weights weights(c, data_type::f32, 7);
  const auto tokens = some_tokens(150, c.vocabulary, 3);
  const auto expected = plain_logits(c, weights, tokens);
  for (const std::uint32_t degree : {2U, 4U}) {
    const auto logits = compute_logits(pack_shards(c, weights, degree, 1), tokens, {.threads = degree});
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      worst = std::max(worst, std::abs(double{logits[i]} - expected[i]));
    EXPECT_LT(worst, 1e-4) << degree;
  }
}

// The bounds are stated in docs/design/tensor_parallel.md.
TEST_P(DividedLogits, AreCloseToThoseOfOneDeviceForEveryTypeOfWeights) {
  const auto& c = GetParam().config;
  const auto tokens = some_tokens(150, c.vocabulary, 3);
  for (const auto type : {data_type::bf16, data_type::f16, data_type::f32}) {
    const memory_weights weights(c, type, 7);
    const auto whole = compute_logits(pack_model(c, weights, 1), tokens, {.threads = 1});
    for (const std::uint32_t degree : {2U, 4U}) {
      const auto divided = compute_logits(pack_shards(c, weights, degree, 1), tokens, {.threads = degree});
      EXPECT_LT(distance(whole, divided), type == data_type::bf16 ? 0.02 : 1e-5) << degree << to_string(type);
      expect_same_choices(whole, divided, c.vocabulary, 2 * largest_difference(whole, divided));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DividedLogits, ::testing::ValuesIn(all_numbers()),
                         [](const auto& param_info) { return param_info.param.name; });

bool same(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

TEST(DividedModel, GivesTheSameBitsInAnyChunksOnAnyThreadsAndInstructionSet) {
  const auto c = divisible_shape();
  for (const auto type : {data_type::bf16, data_type::f32}) {
    const memory_weights weights(c, type, 5);
    const auto tokens = some_tokens(100, c.vocabulary, 8);
    for (const std::uint32_t degree : {2U, 4U}) {
      const auto parts = pack_shards(c, weights, degree, 1);
      const auto expected = compute_logits(parts, tokens, {.threads = degree});
      for (const std::uint32_t chunk : {1U, 7U, 16U, 33U})
        EXPECT_TRUE(same(compute_logits(parts, tokens, {.threads = degree}, chunk), expected)) << degree << chunk;
      for (const std::uint32_t threads : {1U, 3U, 8U})
        EXPECT_TRUE(same(compute_logits(parts, tokens, {.threads = threads}), expected)) << degree << threads;
      for (const auto kind : isas_here()) {
        if (kind == isa::scalar) continue; // slow
        EXPECT_TRUE(same(compute_logits(parts, tokens, {.threads = degree, .isa = kind}), expected))
            << degree << to_string(kind);
      }
    }
  }
}

TEST(DividedModel, GivesARequestInACrowdTheLogitsItHasAlone) {
  const auto c = divisible_shape();
  const memory_weights weights(c, data_type::bf16, 11);
  for (const std::uint32_t degree : {2U, 4U}) {
    const auto parts = pack_shards(c, weights, degree, 1);
    const auto mine = some_tokens(60, c.vocabulary, 1);
    const auto all = compute_logits(parts, mine, {.threads = degree});
    const std::vector<float> expected(all.end() - c.vocabulary, all.end());
    runner busy(parts, {.threads = degree, .blocks = 200});
    std::vector<tokens_of> others;
    for (unsigned i = 0; i < 70; ++i) others.push_back(some_tokens(40, c.vocabulary, 100 + i)); // two groups of logits
    const auto step = [&](std::size_t first, std::size_t count, std::size_t theirs, std::size_t their_count) {
      std::vector<protocols::step_slice> slices;
      for (std::uint32_t i = 0; i < others.size(); ++i)
        slices.push_back(slice_of(others[i], theirs, their_count, std::vector{2 * i, 2 * i + 1}));
      slices.insert(slices.begin() + 5, slice_of(mine, first, count, std::vector{190U, 150U, 160U, 199U}));
      busy.step(slices);
    };
    step(0, 37, 0, 9);
    step(37, 20, 9, 1);
    for (std::size_t token = 57; token < 60; ++token) step(token, 1, 10 + token - 57, 1);
    EXPECT_TRUE(same(busy.logits(5), expected)) << degree;
  }
}

TEST(DividedModel, SamplesAndScoresAsOneDeviceDoesWithTheSameLogits) {
  const auto c = divisible_shape();
  const memory_weights weights(c, data_type::f32, 2);
  const auto tokens = some_tokens(20, c.vocabulary, 4);
  const auto answer = [&](const shards& parts) {
    runner r(parts, {.threads = 2, .blocks = 8});
    auto drawn = slice_of(tokens, 0, 20, std::vector{0U, 1U});
    drawn.sampling.temperature = 0.8F;
    drawn.sampling.seed = 7;
    drawn.sampling.logprobs = 3;
    auto scored = slice_of(tokens, 0, 20, std::vector{2U, 3U});
    scored.scored.assign(tokens.begin() + 1, tokens.end());
    scored.scores_top = 2;
    return r.step({drawn, scored});
  };
  const auto whole = answer({pack_model(c, weights, 1)}), divided = answer(pack_shards(c, weights, 4, 1));
  ASSERT_EQ(divided.tokens.size(), 2U);
  ASSERT_EQ(divided.scores.size(), 1U);
  ASSERT_EQ(divided.scores[0].size(), 19U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(divided.tokens[i].id, whole.tokens[i].id);
  for (std::size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(divided.scores[0][i].id, whole.scores[0][i].id);
    EXPECT_NEAR(divided.scores[0][i].logprob, whole.scores[0][i].logprob, 1e-4);
  }
}

// The model that everybody has: two KV heads.
TEST(DividedModel, OfTheDefaultModelTalksAsOneDeviceDoesWhereItIsSure) {
  const auto files = model::embedded_model();
  if (!files) GTEST_SKIP() << "built without the embedded model";
  const auto opened = model::open_model(files);
  ASSERT_TRUE(opened);
  const auto& c = opened->configuration;
  const auto text = opened->tokens->encode("The Jargon File is a collection of slang terms used by various subcultures "
                                           "of computer hackers. A hacker is a person who enjoys exploring the details "
                                           "of programmable systems and how to stretch their capabilities.",
                                           false);
  const auto whole = compute_logits(pack_model(c, *opened->tensors, 1), text, {.threads = 1});
  const auto divided = compute_logits(pack_shards(c, *opened->tensors, 2, 1), text, {.threads = 2});
  const auto worst = largest_difference(whole, divided);
  RecordProperty("largest_difference", std::to_string(worst));
  EXPECT_LT(distance(whole, divided), 0.02);
  EXPECT_LT(worst, 0.25);
  expect_same_choices(whole, divided, c.vocabulary, 2 * worst);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
