#pragma once

#include <cstddef>
#include <cstdint>

/// What kernels are written in: under nvcc a thin layer over CUDA's own intrinsics, which costs nothing; under a host
/// compiler an emulator, whose threads are fibers that run in a seeded order (simt_emulator.hpp).
///
/// Kernels live in headers and in kernels_*.cpp. A host compiler takes kernels_*.cpp as they are, for the emulator;
/// nvcc takes kernels_*.cu, each of which includes the .cpp of the same name. simt_emulator.cpp is for the host
/// compiler alone.
///
/// The words, in namespace godwit::gpu::cuda::simt:
///   GODWIT_KERNEL(threads, blocks)   a kernel's qualifier: most threads a block, least blocks a multiprocessor
///   GODWIT_DEVICE                    a device function's
///   GODWIT_UNROLL                    before a loop that indexes registers
///   thread_index() block_index() grid_size() block_threads()      x, y, z where there are several
///   lane() warp()                    of the thread
///   shared()                         the block's dynamic shared memory, 128-byte aligned
///   sync_block() sync_warp()         barriers, which all threads of the block or the warp reach
///   shuffle_xor(x, mask) shuffle(x, lane) ballot(flag)            all 32 lanes together
///   words4, load16(p) load16_once(p) store16(p, x)                16 bytes at once
///   copy16(to, from, really) commit_copies() wait_copies<N>()     global to shared, in the background: what was copied
///                                    is there for the thread itself after the wait, for others after a barrier, too
///   multiply_add<T>(d, a, b)         mma.sync m16n8k16, f32 sums
///   load_matrices(r, p) load_transposed(r, p)                     ldmatrix.x4, ldmatrix.x4.trans
///   bf16 f16, widen(x) narrow<T>(x) pack<T>(low, high)            round to nearest even
///   add mul fma div root             f32 and f64, each rounded by itself: the compiler fuses nothing
///   power_of_two(x)                  fast 2^x
///   store_alike(p, x)                where several threads may store, and all of them x
///   add_shared(p, n)                 atomic sum of whole numbers in shared memory; of 32 bits returns what was there,
///                                    of 64 may be half done until a barrier
///   launch(stream, name, kernel, grid, threads, shared bytes, arguments ...)
namespace godwit::gpu::cuda::simt {

inline constexpr std::uint32_t warp_size = 32;

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

struct size3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct alignas(16) words4 {
  std::uint32_t x, y, z, w;
};

} // namespace godwit::gpu::cuda::simt

#if defined(__CUDACC__)
#include "cuda/simt_cuda.hpp"
#else
#include "cuda/simt_emulated.hpp"
#endif
