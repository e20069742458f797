#include "cpu/packing.hpp"
#include "cuda/emulated/emulated_stream.hpp"
#include "cuda/simt_numbers.hpp"

#include <bit>
#include <cstdint>
#include <vector>

namespace godwit::gpu::cuda::emulated {

namespace {

constexpr std::size_t lanes = 16;

void widen_row(model::data_type type, const std::byte* from, float* to, std::size_t count) {
  if (type != model::data_type::bf16) return cpu::widen_values(type, from, to, count);
  const auto* values = reinterpret_cast<const std::uint16_t*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(std::uint32_t{values[i]} << 16U);
}

float dot(const float* a, const float* b, std::size_t count) {
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

} // namespace

void multiply(const gemm_job& job) {
  const auto* x = static_cast<const std::byte*>(job.x);
  const auto* w = static_cast<const std::byte*>(job.w);
  const std::size_t depth = job.depth, columns = job.columns;
  std::vector<float> left(std::size_t{job.rows} * depth), right(depth);
  widen_row(job.type, x, left.data(), left.size());
  for (std::size_t column = 0; column < columns; ++column) {
    widen_row(job.type, w + column * depth * 2, right.data(), depth);
    for (std::size_t row = 0; row < job.rows; ++row) {
      const float value = dot(left.data() + row * depth, right.data(), depth);
      const std::size_t at = row * columns + column;
      if (job.y_type == model::data_type::f32) {
        float& to = static_cast<float*>(job.y)[at];
        to = job.accumulate ? to + value : value;
      } else {
        static_cast<std::uint16_t*>(job.y)[at] =
            job.y_type == model::data_type::bf16 ? simt::numbers::to_bf16(value) : simt::numbers::to_f16(value);
      }
    }
  }
}

} // namespace godwit::gpu::cuda::emulated
