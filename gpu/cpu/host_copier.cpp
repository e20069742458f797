#include "cpu/host_copier.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::gpu::cpu {

namespace {

using protocols::copy_urgency;
using protocols::memory_region;

constexpr std::align_val_t alignment{64};

std::string copy_regions(const std::vector<memory_region>& from, const std::vector<memory_region>& into) {
  std::size_t source = 0, target = 0, source_at = 0, target_at = 0;
  for (;;) {
    while (source < from.size() && source_at == from[source].bytes) ++source, source_at = 0;
    while (target < into.size() && target_at == into[target].bytes) ++target, target_at = 0;
    if (source == from.size() || target == into.size()) break;
    const auto bytes = std::min(from[source].bytes - source_at, into[target].bytes - target_at);
    std::memcpy(into[target].address + target_at, from[source].address + source_at, bytes);
    source_at += bytes;
    target_at += bytes;
  }
  return source == from.size() && target == into.size() ? std::string() : "a copy between regions of unequal sums";
}

class host_copier final : public protocols::memory_copier {
public:
  host_copier() : thread_([this] { work(); }) {}
  ~host_copier() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wanted_.notify_one();
    thread_.join();
  }
  host_copier(const host_copier&) = delete;
  host_copier& operator=(const host_copier&) = delete;

  [[nodiscard]] std::string name() const override { return "host"; }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    auto* const memory =
        static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), alignment, std::nothrow));
    if (memory == nullptr) return nullptr;
    // The system hands out the pages now, and not within the first copies: whoever asks next what is available hears
    // it.
    constexpr std::size_t page = 4096;
    for (std::size_t i = 0; i < bytes; i += page) *static_cast<volatile std::byte*>(memory + i) = std::byte{};
    return {memory, [](std::byte* held) { ::operator delete(held, alignment); }};
  }
  void gather(std::vector<memory_region> from, memory_region into, copy_urgency, completion done) override {
    push({std::move(from), {into}, std::move(done)});
  }
  void scatter(memory_region from, std::vector<memory_region> into, copy_urgency, completion done) override {
    push({{from}, std::move(into), std::move(done)});
  }
  void copy(std::vector<memory_region> from, std::vector<memory_region> into, copy_urgency, completion done) override {
    push({std::move(from), std::move(into), std::move(done)});
  }

private:
  struct order {
    std::vector<memory_region> from, into;
    completion done;
  };
  void push(order next) {
    {
      const std::lock_guard lock(mutex_);
      orders_.push_back(std::move(next));
    }
    wanted_.notify_one();
  }
  void work() {
    for (;;) {
      order next;
      {
        std::unique_lock lock(mutex_);
        wanted_.wait(lock, [this] { return ends_ || !orders_.empty(); });
        if (orders_.empty()) return; // all that was queued has been copied
        next = std::move(orders_.front());
        orders_.pop_front();
      }
      auto error = copy_regions(next.from, next.into);
      next.done(std::move(error));
    }
  }

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<order> orders_;
  bool ends_ = false;
  std::thread thread_; // last: it uses the others
};

} // namespace

std::shared_ptr<protocols::memory_copier> make_host_copier() { return std::make_shared<host_copier>(); }

} // namespace godwit::gpu::cpu
