#include "cpu/kernels.hpp"

#include <stdexcept>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace godwit::gpu::cpu {

const kernel_table& kernels_for(std::optional<isa> wanted) {
  const isa best = best_isa();
  const isa chosen = wanted.value_or(best);
  if (chosen > best)
    throw std::invalid_argument("this machine has no " + to_string(chosen) + "; the best it has is " + to_string(best));
#if defined(__x86_64__)
  switch (chosen) {
  case isa::scalar:
    return scalar_kernels;
  case isa::avx2:
    return avx2_kernels;
  case isa::avx512:
    return avx512_kernels;
  case isa::avx512_vnni:
    return avx512_vnni_kernels;
  case isa::amx:
    return amx_kernels;
  }
#endif
  return scalar_kernels;
}

bool fetches_ahead() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") == 0;
#else
  return false;
#endif
}

#if defined(__x86_64__)
flush_denormals::flush_denormals() noexcept : before_(_mm_getcsr()) {
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40;
  _mm_setcsr(before_ | flush_to_zero | denormals_are_zero);
}
flush_denormals::~flush_denormals() { _mm_setcsr(before_); }
#else
flush_denormals::flush_denormals() noexcept = default;
flush_denormals::~flush_denormals() = default;
#endif

} // namespace godwit::gpu::cpu
