#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <cstdint>
#include <memory>

namespace godwit::gpu::cpu {

/// A model's weights in the order in which the CPU kernels read them. Immutable; any number of executors share one.
class packed_model;

/// Reads every tensor once and packs it, on `threads` threads (0: as many as this process may use).
/// Errors (std::runtime_error, one line): a tensor is missing or has another shape than the configuration says, a size
/// that the kernels do not know, too little memory (compared before anything is allocated). The weights are not needed
/// afterwards.
[[nodiscard]] std::shared_ptr<const packed_model> pack_model(const model::config& config, const model::weights& weights,
                                                             std::uint32_t threads = 0);

/// Bytes that the packed weights take.
[[nodiscard]] std::uint64_t packed_bytes(const packed_model& model) noexcept;
[[nodiscard]] const model::config& config_of(const packed_model& model) noexcept;

} // namespace godwit::gpu::cpu
