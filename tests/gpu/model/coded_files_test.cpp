#include "model/coded_files.hpp"

#include "gpu/model/model_files.hpp"

#include <godwit/gpu/model/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

namespace godwit::gpu::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using method_kind = quantization_config::method_kind;

/// Tensors of one layer, which tests break.
struct layer_files {
  struct one {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, one> all;
  quantization_config by;

  void add(const std::string& part, const std::string& type, std::vector<std::uint64_t> shape, int fill = 0) {
    std::uint64_t count = type == "I64"                       ? 8
                          : type == "I32" || type == "F32"    ? 4
                          : type == "I8" || type == "F8_E4M3" ? 1
                                                              : 2;
    for (const auto size : shape) count *= size;
    all["layer." + part] = {type, std::move(shape), std::vector<std::byte>(count, static_cast<std::byte>(fill))};
  }
  template <class T> void put(const std::string& part, const std::vector<T>& values) {
    auto& bytes = all.at("layer." + part).bytes;
    ASSERT_EQ(bytes.size(), values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  [[nodiscard]] found_matrix find(std::uint64_t rows = 16, std::uint64_t columns = 64) const {
    const stored_lookup look = [this](std::string_view name) -> std::optional<stored_tensor> {
      const auto found = all.find(std::string(name));
      if (found == all.end()) return std::nullopt;
      return stored_tensor{found->second.type, found->second.shape, found->second.bytes};
    };
    return find_coded(by, "layer", rows, columns, look, "model.safetensors");
  }
  [[nodiscard]] std::string error() const {
    try {
      (void)find();
    } catch (const model_error& failure) {
      return failure.what();
    }
    return "";
  }
};

layer_files gptq() {
  layer_files f;
  f.by = {method_kind::gptq, true, 0, 0};
  f.add("qweight", "I32", {8, 16});
  f.add("qzeros", "I32", {2, 2});
  f.add("scales", "F16", {2, 16});
  f.add("g_idx", "I32", {64});
  std::vector<std::int32_t> order(64);
  for (int i = 0; i < 64; ++i) order[static_cast<std::size_t>(i)] = i / 32;
  f.put("g_idx", order);
  return f;
}
layer_files awq() {
  layer_files f;
  f.by = {method_kind::awq, false, 0, 0};
  f.add("qweight", "I32", {64, 2});
  f.add("qzeros", "I32", {2, 2});
  f.add("scales", "F16", {2, 16});
  return f;
}
layer_files packed() {
  layer_files f;
  f.by = {method_kind::compressed, false, 0, 0};
  f.add("weight_packed", "I32", {16, 8});
  f.add("weight_scale", "BF16", {16, 2});
  f.add("weight_zero_point", "I32", {2, 2});
  return f;
}
layer_files blocks() {
  layer_files f;
  f.by = {method_kind::fp8, false, 8, 32};
  f.add("weight", "F8_E4M3", {16, 64});
  f.add("weight_scale_inv", "F32", {2, 2});
  return f;
}

TEST(CodedFiles, ThoseOfEachToolAreFoundWithAllTheirTensors) {
  for (const auto& files : {gptq(), awq(), packed(), blocks()}) {
    const auto found = files.find();
    ASSERT_NE(found.matrix, nullptr);
    EXPECT_EQ(found.matrix->dimensions().group, 32U);
    const std::set<std::string> names(found.names.begin(), found.names.end());
    EXPECT_EQ(names.size(), files.all.size());
    std::vector<float> values(64);
    for (std::uint64_t row = 0; row < 16; ++row) found.matrix->values(row, 0, values);
  }
}

TEST(CodedFiles, AMatrixThatIsNotInCodesIsNone) {
  layer_files f;
  f.by.method = method_kind::compressed;
  f.add("weight", "BF16", {16, 64});
  EXPECT_EQ(f.find().matrix, nullptr);
  f.by.method = method_kind::gptq;
  EXPECT_EQ(f.find().matrix, nullptr);
  EXPECT_EQ(layer_files{}.find().matrix, nullptr);
}

TEST(CodedFiles, WhatIsMissingOrOfAnotherShapeIsNamed) {
  for (const auto* part : {"qzeros", "scales"}) {
    auto f = gptq();
    f.all.erase(std::string("layer.") + part);
    EXPECT_THAT(f.error(), AllOf(HasSubstr(std::string("layer.") + part), HasSubstr("missing")));
  }
  const auto broken = [](layer_files f, const std::string& part, const std::string& type,
                         std::vector<std::uint64_t> shape) {
    f.add(part, type, std::move(shape));
    const auto error = f.error();
    EXPECT_THAT(error, AllOf(HasSubstr("\"layer." + part + "\" is " + type), HasSubstr("should be"))) << part;
  };
  broken(gptq(), "qweight", "I32", {8, 15});
  broken(gptq(), "qweight", "I64", {8, 16});
  broken(gptq(), "qweight", "I32", {0});
  broken(gptq(), "qzeros", "I32", {3, 2});
  broken(gptq(), "scales", "F16", {2, 15});
  broken(gptq(), "scales", "F16", {3, 16}); // groups that do not come out even
  broken(gptq(), "scales", "I32", {2, 16});
  broken(gptq(), "g_idx", "I32", {63});
  broken(awq(), "qweight", "I32", {64, 3});
  broken(awq(), "qzeros", "I32", {2, 1});
  broken(awq(), "scales", "BF16", {0, 16});
  broken(packed(), "weight_packed", "I32", {16, 7});
  broken(packed(), "weight_packed", "I32", {15, 8});
  broken(packed(), "weight_scale", "F64", {16, 2});
  broken(packed(), "weight_scale", "BF16", {16, 3});
  broken(packed(), "weight_scale", "BF16", {});
  broken(packed(), "weight_scale", "BF16", {16, 0});
  broken(packed(), "weight_scale", "BF16", {16, 0, 1});
  broken(packed(), "weight_scale", "BF16", {16, 2, 1});
  broken(packed(), "weight_zero_point", "I32", {16, 2});
  broken(packed(), "weight_shape", "I64", {2}); // of zeros
  broken(blocks(), "weight", "F8_E4M3", {16, 63});
  broken(blocks(), "weight_scale_inv", "F32", {3, 2});
  broken(blocks(), "weight_scale_inv", "F32", {2, 2, 2});
  broken(blocks(), "weight_scale_inv", "F32", {0});
}

TEST(CodedFiles, GroupsThatThereAreNotAreRefused) {
  for (const std::int32_t wrong : {2, -2, -1}) {
    auto f = gptq();
    std::vector<std::int32_t> order(64, 1);
    order[5] = wrong;
    f.put("g_idx", order);
    EXPECT_THAT(f.error(), HasSubstr("of groups below 2"));
  }
  auto unset = packed(); // as compressed-tensors leaves it where it was not used
  unset.add("weight_g_idx", "I32", {64}, 0xff);
  EXPECT_EQ(unset.find().matrix->dimensions().group, 32U);
}

TEST(CodedFiles, ColumnsInTheOrderOfActivationsHaveTheirOwnGroups) {
  auto f = gptq();
  std::vector<std::int32_t> order(64);
  for (std::size_t i = 0; i < 64; ++i) order[i] = i % 2;
  f.put("g_idx", order);
  std::vector<std::uint16_t> scales(32);
  for (std::size_t i = 0; i < 32; ++i) scales[i] = i < 16 ? 0x3c00 : 0x4000; // 1 and 2
  f.put("scales", scales);
  f.put("qweight", std::vector<std::uint32_t>(128, 0x55555555U)); // fives, and the zeros are 1
  const auto found = f.find();
  EXPECT_EQ(found.matrix->dimensions().group, 0U);
  std::vector<float> values(64);
  found.matrix->values(3, 0, values);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i % 2 == 0 ? 4.0F : 8.0F);
}

TEST(CodedFiles, GroupsOfAnotherSizeThanTheFileSaysAreRefused) {
  for (auto f : {gptq(), awq(), packed()}) {
    f.by.group = 32;
    EXPECT_EQ(f.error(), "");
    f.by.group = 48; // two groups, too, of which the second one is short
    EXPECT_THAT(f.error(), HasSubstr("of groups of 48 of the 64 columns"));
  }
}

TEST(CodedFiles, ZerosThatAddNothingAreOfAnyType) {
  layer_files f;
  f.by.method = method_kind::compressed;
  f.add("weight", "I8", {16, 64});
  f.add("weight_scale", "BF16", {16, 1});
  f.add("weight_zero_point", "I64", {16, 1});
  EXPECT_FALSE(f.find().matrix->dimensions().zeros);
  f.add("weight_zero_point", "I64", {16, 1}, 1);
  EXPECT_THAT(f.error(), HasSubstr("weight_zero_point"));
  f.add("weight_zero_point", "I8", {16, 1}, 1);
  EXPECT_TRUE(f.find().matrix->dimensions().zeros);
}

// GPTQModel takes one off all zeros of a word at once; AutoGPTQ's own reading is the same but for a zero of 0.
TEST(CodedFiles, AZeroOfGptqThatIsNoneHasBorrowedFromItsNeighbour) {
  auto f = gptq();
  f.put("scales", std::vector<std::uint16_t>(32, 0x3c00));
  constexpr std::uint32_t zeros = 0x2eb52f0b;
  f.put("qzeros", std::vector<std::uint32_t>(4, zeros - 0x11111111U));
  const auto found = f.find();
  for (std::uint64_t row = 0; row < 8; ++row)
    EXPECT_EQ(found.matrix->unit_of(row, 0).zero, static_cast<std::int32_t>(zeros >> (4 * row) & 15U)) << row;
}

TEST(CodedFiles, ZerosOfGptqAreOneMoreInItsFirstFormat) {
  auto f = gptq();
  f.put("scales", std::vector<std::uint16_t>(32, 0x3c00));
  std::vector<float> one(1);
  f.find().matrix->values(0, 0, one);
  EXPECT_EQ(one[0], -1.0F);
  f.by.zeros_less_one = false;
  f.find().matrix->values(0, 0, one);
  EXPECT_EQ(one[0], 0.0F);
}

// --- whole models

using tests::golden_files;

/// Replaces the first place where `from` stands in the header of the weights, which may get longer.
void change_header(tests::file_map& files, const std::string& from, const std::string& to) {
  auto text = tests::text_of_bytes(files.at("model.safetensors"));
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::uint64_t header = 0;
  std::memcpy(&header, text.data(), 8);
  header = header + to.size() - from.size();
  std::memcpy(text.data(), &header, 8);
  files["model.safetensors"] = tests::bytes_of_text(text);
}

TEST(QuantizedModel, ABiasThatAddsSomethingIsNotLeftOut) {
  auto files = golden_files("quantized/gptq4");
  EXPECT_EQ(tests::error_of(files), "");
  auto& bytes = files.at("model.safetensors");
  const auto text = tests::text_of_bytes(bytes);
  const auto entry = text.find("model.layers.0.self_attn.o_proj.bias");
  ASSERT_NE(entry, std::string::npos);
  const auto offsets = text.find("data_offsets\":[", entry) + 15;
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  bytes[8 + header + std::stoull(text.substr(offsets))] = std::byte{1};
  EXPECT_THAT(tests::error_of(files), HasSubstr("o_proj.bias"));
}

TEST(QuantizedModel, EmbeddingsInCodesAreRefused) {
  auto files = golden_files("quantized/fp8-tensor");
  // As many bytes of a type that matrices of layers may have.
  const std::string entry = "\"model.embed_tokens.weight\":{\"dtype\":";
  change_header(files, entry + "\"F32\",\"shape\":[264,64]", entry + "\"I8\",\"shape\":[264,256]");
  EXPECT_THAT(tests::error_of(files), AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("\"I8\"")));
}

TEST(QuantizedModel, WhatIsNotSupportedIsSaidByTheFieldsName) {
  const auto error_with = [](const std::string& name, const std::string& from, const std::string& to) {
    auto files = golden_files("quantized/" + name);
    tests::replace(files, "config.json", from, to);
    return tests::error_of(files);
  };
  EXPECT_THAT(
      error_with("awq4", R"("quant_method": "awq")", R"("quant_method": "bitsandbytes")"),
      AllOf(HasSubstr("quantization_config.quant_method: \"bitsandbytes\" is not supported"), HasSubstr("\"gptq\"")));
  EXPECT_THAT(error_with("awq4", R"("version": "gemm")", R"("version": "gemv")"), HasSubstr("version"));
  EXPECT_THAT(error_with("awq4", R"("bits": 4)", R"("bits": 3)"), HasSubstr("bits"));
  EXPECT_THAT(error_with("gptq4", R"("checkpoint_format": "gptq")", R"("checkpoint_format": "marlin")"),
              HasSubstr("checkpoint_format"));
  EXPECT_THAT(error_with("gptq4", R"("bits": 4)", R"("bits": 2)"), HasSubstr("bits"));
  EXPECT_THAT(error_with("fp8-block", R"("fmt": "e4m3")", R"("fmt": "e5m2")"), HasSubstr("fmt"));
  EXPECT_THAT(error_with("packed4", R"("format": "pack-quantized")", R"("format": "marlin-24")"), HasSubstr("format"));
  EXPECT_THAT(error_with("packed4", R"("num_bits": 4)", R"("num_bits": 3)"), HasSubstr("num_bits"));
  EXPECT_THAT(error_with("packed4", R"("block_structure": null)", R"("block_structure": "32x")"),
              HasSubstr("block_structure: must be [rows, columns]"));
  EXPECT_EQ(error_with("packed4", R"("block_structure": null)", R"("block_structure": "32x32")"), "");
  EXPECT_THAT(error_with("gptq4", R"("group_size": 32)", R"("group_size": 0)"), HasSubstr("group_size"));
  EXPECT_THAT(error_with("gptq4", R"("quantization_config")", R"("other_config")"),
              AllOf(HasSubstr(".qweight\" is of quantized weights"), HasSubstr("no \"quantization_config\"")));
  EXPECT_EQ(error_with("packed4", R"("quantization_config")", R"("compression_config")"), "");
  EXPECT_THAT(error_with("packed4-asym", R"("transform_config": {})", R"("transform_config": {"a": 1})"),
              HasSubstr("transform_config"));
  EXPECT_THAT(
      error_with("packed4-asym", R"("sparsity_config": {})", R"("sparsity_config": {"format": "sparse-24-bitmask"})"),
      HasSubstr("sparsity_config.format"));
}

TEST(Mxfp4, AByteHasTwoValuesAndEach32OfARowAScale) {
  // Two experts of six rows of 64 columns.
  std::vector<std::byte> blocks(2 * 6 * 2 * 16), scales(2 * 6 * 2);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i * 37 + 11);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(120 + i);
  const std::vector<std::uint64_t> of_blocks{2, 6, 2, 16}, of_scales{2, 6, 2};
  const stored_lookup look = [&](std::string_view name) -> std::optional<stored_tensor> {
    if (name == "x_blocks") return stored_tensor{"U8", of_blocks, blocks};
    return stored_tensor{"U8", of_scales, scales};
  };
  const auto all = find_mxfp4("x", 2, 6, 64, look, "model.safetensors");
  ASSERT_TRUE(all);
  const std::array<double, 16> fp4{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (const std::uint64_t expert : {0U, 1U})
    for (const auto& [first, step] : {std::pair{0U, 1U}, std::pair{0U, 2U}, std::pair{1U, 2U}}) {
      const auto matrix = mxfp4_matrix_of(*all, expert, {first, step, 6 / step});
      EXPECT_EQ(matrix->dimensions().rows, 6 / step);
      std::vector<float> values(64);
      for (std::uint64_t row = 0; row < 6 / step; ++row) {
        matrix->values(row, 0, values);
        const auto line = expert * 6 + first + row * step;
        for (std::size_t k = 0; k < 64; ++k) {
          const auto byte = std::to_integer<unsigned>(blocks[line * 32 + k / 2]);
          const auto exponent = std::to_integer<int>(scales[line * 2 + k / 32]) - 127;
          EXPECT_EQ(values[k], std::ldexp(fp4[k % 2 == 0 ? byte & 15U : byte >> 4U], exponent)) << row << " " << k;
        }
        std::vector<float> some(5);
        matrix->values(row, 31, some);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), values.begin() + 31));
      }
    }
}

TEST(Mxfp4, WhatIsWrongOfItIsSaid) {
  EXPECT_EQ(tests::error_of(golden_files("quantized/mxfp4")), "");
  const std::string experts = "model.layers.1.mlp.experts.";
  const auto changed = [](const std::string& from, const std::string& to) {
    auto files = golden_files("quantized/mxfp4");
    change_header(files, from, to);
    return tests::error_of(files);
  };
  EXPECT_THAT(changed(experts + "down_proj_scales", experts + "down_proj_scalex"),
              HasSubstr("\"" + experts + "down_proj_scales\" is missing"));
  EXPECT_THAT(changed(experts + "down_proj_blocks", experts + "down_proj_blockx"),
              HasSubstr("\"" + experts + "down_proj_blocks\" is missing"));
  EXPECT_THAT(changed(experts + "gate_up_proj_bias", experts + "gate_up_proj_biax"),
              HasSubstr("\"" + experts + "gate_up_proj_bias\" is missing; config.json calls for [4, 128]"));
  EXPECT_THAT(
      changed(experts + "down_proj_blocks\":{\"dtype\":\"U8\"", experts + "down_proj_blocks\":{\"dtype\":\"I8\""),
      HasSubstr("down_proj_blocks\" is I8 [4, 64, 2, 16], which should be U8 [4, 64, 2, 16]"));
  EXPECT_THAT(changed("[4,128,2,16]", "[4,128,4,8]"), HasSubstr("which should be U8 [4, 128, 2, 16]"));
  EXPECT_THAT(changed("[4,128,2]", "[4,256,1]"), HasSubstr("which should be U8 [4, 128, 2]"));
  EXPECT_THAT(changed("model.layers.0.self_attn.sinks", "model.layers.0.self_attn.sinkx"),
              HasSubstr("\"model.layers.0.self_attn.sinks\" is missing; config.json calls for [4]"));
  EXPECT_THAT(changed("\"model.norm.weight\"", "\"" + experts + "3.up_proj.bias\""),
              HasSubstr("\"" + experts + "3.up_proj.bias\" is in the file beside"));
  auto files = golden_files("quantized/mxfp4");
  tests::replace(files, "config.json", R"("quantization_config")", R"("other_config")");
  EXPECT_THAT(tests::error_of(files), AllOf(HasSubstr("gate_up_proj_blocks\" is of quantized weights"),
                                            HasSubstr("no quant_method \"mxfp4\"")));
  files = golden_files("quantized/mxfp4");
  tests::replace(files, "config.json", R"("num_local_experts": 4)", R"("num_local_experts": 5)");
  EXPECT_THAT(tests::error_of(files), HasSubstr("which should be U8 [5, 128, 2, 16]"));
  files = golden_files("quantized/mxfp4");
  tests::replace(files, "config.json", R"("intermediate_size": 64)", R"("intermediate_size": 48)");
  EXPECT_THAT(tests::error_of(files), HasSubstr("which should be U8 [4, 96, 2, 16]"));
}

TEST(JoinedExperts, AreNeededWithAllTheirRowsAndByThemselves) {
  auto files = golden_files("gpt-oss");
  EXPECT_EQ(tests::error_of(files), "");
  const auto changed = [](const std::string& from, const std::string& to) {
    auto all = golden_files("gpt-oss");
    change_header(all, from, to);
    return tests::error_of(all);
  };
  const std::string experts = "model.layers.0.mlp.experts.";
  EXPECT_THAT(changed("\"" + experts + "down_proj\"", "\"" + experts + "dawn_proj\""),
              HasSubstr("\"" + experts + "down_proj\" is missing; config.json calls for [5, 24, 32]"));
  EXPECT_THAT(changed("\"model.norm.weight\"", "\"" + experts + "0.gate_proj.weight\""),
              HasSubstr("\"" + experts + "0.gate_proj.weight\" is in the file beside \"" + experts + "gate_up_proj\""));
  tests::replace(files, "config.json", R"("intermediate_size": 24)", R"("intermediate_size": 25)");
  EXPECT_THAT(tests::error_of(files), HasSubstr("gate_up_proj\": shape is [5, 32, 48], but config.json calls for "
                                                "[5, 32, 50]"));
}

TEST(FusedTensors, AreNeededWithAllTheirRows) {
  auto files = golden_files("phi3");
  EXPECT_EQ(tests::error_of(files), "");
  auto without = files;
  tests::replace(without, "model.safetensors", "model.layers.1.self_attn.qkv_proj.weight",
                 "model.layers.1.self_attn.qkv_prox.weight");
  EXPECT_THAT(tests::error_of(without),
              HasSubstr("\"model.layers.1.self_attn.qkv_proj.weight\" is missing; config.json calls for [128, 64]"));
  tests::replace(files, "config.json", R"("intermediate_size": 48)", R"("intermediate_size": 40)");
  EXPECT_THAT(
      tests::error_of(files),
      HasSubstr("\"model.layers.0.mlp.gate_up_proj.weight\": shape is [96, 64], but config.json calls for [80, 64]"));
}

TEST(FusedTensors, SayWhatIsWrongOfThem) {
  const auto renamed = [](const std::string& from, const std::string& to) {
    auto files = golden_files("phi3");
    tests::replace(files, "model.safetensors", from, to);
    return tests::error_of(files);
  };
  EXPECT_THAT(renamed("layers.0.self_attn.qkv_proj.weight\":{\"dtype\":\"F32\"",
                      "layers.0.self_attn.qkv_proj.weight\":{\"dtype\":\"I32\""),
              HasSubstr("qkv_proj.weight\" is of type \"I32\"; supported: BF16, F16, F32"));
  auto files = golden_files("phi3");
  change_header(files, "\"model.norm.weight\"", "\"model.layers.0.self_attn.q_proj.weight\"");
  EXPECT_THAT(tests::error_of(files), HasSubstr("\"model.layers.0.self_attn.q_proj.weight\" is in the file beside "
                                                "\"model.layers.0.self_attn.qkv_proj.weight\", which has it, too"));
}

TEST(FusedTensors, RowsOfAMatrixInCodesAreThoseOfTheWhole) {
  auto f = packed();
  std::vector<std::uint32_t> words(128);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761U);
  f.put("weight_packed", words);
  std::vector<std::uint16_t> scales(32);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint16_t>(0x3c00 + i);
  f.put("weight_scale", scales);
  const auto whole = f.find();
  const coded_rows some(*whole.matrix, 5, 7);
  EXPECT_EQ(some.dimensions().rows, 7U);
  EXPECT_EQ(some.dimensions().columns, 64U);
  std::vector<float> mine(64), all(64);
  for (std::uint64_t row = 0; row < 7; ++row) {
    some.values(row, 0, mine);
    whole.matrix->values(5 + row, 0, all);
    EXPECT_EQ(mine, all);
  }
}

TEST(QuantizedModel, ScalesOfKvAndActivationsAreLeftAside) {
  EXPECT_EQ(tests::error_of(golden_files("quantized/fp8-tensor")), "") << "it has input scales";
}

} // namespace
} // namespace godwit::gpu::model
