#pragma once

#include "model/json_reader.hpp"

#include <godwit/gpu/model/config.hpp>

namespace godwit::gpu::model {

/// Reads config.json's quantization_config, where there is one. Throws model_error where it is none of those that
/// `find_coded` knows.
[[nodiscard]] quantization_config read_quantization(const json_reader& config);

} // namespace godwit::gpu::model
