#include "fabric/pieces.hpp"

#include <algorithm>
#include <utility>

namespace godwit::transport {

std::uint64_t piece::regions() const noexcept {
  std::uint64_t total = 0;
  for (const auto& run : sizes) total += run.count;
  return total;
}

piece_cutter::piece_cutter(std::uint32_t first_region, std::vector<protocols::memory_region> regions)
    : first_region_(first_region), regions_(std::move(regions)) {
  for (const auto& region : regions_) bytes_total_ += region.bytes;
}

piece piece_cutter::next(const piece_limits& limits, std::vector<protocols::memory_region>& from) {
  from.clear();
  piece out;
  out.first_region = first_region_ + static_cast<std::uint32_t>(index_);
  out.offset = offset_;
  std::uint32_t regions = 0;
  while (index_ < regions_.size() && regions < limits.regions_max) {
    const auto& region = regions_[index_];
    if (out.bytes == limits.bytes_max && region.bytes > offset_) break;
    const bool new_run = out.sizes.empty() || out.sizes.back().bytes != region.bytes;
    if (new_run && out.sizes.size() == limits.runs_max) break;
    if (new_run) out.sizes.push_back({region.bytes, 0});
    ++out.sizes.back().count;
    ++regions;
    const auto part = std::min<std::uint64_t>(region.bytes - offset_, limits.bytes_max - out.bytes);
    if (part != 0) from.push_back({region.address + offset_, static_cast<std::size_t>(part), region.kind});
    out.bytes += part;
    offset_ += part;
    if (offset_ < region.bytes) break; // the next piece goes on within this region
    offset_ = 0;
    ++index_;
  }
  ended_ = index_ == regions_.size();
  return out;
}

} // namespace godwit::transport
