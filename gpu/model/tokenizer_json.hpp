#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

/// Reads and checks a tokenizer.json. Throws model_error.
[[nodiscard]] std::unique_ptr<const tokenizer::parts> read_tokenizer_json(std::string_view json,
                                                                          const std::string& file);

} // namespace godwit::gpu::model
