#include <godwit/gpu/memory_pool.hpp>

#include <utility>

namespace godwit::gpu {

allocation::allocation(protocols::memory_region region, std::function<void(protocols::memory_region)> release)
    : region_(region), release_(std::move(release)) {}

allocation::allocation(allocation&& other) noexcept
    : region_(std::exchange(other.region_, {})), release_(std::exchange(other.release_, {})) {}

allocation& allocation::operator=(allocation&& other) noexcept {
  std::swap(region_, other.region_);
  std::swap(release_, other.release_);
  return *this;
}

allocation::~allocation() {
  if (release_) release_(region_);
}

} // namespace godwit::gpu
