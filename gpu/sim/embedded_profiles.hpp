#pragma once

#include <span>
#include <string_view>

namespace godwit::gpu::sim {

struct embedded_profile {
  std::string_view name;
  std::string_view text;
};
/// The files of gpu/sim/profiles, sorted by name; CMake writes them into a source file of the build.
[[nodiscard]] std::span<const embedded_profile> embedded_profiles() noexcept;

} // namespace godwit::gpu::sim
