#pragma once

#include "support/fake_device.hpp"
#include "support/shared_pages.hpp"

#include <godwit/transport/fabric.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

/// What the tests of fabrics share: memory in blocks, and callbacks that can be waited for.
namespace godwit::transport::testing {

using namespace std::chrono_literals;
using protocols::memory_region;

/// Many answers, taken in the order in which they came.
template <class T> class answers {
public:
  void put(T value) {
    {
      const std::lock_guard lock{mutex_};
      values_.push_back(std::move(value));
    }
    changed_.notify_all();
  }
  /// Nothing where none comes.
  std::optional<T> next(std::chrono::milliseconds timeout = 10s) {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, timeout, [this] { return taken_ < values_.size(); })) return std::nullopt;
    return values_[taken_++];
  }
  std::size_t count() const {
    const std::lock_guard lock{mutex_};
    return values_.size();
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> values_;
  std::size_t taken_ = 0;
};

using godwit::testing::fake_device;
using godwit::testing::shared_pages;

/// Blocks of memory with holes between them, of the host, of a device, or shared.
class block_memory {
public:
  explicit block_memory(const std::vector<std::size_t>& sizes, unsigned char fill = 0,
                        const std::shared_ptr<fake_device>& device = {},
                        const std::shared_ptr<shared_pages>& pages = {}) {
    for (const auto size : sizes) total_ += size + 32;
    if (device) {
      memory_ = device->allocate(total_);
      bytes_ = device->view(memory_.get(), total_);
    } else if (pages) {
      memory_ = pages->allocate(total_);
      bytes_ = memory_.get();
    } else {
      memory_ = std::shared_ptr<std::byte>(new std::byte[total_], [](const std::byte* back) { delete[] back; });
      bytes_ = memory_.get();
    }
    std::memset(bytes_, fill, total_);
    std::size_t at = 16;
    for (const auto size : sizes) {
      regions_.push_back(
          {memory_.get() + at, size, device ? protocols::memory_kind::device : protocols::memory_kind::host});
      at += size + 32;
    }
  }
  block_memory(std::size_t count, std::size_t bytes, unsigned char fill = 0,
               const std::shared_ptr<fake_device>& device = {}, const std::shared_ptr<shared_pages>& pages = {})
      : block_memory(std::vector<std::size_t>(count, bytes), fill, device, pages) {}

  [[nodiscard]] const std::vector<memory_region>& regions() const { return regions_; }
  /// For `keep`: of a send that fails, a copy may go on for a while.
  [[nodiscard]] std::shared_ptr<void> owner() const { return memory_; }
  [[nodiscard]] std::vector<memory_region> part(std::size_t first, std::size_t count) const {
    return {regions_.begin() + static_cast<std::ptrdiff_t>(first),
            regions_.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
  /// Bytes that depend on the place and the seed.
  void scribble(std::uint64_t seed) {
    std::uint64_t state = seed * 2654435761U + 1;
    for (auto& region : regions_)
      for (std::size_t i = 0; i < region.bytes; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        see(region)[i] = static_cast<std::byte>(state >> 56U);
      }
  }
  void poison(unsigned char value) {
    for (auto& region : regions_) std::memset(see(region), value, region.bytes);
  }
  [[nodiscard]] bool all(unsigned char value) const {
    for (const auto& region : regions_)
      for (std::size_t i = 0; i < region.bytes; ++i)
        if (see(region)[i] != std::byte{value}) return false;
    return true;
  }
  [[nodiscard]] bool holes_untouched(unsigned char fill) const {
    const std::byte* at = bytes_;
    for (const auto& region : regions_) {
      for (; at < see(region); ++at)
        if (*at != std::byte{fill}) return false;
      at += region.bytes;
    }
    return true;
  }
  /// The region's bytes, wherever it lies.
  [[nodiscard]] std::byte* see(const memory_region& region) const { return bytes_ + (region.address - memory_.get()); }
  friend bool same(const block_memory& a, const block_memory& b) {
    for (std::size_t i = 0; i < a.regions_.size(); ++i)
      if (a.regions_[i].bytes != b.regions_[i].bytes ||
          (a.regions_[i].bytes != 0 &&
           std::memcmp(a.see(a.regions_[i]), b.see(b.regions_[i]), a.regions_[i].bytes) != 0))
        return false;
    return true;
  }

private:
  std::size_t total_ = 0;
  std::shared_ptr<std::byte> memory_; ///< where the regions say
  std::byte* bytes_ = nullptr;        ///< where the test sees them
  std::vector<memory_region> regions_;
};

inline std::shared_ptr<answers<landing>> post(fabric& at, transfer_key key, const std::vector<memory_region>& regions,
                                              std::shared_ptr<void> keep = {}) {
  auto told = std::make_shared<answers<landing>>();
  at.post(key, regions, std::move(keep), [told](const landing& l) { told->put(l); });
  return told;
}

inline std::shared_ptr<answers<std::string>> send(fabric& from, const std::string& to, transfer_key key,
                                                  std::uint32_t first, const std::vector<memory_region>& regions,
                                                  transfer_priority priority = transfer_priority::bulk,
                                                  std::chrono::nanoseconds timeout = 10s,
                                                  std::shared_ptr<void> keep = {}) {
  auto told = std::make_shared<answers<std::string>>();
  from.send(to, key, first, regions, priority, timeout, std::move(keep),
            [told](std::string error) { told->put(error); });
  return told;
}

inline bool withdraw(fabric& at, transfer_key key, std::chrono::milliseconds timeout = 10s) {
  auto told = std::make_shared<answers<int>>();
  at.withdraw(key, [told] { told->put(1); });
  return told->next(timeout).has_value();
}

/// GODWIT_TEST_ROUNDS: as often, or as finely, as a night has time for.
inline int times_asked_for() {
  const char* more = std::getenv("GODWIT_TEST_ROUNDS");
  return more == nullptr ? 1 : std::clamp(std::atoi(more), 1, 1000);
}

/// Whether a condition comes true.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout = 10s) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock{mutex};
  for (auto left = timeout; left.count() > 0; left -= 2ms) {
    if (condition()) return true;
    never.wait_for(lock, 2ms);
  }
  return condition();
}

} // namespace godwit::transport::testing
