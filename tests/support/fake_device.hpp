#pragma once

#include <godwit/protocols/messages/memory_copier.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

/// A device that has memory and copies, and nothing else: for tests of what moves a device's memory.
///
/// Its addresses trap when the host touches them, as a GPU's do (but for one that is `reachable`, as by an adapter of
/// the network that knows devices). A second mapping of the same pages, which only the copier and the tests' own looks
/// use, is where the bytes are.
namespace godwit::testing {

[[noreturn]] inline void broken(const std::string& what) {
  std::fprintf(stderr, "fake device: %s\n", what.c_str());
  std::abort();
}

class fake_device : public std::enable_shared_from_this<fake_device> {
public:
  explicit fake_device(bool reachable = false) : reachable_(reachable) {}

  /// Zeroed; at the device's address. Given back with the last copy of the pointer: what is copied later is found out.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) {
    const auto size = (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096;
    const int file = ::memfd_create("fake-device", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) broken("no memory");
    auto* const trap = ::mmap(nullptr, size, reachable_ ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, 0);
    auto* const view = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (trap == MAP_FAILED || view == MAP_FAILED) broken("no address space");
    auto* const address = static_cast<std::byte*>(trap);
    {
      const std::lock_guard lock{mutex_};
      pieces_[address] = {static_cast<std::byte*>(view), size, ++last_id_};
    }
    return {address, [self = shared_from_this(), size, view](std::byte* back) {
              {
                const std::lock_guard lock{self->mutex_};
                self->pieces_.erase(back);
              }
              ::munmap(back, size);
              ::munmap(view, size);
            }};
  }

  /// Addresses of the device for memory that is there already: what its owner computes with is what is copied.
  [[nodiscard]] std::shared_ptr<std::byte> adopt(std::byte* view, std::size_t bytes) {
    auto* const trap =
        reachable_ ? view : ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trap == MAP_FAILED) broken("no address space");
    const std::lock_guard lock{mutex_};
    auto* const address = static_cast<std::byte*>(trap);
    pieces_[address] = {view, bytes, ++last_id_};
    return {address, [self = shared_from_this(), bytes](std::byte* back) {
              {
                const std::lock_guard guard{self->mutex_};
                self->pieces_.erase(back);
              }
              if (!self->reachable_) ::munmap(back, bytes);
            }};
  }

  /// Where the bytes of a region are that lies on this device.
  [[nodiscard]] std::byte* view(const std::byte* address, std::size_t bytes) const {
    const std::lock_guard lock{mutex_};
    auto found = pieces_.upper_bound(const_cast<std::byte*>(address));
    if (found == pieces_.begin()) broken("memory that is not the device's");
    --found;
    const auto offset = static_cast<std::size_t>(address - found->first);
    if (offset + bytes > found->second.bytes) broken("memory that is not the device's, or not any more");
    return found->second.view + offset;
  }
  [[nodiscard]] std::byte* view(const protocols::memory_region& region) const {
    if (region.kind != protocols::memory_kind::device) broken("a region of another kind");
    return view(region.address, region.bytes);
  }

  [[nodiscard]] std::optional<protocols::memory_extent> extent(const std::byte* address) const {
    const std::lock_guard lock{mutex_};
    const auto after = pieces_.upper_bound(const_cast<std::byte*>(address));
    if (after == pieces_.begin()) return std::nullopt;
    const auto& [start, piece] = *std::prev(after);
    if (address >= start + piece.bytes) return std::nullopt;
    return protocols::memory_extent{piece.id, start, piece.bytes};
  }

private:
  struct held_piece {
    std::byte* view = nullptr;
    std::size_t bytes = 0;
    std::uint64_t id = 0;
  };
  bool reachable_;
  mutable std::mutex mutex_;
  std::map<std::byte*, held_piece> pieces_;
  std::uint64_t last_id_ = 0;
};

/// Copies on threads of its own, in any order, after any time, and fails when it is told to. What it is given wrongly
/// ends the test.
class fake_copier final : public protocols::memory_copier {
public:
  using region = protocols::memory_region;

  explicit fake_copier(std::shared_ptr<fake_device> device, std::uint64_t seed = 1,
                       std::chrono::microseconds delay_max = std::chrono::microseconds(200), std::size_t threads = 2)
      : device_(std::move(device)), delay_max_(delay_max), random_(seed) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~fake_copier() override {
    hold(false);
    {
      const std::lock_guard lock{mutex_};
      ending_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  [[nodiscard]] std::string name() const override { return "fake device"; }
  [[nodiscard]] std::optional<protocols::memory_extent> extent(const std::byte* address) const override {
    return device_->extent(address);
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    if (pinned_refused) return {};
    auto* const made = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    const std::lock_guard lock{shared_->mutex};
    shared_->pinned[made] = bytes;
    return {made, [shared = shared_](std::byte* back) {
              const std::lock_guard guard{shared->mutex};
              shared->pinned.erase(back);
              std::free(back);
            }};
  }
  void gather(std::vector<region> from, region into, protocols::copy_urgency urgency, completion done) override {
    check_pinned(into);
    add({views(from), {into}, urgency, std::move(done)});
    ++gathered;
  }
  void scatter(region from, std::vector<region> into, protocols::copy_urgency urgency, completion done) override {
    check_pinned(from);
    add({{from}, views(into), urgency, std::move(done)});
    ++scattered;
  }
  void copy(std::vector<region> from, std::vector<region> into, protocols::copy_urgency urgency,
            completion done) override {
    add({views(from), views(into), urgency, std::move(done)});
    ++copied;
  }

  /// Copies wait until they are let go, or only those that are not urgent; what has begun ends.
  void hold(bool on, bool urgent_too = true) {
    {
      const std::lock_guard lock{mutex_};
      held_ = on;
      urgent_held_ = on && urgent_too;
    }
    changed_.notify_all();
  }
  /// Whether these bytes are page-locked memory that it gave away.
  [[nodiscard]] bool pinned(const std::byte* address, std::size_t bytes) const {
    const std::lock_guard lock{shared_->mutex};
    auto found = shared_->pinned.upper_bound(const_cast<std::byte*>(address));
    if (found == shared_->pinned.begin()) return false;
    --found;
    return address + bytes <= found->first + found->second;
  }
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock{mutex_};
    return queue_.size();
  }

  std::atomic<bool> pinned_refused{false};
  std::atomic<int> fail{0}; ///< so many of the next copies
  std::atomic<std::uint64_t> gathered{0}, scattered{0}, copied{0};

private:
  struct job {
    std::vector<region> from, into; ///< where the bytes are
    protocols::copy_urgency urgency;
    completion done;
  };
  struct shared {
    std::mutex mutex;
    std::map<std::byte*, std::size_t> pinned;
  };

  [[nodiscard]] std::vector<region> views(const std::vector<region>& regions) const {
    std::vector<region> out;
    for (const auto& one : regions) out.push_back({device_->view(one), one.bytes});
    return out;
  }
  void check_pinned(const region& piece) const {
    if (piece.kind != protocols::memory_kind::pinned || !pinned(piece.address, piece.bytes))
      broken("memory that is not pinned, or beyond the piece");
  }
  void add(job made) {
    std::size_t from = 0, into = 0;
    for (const auto& one : made.from) from += one.bytes;
    for (const auto& one : made.into) into += one.bytes;
    if (from != into) broken("a copy of " + std::to_string(from) + " bytes into " + std::to_string(into));
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back(std::move(made));
    }
    changed_.notify_all();
  }
  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      const auto ready = [this] {
        const auto urgent = std::find_if(queue_.begin(), queue_.end(),
                                         [](const job& one) { return one.urgency == protocols::copy_urgency::urgent; });
        if (urgent != queue_.end() && !urgent_held_) return urgent;
        if (queue_.empty() || held_) return queue_.end();
        // One of the first few that may go.
        auto which = queue_.begin() + static_cast<std::ptrdiff_t>(random_() % std::min<std::size_t>(queue_.size(), 4));
        return urgent == queue_.end() || !urgent_held_ || which != urgent ? which : queue_.end();
      };
      auto which = queue_.end();
      changed_.wait(lock, [&] { return (which = ready()) != queue_.end() || (queue_.empty() && ending_); });
      if (which == queue_.end()) return;
      auto next = std::move(*which);
      queue_.erase(which);
      const auto delay = [&] {
        return std::chrono::microseconds(random_() % static_cast<std::uint64_t>(delay_max_.count() + 1));
      };
      const auto before = delay(), between = delay();
      const bool failing = fail.load() > 0 && fail.fetch_sub(1) > 0;
      lock.unlock();
      std::this_thread::sleep_for(before);
      move(next, between, failing);
      next.done(failing ? "the copy failed" : "");
      next = job{};
      lock.lock();
    }
  }
  // In two parts, so that whoever looks or lets go too early is found out. A failed copy leaves half of it.
  static void move(const job& what, std::chrono::microseconds between, bool half) {
    std::size_t total = 0, from = 0, from_at = 0, into = 0, into_at = 0, done = 0;
    for (const auto& one : what.from) total += one.bytes;
    bool slept = false;
    while (done < total) {
      if (done >= total / 2 && !std::exchange(slept, true)) {
        if (half) return;
        std::this_thread::sleep_for(between);
      }
      auto part = std::min(what.from[from].bytes - from_at, what.into[into].bytes - into_at);
      if (done < total / 2) part = std::min(part, total / 2 - done);
      if (part != 0) std::memcpy(what.into[into].address + into_at, what.from[from].address + from_at, part);
      from_at += part;
      into_at += part;
      done += part;
      if (from_at == what.from[from].bytes) ++from, from_at = 0;
      if (into_at == what.into[into].bytes) ++into, into_at = 0;
    }
  }

  const std::shared_ptr<fake_device> device_;
  const std::chrono::microseconds delay_max_;
  const std::shared_ptr<shared> shared_ = std::make_shared<shared>();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<job> queue_;
  std::mt19937_64 random_;
  bool held_ = false, urgent_held_ = false;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

} // namespace godwit::testing
