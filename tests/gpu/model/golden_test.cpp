#include "gpu/model/model_files.hpp"

#include "model/tensor_list.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>

namespace godwit::gpu::model {
namespace {

struct golden {
  model_directory model;
  std::vector<protocols::token_id> prompt;
  std::vector<float> logits; ///< [prompt.size()][vocabulary]
};

golden read_golden(const std::string& name) {
  const std::filesystem::path directory = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden" / name;
  auto opened = open_model(directory);
  if (!opened) throw model_error(opened.error());
  golden out{std::move(opened).value(), {}, {}};
  std::ifstream prompt(directory / "prompt.txt");
  for (protocols::token_id id = 0; prompt >> id;) out.prompt.push_back(id);
  std::ifstream logits(directory / "logits.f32", std::ios::binary);
  out.logits.resize(out.prompt.size() * out.model.configuration.vocabulary);
  logits.read(reinterpret_cast<char*>(out.logits.data()), static_cast<std::streamsize>(out.logits.size() * 4));
  if (out.prompt.size() != 40 || !logits) throw std::runtime_error(name + ": golden files are incomplete");
  return out;
}

float largest_error(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = a.size() == b.size() ? 0.0F : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const auto error = std::abs(a[i] - b[i]);
    if (!(error <= worst) && !std::isnan(worst)) worst = error; // a NaN is the worst
  }
  return worst;
}

/// The same tensors, rounded to bf16.
class bf16_weights : public weights {
public:
  bf16_weights(const config& configuration, const weights& from) {
    for (const auto* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}) add(from, name);
    for (std::uint32_t layer = 0; layer < configuration.layers; ++layer)
      for (const auto* part : {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                               "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm",
                               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
        for (const auto* kind : {".weight", ".bias"})
          add(from, "model.layers." + std::to_string(layer) + "." + part + kind);
    for (std::uint32_t layer = 0; layer < configuration.layers && configuration.mixture.experts > 0; ++layer) {
      add(from, router_name(configuration, layer) + ".weight");
      for (std::uint32_t expert = 0; expert < configuration.mixture.experts; ++expert) {
        const auto [gate, up, down] = names_of_expert(configuration, layer, expert);
        for (const auto& name : {gate, up, down}) add(from, name + ".weight");
      }
    }
  }
  const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second.view;
  }
  std::uint64_t total_bytes() const noexcept override { return total_; }

private:
  struct tensor {
    std::vector<std::uint16_t> values;
    tensor_view view;
  };
  void add(const weights& from, const std::string& name) {
    const auto* source = from.find(name);
    if (!source) return;
    auto& made = tensors_[name];
    made.values.resize(source->bytes / 4);
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, source->data + 4 * i, 4);
      made.values[i] = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
    }
    made.view = {data_type::bf16, source->shape, reinterpret_cast<const std::byte*>(made.values.data()),
                 source->bytes / 2};
    total_ += made.view.bytes;
  }
  std::map<std::string, tensor, std::less<>> tensors_;
  std::uint64_t total_ = 0;
};

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, Fp32LogitsAreWithinOneThousandthOfTheReference) {
  const auto expected = read_golden(GetParam());
  const auto packed = cpu::pack_model(expected.model.configuration, *expected.model.tensors, 1);
  cpu::cpu_executor_settings settings;
  settings.threads = 1;
  for (const std::uint32_t chunk : {0U, 1U, 7U}) {
    const auto logits = cpu::compute_logits(packed, expected.prompt, settings, chunk);
    const auto error = largest_error(logits, expected.logits);
    RecordProperty("error", std::to_string(error));
    EXPECT_LE(error, 1e-3F) << "in chunks of " << chunk;
  }
}

// bf16 keeps 8 bits of a number. Rounding weights, the inputs of linear layers, keys and values to it in the reference
// itself moves these logits (deviation 2.9) by 0.05 on average (root mean square) and by up to 0.57; twice that is
// allowed.
TEST_P(Golden, Bf16LogitsAreCloseToTheFp32Reference) {
  const auto expected = read_golden(GetParam());
  auto configuration = expected.model.configuration;
  configuration.type = data_type::bf16;
  const bf16_weights rounded(configuration, *expected.model.tensors);
  const auto packed = cpu::pack_model(configuration, rounded, 1);
  cpu::cpu_executor_settings settings;
  settings.threads = 1;
  const auto logits = cpu::compute_logits(packed, expected.prompt, settings);
  ASSERT_EQ(logits.size(), expected.logits.size());
  // Where two experts are as good as each other rounding decides: few rows of a mixture are others then.
  const std::size_t width = configuration.vocabulary, rows = expected.prompt.size();
  std::size_t apart = 0;
  double squares = 0.0, worst = 0.0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::vector<float> one(logits.begin() + row * width, logits.begin() + (row + 1) * width);
    const std::vector<float> other(expected.logits.begin() + row * width, expected.logits.begin() + (row + 1) * width);
    const auto error = static_cast<double>(largest_error(one, other));
    if (!(error <= worst) && !std::isnan(worst)) worst = error;
    if (error > 1.2 && configuration.mixture.experts > 0) {
      ++apart;
      continue;
    }
    for (std::size_t i = 0; i < width; ++i) {
      const double difference = static_cast<double>(one[i]) - static_cast<double>(other[i]);
      squares += difference * difference;
    }
  }
  RecordProperty("error", std::to_string(worst));
  EXPECT_LE(worst, configuration.mixture.experts > 0 ? 5.0 : 1.2);
  EXPECT_LE(apart, rows / 8);
  // What a row with another expert left in the KV cache, those after it see, too.
  EXPECT_LE(std::sqrt(squares / static_cast<double>((rows - apart) * width)),
            configuration.mixture.experts > 0 ? 0.2 : 0.1);
}

INSTANTIATE_TEST_SUITE_P(OfEachFamily, Golden,
                         ::testing::Values("llama", "llama3", "llama-linear-biased", "mistral", "qwen2", "qwen3-yarn",
                                           "mixtral", "qwen3-moe"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace godwit::gpu::model
