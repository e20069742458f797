#pragma once

#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace godwit::main {

/// Makes executors on a thread of its own: packing weights takes seconds, and actors must not wait for it on their
/// context. The weights are packed once, with the first executor, and shared by all.
class loader {
public:
  loader(gpu::model::model_directory model, const serve_settings& settings);
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader();

  /// For instance_options::make_executor. The loader must outlive the actors.
  [[nodiscard]] actors::executor_factory factory();
  /// The first failure, if there was one.
  [[nodiscard]] std::optional<std::string> error() const;

private:
  void work();
  [[nodiscard]] actors::executor_outcome make();

  gpu::model::model_directory model_;
  serve_settings settings_;
  std::shared_ptr<const gpu::cpu::packed_model> packed_; // touched by the thread only
  std::uint32_t blocks_ = 0;                             // likewise; of each instance's KV pool, 0 before the first
  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<std::function<void(actors::executor_outcome)>> orders_;
  std::optional<std::string> error_;
  bool stopping_ = false;
  std::thread thread_;
};

[[nodiscard]] gpu::cpu::kv_precision precision_of(kv_choice choice) noexcept;

/// Threads that compute in each instance.
[[nodiscard]] std::uint32_t threads_per_instance(const serve_settings& settings);

} // namespace godwit::main
