#include <godwit/gpu/model/config.hpp>

#include <cmath>

namespace godwit::gpu::model {

std::size_t bytes_of(data_type type) noexcept { return type == data_type::f32 ? 4 : 2; }

std::string to_string(data_type type) {
  switch (type) {
  case data_type::bf16:
    return "bf16";
  case data_type::f16:
    return "f16";
  case data_type::f32:
    break;
  }
  return "f32";
}

std::uint32_t window_of(const config& model, std::uint32_t layer) noexcept {
  const bool windowed = model.windowed.empty() || model.windowed[layer];
  return windowed ? model.sliding_window.value_or(0) : 0;
}

bool has_window_rope(const config& model, std::uint32_t layer) noexcept {
  return model.window_rope && window_of(model, layer) != 0;
}

bool leaves_images_aside(const config& model) noexcept {
  return model.architecture == "Gemma3ForConditionalGeneration";
}

float attention_scale(const config& model) noexcept {
  return 1.0F / std::sqrt(model.query_scalar > 0 ? static_cast<float>(model.query_scalar)
                                                 : static_cast<float>(model.head_size));
}

} // namespace godwit::gpu::model
