#pragma once

#include "cuda/device_model.hpp"
#include "cuda/driver.hpp"
#include "cuda/kv_pool.hpp"
#include "cuda/step_shape.hpp"
#include "cuda/workspace.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda {

/// The kernels and products of a step, onto a stream, which may capture them: nothing here waits, and all arguments are
/// functions of the shape and of addresses in the workspace. What devices that share a model compute in parts meets in
/// the group's operations, which are enqueued like the rest.
class launches {
public:
  launches(const device_model& model, const kv_pool& kv, workspace& memory, bool deterministic)
      : model_(model), kv_(kv), memory_(memory), deterministic_(deterministic) {}

  /// The products of a step, with the weights of all layers: to find out how they are fastest. Results go where a
  /// step's go.
  [[nodiscard]] std::vector<product_trial> trials() const;
  /// Before any step: products are computed in the ways that were found.
  void use(const product_ways& ways) noexcept { ways_ = &ways; }

  /// Launches everything once, over padding, so that its code is loaded: kernels for the model's type and sizes, and
  /// the products of each number of rows that there is memory for. Overwrites a step's memory; needs no KV cache.
  /// Problem: code that is loaded in the middle of serving may wait for all streams of the device, those of other
  /// instances too.
  void load(driver_stream& to) const;

  /// Before any step, where the model is divided.
  void join(std::shared_ptr<group_end> group) { group_ = std::move(group); }

  void embed(driver_stream& to, const step_shape& shape) const;
  void layer(driver_stream& to, const step_shape& shape, std::uint32_t index) const;
  /// What the last layer left to be added.
  void close(driver_stream& to, const step_shape& shape) const;
  /// Rows first .. first + count - 1 of those whose logits are computed; of a divided model each part's.
  void logits(driver_stream& to, std::uint32_t first, std::uint32_t count) const;
  /// Of a divided model: puts the parts together. Where tokens are drawn.
  void join_logits(driver_stream& to, std::uint32_t count) const;
  void draw(driver_stream& to, std::uint32_t first, std::uint32_t count) const;

private:
  /// A product that the next norm adds to the residual stream, or none.
  struct addition {
    bool there = false;
    const void* bias = nullptr;
  };
  [[nodiscard]] addition later(const void* bias) const noexcept { return {model_.divided() || bias != nullptr, bias}; }
  void product(driver_stream& to, gemm_job job, std::uint32_t rows) const;
  // All but the rows.
  [[nodiscard]] gemm_job of_normed(const void* w, void* y, std::uint32_t columns) const;
  [[nodiscard]] gemm_job qkv_of(const device_layer& layer) const;
  [[nodiscard]] gemm_job output_of(const device_layer& layer) const;
  [[nodiscard]] gemm_job gate_up_of(const device_layer& layer) const;
  [[nodiscard]] gemm_job down_of(const device_layer& layer) const;
  [[nodiscard]] gemm_job router_of(const device_layer& layer) const;
  [[nodiscard]] gemm_job head() const;
  /// Onto the residual stream, now or in the next norm.
  [[nodiscard]] gemm_job added_of(const void* x, const void* w, std::uint32_t depth, const void* bias) const;
  void norm(driver_stream& to, const step_shape& shape, const void* weight, addition before) const;
  void add_product(driver_stream& to, const step_shape& shape, const gemm_job& job) const;
  /// What this device has of a sum, to all that share the model.
  void share_added(driver_stream& to, const step_shape& shape) const;
  void mlp(driver_stream& to, const step_shape& shape, const device_layer& w) const;
  /// The same of a mixture of experts; tiles of `tile_rows` entries.
  void mixture(driver_stream& to, const step_shape& shape, const device_layer& w, std::uint32_t tile_rows) const;
  void swiglu(driver_stream& to, std::uint32_t rows, const void* bias) const;
  void attend(driver_stream& to, const step_shape& shape, std::uint32_t index) const;

  const device_model& model_;
  const kv_pool& kv_;
  workspace& memory_;
  bool deterministic_;
  std::shared_ptr<group_end> group_;   ///< null: the model is whole, or its parts have not met yet
  const product_ways* ways_ = nullptr; ///< null: as the library proposes; the model's
};

} // namespace godwit::gpu::cuda
