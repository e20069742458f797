#pragma once

#include <godwit/gpu/model/adapter.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

/// What PEFT calls the parts of an adapter.
namespace godwit::gpu::model {

inline constexpr auto adapter_config_file = "adapter_config.json";
inline constexpr auto adapter_tensors_file = "adapter_model.safetensors";
inline constexpr std::size_t adapter_config_bytes_max = 1U << 20U;

/// "q_proj"
[[nodiscard]] std::string_view adapter_module(projection which) noexcept;
/// Of "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight", where `matrix` is 'A' or 'B'.
[[nodiscard]] std::string adapter_tensor(std::uint32_t layer, projection which, char matrix);
/// Outputs and inputs of the matrix that it adds to.
[[nodiscard]] std::pair<std::uint64_t, std::uint64_t> shape_of(const config& model, projection which) noexcept;

} // namespace godwit::gpu::model
