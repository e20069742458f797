// GGUF files: what llama.cpp's own library says of them (golden/make_gguf.py), and what is refused.
#include "gpu/model/gguf_files.hpp"
#include "gpu/model/model_files.hpp"

#include "cpu/packing.hpp"
#include "model/coded_matrix.hpp"
#include "model/gguf_blocks.hpp"
#include "model/gguf_model.hpp"
#include "model/tensor_list.hpp"
#include "model/widen.hpp"

#include <godwit/gpu/model/fingerprint.hpp>
#include <godwit/gpu/model/quantize.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

namespace godwit::gpu::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::gguf_builder;
using tests::small_gguf;

protocols::expected<model_directory, model_error> open_built(const gguf_builder& from,
                                                             const std::string& name = "small.gguf") {
  return open_gguf(memory_source("files", {{name, from.build()}}), name);
}
std::string error_of(const gguf_builder& from) {
  const auto opened = open_built(from);
  return opened ? std::string() : opened.error().what();
}
/// Of a file in which one thing has been changed.
std::string error_with(const std::function<void(gguf_builder&)>& change) {
  auto builder = small_gguf();
  change(builder);
  return error_of(builder);
}
std::vector<float> floats_of(const tensor_view& view) {
  std::vector<float> out(view.bytes / bytes_of(view.type));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = widen(view.type, view.data + i * bytes_of(view.type));
  return out;
}

std::filesystem::path goldens() { return std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden/gguf"; }
std::vector<std::byte> bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) throw std::runtime_error(path.string() + " is not there");
  return tests::bytes_of_text(text);
}

// What llama.cpp takes for granted in a file of this architecture, and the golden's logits hold.
TEST(Gguf, Gemma3IsWhatLlamaCppMakesOfItsFile) {
  const auto model = open_model(goldens() / "gemma3-f16/model.gguf");
  ASSERT_TRUE(model) << model.error().what();
  const auto& c = model->configuration;
  EXPECT_EQ(c.kind, family::gemma3);
  EXPECT_EQ(c.sliding_window, 11U);
  EXPECT_EQ(c.windowed, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(c.query_scalar, 16);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.factor, 8);
  EXPECT_EQ(c.positions_max, 512U) << "not longer by the factor";
  ASSERT_TRUE(c.window_rope);
  EXPECT_EQ(c.window_rope->theta, 1e4);
  EXPECT_FALSE(c.norms_less_one) << "the file has the whole";
  EXPECT_TRUE(c.post_norms && c.scaled_embeddings && c.tied_embeddings);
}

TEST(Gguf, GptOssIsWhatLlamaCppMakesOfItsFile) {
  const auto model = open_model(goldens() / "gpt-oss-mxfp4/model.gguf");
  ASSERT_TRUE(model) << model.error().what();
  const auto& c = model->configuration;
  EXPECT_EQ(c.kind, family::gpt_oss);
  EXPECT_EQ(c.sliding_window, 11U);
  EXPECT_EQ(c.windowed, (std::vector<bool>{true, false}));
  EXPECT_EQ(c.intermediate, 64U);
  EXPECT_EQ(c.mixture.experts, 4U);
  EXPECT_EQ(c.mixture.chosen, 2U);
  EXPECT_TRUE(c.mixture.biased && c.sinks && c.qkv_bias && c.output_bias);
  EXPECT_EQ(c.gate_limit, 7);
  EXPECT_EQ(c.rope.scaling, rope_config::scaling_kind::yarn);
  EXPECT_FALSE(c.rope.whole_pairs) << "as it was trained, whatever llama.cpp does";
  EXPECT_EQ(c.positions_max, 512U);
  // Biases of experts are F32 in two dimensions, and no matrices.
  EXPECT_EQ(open_model(goldens() / "gpt-oss-f16/model.gguf")->configuration.type, data_type::f16);
}

TEST(GgufRefuses, GptOssWithoutATensorThatItNeeds) {
  const auto with = [](const std::string& from, const std::string& to) {
    tests::file_map files;
    std::ifstream in(goldens() / "gpt-oss-mxfp4/model.gguf", std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    files["model.gguf"] = tests::bytes_of_text(text);
    const auto opened = open_gguf(memory_source("m", std::move(files)), "model.gguf");
    return opened ? std::string() : std::string(opened.error().what());
  };
  EXPECT_EQ(with("gpt-oss.context_length", "gpt-oss.context_length"), "");
  EXPECT_THAT(with("blk.1.attn_sinks.weight", "blk.1.attn_sinkx.weight"), HasSubstr("\"blk.1.attn_sinks.weight\""));
  EXPECT_THAT(with("blk.0.ffn_up_exps.bias", "blk.0.ffn_xp_exps.bias"), HasSubstr("\"blk.0.ffn_up_exps.bias\""));
  EXPECT_THAT(with("blk.1.ffn_gate_inp.bias", "blk.1.ffn_gate_imp.bias"), HasSubstr("\"blk.1.ffn_gate_inp.bias\""));
}

TEST(Gguf, AModelIsWhatItsFileSays) {
  const auto model = open_built(small_gguf());
  ASSERT_TRUE(model) << model.error().what();
  EXPECT_EQ(model->name, "small");
  const auto& c = model->configuration;
  EXPECT_EQ(c.kind, family::llama);
  EXPECT_EQ(c.vocabulary, 259U);
  EXPECT_EQ(c.hidden, 8U);
  EXPECT_EQ(c.intermediate, 12U);
  EXPECT_EQ(c.heads, 2U);
  EXPECT_EQ(c.kv_heads, 1U);
  EXPECT_EQ(c.head_size, 4U);
  EXPECT_EQ(c.positions_max, 64U);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.type, data_type::f32);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_EQ(c.bos, 0);
  EXPECT_THAT(c.eos, ::testing::UnorderedElementsAre(0, 2)) << "<|im_end|> ends a turn, as llama.cpp has it";
  EXPECT_EQ(model->tokens->encode("a<|im_end|>", true), (std::vector<protocols::token_id>{3 + 'a', 2}));
  EXPECT_EQ(quantization_in_words(*model), "");
}

// llama.cpp turns pairs of neighbours, so its rows take turns between the halves of a head.
TEST(Gguf, QueriesAndKeysHaveTheOrderOfHuggingFace) {
  auto builder = small_gguf();
  const auto model = open_built(builder);
  ASSERT_TRUE(model);
  float first = 0;
  std::memcpy(&first, builder.find("blk.0.attn_q.weight").bytes.data(), sizeof first);
  const auto values = floats_of(*model->tensors->find("model.layers.0.self_attn.q_proj.weight"));
  // Two heads of four rows: 0, 2, 1, 3.
  for (const auto& [row, from] : {std::pair{0, 0}, {1, 2}, {2, 1}, {3, 3}, {4, 4}, {5, 6}, {6, 5}, {7, 7}})
    for (int column = 0; column < 8; ++column)
      EXPECT_EQ(values[static_cast<std::size_t>(row * 8 + column)], first + static_cast<float>(from * 8 + column));
  const auto other = floats_of(*model->tensors->find("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_EQ(other[8], other[0] + 8) << "values do not turn";
}

/// The default model, which is a Llama in bf16, as llama.cpp's converter would have it.
gguf_builder as_gguf(const model_directory& from) {
  const auto& c = from.configuration;
  gguf_builder out = small_gguf();
  out.tensors.clear();
  tests::put_sizes(out, c);
  const auto file = bytes_of_file(goldens() / "texts/gpt-2.gguf"); // has its tokenizer
  const gguf_file words(file, "gpt-2.gguf");
  const auto texts = [&](const char* key) {
    const auto read = words.texts(key).value();
    return std::vector<std::string>(read.begin(), read.end());
  };
  out.put_texts("tokenizer.ggml.tokens", texts("tokenizer.ggml.tokens"));
  out.put_texts("tokenizer.ggml.merges", texts("tokenizer.ggml.merges"));
  const auto kinds = words.numbers("tokenizer.ggml.token_type").value();
  out.put_i32s("tokenizer.ggml.token_type", {kinds.begin(), kinds.end()});
  const std::vector<std::pair<std::string, std::string>> names{
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  const auto add = [&](const std::string& name, const std::string& to) {
    const auto& view = *from.tensors->find(name);
    gguf_builder::tensor one{to, view.shape.size() == 1 ? 0U : 30U, view.shape, {view.data, view.data + view.bytes}, 0};
    if (view.shape.size() == 1) { // norms are F32
      const auto wide = floats_of(view);
      const auto bytes = std::as_bytes(std::span(wide));
      one.bytes.assign(bytes.begin(), bytes.end());
    }
    if (to.find("attn_q") != std::string::npos || to.find("attn_k") != std::string::npos) {
      const auto row = view.bytes / view.shape[0], head = std::uint64_t{c.head_size}, half = head / 2;
      for (std::uint64_t r = 0; r < view.shape[0]; ++r) {
        const auto turned = r / head * head + r % half * 2 + r % head / half;
        std::memcpy(one.bytes.data() + turned * row, view.data + r * row, row);
      }
    }
    out.tensors.push_back(std::move(one));
  };
  add("model.embed_tokens.weight", "token_embd.weight");
  add("model.norm.weight", "output_norm.weight");
  for (std::uint32_t i = 0; i < c.layers; ++i)
    for (const auto& [name, to] : names)
      add("model.layers." + std::to_string(i) + "." + name + ".weight",
          "blk." + std::to_string(i) + "." + to + ".weight");
  return out;
}

TEST(Gguf, AModelIsTheSameInEitherFormat) {
  const auto files = embedded_model();
  if (!files) GTEST_SKIP() << "built without the embedded model";
  const auto one = open_model(files);
  ASSERT_TRUE(one);
  const auto other = open_built(as_gguf(*one));
  ASSERT_TRUE(other) << other.error().what();
  EXPECT_EQ(other->configuration.type, data_type::bf16);
  for (const auto& need : tensors_of(one->configuration)) {
    const auto& a = *one->tensors->find(need.name);
    const auto* b = other->tensors->find(need.name);
    ASSERT_NE(b, nullptr) << need.name;
    EXPECT_EQ(floats_of(a), floats_of(*b)) << need.name;
  }
  for (const auto* text : {"Once upon a time, don't stop 12345 now!", " \n\n  x\t\xE4\xB8\x96"})
    EXPECT_EQ(one->tokens->encode(text, false), other->tokens->encode(text, false));
}

/// The configuration of a file in which one thing has been changed.
config config_with(const std::function<void(gguf_builder&)>& change) {
  auto builder = small_gguf();
  change(builder);
  const auto model = open_built(builder);
  if (!model) throw model_error(model.error());
  return model->configuration;
}

TEST(Gguf, AFactorOfRotationIsLinearUnlessTheFileSaysOtherwise) {
  using scaling_kind = rope_config::scaling_kind;
  for (const auto* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const auto c = config_with([&](auto& b) { b.put_f32(key, 4); });
    EXPECT_EQ(c.rope.scaling, scaling_kind::linear) << key;
    EXPECT_EQ(c.rope.factor, 4.0) << key;
    EXPECT_EQ(config_with([&](auto& b) { b.put_f32(key, 0); }).rope.scaling, scaling_kind::none) << key;
    EXPECT_EQ(config_with([&](auto& b) { b.put_f32(key, 1); }).rope.scaling, scaling_kind::none) << key;
  }
  EXPECT_EQ(config_with([&](auto& b) {
              b.put_f32("llama.rope.scaling.factor", 4);
              b.put_text("llama.rope.scaling.type", "none");
            }).rope.scaling,
            scaling_kind::none);
}

TEST(Gguf, AnswersEndAtWhateverLlamaCppEndsThemAt) {
  const auto ends = [](const std::vector<std::pair<std::string, std::int32_t>>& more) {
    return config_with([&](auto& b) {
             auto tokens = tests::small_gguf_tokens();
             for (const auto& [text, kind] : more) {
               tokens.texts.push_back(text);
               tokens.kinds.push_back(kind);
             }
             b.put_texts("tokenizer.ggml.tokens", tokens.texts);
             b.put_i32s("tokenizer.ggml.token_type", tokens.kinds);
             auto& table = b.find("token_embd.weight");
             table.shape[0] = tokens.texts.size();
             table.bytes.resize(tokens.texts.size() * 8 * sizeof(float));
           })
        .eos;
  };
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(ends({{"<|eot_id|>", 1}, {"<end_of_turn>", 4}, {"<eos>", 3}, {"plain", 3}}),
              UnorderedElementsAre(0, 2, 259, 260, 261))
      << "whatever kind they are said to be";
  EXPECT_THAT(ends({{"<|end|>", 3}, {"<|call|>", 3}}), UnorderedElementsAre(0, 2, 259, 260));
  EXPECT_THAT(ends({{"<|end|>", 3}, {"<|call|>", 3}, {"<|return|>", 3}}), UnorderedElementsAre(0, 2, 260, 261));
}

TEST(Gguf, WhatItRecommendsForRequestsIsTaken) {
  const auto c = config_with([](auto& b) {
    b.put_f32("general.sampling.temp", 0.5F);
    b.put_u32("general.sampling.top_k", 7);
    b.put_f32("general.sampling.top_p", 1.0F);
    b.put_f32("general.sampling.min_p", 0.25F);
    b.put_f32("general.sampling.penalty_repeat", 1.5F);
  });
  EXPECT_EQ(c.default_temperature, 0.5F);
  EXPECT_EQ(c.default_top_k, 7);
  EXPECT_EQ(c.default_top_p, 1.0F);
  EXPECT_EQ(c.default_min_p, 0.25F);
  EXPECT_EQ(c.default_repetition_penalty, 1.5F);
  EXPECT_EQ(config_with([](auto&) {}).default_temperature, std::nullopt);
  EXPECT_THAT(error_with([](auto& b) { b.put_f32("general.sampling.top_p", 2); }), HasSubstr("top_p"));
}

TEST(Gguf, IdsBeyondTheVocabularyAndMergesOfNoTokenAreLeftAside) {
  const auto c = config_with([](auto& b) {
    b.put_u32("tokenizer.ggml.bos_token_id", 0xFFFFFFFFU);
    b.put_u32("tokenizer.ggml.eos_token_id", 5000);
    b.put_texts("tokenizer.ggml.merges", {"a zzz", "zz z"});
  });
  EXPECT_EQ(c.bos, std::nullopt);
  EXPECT_THAT(c.eos, ::testing::UnorderedElementsAre(0, 2));
}

// As which nothing is rounded but routers, which have been of 16 bits before.
TEST(Gguf, MatricesAreOfTheTypeThatAllOfThemHave) {
  const auto type = [](std::uint32_t queries, std::uint32_t others) {
    return config_with([&](auto& b) {
             for (auto& one : b.tensors) {
               if (one.shape.size() < 2) continue;
               one.type = one.name.find("attn_q") != std::string::npos ? queries : others;
               if (one.type != 0) one.bytes.resize(one.bytes.size() / 2);
             }
           })
        .type;
  };
  EXPECT_EQ(type(0, 0), data_type::f32);
  EXPECT_EQ(type(1, 1), data_type::f16);
  EXPECT_EQ(type(30, 30), data_type::bf16);
  EXPECT_EQ(type(1, 30), data_type::f32);
  EXPECT_EQ(type(30, 1), data_type::f32);
  EXPECT_EQ(type(1, 0), data_type::f32);
}

TEST(Gguf, ChatTemplatesAndSpecialTokensAreTaken) {
  auto builder = small_gguf();
  builder.put_text("tokenizer.chat_template", "{{ messages[0].content }}");
  auto model = open_built(builder);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->chat_template, "{{ messages[0].content }}");
  EXPECT_EQ(model->tool_template, std::nullopt);
  builder.put_text("tokenizer.chat_template.tool_use", "{{ tools }}");
  model = open_built(builder);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tool_template, "{{ tools }}");
  EXPECT_THAT(model->special_tokens, ::testing::Contains(::testing::Pair("eos_token", "<|endoftext|>")));
}

TEST(Gguf, TwoFilesWithOtherWeightsAreOtherModels) {
  const auto print = [](const gguf_builder& of) {
    const auto model = open_built(of);
    return fingerprint(model->configuration, *model->tensors);
  };
  auto other = small_gguf();
  EXPECT_EQ(print(other), print(small_gguf()));
  other.find("blk.0.ffn_up.weight").bytes[0] ^= std::byte{1};
  EXPECT_NE(print(other), print(small_gguf()));
}

// What is refused.

TEST(GgufRefuses, WhatIsNoSuchFile) {
  const auto error = [](std::vector<std::byte> bytes) {
    const auto opened = open_gguf(memory_source("files", {{"a.gguf", std::move(bytes)}}), "a.gguf");
    return opened ? std::string() : std::string(opened.error().what());
  };
  EXPECT_THAT(error({}), HasSubstr("a.gguf: is no GGUF file"));
  EXPECT_THAT(error(tests::bytes_of_text("GGUF")), HasSubstr("truncated"));
  EXPECT_THAT(error(tests::bytes_of_text("PK\x03\x04 and so on")), HasSubstr("is no GGUF file"));
  EXPECT_THAT(error_with([](auto& b) { b.version = 1; }), HasSubstr("of version 1 of GGUF; supported: 2 and 3"));
  EXPECT_THAT(error_with([](auto& b) { b.version = 0x03000000; }), HasSubstr("big-endian"));
  EXPECT_THAT(error_with([](auto& b) { b.keys_more = std::uint64_t{1} << 40U; }), HasSubstr("at most"));
  EXPECT_NE(error_with([](auto& b) { b.keys_more = 1; }), "");
}

TEST(GgufRefuses, AnyFileThatEndsTooEarly) {
  const auto whole = small_gguf().build();
  // Behind the last tensor there may be padding.
  for (std::size_t size = 4; size + 64 < whole.size(); size += 1 + size / 50) {
    std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto opened = open_gguf(memory_source("files", {{"a.gguf", part}}), "a.gguf");
    ASSERT_FALSE(opened) << size;
    EXPECT_THAT(opened.error().what(), HasSubstr("beyond the end of the file")) << size;
  }
}

TEST(GgufRefuses, ModelsOfAnotherArchitecture) {
  EXPECT_THAT(
      error_with([](auto& b) { b.put_text("general.architecture", "gemma2"); }),
      AllOf(HasSubstr("\"general.architecture\" is \"gemma2\", which is not supported"), HasSubstr("\"qwen3moe\"")));
  EXPECT_THAT(error_with([](auto& b) { b.remove("general.architecture"); }),
              HasSubstr("has no \"general.architecture\""));
  EXPECT_THAT(error_with([](auto& b) { b.put_text("general.type", "adapter"); }), HasSubstr("is \"adapter\""));
  EXPECT_THAT(error_with([](auto& b) { b.put_flag("llama.attention.causal", false); }), HasSubstr("embeddings"));
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("llama.pooling_type", 1); }), HasSubstr("embeddings"));
  EXPECT_THAT(error_with([](auto& b) { b.put_f32("llama.rope.scaling.attn_factor", 1.5F); }), HasSubstr("attn_factor"));
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("llama.rope.dimension_count", 2); }), HasSubstr("rotating part"));
  EXPECT_THAT(error_with([](auto& b) { b.put_text("llama.rope.scaling.type", "longrope"); }), HasSubstr("longrope"));
  EXPECT_THAT(error_with([](auto& b) {
                b.put_i32s("llama.feed_forward_length", {12, 13});
              }),
              HasSubstr("differs from layer to layer"));
  EXPECT_EQ(error_with([](auto& b) { b.put_i32s("llama.feed_forward_length", {12}); }), "");
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("llama.expert_count", 4); }), HasSubstr("expert_used_count"));
}

TEST(GgufRefuses, KeysThatMakeNoSense) {
  EXPECT_THAT(error_with([](auto& b) { b.remove("llama.block_count"); }),
              HasSubstr("\"llama.block_count\" is missing"));
  EXPECT_THAT(error_with([](auto& b) { b.put_text("llama.block_count", "1"); }), HasSubstr("must be an integer"));
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("llama.block_count", 0); }), HasSubstr("must be at least 1"));
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("llama.block_count", 1U << 30U); }), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(error_with([](auto& b) { b.put_u32("general.alignment", 24); }), HasSubstr("power of two"));
  EXPECT_THAT(error_with([](auto& b) { b.put_f32("llama.rope.freq_base", -1); }), HasSubstr("rope_theta"));
  EXPECT_THAT(error_with([](auto& b) { b.put_raw("some.key", 77, {}); }), HasSubstr("of type 77"));
  EXPECT_THAT(error_with([](auto& b) {
                std::vector<std::byte> array(12); // of arrays
                array[0] = std::byte{9};
                b.put_raw("some.key", 9, array);
              }),
              HasSubstr("array of type 9"));
  EXPECT_THAT(error_with([](auto& b) {
                std::vector<std::byte> array(12, std::byte{0xFF}); // of so many floats
                array[0] = std::byte{6}, array[1] = array[2] = array[3] = std::byte{0};
                b.put_raw("some.key", 9, array);
              }),
              HasSubstr("too long an array"));
  EXPECT_THAT(error_with([](auto& b) {
                std::vector<std::byte> array(12, std::byte{0x7F}); // of so many texts
                array[0] = std::byte{8}, array[1] = array[2] = array[3] = std::byte{0};
                b.put_raw("some.key", 9, array);
              }),
              HasSubstr("beyond the end"));
}

TEST(GgufRefuses, TensorsThatDoNotGoWithTheKeys) {
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.attn_q.weight").name = "blk.0.attn_x.weight"; }),
              HasSubstr("has no tensor \"blk.0.attn_q.weight\""));
  EXPECT_THAT(error_with([](auto& b) {
                b.find("blk.0.attn_q.weight").shape = {4, 8};
              }),
              HasSubstr("\"blk.0.attn_q.weight\" has the shape [4, 8]; its rows and columns should be [8, 8]"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.attn_q.weight").shape = {8, 4}; }), HasSubstr("has the shape"));
  EXPECT_THAT(error_with([](auto& b) { b.find("output_norm.weight").shape = {2, 4}; }), HasSubstr("has the shape"));
  EXPECT_THAT(error_with([](auto& b) { b.find("output_norm.weight").shape = {}; }), HasSubstr("has the shape []"));
  EXPECT_THAT(error_with([](auto& b) {
                b.tensors.push_back({"blk.0.attn_sinks.weight", 0, {1}, std::vector<std::byte>(4), 0});
              }),
              HasSubstr("\"blk.0.attn_sinks.weight\" is a tensor that such a model"));
  EXPECT_THAT(error_with([](auto& b) { b.tensors.push_back(b.tensors.front()); }), HasSubstr("is there twice"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.attn_q.weight").type = 19; }),
              HasSubstr("is of type IQ1_S, which is not supported"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.attn_q.weight").type = 8; }),
              HasSubstr("no multiple of 32 as Q8_0"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.attn_q.weight").misplaced = 4; }), HasSubstr("general.alignment"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.ffn_down.weight").misplaced = 1U << 20U; }),
              HasSubstr("beyond the end"));
  EXPECT_THAT(error_with([](auto& b) { b.find("blk.0.ffn_down.weight").misplaced = ~std::uint64_t{0} << 20U; }),
              HasSubstr("beyond the end"));
  EXPECT_THAT(error_with([](auto& b) {
                b.find("blk.0.ffn_down.weight").shape = {1ULL << 40U, 1ULL << 40U};
              }),
              HasSubstr("overflows"));
  EXPECT_THAT(error_with([](auto& b) {
                b.find("blk.0.ffn_down.weight").shape = {1, 1, 1, 1, 96};
              }),
              HasSubstr("more than 4 dimensions"));
}

TEST(GgufRefuses, TextsThatAreNoUtf8) {
  EXPECT_THAT(error_with([](auto& b) { b.put_text("tokenizer.chat_template", "\xFF{{ x }}"); }),
              HasSubstr("\"tokenizer.chat_template\" is not UTF-8"));
  EXPECT_THAT(error_with([](auto& b) {
                auto tokens = tests::small_gguf_tokens().texts;
                tokens[7] = "\xFFx";
                b.put_texts("tokenizer.ggml.tokens", tokens);
              }),
              HasSubstr("as token 7, which is not UTF-8"));
}

TEST(GgufRefuses, TokenizersThatWouldCutTextsInAnotherWay) {
  EXPECT_THAT(error_with([](auto& b) { b.put_text("tokenizer.ggml.pre", "exaone"); }),
              AllOf(HasSubstr("\"tokenizer.ggml.pre\" is \"exaone\""), HasSubstr("\"qwen2\"")));
  EXPECT_THAT(error_with([](auto& b) { b.remove("tokenizer.ggml.pre"); }), HasSubstr("is missing"));
  EXPECT_THAT(error_with([](auto& b) { b.put_text("tokenizer.ggml.model", "bert"); }), HasSubstr("is \"bert\""));
  EXPECT_THAT(error_with([](auto& b) { b.remove("tokenizer.ggml.tokens"); }),
              HasSubstr("has no \"tokenizer.ggml.tokens\""));
  EXPECT_THAT(error_with([](auto& b) { b.remove("tokenizer.ggml.merges"); }),
              HasSubstr("has no \"tokenizer.ggml.merges\""));
  EXPECT_THAT(error_with([](auto& b) { b.put_i32s("tokenizer.ggml.token_type", {1}); }), HasSubstr("as many entries"));
  EXPECT_THAT(error_with([](auto& b) { b.put_texts("tokenizer.ggml.merges", {"one"}); }),
              HasSubstr("read as tokenizer.json"));
  EXPECT_THAT(error_with([](auto& b) {
                b.put_flag("tokenizer.ggml.add_bos_token", true);
                b.put_u32("tokenizer.ggml.bos_token_id", 5000);
              }),
              HasSubstr("bos_token_id"));
  EXPECT_THAT(error_with([](auto& b) {
                auto tokens = tests::small_gguf_tokens().texts;
                tokens[7] = tokens[8];
                b.put_texts("tokenizer.ggml.tokens", tokens);
              }),
              HasSubstr("as token 7 and as token 8"));
  EXPECT_THAT(error_with([](auto& b) {
                b.put_text("tokenizer.ggml.model", "llama");
                b.remove("tokenizer.ggml.pre");
              }),
              HasSubstr("tokenizer.ggml.scores"));
}

// Where the files are.

void write(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST(GgufFiles, AreOpenedByThemselvesOrAsTheOnlyOneOfADirectory) {
  const tests::scratch_directory scratch("gguf-files");
  const auto file = scratch.path() / "small-q8.gguf";
  write(file, small_gguf().build());
  for (const auto& path : {file, scratch.path()}) {
    const auto model = open_model(path);
    ASSERT_TRUE(model) << model.error().what();
    EXPECT_EQ(model->name, "small-q8");
    EXPECT_EQ(model->path, path.string());
  }
  write(scratch.path() / "config.json", tests::bytes_of_text("{}")); // of what it has been made of
  EXPECT_TRUE(open_model(scratch.path()));
  write(scratch.path() / "mmproj-small.gguf", small_gguf().build()); // of pictures, beside a model
  EXPECT_TRUE(open_model(scratch.path()));
  write(scratch.path() / "other.gguf", small_gguf().build());
  const auto two = open_model(scratch.path());
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().what(), AllOf(HasSubstr("2 models in GGUF files"), HasSubstr("other.gguf")));
  EXPECT_THAT(open_model(scratch.path() / "none.gguf").error().what(),
              HasSubstr("is not there; a model is a Hugging Face model directory or a GGUF file"));
}

/// The tensors of a model in two files.
std::pair<gguf_builder, gguf_builder> in_two_files() {
  auto first = small_gguf();
  gguf_builder second;
  for (std::uint32_t part = 0; part < 2; ++part) {
    auto& one = part == 0 ? first : second;
    one.put_u32("split.no", part);
    one.put_u32("split.count", 2);
  }
  second.tensors = {first.tensors.begin() + 4, first.tensors.end()};
  first.tensors.resize(4);
  return {first, second};
}

TEST(GgufFiles, AModelInSeveralIsOpenedByTheFirst) {
  const auto [first, second] = in_two_files();
  const auto error = [](std::map<std::string, std::vector<std::byte>, std::less<>> files,
                        const std::string& name = "m-00001-of-00002.gguf") {
    const auto opened = open_gguf(memory_source("files", std::move(files)), name);
    return opened ? opened->name : std::string(opened.error().what());
  };
  EXPECT_EQ(error({{"m-00001-of-00002.gguf", first.build()}, {"m-00002-of-00002.gguf", second.build()}}), "m");
  EXPECT_THAT(error({{"m-00001-of-00002.gguf", first.build()}}), HasSubstr("\"m-00002-of-00002.gguf\": is not there"));
  EXPECT_THAT(error({{"m-00001-of-00002.gguf", first.build()}, {"m-00002-of-00002.gguf", first.build()}}),
              HasSubstr("split.no"));
  EXPECT_THAT(error({{"m-00002-of-00002.gguf", second.build()}}, "m-00002-of-00002.gguf"),
              HasSubstr("give the first, \"m-00001-of-00002.gguf\""));
  EXPECT_THAT(error({{"m.gguf", first.build()}}, "m.gguf"),
              HasSubstr("whose names should end in \"-00001-of-00002.gguf\""));
  auto again = second;
  again.tensors.push_back(first.tensors.front());
  EXPECT_THAT(error({{"m-00001-of-00002.gguf", first.build()}, {"m-00002-of-00002.gguf", again.build()}}),
              HasSubstr("is also in m-00001"));
}

// What ggml says.

class GgufBlocks : public ::testing::TestWithParam<std::pair<const char*, std::uint32_t>> {};

TEST_P(GgufBlocks, MeanWhatGgmlSays) {
  const auto [name, type] = GetParam();
  constexpr std::uint64_t rows = 6, columns = 256;
  const auto file = bytes_of_file(goldens() / "blocks" / (std::string(name) + ".bin"));
  const auto block = block_of(type);
  ASSERT_TRUE(block);
  EXPECT_EQ(block->name, name);
  const auto size = rows * columns / block->values * block->bytes;
  ASSERT_EQ(file.size(), size + rows * columns * sizeof(float));
  std::vector<float> expected(rows * columns);
  std::memcpy(expected.data(), file.data() + size, expected.size() * sizeof(float));
  const auto bytes = std::span(file).first(size);
  std::vector<float> values(columns);
  const auto matrix = make_gguf_matrix(type, rows, columns, bytes);
  ASSERT_EQ(matrix == nullptr, plain_type_of(type).has_value());
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::vector<float> of_row(expected.begin() + static_cast<std::ptrdiff_t>(row * columns),
                                    expected.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
    if (matrix)
      matrix->values(row, 0, values);
    else
      for (std::uint64_t i = 0; i < columns; ++i)
        values[i] = widen(*plain_type_of(type), bytes.data() + (row * columns + i) * block->bytes);
    EXPECT_EQ(values, of_row) << "row " << row;
    if (matrix == nullptr) continue;
    std::vector<float> some(57); // from the middle of a block into the next
    matrix->values(row, 123, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), of_row.begin() + 123));
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachType, GgufBlocks,
                         ::testing::Values(std::pair{"F32", 0U}, std::pair{"F16", 1U}, std::pair{"Q4_0", 2U},
                                           std::pair{"Q4_1", 3U}, std::pair{"Q5_0", 6U}, std::pair{"Q5_1", 7U},
                                           std::pair{"Q8_0", 8U}, std::pair{"Q2_K", 10U}, std::pair{"Q3_K", 11U},
                                           std::pair{"Q4_K", 12U}, std::pair{"Q5_K", 13U}, std::pair{"Q6_K", 14U},
                                           std::pair{"IQ4_NL", 20U}, std::pair{"IQ4_XS", 23U}, std::pair{"BF16", 30U},
                                           std::pair{"MXFP4", 39U}),
                         [](const auto& each) { return std::string(each.param.first); });

/// Texts and the ids that llama.cpp gives to them.
class GgufTexts : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufTexts, BecomeTheIdsThatLlamaCppGivesThem) {
  const std::string name = GetParam();
  const bool pieces = name.starts_with("sentencepiece");
  // Those by bytes have one vocabulary, and differ in how texts are cut.
  auto bytes = bytes_of_file(goldens() / "texts" / ((pieces ? name : std::string("gpt-2")) + ".gguf"));
  if (!pieces) {
    const gguf_file file(bytes, "gpt-2.gguf");
    auto builder = small_gguf();
    const auto owned = [&](const char* key) {
      const auto texts = file.texts(key).value();
      return std::vector<std::string>(texts.begin(), texts.end());
    };
    const auto tokens = owned("tokenizer.ggml.tokens");
    builder.put_texts("tokenizer.ggml.tokens", tokens);
    builder.put_texts("tokenizer.ggml.merges", owned("tokenizer.ggml.merges"));
    const auto kinds = file.numbers("tokenizer.ggml.token_type").value();
    builder.put_i32s("tokenizer.ggml.token_type", std::vector<std::int32_t>(kinds.begin(), kinds.end()));
    builder.put_text("tokenizer.ggml.pre", name);
    auto& table = builder.find("token_embd.weight");
    table.shape[0] = tokens.size();
    table.bytes.resize(tokens.size() * 8 * sizeof(float));
    bytes = builder.build();
  }
  const auto model = open_gguf(memory_source("files", {{"m.gguf", bytes}}), "m.gguf");
  ASSERT_TRUE(model) << model.error().what();
  const auto text = bytes_of_file(goldens() / "texts" / (name + ".txt"));
  // A line for each text, in hexadecimal digits, then the ids.
  std::istringstream lines(tests::text_of_bytes(text));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream words(line);
    std::string digits;
    bool special = false;
    words >> special >> digits;
    std::string said;
    for (std::size_t i = 1; i + 1 < digits.size(); i += 2) // behind an x, so that an empty one is a word
      said += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    std::vector<protocols::token_id> expected;
    for (protocols::token_id id = 0; words >> id;) expected.push_back(id);
    if (name == "qwen2" && said.find("\xCC\x81") != std::string::npos)
      continue; // composed by Qwen's own, not by llama.cpp
    auto ids = model->tokens->prefix();
    const auto own = model->tokens->encode(said, special);
    ids.insert(ids.end(), own.begin(), own.end());
    EXPECT_EQ(ids, expected) << ::testing::PrintToString(said);
    if (!special) {
      EXPECT_EQ(model->tokens->decode(own, false), said);
    }
  }
  EXPECT_EQ(count, 14U);
}

INSTANTIATE_TEST_SUITE_P(OfEachTokenizer, GgufTexts,
                         ::testing::Values("gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o", "tekken", "sentencepiece",
                                           "sentencepiece-bare", "sentencepiece-usual", "sentencepiece-phi3"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace godwit::gpu::model
