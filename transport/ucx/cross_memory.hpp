#pragma once

#include "ucx/wire.hpp"

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Reading another process's memory, as UCX's transport `cma` does: one copy, from scattered places to scattered
/// places, made by the receiver's own thread. When the call has returned nothing is written any more, whether the other
/// process runs, stands still or is dead.
namespace godwit::transport::ucx {

/// Whether the process `pid` has `expected` at `address`, and lets us see it. Proves that it is on this host, under the
/// same number as it has there, and that the kernel allows it.
[[nodiscard]] bool can_read(std::uint64_t pid, std::uint64_t address, std::string_view expected);

/// Fills `into` with the bytes of `from`, in order; both have the same total. The error, or nothing.
[[nodiscard]] std::string read_memory(std::uint64_t pid, const std::vector<wire::remote_span>& from,
                                      const std::vector<protocols::memory_region>& into);

} // namespace godwit::transport::ucx
