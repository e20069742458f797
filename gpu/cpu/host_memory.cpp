#include "cpu/host_memory.hpp"

#include "cpu/control_group.hpp"
#include "cpu/shared_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <new>
#include <optional>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace godwit::gpu::cpu {

namespace {

constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

std::optional<std::uint64_t> machine_available() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::uint64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

struct pages {
  std::uint64_t bytes, unit;
};

/// What is taken for `bytes`. Small pieces need no huge page of their own.
pages whole_pages(std::uint64_t bytes) {
  const std::uint64_t unit = bytes >= huge_page ? huge_page : 4096;
  return {std::max<std::uint64_t>((bytes + unit - 1) / unit * unit, unit), unit};
}

} // namespace

std::uint64_t available_memory_bytes() {
  constexpr auto unknown = std::numeric_limits<std::uint64_t>::max();
  return std::min(machine_available().value_or(unknown), group_available_bytes().value_or(unknown));
}

std::string in_words(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text.data();
}

void require_memory(std::uint64_t bytes, std::uint64_t available, const std::string& purpose) {
  if (bytes <= available) return;
  throw out_of_memory("not enough memory for " + purpose + ": " + in_words(bytes) + " needed, " + in_words(available) +
                      " available");
}

host_memory_pool::host_memory_pool(std::uint64_t bytes_max)
    : bytes_max_(bytes_max), used_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

std::uint64_t host_memory_pool::used_bytes() const noexcept { return used_->load(); }

std::uint64_t host_memory_pool::available_bytes() const {
  const std::uint64_t machine = available_memory_bytes();
  if (bytes_max_ == 0) return machine;
  return std::min(machine, bytes_max_ - std::min(bytes_max_, used_->load()));
}

allocation host_memory_pool::allocate_shared(std::uint64_t bytes, const std::string& purpose) {
  const auto [size, unit] = whole_pages(bytes);
  require_memory(size, available_bytes(), purpose);
  auto* start = map_shared(size, unit);
  if (start == nullptr) return allocate(bytes, purpose);
  used_->fetch_add(size);
  return {protocols::memory_region{start, bytes, protocols::memory_kind::host},
          [size = size, used = used_](protocols::memory_region region) {
            unmap_shared(region.address);
            used->fetch_sub(size);
          }};
}

allocation host_memory_pool::allocate(std::uint64_t bytes, const std::string& purpose) {
  const auto [size, unit] = whole_pages(bytes);
  require_memory(size, available_bytes(), purpose);
#if defined(__linux__)
  // The kernel aligns no mapping to huge pages, so one is taken too many and what sticks out is given back.
  const std::uint64_t mapped = size + (unit == huge_page ? huge_page : 0);
  void* base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw out_of_memory("the system refuses " + in_words(size) + " for " + purpose);
  auto* first = static_cast<std::byte*>(base);
  auto* start = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(first) + unit - 1) / unit * unit);
  if (start != first) ::munmap(first, static_cast<std::size_t>(start - first));
  if (first + mapped != start + size) ::munmap(start + size, static_cast<std::size_t>(first + mapped - (start + size)));
  if (unit == huge_page) ::madvise(start, size, MADV_HUGEPAGE);
#else
  auto* start = static_cast<std::byte*>(::operator new (size, std::align_val_t{4096}));
  std::fill_n(start, size, std::byte{});
#endif
  used_->fetch_add(size);
  return {protocols::memory_region{start, bytes, protocols::memory_kind::host},
          [size = size, used = used_](protocols::memory_region region) {
#if defined(__linux__)
            ::munmap(region.address, size);
#else
            ::operator delete (region.address, std::align_val_t{4096});
#endif
            used->fetch_sub(size);
          }};
}

} // namespace godwit::gpu::cpu
