#include "ucx/cross_memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/uio.h>

namespace godwit::transport::ucx {

namespace {
// The kernel takes 1024 (IOV_MAX); fewer cost nothing measurable.
constexpr std::size_t spans_per_call = 256;
} // namespace

bool can_read(std::uint64_t pid, std::uint64_t address, std::string_view expected) {
  std::array<char, 64> found{};
  if (pid == 0 || expected.empty() || expected.size() > found.size()) return false;
  iovec here{found.data(), expected.size()};
  iovec there{reinterpret_cast<void*>(address), expected.size()};
  const auto count = ::process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
  return count == static_cast<ssize_t>(expected.size()) && std::string_view(found.data(), expected.size()) == expected;
}

std::string read_memory(std::uint64_t pid, const std::vector<wire::remote_span>& from,
                        const std::vector<protocols::memory_region>& into) {
  std::array<iovec, spans_per_call> here, there;
  std::size_t source = 0, target = 0;
  std::uint64_t source_offset = 0, target_offset = 0;
  while (target < into.size() && source < from.size()) {
    // The same number of bytes on both sides, cut wherever either has an end.
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    while (count < spans_per_call && target < into.size() && source < from.size()) {
      const auto part = std::min<std::uint64_t>(from[source].bytes - source_offset, into[target].bytes - target_offset);
      here[count] = {into[target].address + target_offset, static_cast<std::size_t>(part)};
      there[count] = {reinterpret_cast<void*>(from[source].address + source_offset), static_cast<std::size_t>(part)};
      if (part != 0) ++count;
      bytes += part;
      source_offset += part;
      target_offset += part;
      if (source_offset == from[source].bytes) ++source, source_offset = 0;
      if (target_offset == into[target].bytes) ++target, target_offset = 0;
    }
    if (count == 0) break;
    const auto got = ::process_vm_readv(static_cast<pid_t>(pid), here.data(), count, there.data(), count, 0);
    if (got < 0) return std::string("reading the sender's memory: ") + std::strerror(errno);
    if (static_cast<std::uint64_t>(got) != bytes) return "the sender's memory ended early";
  }
  return {};
}

} // namespace godwit::transport::ucx
