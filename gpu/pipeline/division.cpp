#include <godwit/gpu/pipeline.hpp>

#include <algorithm>
#include <numeric>

namespace godwit::gpu::pipeline {

std::string refuse_stages(std::uint32_t all, std::uint32_t stages, std::span<const std::uint32_t> layers) {
  if (stages == 0 || stages > stages_max) return "1 to " + std::to_string(stages_max) + " stages are possible";
  const auto model = "the model's " + std::to_string(all) + " layers";
  if (stages > all) return model + " cannot be divided among " + std::to_string(stages) + " stages; at most one each";
  if (layers.empty()) return {};
  if (layers.size() != stages)
    return std::to_string(layers.size()) + " numbers of layers are given for " + std::to_string(stages) + " stages";
  if (std::ranges::find(layers, 0U) != layers.end()) return "a stage has at least one layer";
  const auto sum = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
  if (sum != all) return model + " are not the " + std::to_string(sum) + " that the stages have together";
  return {};
}

std::vector<stage> cut_layers(std::uint32_t all, std::uint32_t stages, std::span<const std::uint32_t> layers) {
  if (stages == 1) return {stage{}};
  std::vector<stage> out;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < stages; ++i) {
    const auto own = layers.empty() ? all / stages + (i < all % stages ? 1 : 0) : layers[i];
    out.push_back({i, stages, first, own});
    first += own;
  }
  return out;
}

} // namespace godwit::gpu::pipeline
