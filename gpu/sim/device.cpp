#include <godwit/gpu/sim/sim_device.hpp>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

namespace godwit::gpu::sim {

namespace {

using std::chrono::nanoseconds;

/// Counts what real memory would hold.
class counted_memory final : public memory_pool {
public:
  explicit counted_memory(std::uint64_t bytes)
      : bytes_(bytes), used_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}
  [[nodiscard]] allocation allocate(std::uint64_t bytes, const std::string& purpose) override {
    if (bytes > available_bytes())
      throw out_of_memory("not enough memory for " + purpose + ": " + std::to_string(bytes) + " bytes needed, " +
                          std::to_string(available_bytes()) + " available");
    used_->fetch_add(bytes);
    return {protocols::memory_region{nullptr, bytes, protocols::memory_kind::device},
            [used = used_](protocols::memory_region region) { used->fetch_sub(region.bytes); }};
  }
  [[nodiscard]] std::uint64_t used_bytes() const noexcept override { return used_->load(); }
  [[nodiscard]] std::uint64_t available_bytes() const override { return bytes_ - used_->load(); }

private:
  std::uint64_t bytes_;
  std::shared_ptr<std::atomic<std::uint64_t>> used_;
};

/// Items one after the other; each ends `cost` after the one before.
class timed_lane : public std::enable_shared_from_this<timed_lane> {
public:
  struct work {
    std::function<void()> run;
    nanoseconds cost;
  };
  using item = std::variant<work, event>;

  explicit timed_lane(runtime::async::timer_source& timers) : timers_(timers) {}

  void push(item next) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(next));
    start();
  }
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    const auto dropped = std::exchange(items_, {});
    timers_.cancel(timer_);
    lock.unlock();
    for (const auto& one : dropped)
      if (const auto* w = std::get_if<work>(&one); w != nullptr && w->cost.count() < 0) w->run(); // an event's mark
  }

private:
  // Under the lock.
  void start() {
    if (active_ || closed_ || items_.empty()) return;
    active_ = true;
    if (const auto* gate = std::get_if<event>(&items_.front())) {
      // On a timer, since the event may be ready already and must not call back under the lock.
      timer_ = timers_.call_after(
          nanoseconds(0), [self = shared_from_this(), gate = *gate] { gate.on_ready([self] { self->finish(); }); });
      return;
    }
    const auto cost = std::max(nanoseconds(0), std::get<work>(items_.front()).cost);
    timer_ = timers_.call_after(cost, [self = shared_from_this()] { self->finish(); });
  }
  void finish() {
    std::function<void()> run;
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      if (auto* w = std::get_if<work>(&items_.front())) run = std::move(w->run);
      items_.pop_front();
    }
    if (run) run();
    const std::lock_guard lock(mutex_);
    active_ = false;
    start();
  }

  runtime::async::timer_source& timers_;
  std::mutex mutex_;
  std::deque<item> items_;
  bool active_ = false;
  bool closed_ = false;
  runtime::async::timer_source::timer_id timer_ = 0;
};

class sim_stream final : public stream {
public:
  explicit sim_stream(runtime::async::timer_source& timers) : lane_(std::make_shared<timed_lane>(timers)) {}
  ~sim_stream() override { lane_->close(); }
  void enqueue(std::function<void()> work, std::int64_t cost_ns) override {
    lane_->push(timed_lane::work{std::move(work), nanoseconds(std::max<std::int64_t>(0, cost_ns))});
  }
  event record() override {
    event mark;
    // A cost below zero tells a mark, which is set even when it is dropped.
    lane_->push(timed_lane::work{[mark] { mark.set(); }, nanoseconds(-1)});
    return mark;
  }
  void wait(event earlier) override { lane_->push(std::move(earlier)); }

private:
  std::shared_ptr<timed_lane> lane_;
};

class sim_device final : public device {
public:
  sim_device(runtime::async::timer_source& timers, std::uint64_t bytes) : timers_(timers), memory_(bytes) {}
  [[nodiscard]] backend kind() const noexcept override { return backend::sim; }
  [[nodiscard]] std::string name() const override { return "sim"; }
  [[nodiscard]] std::unique_ptr<stream> make_stream() override { return std::make_unique<sim_stream>(timers_); }
  [[nodiscard]] memory_pool& memory() noexcept override { return memory_; }

private:
  runtime::async::timer_source& timers_;
  counted_memory memory_;
};

} // namespace

std::unique_ptr<device> make_sim_device(runtime::async::timer_source& timers, std::uint64_t memory_bytes) {
  return std::make_unique<sim_device>(timers, memory_bytes);
}

} // namespace godwit::gpu::sim
