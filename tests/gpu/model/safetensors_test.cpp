#include "gpu/model/model_files.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::gpu::model {
namespace {

using ::testing::HasSubstr;
using tests::error_of;
using tests::safetensors_file;
using tests::small_model;

std::string error_with_weights(std::vector<std::byte> bytes) {
  auto files = small_model();
  files["model.safetensors"] = std::move(bytes);
  return error_of(std::move(files));
}

std::string error_with_header(std::string_view header, std::size_t data_bytes) {
  return error_with_weights(safetensors_file(header, data_bytes));
}

TEST(Safetensors, TensorsAreFoundWithShapeTypeAndPlace) {
  const auto files = small_model();
  const auto opened = open_model(memory_source("small", files));
  ASSERT_TRUE(opened) << opened.error().what();
  const auto* k = opened->tensors->find("model.layers.0.self_attn.k_proj.weight");
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(k->shape, (std::vector<std::uint64_t>{4, 8}));
  EXPECT_EQ(k->type, data_type::f32);
  EXPECT_EQ(k->bytes, 128U);
  EXPECT_EQ(opened->tensors->find("lm_head.weight"), nullptr);
  EXPECT_EQ(opened->tensors->total_bytes(), 4U * (260 * 8 + 3 * 8 + 3 * 96 + 2 * 32 + 2 * 64));
}

TEST(Safetensors, ATruncatedFileIsRefusedAtEveryLength) {
  const auto whole = small_model()["model.safetensors"];
  for (std::size_t size = 0; size < whole.size(); size += size < 2000 ? 1 : 97)
    EXPECT_NE(error_with_weights({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
}

TEST(Safetensors, HeaderLengthsBeyondTheFileAreRefused) {
  auto bytes = small_model()["model.safetensors"];
  bytes[3] = std::byte{0x01};
  EXPECT_THAT(error_with_weights(bytes), HasSubstr("beyond the end of the file"));
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = std::byte{0xFF};
  EXPECT_THAT(error_with_weights(bytes), HasSubstr("above the limit"));
  EXPECT_THAT(error_with_weights({}), HasSubstr("too short"));
}

TEST(Safetensors, OffsetsMustMatchShapeAndTypeAndLieInTheFile) {
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              HasSubstr("\"t\".data_offsets: spans 4 bytes, but shape and dtype need 8"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
              HasSubstr("outside the file"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
              HasSubstr("outside the file"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8),
              HasSubstr("data_offsets: must hold integers from 0"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              HasSubstr("shape: overflows"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
              HasSubstr("shape: overflows"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"Q4_K","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("dtype: \"Q4_K\" is unknown"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","data_offsets":[0,8]}})", 8), HasSubstr("shape: is missing"));
  EXPECT_THAT(error_with_header(R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", 8),
              HasSubstr("dimensions"));
  EXPECT_THAT(error_with_header(R"({"t":7})", 0), HasSubstr("must be an object"));
  EXPECT_THAT(error_with_header("[]", 0), HasSubstr("must be an object"));
}

TEST(Safetensors, OverlapsHolesAndLeftoversAreRefused) {
  constexpr auto one = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)";
  EXPECT_THAT(error_with_header(std::string(one) + R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("overlap"));
  EXPECT_THAT(error_with_header(std::string(one) + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
              HasSubstr("hole at byte 8"));
  EXPECT_THAT(error_with_header(std::string(one) + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 13),
              HasSubstr("1 bytes belong to no tensor"));
}

TEST(Safetensors, AMissingOrMisshapenTensorIsNamedWithWhatIsWanted) {
  auto files = small_model();
  tests::replace(files, "config.json", R"("intermediate_size": 12)", R"("intermediate_size": 13)");
  EXPECT_THAT(error_of(files),
              HasSubstr("\"model.layers.0.mlp.gate_proj.weight\": shape is [12, 8], but config.json calls for "
                        "[13, 8]"));
  files = small_model();
  tests::replace(files, "config.json", R"("tie_word_embeddings": true)", R"("tie_word_embeddings": false)");
  EXPECT_THAT(error_of(files), HasSubstr("\"lm_head.weight\" is missing"));
  files = small_model();
  tests::replace(files, "model.safetensors", "model.norm.weight\":{\"dtype\":\"F32\"",
                 "model.norm.weight\":{\"dtype\":\"I32\"");
  EXPECT_THAT(error_of(files), HasSubstr("\"model.norm.weight\" is of type \"I32\"; supported: BF16, F16, F32"));
}

// As one without attention_bias: true, which would be another model.
TEST(Safetensors, ATensorOfALayerThatNothingCallsForIsNamed) {
  const auto with = [](const std::string& name, bool another = false) {
    auto files = small_model();
    auto& bytes = files["model.safetensors"];
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    std::string header(reinterpret_cast<const char*>(bytes.data()) + sizeof size, size);
    const auto data = bytes.size() - sizeof size - size;
    std::string more = ",\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[)" + std::to_string(data) + "," +
                       std::to_string(data + 8) + "]}";
    if (another)
      more += R"(,"model.layers.1.mlp.up_proj.weight":{"dtype":"F64","shape":[1],"data_offsets":[)" +
              std::to_string(data + 8) + "," + std::to_string(data + 16) + "]}";
    header.insert(header.rfind('}'), more);
    std::vector<std::byte> made(sizeof size);
    size = header.size();
    std::memcpy(made.data(), &size, sizeof size);
    const auto text = std::as_bytes(std::span(header));
    made.insert(made.end(), text.begin(), text.end());
    made.insert(made.end(), bytes.end() - static_cast<std::ptrdiff_t>(data), bytes.end());
    made.resize(made.size() + (another ? 16 : 8));
    bytes = std::move(made);
    return error_of(files);
  };
  EXPECT_THAT(with("model.layers.0.self_attn.q_proj.bias"),
              HasSubstr("model.safetensors: \"model.layers.0.self_attn.q_proj.bias\" is in the file, and config.json "
                        "calls for no such tensor"));
  EXPECT_THAT(with("model.layers.0.self_attn.q_norm.weight", true),
              HasSubstr("\"model.layers.0.self_attn.q_norm.weight\" and 1 more are in the file"));
  EXPECT_EQ(with("model.layers.0.self_attn.rotary_emb.inv_freq"), "");
  EXPECT_EQ(with("lm_head.weight"), "") << "tied embeddings are often stored twice";
}

TEST(Safetensors, ShardsAreReadByTheIndex) {
  auto files = small_model();
  files["part-1.safetensors"] = std::move(files["model.safetensors"]);
  files.erase("model.safetensors");
  EXPECT_THAT(error_of(files), HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  files["part-2.safetensors"] = safetensors_file(R"({"extra":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})", 6);
  std::string map = R"("extra": "part-2.safetensors")";
  for (const auto* name :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.mlp.down_proj.weight",
        "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.post_attention_layernorm.weight", "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.v_proj.weight", "model.norm.weight"})
    map += std::string(", \"") + name + R"(": "part-1.safetensors")";
  const auto set_index = [&](const std::string& weight_map) {
    files["model.safetensors.index.json"] = tests::bytes_of_text(R"({"weight_map": {)" + weight_map + "}}");
  };
  set_index(map);
  const auto opened = open_model(memory_source("sharded", files));
  ASSERT_TRUE(opened) << opened.error().what();
  EXPECT_EQ(opened->tensors->find("extra")->bytes, 6U);
  EXPECT_NE(opened->tensors->find("model.norm.weight"), nullptr);

  set_index(map + R"(, "ghost": "part-2.safetensors")");
  EXPECT_THAT(error_of(files), HasSubstr("\"ghost\" is not in \"part-2.safetensors\""));
  set_index(map + R"(, "ghost": "../../etc/passwd")");
  EXPECT_THAT(error_of(files), HasSubstr("there is no file \"../../etc/passwd\"; shards lie beside the index"));
  set_index(map + R"(, "ghost": 3)");
  EXPECT_THAT(error_of(files), HasSubstr("ghost: must be a string"));
}

TEST(FileSource, ADirectoryNeverGivesFilesFromElsewhere) {
  const tests::scratch_directory directory("escape");
  const auto inside = directory.path() / "inside";
  std::filesystem::create_directories(inside / "sub");
  { std::ofstream(directory.path() / "secret") << "secret"; }
  { std::ofstream(inside / "file") << "open"; }
  { std::ofstream(inside / "empty"); }
  const auto files = directory_source(inside);
  EXPECT_EQ(files->find("file")->size(), 4U);
  EXPECT_EQ(files->find("empty")->size(), 0U);
  EXPECT_FALSE(files->find("../secret"));
  EXPECT_FALSE(files->find((directory.path() / "secret").string()));
  EXPECT_FALSE(files->find(".."));
  EXPECT_FALSE(files->find(""));
  EXPECT_FALSE(files->find(std::string_view("file\0x", 6)));
  EXPECT_THROW((void)files->find("sub"), model_error);
}

TEST(FileSource, ADirectoryThatIsNoneIsSaidToBeNone) {
  const auto opened = open_model(std::filesystem::path("/nonexistent/model"));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().what(), HasSubstr("\"/nonexistent/model\": is not there; a model is a Hugging Face"));
}

} // namespace
} // namespace godwit::gpu::model
