#pragma once

#include "support/fake_device.hpp"

#include <godwit/gpu/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace godwit::test {

/// An executor of the CPU whose KV pool looks like a device's: its regions are addresses that trap when the host
/// touches them, and only the device's copier knows where the bytes are.
class device_pool final : public gpu::executor {
public:
  device_pool(std::shared_ptr<gpu::executor> inner, const std::shared_ptr<testing::fake_device>& device)
      : inner_(std::move(inner)) {
    const auto& info = inner_->info();
    std::byte* end = nullptr;
    for (std::uint32_t layer = 0; layer < info.layers; ++layer)
      for (std::uint32_t block = 0; block < info.blocks; ++block)
        for (const auto& region : {inner_->key_region(layer, protocols::block_id{block}),
                                   inner_->value_region(layer, protocols::block_id{block})}) {
          first_ = first_ == nullptr ? region.address : std::min(first_, region.address);
          end = std::max(end, region.address + region.bytes);
        }
    address_ = device->adopt(first_, static_cast<std::size_t>(end - first_));
  }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return inner_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return on_device(inner_->key_region(layer, block));
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return on_device(inner_->value_region(layer, block));
  }

private:
  [[nodiscard]] protocols::memory_region on_device(const protocols::memory_region& region) const {
    return {address_.get() + (region.address - first_), region.bytes, protocols::memory_kind::device};
  }
  std::shared_ptr<gpu::executor> inner_;
  std::byte* first_ = nullptr;
  std::shared_ptr<std::byte> address_; ///< before the pool that it stands for
};

} // namespace godwit::test
