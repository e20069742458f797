#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cuda/cuda_probe.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/gpu/tensor_parallel.hpp>
#include <godwit/protocols/messages/memory_copier.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda {

struct cuda_device_info {
  std::uint32_t index = 0;
  std::string name;                   ///< "NVIDIA H100 80GB HBM3"
  std::uint32_t major = 0, minor = 0; ///< compute capability
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0; ///< when asked
};

/// A model's weights on one device, or its part of them. Immutable; any number of executors on that device share one.
class cuda_model {
public:
  virtual ~cuda_model() = default;
  [[nodiscard]] virtual std::uint64_t weight_bytes() const noexcept = 0;
};

/// What a constrained answer may go on with, null: everything; model::constraints::allowed. Thread-safe; throws as that
/// does.
using mask_function = std::function<std::shared_ptr<const model::token_mask>(const protocols::step_slice&)>;

struct cuda_executor_settings {
  /// KV blocks in the pool (16 tokens each). 0: from `kv_bytes`.
  std::uint32_t blocks = 0;
  /// Size of the KV pool, if `blocks` is 0; of all devices of an executor together. 0: on each device `memory_share` of
  /// what it had left when the weights were there.
  std::uint64_t kv_bytes = 0;
  double memory_share = 0.9;
  /// On the first device, where a draft model's KV takes another part of it. Absent: as on the others.
  std::optional<double> memory_share_first = {};
  /// Of the host's memory, page-locked, for KV that waits outside of the pool; of all devices together. 0: none.
  std::uint64_t swap_bytes = 0;
  /// Memory for steps of so many tokens is taken at once; a larger step takes more, where there is more.
  std::uint32_t step_tokens = 2048;
  /// Fixed order of every sum: a request's logits do not depend on its batch or on how its prompt is cut up. Slower.
  bool deterministic = false;
  /// Launch decode steps as CUDA graphs.
  bool graphs = true;
  /// Before the model's first step on its device, find out how its products of few rows are fastest; some two
  /// seconds. Otherwise, with `deterministic` and where devices share the model, the library's first proposal does
  /// them.
  bool trials = false;
  /// Absent: a request with a schema ends with an error.
  mask_function allowed = {};
  /// Sees all logits that are computed, on a thread of the device. For tests and tools; steps are slower with it.
  std::function<void(const cpu::logits_row&)> logits_tap = {};
  bool logits_of_all_rows = false;
  /// For so long whoever lets go of a step, of a swap space or of the executor waits for the device, for all of them
  /// together once one is not in time. What has not ended by then is left with all that it uses, until it ends.
  std::chrono::nanoseconds patience = std::chrono::seconds(2);
  /// Of memory that is being given back a line tells after so long.
  std::chrono::nanoseconds memory_patience = std::chrono::minutes(1);
  /// Nanoseconds that were waited. Shared by executors that go together; null: it goes alone.
  std::shared_ptr<std::atomic<std::int64_t>> waited = {};
  /// Held until the executor's memory is free again, which may be long after its end.
  std::shared_ptr<void> keep = {};
  /// One line that an operator should read; on any thread.
  std::function<void(const std::string&)> warn = {};
  /// One line that an operator may read; likewise.
  std::function<void(const std::string&)> tell = {};
};

/// How the end of work becomes known.
enum class notify_by : std::uint8_t {
  callback, ///< the driver calls back
  polling   ///< a thread asks events
};

/// Which way many small pieces of KV take between a device and page-locked memory. What is large, and what goes from
/// one device to another, the copy engines take.
enum class copy_by : std::uint8_t {
  kernel, ///< a few multiprocessors wide
  engines ///< which leave the multiprocessors to the steps
};

struct cuda_options {
  /// The first so many that can be used are started, which takes memory of each. 0: none, and it is an error all the
  /// same where none could be.
  std::uint32_t devices_max = ~0U;
  notify_by notify = notify_by::callback;
  copy_by small_pieces = copy_by::kernel;
};

/// The CUDA devices of this process. Thread-safe; outlived by what it made.
///
/// Errors (std::runtime_error, one line): too little memory (compared before anything is taken), a model whose sizes
/// the kernels are not made for, what the driver says, a device that has not ended what an executor before had.
/// Matrices are kept in bf16 or f16 as in the files; f32 is rounded to bf16.
class cuda_backend {
public:
  virtual ~cuda_backend() = default;
  /// At least one. Other functions' `device` is the place in this list.
  [[nodiscard]] virtual std::vector<cuda_device_info> devices() = 0;
  /// A line for each GPU of the machine that is not among them: another process has it for itself, or it is too old.
  [[nodiscard]] virtual std::vector<std::string> skipped() = 0;
  /// Reads every tensor once. The weights are not needed afterwards. `part`: what of the model, for devices that run it
  /// together (gpu/tensor_parallel.hpp). `stage`: which of its layers, for devices that run one behind the other
  /// (gpu/pipeline.hpp); not both.
  [[nodiscard]] virtual std::shared_ptr<const cuda_model> upload(std::uint32_t device, const model::config& config,
                                                                 const model::weights& weights,
                                                                 tensor_parallel::place part = {},
                                                                 pipeline::stage stage = {}) = 0;
  /// A replica on as many devices as there are parts, in the order of the ranks or of the stages, all of this backend's
  /// and on devices of their own. All have as many KV blocks as the one with the least memory. `wait_max`: a device
  /// that others wait for for so long ends the step, and the executor.
  ///
  /// Numbers: as the CPU's up to rounding; with `deterministic` a request's logits are bitwise the same in any batch
  /// and with any cut into chunks, on devices of one kind and for one degree.
  [[nodiscard]] virtual std::unique_ptr<executor>
  make_executor(const std::vector<std::shared_ptr<const cuda_model>>& parts, const cuda_executor_settings& settings,
                std::chrono::nanoseconds wait_max) = 0;
  [[nodiscard]] std::unique_ptr<executor> make_executor(std::shared_ptr<const cuda_model> model,
                                                        const cuda_executor_settings& settings) {
    return make_executor(std::vector{std::move(model)}, settings, std::chrono::minutes(1));
  }
  /// Copies that device's memory, beside its steps, and that of the others by its copy engines.
  [[nodiscard]] virtual std::shared_ptr<protocols::memory_copier> make_copier(std::uint32_t device) = 0;
  [[nodiscard]] virtual std::unique_ptr<cuda_probe> make_probe(std::uint32_t device) = 0;
  /// For benchmarks: seconds on the device that the graphs of an executor's last step take, of `launches` back to back,
  /// which is what a step takes without anything between. `of` is one of this backend's with no step under way, and its
  /// last step was launched as graphs; else std::logic_error.
  [[nodiscard]] virtual double time_graphs(executor& of, std::uint32_t launches) = 0;
};

} // namespace godwit::gpu::cuda
