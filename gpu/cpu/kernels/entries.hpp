#pragma once

#include "cpu/kernels/table.hpp"

// The functions behind the tables, by instruction set; amx takes what it does not do better from avx512.
#define GODWIT_KERNEL_ENTRIES                                                                                          \
  void gemm(storage, const gemm_job&);                                                                                 \
  void round(storage, const void*, std::size_t, rounded_rows);                                                         \
  void norm(storage, const norm_job&);                                                                                 \
  void swiglu(storage, const swiglu_job&);                                                                             \
  void kv_write(storage, const kv_write_job&);                                                                         \
  void attention(storage, storage, const attention_job&);                                                              \
  void add(float*, std::size_t, const float*, std::size_t, const float*, std::uint32_t, std::uint32_t);                \
  void copy(float*, std::size_t, const float*, std::size_t, const float*, std::uint32_t, std::uint32_t);               \
  void add_normed(const add_normed_job&);                                                                              \
  void exponential_of(const float*, float*, std::uint32_t);

namespace godwit::gpu::cpu::scalar_isa {
GODWIT_KERNEL_ENTRIES
}
namespace godwit::gpu::cpu::avx2_isa {
GODWIT_KERNEL_ENTRIES
}
namespace godwit::gpu::cpu::avx512_isa {
GODWIT_KERNEL_ENTRIES
}
namespace godwit::gpu::cpu::avx512_vnni_isa {
void gemm(storage, const gemm_job&);
}
#undef GODWIT_KERNEL_ENTRIES
