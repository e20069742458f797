#include "main/profile_neighbours.hpp"

#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"

#include <algorithm>

namespace godwit::main {

busy_neighbours::busy_neighbours(const std::shared_ptr<const gpu::cpu::packed_model>& model,
                                 const gpu::cpu::cpu_executor_settings& settings, std::uint32_t count) {
  constexpr std::uint32_t sequences = 4, positions = 128; // a batch as small instances have it
  for (std::uint32_t i = 0; i < count; ++i) executors_.push_back(gpu::cpu::make_cpu_executor(model, settings));
  for (const auto& executor : executors_) {
    auto& on = *executor;
    step_shape shape{{{sequences, std::min(positions, on.info().positions_max) - 1, 1, true}}};
    if (shape.blocks() > on.info().blocks) shape = {{{1, 0, 1, true}}};
    threads_.emplace_back([this, &on, input = shape.input()] {
      while (!stopping_) (void)run_step_us(on, input);
    });
  }
}

busy_neighbours::~busy_neighbours() {
  stopping_ = true;
  for (auto& thread : threads_) thread.join();
}

} // namespace godwit::main
