#pragma once

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/memory_pool.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace godwit::gpu::cpu {

/// "1.5 GiB"
[[nodiscard]] std::string in_words(std::uint64_t bytes);
/// Throws `out_of_memory` where `bytes` do not fit into `available`.
void require_memory(std::uint64_t bytes, std::uint64_t available, const std::string& purpose);

/// Host memory in huge pages, bounded. Shared by the allocations it makes, which may outlive the device.
class host_memory_pool final : public memory_pool {
public:
  /// 0: bounded by the machine only.
  explicit host_memory_pool(std::uint64_t bytes_max);
  [[nodiscard]] allocation allocate(std::uint64_t bytes, const std::string& purpose) override;
  [[nodiscard]] allocation allocate_shared(std::uint64_t bytes, const std::string& purpose) override;
  [[nodiscard]] std::uint64_t used_bytes() const noexcept override;
  [[nodiscard]] std::uint64_t available_bytes() const override;

private:
  std::uint64_t bytes_max_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;
};

} // namespace godwit::gpu::cpu
