#pragma once

#include "cpu/activations.hpp"
#include "cpu/kernels.hpp"
#include "cpu/kv_pool.hpp"
#include "cpu/packed_model.hpp"
#include "cpu/rope.hpp"
#include "cpu/routing.hpp"
#include "cpu/step_plan.hpp"
#include "cpu/team.hpp"

#include <godwit/gpu/collective.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/pipeline.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace godwit::gpu::cpu {

/// How a model's MLPs gate; the rest of the job is not told yet.
[[nodiscard]] inline swiglu_job gated_by(const model::config& config) noexcept {
  swiglu_job job;
  if (config.gate == model::activation::gelu_tanh) job.gate = gate_kind::gelu_tanh;
  if (config.gate != model::activation::clamped) return job;
  job.gate = gate_kind::clamped;
  job.limit = static_cast<float>(config.gate_limit);
  job.slope = static_cast<float>(config.gate_slope);
  return job;
}

/// What a forward pass works with; all of it outlives the pass.
struct engine_parts {
  const packed_model& model;
  const kernel_table& kernels;
  const kv_layers& kv;
  activations& memory;
  const rope_angles& angles;
  const rope_angles* window_angles;     ///< of layers with a window; null: `angles`
  std::vector<draw_function>& samplers; ///< one for each thread
  const std::function<void(const logits_row&)>& tap;
  collective::communicator* group; ///< the devices that share the model; null: this one has all of it
  pipeline::stage_link* before;    ///< where the rows come from; null: this device has the first layers
  pipeline::stage_link* after;     ///< where they go; null: the last ones
};

/// The arithmetic of one step. All threads of a team run it together, phase by phase, with a barrier after each.
///
/// Within a phase threads take pieces of columns, heads or rows, never parts of one sum, so the numbers do not depend
/// on who does what.
///
/// Where the model is divided among devices they meet twice a layer, to add up what each has of a product, and for the
/// logits; rank 0 draws the tokens. When a meeting fails the pass is over.
///
/// Where its layers are divided among devices, rows come over a link from the stage before, and go over one to the
/// next.
class forward_pass {
public:
  forward_pass(engine_parts parts, step_plan plan);

  /// Layers first .. last - 1; before layer 0 the copies and the embedding, after the last one logits and sampling.
  /// Called by every member. Stops early, between layers, once `cancelled`.
  void run(team::member& self, std::uint32_t first, std::uint32_t last, const std::atomic<bool>& cancelled);

  [[nodiscard]] const step_plan& plan() const noexcept { return plan_; }
  /// Of the meeting, or the hand-over, that failed; empty: none has.
  [[nodiscard]] const std::string& error() const noexcept { return error_; }
  /// Whether this device has the step's tokens.
  [[nodiscard]] bool draws() const noexcept { return parts_.model.draws(); }
  /// In the order of the slices with `samples`; protocols::no_token where none could be drawn.
  [[nodiscard]] std::vector<protocols::sampled_token>& drawn() noexcept { return drawn_; }
  /// Why those were not, by their index in `drawn`.
  [[nodiscard]] const std::map<std::size_t, std::string>& undrawn() const noexcept { return undrawn_; }
  /// Of all `scored` tokens, slice after slice.
  [[nodiscard]] std::vector<protocols::sampled_token>& scores() noexcept { return scores_; }

private:
  /// False: `failed_`.
  bool begin(team::member& self);
  /// Rows of the residual stream from the stage before; to the next one. False: `failed_`.
  bool receive(team::member& self);
  bool send(team::member& self);
  /// Leaves the last barrier to the caller. False: `failed_`.
  bool layer(team::member& self, std::uint32_t index);
  void finish(team::member& self);
  /// False: `failed_`.
  bool logits_group(team::member& self, std::uint32_t first, std::uint32_t rows);
  /// From the last phase's parts to `memory.logits`, at rank 0. False: `failed_`.
  bool gather_logits(team::member& self, std::uint32_t rows);
  /// Rows of the residual stream into packed activations for the next product; private to the thread for few rows.
  const std::byte* norm(team::member& self, const float* weight);
  void attention(team::member& self, std::uint32_t layer);
  void write_piece(const block_piece& piece, std::uint32_t head, std::uint32_t layer) const;
  void attend_rows(const thread_scratch& own, const query_piece& piece, std::uint32_t head, std::uint32_t layer) const;
  [[nodiscard]] std::byte* queries_of(const planned_slice& slice, std::uint32_t head) const;

  /// Packed activations as codes want them; private to the thread for few rows. All threads have met since the product
  /// before.
  rounded_rows round(team::member& self, const std::byte* a, std::uint32_t rows, std::uint32_t depth) const;

  /// A product that adapters may add to.
  struct adapted_product {
    std::uint32_t layer = 0;
    layer_product which = layer_product::qkv;
  };
  [[nodiscard]] const adapter_product& product_of(const adapter_rows& adapted, adapted_product what) const;
  /// What adapters add is small in the middle: all of that, of one product, from its activations `a`.
  void lower(team::member& self, adapted_product what, const std::byte* a) const;
  /// Rows of an adapter, up to 16, as a tile of packed activations: in `a`, or gathered.
  [[nodiscard]] const std::byte* tile_of(const adapter_rows& adapted, std::uint32_t tile, const std::byte* a,
                                         std::uint32_t depth, const adapter_scratch& own) const;
  /// Adds what they add to a piece of it, rows [row, row + rows) and `job`'s panels from `first` on, to `job.y`.
  void raise(adapted_product what, std::uint32_t row, const gemm_job& job, std::uint32_t first,
             const adapter_scratch& own) const;
  /// All columns of a product, piece by piece; `use(first row, rows, first panel, panels, y, y stride)` takes each
  /// result.
  /// `adapted`: absent where adapters have no part in it.
  template <class Use>
  void product(team::member& self, const packed_matrix& w, const std::byte* a, std::uint32_t rows,
               std::optional<adapted_product> adapted, const Use& use) const;
  /// The experts of a layer, once the router has spoken; `a`: what they are given. residual += what they compute, over
  /// all devices. False: `failed_`.
  bool mixture(team::member& self, const packed_layer& w, const std::byte* a);
  /// What all experts are given, expert by expert.
  struct given_rows {
    const std::byte* packed = nullptr;
    rounded_rows rounded;  ///< where codes want them so
    std::size_t value = 0; ///< bytes of one
  };
  given_rows given_to(team::member& self, const packed_layer& w, packed_matrix packed_mlp::*which,
                      const std::byte* a) const;
  /// Its parts: what experts are given, expert by expert; their gates and ups; their downs, weighted, added to `to`.
  void gather(team::member& self, const std::byte* a);
  void raise_experts(team::member& self, const packed_layer& w) const;
  void lower_experts(team::member& self, const packed_layer& w, float* to) const;
  /// residual += partial + bias, over all devices; that sum normed where there is a `post_norm`. False: `failed_`.
  bool sum_parts(team::member& self, const float* bias, std::uint32_t columns, const float* post_norm);
  /// residual += a * w, over all devices, likewise. False: `failed_`.
  bool add_product(team::member& self, const packed_matrix& w, const std::byte* a, adapted_product what,
                   const float* post_norm);
  /// Member 0 does what all devices do together, between two barriers. False: `failed_`.
  template <class Operation> bool meet(team::member& self, const Operation& operation);

  engine_parts parts_;
  step_plan plan_;
  routing routing_; ///< of the layer that is computed; member 0 groups it between two barriers
  std::uint32_t group_;
  storage activation_;
  float scale_; ///< of attention's scores
  const bool fetch_ahead_ = fetches_ahead();
  std::vector<protocols::sampled_token> drawn_;
  std::mutex undrawn_mutex_; ///< while the step runs
  std::map<std::size_t, std::string> undrawn_;
  std::vector<protocols::sampled_token> scores_;
  std::string error_;
  std::shared_ptr<pipeline::hidden_rows>
      handed_;          ///< on their way from or to another stage; member 0's between barriers
  bool stop_ = false;   ///< written by member 0 before a barrier
  bool failed_ = false; ///< by member 0 between two barriers
};

} // namespace godwit::gpu::cpu
