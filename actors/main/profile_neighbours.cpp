#include "main/profile_neighbours.hpp"

#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace godwit::main {

busy_neighbours::busy_neighbours(std::vector<std::shared_ptr<gpu::executor>> executors)
    : executors_(std::move(executors)) {
  for (const auto& executor : executors_) threads_.emplace_back([this, &on = *executor] { run(on); });
}

void busy_neighbours::run(gpu::executor& on) {
  constexpr std::uint32_t sequences = 4, positions = 128; // a batch as small instances have it
  step_shape shape{{{sequences, std::min(positions, on.info().positions_max) - 1, 1, true}}};
  if (shape.blocks() > on.info().blocks) shape = {{{1, 0, 1, true}}};
  try {
    const auto input = shape.input();
    do (void)run_step_us(on, input);
    while (!stopping_);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void busy_neighbours::join() {
  stopping_ = true;
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void busy_neighbours::end() {
  join();
  executors_.clear();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

busy_neighbours::~busy_neighbours() { join(); }

} // namespace godwit::main
