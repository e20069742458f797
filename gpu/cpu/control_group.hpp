#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace godwit::gpu::cpu {

/// What the control groups of this process, its own and all above it, still let it take; absent where none has a limit.
/// A container, a pod or a service with MemoryMax= is one. Cached files can be dropped and so do not count.
///
/// Version 2 (one tree, memory.max) and version 1 (a tree for each kind, memory.limit_in_bytes). `root`: where the
/// files lie, for tests.
[[nodiscard]] std::optional<std::uint64_t> group_available_bytes(const std::filesystem::path& root = "/");

/// The processors that they let it keep busy, rounded up (cpu.max, cpu.cfs_quota_us): with more threads the kernel
/// stops all of them for the rest of each period. Absent without a limit.
[[nodiscard]] std::optional<std::uint32_t> group_processors(const std::filesystem::path& root = "/");

/// The processors that the calling thread may run on, as taskset, cpusets of containers and AllowedCPUs= say it. Absent
/// where the system does not tell.
[[nodiscard]] std::optional<std::uint32_t> allowed_processors();

} // namespace godwit::gpu::cpu
