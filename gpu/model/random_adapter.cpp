#include <godwit/gpu/model/adapter.hpp>

#include "model/adapter_names.hpp"
#include "model/new_file.hpp"
#include "model/random_files.hpp"
#include "model/random_values.hpp"
#include "model/tensor_list.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <span>

namespace godwit::gpu::model {

void write_random_adapter(const config& configuration, std::uint32_t rank, std::uint64_t seed,
                          const std::filesystem::path& directory) {
  if (rank == 0 || rank > adapter_rank_max)
    throw model_error("an adapter's rank is 1 to " + std::to_string(adapter_rank_max) + ", not " +
                      std::to_string(rank));
  std::vector<tensor_need> tensors;
  boost::json::array modules;
  // Attention's alone where experts are in the place of the MLP.
  const auto some = configuration.mixture.experts > 0 ? static_cast<std::size_t>(projection::gate) : projections;
  for (std::size_t i = 0; i < some; ++i) modules.emplace_back(adapter_module(static_cast<projection>(i)));
  for (std::uint32_t layer = 0; layer < configuration.layers; ++layer)
    for (std::size_t i = 0; i < some; ++i) {
      const auto which = static_cast<projection>(i);
      const auto [outputs, inputs] = shape_of(configuration, which);
      tensors.push_back({adapter_tensor(layer, which, 'A'), {rank, inputs}, tensor_role::projection});
      tensors.push_back({adapter_tensor(layer, which, 'B'), {outputs, rank}, tensor_role::projection});
    }
  make_directory(directory);
  new_file file(directory / adapter_tensors_file);
  const auto header = safetensors_header(tensors);
  file.write(header.data(), header.size());
  const random_values random(configuration, seed ^ 0xADA97E5ULL);
  std::vector<std::uint16_t> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    values.resize(elements_of(tensors[i]));
    random.fill(tensors[i], static_cast<std::uint32_t>(i), 0, values);
    file.write(values.data(), values.size() * 2);
  }
  (void)file.finish();
  // Last: a directory without it is no adapter yet. Half as much as the matrices that it adds to.
  const boost::json::object facts{{"peft_type", "LORA"},
                                  {"task_type", "CAUSAL_LM"},
                                  {"r", rank},
                                  {"lora_alpha", static_cast<double>(rank) / 2},
                                  {"lora_dropout", 0.0},
                                  {"bias", "none"},
                                  {"fan_in_fan_out", false},
                                  {"modules_to_save", nullptr},
                                  {"target_modules", std::move(modules)}};
  (void)write_text(directory / adapter_config_file, boost::json::serialize(facts) + "\n");
}

} // namespace godwit::gpu::model
