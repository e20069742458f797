#include <godwit/protocols/batching/copy_meter.hpp>

#include <algorithm>

namespace godwit::protocols {

void copy_meter::took(std::uint32_t blocks, std::int64_t ns) noexcept {
  if (blocks == 0 || ns < 0) return;
  const double keep = std::max(1 - blocks / kept_blocks, 0.0);
  blocks_ = blocks_ * keep + blocks;
  ns_ = ns_ * keep + static_cast<double>(ns);
}

} // namespace godwit::protocols
