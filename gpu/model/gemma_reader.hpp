#pragma once

#include "model/json_reader.hpp"

#include <godwit/gpu/model/config.hpp>

/// What Gemma 3's config.json has that no other family's has. Absent fields are what transformers' Gemma3TextConfig has
/// for them.
namespace godwit::gpu::model {

/// Where the text's model is described: files of models that see, too, have it in "text_config".
[[nodiscard]] json_reader text_part(const json_reader& whole, const config& out);

/// All but the sizes, which `out` has already.
void read_gemma3(const json_reader& whole, const json_reader& in, config& out);

/// The tokens of beginning and end that the files leave out.
void complete_special(config& out);

} // namespace godwit::gpu::model
