#include "gpu/model/model_files.hpp"

#include <godwit/gpu/model/random_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace godwit::gpu::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::error_of;
using tests::replace;
using tests::small_model;

config open_config(tests::file_map files) {
  auto opened = open_model(memory_source("small", std::move(files)));
  EXPECT_TRUE(opened) << opened.error().what();
  return opened ? opened->configuration : config{};
}

std::string error_with(std::string_view from, std::string_view to) {
  auto files = small_model();
  replace(files, "config.json", from, to);
  const auto error = error_of(std::move(files));
  EXPECT_THAT(error, Not(HasSubstr("\n")));
  return error;
}

TEST(ModelConfig, ASmallLlamaIsReadWithItsDefaults) {
  const auto c = open_config(small_model());
  EXPECT_EQ(c.kind, family::llama);
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.vocabulary, 260U);
  EXPECT_EQ(c.head_size, 4U);
  EXPECT_EQ(c.kv_heads, 1U);
  EXPECT_EQ(c.positions_max, 64U);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.type, data_type::f32);
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::none);
  EXPECT_EQ(c.bos, 0);
  EXPECT_EQ(c.eos, (std::vector<protocols::token_id>{2}));
  EXPECT_FALSE(c.default_temperature);
}

TEST(ModelConfig, GenerationConfigAddsItsEndsAndDefaults) {
  auto files = small_model();
  files["generation_config.json"] =
      tests::bytes_of_text(R"({"eos_token_id": [2, 1], "temperature": 0.6, "top_p": 0.9, "top_k": 40})");
  const auto c = open_config(files);
  EXPECT_EQ(c.eos, (std::vector<protocols::token_id>{2, 1}));
  EXPECT_EQ(c.default_temperature, 0.6F);
  EXPECT_EQ(c.default_top_p, 0.9F);
  EXPECT_EQ(c.default_top_k, 40);
  EXPECT_FALSE(c.default_min_p);
  EXPECT_FALSE(c.default_repetition_penalty);
}

// Qwen2.5's small models come with a penalty, and repeat themselves without it.
TEST(ModelConfig, GenerationConfigMayHavePenaltiesAndVllmsWordForAll) {
  auto files = small_model();
  files["generation_config.json"] = tests::bytes_of_text(R"({"repetition_penalty": 1.1, "min_p": 0.05, "top_k": -1})");
  const auto c = open_config(files);
  EXPECT_EQ(c.default_repetition_penalty, 1.1F);
  EXPECT_EQ(c.default_min_p, 0.05F);
  EXPECT_EQ(c.default_top_k, 0);
  files["generation_config.json"] = tests::bytes_of_text(R"({"repetition_penalty": 0})");
  EXPECT_THAT(error_of(files), HasSubstr("repetition_penalty"));
  files["generation_config.json"] = tests::bytes_of_text(R"({"top_k": -2})");
  EXPECT_THAT(error_of(files), HasSubstr("top_k"));
}

TEST(ModelConfig, LinearScalingLengthensTheContext) {
  auto files = small_model();
  replace(files, "config.json", R"("rope_scaling": null)", R"("rope_scaling": {"type": "linear", "factor": 8.0})");
  const auto c = open_config(files);
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::linear);
  EXPECT_EQ(c.positions_max, 8U * 64U);
}

// transformers makes these classes' tokenizers anew by the two flags; the small model's file puts nothing around a
// text.
TEST(ModelConfig, LlamasTokenizersGoByTheirFlags) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  auto files = small_model();
  const auto ends = [&](const std::string& text) {
    files["tokenizer_config.json"] = tests::bytes_of_text(text);
    const auto opened = open_model(memory_source("small", files));
    EXPECT_TRUE(opened) << opened.error().what();
    return std::pair{opened->tokens->prefix(), opened->tokens->suffix()};
  };
  const std::string tokens = R"("bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"})";
  EXPECT_THAT(ends(R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, )" + tokens + "}").first,
              ElementsAre(1));
  const auto both = ends(R"({"tokenizer_class": "LlamaTokenizer", "add_eos_token": true, )" + tokens + "}");
  EXPECT_THAT(both.first, ElementsAre(1)) << "as transformers has it where nothing is said";
  EXPECT_THAT(both.second, ElementsAre(2));
  EXPECT_THAT(ends(R"({"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true, )" + tokens + "}").first, IsEmpty());
  EXPECT_THAT(ends(R"({"tokenizer_class": "LlamaTokenizerFast", )" + tokens + "}").first, IsEmpty());

  replace(
      files, "tokenizer.json", R"("post_processor":null)",
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|im_start|>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<|im_start|>":{"id":"<|im_start|>",)"
      R"("ids":[1],"tokens":["<|im_start|>"]}}})");
  EXPECT_THAT(ends("{}").first, ElementsAre(1));
  EXPECT_THAT(ends(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false, )" + tokens + "}").first,
              IsEmpty());

  files["tokenizer_config.json"] =
      tests::bytes_of_text(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true})");
  EXPECT_THAT(error_of(files), HasSubstr("add_bos_token"));
}

TEST(ModelConfig, TheTokenizersEndOfSequenceIsOneToo) {
  auto files = small_model();
  files["tokenizer_config.json"] =
      tests::bytes_of_text(R"({"eos_token": {"content": "<|im_start|>"}, "chat_template": "{{ messages }}"})");
  const auto opened = open_model(memory_source("small", files));
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->configuration.eos, (std::vector<protocols::token_id>{2, 1}));
  EXPECT_EQ(opened->chat_template, "{{ messages }}");
  EXPECT_THAT(opened->special_tokens, ::testing::ElementsAre(::testing::Pair("eos_token", "<|im_start|>")));
}

TEST(ModelConfig, TokensAreSpecialAlsoWhereTheTokenizersConfigSaysSo) {
  auto files = small_model();
  auto text = tests::text_of_bytes(files.at("tokenizer.json"));
  const auto first = text.find(R"("special":true)"); // token 0's
  ASSERT_NE(first, std::string::npos);
  files["tokenizer.json"] = tests::bytes_of_text(text.replace(first, 14, R"("special":false)"));
  const auto special = [&] { return open_model(memory_source("small", files)).value().tokens->is_special(0); };
  EXPECT_FALSE(special());
  const auto config = [](const std::string& content) {
    return tests::bytes_of_text(R"({"added_tokens_decoder": {"0": {"content": )" + content + R"(, "special": true}}})");
  };
  files["tokenizer_config.json"] = config("\"<|other|>\"");
  EXPECT_FALSE(special());
  files["tokenizer_config.json"] = config("\"<|endoftext|>\"");
  EXPECT_TRUE(special());
  files["tokenizer_config.json"] = config("7");
  EXPECT_THAT(error_of(files), HasSubstr("added_tokens_decoder.content"));
}

TEST(ModelConfig, OfNamedTemplatesTheDefaultCounts) {
  auto files = small_model();
  files["tokenizer_config.json"] = tests::bytes_of_text(
      R"({"chat_template": [{"name": "tool_use", "template": "A"}, {"name": "default", "template": "B"}]})");
  EXPECT_EQ(open_model(memory_source("small", files))->chat_template, "B");
  EXPECT_EQ(open_model(memory_source("small", files))->tool_template, "A");
  files["chat_template.json"] = tests::bytes_of_text(R"({"chat_template": "D"})");
  EXPECT_EQ(open_model(memory_source("small", files))->chat_template, "D");
  EXPECT_FALSE(open_model(memory_source("small", files))->tool_template) << "the file's one is for all conversations";
  files["chat_template.jinja"] = tests::bytes_of_text("C");
  EXPECT_EQ(open_model(memory_source("small", files))->chat_template, "C");
  EXPECT_FALSE(open_model(memory_source("small", files))->tool_template);
}

TEST(ModelConfig, RopeScalingIsReadInAllSpellings) {
  auto files = small_model();
  replace(files, "config.json", R"("rope_scaling": null)", R"("rope_scaling": {"type": "linear", "factor": 2.0})");
  auto rope = open_config(files).rope;
  EXPECT_EQ(rope.scaling, rope_config::scaling_kind::linear);
  EXPECT_EQ(rope.factor, 2.0);
  EXPECT_EQ(rope.theta, 10000.0);

  constexpr auto llama3 = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192)";
  files = small_model();
  replace(files, "config.json", R"("rope_scaling": null)",
          std::string(R"("rope_scaling": {"rope_type": "llama3", )") + llama3 + "}");
  rope = open_config(files).rope;
  EXPECT_EQ(rope.scaling, rope_config::scaling_kind::llama3);
  EXPECT_EQ(rope.original_positions, 8192U);
  EXPECT_EQ(rope.high_frequency_factor, 4.0);

  files = small_model();
  replace(files, "config.json", R"("rope_scaling": null)",
          std::string(R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, )") + llama3 + "}");
  replace(files, "config.json", R"("rope_theta": 10000.0,)", "");
  rope = open_config(files).rope;
  EXPECT_EQ(rope.scaling, rope_config::scaling_kind::llama3);
  EXPECT_EQ(rope.theta, 500000.0);

  files = small_model();
  replace(files, "config.json", R"("rope_scaling": null)", R"("rope_parameters": {"rope_type": "default"})");
  EXPECT_EQ(open_config(files).rope.scaling, rope_config::scaling_kind::none);
}

TEST(ModelConfig, YarnIsReadAsOthersReadIt) {
  const auto with = [](const std::string& scaling) {
    auto files = small_model();
    replace(files, "config.json", R"("rope_scaling": null)",
            R"("rope_scaling": {"rope_type": "yarn", )" + scaling + "}");
    return open_config(files);
  };
  // As Qwen's cards have it. The context is the original one times the factor, as in vLLM.
  auto c = with(R"("factor": 4.0, "original_max_position_embeddings": 4096)");
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::yarn);
  EXPECT_EQ(c.rope.original_positions, 4096U);
  EXPECT_EQ(c.positions_max, 16384U);
  EXPECT_EQ(c.rope.fast_rotations, 32.0);
  EXPECT_EQ(c.rope.slow_rotations, 1.0);
  EXPECT_TRUE(c.rope.whole_pairs);
  EXPECT_DOUBLE_EQ(c.rope.attention_factor, 1.1386294361119891); // 0.1 ln 4 + 1

  // Without the original context it is max_position_embeddings.
  const auto before = open_config(small_model()).positions_max;
  c = with(R"("factor": 2.0, "beta_fast": 16, "beta_slow": 0.5, "truncate": false, "attention_factor": 0.75)");
  EXPECT_EQ(c.rope.original_positions, before);
  EXPECT_EQ(c.positions_max, 2 * before);
  EXPECT_EQ(c.rope.fast_rotations, 16.0);
  EXPECT_EQ(c.rope.slow_rotations, 0.5);
  EXPECT_FALSE(c.rope.whole_pairs);
  EXPECT_EQ(c.rope.attention_factor, 0.75);

  EXPECT_DOUBLE_EQ(with(R"("factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707)").rope.attention_factor, 1.0);
  EXPECT_DOUBLE_EQ(with(R"("factor": 1)").rope.attention_factor, 1.0);
}

TEST(ModelConfig, MixturesOfExpertsAreReadAsTransformersWritesThem) {
  const std::filesystem::path goldens = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden";
  auto opened = open_model(goldens / "mixtral");
  ASSERT_TRUE(opened) << opened.error().what();
  auto c = opened->configuration;
  EXPECT_EQ(c.kind, family::mixtral);
  EXPECT_EQ(c.mixture.experts, 4U);
  EXPECT_EQ(c.mixture.chosen, 2U);
  EXPECT_TRUE(c.mixture.normed);
  EXPECT_EQ(c.intermediate, 24U);
  EXPECT_FALSE(c.sliding_window);
  opened = open_model(goldens / "qwen3-moe");
  ASSERT_TRUE(opened) << opened.error().what();
  c = opened->configuration;
  EXPECT_EQ(c.kind, family::qwen3_moe);
  EXPECT_EQ(c.mixture.experts, 8U);
  EXPECT_EQ(c.mixture.chosen, 3U);
  EXPECT_FALSE(c.mixture.normed);
  EXPECT_EQ(c.intermediate, 16U) << "moe_intermediate_size, not intermediate_size";
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(open_config(small_model()).mixture.experts, 0U);
}

/// A tiny random model whose config.json is changed.
protocols::expected<model_directory, model_error> changed_model(const char* name,
                                                                const std::function<void(std::string&)>& change) {
  const tests::scratch_directory directory(name);
  EXPECT_TRUE(write_random_model(name, directory.path(), 1));
  const auto path = directory.path() / "config.json";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  auto changed = text.str();
  change(changed);
  std::ofstream(path) << changed;
  return open_model(directory.path());
}

TEST(ModelConfig, OfMixturesWhatIsAbsentIsWhatTransformersHas) {
  const auto opened = changed_model("tiny-mixtral", [](std::string& text) {
    for (const std::string field : {"rope_theta", "rms_norm_eps"}) {
      const auto at = text.find("\"" + field + "\":");
      ASSERT_NE(at, std::string::npos);
      text.erase(at, text.find(',', at) + 1 - at);
    }
  });
  ASSERT_TRUE(opened) << opened.error().what();
  EXPECT_EQ(opened->configuration.rope.theta, 1e6);
  EXPECT_EQ(opened->configuration.rms_norm_epsilon, 1e-5);
}

TEST(ModelConfig, AWindowOfQwen3MoeIsOfAllLayers) {
  const auto with = [](const std::string& more) {
    return changed_model("tiny-qwen3-moe", [&](std::string& text) {
      const std::string none = R"("use_sliding_window":false)";
      const auto at = text.find(none);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, none.size(), R"("use_sliding_window":true,"sliding_window":32)" + more);
    });
  };
  for (const std::string more : {"", R"(,"max_window_layers":1)", R"(,"max_window_layers":2)"}) {
    const auto opened = with(more);
    ASSERT_TRUE(opened) << opened.error().what();
    EXPECT_EQ(opened->configuration.sliding_window, 32U) << more;
  }
  const auto refused = with(R"(,"layer_types":["full_attention","full_attention"])");
  ASSERT_FALSE(refused);
  EXPECT_THAT(std::string(refused.error().what()), HasSubstr("layer_types"));
}

/// The first of Gemma's goldens, whose config.json is this text; with what its tensors need.
config gemma3_with(const std::string& more) {
  auto files = tests::golden_files("gemma3");
  files["config.json"] = tests::bytes_of_text(
      R"({"architectures": ["Gemma3ForCausalLM"], "vocab_size": 264, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16)" +
      more + "}");
  return open_config(std::move(files));
}
std::string error_of_gemma3_with(const std::string& more) {
  auto files = tests::golden_files("gemma3");
  files["config.json"] = tests::bytes_of_text(
      R"({"architectures": ["Gemma3ForCausalLM"], "vocab_size": 264, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16)" +
      more + "}");
  return error_of(std::move(files));
}

// transformers' Gemma3TextConfig.
TEST(ModelConfig, OfGemma3WhatIsAbsentIsWhatTransformersHas) {
  const auto c = gemma3_with("");
  EXPECT_EQ(c.kind, family::gemma3);
  EXPECT_EQ(c.rms_norm_epsilon, 1e-6);
  EXPECT_EQ(c.query_scalar, 256);
  EXPECT_EQ(c.positions_max, 131072U);
  EXPECT_EQ(c.gate, activation::gelu_tanh);
  EXPECT_TRUE(c.tied_embeddings && c.qk_norm && c.post_norms && c.norms_less_one && c.scaled_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.output_bias || c.mlp_bias);
  EXPECT_EQ(c.sliding_window, 4096U);
  EXPECT_EQ(c.windowed, (std::vector<bool>{true, true, true})) << "the sixth would have none";
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::none);
  ASSERT_TRUE(c.window_rope);
  EXPECT_EQ(c.window_rope->theta, 1e4);
  EXPECT_EQ(c.window_rope->scaling, rope_config::scaling_kind::none);
  EXPECT_EQ(c.bos, 2);
  EXPECT_EQ(c.eos, (std::vector<protocols::token_id>{1}));

  auto files = tests::golden_files("gemma3-with-images");
  files["config.json"] =
      tests::bytes_of_text(R"({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {}})");
  EXPECT_THAT(error_of(files), HasSubstr("config.json calls for [262208, 2304]"));
}

TEST(ModelConfig, LayersOfGemma3SeeAWindowOrEverything) {
  const auto of = [](const std::string& more) { return gemma3_with(R"(, "sliding_window": 7)" + more); };
  auto c = of(R"(, "sliding_window_pattern": 2)");
  EXPECT_EQ(c.windowed, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(window_of(c, 0), 7U);
  EXPECT_EQ(window_of(c, 1), 0U);
  EXPECT_TRUE(has_window_rope(c, 2));
  EXPECT_FALSE(has_window_rope(c, 1));
  EXPECT_EQ(of(R"(, "_sliding_window_pattern": 2)").windowed, c.windowed) << "as some versions write it";
  EXPECT_EQ(of(R"(, "_sliding_window_pattern": 3, "sliding_window_pattern": 2)").windowed, c.windowed);
  c = of(R"(, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"])");
  EXPECT_EQ(c.windowed, (std::vector<bool>{false, true, true}));
  c = of(R"(, "sliding_window_pattern": 1)");
  EXPECT_FALSE(c.sliding_window) << "no layer has it";
  EXPECT_FALSE(c.window_rope);
  EXPECT_TRUE(c.windowed.empty());
  EXPECT_THAT(error_of_gemma3_with(R"(, "layer_types": ["full_attention"])"), HasSubstr("1 entries for 3 layers"));
  EXPECT_THAT(error_of_gemma3_with(R"(, "layer_types": ["full_attention", "chunked_attention", "full_attention"])"),
              HasSubstr("layer_types: \"chunked_attention\" is not supported"));
  EXPECT_THAT(error_of_gemma3_with(R"(, "sliding_window": null)"), HasSubstr("sliding_window: is null"));
}

TEST(ModelConfig, RopesOfGemma3AreReadAsOldAndNewFilesHaveThem) {
  const auto older = gemma3_with(R"(, "rope_theta": 5e5, "rope_local_base_freq": 2e4, "max_position_embeddings": 512,
                                     "rope_scaling": {"factor": 8.0, "rope_type": "linear"})");
  const auto newer = gemma3_with(R"(, "max_position_embeddings": 512, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})");
  for (const auto& c : {older, newer}) {
    EXPECT_EQ(c.rope.theta, 5e5);
    EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::linear);
    EXPECT_EQ(c.rope.factor, 8);
    ASSERT_TRUE(c.window_rope);
    EXPECT_EQ(c.window_rope->theta, 2e4);
    EXPECT_EQ(c.window_rope->scaling, rope_config::scaling_kind::none);
    EXPECT_EQ(c.positions_max, 512U) << "which is of the stretched model";
  }
  EXPECT_THAT(error_of_gemma3_with(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6})"),
              HasSubstr("rope_parameters.full_attention: is missing"));
  EXPECT_THAT(error_of_gemma3_with(R"(, "rope_scaling": {"factor": 8.0, "rope_type": "dynamic"})"),
              HasSubstr("\"dynamic\" is not supported"));
}

TEST(ModelConfig, Gemma3ThatCannotBeComputedIsRefused) {
  for (const auto& [more, why] : {std::pair{R"("final_logit_softcapping": 30.0)", "final_logit_softcapping"},
                                  {R"("attn_logit_softcapping": 50.0)", "attn_logit_softcapping"},
                                  {R"("use_bidirectional_attention": true)", "use_bidirectional_attention"},
                                  {R"("hidden_activation": "gelu")", "hidden_activation"},
                                  {R"("partial_rotary_factor": 0.5)", "partial_rotary_factor"}})
    EXPECT_THAT(
        error_of_gemma3_with(std::string(", ") + more),
        AllOf(HasSubstr(std::string("config.json: ") + why + ": "), HasSubstr("not supported"), Not(HasSubstr("\n"))));
  auto files = tests::golden_files("gemma3-with-images");
  replace(files, "config.json", R"("final_logit_softcapping": null)", R"("final_logit_softcapping": 30.0)");
  EXPECT_THAT(error_of(files), HasSubstr("config.json: text_config.final_logit_softcapping: "));
}

/// gpt-oss's golden, whose config.json is this text.
tests::file_map gpt_oss_with(const std::string& more) {
  auto files = tests::golden_files("gpt-oss");
  files["config.json"] = tests::bytes_of_text(
      R"({"architectures": ["GptOssForCausalLM"], "vocab_size": 264, "hidden_size": 32, "intermediate_size": 24,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "num_local_experts": 5, "max_position_embeddings": 512)" +
      more + "}");
  return files;
}

// transformers' GptOssConfig.
TEST(ModelConfig, OfGptOssWhatIsAbsentIsWhatTransformersHas) {
  const auto c = open_config(gpt_oss_with(""));
  EXPECT_EQ(c.kind, family::gpt_oss);
  EXPECT_EQ(c.rms_norm_epsilon, 1e-5);
  EXPECT_EQ(c.gate, activation::clamped);
  EXPECT_EQ(c.gate_limit, 7);
  EXPECT_EQ(c.gate_slope, 1.702);
  EXPECT_TRUE(c.sinks && c.qkv_bias && c.output_bias && c.mixture.biased && c.mixture.normed);
  EXPECT_FALSE(c.tied_embeddings || c.mlp_bias || c.qk_norm || c.post_norms);
  EXPECT_EQ(c.mixture.chosen, 4U);
  EXPECT_EQ(c.sliding_window, 128U);
  EXPECT_EQ(c.windowed, (std::vector<bool>{true, false, true}));
  EXPECT_FALSE(c.window_rope) << "all layers turn alike";
  EXPECT_EQ(c.rope.theta, 150000);
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::yarn);
  EXPECT_EQ(c.rope.factor, 32);
  EXPECT_EQ(c.rope.original_positions, 4096U);
  EXPECT_FALSE(c.rope.whole_pairs);
  EXPECT_NEAR(c.rope.attention_factor, 1.3465735902799727, 1e-12);
  EXPECT_EQ(c.positions_max, 512U) << "which is of the stretched model";
  EXPECT_EQ(c.quantization.method, quantization_config::method_kind::none);
}

// As the files of the 20b have it, but for the sizes.
TEST(ModelConfig, OfGptOssIsReadAsItsFilesHaveIt) {
  const auto c = open_config(gpt_oss_with(
      R"(, "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": 2, "experts_per_token": 2,
          "num_experts_per_tok": 2, "hidden_act": "silu", "initial_context_length": 64, "model_type": "gpt_oss",
          "layer_types": ["full_attention", "sliding_attention", "full_attention"], "output_router_logits": false,
          "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
          "original_max_position_embeddings": 64, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000,
          "router_aux_loss_coef": 0.9, "sliding_window": 9, "swiglu_limit": 5.0, "tie_word_embeddings": false)"));
  EXPECT_EQ(c.mixture.experts, 5U);
  EXPECT_EQ(c.mixture.chosen, 2U);
  EXPECT_EQ(c.gate_limit, 5);
  EXPECT_EQ(c.windowed, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(window_of(c, 0), 0U);
  EXPECT_EQ(window_of(c, 1), 9U);
  EXPECT_EQ(c.rope.factor, 8);
  EXPECT_EQ(c.positions_max, 512U);
  EXPECT_FALSE(c.rope.whole_pairs);

  const auto newer = open_config(gpt_oss_with(
      R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "swiglu_alpha": 1.5,
          "layer_types": ["full_attention", "full_attention", "full_attention"])"));
  EXPECT_EQ(newer.rope.theta, 5e5);
  EXPECT_EQ(newer.rope.scaling, rope_config::scaling_kind::none);
  EXPECT_EQ(newer.gate_slope, 1.5);
  EXPECT_FALSE(newer.sliding_window) << "no layer has it";
}

TEST(ModelConfig, GptOssThatCannotBeComputedIsRefused) {
  for (const auto& [more, why] :
       {std::pair{R"("hidden_act": "gelu")", "hidden_act: "},
        {R"("swiglu_limit": 0)", "swiglu_limit: "},
        {R"("swiglu_limit": "seven")", "swiglu_limit: "},
        {R"("num_experts_per_tok": 6)", "num_experts_per_tok: "},
        {R"("layer_types": ["full_attention"])", "1 entries for 3 layers"},
        {R"("layer_types": ["full_attention", 7, "sliding_attention"])", "layer_types: "},
        {R"("sliding_window": null)", "sliding_window: is null"},
        {R"("sliding_window": 0)", "sliding_window: "},
        {R"("rope_scaling": {"rope_type": "longrope"})", "rope_scaling.rope_type: "},
        {R"("quantization_config": {"quant_method": "mxfp8"})", "\"mxfp8\" is not supported"}})
    EXPECT_THAT(error_of(gpt_oss_with(std::string(", ") + more)),
                AllOf(HasSubstr("config.json: "), HasSubstr(why), Not(HasSubstr("\n"))));
  auto files = tests::golden_files("llama");
  replace(files, "config.json", R"("vocab_size")", R"("quantization_config": {"quant_method": "mxfp4"}, "vocab_size")");
  EXPECT_THAT(error_of(files), HasSubstr("is supported of GptOssForCausalLM only"));
}

TEST(ModelConfig, OfGemma3ThatSeesTheTextsPartIsRead) {
  auto files = tests::golden_files("gemma3-with-images");
  auto opened = open_model(memory_source("both", files));
  ASSERT_TRUE(opened) << opened.error().what();
  EXPECT_EQ(opened->configuration.type, data_type::f32);
  EXPECT_EQ(opened->configuration.bos, 0);
  EXPECT_EQ(opened->tensors->find("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight"), nullptr);
  replace(files, "config.json", R"("text_config")", R"("other_config")");
  EXPECT_THAT(error_of(files), HasSubstr("text_config"));

  // As transformers' fifth version has the names, of the same lengths with the padding.
  files = tests::golden_files("gemma3-with-images");
  auto header = tests::text_of_bytes(files["model.safetensors"]);
  for (const auto& [from, to] :
       {std::pair{std::string("language_model.model."), std::string("model.language_model.")},
        {std::string("\"vision_tower.vision_model."), std::string("\"model.vision_tower.encoder")}})
    for (auto at = header.find(from); at != std::string::npos; at = header.find(from, at + to.size()))
      header.replace(at, from.size(), to);
  files["model.safetensors"] = tests::bytes_of_text(header);
  auto newer = open_model(memory_source("both", files));
  ASSERT_TRUE(newer) << newer.error().what();
  for (const auto* name : {"model.embed_tokens.weight", "model.layers.2.post_feedforward_layernorm.weight"}) {
    const auto *a = opened->tensors->find(name), *b = newer->tensors->find(name);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(std::memcmp(a->data, b->data, a->bytes), 0);
  }
}

// Gemma 3's tokenizer has a token for images, id 262144, and its smallest models have 262,144 rows.
TEST(ModelConfig, TokensOfGemma3WithoutARowAreLeftOut) {
  auto files = tests::golden_files("gemma3");
  const auto image = R"({"id":264,"content":"<image_soft_token>","single_word":false,"lstrip":false,"rstrip":false,)"
                     R"("normalized":false,"special":true},)";
  replace(files, "tokenizer.json", R"("added_tokens":[)", std::string(R"("added_tokens":[)") + image);
  const auto opened = open_model(memory_source("gemma", files));
  ASSERT_TRUE(opened) << opened.error().what();
  EXPECT_FALSE(opened->tokens->find("<image_soft_token>"));
  EXPECT_EQ(opened->tokens->encode("<image_soft_token>", true).size(), 18U) << "letters";
  auto others = tests::golden_files("llama");
  replace(others, "tokenizer.json", R"("added_tokens":[)", std::string(R"("added_tokens":[)") + image);
  EXPECT_THAT(error_of(others), HasSubstr("has token ids up to 264"));
}

TEST(ModelConfig, MixturesThatCannotBeComputedAreRefused) {
  const auto with = [](const std::string& fields) {
    return error_with(R"("LlamaForCausalLM"],)", R"("Qwen3MoeForCausalLM"], "num_experts": 4, )" + fields);
  };
  EXPECT_THAT(with(R"("num_experts_per_tok": 2,)"), HasSubstr("q_norm")) << "read, but of tensors for another model";
  EXPECT_THAT(with(R"("num_experts_per_tok": 5,)"), HasSubstr("config.json: num_experts_per_tok: "));
  EXPECT_THAT(with(R"("num_experts_per_tok": 0,)"), HasSubstr("config.json: num_experts_per_tok: "));
  EXPECT_THAT(with(R"("num_experts_per_tok": 2, "decoder_sparse_step": 2,)"),
              HasSubstr("config.json: decoder_sparse_step: experts in some layers only"));
  EXPECT_THAT(with(R"("num_experts_per_tok": 2, "mlp_only_layers": [0],)"),
              HasSubstr("config.json: mlp_only_layers: experts in some layers only"));
  EXPECT_THAT(error_with(R"("LlamaForCausalLM"],)", R"("MixtralForCausalLM"], "num_local_experts": 100000,)"),
              HasSubstr("config.json: num_local_experts: "));
  EXPECT_THAT(error_with(R"("LlamaForCausalLM"],)", R"("MixtralForCausalLM"],)"),
              HasSubstr("model.layers.0.block_sparse_moe.gate.weight"))
      << "eight experts, two for each token, where the file says nothing";
}

TEST(ModelConfig, ANewerDtypeFieldIsReadAndAnAbsentOneComesFromTheWeights) {
  auto files = small_model();
  replace(files, "config.json", R"("torch_dtype": "float32")", R"("dtype": "bfloat16")");
  EXPECT_EQ(open_config(files).type, data_type::bf16);
  files = small_model();
  replace(files, "config.json", R"("torch_dtype": "float32",)", "");
  EXPECT_EQ(open_config(files).type, data_type::f32);
}

TEST(ModelConfig, MistralHasAWindowUnlessItIsNull) {
  auto files = small_model();
  replace(files, "config.json", "LlamaForCausalLM", "MistralForCausalLM");
  EXPECT_EQ(open_config(files).sliding_window, 4096U);
  auto none = files;
  replace(none, "config.json", R"("rope_scaling": null)", R"("sliding_window": null)");
  EXPECT_FALSE(open_config(none).sliding_window);
  replace(files, "config.json", R"("rope_scaling": null)", R"("sliding_window": 17)");
  EXPECT_EQ(open_config(files).sliding_window, 17U);
}

TEST(ModelConfig, QwenWithAWindowInSomeLayersIsRefused) {
  EXPECT_THAT(
      error_with(R"("LlamaForCausalLM"],)",
                 R"("Qwen2ForCausalLM"], "use_sliding_window": true, "sliding_window": 32, "max_window_layers": 0,)"),
      HasSubstr("q_proj.bias"));
  auto files = small_model();
  replace(files, "config.json", R"("LlamaForCausalLM"],)",
          R"("Qwen2ForCausalLM"], "use_sliding_window": true, "sliding_window": 32, "max_window_layers": 1,)");
  replace(files, "config.json", R"("num_hidden_layers": 1)", R"("num_hidden_layers": 2)");
  EXPECT_THAT(error_of(files), HasSubstr("config.json: max_window_layers: "));
}

tests::file_map small_qwen3() {
  auto files = small_model();
  replace(files, "config.json", R"("LlamaForCausalLM"],)",
          R"("Qwen3ForCausalLM"], "head_dim": 4, "attention_bias": false, "use_sliding_window": false,
  "sliding_window": null, "max_window_layers": 1,)");
  return files;
}

/// With the norms of its heads, which the small Llama has not.
void add_head_norms(tests::file_map& files) {
  auto& file = files.at("model.safetensors");
  std::size_t length = 0;
  std::memcpy(&length, file.data(), 8);
  std::string header(reinterpret_cast<const char*>(file.data()) + 8, length);
  const auto bytes = file.size() - 8 - length;
  header.pop_back();
  std::size_t at = bytes;
  for (const auto* name : {"q_norm", "k_norm"}) {
    header += ",\"model.layers.0.self_attn." + std::string(name) + R"(.weight":{"dtype":"F32","shape":[4],)" +
              R"("data_offsets":[)" + std::to_string(at) + "," + std::to_string(at + 16) + "]}";
    at += 16;
  }
  file = tests::safetensors_file(header + "}", at);
}

TEST(ModelConfig, Qwen3HasNormedHeadsOfASizeOfTheirOwnAndNoBiases) {
  auto files = small_qwen3();
  add_head_norms(files);
  files["generation_config.json"] = tests::bytes_of_text(
      R"({"eos_token_id": [2, 0], "temperature": 0.6, "top_k": 20, "top_p": 0.95, "do_sample": true})");
  const auto c = open_config(files);
  EXPECT_EQ(c.kind, family::qwen3);
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias || c.output_bias || c.mlp_bias);
  EXPECT_FALSE(c.sliding_window);
  EXPECT_EQ(c.head_size, 4U);
  EXPECT_EQ(c.eos, (std::vector<protocols::token_id>{2, 0}));
  EXPECT_EQ(c.default_top_k, 20);
  EXPECT_FALSE(open_config(small_model()).qk_norm);

  replace(files, "config.json", R"("head_dim": 4,)", "");
  EXPECT_THAT(error_of(files), HasSubstr("[256, 8]")) << "transformers' default, 128: not hidden_size / heads";
}

TEST(ModelConfig, Qwen3WithoutAHeadsNormOrWithBiasesThatAreNotThereIsRefused) {
  auto files = small_qwen3();
  EXPECT_THAT(error_of(files), HasSubstr("\"model.layers.0.self_attn.q_norm.weight\" is missing"));
  add_head_norms(files);
  auto biased = files;
  replace(biased, "config.json", R"("attention_bias": false)", R"("attention_bias": true)");
  EXPECT_THAT(error_of(biased), HasSubstr("\"model.layers.0.self_attn.q_proj.bias\" is missing"));
}

TEST(ModelConfig, Qwen3WithAWindowInSomeLayersIsRefused) {
  auto files = small_qwen3();
  replace(files, "config.json", R"("use_sliding_window": false)", R"("use_sliding_window": true)");
  replace(files, "config.json", R"("sliding_window": null)", R"("sliding_window": 32)");
  replace(files, "config.json", R"("num_hidden_layers": 1)", R"("num_hidden_layers": 2)");
  EXPECT_THAT(error_of(files), HasSubstr("config.json: max_window_layers: "));
}

// What newer files say of each layer counts, not from which layer on.
TEST(ModelConfig, LayerTypesSayWhichLayersHaveAWindow) {
  const auto with = [](const std::string& types, const std::string& window = "32") {
    auto files = small_qwen3();
    add_head_norms(files);
    replace(files, "config.json", R"("use_sliding_window": false)",
            R"("use_sliding_window": true, "layer_types": )" + types);
    replace(files, "config.json", R"("sliding_window": null)", R"("sliding_window": )" + window);
    return files;
  };
  EXPECT_EQ(open_config(with(R"(["sliding_attention"])")).sliding_window, 32U);
  EXPECT_FALSE(open_config(with(R"(["full_attention"])")).sliding_window);
  EXPECT_THAT(error_of(with(R"(["sliding_attention"])", "null")), HasSubstr("layer_types: calls for a sliding window"));
  EXPECT_THAT(error_of(with(R"(["linear_attention"])")), HasSubstr("layer_types: layers that differ"));
  EXPECT_THAT(error_of(with(R"(["full_attention", "sliding_attention"])")),
              HasSubstr("layer_types: has 2 entries for 1"));
  auto mixed = with(R"(["full_attention", "sliding_attention"])");
  replace(mixed, "config.json", R"("num_hidden_layers": 1)", R"("num_hidden_layers": 2)");
  EXPECT_THAT(error_of(mixed), HasSubstr("layer_types: layers that differ"));
}

TEST(ModelConfig, WhatIsNotSupportedIsNamedTogetherWithWhatIs) {
  EXPECT_THAT(error_with("LlamaForCausalLM", "FalconForCausalLM"),
              AllOf(HasSubstr("config.json: architectures: \"FalconForCausalLM\""), HasSubstr("Qwen3ForCausalLM")));
  EXPECT_THAT(error_with(R"("hidden_act": "silu")", R"("hidden_act": "gelu")"), HasSubstr("hidden_act: \"gelu\""));
  EXPECT_THAT(error_with(R"("rope_scaling": null)", R"("rope_scaling": {"rope_type": "longrope", "factor": 4.0})"),
              AllOf(HasSubstr("rope_scaling.rope_type: \"longrope\""), HasSubstr("yarn")));
  EXPECT_THAT(error_with(R"("rope_scaling": null)",
                         R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 1})"),
              HasSubstr("rope_scaling.beta_fast: must be above beta_slow"));
  EXPECT_THAT(error_with(R"("rope_scaling": null)",
                         R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.5})"),
              AllOf(HasSubstr("rope_scaling.attn_factor"), HasSubstr("attention_factor")));
  EXPECT_THAT(error_with(R"("rope_scaling": null)",
                         R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1.0})"),
              HasSubstr("rope_theta above 1"));
  EXPECT_THAT(error_with(R"("rope_scaling": null)", R"("rope_scaling": {"rope_type": "yarn"})"),
              HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(error_with(R"("rope_scaling": null)", R"("quantization_config": {"bits": 4})"),
              HasSubstr("quantization_config"));
  EXPECT_THAT(error_with(R"("torch_dtype": "float32")", R"("torch_dtype": "float8_e4m3fn")"),
              AllOf(HasSubstr("torch_dtype"), HasSubstr("bfloat16")));
  EXPECT_THAT(error_with(R"("rope_scaling": null)", R"("partial_rotary_factor": 0.5)"),
              HasSubstr("partial_rotary_factor"));
}

TEST(ModelConfig, RotationThatContradictsItselfIsRefused) {
  const auto with = [](const std::string& rope) { return error_with(R"("rope_scaling": null)", rope); };
  EXPECT_THAT(with(R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})"),
              HasSubstr("rope_parameters.partial_rotary_factor"));
  EXPECT_THAT(with(R"("rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "linear", "factor": 4.0})"),
              HasSubstr("rope_scaling.type: differs from \"rope_parameters\""));
  EXPECT_EQ(with(R"("rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
                    "rope_scaling": {"type": "linear", "factor": 4.0})"),
            "");
  EXPECT_THAT(with(R"("rope_scaling": {"rope_type": "default", "type": "linear", "factor": 4.0})"),
              HasSubstr("rope_scaling.type: \"linear\" is not what \"rope_type\" says, \"default\""));
}

TEST(ModelConfig, MissingWrongAndAbsurdFieldsAreNamed) {
  EXPECT_THAT(error_with(R"("vocab_size": 260,)", ""), HasSubstr("config.json: vocab_size: is missing"));
  EXPECT_THAT(error_with(R"("vocab_size": 260)", R"("vocab_size": "many")"), HasSubstr("vocab_size: must be"));
  EXPECT_THAT(error_with(R"("vocab_size": 260)", R"("vocab_size": 1e300)"), HasSubstr("vocab_size: must be"));
  EXPECT_THAT(error_with(R"("hidden_size": 8)", R"("hidden_size": 0)"), HasSubstr("hidden_size: must be"));
  EXPECT_THAT(error_with(R"("hidden_size": 8)", R"("hidden_size": -8)"), HasSubstr("hidden_size: must be"));
  EXPECT_THAT(error_with(R"("hidden_size": 8)", R"("hidden_size": 9)"), HasSubstr("num_attention_heads: must divide"));
  EXPECT_THAT(error_with(R"("hidden_size": 8)", R"("hidden_size": 4000000000)"), HasSubstr("hidden_size"));
  EXPECT_THAT(error_with(R"("num_hidden_layers": 1)", R"("num_hidden_layers": 99999)"), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(error_with(R"("num_key_value_heads": 1)", R"("num_key_value_heads": 3)"),
              HasSubstr("num_key_value_heads: must divide"));
  EXPECT_THAT(error_with(R"("num_attention_heads": 2)", R"("num_attention_heads": 8)"), HasSubstr("head_dim"));
  EXPECT_THAT(error_with(R"("rms_norm_eps": 1e-05)", R"("rms_norm_eps": "small")"), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(error_with(R"("tie_word_embeddings": true)", R"("tie_word_embeddings": 1)"),
              HasSubstr("tie_word_embeddings: must be true or false"));
  EXPECT_THAT(error_with(R"("eos_token_id": 2)", R"("eos_token_id": 260)"), HasSubstr("eos_token_id"));
  EXPECT_THAT(error_with(R"(["LlamaForCausalLM"])", "[]"), HasSubstr("architectures"));
  EXPECT_THAT(error_with(R"(["LlamaForCausalLM"])", "[7]"), HasSubstr("architectures"));
}

TEST(ModelConfig, HostileJsonIsRefusedInOneLine) {
  auto files = small_model();
  files["config.json"] = tests::bytes_of_text(std::string(100000, '['));
  EXPECT_THAT(error_of(files), HasSubstr("config.json: is not valid JSON"));
  files["config.json"] = tests::bytes_of_text(std::string(2U << 20U, ' '));
  EXPECT_THAT(error_of(files), HasSubstr("is larger than the limit"));
  files["config.json"] = tests::bytes_of_text("[]");
  EXPECT_THAT(error_of(files), HasSubstr("must be an object"));
  files["config.json"].clear();
  EXPECT_THAT(error_of(files), HasSubstr("config.json: is not valid JSON"));
  EXPECT_THAT(error_with("LlamaForCausalLM", "Lla\\nma\\u001b[31m" + std::string(500, 'x')),
              AllOf(HasSubstr("\"Lla?ma?[31m"), HasSubstr("...")));
}

} // namespace
} // namespace godwit::gpu::model
