#if defined(__x86_64__)
#include "cpu/kernels/entries.hpp"

#include <immintrin.h>

namespace godwit::gpu::cpu {
namespace avx512_isa {
namespace {
#include "cpu/kernels/vector_avx512.hpp"

#include "cpu/kernels/arithmetic.inl"

#include "cpu/kernels/dot.inl"

#include "cpu/kernels/gemm.inl"

#include "cpu/kernels/rows.inl"

#include "cpu/kernels/attention.inl"
} // namespace
#include "cpu/kernels/entries.inl"
} // namespace avx512_isa

const kernel_table avx512_kernels{
    isa::avx512,        avx512_isa::gemm,       avx512_isa::round,         avx512_isa::norm,
    avx512_isa::swiglu, avx512_isa::kv_write,   avx512_isa::attention,     avx512_isa::add,
    avx512_isa::copy,   avx512_isa::add_normed, avx512_isa::exponential_of};

} // namespace godwit::gpu::cpu
#endif
