#pragma once

#include "main/instance_devices.hpp"
#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace godwit::main {

/// In one line, why this process's GPUs are too few for an instance of so many. Empty: they are not.
[[nodiscard]] std::string refuse_devices(std::size_t there, const instance_devices& wanted);

/// In one line, that instances of several GPUs each share some: NCCL wants the operations of two groups on one GPU in
/// one order everywhere, which instances do not have. Empty: they do not share any.
[[nodiscard]] std::string shared_devices(std::size_t there, const instance_devices& devices, std::uint32_t instances);

/// A GPU, or a group of them, and the instances on it.
struct group_use {
  std::uint32_t share = 1;  ///< among how many its memory is divided
  std::uint32_t living = 0; ///< whose memory is not given back yet
  bool hung = false;        ///< one of them is to have gone and has not
};
/// The group for an instance: the one that it had where there is room in it, else the one with most room, and of those
/// the one with fewest instances. There is no room in one that is hung. `groups` is not empty.
[[nodiscard]] std::uint32_t choose_group(std::span<const group_use> groups, std::optional<std::uint32_t> former);

/// Makes executors on GPUs: instance after instance on device after device, or group of devices, the weights uploaded
/// once to each. An instance that starts again gets the devices that it had, whose memory is the one that it left, and
/// a new one those of one that has gone. Before, it waits for that memory, `memory_wait` at most, and then looks for
/// other devices. One thread; executors may end on any.
class cuda_loader {
public:
  /// Throws std::runtime_error where there are fewer devices than an instance takes.
  cuda_loader(std::shared_ptr<gpu::cuda::cuda_backend> backend, gpu::model::model_directory model,
              const serve_settings& settings, runtime::log::logger log,
              std::chrono::milliseconds memory_wait = std::chrono::seconds(10));
  /// Throws what goes wrong. Once `stop` says so it waits for no memory.
  [[nodiscard]] std::shared_ptr<gpu::executor> make(protocols::instance_id instance,
                                                    const std::atomic<bool>* stop = nullptr);

private:
  using parts = std::vector<std::shared_ptr<const gpu::cuda::cuda_model>>;
  /// Of an executor that was made.
  struct mark {
    protocols::instance_id instance;
    std::weak_ptr<void> taken; ///< expired: its memory is free, which a device that hangs delays
    std::weak_ptr<gpu::executor> made;
    bool waited_for = false; ///< in vain
  };
  [[nodiscard]] std::uint32_t share_of(std::uint32_t group) const;
  [[nodiscard]] std::uint32_t group_for(protocols::instance_id instance) const;
  /// That of the instance's own executors, and of those that nobody has any more.
  void wait_for_memory(std::uint32_t group, protocols::instance_id instance, const std::atomic<bool>* stop);
  void forget_what_is_free();
  [[nodiscard]] gpu::cuda::cuda_executor_settings settings_for(std::uint32_t group) const;
  [[nodiscard]] const parts& uploaded_to(std::uint32_t group);
  /// `keep`: until its memory is free.
  [[nodiscard]] std::unique_ptr<gpu::executor> executor_on(std::uint32_t group, std::shared_ptr<void> keep);

  std::shared_ptr<gpu::cuda::cuda_backend> backend_;
  gpu::model::model_directory model_;
  serve_settings settings_;
  runtime::log::logger log_;
  gpu::cuda::mask_function allowed_;
  std::vector<parts> uploaded_;                                               ///< by group of devices; empty: not yet
  std::vector<std::shared_ptr<const gpu::cuda::cuda_model>> uploaded_drafts_; ///< likewise, on the first of each
  std::vector<std::uint32_t> blocks_;                      ///< by group, of each instance's KV pool; 0 before the first
  std::vector<std::vector<mark>> marks_;                   ///< by group, of what is not free yet
  std::map<protocols::instance_id, std::uint32_t> places_; ///< the groups of their last executors
  std::chrono::milliseconds memory_wait_;
};

} // namespace godwit::main
