#include "gpu/cpu/tiny_model.hpp"

#include <godwit/gpu/cpu/kv_geometry.hpp>
#include <godwit/gpu/model/fingerprint.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace godwit::gpu::model {

namespace {

using cpu::testing::memory_weights;
using cpu::testing::tiny_config;

/// One tensor differs from what it was made of, in one byte.
class one_byte_off final : public weights {
public:
  one_byte_off(const weights& of, std::string name, std::uint64_t at) : of_(of), name_(std::move(name)) {
    view_ = *of.find(name_);
    bytes_.assign(view_.data, view_.data + view_.bytes);
    bytes_.at(at) ^= std::byte{1};
    view_.data = bytes_.data();
  }
  [[nodiscard]] const tensor_view* find(std::string_view name) const noexcept override {
    return name == name_ ? &view_ : of_.find(name);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return of_.total_bytes(); }

private:
  const weights& of_;
  std::string name_;
  tensor_view view_;
  std::vector<std::byte> bytes_;
};

/// One matrix lies column by column, every second value another's, as gpt-oss's files have it.
class column_by_column final : public weights {
public:
  struct place {
    std::uint64_t row = 0, column = 0;
  };
  /// `off`: where its values differ.
  column_by_column(const weights& of, std::string name, std::optional<place> off) : of_(of), name_(std::move(name)) {
    const auto& from = *of.find(name_);
    const auto rows = from.shape[0], columns = from.shape[1], size = bytes_of(from.type);
    bytes_.resize(2 * from.bytes);
    view_ = from;
    view_.data = bytes_.data() + size; // the second of two: it ends where the file may end
    view_.row_step = 2;
    view_.column_step = 2 * rows;
    const auto at = [&](place where) { return bytes_.data() + (view_.at(where.row, where.column) - bytes_.data()); };
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t column = 0; column < columns; ++column)
        std::memcpy(at({row, column}), from.at(row, column), size);
    if (off) *at(*off) ^= std::byte{1};
  }
  [[nodiscard]] const tensor_view* find(std::string_view name) const noexcept override {
    return name == name_ ? &view_ : of_.find(name);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return of_.total_bytes(); }

private:
  const weights& of_;
  std::string name_;
  tensor_view view_;
  std::vector<std::byte> bytes_;
};

} // namespace

TEST(Fingerprint, TheSameModelHasTheSameOneWhereverItLies) {
  const auto config = tiny_config();
  const memory_weights here(config, data_type::bf16, 1);
  const memory_weights there(config, data_type::bf16, 1);
  const auto print = fingerprint(config, here);
  EXPECT_EQ(print, fingerprint(config, there));
  EXPECT_EQ(print.size(), 16U);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Fingerprint, WhateverTokensDependOnChangesIt) {
  const auto config = tiny_config();
  const memory_weights tensors(config, data_type::bf16, 1);
  std::set<std::string> seen{fingerprint(config, tensors)};
  const auto is_new = [&](const std::string& what, const std::string& print) {
    EXPECT_TRUE(seen.insert(print).second) << what;
  };
  const auto changed = [&](const std::string& what, const std::function<void(model::config&)>& change) {
    auto other = config;
    change(other);
    is_new(what, fingerprint(other, tensors));
  };
  changed("family", [](auto& c) { c.kind = family::qwen2; });
  changed("normed heads", [](auto& c) { c.qk_norm = true; });
  changed("experts", [](auto& c) { c.mixture.experts = 8; });
  changed("experts of a token", [](auto& c) { c.mixture.chosen = 2; });
  changed("weights of experts", [](auto& c) { c.mixture.normed = !c.mixture.normed; });
  changed("rope theta", [](auto& c) { c.rope.theta *= 2; });
  changed("rope scaling", [](auto& c) { c.rope.scaling = rope_config::scaling_kind::linear; });
  changed("rope factor", [](auto& c) { c.rope.factor = 3; });
  changed("rope's fast rotations", [](auto& c) { c.rope.fast_rotations = 16; });
  changed("rope's slow rotations", [](auto& c) { c.rope.slow_rotations = 2; });
  changed("rope's whole pairs", [](auto& c) { c.rope.whole_pairs = false; });
  changed("rope's attention factor", [](auto& c) { c.rope.attention_factor = 1.2; });
  changed("epsilon", [](auto& c) { c.rms_norm_epsilon *= 2; });
  changed("context", [](auto& c) { c.positions_max += 1; });
  changed("window", [](auto& c) { c.sliding_window = 8; });
  changed("end tokens", [](auto& c) { c.eos.push_back(3); });
  changed("tied embeddings", [](auto& c) { c.tied_embeddings = !c.tied_embeddings; });
  is_new("other values", fingerprint(config, memory_weights(config, data_type::bf16, 2)));
  is_new("another type", fingerprint(config, memory_weights(config, data_type::f32, 1)));
  const std::string tensor = "model.layers.1.mlp.up_proj.weight";
  is_new("the first byte", fingerprint(config, one_byte_off(tensors, tensor, 0)));
  is_new("the last byte", fingerprint(config, one_byte_off(tensors, tensor, tensors.find(tensor)->bytes - 1)));
}

TEST(Fingerprint, TheNormsOfHeadsCount) {
  auto config = tiny_config();
  config.qk_norm = true;
  const memory_weights tensors(config, data_type::bf16, 1);
  std::set<std::string> seen{fingerprint(config, tensors)};
  for (const std::string name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"})
    EXPECT_TRUE(seen.insert(fingerprint(config, one_byte_off(tensors, name, 3))).second) << name;
}

TEST(Fingerprint, WhateverGemmaHasCounts) {
  const auto config = cpu::testing::as_gemma3(tiny_config());
  const memory_weights tensors(config, data_type::bf16, 1);
  std::set<std::string> seen{fingerprint(config, tensors)};
  const auto changed = [&](const std::string& what, const std::function<void(model::config&)>& change) {
    auto other = config;
    change(other);
    EXPECT_TRUE(seen.insert(fingerprint(other, tensors)).second) << what;
  };
  changed("gate", [](auto& c) { c.gate = activation::silu; });
  changed("scaled embeddings", [](auto& c) { c.scaled_embeddings = false; });
  changed("norms less one", [](auto& c) { c.norms_less_one = false; });
  changed("post norms", [](auto& c) { c.post_norms = false; });
  changed("query scalar", [](auto& c) { c.query_scalar += 1; });
  changed("which layers have the window", [](auto& c) { c.windowed[0] = !c.windowed[0]; });
  changed("their theta", [](auto& c) { c.window_rope->theta *= 2; });
  changed("none of their own", [](auto& c) { c.window_rope.reset(); });
  for (const std::string name : {"post_attention", "pre_feedforward", "post_feedforward"})
    EXPECT_TRUE(
        seen.insert(fingerprint(config, one_byte_off(tensors, "model.layers.1." + name + "_layernorm.weight", 3)))
            .second)
        << name;
}

TEST(Fingerprint, WhateverGptOssHasCounts) {
  const auto config = cpu::testing::as_gpt_oss(tiny_config());
  const memory_weights tensors(config, data_type::bf16, 1);
  std::set<std::string> seen{fingerprint(config, tensors)};
  const auto changed = [&](const std::string& what, const std::function<void(model::config&)>& change) {
    auto other = config;
    change(other);
    EXPECT_TRUE(seen.insert(fingerprint(other, tensors)).second) << what;
  };
  changed("sinks", [](auto& c) { c.sinks = false; });
  changed("biases of experts", [](auto& c) { c.mixture.biased = false; });
  changed("the limit", [](auto& c) { c.gate_limit += 1; });
  changed("the slope", [](auto& c) { c.gate_slope += 1; });
  changed("which layers have the window", [](auto& c) { c.windowed[0] = !c.windowed[0]; });
  for (const std::string name : {"self_attn.sinks", "mlp.router.bias", "mlp.experts.2.up_proj.bias"})
    EXPECT_TRUE(seen.insert(fingerprint(config, one_byte_off(tensors, "model.layers.1." + name, 3))).second) << name;
}

TEST(Fingerprint, AMatrixThatLiesColumnByColumnCountsToItsEnd) {
  const auto config = cpu::testing::as_gpt_oss(tiny_config());
  const memory_weights tensors(config, data_type::bf16, 1);
  const std::string name = "model.layers.1.mlp.experts.2.up_proj.weight";
  const auto rows = tensors.find(name)->shape[0], columns = tensors.find(name)->shape[1];
  std::set<std::string> seen{fingerprint(config, column_by_column(tensors, name, std::nullopt))};
  for (const auto& [row, column] : std::vector<column_by_column::place>{
           {0, 0}, {rows - 1, 0}, {0, columns / 2 + 1}, {0, columns - 1}, {rows - 1, columns - 1}})
    EXPECT_TRUE(
        seen.insert(fingerprint(config, column_by_column(tensors, name, column_by_column::place{row, column}))).second)
        << row << " " << column;
}

TEST(Fingerprint, WhatClientsMayChooseThemselvesDoesNotCount) {
  const auto config = tiny_config();
  const memory_weights tensors(config, data_type::bf16, 1);
  auto other = config;
  other.default_temperature = 0.3F;
  other.default_top_p = 0.5F;
  EXPECT_EQ(fingerprint(config, tensors), fingerprint(other, tensors));
}

TEST(KvGeometry, IsThatOfTheExecutorThatWillBeMade) {
  const auto config = tiny_config();
  for (const auto type : {data_type::bf16, data_type::f32})
    for (const auto precision : {cpu::kv_precision::automatic, cpu::kv_precision::bf16, cpu::kv_precision::f32}) {
      const auto tensors = std::make_shared<memory_weights>(config, type, 1);
      const auto geometry = cpu::kv_geometry_of(config, *tensors, precision);
      cpu::cpu_executor_settings settings;
      settings.threads = 1;
      settings.blocks = 4;
      settings.kv = precision;
      EXPECT_EQ(geometry.block_bytes, cpu::make_cpu_executor(config, tensors, settings)->info().block_bytes);
      const bool half = precision == cpu::kv_precision::bf16 ||
                        (precision == cpu::kv_precision::automatic && type == data_type::bf16);
      EXPECT_EQ(geometry.type, half ? "bf16" : "f32");
    }
}

} // namespace godwit::gpu::model
