#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::gpu::cpu {

/// Instruction sets that the kernels are written for, weakest first. All give bitwise the same results; they differ in
/// speed.
enum class isa : std::uint8_t {
  scalar,      ///< plain C++: the definition of what the others compute; very slow
  avx2,        ///< AVX2, FMA, F16C
  avx512,      ///< AVX-512 F, BW, VL, DQ
  avx512_vnni, ///< AVX-512 with VNNI, for codes of four and eight bits
  amx          ///< these and AMX tiles of bf16 and int8
};

[[nodiscard]] std::string to_string(isa value);
[[nodiscard]] std::optional<isa> parse_isa(std::string_view name) noexcept;
/// The best one that this machine has and the operating system lets us use.
[[nodiscard]] isa best_isa() noexcept;

} // namespace godwit::gpu::cpu
