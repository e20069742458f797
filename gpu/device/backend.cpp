#include <godwit/gpu/device.hpp>

namespace godwit::gpu {

std::string to_string(backend kind) {
  switch (kind) {
  case backend::cpu:
    return "cpu";
  case backend::cuda:
    return "cuda";
  case backend::sim:
    return "sim";
  }
  return "unknown";
}

} // namespace godwit::gpu
