#include <godwit/gpu/drafted_executor.hpp>

#include "device/joined_swap_space.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu {

namespace {

class drafted_executor final : public executor {
public:
  drafted_executor(std::shared_ptr<executor> model, std::shared_ptr<executor> draft)
      : model_(std::move(model)), draft_(std::move(draft)), info_(model_->info()),
        swap_(join_swap_spaces({model_->swap(), draft_->swap()})) {
    const auto& beside = draft_->info();
    info_.block_bytes += beside.block_bytes;
    info_.weight_bytes += beside.weight_bytes;
    info_.positions_max = std::min(info_.positions_max, beside.positions_max);
    info_.kv_layout += " and " + beside.kv_layout;
    info_.device += " with a draft model";
  }
  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    return model_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return model_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return model_->value_region(layer, block);
  }
  [[nodiscard]] std::span<const std::shared_ptr<executor>> shards() const noexcept override { return model_->shards(); }
  [[nodiscard]] std::span<const std::shared_ptr<executor>> stages() const noexcept override { return model_->stages(); }
  [[nodiscard]] std::shared_ptr<pipeline::layer_division> division() const override { return model_->division(); }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return model_->adapters(); }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }
  [[nodiscard]] std::shared_ptr<executor> draft() const override { return draft_; }

private:
  std::shared_ptr<executor> model_, draft_;
  executor_info info_;
  std::shared_ptr<swap_space> swap_; ///< null: none
};

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("a draft model ") + what);
}

} // namespace

std::unique_ptr<executor> make_drafted_executor(std::shared_ptr<executor> model, std::shared_ptr<executor> draft) {
  require(model && draft, "and a model are both needed");
  require(draft->shards().empty() && draft->stages().empty() && !draft->draft(),
          "is on one device, and has no other one");
  require(draft->info().blocks >= model->info().blocks, "has KV blocks for each of the model's");
  return std::make_unique<drafted_executor>(std::move(model), std::move(draft));
}

std::uint64_t share_beside_draft(std::uint64_t bytes, std::uint64_t model_block, std::uint64_t draft_block) noexcept {
  return bytes / (model_block + draft_block) * model_block;
}

} // namespace godwit::gpu
