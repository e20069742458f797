#pragma once

#include <cstddef>
#include <cstdint>

/// What no model's configuration goes beyond: a file with more is wrong.
namespace godwit::gpu::model {

inline constexpr std::size_t config_bytes_max = 1U << 20U;
inline constexpr std::uint32_t vocabulary_max = 1U << 22U;
inline constexpr std::uint32_t hidden_max = 1U << 16U;
inline constexpr std::uint32_t intermediate_max = 1U << 20U;
inline constexpr std::uint32_t layers_max = 1024;
inline constexpr std::uint32_t heads_max = 1024;
inline constexpr std::uint32_t head_size_max = 1024;
inline constexpr std::uint32_t experts_max = 1024;
inline constexpr std::uint32_t positions_limit = 1U << 24U;
inline constexpr std::size_t eos_max = 64;

} // namespace godwit::gpu::model
