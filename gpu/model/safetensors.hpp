#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::model {

struct named_tensor {
  std::string name;
  tensor_view view;
  std::string unsupported; ///< the file's type where it is none of data_type, as which `view` then has it
};

/// Reads the header of a safetensors file and checks every number in it: header length, depth, types, shapes, offsets,
/// that tensors lie within the file, do not overlap and leave no hole. Throws model_error. Views point into `bytes`.
[[nodiscard]] std::vector<named_tensor> read_safetensors(std::span<const std::byte> bytes, const std::string& file);

/// All tensors of model.safetensors, or of the shards that model.safetensors.index.json names. Throws model_error
/// unless every tensor that the configuration calls for is there with its shape, and the layers have no others: a bias
/// or a norm that is left out would make another model of it, in silence.
[[nodiscard]] std::shared_ptr<const weights> read_weights(std::shared_ptr<const file_source> files,
                                                          const config& configuration);

} // namespace godwit::gpu::model
