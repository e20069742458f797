#include "migration/kv_memory.hpp"

#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace godwit::actors {

namespace {

/// As many as an instance may have (the setting instances.tensor_parallel), and few enough to multiply.
constexpr std::uint32_t devices_max = 64;
/// Of a block that is cut into regions of one size: a chunk's are few enough for a shard of a store.
constexpr std::uint64_t pieces_max = 4096;
/// In place of a number of regions: the blocks cannot be cut so.
constexpr std::uint64_t misfit = ~std::uint64_t{0};

} // namespace

kv_memory::kv_memory(std::shared_ptr<gpu::executor> pool)
    : pool_(std::move(pool)), draft_(pool_->draft()), layers_(pool_->info().layers),
      devices_(std::max(1U, static_cast<std::uint32_t>(pool_->shards().size()))), pieces_(devices_) {
  if (pool_->info().blocks == 0) return;
  count();
}

void kv_memory::count() {
  std::vector<protocols::memory_region> one;
  append(protocols::block_id{0}, one);
  const auto regions = runtime::trace::input<std::uint64_t>("kv.regions", [&] { return std::uint64_t{one.size()}; });
  per_block_ = static_cast<std::uint32_t>(regions);
  block_bytes_ = runtime::trace::input<std::uint64_t>("kv.block_bytes", [&] {
    std::uint64_t sum = 0;
    for (const auto& region : one) sum += region.bytes;
    return sum;
  });
  on_host_ = runtime::trace::input<std::uint64_t>("kv.on_host", [&] {
               return std::uint64_t{one.empty() || one.front().kind == protocols::memory_kind::host};
             }) != 0;
  unit_ = runtime::trace::input<std::uint64_t>("kv.unit", [&] {
    std::uint64_t unit = 0;
    for (const auto& region : one) unit = std::gcd(unit, region.bytes);
    return unit;
  });
}

std::shared_ptr<const kv_memory> kv_memory::even() const {
  if (unit_ == 0 || block_bytes_ / unit_ > pieces_max) return nullptr;
  auto out = std::make_shared<kv_memory>(*this);
  out->cut_ = true;
  out->per_block_ = static_cast<std::uint32_t>(block_bytes_ / unit_);
  return out;
}

std::shared_ptr<const kv_memory> kv_memory::common_with(std::uint32_t devices_of_peer) const {
  if (devices_of_peer == 0 || devices_of_peer > devices_max) return nullptr;
  auto out = std::make_shared<kv_memory>(*this);
  out->pieces_ = std::lcm(devices_, devices_of_peer);
  if (out->pieces_ == pieces_ || pool_->info().blocks == 0) return out;
  std::vector<protocols::memory_region> one;
  const auto regions = runtime::trace::input<std::uint64_t>("kv.common_regions", [&] {
    if (!out->divisible()) return misfit;
    out->append(protocols::block_id{0}, one);
    return std::uint64_t{one.size()};
  });
  if (regions == misfit) return nullptr;
  out->per_block_ = static_cast<std::uint32_t>(regions);
  return out;
}

std::uint32_t kv_memory::all_layers() const noexcept { return layers_ + (draft_ ? draft_->info().layers : 0); }

kv_memory::layer_place kv_memory::place_of(std::uint32_t layer) const noexcept {
  if (layer >= layers_) return {{&draft_, 1}, layer - layers_};
  if (const auto shards = pool_->shards(); !shards.empty()) return {shards, layer};
  return {{&pool_, 1}, layer};
}

std::vector<protocols::memory_region> kv_memory::whole_half(std::uint32_t layer, protocols::block_id block,
                                                            half which) const {
  const auto place = place_of(layer);
  std::vector<protocols::memory_region> out;
  for (const auto& device : place.devices)
    out.push_back(which == half::keys ? device->key_region(place.layer, block)
                                      : device->value_region(place.layer, block));
  return out;
}

bool kv_memory::divisible() const {
  for (std::uint32_t layer = 0; layer < all_layers(); ++layer)
    for (const auto which : {half::keys, half::values}) {
      const auto whole = whole_half(layer, protocols::block_id{0}, which);
      std::uint64_t sum = 0;
      for (const auto& region : whole) sum += region.bytes;
      if (sum % pieces_ != 0) return false;
      const auto piece = sum / pieces_;
      for (const auto& region : whole)
        if (piece != 0 && region.bytes % piece != 0) return false;
    }
  return true;
}

void kv_memory::append_whole(std::uint32_t layer, protocols::block_id block,
                             std::vector<protocols::memory_region>& out) const {
  const auto place = place_of(layer);
  auto& device = *place.devices.front();
  auto keys = device.key_region(place.layer, block);
  const auto values = device.value_region(place.layer, block);
  const bool adjacent = values.address == keys.address + keys.bytes && values.kind == keys.kind;
  if (adjacent) keys.bytes += values.bytes;
  if (keys.bytes > 0) out.push_back(keys);
  if (!adjacent && values.bytes > 0) out.push_back(values);
}

void kv_memory::append(std::uint32_t layer, protocols::block_id block, half which,
                       std::vector<protocols::memory_region>& out) const {
  const auto whole = whole_half(layer, block, which);
  std::uint64_t sum = 0;
  for (const auto& region : whole) sum += region.bytes;
  const auto piece = sum / pieces_;
  for (auto region : whole)
    while (region.bytes > 0) {
      const auto some = std::min<std::uint64_t>(piece, region.bytes);
      out.push_back({region.address, some, region.kind});
      region.address += some;
      region.bytes -= some;
    }
}

void kv_memory::append(protocols::block_id block, std::vector<protocols::memory_region>& out) const {
  for (std::uint32_t layer = 0; layer < all_layers(); ++layer) {
    if (pieces_ == 1) {
      append_whole(layer, block, out);
      continue;
    }
    append(layer, block, half::keys, out);
    append(layer, block, half::values, out);
  }
}

std::vector<protocols::memory_region> kv_memory::regions(std::span<const protocols::block_id> blocks) const {
  std::vector<protocols::memory_region> out;
  out.reserve(blocks.size() * per_block_);
  if (cut_) {
    std::vector<protocols::memory_region> whole;
    for (const auto block : blocks) append(block, whole);
    for (auto region : whole)
      for (; region.bytes > 0; region.address += unit_, region.bytes -= unit_)
        out.push_back({region.address, unit_, region.kind});
    return out;
  }
  for (const auto block : blocks) append(block, out);
  return out;
}

} // namespace godwit::actors
