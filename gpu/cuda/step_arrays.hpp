#pragma once

#include "cpu/step_plan.hpp"
#include "cuda/driver.hpp"
#include "cuda/step_shape.hpp"
#include "cuda/workspace.hpp"

#include <cstdint>

namespace godwit::gpu::cuda {

/// Entries that a step's block tables have together.
[[nodiscard]] std::uint64_t table_entries(const cpu::step_plan& plan) noexcept;

/// What the layers of a step read: tokens, positions, places of their KV, slices, block tables. Padding rows have no
/// place and belong to slices of no rows. One copy.
void upload_step(driver_stream& to, const cpu::step_plan& plan, const step_shape& shape, const workspace& memory);

} // namespace godwit::gpu::cuda
