#pragma once

#include "cpu/step_plan.hpp"
#include "cuda/driver.hpp"
#include "cuda/kernels_sampling_input.hpp"
#include "cuda/workspace.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

/// What a step's draws read and what comes of them, over the rows whose logits are computed, in the plan's order.
class draw_arrays {
public:
  /// Entries of `top` that a step wants for each row.
  [[nodiscard]] static std::uint32_t top_wanted(const cpu::step_plan& plan) noexcept;

  /// Entries that the lists of a step's draws have at most, known before the step begins: nothing may move within it.
  [[nodiscard]] static sampling_lists lists_max(const cpu::step_plan& plan, std::uint32_t vocabulary) noexcept;

  /// Rows and lists, with what schemas allow, which may take a while. A row whose schema cannot be followed draws
  /// nothing: its request ends, not the step.
  void upload(driver_stream& to, const cpu::step_plan& plan, std::uint32_t vocabulary, const mask_function& allowed,
              const workspace& memory);
  /// Only which rows they are: where logits are computed and another device draws.
  static void upload_rows(driver_stream& to, const cpu::step_plan& plan, const workspace& memory);
  void download(driver_stream& from, const workspace& memory) const;
  /// When the download has run.
  [[nodiscard]] protocols::step_output collect(const cpu::step_plan& plan, std::uint32_t vocabulary,
                                               const workspace& memory) const;

private:
  sampling_input input_;
  std::vector<std::string> refused_; ///< why, for rows of slices that draw nothing
};

} // namespace godwit::gpu::cuda
