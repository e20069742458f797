#include "migration/kv_memory.hpp"

#include <godwit/runtime/trace/recorder.hpp>

namespace godwit::actors {

kv_memory::kv_memory(std::shared_ptr<gpu::executor> pool) : pool_(std::move(pool)), layers_(pool_->info().layers) {
  if (pool_->info().blocks == 0) return;
  std::vector<protocols::memory_region> one;
  append(protocols::block_id{0}, one);
  const auto regions = runtime::trace::input<std::uint64_t>("kv.regions", [&] { return std::uint64_t{one.size()}; });
  per_block_ = static_cast<std::uint32_t>(regions);
  block_bytes_ = runtime::trace::input<std::uint64_t>("kv.block_bytes", [&] {
    std::uint64_t sum = 0;
    for (const auto& region : one) sum += region.bytes;
    return sum;
  });
}

void kv_memory::append(protocols::block_id block, std::vector<protocols::memory_region>& out) const {
  for (std::uint32_t layer = 0; layer < layers_; ++layer) {
    auto keys = pool_->key_region(layer, block);
    const auto values = pool_->value_region(layer, block);
    const bool adjacent = values.address == keys.address + keys.bytes && values.kind == keys.kind;
    if (adjacent) keys.bytes += values.bytes;
    if (keys.bytes > 0) out.push_back(keys);
    if (!adjacent && values.bytes > 0) out.push_back(values);
  }
}

std::vector<protocols::memory_region> kv_memory::regions(std::span<const protocols::block_id> blocks) const {
  std::vector<protocols::memory_region> out;
  out.reserve(blocks.size() * per_block_);
  for (const auto block : blocks) append(block, out);
  return out;
}

} // namespace godwit::actors
