#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace godwit::gpu::cpu {

/// A model's weights, or one device's part of them, in the order in which the CPU kernels read them. Immutable; any
/// number of executors share one.
class packed_model;

/// Reads every tensor once and packs it, on `threads` threads (0: as many as this process may use).
/// `part`: what of it, for devices that run it together: its heads, its columns of the MLP, its tokens' logits; norms
/// and embeddings are everywhere. `stage`: which layers, for devices that run one behind the other; not both.
/// `stop`: may become true at any time, from any thread, and ends the work within milliseconds; null: nobody stops it.
/// Errors (std::runtime_error, one line): it was stopped, a tensor is missing or has another shape than the
/// configuration says, a size that the kernels do not know, a degree that does not fit, too little memory (compared
/// before anything is allocated). The weights are not needed afterwards.
[[nodiscard]] std::shared_ptr<const packed_model>
pack_model(const model::config& config, const model::weights& weights, std::uint32_t threads = 0,
           tensor_parallel::place part = {}, const std::atomic<bool>* stop = nullptr, pipeline::stage stage = {});
/// All parts, in the order of the ranks.
[[nodiscard]] std::vector<std::shared_ptr<const packed_model>>
pack_shards(const model::config& config, const model::weights& weights, std::uint32_t degree, std::uint32_t threads = 0,
            const std::atomic<bool>* stop = nullptr);
/// All stages (pipeline::cut_layers), in their order.
[[nodiscard]] std::vector<std::shared_ptr<const packed_model>>
pack_stages(const model::config& config, const model::weights& weights, std::span<const pipeline::stage> stages,
            std::uint32_t threads = 0, const std::atomic<bool>* stop = nullptr);

/// Bytes that the packed weights take.
[[nodiscard]] std::uint64_t packed_bytes(const packed_model& model) noexcept;
/// Of the whole model.
[[nodiscard]] const model::config& config_of(const packed_model& model) noexcept;

} // namespace godwit::gpu::cpu
