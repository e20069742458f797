#include "ucx/cross_memory.hpp"

#include "ucx/common_parts.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/uio.h>

namespace godwit::transport::ucx {

namespace {

using pairs = common_parts<wire::remote_span>;

// The kernel takes 1024 (IOV_MAX); fewer cost nothing measurable.
constexpr std::size_t spans_per_call = 256;
/// Files of one process: instances that it has had. With more all are mapped anew.
constexpr std::size_t files_max = 64;

bool inside(const wire::mapping& whole, const wire::remote_span& span) {
  return span.address >= whole.address && span.address - whole.address <= whole.bytes &&
         span.bytes <= whole.bytes - (span.address - whole.address);
}

std::string read_by_kernel(std::uint64_t pid, pairs places) {
  std::array<iovec, spans_per_call> here, there;
  for (;;) {
    std::size_t count = 0, bytes = 0;
    while (count < spans_per_call) {
      const auto [from, into, part, span] = places.next();
      if (part == 0) break;
      here[count] = {into, part};
      there[count] = {reinterpret_cast<void*>(from), part};
      ++count;
      bytes += part;
    }
    if (count == 0) return {};
    const auto got = ::process_vm_readv(static_cast<pid_t>(pid), here.data(), count, there.data(), count, 0);
    if (got < 0) return std::string("reading the sender's memory: ") + std::strerror(errno);
    if (static_cast<std::size_t>(got) != bytes) return "the sender's memory ended early";
  }
}

} // namespace

bool can_read(std::uint64_t pid, std::uint64_t address, std::string_view expected) {
  std::array<char, 64> found{};
  if (pid == 0 || expected.empty() || expected.size() > found.size()) return false;
  iovec here{found.data(), expected.size()};
  iovec there{reinterpret_cast<void*>(address), expected.size()};
  const auto count = ::process_vm_readv(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
  return count == static_cast<ssize_t>(expected.size()) && std::string_view(found.data(), expected.size()) == expected;
}

const std::byte* cross_memory::map(const wire::mapping& wanted) {
  auto found = files_.find(wanted.id);
  if (found == files_.end()) {
    auto file = mapped_file::of_process(pid_, wanted.file, wanted.bytes);
    if (!file) return nullptr;
    if (files_.size() == files_max) files_.clear();
    found = files_.emplace(wanted.id, std::move(*file)).first;
  }
  return found->second.bytes() == wanted.bytes ? found->second.data() : nullptr;
}

std::string cross_memory::read(const wire::mapping& within, const std::vector<wire::remote_span>& from,
                               const std::vector<protocols::memory_region>& into) {
  pairs places(from, into);
  const bool shared =
      within.id != 0 && std::ranges::all_of(from, [&](const auto& span) { return inside(within, span); });
  const auto* base = shared ? map(within) : nullptr;
  if (base == nullptr) return read_by_kernel(pid_, places);
  for (auto part = places.next(); part.bytes != 0; part = places.next())
    std::memcpy(part.into, base + (part.from - within.address), part.bytes);
  return {};
}

} // namespace godwit::transport::ucx
