#pragma once

#include "model/json_reader.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace godwit::gpu::model {

/// config.json's layer_types: of each layer whether it has the sliding window. Absent: the file does not say it.
[[nodiscard]] std::optional<std::vector<bool>> windowed_by_type(const json_reader& in, std::uint32_t layers);

} // namespace godwit::gpu::model
