#pragma once

#include "cpu/kernels.hpp"
#include "cpu/packing.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace godwit::gpu::cpu::testing {

/// Memory as the kernels want it.
template <class T> class aligned {
public:
  explicit aligned(std::size_t count)
      : data_(static_cast<T*>(::operator new[]((count + 64) * sizeof(T), std::align_val_t{64}))), count_(count) {
    std::memset(static_cast<void*>(data_.get()), 0, (count + 64) * sizeof(T));
  }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

private:
  struct release {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], release> data_;
  std::size_t count_;
};

inline std::vector<isa> isas_here() {
  std::vector<isa> all;
  for (const auto kind : {isa::scalar, isa::avx2, isa::avx512, isa::avx512_vnni, isa::amx})
    if (kind <= best_isa()) all.push_back(kind);
  return all;
}

/// Random values of an ordinary size, of wildly different sizes, or in and below the range of denormal numbers.
enum class spread { ordinary, wild, tiny };
inline std::vector<float> random_values(std::size_t count, unsigned seed, float size = 1.0F,
                                        spread kind = spread::ordinary) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (auto& value : values) {
    value = normal(engine) * size;
    if (kind == spread::wild) value = std::ldexp(value, static_cast<int>(engine() % 40) - 20);
    if (kind == spread::tiny) value = std::ldexp(value, -60 - static_cast<int>(engine() % 80));
  }
  return values;
}

inline float as_bf16(float value) { return std::bit_cast<float>(std::uint32_t{narrow_to_bf16(value)} << 16); }

/// A matrix [rows][depth] packed as weights.
inline aligned<std::byte> packed_weights(storage kind, const std::vector<float>& values, std::uint32_t rows,
                                         std::uint32_t depth) {
  std::vector<std::byte> raw(values.size() * bytes_of(kind));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (kind == storage::f32) {
      std::memcpy(&raw[i * 4], &values[i], 4);
    } else {
      const auto half = static_cast<_Float16>(values[i]);
      const std::uint16_t bits = kind == storage::bf16 ? narrow_to_bf16(values[i]) : std::bit_cast<std::uint16_t>(half);
      std::memcpy(&raw[i * 2], &bits, 2);
    }
  const std::size_t panel = std::size_t{round_up(depth, tile_depth)} * lanes * bytes_of(kind);
  const auto type = kind == storage::bf16  ? model::data_type::bf16
                    : kind == storage::f16 ? model::data_type::f16
                                           : model::data_type::f32;
  aligned<std::byte> packed(panel * ((rows + lanes - 1) / lanes) + 65536);
  for (std::uint32_t row = 0; row < rows; row += lanes) {
    source_row sources[lanes];
    for (std::uint32_t c = 0; c < lanes && row + c < rows; ++c)
      sources[c] = {raw.data() + std::size_t{row + c} * depth * bytes_of(kind), type};
    pack_panel(kind, sources, depth, packed.data() + row / lanes * panel);
  }
  return packed;
}

struct shape {
  std::uint32_t rows, columns, depth;
};

/// Of rows and packed weights, in codes or not.
inline std::vector<float> product(isa kind, storage weights, const std::vector<float>& x,
                                  const aligned<std::byte>& packed, shape s, bool fetch_ahead = false,
                                  coding code = coding::none) {
  const flush_denormals flushing;
  const std::uint32_t depth = round_up(s.depth, tile_depth), columns = round_up(s.columns, lanes);
  const storage activations = activations_for(weights);
  aligned<std::byte> a(std::size_t{round_up(s.rows, lanes)} * depth * 4);
  aligned<std::byte> scratch(gemm_scratch_bytes(std::min(s.rows, gemm_rows_max), depth));
  aligned<std::byte> decoded(decoded_bytes(weights, depth));
  aligned<float> y(std::size_t{s.rows} * columns);
  pack_activations(activations, x.data(), s.rows, s.depth, a.data());
  aligned<std::byte> room(rounded_bytes(s.rows, depth));
  const auto rounded = rounded_in(room.data(), s.rows, depth);
  kernels_for(kind).round(activations, a.data(), std::size_t{s.rows} * (depth / tile_depth), rounded);
  for (std::uint32_t row = 0; row < s.rows; row += gemm_rows_max) {
    gemm_job job;
    job.a = a.data() + std::size_t{row} * depth * bytes_of(activations);
    job.rounded = rounded.from(std::size_t{row} * (depth / tile_depth));
    job.rows = std::min(gemm_rows_max, s.rows - row);
    job.depth = depth;
    job.w = packed.data();
    job.panels = columns / lanes;
    job.y = y.data() + std::size_t{row} * columns;
    job.y_stride = columns;
    job.scratch = scratch.data();
    job.code = code;
    job.decoded = decoded.data();
    job.fetch_ahead = fetch_ahead;
    kernels_for(kind).gemm(weights, job);
    job.read = true; // and once more, of what that has made of the activations
    if (s.rows <= lanes) kernels_for(kind).gemm(weights, job);
  }
  std::vector<float> out;
  for (std::uint32_t m = 0; m < s.rows; ++m)
    for (std::uint32_t n = 0; n < s.columns; ++n) out.push_back(y[std::size_t{m} * columns + n]);
  return out;
}

inline bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

} // namespace godwit::gpu::cpu::testing
