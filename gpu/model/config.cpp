#include <godwit/gpu/model/config.hpp>

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

} // namespace godwit::gpu::model
