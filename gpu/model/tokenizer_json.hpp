#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

/// Reads and checks a tokenizer.json. Added tokens are special where it says so or `also_special` has their text.
/// Those from id `added_end` on are left out. Throws model_error.
[[nodiscard]] std::unique_ptr<tokenizer::parts>
read_tokenizer_json(std::string_view json, const std::string& file,
                    const std::set<std::string, std::less<>>& also_special = {},
                    protocols::token_id added_end = std::numeric_limits<protocols::token_id>::max());

} // namespace godwit::gpu::model
