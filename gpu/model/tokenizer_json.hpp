#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

/// Reads and checks a tokenizer.json. Added tokens are special where it says so or `also_special` has their text.
/// Throws model_error.
[[nodiscard]] std::unique_ptr<tokenizer::parts>
read_tokenizer_json(std::string_view json, const std::string& file,
                    const std::set<std::string, std::less<>>& also_special = {});

} // namespace godwit::gpu::model
