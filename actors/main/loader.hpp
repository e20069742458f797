#pragma once

#include "main/device_choice.hpp"
#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

namespace godwit::main {

/// Makes executors on a thread of its own: packing weights takes seconds, and actors must not wait for it on their
/// context. The weights are packed once, with the first executor, and shared by all.
///
/// Its end stops the packing and waits for an upload to a GPU, `patience` at most: a GPU that hangs does not let go of
/// who asks it for memory. Then the thread is left, with all that it uses.
class loader {
public:
  /// `cuda`: where the model runs; null: on the CPU.
  loader(gpu::model::model_directory model, const serve_settings& settings, chosen_device cuda,
         const runtime::log::logger& log, std::chrono::milliseconds patience = std::chrono::seconds(10));
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;
  ~loader();

  /// For instance_options::make_executor. Once the loader is gone it makes none.
  [[nodiscard]] actors::executor_factory factory();
  /// Null: this process has none.
  [[nodiscard]] std::shared_ptr<gpu::adapter_store> adapters() const;
  /// The first failure, if there was one.
  [[nodiscard]] std::optional<std::string> error() const;

private:
  class orders;
  class work;
  std::shared_ptr<orders> orders_;
  std::future<void> ended_; ///< the thread has, and has let go of its work
  std::chrono::milliseconds patience_;
  runtime::log::logger log_;
};

[[nodiscard]] gpu::cpu::kv_precision precision_of(kv_choice choice) noexcept;

/// Threads that compute in each instance.
[[nodiscard]] std::uint32_t threads_per_instance(const serve_settings& settings);

} // namespace godwit::main
