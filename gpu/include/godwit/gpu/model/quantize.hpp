#pragma once

#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/rounding.hpp>

#include <string>

namespace godwit::gpu::model {

/// The model with the matrices of its layers rounded to the nearest of such numbers; embeddings, norms, the routers of
/// experts and the head stay as they are. Nothing is computed yet: who packs the weights reads them so. As llama.cpp's
/// Q8_0 and Q4_0 round: of eight bits the largest of 32 is 127, of four -8. Such a model has another fingerprint.
///
/// Throws model_error where the files keep matrices in codes already.
[[nodiscard]] model_directory quantize(model_directory model, rounding to);

/// The weights alone.
[[nodiscard]] std::shared_ptr<const weights> quantize(std::shared_ptr<const weights> from, const config& configuration,
                                                      rounding to);

/// Whether the files bring scales for K and V of eight bits, which are not used here.
[[nodiscard]] bool has_kv_scales(const model_directory& model);

/// Matrices of layers that the files keep in codes, or that are rounded, in words: "int4 in groups of 128 (gptq)";
/// empty: there are none.
[[nodiscard]] std::string quantization_in_words(const model_directory& model);

} // namespace godwit::gpu::model
