#include "cuda/step_shape.hpp"

#include <algorithm>
#include <bit>

namespace godwit::gpu::cuda {

namespace {

/// Positions that one block of threads takes at least, so that its start and the joining of parts do not outweigh it.
constexpr std::uint32_t positions_per_part_min = 256;
constexpr std::uint32_t parts_max = 64;
constexpr std::uint32_t query_rows = 16; // that a block of threads takes at once

/// For graphs: few lengths, none more than twice what it stands for.
std::uint32_t length_bucket(std::uint32_t positions, std::uint32_t positions_max) {
  return std::min(std::bit_ceil(std::max(positions, positions_per_part_min)), positions_max);
}

attention_split split_of(const step_shape& shape, const device_model& model, bool deterministic) {
  const auto& c = model.config;
  return decode_split({shape.single_slices, shape.single_positions_max, c.heads, c.kv_heads,
                       decode_places(model.driver->properties(), c.head_size),
                       deterministic ? fixed_part_tokens(c.positions_max) : 0});
}

} // namespace

std::uint32_t fixed_part_tokens(std::uint32_t positions_max) noexcept {
  const std::uint32_t unit = parts_max * 64;
  return std::max(2 * positions_per_part_min, (positions_max + unit - 1) / unit * 64);
}

attention_split decode_split(const decode_shape& shape) noexcept {
  if (shape.fixed_tokens != 0)
    return {(shape.positions_max + shape.fixed_tokens - 1) / shape.fixed_tokens, shape.fixed_tokens};
  const std::uint32_t wanted = decode_parts_max(shape) / std::max(1U, shape.slices);
  const std::uint32_t useful = (shape.positions_max + positions_per_part_min - 1) / positions_per_part_min;
  return {std::clamp(std::min(wanted, useful), 1U, parts_max), 0};
}

std::uint32_t decode_places(const device_properties& device, std::uint32_t head_size) {
  // Of its shared memory a multiprocessor keeps 1 KiB for each block, and gives a single one all the rest. There are
  // registers for as many (`held_at_once` in kernels_decode.cpp).
  constexpr std::uint64_t kept = 1024, most = 4;
  const std::uint64_t all = device.shared_bytes_max + kept;
  const auto each = decode_shared_bytes(head_size, device.shared_bytes_max) + kept;
  return device.multiprocessors * static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all / each, 1, most));
}

std::uint32_t decode_parts_max(const decode_shape& shape) noexcept {
  const std::uint32_t tiles = (shape.heads / shape.kv_heads + query_rows - 1) / query_rows;
  return shape.places / (shape.kv_heads * tiles);
}

std::uint32_t bucket_of(std::uint32_t rows) noexcept {
  return rows <= 32 ? std::bit_ceil(std::max(rows, 1U)) : (rows + 31) / 32 * 32;
}

step_shape shape_of(const cpu::step_plan& plan, const device_model& model, bool deterministic) {
  step_shape shape;
  shape.decodes_only = plan.decodes_only;
  shape.rows = plan.decodes_only ? bucket_of(plan.rows) : plan.rows;
  std::uint32_t single_positions = 0;
  for (const auto& planned : plan.slices) {
    const std::uint32_t end = planned.slice->first_position + planned.rows;
    if (planned.rows == 1) {
      ++shape.single_slices;
      single_positions = std::max(single_positions, end);
    } else {
      ++shape.long_slices;
      shape.long_rows_max = std::max(shape.long_rows_max, planned.rows);
      shape.long_positions_max = std::max(shape.long_positions_max, end);
    }
  }
  if (shape.single_slices == 0) return shape;
  if (shape.decodes_only) shape.single_slices = shape.rows;
  shape.single_positions_max = length_bucket(single_positions, model.config.positions_max);
  shape.split = split_of(shape, model, deterministic);
  return shape;
}

step_shape shape_of_padding(const device_model& model, std::uint32_t positions, bool deterministic) {
  step_shape shape;
  shape.rows = shape.single_slices = shape.long_slices = shape.long_rows_max = 1;
  shape.single_positions_max = shape.long_positions_max = positions;
  shape.split = split_of(shape, model, deterministic);
  return shape;
}

step_shape largest_shape(const device_model& model, std::uint32_t tokens, bool deterministic) {
  step_shape shape;
  shape.rows = std::max(tokens, 1U);
  // Devices that work together should not take memory while others wait for them.
  shape.single_slices = std::min(shape.rows, model.divided() ? 256U : 64U);
  shape.single_positions_max = model.config.positions_max;
  shape.split = split_of(shape, model, deterministic);
  return shape;
}

} // namespace godwit::gpu::cuda
