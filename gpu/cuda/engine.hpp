#pragma once

#include "cpu/step_plan.hpp"
#include "cuda/device_model.hpp"
#include "cuda/draw_arrays.hpp"
#include "cuda/driver.hpp"
#include "cuda/graph_cache.hpp"
#include "cuda/host_thread.hpp"
#include "cuda/kv_pool.hpp"
#include "cuda/launches.hpp"
#include "cuda/step_shape.hpp"
#include "cuda/workspace.hpp"
#include "device/going.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/pipeline.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

/// A step that was checked and has its memory.
struct prepared_step {
  cpu::step_plan plan;
  step_shape shape;
};

/// All that an executor's forwards use. Shared with them, so that the order of destruction does not matter.
///
/// `begin` and `end` are the caller's; the other functions belong to the host thread, but `collect`, which is the
/// caller's again once the step has ended, and `abandon` and `failed`, which are anybody's.
///
/// Its end waits for the device, which may hang. So it is shared by `share_engine`, and left to its step by `leave`.
///
/// Of a divided model it is one rank's. Whatever goes wrong with its part of a step breaks the group, so that the
/// others do not wait for it; what goes wrong with theirs is the error of this one's.
class engine {
public:
  /// `how`: it and the swap space go.
  engine(std::shared_ptr<const device_model> model, const cuda_executor_settings& settings,
         std::shared_ptr<const going> how);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// How large the KV cache is to be. Throws out_of_memory.
  [[nodiscard]] std::uint32_t blocks_wanted() const { return kv_.wanted(settings_); }
  /// Takes the KV cache; the engine can be used now. `group`: for a divided model. `before`, `after`: for a stage that
  /// is not the first, the last one. Throws out_of_memory.
  void open(std::uint32_t blocks, std::shared_ptr<group_end> group,
            std::shared_ptr<pipeline::stage_link> before = nullptr,
            std::shared_ptr<pipeline::stage_link> after = nullptr);
  /// "(NVIDIA H100 80GB HBM3, bf16)": what the device is and how it computes.
  [[nodiscard]] std::string kind() const;

  [[nodiscard]] const executor_info& info() const noexcept { return info_; }
  [[nodiscard]] const cuda_executor_settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const std::shared_ptr<const going>& how_it_goes() const noexcept { return how_; }
  [[nodiscard]] const kv_pool& kv() const noexcept { return kv_; }
  [[nodiscard]] host_thread& thread() noexcept { return thread_; }

  /// Takes the one place for a step in flight. Throws driver_error once a step was left.
  [[nodiscard]] prepared_step begin(protocols::step_input input);
  void end() noexcept { busy_ = false; }
  /// The step in flight does not end in time: there is no other one, and no new executor on the device before it has
  /// (`ended`), until when somebody holds all that it uses.
  static void leave(std::shared_ptr<engine> with, const event& ended);

  /// Enqueues the layers first .. last - 1 and, with the last one, the draws; stops early once `cancelled`. Throws what
  /// goes wrong.
  void advance(const prepared_step& step, std::uint32_t first, std::uint32_t last, const std::atomic<bool>& cancelled);
  void notify(reaction then);
  /// Tell the other devices, where there are some, that they wait in vain.
  void abandon();
  void failed(const std::string& why);
  /// Waits for all that was enqueued; a failure was told elsewhere.
  void drain() noexcept;
  [[nodiscard]] protocols::step_output collect(const prepared_step& step);
  /// The caller's, between steps: seconds of a launch of the last step's graphs, of `launches` back to back. Throws
  /// std::logic_error where it had none.
  [[nodiscard]] double time_graphs(std::uint32_t launches);

private:
  engine(std::shared_ptr<const device_model> model, const cuda_executor_settings& settings,
         std::shared_ptr<const going> how, std::unique_ptr<driver_stream> stream);

  struct interval {
    std::unique_ptr<driver_event> begin, end;
  };

  void run_layers(const prepared_step& step, std::uint32_t first, std::uint32_t last,
                  const std::atomic<bool>& cancelled);
  void finish(const prepared_step& step);
  // From the stage before, and to the next one, which begins when this one's part of the step has ended.
  void receive(const prepared_step& step);
  void send(const prepared_step& step);
  void enqueue_logits(const prepared_step& step, std::uint32_t first, std::uint32_t count);
  [[nodiscard]] std::string name() const;
  [[nodiscard]] bool draws() const noexcept { return model_->draws(); }
  /// Throws driver_error once the group is broken.
  void check_group() const;
  void tap_logits(const prepared_step& step, std::uint32_t first, std::uint32_t count);
  interval& next_interval();

  std::shared_ptr<const device_model> model_;
  cuda_executor_settings settings_;
  std::shared_ptr<const going> how_;
  std::shared_ptr<group_end> group_; ///< null: the model is whole. Goes after the graphs that have its operations
  std::shared_ptr<pipeline::stage_link> before_, after_;
  std::shared_ptr<pipeline::hidden_rows> received_; ///< of the step under way
  workspace memory_;                                // before the KV cache, which takes the rest
  kv_pool kv_;
  launches launches_;
  draw_arrays draws_;
  graph_cache graphs_;
  allocation tapped_; ///< pinned: one group of logits
  std::vector<interval> intervals_;
  std::size_t intervals_used_ = 0;
  std::unique_ptr<driver_stream> stream_;
  /// What the draws read comes beside the layers: behind them, the device would do nothing else meanwhile.
  std::unique_ptr<driver_stream> uploads_;
  std::unique_ptr<driver_event> uploaded_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> left_{false};
  executor_info info_;
  host_thread thread_; // goes first
};

/// Whoever lets go of it last waits for its end, for the settings' patience at most, and then leaves it to a thread.
/// What the settings keep goes after all that it has.
[[nodiscard]] std::shared_ptr<engine> share_engine(std::shared_ptr<const device_model> model,
                                                   const cuda_executor_settings& settings);

} // namespace godwit::gpu::cuda
