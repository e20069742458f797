#include "gpu/cuda/cuda_support.hpp"

#include <godwit/gpu/event.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cuda::testing {

model::config small_config() {
  model::config c;
  c.vocabulary = 101;
  c.hidden = 64;
  c.intermediate = 136;
  c.layers = 2;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_size = 32;
  c.positions_max = 1024;
  return c;
}

model::config four_kv_heads() {
  auto c = small_config();
  c.heads = 8;
  c.kv_heads = 4;
  c.head_size = 16;
  return c;
}

model_parts upload_parts(cuda_backend& backend, const model::config& config, const model::weights& weights,
                         std::uint32_t degree, std::uint32_t first) {
  model_parts parts;
  for (std::uint32_t rank = 0; rank < degree; ++rank)
    parts.push_back(backend.upload(first + rank, config, weights, {rank, degree}));
  return parts;
}

model_parts upload_stages(cuda_backend& backend, const model::config& config, const model::weights& weights,
                          std::span<const std::uint32_t> layers, std::uint32_t first) {
  model_parts parts;
  for (const auto& stage : pipeline::cut_layers(config.layers, static_cast<std::uint32_t>(layers.size()), layers))
    parts.push_back(backend.upload(first + stage.index, config, weights, {}, stage));
  return parts;
}

cuda_runner::cuda_runner(cuda_backend& backend, std::shared_ptr<const cuda_model> model,
                         cuda_executor_settings settings)
    : cuda_runner(backend, std::vector{std::move(model)}, std::move(settings)) {}

cuda_runner::cuda_runner(cuda_backend& backend, const model_parts& parts, cuda_executor_settings settings) {
  settings.step_tokens = 64;
  settings.logits_tap = [this](const cpu::logits_row& row) {
    logits_[row.slice].assign(row.values.begin(), row.values.end());
  };
  executor_ = backend.make_executor(parts, settings, std::chrono::minutes(1));
}

protocols::step_output cuda_runner::step(std::vector<protocols::step_slice> slices,
                                         std::vector<protocols::block_copy> copies, std::uint32_t layers_at_once) {
  logits_.clear();
  return run_step(*executor_, ++steps_, std::move(slices), std::move(copies), layers_at_once);
}

protocols::step_output run_step(executor& on, std::uint64_t number, std::vector<protocols::step_slice> slices,
                                std::vector<protocols::block_copy> copies, std::uint32_t layers_at_once) {
  protocols::step_input input;
  input.step = number;
  input.slices = std::move(slices);
  input.copies = std::move(copies);
  const auto pass = on.begin(std::move(input));
  const std::uint32_t layers = pass->layers(), stride = layers_at_once == 0 ? layers : layers_at_once;
  std::string error;
  for (std::uint32_t upto = std::min(stride, layers);; upto = std::min(upto + stride, layers)) {
    const event ran;
    pass->advance(upto, [&](std::string what) {
      error = std::move(what);
      ran.set();
    });
    ran.wait();
    if (!error.empty()) throw std::runtime_error(error);
    if (upto == layers) return pass->take();
  }
}

double distance(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
    const double one = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(one <= difference)) difference = one; // NaN counts
  }
  return difference / largest;
}

} // namespace godwit::gpu::cuda::testing
