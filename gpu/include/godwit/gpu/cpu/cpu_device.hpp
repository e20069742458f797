#pragma once

#include <godwit/gpu/cpu/isa.hpp>
#include <godwit/gpu/device.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace godwit::gpu::cpu {

/// Threads that this process may keep busy: the processors that it may run on, and no more than its control groups give
/// it time for. 1 .. 1024.
[[nodiscard]] std::uint32_t usable_threads();

/// Bytes that this process could still take: what the kernel calls available, and no more than its control group
/// leaves.
[[nodiscard]] std::uint64_t available_memory_bytes();

struct cpu_device_settings {
  /// Threads that compute, 1 .. 1024. 0: as many as this process may use.
  std::uint32_t threads = 0;
  /// Absent: the best one. Throws std::invalid_argument for one that this machine lacks.
  std::optional<cpu::isa> isa = {};
  /// Bound of the memory pool. 0: what the machine has available.
  std::uint64_t memory_bytes_max = 0;
};

/// A device made of threads: a leader, who takes work from the streams, and helpers, who share the big loops with it.
/// Idle threads sleep. Threads are not pinned; several devices may share the cores.
[[nodiscard]] std::unique_ptr<device> make_cpu_device(const cpu_device_settings& settings);

} // namespace godwit::gpu::cpu
