#pragma once

#include <godwit/gpu/executor.hpp>

#include <cstdint>
#include <memory>

namespace godwit::gpu {

/// A replica with a draft model beside it (executor::draft). Its steps are the model's own; whoever runs them runs the
/// draft model's before (protocols/batching/drafting.hpp). It says of its blocks what both have of them, and its swap
/// space takes both; its context is the shorter one of the two. The draft model is on one device, whatever the model's
/// are.
///
/// Throws std::invalid_argument where either is null, the draft model is divided or has one itself, or has fewer
/// blocks.
[[nodiscard]] std::unique_ptr<executor> make_drafted_executor(std::shared_ptr<executor> model,
                                                              std::shared_ptr<executor> draft);

/// How much of `bytes`, for blocks of both, falls to the model's. Both in bytes of a block.
[[nodiscard]] std::uint64_t share_beside_draft(std::uint64_t bytes, std::uint64_t model_block,
                                               std::uint64_t draft_block) noexcept;

} // namespace godwit::gpu
