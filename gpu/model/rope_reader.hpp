#pragma once

#include "model/json_reader.hpp"

#include <godwit/gpu/model/config.hpp>

#include <cstdint>

/// What config.json says of rotation.
namespace godwit::gpu::model {

inline constexpr double theta_max = 1e12;

/// Older files: rope_theta beside rope_scaling {"type" or "rope_type"}; newer ones: all of it in rope_parameters.
/// Linear scaling and YaRN lengthen the context.
void read_rope(const json_reader& in, config& out);

/// One such object. What it does not say stays as it is in `rope`; `positions_max`: the context, lengthened.
void read_rotation(const json_reader& in, rope_config& rope, std::uint32_t& positions_max);

/// YaRN's attention_factor by equation (22) of its paper, of which there is `weight` times as much.
[[nodiscard]] double yarn_scale(double factor, double weight);

/// Where the file has the older rope_scaling beside the newer object: who adds it there means something by it.
void refuse_two_rotations(const json_reader& in, const json_reader& newer);

/// It stands in the configuration itself or, in newer files, with what else is said of rotation.
void refuse_partial_rotation(const json_reader& in);

} // namespace godwit::gpu::model
