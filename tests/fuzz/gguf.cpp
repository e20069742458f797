// Model files of llama.cpp: what is accepted lies within the file, and can be read.
#include "model/coded_matrix.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace {

namespace model = godwit::gpu::model;

volatile float seen; // so that reading is not optimised away

void read(const model::tensor_view& tensor) {
  if (tensor.coded == nullptr) {
    if (tensor.bytes > 0)
      seen = static_cast<float>(std::to_integer<int>(tensor.data[0])) +
             static_cast<float>(std::to_integer<int>(tensor.data[tensor.bytes - 1]));
    return;
  }
  const auto& is = tensor.coded->dimensions();
  std::vector<float> row(is.columns);
  for (const auto which : {std::uint64_t{0}, is.rows - 1}) tensor.coded->values(which, 0, row);
  seen = row.front();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto opened = model::open_gguf(model::memory_source("fuzzed", {{"m.gguf", {bytes, bytes + size}}}), "m.gguf");
  if (!opened) return 0;
  for (const auto* name : {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"})
    if (const auto* tensor = opened->tensors->find(name)) read(*tensor);
  (void)opened->tokens->encode("once upon a time", true);
  return 0;
}
