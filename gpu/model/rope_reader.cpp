#include "model/rope_reader.hpp"

#include "model/config_limits.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

namespace {

bool are_equal(const boost::json::value& a, const boost::json::value& b) {
  return a.is_number() && b.is_number() ? a.to_number<double>() == b.to_number<double>() : a == b;
}

constexpr double rope_factor_max = 1e6;

/// The file says what the model had before it was stretched; vLLM multiplies, too.
void stretch(std::uint32_t& positions_max, double positions) {
  positions_max = static_cast<std::uint32_t>(std::min(positions, static_cast<double>(positions_limit)));
}

void read_linear(const json_reader& in, rope_config& rope, std::uint32_t& positions_max) {
  rope.factor = in.number("factor", 1.0, rope_factor_max);
  stretch(positions_max, positions_max * rope.factor);
}

void read_llama3(const json_reader& in, rope_config& rope, std::uint32_t& /*positions_max*/) {
  rope.factor = in.number("factor", 1.0, rope_factor_max);
  rope.low_frequency_factor = in.number("low_freq_factor", 1e-6, rope_factor_max);
  rope.high_frequency_factor = in.number("high_freq_factor", 1e-6, rope_factor_max);
  rope.original_positions = in.count("original_max_position_embeddings", 1, positions_limit);
  if (rope.high_frequency_factor <= rope.low_frequency_factor)
    in.fail("high_freq_factor", "must be above low_freq_factor");
}

/// As transformers reads it, and vLLM what both have: the context is the original one times the factor, whatever
/// max_position_embeddings says; attention_factor is what the file says, or what the paper's equation (22) gives.
void read_yarn(const json_reader& in, rope_config& rope, std::uint32_t& positions_max) {
  rope.factor = in.number("factor", 1.0, rope_factor_max);
  rope.original_positions = in.count("original_max_position_embeddings", 1, positions_limit, positions_max);
  rope.fast_rotations = in.number("beta_fast", 1e-6, rope_factor_max, rope.fast_rotations);
  rope.slow_rotations = in.number("beta_slow", 1e-6, rope_factor_max, rope.slow_rotations);
  if (rope.fast_rotations <= rope.slow_rotations) in.fail("beta_fast", "must be above beta_slow");
  if (rope.theta <= 1.0) in.fail("rope_type", "\"yarn\" needs a rope_theta above 1");
  rope.whole_pairs = in.flag("truncate", true);
  const double weight = in.number("mscale", 0.0, rope_factor_max, 0.0);
  const double weight_of_all = in.number("mscale_all_dim", 0.0, rope_factor_max, 0.0);
  const double usual = weight > 0 && weight_of_all > 0
                           ? yarn_scale(rope.factor, weight) / yarn_scale(rope.factor, weight_of_all)
                           : yarn_scale(rope.factor, 1.0);
  rope.attention_factor = in.number("attention_factor", 1e-6, rope_factor_max, usual);
  // vLLM's own names, which transformers does not know.
  for (const auto* name : {"attn_factor", "extrapolation_factor"})
    if (in.number(name, 0.0, rope_factor_max, 1.0) != 1.0)
      in.fail(name, "other than 1 is not supported; \"attention_factor\" is");
  if (!in.flag("apply_yarn_scaling", true)) in.fail("apply_yarn_scaling", "false is not supported; supported: true");
  stretch(positions_max, rope.original_positions * rope.factor);
}

} // namespace

double yarn_scale(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

void refuse_two_rotations(const json_reader& in, const json_reader& newer) {
  const auto older = in.object("rope_scaling");
  if (!older) return;
  for (const auto& field : older->fields()) {
    const std::string_view name(field.key().data(), field.key().size());
    const auto* same = newer.find(name == "type" ? "rope_type" : name);
    if (!same) same = newer.find(name);
    if (!field.value().is_null() && (!same || !are_equal(*same, field.value())))
      older->fail(name, "differs from \"rope_parameters\", which is what counts; leave \"rope_scaling\" out or change "
                        "\"rope_parameters\"");
  }
}

void refuse_partial_rotation(const json_reader& in) {
  if (in.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0)
    in.fail("partial_rotary_factor", "rotating part of a head is not supported; supported: 1");
}

void read_rotation(const json_reader& in, rope_config& rope, std::uint32_t& positions_max) {
  constexpr auto supported = R"(supported: "default", "linear", "llama3", "yarn")";
  rope.theta = in.number("rope_theta", 1.0, theta_max, rope.theta);
  refuse_partial_rotation(in);
  const auto newer = in.text("rope_type"), older = in.text("type");
  if (newer && older && *newer != *older)
    in.fail("type", in_quotes(*older) + " is not what \"rope_type\" says, " + in_quotes(*newer));
  const auto kind = newer ? newer : older;
  if (!kind) in.fail("rope_type", std::string("is missing; ") + supported);
  if (*kind == "default") return;
  struct reader {
    std::string_view name;
    rope_config::scaling_kind kind;
    void (*read)(const json_reader&, rope_config&, std::uint32_t&);
  };
  for (const auto& known : {reader{"linear", rope_config::scaling_kind::linear, read_linear},
                            reader{"llama3", rope_config::scaling_kind::llama3, read_llama3},
                            reader{"yarn", rope_config::scaling_kind::yarn, read_yarn}})
    if (*kind == known.name) {
      rope.scaling = known.kind;
      return known.read(in, rope, positions_max);
    }
  in.fail("rope_type", in_quotes(*kind) + " is not supported; " + supported);
}

void read_rope(const json_reader& in, config& out) {
  out.rope.theta = in.number("rope_theta", 1.0, theta_max, out.kind == family::mixtral ? 1e6 : out.rope.theta);
  auto scaling = in.object("rope_parameters");
  if (scaling) refuse_two_rotations(in, *scaling);
  if (!scaling) scaling = in.object("rope_scaling");
  if (scaling) read_rotation(*scaling, out.rope, out.positions_max);
}

} // namespace godwit::gpu::model
