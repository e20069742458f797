#pragma once

#include "model/json_reader.hpp"

#include <godwit/gpu/model/config.hpp>

/// What gpt-oss's config.json has that no other family's has. Absent fields are what transformers' GptOssConfig has for
/// them.
namespace godwit::gpu::model {

/// All but the sizes, which `out` has already.
void read_gpt_oss(const json_reader& in, config& out);

} // namespace godwit::gpu::model
