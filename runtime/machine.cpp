#include <godwit/runtime/machine.hpp>

#include <chrono>
#include <random>

namespace godwit::runtime {

std::int64_t unix_time_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

} // namespace godwit::runtime
