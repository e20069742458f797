#include "main/instance_devices.hpp"

#include <godwit/gpu/tensor_parallel.hpp>

#include <charconv>
#include <optional>
#include <string_view>

namespace godwit::main {

namespace {

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::uint32_t> layers_of(const serve_settings& settings) {
  std::vector<std::uint32_t> layers;
  for (const auto& word : settings.instances.pipeline_layers) layers.push_back(number_in(word).value_or(0));
  return layers;
}

} // namespace

instance_devices devices_of(const serve_settings& settings) noexcept {
  const auto& s = settings.instances;
  return s.pipeline_parallel > 1 ? instance_devices{s.pipeline_parallel, true}
                                 : instance_devices{s.tensor_parallel, false};
}

std::string refuse_division(const serve_settings& settings, const gpu::model::config& model) {
  const auto& s = settings.instances;
  if (s.tensor_parallel > 1 && s.pipeline_parallel > 1)
    return "--tensor-parallel and --pipeline-parallel cannot be used together; leave one of them out";
  if (auto wrong = gpu::tensor_parallel::refuse_degree(model, s.tensor_parallel); !wrong.empty())
    return "--tensor-parallel: " + wrong;
  for (const auto& word : s.pipeline_layers)
    if (!number_in(word)) return "--pipeline-layers: '" + word + "' is not a number of layers, as in 20,12";
  const auto layers = layers_of(settings);
  if (s.pipeline_parallel == 1 && !layers.empty())
    return "--pipeline-layers: there is one stage; leave it out, or say how many there are with --pipeline-parallel";
  if (auto wrong = gpu::pipeline::refuse_stages(model.layers, s.pipeline_parallel, layers); !wrong.empty())
    return (layers.empty() ? "--pipeline-parallel: " : "--pipeline-layers: ") + wrong;
  return {};
}

std::vector<gpu::pipeline::stage> stages_of(const serve_settings& settings, const gpu::model::config& model) {
  return gpu::pipeline::cut_layers(model.layers, settings.instances.pipeline_parallel, layers_of(settings));
}

} // namespace godwit::main
