#include "gpu/model/model_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

namespace godwit::gpu::model {
namespace {

std::vector<float> values_of(const tensor_view& tensor) {
  std::vector<float> values(tensor.bytes / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, tensor.data + 2 * i, 2);
    const std::uint32_t bits = std::uint32_t{half} << 16U;
    std::memcpy(&values[i], &bits, 4);
  }
  return values;
}

double deviation_of(const std::vector<float>& values) {
  double sum = 0.0, squares = 0.0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * sum / n);
}

bool same(const config& a, const config& b) {
  return a.kind == b.kind && a.architecture == b.architecture && a.vocabulary == b.vocabulary && a.hidden == b.hidden &&
         a.intermediate == b.intermediate && a.layers == b.layers && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_size == b.head_size && a.positions_max == b.positions_max && a.rms_norm_epsilon == b.rms_norm_epsilon &&
         a.rope.theta == b.rope.theta && a.rope.scaling == b.rope.scaling && a.rope.factor == b.rope.factor &&
         a.rope.low_frequency_factor == b.rope.low_frequency_factor &&
         a.rope.high_frequency_factor == b.rope.high_frequency_factor &&
         ((a.rope.scaling != rope_config::scaling_kind::llama3 && a.rope.scaling != rope_config::scaling_kind::yarn) ||
          a.rope.original_positions == b.rope.original_positions) &&
         a.rope.fast_rotations == b.rope.fast_rotations && a.rope.slow_rotations == b.rope.slow_rotations &&
         a.rope.whole_pairs == b.rope.whole_pairs && a.rope.attention_factor == b.rope.attention_factor &&
         a.tied_embeddings == b.tied_embeddings && a.qkv_bias == b.qkv_bias && a.qk_norm == b.qk_norm &&
         a.output_bias == b.output_bias && a.mlp_bias == b.mlp_bias && a.sliding_window == b.sliding_window &&
         a.gate == b.gate && a.scaled_embeddings == b.scaled_embeddings && a.norms_less_one == b.norms_less_one &&
         a.post_norms == b.post_norms && a.query_scalar == b.query_scalar && a.windowed == b.windowed &&
         a.window_rope.has_value() == b.window_rope.has_value() &&
         (!a.window_rope || a.window_rope->theta == b.window_rope->theta) && a.mixture.experts == b.mixture.experts &&
         a.mixture.chosen == b.mixture.chosen && a.mixture.normed == b.mixture.normed &&
         a.mixture.biased == b.mixture.biased && a.sinks == b.sinks && a.gate_limit == b.gate_limit &&
         a.gate_slope == b.gate_slope && a.type == b.type && a.bos == b.bos && a.eos == b.eos &&
         a.default_temperature == b.default_temperature;
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RandomModel, EveryTinyOneIsADirectoryThatOpensAsItWasMeant) {
  for (const auto* name : {"tiny", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3", "tiny-yarn",
                           "tiny-mixtral", "tiny-qwen3-moe", "tiny-gemma3", "tiny-gpt-oss"}) {
    const tests::scratch_directory directory(name);
    const auto written = write_random_model(name, directory.path(), 7);
    ASSERT_TRUE(written) << written.error().what();
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) bytes += entry.file_size();
    EXPECT_EQ(*written, bytes);

    const auto opened = open_model(directory.path());
    ASSERT_TRUE(opened) << opened.error().what();
    EXPECT_TRUE(same(opened->configuration, find_random_model(name)->configuration)) << name;
    EXPECT_EQ(opened->tokens->size(), opened->configuration.vocabulary);
    EXPECT_TRUE(opened->chat_template);
    EXPECT_EQ(opened->name, directory.path().filename().string());

    const auto memory = random_model(name, 7);
    EXPECT_EQ(memory.tensors->total_bytes(), opened->tensors->total_bytes());
    for (const auto* tensor :
         {"model.embed_tokens.weight", "model.layers.1.self_attn.o_proj.weight", "model.norm.weight"}) {
      const auto* a = opened->tensors->find(tensor);
      const auto* b = memory.tensors->find(tensor);
      ASSERT_TRUE(a && b);
      EXPECT_EQ(a->shape, b->shape);
      ASSERT_EQ(a->bytes, b->bytes);
      EXPECT_EQ(std::memcmp(a->data, b->data, a->bytes), 0) << tensor;
    }
  }
}

// Whose files have all experts of a layer in one tensor, in another order.
TEST(RandomModel, ExpertsOfFilesThatHaveThemJoinedAreThoseThatWereMeant) {
  const tests::scratch_directory directory("joined");
  ASSERT_TRUE(write_random_model("tiny-gpt-oss", directory.path(), 7));
  const auto opened = open_model(directory.path());
  ASSERT_TRUE(opened) << opened.error().what();
  EXPECT_EQ(opened->tensors->find("model.layers.1.mlp.experts.gate_up_proj")->shape,
            (std::vector<std::uint64_t>{8, 64, 192}));
  const auto memory = random_model("tiny-gpt-oss", 7);
  for (const std::string expert : {"0", "7"})
    for (const std::string part : {"gate", "up", "down"})
      for (const auto* ending : {".weight", ".bias"}) {
        const auto name = "model.layers.1.mlp.experts." + expert + "." + part + "_proj" + ending;
        const auto *a = opened->tensors->find(name), *b = memory.tensors->find(name);
        ASSERT_TRUE(a && b) << name;
        ASSERT_EQ(a->shape, b->shape) << name;
        const auto columns = a->shape.back();
        for (std::uint64_t row = 0; row < a->bytes / 2 / columns; ++row)
          for (std::uint64_t column = 0; column < columns; ++column)
            ASSERT_EQ(std::memcmp(a->at(row, column), b->at(row, column), 2), 0) << name << " " << row << " " << column;
      }
}

TEST(RandomModel, TheSameSeedGivesTheSameBytesAndAnotherDoesNot) {
  const tests::scratch_directory directory("seeds");
  for (const auto* part : {"a", "b"}) ASSERT_TRUE(write_random_model("tiny", directory.path() / part, 3));
  ASSERT_TRUE(write_random_model("tiny", directory.path() / "c", 4));
  const auto text = [&](const char* part) { return file_text(directory.path() / part / "model.safetensors"); };
  EXPECT_EQ(text("a"), text("b"));
  EXPECT_NE(text("a"), text("c"));
}

TEST(RandomModel, WeightsHaveTheScaleThatKeepsActivationsSmall) {
  const auto model = random_model("tiny");
  const auto& c = model.configuration;
  const auto deviation = [&](const char* name) { return deviation_of(values_of(*model.tensors->find(name))); };
  EXPECT_NEAR(deviation("model.layers.0.self_attn.q_proj.weight") * std::sqrt(c.hidden), 1.0, 0.05);
  EXPECT_NEAR(deviation("model.layers.1.mlp.down_proj.weight") * std::sqrt(c.intermediate * 2.0 * c.layers), 1.0, 0.05);
  EXPECT_NE(values_of(*model.tensors->find("model.layers.0.mlp.up_proj.weight")),
            values_of(*model.tensors->find("model.layers.0.mlp.gate_proj.weight")));
  for (const float value : values_of(*model.tensors->find("model.norm.weight"))) EXPECT_EQ(value, 1.0F);
}

TEST(RandomModel, AllIdsDecodeAndTextComesBack) {
  const auto model = random_model("tiny");
  for (std::uint32_t id = 0; id < model.configuration.vocabulary; ++id)
    EXPECT_FALSE(model.tokens->bytes(static_cast<protocols::token_id>(id)).empty()) << id;
  const std::string text = "abacus ad absurdum \xE2\x82\xAC\n";
  const auto ids = model.tokens->encode(text, false);
  EXPECT_EQ(model.tokens->decode(ids, false), text);
  EXPECT_LT(ids.size(), text.size()) << "some letters merge";
}

TEST(RandomModel, ShapesForBenchmarksHaveTheSizesOfTheirNames) {
  const auto parameters = [](const char* name) {
    const auto& c = find_random_model(name)->configuration;
    const double layer = 2.0 * c.hidden * c.heads * c.head_size + 2.0 * c.hidden * c.kv_heads * c.head_size +
                         3.0 * c.hidden * c.intermediate;
    return layer * c.layers + 2.0 * c.vocabulary * c.hidden;
  };
  EXPECT_NEAR(parameters("160m"), 160e6, 5e6);
  EXPECT_NEAR(parameters("1b"), 1.1e9, 0.01e9);
  EXPECT_NEAR(parameters("8b"), 8.03e9, 0.01e9);
}

TEST(RandomModel, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const auto written = write_random_model("9000b", "/nonexistent");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().what(),
              ::testing::AllOf(::testing::HasSubstr("\"9000b\""), ::testing::HasSubstr("tiny, ")));
  EXPECT_THROW((void)random_model("9000b"), model_error);
}

TEST(RandomModel, ADirectoryThatCannotBeMadeIsNamed) {
  const auto written = write_random_model("tiny", "/proc/no-such-place");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().what(), ::testing::HasSubstr("/proc/no-such-place"));
}

} // namespace
} // namespace godwit::gpu::model
