#pragma once

#include "cuda/device_model.hpp"
#include "cuda/driver.hpp"
#include "cuda/kv_pool.hpp"
#include "cuda/step_shape.hpp"
#include "cuda/workspace.hpp"

#include <cstdint>

namespace godwit::gpu::cuda {

/// The kernels and products of a step, onto a stream, which may capture them: nothing here waits, and all arguments are
/// functions of the shape and of addresses in the workspace.
class launches {
public:
  launches(const device_model& model, const kv_pool& kv, workspace& memory, bool deterministic)
      : model_(model), kv_(kv), memory_(memory), deterministic_(deterministic) {}

  void embed(driver_stream& to, const step_shape& shape) const;
  void layer(driver_stream& to, const step_shape& shape, std::uint32_t index) const;
  /// What the last layer left to be added.
  void close(driver_stream& to, const step_shape& shape) const;
  /// Rows first .. first + count - 1 of those whose logits are computed.
  void logits(driver_stream& to, std::uint32_t first, std::uint32_t count) const;
  void draw(driver_stream& to, std::uint32_t first, std::uint32_t count) const;

private:
  void product(driver_stream& to, gemm_job job, std::uint32_t rows) const;
  void norm(driver_stream& to, const step_shape& shape, const void* weight, const void* added_bias) const;
  /// Onto the residual stream, now or in the next norm.
  void add_product(driver_stream& to, const step_shape& shape, const void* x, const void* w, std::uint32_t depth,
                   const void* bias) const;
  void attend(driver_stream& to, const step_shape& shape, std::uint32_t index) const;

  const device_model& model_;
  const kv_pool& kv_;
  workspace& memory_;
  bool deterministic_;
};

} // namespace godwit::gpu::cuda
