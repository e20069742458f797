#include "main/loader.hpp"

#include "main/cuda_loader.hpp"
#include "main/device_hold.hpp"
#include "main/instance_devices.hpp"
#include "main/lora_options.hpp"
#include "main/swap_options.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/kv_geometry.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/memory_pool.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::main {

gpu::cpu::kv_precision precision_of(kv_choice choice) noexcept {
  switch (choice) {
  case kv_choice::bf16:
    return gpu::cpu::kv_precision::bf16;
  case kv_choice::f32:
    return gpu::cpu::kv_precision::f32;
  case kv_choice::fp8:
    return gpu::cpu::kv_precision::fp8;
  case kv_choice::automatic:
    break;
  }
  return gpu::cpu::kv_precision::automatic;
}

std::uint32_t threads_per_instance(const serve_settings& settings) {
  if (settings.instances.threads != 0) return settings.instances.threads;
  return std::max(1U, gpu::cpu::usable_threads() / std::max(1U, settings.instances.count));
}

namespace {

std::shared_ptr<gpu::cpu::cpu_adapters> adapters_of(const serve_settings& settings, const runtime::log::logger& log) {
  auto directory = make_adapters(settings);
  if (!directory) return nullptr;
  return std::make_shared<gpu::cpu::cpu_adapters>(
      std::move(directory), settings.lora.bytes_max,
      [to = log.component("device")](const std::string& line) { to.info("{}", line); });
}

} // namespace

/// What the loader, its factories and its thread share, and whoever has it last may let go of.
class loader::orders {
public:
  struct order {
    protocols::instance_id instance;
    std::function<void(actors::executor_outcome)> done;
  };
  explicit orders(std::shared_ptr<gpu::cpu::cpu_adapters> adapters) : adapters_(std::move(adapters)) {}

  [[nodiscard]] const std::shared_ptr<gpu::cpu::cpu_adapters>& adapters() const { return adapters_; }
  /// Not any more once it has stopped.
  void add(order one) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      waiting_.push_back(std::move(one));
    }
    wanted_.notify_one();
  }
  /// Waits for one. Absent: it has stopped.
  [[nodiscard]] std::optional<order> next() {
    std::unique_lock lock(mutex_);
    wanted_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return std::nullopt;
    auto one = std::move(waiting_.front());
    waiting_.pop_front();
    return one;
  }
  void failed(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = why;
  }
  [[nodiscard]] std::optional<std::string> error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void stop() {
    std::deque<order> undone; // go without the lock
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      undone.swap(waiting_);
    }
    wanted_.notify_one();
  }
  [[nodiscard]] const std::atomic<bool>& stopping() const noexcept { return stopping_; }

private:
  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<order> waiting_;
  std::optional<std::string> error_;
  std::atomic<bool> stopping_ = false;
  std::shared_ptr<gpu::cpu::cpu_adapters> adapters_; ///< null: none
};

/// What the thread does, and has alone: to let go of a GPU's memory may take for ever.
class loader::work {
public:
  work(gpu::model::model_directory model, const serve_settings& settings, chosen_device cuda,
       std::shared_ptr<orders> from, const runtime::log::logger& log)
      : hold_(cuda ? std::make_unique<device_hold>() : nullptr), model_(std::move(model)), settings_(settings),
        orders_(std::move(from)),
        cuda_(cuda ? std::make_unique<cuda_loader>(std::move(cuda), model_, settings_, log.component("device"))
                   : nullptr) {}
  void run();

private:
  [[nodiscard]] actors::executor_outcome make(protocols::instance_id instance);
  /// `settings`: of both together.
  [[nodiscard]] std::shared_ptr<gpu::executor> make_with_draft(gpu::cpu::cpu_executor_settings settings,
                                                               std::chrono::nanoseconds wait_max) const;

  const std::unique_ptr<const device_hold> hold_; ///< null: the CPU. Goes last
  gpu::model::model_directory model_;
  serve_settings settings_;
  std::vector<std::shared_ptr<const gpu::cpu::packed_model>> packed_; ///< one part a device
  std::shared_ptr<const gpu::cpu::packed_model> packed_draft_;        ///< null: none
  std::uint32_t blocks_ = 0; ///< of each instance's KV pool, 0 before the first
  std::shared_ptr<orders> orders_;
  std::unique_ptr<cuda_loader> cuda_; ///< null: the CPU
};

loader::loader(gpu::model::model_directory model, const serve_settings& settings, chosen_device cuda,
               const runtime::log::logger& log, std::chrono::milliseconds patience)
    : orders_(std::make_shared<orders>(adapters_of(settings, log))), patience_(patience),
      log_(log.component("device")) {
  std::promise<void> ended;
  ended_ = ended.get_future();
  std::thread([mine = std::make_unique<work>(std::move(model), settings, std::move(cuda), orders_, log),
               ended = std::move(ended)]() mutable {
    mine->run();
    mine.reset();
    ended.set_value();
  }).detach();
}

std::shared_ptr<gpu::adapter_store> loader::adapters() const { return orders_->adapters(); }

loader::~loader() {
  orders_->stop();
  if (ended_.wait_for(patience_) == std::future_status::timeout)
    log_.warning("what is being loaded does not end; it is left to itself");
}

actors::executor_factory loader::factory() {
  return [to = std::weak_ptr(orders_)](protocols::instance_id instance,
                                       std::function<void(actors::executor_outcome)> done) {
    if (const auto there = to.lock()) there->add({instance, std::move(done)});
  };
}

std::optional<std::string> loader::error() const { return orders_->error(); }

void loader::work::run() {
  while (const auto next = orders_->next()) {
    auto outcome = make(next->instance);
    if (orders_->stopping()) return; // nobody waits for it
    if (!outcome.error.empty()) orders_->failed(outcome.error);
    next->done(std::move(outcome));
  }
}

actors::executor_outcome loader::work::make(protocols::instance_id instance) {
  actors::executor_outcome out;
  try {
    if (cuda_) {
      out.made = cuda_->make(instance, &orders_->stopping());
      return out;
    }
    if (settings_.instances.device == device_choice::cuda) { // it would have another kind of KV than the cluster
      out.error = "this process began without instances and so without its GPUs: start a 'godwit node' for them";
      return out;
    }
    if (packed_.empty()) {
      const auto all = settings_.instances.threads == 0 ? 0 : settings_.instances.threads * settings_.instances.count;
      const auto devices = devices_of(settings_);
      auto packed =
          devices.staged
              ? gpu::cpu::pack_stages(model_.configuration, *model_.tensors, stages_of(settings_, model_.configuration),
                                      all, &orders_->stopping())
              : gpu::cpu::pack_shards(model_.configuration, *model_.tensors, devices.count, all, &orders_->stopping());
      if (const auto& draft = model_.draft)
        packed_draft_ = gpu::cpu::pack_model(draft->configuration, *draft->tensors, all, {}, &orders_->stopping());
      packed_ = std::move(packed); // both are there, or none is
      if (const auto& adapters = orders_->adapters()) adapters->serve(packed_);
    }
    gpu::cpu::cpu_executor_settings s;
    s.threads = threads_per_instance(settings_);
    s.kv_bytes = settings_.instances.kv_bytes;
    s.blocks = blocks_; // as at the first start, whatever else has filled the memory since
    s.swap_bytes = swap_bytes_of(settings_);
    s.kv = precision_of(settings_.instances.kv_type);
    s.tokens = model_.tokens;
    s.adapters = orders_->adapters();
    if (settings_.instances.isa != "auto") s.isa = gpu::cpu::parse_isa(settings_.instances.isa);
    // A device that waits for another one gives up before anybody takes the instance for hung.
    const auto wait_max = settings_.instances.step_timeout / 2;
    if (packed_draft_)
      out.made = make_with_draft(s, wait_max);
    else
      out.made = gpu::cpu::make_cpu_executor(packed_, s, wait_max);
    blocks_ = out.made->info().blocks;
  } catch (const gpu::out_of_memory& failure) {
    out.error = failure.what();
    if (cuda_ || !packed_.empty()) out.error += "; change --kv-bytes, --swap-bytes, --instances or --model-context-max";
  } catch (const std::exception& failure) {
    out.error = failure.what();
  }
  return out;
}

std::shared_ptr<gpu::executor> loader::work::make_with_draft(gpu::cpu::cpu_executor_settings settings,
                                                             std::chrono::nanoseconds wait_max) const {
  const auto block_of = [&](const gpu::model::model_directory& which) {
    return gpu::cpu::kv_geometry_of(which.configuration, *which.tensors, settings.kv).block_bytes;
  };
  const auto block = block_of(model_), beside = block_of(*model_.draft);
  settings.beside_block = beside;
  settings.swap_bytes = gpu::share_beside_draft(settings.swap_bytes, block, beside);
  std::shared_ptr<gpu::executor> model = gpu::cpu::make_cpu_executor(packed_, settings, wait_max);
  settings.blocks = model->info().blocks;
  settings.swap_bytes = model->swap() ? model->swap()->slots() * beside : 0;
  settings.adapters = {};
  settings.tokens = {};
  return gpu::make_drafted_executor(std::move(model), gpu::cpu::make_cpu_executor(packed_draft_, settings));
}

} // namespace godwit::main
