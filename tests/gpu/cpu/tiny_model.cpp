#include "gpu/cpu/tiny_model.hpp"

#include "gpu/cpu/kernel_support.hpp"

#include <godwit/gpu/event.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

namespace godwit::gpu::cpu::testing {

namespace {

std::vector<std::byte> store(std::vector<float>& values, model::data_type type) {
  std::vector<std::byte> out;
  for (auto& value : values) {
    const auto put = [&](auto bits) {
      const auto* raw = reinterpret_cast<const std::byte*>(&bits);
      out.insert(out.end(), raw, raw + sizeof bits);
    };
    if (type == model::data_type::f32) put(value);
    if (type == model::data_type::bf16) {
      put(narrow_to_bf16(value));
      value = as_bf16(value);
    }
    if (type == model::data_type::f16) {
      const auto half = static_cast<_Float16>(value);
      put(std::bit_cast<std::uint16_t>(half));
      value = static_cast<float>(half);
    }
  }
  return out;
}

std::string mixture_of(const model::config& c, std::uint32_t layer) {
  return "model.layers." + std::to_string(layer) + (c.kind == model::family::mixtral ? ".block_sparse_moe." : ".mlp.");
}

std::string router_of(const model::config& c, std::uint32_t layer) {
  return mixture_of(c, layer) + (c.kind == model::family::gpt_oss ? "router" : "gate");
}

/// The bias of a matrix.
std::string bias_of(const std::string& matrix) { return matrix.substr(0, matrix.rfind('.')) + ".bias"; }

/// Gate, up and down, as Mixtral's and as Qwen's files name them.
std::array<std::string, 3> expert_of(const model::config& c, std::uint32_t layer, std::uint32_t expert) {
  const auto base = mixture_of(c, layer) + "experts." + std::to_string(expert);
  if (c.kind == model::family::mixtral) return {base + ".w1.weight", base + ".w3.weight", base + ".w2.weight"};
  return {base + ".gate_proj.weight", base + ".up_proj.weight", base + ".down_proj.weight"};
}

} // namespace

memory_weights::memory_weights(const model::config& c, model::data_type type, unsigned seed) : type_(type) {
  const std::uint64_t hidden = c.hidden, q = c.heads * c.head_size, kv = c.kv_heads * c.head_size, in = c.intermediate;
  add("model.embed_tokens.weight", {c.vocabulary, hidden}, 1.0F, 0, seed++);
  const auto one = c.norms_less_one ? 0.0F : 1.0F; // around which a norm's weights are
  add("model.norm.weight", {hidden}, 0.1F, one, seed++);
  if (!c.tied_embeddings) add("lm_head.weight", {c.vocabulary, hidden}, 0.3F, 0, seed++);
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", a = layer + "self_attn.", m = layer + "mlp.";
    add(layer + "input_layernorm.weight", {hidden}, 0.1F, one, seed++);
    add(layer + "post_attention_layernorm.weight", {hidden}, 0.1F, one, seed++);
    if (c.post_norms) {
      add(layer + "pre_feedforward_layernorm.weight", {hidden}, 0.1F, one, seed++);
      add(layer + "post_feedforward_layernorm.weight", {hidden}, 0.3F, one, seed++);
    }
    const float size = 1.0F / std::sqrt(static_cast<float>(hidden));
    add(a + "q_proj.weight", {q, hidden}, 2 * size, 0, seed++);
    add(a + "k_proj.weight", {kv, hidden}, 2 * size, 0, seed++);
    add(a + "v_proj.weight", {kv, hidden}, size, 0, seed++);
    add(a + "o_proj.weight", {hidden, q}, size, 0, seed++);
    const auto add_mlp = [&](const std::string& gate, const std::string& up, const std::string& down) {
      add(gate, {in, hidden}, size, 0, seed++);
      add(up, {in, hidden}, size, 0, seed++);
      add(down, {hidden, in}, size, 0, seed++);
    };
    if (c.mixture.experts == 0) {
      add_mlp(m + "gate_proj.weight", m + "up_proj.weight", m + "down_proj.weight");
    } else {
      const bool biased = c.mixture.biased;
      const auto router = router_of(c, i) + ".weight";
      add(router, {c.mixture.experts, hidden}, 3 * size, 0, seed++); // so that some weigh more
      if (biased) add(bias_of(router), {c.mixture.experts}, 0.3F, 0, seed++);
      for (std::uint32_t expert = 0; expert < c.mixture.experts; ++expert) {
        const auto [gate, up, down] = expert_of(c, i, expert);
        add_mlp(gate, up, down);
        if (!biased) continue;
        add(bias_of(gate), {in}, 1.0F, 0, seed++);
        add(bias_of(up), {in}, 1.0F, 0, seed++);
        add(bias_of(down), {hidden}, 0.3F, 0, seed++);
      }
    }
    if (c.sinks) add(a + "sinks", {c.heads}, 1.5F, 0, seed++);
    if (c.qkv_bias) {
      add(a + "q_proj.bias", {q}, 0.3F, 0, seed++);
      add(a + "k_proj.bias", {kv}, 0.3F, 0, seed++);
      add(a + "v_proj.bias", {kv}, 0.3F, 0, seed++);
    }
    if (c.qk_norm) {
      add(a + "q_norm.weight", {c.head_size}, 0.3F, one, seed++);
      add(a + "k_norm.weight", {c.head_size}, 0.3F, one, seed++);
    }
    if (c.output_bias) add(a + "o_proj.bias", {hidden}, 0.3F, 0, seed++);
    if (c.mlp_bias) {
      add(m + "gate_proj.bias", {in}, 0.3F, 0, seed++);
      add(m + "up_proj.bias", {in}, 0.3F, 0, seed++);
      add(m + "down_proj.bias", {hidden}, 0.3F, 0, seed++);
    }
  }
}

void memory_weights::add(const std::string& name, std::vector<std::uint64_t> shape, float size, float mean,
                         unsigned seed) {
  std::uint64_t count = 1;
  for (const auto n : shape) count *= n;
  auto values = random_values(count, seed, size);
  for (auto& value : values) value += mean;
  auto& stored = stored_[name] = store(values, type_);
  values_[name] = std::move(values);
  views_[name] = {type_, std::move(shape), stored.data(), stored.size()};
  bytes_ += stored.size();
}

void memory_weights::retype(const std::string& name, model::data_type type) {
  auto& stored = stored_[name] = store(values_.at(name), type);
  auto& view = views_.at(name);
  view.type = type;
  view.data = stored.data();
  view.bytes = stored.size();
}

const model::tensor_view* memory_weights::find(std::string_view name) const noexcept {
  const auto found = views_.find(name);
  return found == views_.end() ? nullptr : &found->second;
}

model::config tiny_config() {
  model::config c;
  c.vocabulary = 101;
  c.hidden = 72;
  c.intermediate = 150;
  c.layers = 2;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_size = 20;
  c.positions_max = 2000;
  return c;
}

model::config as_gemma3(model::config c) {
  c.kind = model::family::gemma3;
  c.architecture = "Gemma3ForCausalLM";
  c.tied_embeddings = c.qk_norm = true;
  c.scaled_embeddings = c.norms_less_one = c.post_norms = true;
  c.gate = model::activation::gelu_tanh;
  c.query_scalar = 1.5 * c.head_size;
  c.rms_norm_epsilon = 1e-6;
  c.sliding_window = 37;
  c.windowed.clear();
  for (std::uint32_t i = 1; i <= c.layers; ++i) c.windowed.push_back(i % 3 != 0);
  c.window_rope.emplace();
  c.rope.theta = 1e6;
  c.rope.scaling = model::rope_config::scaling_kind::linear;
  c.rope.factor = 8;
  return c;
}

model::config as_gpt_oss(model::config c) {
  c.kind = model::family::gpt_oss;
  c.architecture = "GptOssForCausalLM";
  c.sinks = c.qkv_bias = c.output_bias = true;
  c.mixture = {7, 3, true, true};
  c.gate = model::activation::clamped;
  c.gate_limit = 1.25; // beyond which some numbers are
  c.sliding_window = 37;
  c.windowed.clear();
  for (std::uint32_t i = 0; i < c.layers; ++i) c.windowed.push_back(i % 2 == 0);
  c.rope.theta = 500;
  c.rope.scaling = model::rope_config::scaling_kind::yarn;
  c.rope.factor = 4;
  c.rope.original_positions = 256;
  c.rope.fast_rotations = 8;
  c.rope.whole_pairs = false;
  c.rope.attention_factor = 1.139;
  return c;
}

std::vector<protocols::token_id> some_tokens(std::size_t count, std::uint32_t vocabulary, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<protocols::token_id> tokens(count);
  for (auto& token : tokens) token = static_cast<protocols::token_id>(engine() % vocabulary);
  return tokens;
}

namespace {

using row = std::vector<double>;

row times(const std::vector<float>& w, const row& x, const std::vector<float>* bias = nullptr) {
  row y(w.size() / x.size());
  for (std::size_t n = 0; n < y.size(); ++n) {
    for (std::size_t k = 0; k < x.size(); ++k) y[n] += x[k] * static_cast<double>(w[n * x.size() + k]);
    if (bias != nullptr) y[n] += static_cast<double>((*bias)[n]);
  }
  return y;
}

/// Each stretch of as many numbers as there are weights, by itself: the row, or its heads.
row normed(const model::config& c, const row& x, const std::vector<float>& w) {
  row y(x.size());
  const double epsilon = c.rms_norm_epsilon, more = c.norms_less_one ? 1 : 0;
  for (std::size_t first = 0; first < x.size(); first += w.size()) {
    double squares = 0;
    for (std::size_t i = 0; i < w.size(); ++i) squares += x[first + i] * x[first + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(w.size()) + epsilon);
    for (std::size_t i = 0; i < w.size(); ++i) y[first + i] = x[first + i] * scale * (more + static_cast<double>(w[i]));
  }
  return y;
}

/// What the gate of an MLP makes of it.
double gated(const model::config& c, double x, double up) {
  if (c.gate == model::activation::silu) return x / (1 + std::exp(-x)) * up;
  if (c.gate == model::activation::gelu_tanh)
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))) * up;
  x = std::min(x, c.gate_limit);
  return x / (1 + std::exp(-c.gate_slope * x)) * (std::clamp(up, -c.gate_limit, c.gate_limit) + 1);
}

/// As what is multiplied by it is stored.
double embedding_scale(const model::config& c, model::data_type type) {
  const float exact = c.scaled_embeddings ? std::sqrt(static_cast<float>(c.hidden)) : 1.0F;
  if (type == model::data_type::bf16) return static_cast<double>(as_bf16(exact));
  if (type == model::data_type::f16) return static_cast<double>(static_cast<_Float16>(exact));
  return static_cast<double>(exact);
}

double frequency(const model::config& c, std::uint32_t i) {
  const double f = std::pow(c.rope.theta, -2.0 * i / c.head_size);
  if (c.rope.scaling == model::rope_config::scaling_kind::linear) return f / c.rope.factor;
  if (c.rope.scaling == model::rope_config::scaling_kind::none) return f;
  const double wave = 2 * std::numbers::pi / f, original = c.rope.original_positions;
  if (c.rope.scaling == model::rope_config::scaling_kind::yarn) {
    // The pair, a fraction, whose wave fits so often into the original context.
    const auto border = [&](double rotations) {
      return std::log2(original / (2 * std::numbers::pi * rotations)) / std::log2(c.rope.theta) * c.head_size / 2;
    };
    double from = border(c.rope.fast_rotations), to = border(c.rope.slow_rotations);
    if (c.rope.whole_pairs) {
      from = std::floor(from);
      to = std::ceil(to);
    }
    if (i <= from) return f;
    if (i >= to) return f / c.rope.factor;
    return f + (f / c.rope.factor - f) * (i - from) / (to - from);
  }
  if (wave > original / c.rope.low_frequency_factor) return f / c.rope.factor;
  if (wave < original / c.rope.high_frequency_factor) return f;
  const double smooth =
      (original / wave - c.rope.low_frequency_factor) / (c.rope.high_frequency_factor - c.rope.low_frequency_factor);
  return (1 - smooth) * f / c.rope.factor + smooth * f;
}

void turn_heads(const model::config& c, row& x, std::size_t position) {
  const std::uint32_t half = c.head_size / 2;
  for (std::size_t head = 0; head < x.size() / c.head_size; ++head)
    for (std::uint32_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequency(c, i);
      double &a = x[head * c.head_size + i], &b = x[head * c.head_size + half + i];
      const double before = a;
      a = c.rope.attention_factor * (before * std::cos(angle) - b * std::sin(angle));
      b = c.rope.attention_factor * (b * std::cos(angle) + before * std::sin(angle));
    }
}

row attended(const model::config& c, std::uint32_t layer, const row& q, const std::vector<row>& keys,
             const std::vector<row>& values, const std::vector<float>* sinks) {
  row out(q.size());
  const std::size_t last = keys.size() - 1, group = c.heads / c.kv_heads;
  for (std::size_t head = 0; head < c.heads; ++head) {
    const std::size_t kv = head / group * c.head_size;
    row weights(keys.size());
    const double sink = sinks != nullptr ? static_cast<double>((*sinks)[head]) : -INFINITY;
    double highest = sink, total = 0;
    for (std::size_t t = 0; t <= last; ++t) {
      weights[t] = -INFINITY;
      const bool windowed = c.sliding_window && (c.windowed.empty() || c.windowed[layer]);
      if (windowed && last - t >= *c.sliding_window) continue;
      double dot = 0;
      for (std::uint32_t d = 0; d < c.head_size; ++d) dot += q[head * c.head_size + d] * keys[t][kv + d];
      weights[t] = dot / std::sqrt(c.query_scalar > 0 ? c.query_scalar : static_cast<double>(c.head_size));
      highest = std::max(highest, weights[t]);
    }
    if (sinks != nullptr) total = std::exp(sink - highest);
    for (auto& weight : weights) total += weight = std::exp(weight - highest);
    for (std::size_t t = 0; t <= last; ++t)
      for (std::uint32_t d = 0; d < c.head_size; ++d)
        out[head * c.head_size + d] += weights[t] / total * values[t][kv + d];
  }
  return out;
}

void add_to(row& x, const row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

/// All experts, of which those with the highest probabilities count.
row mixed(const model::config& c, const memory_weights& w, std::uint32_t layer, const row& h) {
  const auto router = router_of(c, layer) + ".weight";
  const auto bias = [&](const std::string& of) { return c.mixture.biased ? &w.values(bias_of(of)) : nullptr; };
  row chances = times(w.values(router), h, bias(router));
  const double highest = *std::max_element(chances.begin(), chances.end());
  double all = 0;
  for (auto& chance : chances) all += chance = std::exp(chance - highest);
  for (auto& chance : chances) chance /= all;
  row falling = chances;
  std::sort(falling.rbegin(), falling.rend());
  const double least = falling[c.mixture.chosen - 1];
  double chosen = 0;
  for (const auto chance : chances) chosen += chance >= least ? chance : 0;
  row out(h.size());
  for (std::uint32_t expert = 0; expert < c.mixture.experts; ++expert) {
    if (chances[expert] < least) continue;
    const auto [gates, ups, downs] = expert_of(c, layer, expert);
    row gate = times(w.values(gates), h, bias(gates));
    const row up = times(w.values(ups), h, bias(ups));
    for (std::size_t n = 0; n < gate.size(); ++n) gate[n] = gated(c, gate[n], up[n]);
    const row down = times(w.values(downs), gate, bias(downs));
    for (std::size_t n = 0; n < out.size(); ++n) out[n] += down[n] * chances[expert] / (c.mixture.normed ? chosen : 1);
  }
  return out;
}

} // namespace

std::vector<double> plain_logits(const model::config& c, const memory_weights& w,
                                 std::span<const protocols::token_id> tokens) {
  const auto bias = [&](bool has, const std::string& name) { return has ? &w.values(name) : nullptr; };
  std::vector<std::vector<row>> keys(c.layers), values(c.layers);
  std::vector<double> all;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto& table = w.values("model.embed_tokens.weight");
    row x(table.begin() + tokens[t] * c.hidden, table.begin() + (tokens[t] + 1) * c.hidden);
    for (auto& value : x) value *= embedding_scale(c, w.find("model.embed_tokens.weight")->type);
    for (std::uint32_t i = 0; i < c.layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".", a = layer + "self_attn.", m = layer + "mlp.";
      row h = normed(c, x, w.values(layer + "input_layernorm.weight"));
      row q = times(w.values(a + "q_proj.weight"), h, bias(c.qkv_bias, a + "q_proj.bias"));
      row k = times(w.values(a + "k_proj.weight"), h, bias(c.qkv_bias, a + "k_proj.bias"));
      values[i].push_back(times(w.values(a + "v_proj.weight"), h, bias(c.qkv_bias, a + "v_proj.bias")));
      if (c.qk_norm) {
        q = normed(c, q, w.values(a + "q_norm.weight"));
        k = normed(c, k, w.values(a + "k_norm.weight"));
      }
      auto turning = c;
      if (c.window_rope && c.windowed[i]) turning.rope = *c.window_rope;
      turn_heads(turning, q, t);
      turn_heads(turning, k, t);
      keys[i].push_back(k);
      row more = times(w.values(a + "o_proj.weight"), attended(c, i, q, keys[i], values[i], bias(c.sinks, a + "sinks")),
                       bias(c.output_bias, a + "o_proj.bias"));
      if (c.post_norms) more = normed(c, more, w.values(layer + "post_attention_layernorm.weight"));
      add_to(x, more);
      h = normed(c, x, w.values(layer + (c.post_norms ? "pre_feedforward" : "post_attention") + "_layernorm.weight"));
      if (c.mixture.experts > 0) {
        add_to(x, mixed(c, w, i, h));
        continue;
      }
      row gate = times(w.values(m + "gate_proj.weight"), h, bias(c.mlp_bias, m + "gate_proj.bias"));
      const row up = times(w.values(m + "up_proj.weight"), h, bias(c.mlp_bias, m + "up_proj.bias"));
      for (std::size_t n = 0; n < gate.size(); ++n) gate[n] = gated(c, gate[n], up[n]);
      more = times(w.values(m + "down_proj.weight"), gate, bias(c.mlp_bias, m + "down_proj.bias"));
      if (c.post_norms) more = normed(c, more, w.values(layer + "post_feedforward_layernorm.weight"));
      add_to(x, more);
    }
    const row h = normed(c, x, w.values("model.norm.weight"));
    const row logits = times(w.values(c.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), h);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

runner::runner(std::shared_ptr<const packed_model> model, cpu_executor_settings settings)
    : runner(std::vector{std::move(model)}, std::move(settings)) {}

runner::runner(const std::vector<std::shared_ptr<const packed_model>>& shards, cpu_executor_settings settings) {
  settings.logits_tap = [this](const logits_row& row) {
    logits_[row.slice].assign(row.values.begin(), row.values.end());
  };
  executor_ = make_cpu_executor(shards, settings);
}

protocols::step_output runner::step(std::vector<protocols::step_slice> slices,
                                    std::vector<protocols::block_copy> copies) {
  logits_.clear();
  protocols::step_input input;
  input.step = ++steps_;
  input.slices = std::move(slices);
  input.copies = std::move(copies);
  const auto pass = executor_->begin(std::move(input));
  const event ran;
  std::string error;
  pass->advance(pass->layers(), [&](std::string what) {
    error = std::move(what);
    ran.set();
  });
  ran.wait();
  if (!error.empty()) throw std::runtime_error(error);
  return pass->take();
}

protocols::step_slice slice_of(std::span<const protocols::token_id> tokens, std::size_t first, std::size_t count,
                               std::span<const std::uint32_t> blocks) {
  protocols::step_slice slice;
  slice.first_position = static_cast<std::uint32_t>(first);
  slice.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                      tokens.begin() + static_cast<std::ptrdiff_t>(first + count));
  for (const auto block : blocks) slice.blocks.emplace_back(block);
  slice.samples = true;
  slice.sampling.temperature = 0;
  return slice;
}

} // namespace godwit::gpu::cpu::testing
