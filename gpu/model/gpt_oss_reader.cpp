#include "model/gpt_oss_reader.hpp"

#include "model/config_limits.hpp"
#include "model/layer_types.hpp"
#include "model/rope_reader.hpp"

#include <algorithm>

namespace godwit::gpu::model {

namespace {

constexpr double usual_theta = 150000;
constexpr double usual_slope = 1.702, usual_limit = 7;
constexpr std::uint32_t usual_experts = 128, usual_chosen = 4, usual_window = 128;

/// Every other layer from the first on, where the file does not say it of each.
void read_windows(const json_reader& in, config& out) {
  if (const auto types = windowed_by_type(in, out.layers))
    out.windowed = *types;
  else
    for (std::uint32_t i = 0; i < out.layers; ++i) out.windowed.push_back(i % 2 == 0);
  if (std::ranges::none_of(out.windowed, [](bool one) { return one; })) {
    out.windowed.clear();
    return;
  }
  if (in.has_key("sliding_window") && !in.has("sliding_window"))
    in.fail("sliding_window", "is null, and some layers have a sliding window (layer_types)");
  out.sliding_window = in.count("sliding_window", 1, positions_limit, usual_window);
}

/// The context is what the file says: max_position_embeddings is that of the stretched model.
void read_stretched(const json_reader& in, config& out) {
  out.rope.theta = in.number("rope_theta", 1.0, theta_max, usual_theta);
  auto positions = out.positions_max;
  const auto newer = in.object("rope_parameters");
  if (newer) refuse_two_rotations(in, *newer);
  if (const auto given = newer ? newer : in.object("rope_scaling")) return read_rotation(*given, out.rope, positions);
  out.rope.scaling = rope_config::scaling_kind::yarn;
  out.rope.factor = 32;
  out.rope.original_positions = 4096;
  out.rope.whole_pairs = false;
  out.rope.attention_factor = yarn_scale(out.rope.factor, 1.0);
}

} // namespace

void read_gpt_oss(const json_reader& in, config& out) {
  out.gate = activation::clamped;
  out.gate_limit = in.number("swiglu_limit", 1e-3, 1e6, usual_limit);
  out.gate_slope = in.number("swiglu_alpha", 1e-3, 1e3, usual_slope);
  out.sinks = true;
  out.qkv_bias = out.output_bias = in.flag("attention_bias", true);
  out.tied_embeddings = in.flag("tie_word_embeddings", false);
  auto& mixture = out.mixture;
  mixture.biased = true;
  mixture.experts =
      in.count("num_local_experts", 1, experts_max, in.count("num_experts", 1, experts_max, usual_experts));
  mixture.chosen = in.count("num_experts_per_tok", 1, mixture.experts, std::min(usual_chosen, mixture.experts));
  read_windows(in, out);
  read_stretched(in, out);
}

} // namespace godwit::gpu::model
