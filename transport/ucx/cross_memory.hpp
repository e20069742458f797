#pragma once

#include "ucx/mapped_file.hpp"
#include "ucx/wire.hpp"

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Reading another process's memory: one copy, from scattered places to scattered places, made by the receiver's own
/// thread. When the call has returned nothing is written any more, whether the other process runs, stands still or is
/// dead.
namespace godwit::transport::ucx {

/// Whether the process `pid` has `expected` at `address`, and lets us see it. Proves that it is on this host, under the
/// same number as it has there, and that the kernel allows it.
[[nodiscard]] bool can_read(std::uint64_t pid, std::uint64_t address, std::string_view expected);

/// The memory of one such process. What it shares is mapped and copied from; the kernel reads the rest, as UCX's
/// transport `cma` has it.
class cross_memory {
public:
  explicit cross_memory(std::uint64_t pid) : pid_(pid) {}

  /// Fills `into` with the bytes of `from`, in order; both have the same total. The error, or nothing.
  [[nodiscard]] std::string read(const wire::mapping& within, const std::vector<wire::remote_span>& from,
                                 const std::vector<protocols::memory_region>& into);
  [[nodiscard]] std::size_t mapped() const { return files_.size(); }

private:
  /// Null: it cannot be had.
  [[nodiscard]] const std::byte* map(const wire::mapping& wanted);

  std::uint64_t pid_;
  std::map<std::uint64_t, mapped_file> files_; ///< by the id
};

} // namespace godwit::transport::ucx
