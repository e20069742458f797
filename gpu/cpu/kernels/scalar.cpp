
#include "cpu/kernels/entries.hpp"

namespace godwit::gpu::cpu {
namespace scalar_isa {
namespace {
#include "cpu/kernels/vector_scalar.hpp"

#include "cpu/kernels/arithmetic.inl"

#include "cpu/kernels/dot.inl"

#include "cpu/kernels/gemm.inl"

#include "cpu/kernels/rows.inl"

#include "cpu/kernels/attention.inl"
} // namespace
#include "cpu/kernels/entries.inl"
} // namespace scalar_isa

const kernel_table scalar_kernels{
    isa::scalar,        scalar_isa::gemm,       scalar_isa::round,         scalar_isa::norm,
    scalar_isa::swiglu, scalar_isa::kv_write,   scalar_isa::attention,     scalar_isa::add,
    scalar_isa::copy,   scalar_isa::add_normed, scalar_isa::exponential_of};

} // namespace godwit::gpu::cpu
