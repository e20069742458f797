#include "cuda/emulated/device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cuda::emulated {

namespace {

constexpr std::uint64_t alignment = 256; // as cudaMalloc's
constexpr int no_key = -1;
constexpr std::uint32_t stays_open = 8; // times, where closing it takes a call for each piece

std::uint64_t page() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }
std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

} // namespace

device_memory::device_memory(std::uint64_t bytes_max)
    : bytes_max_(bytes_max), key_(pkey_alloc(0, PKEY_DISABLE_ACCESS)) {}

device_memory::~device_memory() {
  for (const auto& [address, one] : device_) munmap(one.mapping, one.mapped);
  for (const auto& [address, one] : pinned_) munmap(one.mapping, one.mapped);
  if (key_ != no_key) pkey_free(key_);
}

void device_memory::protect(const piece& which, bool open) const {
  std::byte* first = which.mapping + page();
  const std::uint64_t bytes = which.mapped - 2 * page();
  if (key_ != no_key)
    pkey_mprotect(first, bytes, PROT_READ | PROT_WRITE, key_);
  else
    mprotect(first, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

std::byte* device_memory::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t taken = round_up(std::max<std::uint64_t>(bytes, 1), alignment);
  if (taken > bytes_max_ - used_) return nullptr;
  piece one;
  one.bytes = bytes;
  one.mapped = round_up(taken, page()) + 2 * page();
  void* mapping = mmap(nullptr, one.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  one.mapping = static_cast<std::byte*>(mapping);
  mprotect(one.mapping + page(), one.mapped - 2 * page(), PROT_READ | PROT_WRITE);
  std::memset(one.mapping + page(), 0xFF, one.mapped - 2 * page());
  protect(one, open_);
  // At the end of its pages, so that what reads on falls off.
  std::byte* address = one.mapping + one.mapped - page() - taken;
  device_.emplace(address, one);
  used_ += taken;
  return address;
}

void device_memory::release(std::byte* address) {
  const std::lock_guard lock(mutex_);
  const auto place = device_.find(address);
  if (place == device_.end()) throw std::runtime_error("device memory is given back that was never taken");
  const piece one = place->second;
  mprotect(one.mapping + page(), one.mapped - 2 * page(), PROT_READ | PROT_WRITE);
  if (key_ != no_key) pkey_mprotect(one.mapping + page(), one.mapped - 2 * page(), PROT_READ | PROT_WRITE, 0);
  const bool intact = std::all_of(one.mapping + page(), address, [](std::byte b) { return b == std::byte{0xFF}; });
  munmap(one.mapping, one.mapped);
  device_.erase(place);
  used_ -= round_up(std::max<std::uint64_t>(one.bytes, 1), alignment);
  if (!intact) throw std::runtime_error("something was written in front of a piece of device memory");
}

std::byte* device_memory::allocate_pinned(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  piece one;
  one.bytes = bytes;
  one.mapped = round_up(std::max<std::uint64_t>(bytes, 1), page());
  void* mapping = mmap(nullptr, one.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  one.mapping = static_cast<std::byte*>(mapping);
  pinned_.emplace(one.mapping, one);
  return one.mapping;
}

void device_memory::release_pinned(std::byte* address) {
  const std::lock_guard lock(mutex_);
  const auto place = pinned_.find(address);
  if (place == pinned_.end()) throw std::runtime_error("pinned memory is given back that was never taken");
  munmap(place->second.mapping, place->second.mapped);
  pinned_.erase(place);
}

bool device_memory::within(const pieces& all, const void* address, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(address);
  auto after = all.upper_bound(at);
  if (after == all.begin()) return false;
  const auto& [first, one] = *std::prev(after);
  return at + bytes <= first + one.bytes;
}

bool device_memory::is_device(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return within(device_, address, bytes);
}

bool device_memory::is_pinned(const void* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return within(pinned_, address, bytes);
}

void device_memory::enter() {
  if (key_ != no_key) {
    pkey_set(key_, 0);
    return;
  }
  const std::lock_guard lock(mutex_);
  ++inside_;
  if (!std::exchange(open_, true))
    for (const auto& [address, one] : device_) protect(one, true);
}

void device_memory::leave() {
  if (key_ != no_key) {
    pkey_set(key_, PKEY_DISABLE_ACCESS);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (--inside_ > 0 || left_++ % stays_open != 0) return;
  open_ = false;
  for (const auto& [address, one] : device_) protect(one, false);
}

std::uint64_t device_memory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_max_ - used_;
}

} // namespace godwit::gpu::cuda::emulated
