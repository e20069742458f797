#pragma once

// simt.hpp for nvcc. Included by it alone.

#include "cuda/driver.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>

#define GODWIT_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define GODWIT_DEVICE __device__ __forceinline__
#define GODWIT_UNROLL _Pragma("unroll")

namespace godwit::gpu::cuda::simt {

inline constexpr unsigned all_lanes = 0xFFFFFFFFU;

GODWIT_DEVICE std::uint32_t thread_index() { return threadIdx.x; }
GODWIT_DEVICE std::uint32_t block_threads() { return blockDim.x; }
GODWIT_DEVICE size3 block_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
GODWIT_DEVICE size3 grid_size() { return {gridDim.x, gridDim.y, gridDim.z}; }
GODWIT_DEVICE std::uint32_t lane() { return threadIdx.x % warp_size; }
GODWIT_DEVICE std::uint32_t warp() { return threadIdx.x / warp_size; }

GODWIT_DEVICE std::byte* shared() {
  extern __shared__ __align__(128) unsigned char memory[];
  return reinterpret_cast<std::byte*>(memory);
}

GODWIT_DEVICE void sync_block() { __syncthreads(); }
GODWIT_DEVICE void sync_warp() { __syncwarp(); }
template <class Value> GODWIT_DEVICE Value shuffle_xor(Value x, std::uint32_t mask) {
  return __shfl_xor_sync(all_lanes, x, mask);
}
template <class Value> GODWIT_DEVICE Value shuffle(Value x, std::uint32_t from) {
  return __shfl_sync(all_lanes, x, from);
}
GODWIT_DEVICE std::uint32_t ballot(bool flag) { return __ballot_sync(all_lanes, flag); }

GODWIT_DEVICE words4 load16(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  return {v.x, v.y, v.z, v.w};
}
/// For what no other block reads again: leaves the first-level cache alone. Read-only while the kernel runs.
GODWIT_DEVICE words4 load16_once(const void* p) {
  words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
GODWIT_DEVICE void store16(void* p, words4 v) { *static_cast<uint4*>(p) = make_uint4(v.x, v.y, v.z, v.w); }

/// As PTX's memory model has it, a volatile store is a relaxed one, which races with no other.
GODWIT_DEVICE void store_alike(float* p, float x) { *static_cast<volatile float*>(p) = x; }

GODWIT_DEVICE unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

/// `really` false: zeros, and `from` is not read.
GODWIT_DEVICE void copy16(void* to, const void* from, bool really) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(really ? 16 : 0)
               : "memory");
}
GODWIT_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of the groups committed so far are under way.
template <int Pending> GODWIT_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

GODWIT_DEVICE float widen(float x) { return x; }
GODWIT_DEVICE float widen(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16U); }
GODWIT_DEVICE float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }

template <class To> struct narrow_to;
template <> struct narrow_to<float> {
  static GODWIT_DEVICE float one(float x) { return x; }
};
template <> struct narrow_to<bf16> {
  static GODWIT_DEVICE bf16 one(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
  static GODWIT_DEVICE std::uint32_t two(float low, float high) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&v);
  }
};
/// Nothing becomes infinite: NaN would come of it in a row, and in the rows that attend to it. NaN stays.
template <> struct narrow_to<f16> {
  static GODWIT_DEVICE float within(float x) { return x > 65504.0F ? 65504.0F : x < -65504.0F ? -65504.0F : x; }
  static GODWIT_DEVICE f16 one(float x) { return {__half_as_ushort(__float2half_rn(within(x)))}; }
  static GODWIT_DEVICE std::uint32_t two(float low, float high) {
    const __half2 v = __floats2half2_rn(within(low), within(high));
    return *reinterpret_cast<const std::uint32_t*>(&v);
  }
};
template <class To> GODWIT_DEVICE To narrow(float x) { return narrow_to<To>::one(x); }
template <class To> GODWIT_DEVICE std::uint32_t pack(float low, float high) { return narrow_to<To>::two(low, high); }

template <class Type>
GODWIT_DEVICE void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
template <>
GODWIT_DEVICE void multiply_add<bf16>(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
GODWIT_DEVICE void multiply_add<f16>(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
               "{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four 8 x 8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, in shared
/// memory), and gets of matrix i elements (row 2 * (l % 4), column l / 4) and the one below it.
GODWIT_DEVICE void load_transposed(std::uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}

/// The same without turning: lane l gets of matrix i elements (row l / 4, columns 2 * (l % 4) and the next).
GODWIT_DEVICE void load_matrices(std::uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}

GODWIT_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
GODWIT_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
GODWIT_DEVICE float div(float a, float b) { return __fdiv_rn(a, b); }
GODWIT_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GODWIT_DEVICE float root(float a) { return __fsqrt_rn(a); }
GODWIT_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
GODWIT_DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
GODWIT_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GODWIT_DEVICE std::uint32_t lowest_bit(std::uint32_t x) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(x)) - 1);
}
GODWIT_DEVICE double natural_log(double x) { return log(x); }
GODWIT_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
GODWIT_DEVICE float float_of(std::uint32_t x) { return __uint_as_float(x); }

GODWIT_DEVICE std::uint32_t add_shared(std::uint32_t* p, std::uint32_t n) { return atomicAdd(p, n); }
/// Shared memory adds 32 bits by itself; 64 would be a loop of compare and swap, which waits for other threads'. Each
/// addition to the lower half that overflows carries one, so the sum is right once all are done.
GODWIT_DEVICE void add_shared(std::uint64_t* p, std::uint64_t n) {
  auto* halves = reinterpret_cast<std::uint32_t*>(p);
  const auto low = static_cast<std::uint32_t>(n);
  const std::uint32_t carry = atomicAdd(halves, low) > ~low ? 1 : 0;
  const std::uint32_t high = static_cast<std::uint32_t>(n >> 32U) + carry;
  if (high != 0) atomicAdd(halves + 1, high);
}

/// Throws driver_error when the driver refuses.
template <class... Parameters, class... Arguments>
void launch(driver_stream& stream, const char* name, void (*kernel)(Parameters...), size3 grid, std::uint32_t threads,
            std::size_t shared_bytes, Arguments... arguments) {
  const auto on = static_cast<cudaStream_t>(stream.native()); // makes its device the thread's
  (void)cudaGetLastError();                                   // what somebody else left is not this launch's
  auto status = cudaSuccess;
  if (shared_bytes > 48 * 1024) {
    const auto* const which = reinterpret_cast<const void*>(kernel);
    status = cudaFuncSetAttribute(which, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    // Room for as many blocks as decode_places reckons with: how much is shared memory is the driver's guess otherwise.
    if (status == cudaSuccess)
      status =
          cudaFuncSetAttribute(which, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  }
  if (status == cudaSuccess) {
    kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes, on>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw driver_error(std::string("kernel ") + name + ": " + cudaGetErrorString(status));
}

} // namespace godwit::gpu::cuda::simt
