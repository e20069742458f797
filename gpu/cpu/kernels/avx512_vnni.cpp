#if defined(__x86_64__)
#include "cpu/kernels/entries.hpp"

#include <immintrin.h>

// Products of codes alone; all else is avx512's.
namespace godwit::gpu::cpu {
namespace avx512_vnni_isa {
namespace {
#define GODWIT_VNNI
#include "cpu/kernels/vector_avx512.hpp"

#include "cpu/kernels/arithmetic.inl"

#include "cpu/kernels/dot.inl"
} // namespace

void gemm(storage kind, const gemm_job& job) {
  rounds_activations(job.code) ? gemm_dot(job) : avx512_isa::gemm(kind, job);
}
} // namespace avx512_vnni_isa

const kernel_table avx512_vnni_kernels{isa::avx512_vnni,       avx512_vnni_isa::gemm,     avx512_isa::round,
                                       avx512_isa::norm,       avx512_isa::swiglu,        avx512_isa::kv_write,
                                       avx512_isa::attention,  avx512_isa::add,           avx512_isa::copy,
                                       avx512_isa::add_normed, avx512_isa::exponential_of};

} // namespace godwit::gpu::cpu
#endif
