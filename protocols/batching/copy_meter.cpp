#include <godwit/protocols/batching/copy_meter.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {

constexpr double slowest_copy = 8;      // times as long as usual: machines stand still at times
constexpr double outdated_share = 0.25; // of what one copy has shown to be far too much

} // namespace

void copy_meter::took(std::uint32_t blocks, std::int64_t ns) noexcept {
  if (blocks == 0 || ns < 0) return;
  const double usual = ns_per_block() * blocks;
  auto took = static_cast<double>(ns);
  double keep = std::max(1 - blocks / kept_blocks, 0.0);
  if (usual > 0 && took < usual * outdated_share) keep = std::min(keep, outdated_share * blocks / blocks_);
  if (usual > 0) took = std::min(took, slowest_copy * usual);
  blocks_ = blocks_ * keep + blocks;
  ns_ = ns_ * keep + took;
}

} // namespace godwit::protocols
