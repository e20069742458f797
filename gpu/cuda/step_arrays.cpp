#include "cuda/step_arrays.hpp"

#include <algorithm>

namespace godwit::gpu::cuda {

std::uint64_t table_entries(const cpu::step_plan& plan) noexcept {
  std::uint64_t sum = 0;
  for (const auto& planned : plan.slices) sum += planned.blocks.size();
  return sum;
}

void upload_step(driver_stream& to, const cpu::step_plan& plan, const step_shape& shape, const workspace& memory) {
  const auto& input = memory.input;
  auto* tokens = input.host<std::uint32_t>(workspace::tokens);
  auto* positions = input.host<std::uint32_t>(workspace::positions);
  auto* slots = input.host<std::uint32_t>(workspace::slots);
  auto* single = input.host<attention_slice>(workspace::single_slices);
  auto* longer = input.host<attention_slice>(workspace::long_slices);
  auto* table = input.host<std::uint32_t>(workspace::block_table);
  std::uint32_t singles = 0, longs = 0, entries = 0;
  for (const auto& planned : plan.slices) {
    const attention_slice slice{planned.first_row, planned.rows, planned.slice->first_position, entries};
    (planned.rows == 1 ? single[singles++] : longer[longs++]) = slice;
    for (const std::uint32_t block : planned.blocks) table[entries++] = block;
    for (std::uint32_t t = 0; t < planned.rows; ++t) {
      const std::uint32_t row = planned.first_row + t, position = planned.slice->first_position + t;
      tokens[row] = static_cast<std::uint32_t>(planned.slice->tokens[t]);
      positions[row] = position;
      slots[row] = planned.blocks[position / block_tokens] * block_tokens + position % block_tokens;
    }
  }
  std::fill(tokens + plan.rows, tokens + shape.rows, 0U);
  std::fill(positions + plan.rows, positions + shape.rows, 0U);
  std::fill(slots + plan.rows, slots + shape.rows, no_slot);
  std::fill(single + singles, single + shape.single_slices, attention_slice{});
  input.upload(to, workspace::block_table, std::uint64_t{entries} * sizeof(std::uint32_t));
}

} // namespace godwit::gpu::cuda
