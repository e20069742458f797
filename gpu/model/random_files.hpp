#pragma once

#include "model/tensor_list.hpp"

#include <godwit/gpu/model/config.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::gpu::model {

/// config.json of a configuration; reading it gives the configuration back.
[[nodiscard]] std::string config_text(const config& configuration);
/// A byte-level tokenizer.json with exactly `vocabulary` ids: three special tokens (as the default model's), 256 bytes,
/// and merges of small letters (aa, ab, ..., aaa, ...) up to the rest. At least 259.
[[nodiscard]] std::string tokenizer_text(std::uint32_t vocabulary);
[[nodiscard]] std::string generation_config_text();
[[nodiscard]] std::string tokenizer_config_text();
/// Header of a safetensors file of tensors in bf16, with its length in front.
[[nodiscard]] std::string safetensors_header(const std::vector<tensor_need>& tensors);

} // namespace godwit::gpu::model
