#include "explore/breakable.hpp"

#include <string>
#include <utility>
#include <vector>

namespace godwit::explore {

using runtime::async::timer_source;
using std::chrono::nanoseconds;

namespace {

class breakable_forward final : public gpu::forward {
public:
  breakable_forward(std::unique_ptr<gpu::forward> step, timer_source& timers, const std::function<bool()>& fails)
      : step_(std::move(step)), timers_(timers), fails_(fails) {}
  ~breakable_forward() override {
    if (timer_ != 0) timers_.cancel(timer_);
  }
  [[nodiscard]] std::uint32_t layers() const noexcept override { return step_->layers(); }
  void advance(std::uint32_t upto, gpu::completion done) override {
    if (!fails_()) return step_->advance(upto, std::move(done));
    timer_ = timers_.call_after(nanoseconds{0}, [this, done = std::move(done)] {
      timer_ = 0; // the caller may destroy us in `done`
      done(injected);
    });
  }
  [[nodiscard]] protocols::step_output take() override { return step_->take(); }

private:
  std::unique_ptr<gpu::forward> step_;
  timer_source& timers_;
  const std::function<bool()>& fails_;
  timer_source::timer_id timer_ = 0;
};

class breakable_executor final : public gpu::executor {
public:
  breakable_executor(std::shared_ptr<gpu::executor> device, timer_source& timers, std::function<bool()> fails)
      : device_(std::move(device)), timers_(timers), fails_(std::move(fails)) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return device_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return std::make_unique<breakable_forward>(device_->begin(std::move(input)), timers_, fails_);
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return device_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return device_->value_region(layer, block);
  }
  [[nodiscard]] std::shared_ptr<gpu::adapter_store> adapters() const override { return device_->adapters(); }
  [[nodiscard]] std::shared_ptr<gpu::swap_space> swap() const override { return device_->swap(); }

private:
  std::shared_ptr<gpu::executor> device_;
  timer_source& timers_;
  std::function<bool()> fails_;
};

class breakable_fabric final : public transport::fabric {
public:
  breakable_fabric(std::shared_ptr<transport::fabric> whole, timer_source& timers, fabric_hooks hooks)
      : fabric_(std::move(whole)), timers_(timers), hooks_(std::move(hooks)) {}
  [[nodiscard]] std::string address() const override { return fabric_->address(); }
  void post(transport::transfer_key key, std::vector<protocols::memory_region> regions, std::shared_ptr<void> keep,
            std::function<void(transport::landing)> on_landed) override {
    if (!hooks_.fails()) return fabric_->post(key, std::move(regions), std::move(keep), std::move(on_landed));
    timers_.call_after(nanoseconds{0}, [on_landed = std::move(on_landed)] { on_landed({0, injected}); });
  }
  void withdraw(transport::transfer_key key, std::function<void()> done) override {
    fabric_->withdraw(key, [done = std::move(done), waited = hooks_.waited, &timers = timers_, began = timers_.now()] {
      if (timers.now() > began) waited();
      done();
    });
  }
  void send(const std::string& peer, transport::transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transport::transfer_priority priority, nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done) override {
    if (!hooks_.fails())
      return fabric_->send(peer, key, first_region, std::move(regions), priority, timeout, std::move(keep),
                           std::move(done));
    timers_.call_after(nanoseconds{0}, [done = std::move(done)] { done(injected); });
  }
  [[nodiscard]] counters figures() const override { return fabric_->figures(); }

private:
  std::shared_ptr<transport::fabric> fabric_;
  timer_source& timers_;
  fabric_hooks hooks_;
};

} // namespace

std::shared_ptr<gpu::executor> breakable(std::shared_ptr<gpu::executor> device, timer_source& timers,
                                         std::function<bool()> fails) {
  return std::make_shared<breakable_executor>(std::move(device), timers, std::move(fails));
}

std::shared_ptr<transport::fabric> breakable(std::shared_ptr<transport::fabric> fabric, timer_source& timers,
                                             fabric_hooks hooks) {
  return std::make_shared<breakable_fabric>(std::move(fabric), timers, std::move(hooks));
}

} // namespace godwit::explore
