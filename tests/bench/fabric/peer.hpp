#pragma once

#include "support/child.hpp"

#include <godwit/gpu/device.hpp>
#include <godwit/transport/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace godwit::bench {

/// As a node makes it; without shared memory, blocks go over TCP as between hosts.
[[nodiscard]] std::shared_ptr<transport::fabric> make_bench_fabric(bool shared_memory);

/// Memory like that which `ucx_perftest` gives itself, enough for the largest list, at the start of a page: over shared
/// memory such as both processes can map, as a KV pool is; over TCP huge pages.
class bench_memory {
public:
  /// `written`: every byte is.
  bench_memory(bool shared_memory, bool written);
  bench_memory(const bench_memory&) = delete;
  bench_memory& operator=(const bench_memory&) = delete;
  ~bench_memory();
  /// `total` bytes in regions that are neighbours nowhere and in no order of their addresses.
  [[nodiscard]] std::vector<protocols::memory_region> scattered(std::size_t total, std::size_t bytes_per_region) const;

private:
  std::shared_ptr<gpu::device> device_; ///< has the memory, where it is shared
  gpu::allocation pool_;
  void* mapping_ = nullptr; ///< the memory, otherwise
  std::byte* start_ = nullptr;
};

/// The process that receives.
class fabric_peer {
public:
  explicit fabric_peer(bool shared_memory);
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Postings `first` .. `first + count - 1`, all into the same memory.
  void post(std::uint64_t first, std::uint32_t count, std::size_t total, std::size_t bytes_per_region);
  void withdraw(std::uint64_t first, std::uint32_t count);

private:
  child process_;
  std::string address_;
};
/// What that process does.
int serve_as_peer(bool shared_memory);

} // namespace godwit::bench
