#include <godwit/gpu/model/random_model.hpp>

#include <algorithm>
#include <array>

namespace godwit::gpu::model {

namespace {

config base(family kind) {
  config c;
  c.kind = kind;
  constexpr std::array names{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                             "Qwen3ForCausalLM", "MixtralForCausalLM", "Qwen3MoeForCausalLM",
                             "Phi3ForCausalLM",  "Gemma3ForCausalLM",  "GptOssForCausalLM"};
  c.architecture = names[static_cast<std::size_t>(kind)];
  c.qkv_bias = kind == family::qwen2;
  c.qk_norm = kind == family::qwen3 || kind == family::qwen3_moe;
  c.type = data_type::bf16;
  c.bos = 0;
  c.eos = {2, 0};
  c.default_temperature = 1.0F;
  return c;
}

config tiny(family kind) {
  auto c = base(kind);
  c.vocabulary = 512;
  c.hidden = 64;
  c.intermediate = 160;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_size = 16;
  c.positions_max = 512;
  return c;
}

config sized(std::uint32_t hidden, std::uint32_t intermediate, std::uint32_t layers, std::uint32_t heads,
             std::uint32_t kv_heads, std::uint32_t vocabulary, std::uint32_t positions) {
  auto c = base(family::llama);
  c.vocabulary = vocabulary;
  c.hidden = hidden;
  c.intermediate = intermediate;
  c.layers = layers;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_size = hidden / heads;
  c.positions_max = positions;
  return c;
}

std::vector<random_model_shape> make_shapes() {
  std::vector<random_model_shape> all;
  all.push_back({"tiny", "Llama, 2 layers of 64, 512 tokens, 0.2 MB", tiny(family::llama)});

  auto llama3 = tiny(family::llama);
  llama3.tied_embeddings = true;
  llama3.rope.theta = 500000.0;
  llama3.rope.scaling = rope_config::scaling_kind::llama3;
  llama3.rope.factor = 8.0;
  llama3.rope.original_positions = 64;
  all.push_back({"tiny-llama3", "as tiny, Llama 3 rope scaling, tied embeddings", llama3});

  auto mistral = tiny(family::mistral);
  mistral.sliding_window = 32;
  all.push_back({"tiny-mistral", "as tiny, Mistral with a sliding window of 32", mistral});

  auto qwen2 = tiny(family::qwen2);
  qwen2.tied_embeddings = true;
  qwen2.rope.theta = 1000000.0;
  all.push_back({"tiny-qwen2", "as tiny, Qwen2 with QKV bias, tied embeddings", qwen2});

  auto qwen3 = tiny(family::qwen3);
  qwen3.head_size = 32; // not hidden / heads
  qwen3.tied_embeddings = true;
  qwen3.rope.theta = 1000000.0;
  all.push_back({"tiny-qwen3", "as tiny, Qwen3 with normed heads of 32, tied embeddings", qwen3});

  auto yarn = qwen3;
  yarn.rope.scaling = rope_config::scaling_kind::yarn;
  yarn.rope.factor = 4.0;
  yarn.rope.original_positions = yarn.positions_max;
  yarn.positions_max *= 4;
  yarn.rope.attention_factor = 1.1386294361119891; // 0.1 ln 4 + 1
  all.push_back({"tiny-yarn", "as tiny-qwen3, stretched to four times its context by YaRN", yarn});

  auto mixtral = tiny(family::mixtral);
  mixtral.intermediate = 96;
  mixtral.mixture = {4, 2, true};
  all.push_back({"tiny-mixtral", "as tiny, Mixtral with 2 of 4 experts for each token", mixtral});

  auto qwen3_moe = tiny(family::qwen3_moe);
  qwen3_moe.head_size = 32;
  qwen3_moe.intermediate = 48;
  qwen3_moe.rope.theta = 1000000.0;
  qwen3_moe.mixture = {16, 4, true};
  all.push_back({"tiny-qwen3-moe", "as tiny-qwen3, with 4 of 16 experts for each token", qwen3_moe});

  auto gemma3 = tiny(family::gemma3);
  gemma3.layers = 3;
  gemma3.head_size = 32;
  gemma3.tied_embeddings = gemma3.qk_norm = true;
  gemma3.gate = activation::gelu_tanh;
  gemma3.scaled_embeddings = gemma3.norms_less_one = gemma3.post_norms = true;
  gemma3.query_scalar = 24;
  gemma3.sliding_window = 32;
  gemma3.windowed = {true, true, false};
  gemma3.window_rope.emplace(); // of theta 10,000
  gemma3.rope.theta = 1000000.0;
  gemma3.rope.scaling = rope_config::scaling_kind::linear;
  gemma3.rope.factor = 8.0;
  all.push_back({"tiny-gemma3", "3 layers of 64, Gemma 3 with a sliding window of 32 in two of them", gemma3});

  auto gpt_oss = tiny(family::gpt_oss);
  gpt_oss.layers = 3;
  gpt_oss.head_size = 32;
  gpt_oss.intermediate = 96;
  gpt_oss.mixture = {8, 3, true, true};
  gpt_oss.sinks = gpt_oss.qkv_bias = gpt_oss.output_bias = true;
  gpt_oss.gate = activation::clamped;
  gpt_oss.sliding_window = 32;
  gpt_oss.windowed = {true, false, true};
  gpt_oss.rope.theta = 150000.0;
  gpt_oss.rope.scaling = rope_config::scaling_kind::yarn;
  gpt_oss.rope.factor = 8.0;
  gpt_oss.rope.original_positions = 64;
  gpt_oss.rope.whole_pairs = false;
  gpt_oss.rope.attention_factor = 1.2079441541679836; // 0.1 ln 8 + 1
  all.push_back({"tiny-gpt-oss",
                 "3 layers of 64, gpt-oss with 3 of 8 experts for each token, sinks, a window of 32 in "
                 "two layers",
                 gpt_oss});

  all.push_back({"160m", "Llama, 12 layers of 768, 32,000 tokens, 0.3 GB", sized(768, 3072, 12, 12, 12, 32000, 2048)});
  all.push_back({"1b", "TinyLlama 1.1B's shape: 22 layers of 2048, 4 KV heads, 32,000 tokens, 2.2 GB",
                 sized(2048, 5632, 22, 32, 4, 32000, 2048)});

  auto experts = sized(1024, 512, 16, 16, 4, 32000, 4096);
  experts.kind = family::qwen3_moe;
  experts.architecture = "Qwen3MoeForCausalLM";
  experts.qk_norm = true;
  experts.head_size = 64;
  experts.mixture = {32, 4, true};
  all.push_back(
      {"1b-moe", "Qwen3-MoE, 16 layers of 1024, 4 of 32 experts for each token, 32,000 tokens, 1.8 GB", experts});

  auto large = sized(4096, 14336, 32, 32, 8, 128256, 8192);
  large.rope.theta = 500000.0;
  all.push_back({"8b", "Llama 3 8B's shape: 32 layers of 4096, 8 KV heads, 128,256 tokens, 16 GB", large});
  return all;
}

} // namespace

const std::vector<random_model_shape>& random_model_shapes() {
  static const auto shapes = make_shapes();
  return shapes;
}

const random_model_shape* find_random_model(std::string_view name) {
  const auto& all = random_model_shapes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& shape) { return shape.name == name; });
  return found == all.end() ? nullptr : &*found;
}

} // namespace godwit::gpu::model
