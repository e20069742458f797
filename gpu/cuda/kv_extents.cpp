#include "cuda/kv_extents.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

struct registry {
  std::mutex mutex;
  std::map<const std::byte*, protocols::memory_extent> all; ///< by where they begin
  std::uint64_t last_id = 0;
};
// Not destroyed: a cache may go later than what is static here.
registry& known() {
  static auto* const one = new registry;
  return *one;
}

} // namespace

kv_extent::kv_extent(std::byte* address, std::size_t bytes, bool takes_writes) : address_(address) {
  auto& to = known();
  const std::lock_guard lock(to.mutex);
  to.all[address] = {id_ = ++to.last_id, address, bytes, takes_writes};
}

kv_extent::kv_extent(kv_extent&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), id_(std::exchange(other.id_, 0)) {}

kv_extent& kv_extent::operator=(kv_extent&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(id_, other.id_);
  return *this;
}

kv_extent::~kv_extent() {
  if (address_ == nullptr) return;
  auto& from = known();
  const std::lock_guard lock(from.mutex);
  const auto found = from.all.find(address_);
  if (found != from.all.end() && found->second.id == id_) from.all.erase(found); // else another one lies there
}

std::optional<protocols::memory_extent> kv_extent::around(const std::byte* address) {
  auto& in = known();
  const std::lock_guard lock(in.mutex);
  const auto after = in.all.upper_bound(address);
  if (after == in.all.begin()) return std::nullopt;
  const auto& found = std::prev(after)->second;
  if (address >= found.address + found.bytes) return std::nullopt;
  return found;
}

} // namespace godwit::gpu::cuda
