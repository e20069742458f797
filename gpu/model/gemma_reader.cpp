#include "model/gemma_reader.hpp"

#include "model/config_limits.hpp"
#include "model/layer_types.hpp"
#include "model/rope_reader.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

namespace {

constexpr std::uint32_t gemma_window = 4096;
constexpr std::uint32_t gemma_pattern = 6; // five layers with the window, one without
constexpr double gemma_query_scalar = 256;
constexpr double gemma_theta = 1e6, gemma_window_theta = 1e4;

void refuse_other_gemmas(const json_reader& in) {
  for (const auto* field : {"final_logit_softcapping", "attn_logit_softcapping"})
    if (in.has(field)) in.fail(field, "is not supported; supported: null");
  if (in.flag("use_bidirectional_attention", false))
    in.fail("use_bidirectional_attention", "true is not supported; supported: false");
}

/// The file says it of each layer, or every how many there is one without the window.
std::vector<bool> layers_with_window(const json_reader& in, std::uint32_t layers) {
  if (auto types = windowed_by_type(in, layers)) return *std::move(types);
  std::vector<bool> out;
  const auto usual = in.count("_sliding_window_pattern", 1, layers_max, gemma_pattern); // as some versions write it
  const auto pattern = in.count("sliding_window_pattern", 1, layers_max, usual);
  for (std::uint32_t i = 1; i <= layers; ++i) out.push_back(i % pattern != 0);
  return out;
}

void read_windows(const json_reader& in, config& out) {
  out.windowed = layers_with_window(in, out.layers);
  if (std::ranges::none_of(out.windowed, [](bool one) { return one; })) {
    out.windowed.clear();
    return;
  }
  if (in.has_key("sliding_window") && !in.has("sliding_window"))
    in.fail("sliding_window", "is null, and some layers have a sliding window (layer_types, sliding_window_pattern)");
  out.sliding_window = in.count("sliding_window", 1, positions_limit, gemma_window);
}

/// Older files: rope_theta and rope_scaling, of the layers that see everything, and rope_local_base_freq; newer ones:
/// rope_parameters, by kinds of layers. The context is what the file says: Gemma's are of the stretched model.
void read_ropes(const json_reader& in, config& out) {
  out.rope.theta = in.number("rope_theta", 1.0, theta_max, gemma_theta);
  rope_config windowed;
  windowed.theta = in.number("rope_local_base_freq", 1.0, theta_max, gemma_window_theta);
  const auto read = [&out](const json_reader& from, rope_config& rope) {
    auto positions = out.positions_max;
    read_rotation(from, rope, positions);
  };
  if (const auto newer = in.object("rope_parameters")) {
    const auto full = newer->object("full_attention"), sliding = newer->object("sliding_attention");
    if (!full && !sliding)
      newer->fail("full_attention", "is missing: such a model's rotation is said for each kind of layer, "
                                    "\"full_attention\" and \"sliding_attention\"");
    if (in.has("rope_scaling") && !full)
      in.fail("rope_scaling", "is given beside rope_parameters without \"full_attention\", which it would be of");
    if (full) {
      refuse_two_rotations(in, *full);
      read(*full, out.rope);
    }
    if (sliding) read(*sliding, windowed);
  } else if (const auto older = in.object("rope_scaling")) {
    read(*older, out.rope);
  }
  if (out.sliding_window) out.window_rope = std::move(windowed);
}

} // namespace

json_reader text_part(const json_reader& whole, const config& out) {
  return leaves_images_aside(out) ? whole.required_object("text_config") : whole;
}

void read_gemma3(const json_reader& whole, const json_reader& in, config& out) {
  refuse_other_gemmas(in);
  out.gate = activation::gelu_tanh;
  out.scaled_embeddings = out.norms_less_one = out.post_norms = out.qk_norm = true;
  out.query_scalar = in.number("query_pre_attn_scalar", 1e-6, 1e9, gemma_query_scalar);
  out.qkv_bias = out.output_bias = in.flag("attention_bias", false);
  out.tied_embeddings = in.flag("tie_word_embeddings", whole.flag("tie_word_embeddings", true));
  read_windows(in, out);
  read_ropes(in, out);
}

void complete_special(config& out) {
  constexpr protocols::token_id bos = 2, eos = 1;
  if (!out.bos && out.vocabulary > 2) out.bos = bos;
  if (out.eos.empty() && out.vocabulary > 2) out.eos.push_back(eos);
}

} // namespace godwit::gpu::model
