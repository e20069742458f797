#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/file_source.hpp>

namespace godwit::gpu::model {

/// Reads and checks config.json and, where there is one, generation_config.json. Throws model_error.
/// `type_given` tells whether config.json names a data type; otherwise the weights decide.
[[nodiscard]] config read_config(const file_source& files, bool& type_given);

} // namespace godwit::gpu::model
