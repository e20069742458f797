#pragma once

// simt.hpp for host compilers.

#include "cuda/driver.hpp"
#include "cuda/simt_emulator.hpp"
#include "cuda/simt_numbers.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#define GODWIT_KERNEL(threads, blocks) void
#define GODWIT_DEVICE inline
#define GODWIT_UNROLL

namespace godwit::gpu::cuda::simt {

inline std::uint32_t thread_index() { return emulator::here().thread; }
inline std::uint32_t block_threads() { return emulator::whole().threads; }
inline size3 block_index() {
  const auto& block = emulator::here().block;
  return {block[0], block[1], block[2]};
}
inline size3 grid_size() {
  const auto& grid = emulator::whole().grid;
  return {grid[0], grid[1], grid[2]};
}
inline std::uint32_t lane() { return thread_index() % warp_size; }
inline std::uint32_t warp() { return thread_index() / warp_size; }
inline std::byte* shared() { return emulator::shared_memory(); }

inline void sync_block() { emulator::barrier(); }
inline void sync_warp() { static_cast<void>(emulator::meet(emulator::meeting::sync, nullptr, 0)); }

template <class Value> Value shuffle(Value x, std::uint32_t from) {
  const auto* all = emulator::meet(emulator::meeting::shuffle, &x, sizeof x);
  Value result;
  std::memcpy(&result, all + std::size_t{from % warp_size} * 64, sizeof result);
  return result;
}
template <class Value> Value shuffle_xor(Value x, std::uint32_t mask) { return shuffle(x, lane() ^ mask); }
inline std::uint32_t ballot(bool flag) {
  const auto* all = emulator::meet(emulator::meeting::ballot, &flag, sizeof flag);
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < warp_size; ++i)
    if (all[std::size_t{i} * 64] != std::byte{}) result |= 1U << i;
  return result;
}

inline words4 load16(const void* p) {
  emulator::check_aligned(p, 16);
  words4 result;
  std::memcpy(&result, p, 16);
  return result;
}
inline words4 load16_once(const void* p) { return load16(p); }
inline void store16(void* p, words4 x) {
  emulator::check_aligned(p, 16);
  std::memcpy(p, &x, 16);
}

inline void store_alike(float* p, float x) { __atomic_store(p, &x, __ATOMIC_RELAXED); }

inline void copy16(void* to, const void* from, bool really) {
  emulator::check_shared(to, 16);
  emulator::check_aligned(to, 16);
  if (really) emulator::check_aligned(from, 16);
  emulator::copy_later(to, really ? from : nullptr);
}
inline void commit_copies() { emulator::commit_later(); }
template <int Pending> void wait_copies() { emulator::wait_later(Pending); }

inline float widen(float x) { return x; }
inline float widen(bf16 x) { return numbers::from_bf16(x.bits); }
inline float widen(f16 x) { return numbers::from_f16(x.bits); }
template <class To> To narrow(float x);
template <> inline float narrow<float>(float x) { return x; }
template <> inline bf16 narrow<bf16>(float x) { return {numbers::to_bf16(x)}; }
/// As on the device (simt_cuda.hpp): nothing becomes infinite, NaN stays.
template <> inline f16 narrow<f16>(float x) {
  return {numbers::to_f16(x > 65504.0F ? 65504.0F : x < -65504.0F ? -65504.0F : x)};
}
template <class To> std::uint32_t pack(float low, float high) {
  return narrow<To>(low).bits | static_cast<std::uint32_t>(narrow<To>(high).bits) << 16U;
}

/// Lane l holds, with g = l / 4 and t = l % 4: of A (16 x 16) rows g and g + 8, columns 2t, 2t + 1 and 2t + 8, 2t + 9;
/// of B (16 x 8) column g, rows 2t, 2t + 1 and 2t + 8, 2t + 9; of D (16 x 8) rows g and g + 8, columns 2t, 2t + 1
/// (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). The products of an element are summed one
/// after the other, k rising, onto D.
template <class Type> void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const std::uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  const auto* all = emulator::meet(emulator::meeting::multiply, mine, sizeof mine);
  const auto word = [&](std::uint32_t of, std::uint32_t index) {
    std::uint32_t result;
    std::memcpy(&result, all + std::size_t{of} * 64 + std::size_t{index} * 4, 4);
    return result;
  };
  const auto value = [](std::uint32_t pair, std::uint32_t which) {
    return widen(Type{static_cast<std::uint16_t>(pair >> (16 * which))});
  };
  const std::uint32_t g = lane() / 4, t = lane() % 4;
  for (std::uint32_t quarter = 0; quarter < 8; ++quarter) {
    // k = 2 * quarter and the next: held by lanes whose t is quarter % 4, in the first or the second half of k
    const std::uint32_t holder = quarter % 4, half = quarter / 4;
    const std::uint32_t upper = word(g * 4 + holder, half * 2), lower = word(g * 4 + holder, half * 2 + 1);
    const std::uint32_t first = word(2 * t * 4 + holder, 4 + half), second = word((2 * t + 1) * 4 + holder, 4 + half);
    for (std::uint32_t which = 0; which < 2; ++which) {
      // The product of two 16-bit floats is exact in f32 save at its ends, where it does not matter here.
      d[0] += value(upper, which) * value(first, which);
      d[1] += value(upper, which) * value(second, which);
      d[2] += value(lower, which) * value(first, which);
      d[3] += value(lower, which) * value(second, which);
    }
  }
}

inline void load_transposed(std::uint32_t (&r)[4], const void* p) {
  emulator::check_shared(p, 16);
  const words4 row = load16(p);
  const auto* all = emulator::meet(emulator::meeting::load_matrix, &row, sizeof row);
  for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t values[2];
    for (std::uint32_t i = 0; i < 2; ++i)
      std::memcpy(&values[i], all + (std::size_t{matrix} * 8 + 2 * (lane() % 4) + i) * 64 + std::size_t{lane() / 4} * 2,
                  2);
    r[matrix] = values[0] | static_cast<std::uint32_t>(values[1]) << 16U;
  }
}

inline void load_matrices(std::uint32_t (&r)[4], const void* p) {
  emulator::check_shared(p, 16);
  const words4 row = load16(p);
  const auto* all = emulator::meet(emulator::meeting::load_matrix, &row, sizeof row);
  for (std::uint32_t matrix = 0; matrix < 4; ++matrix)
    std::memcpy(&r[matrix], all + (std::size_t{matrix} * 8 + lane() / 4) * 64 + std::size_t{lane() % 4} * 4, 4);
}

inline float add(float a, float b) { return a + b; }
inline float mul(float a, float b) { return a * b; }
inline float div(float a, float b) { return a / b; }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float root(float a) { return std::sqrt(a); }
inline double add(double a, double b) { return a + b; }
inline double mul(double a, double b) { return a * b; }
inline float power_of_two(float x) { return std::exp2(x); }
inline std::uint32_t lowest_bit(std::uint32_t x) { return static_cast<std::uint32_t>(std::countr_zero(x)); }
inline double natural_log(double x) { return std::log(x); }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t x) { return std::bit_cast<float>(x); }

template <class Number> Number add_shared(Number* p, Number n) {
  emulator::check_shared(p, sizeof *p);
  return __atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

/// Runs on the stream; every launch in its own order, the same in every run of a test. Throws driver_error for a block
/// with more shared memory than the stream's device has.
template <class... Parameters, class... Arguments>
void launch(driver_stream& stream, const char* name, void (*kernel)(Parameters...), size3 grid, std::uint32_t threads,
            std::size_t shared_bytes, Arguments... arguments) {
  if (shared_bytes > stream.shared_bytes_max())
    throw driver_error(std::string("kernel ") + name + ": a block wants " + std::to_string(shared_bytes) +
                       " bytes of shared memory; the device has " + std::to_string(stream.shared_bytes_max()));
  emulator::shape wanted;
  wanted.grid[0] = grid.x;
  wanted.grid[1] = grid.y;
  wanted.grid[2] = grid.z;
  wanted.threads = threads;
  wanted.shared_bytes = shared_bytes;
  stream.run(name, [=] { emulator::run(wanted, 0x9E3779B97F4A7C15U ^ threads, [&] { kernel(arguments...); }); });
}

} // namespace godwit::gpu::cuda::simt
