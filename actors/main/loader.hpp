#pragma once

#include "main/cuda_loader.hpp"
#include "main/device_choice.hpp"
#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace godwit::main {

/// Makes executors on a thread of its own: packing weights takes seconds, and actors must not wait for it on their
/// context. The weights are packed once, with the first executor, and shared by all. Its end stops the packing, and
/// waits for an upload to a GPU.
class loader {
public:
  /// `cuda`: where the model runs; null: on the CPU.
  loader(gpu::model::model_directory model, const serve_settings& settings, chosen_device cuda,
         const runtime::log::logger& log);
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader();

  /// For instance_options::make_executor. The loader must outlive the actors.
  [[nodiscard]] actors::executor_factory factory();
  /// Null: this process has none.
  [[nodiscard]] std::shared_ptr<gpu::adapter_store> adapters() const;
  /// The first failure, if there was one.
  [[nodiscard]] std::optional<std::string> error() const;

private:
  struct order {
    protocols::instance_id instance;
    std::function<void(actors::executor_outcome)> done;
  };
  void work();
  [[nodiscard]] actors::executor_outcome make(protocols::instance_id instance);
  /// `settings`: of both together.
  [[nodiscard]] std::shared_ptr<gpu::executor> make_with_draft(gpu::cpu::cpu_executor_settings settings,
                                                               std::chrono::nanoseconds wait_max) const;

  gpu::model::model_directory model_;
  serve_settings settings_;
  std::vector<std::shared_ptr<const gpu::cpu::packed_model>> packed_; // one part a device; touched by the thread only
  std::shared_ptr<const gpu::cpu::packed_model> packed_draft_;        // likewise; null: none
  std::shared_ptr<gpu::cpu::cpu_adapters> adapters_;                  // null: none
  std::uint32_t blocks_ = 0;          // touched by the thread only; of each instance's KV pool, 0 before the first
  std::unique_ptr<cuda_loader> cuda_; // likewise; null: the CPU
  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<order> orders_;
  std::optional<std::string> error_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

[[nodiscard]] gpu::cpu::kv_precision precision_of(kv_choice choice) noexcept;

/// Threads that compute in each instance.
[[nodiscard]] std::uint32_t threads_per_instance(const serve_settings& settings);

} // namespace godwit::main
