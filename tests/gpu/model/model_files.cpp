#include "gpu/model/model_files.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace godwit::gpu::model::tests {

namespace {

constexpr auto config_json = R"({
  "architectures": ["LlamaForCausalLM"],
  "vocab_size": 260,
  "hidden_size": 8,
  "intermediate_size": 12,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "num_key_value_heads": 1,
  "hidden_act": "silu",
  "max_position_embeddings": 64,
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "rope_scaling": null,
  "tie_word_embeddings": true,
  "torch_dtype": "float32",
  "bos_token_id": 0,
  "eos_token_id": 2
})";

struct small_tensor {
  std::string name;
  std::vector<std::size_t> shape;
};

std::vector<std::byte> small_weights() {
  const std::vector<small_tensor> tensors{{"model.embed_tokens.weight", {260, 8}},
                                          {"model.layers.0.input_layernorm.weight", {8}},
                                          {"model.layers.0.mlp.down_proj.weight", {8, 12}},
                                          {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
                                          {"model.layers.0.mlp.up_proj.weight", {12, 8}},
                                          {"model.layers.0.post_attention_layernorm.weight", {8}},
                                          {"model.layers.0.self_attn.k_proj.weight", {4, 8}},
                                          {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
                                          {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
                                          {"model.layers.0.self_attn.v_proj.weight", {4, 8}},
                                          {"model.norm.weight", {8}}};
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::size_t offset = 0;
  for (const auto& tensor : tensors) {
    std::size_t bytes = 4;
    std::string shape;
    for (const auto dimension : tensor.shape) {
      bytes *= dimension;
      shape += (shape.empty() ? "" : ",") + std::to_string(dimension);
    }
    header += ",\"" + tensor.name + R"(":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" +
              std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  return safetensors_file(header + "}", offset);
}

std::string small_tokenizer() {
  const scratch_directory directory("small-tokenizer");
  if (!write_random_model("tiny", directory.path())) throw std::runtime_error("no tiny model");
  const auto files = directory_source(directory.path());
  const auto bytes = files->find("tokenizer.json").value();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // 259 ids and one merge.
  const auto vocab = text.find(R"(,"ab":260)");
  text.erase(vocab, text.find('}', vocab) - vocab);
  const auto merges = text.find(R"(,"a b")");
  text.erase(merges, text.find(']', merges) - merges);
  return text;
}

} // namespace

file_map golden_files(const std::string& name) {
  file_map files;
  const auto directory = std::filesystem::path(GODWIT_SOURCE_DIR) / "tests/gpu/model/golden" / name;
  for (const auto* file : {"config.json", "tokenizer.json", "model.safetensors"}) {
    std::ifstream in(directory / file, std::ios::binary);
    files[file] = bytes_of_text(std::string((std::istreambuf_iterator<char>(in)), {}));
  }
  return files;
}

std::vector<std::byte> safetensors_file(std::string_view header, std::size_t data_bytes) {
  auto bytes = bytes_of_text(std::string(8, '\0') + std::string(header) + std::string(data_bytes, '\0'));
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>((header.size() >> (8 * i)) & 0xFFU);
  return bytes;
}

file_map small_model() {
  static const auto tokenizer_json = small_tokenizer();
  file_map files;
  files["config.json"] = bytes_of_text(config_json);
  files["tokenizer.json"] = bytes_of_text(tokenizer_json);
  files["model.safetensors"] = small_weights();
  return files;
}

void replace(file_map& files, const std::string& file, std::string_view from, std::string_view to) {
  auto text = text_of_bytes(files.at(file));
  const auto at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos)
    throw std::logic_error(file + " does not have exactly one " + std::string(from));
  files[file] = bytes_of_text(text.replace(at, from.size(), to));
}

std::string error_of(file_map files) {
  const auto opened = open_model(memory_source("broken", std::move(files)));
  return opened ? "" : opened.error().what();
}

} // namespace godwit::gpu::model::tests
