#include "cpu/device.hpp"

#include "cpu/control_group.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

constexpr std::uint32_t threads_max = 1024;

class cpu_stream final : public stream {
public:
  explicit cpu_stream(std::shared_ptr<work_queue> queue)
      : queue_(std::move(queue)), lane_(std::make_shared<work_queue::lane>()) {}
  ~cpu_stream() override { queue_->close(lane_); }
  void enqueue(std::function<void()> work, std::int64_t) override {
    queue_->push(lane_, {std::move(work), std::nullopt});
  }
  event record() override {
    event mark;
    queue_->push(lane_, {std::function<void()>([] {}), mark});
    return mark;
  }
  void wait(event earlier) override { queue_->push(lane_, {std::move(earlier), std::nullopt}); }

private:
  std::shared_ptr<work_queue> queue_;
  std::shared_ptr<work_queue::lane> lane_;
};

std::uint32_t checked_threads(std::uint32_t wanted) {
  if (wanted > threads_max)
    throw std::invalid_argument(std::to_string(wanted) + " threads are too many; at most " +
                                std::to_string(threads_max));
  return wanted == 0 ? usable_threads() : wanted;
}

} // namespace

std::uint32_t usable_threads() {
  const auto processors = std::min(std::thread::hardware_concurrency(), allowed_processors().value_or(threads_max));
  return std::clamp(std::min(processors, group_processors().value_or(threads_max)), 1U, threads_max);
}

void work_queue::push(const std::shared_ptr<lane>& to, item next) {
  const std::lock_guard lock(mutex_);
  to->items.push_back(std::move(next));
  schedule(to);
}

// Under the lock.
void work_queue::schedule(const std::shared_ptr<lane>& which) {
  if (which->queued || which->blocked || which->running || which->items.empty()) return;
  which->queued = true;
  ready_.push_back(which);
  work_.notify_one();
}

void work_queue::unblock(const std::shared_ptr<lane>& which) {
  const std::lock_guard lock(mutex_);
  which->blocked = false;
  schedule(which);
}

void work_queue::close(const std::shared_ptr<lane>& which) {
  std::deque<item> dropped;
  {
    std::unique_lock lock(mutex_);
    which->closed = true;
    dropped.swap(which->items);
    if (std::this_thread::get_id() != leader_) idle_.wait(lock, [&] { return !which->running; });
  }
  for (const auto& one : dropped)
    if (one.marks) one.marks->set();
}

void work_queue::run() {
  std::unique_lock lock(mutex_);
  leader_ = std::this_thread::get_id();
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !ready_.empty(); });
    if (stopping_) return;
    const auto current = std::move(ready_.front());
    ready_.pop_front();
    current->queued = false;
    if (current->items.empty()) continue; // closed meanwhile
    item next = std::move(current->items.front());
    current->items.pop_front();
    current->running = true;
    current->blocked = std::holds_alternative<event>(next.what);
    lock.unlock();
    if (const auto* work = std::get_if<std::function<void()>>(&next.what))
      (*work)();
    else
      std::get<event>(next.what).on_ready([self = shared_from_this(), current] { self->unblock(current); });
    if (next.marks) next.marks->set();
    next = {};
    lock.lock();
    current->running = false;
    schedule(current);
    idle_.notify_all();
  }
}

void work_queue::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
}

cpu_device::cpu_device(const cpu_device_settings& settings)
    : kernels_(kernels_for(settings.isa)), memory_(settings.memory_bytes_max), team_(checked_threads(settings.threads)),
      queue_(std::make_shared<work_queue>()), leader_([queue = queue_] { queue->run(); }) {}

cpu_device::~cpu_device() {
  queue_->stop();
  leader_.join();
}

std::string cpu_device::name() const {
  const std::uint32_t threads = team_.size();
  return "cpu (" + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + to_string(kernels_.kind) +
         ")";
}

std::unique_ptr<stream> cpu_device::make_stream() { return std::make_unique<cpu_stream>(queue_); }

std::unique_ptr<device> make_cpu_device(const cpu_device_settings& settings) {
  return std::make_unique<cpu_device>(settings);
}

} // namespace godwit::gpu::cpu
