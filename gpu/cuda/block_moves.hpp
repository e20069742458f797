#pragma once

#include "cuda/driver.hpp"
#include "cuda/kv_pool.hpp"
#include "cuda/workspace.hpp"

#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace godwit::gpu::cuda {

/// Cuts copies, which are to run one after the other, into runs within which they may all run at once: none reads or
/// writes what another one of its run writes. Returns how many each has.
[[nodiscard]] std::vector<std::uint32_t> independent_runs(std::span<const protocols::block_copy> copies);

/// Copies blocks, all layers of them. There is room for copies.size() * layers moves.
void move_blocks(driver_stream& to, std::span<const protocols::block_copy> copies, const kv_pool& kv,
                 std::uint32_t layers, const workspace& memory);

} // namespace godwit::gpu::cuda
