#if defined(__x86_64__)
#include "cpu/kernels/entries.hpp"

#include <immintrin.h>

namespace godwit::gpu::cpu {
namespace avx2_isa {
namespace {
#include "cpu/kernels/vector_avx2.hpp"

#include "cpu/kernels/arithmetic.inl"

#include "cpu/kernels/dot.inl"

#include "cpu/kernels/gemm.inl"

#include "cpu/kernels/rows.inl"

#include "cpu/kernels/attention.inl"
} // namespace
#include "cpu/kernels/entries.inl"
} // namespace avx2_isa

const kernel_table avx2_kernels{isa::avx2,        avx2_isa::gemm,       avx2_isa::round,         avx2_isa::norm,
                                avx2_isa::swiglu, avx2_isa::kv_write,   avx2_isa::attention,     avx2_isa::add,
                                avx2_isa::copy,   avx2_isa::add_normed, avx2_isa::exponential_of};

} // namespace godwit::gpu::cpu
#endif
