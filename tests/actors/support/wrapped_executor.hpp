#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/pipeline.hpp>

#include <memory>
#include <span>
#include <utility>

namespace godwit::test {

/// Does what another one does; for tests that want one thing otherwise.
class wrapped_executor : public gpu::executor {
public:
  explicit wrapped_executor(std::shared_ptr<gpu::executor> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return inner_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->value_region(layer, block);
  }
  [[nodiscard]] std::span<const std::shared_ptr<gpu::executor>> stages() const noexcept override {
    return inner_->stages();
  }

protected:
  std::shared_ptr<gpu::executor> inner_;
};

} // namespace godwit::test
