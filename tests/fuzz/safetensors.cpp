// Headers of model files: what is accepted lies within the file.
#include "model/safetensors.hpp"

#include <exception>
#include <functional>

namespace {

using godwit::gpu::model::read_safetensors;

volatile unsigned char seen; // so that reading is not optimised away

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const auto& tensor : read_safetensors(bytes, "fuzzed")) {
      if (!tensor.unsupported.empty()) continue;
      if (tensor.view.bytes == 0) continue;
      seen = static_cast<unsigned char>(tensor.view.data[0]);
      seen = static_cast<unsigned char>(tensor.view.data[tensor.view.bytes - 1]);
    }
  } catch (const std::exception&) { // a model_error, which is how it refuses
  }
  return 0;
}
