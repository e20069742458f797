#include <godwit/gpu/model/fingerprint.hpp>

#include "model/coded_matrix.hpp"
#include "model/hasher.hpp"
#include "model/tensor_list.hpp"

namespace godwit::gpu::model {

namespace {

constexpr std::uint64_t pages = 16;

/// What one family has: others' fingerprints are as they were before there was it.
void add_gemma(hasher& h, const config& c) {
  h.word(static_cast<std::uint64_t>(c.gate));
  for (const bool x : {c.scaled_embeddings, c.norms_less_one, c.post_norms}) h.word(x ? 1 : 0);
  h.number(c.query_scalar);
  h.word(c.windowed.size());
  for (const bool x : c.windowed) h.word(x ? 1 : 0);
  if (!c.window_rope) return;
  h.word(static_cast<std::uint64_t>(c.window_rope->scaling));
  for (const double x : {c.window_rope->theta, c.window_rope->factor, c.window_rope->low_frequency_factor,
                         c.window_rope->high_frequency_factor, c.window_rope->fast_rotations,
                         c.window_rope->slow_rotations, c.window_rope->attention_factor})
    h.number(x);
  h.word(c.window_rope->original_positions);
  h.word(c.window_rope->whole_pairs ? 1 : 0);
}

void add_gpt_oss(hasher& h, const config& c) {
  h.word(static_cast<std::uint64_t>(c.gate));
  for (const bool x : {c.sinks, c.mixture.biased}) h.word(x ? 1 : 0);
  for (const double x : {c.gate_limit, c.gate_slope}) h.number(x);
  h.word(c.windowed.size());
  for (const bool x : c.windowed) h.word(x ? 1 : 0);
}

void add(hasher& h, const config& c) {
  h.word(static_cast<std::uint64_t>(c.kind));
  for (const std::uint32_t x : {c.vocabulary, c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, c.head_size,
                                c.positions_max, c.rope.original_positions, c.mixture.experts, c.mixture.chosen})
    h.word(x);
  h.word(static_cast<std::uint64_t>(c.rope.scaling));
  for (const double x :
       {c.rms_norm_epsilon, c.rope.theta, c.rope.factor, c.rope.low_frequency_factor, c.rope.high_frequency_factor,
        c.rope.fast_rotations, c.rope.slow_rotations, c.rope.attention_factor})
    h.number(x);
  for (const auto x : c.rope.factors) h.number(x);
  for (const bool x :
       {c.tied_embeddings, c.qkv_bias, c.qk_norm, c.output_bias, c.mlp_bias, c.rope.whole_pairs, c.mixture.normed})
    h.word(x ? 1 : 0);
  if (c.quantization.method != quantization_config::method_kind::none) {
    h.word(static_cast<std::uint64_t>(c.quantization.method));
    h.word(c.quantization.zeros_less_one ? 1 : 0);
    h.word(c.quantization.block_rows);
    h.word(c.quantization.block_columns);
    h.word(c.quantization.group);
  }
  h.word(c.sliding_window ? std::uint64_t{*c.sliding_window} + 1 : 0);
  if (c.kind == family::gemma3) add_gemma(h, c);
  if (c.kind == family::gpt_oss) add_gpt_oss(h, c);
  h.word(c.eos.size()); // the planner ends answers there
  for (const auto id : c.eos) h.word(static_cast<std::uint32_t>(id));
}

/// Bytes from its first value to the end of its last: others' lie between where it is not row-major.
std::uint64_t extent_of(const tensor_view& t) {
  if (t.data == nullptr || t.bytes == 0) return 0;
  if (t.row_major()) return t.bytes;
  return ((t.shape[0] - 1) * t.row_step + (t.shape[1] - 1) * t.column_step + 1) * bytes_of(t.type);
}

void add(hasher& h, const tensor_view& t) {
  h.word(static_cast<std::uint64_t>(t.type));
  h.word(t.shape.size());
  for (const auto dimension : t.shape) h.word(dimension);
  h.word(t.bytes);
  if (t.coded != nullptr) {
    const auto& is = t.coded->dimensions();
    h.word(static_cast<std::uint64_t>(is.kind));
    h.word(is.by_sums_of_codes ? 1 : 0);
    h.word(is.format);
    for (const auto part : t.coded->sources())
      h.sample(part.size(), pages, [part](std::uint64_t at, std::uint64_t) { return part.data() + at; });
    return;
  }
  h.sample(extent_of(t), pages, [&t](std::uint64_t at, std::uint64_t) { return t.data + at; });
}

} // namespace

std::string fingerprint(const config& configuration, const weights& tensors) {
  hasher h;
  add(h, configuration);
  for (const auto& need : tensors_of(configuration)) {
    h.text(need.name);
    if (const auto* tensor = tensors.find(need.name)) add(h, *tensor);
  }
  std::string out(16, '0');
  auto rest = h.value();
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit, rest >>= 4U) *digit = "0123456789abcdef"[rest & 15U];
  return out;
}

} // namespace godwit::gpu::model
