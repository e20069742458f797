#include <godwit/gpu/cpu/isa.hpp>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace godwit::gpu::cpu {

namespace {

#if defined(__x86_64__)
/// The kernel gives the tiles' state (8 KB a thread) only to processes that ask for it.
bool amx_granted() noexcept {
#if defined(__linux__)
  constexpr long arch_req_xcomp_perm = 0x1023, xfeature_xtiledata = 18;
  return ::syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
#else
  return false;
#endif
}

bool has_amx() noexcept {
  // g++ 12's __builtin_cpu_supports knows no AMX. Leaf 7: EDX bit 22 AMX-BF16, bit 24 AMX-TILE, bit 25 AMX-INT8.
  std::uint32_t eax = 7, ebx = 0, ecx = 0, edx = 0;
  __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (edx >> 22 & 1U) != 0 && (edx >> 24 & 1U) != 0 && (edx >> 25 & 1U) != 0;
}
#endif

} // namespace

std::string to_string(isa value) {
  switch (value) {
  case isa::scalar:
    return "scalar";
  case isa::avx2:
    return "avx2";
  case isa::avx512:
    return "avx512";
  case isa::avx512_vnni:
    return "avx512_vnni";
  case isa::amx:
    return "amx";
  }
  return "unknown";
}

std::optional<isa> parse_isa(std::string_view name) noexcept {
  if (name == "scalar") return isa::scalar;
  if (name == "avx2") return isa::avx2;
  if (name == "avx512") return isa::avx512;
  if (name == "avx512_vnni") return isa::avx512_vnni;
  if (name == "amx") return isa::amx;
  return std::nullopt;
}

isa best_isa() noexcept {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return isa::scalar;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return isa::avx2;
  if (!__builtin_cpu_supports("avx512vnni")) return isa::avx512;
  return has_amx() && amx_granted() ? isa::amx : isa::avx512_vnni;
#else
  return isa::scalar;
#endif
}

} // namespace godwit::gpu::cpu
