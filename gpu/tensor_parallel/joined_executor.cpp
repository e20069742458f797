#include "device/all_of.hpp"
#include "device/joined_swap_space.hpp"

#include <godwit/gpu/tensor_parallel.hpp>

#include <stdexcept>
#include <utility>

namespace godwit::gpu::tensor_parallel {

namespace {

class joined_forward final : public forward {
public:
  explicit joined_forward(std::vector<std::unique_ptr<forward>> ranks) : ranks_(std::move(ranks)) {}
  [[nodiscard]] std::uint32_t layers() const noexcept override { return ranks_.front()->layers(); }
  void advance(std::uint32_t upto, completion done) override {
    const auto all = std::make_shared<all_of>(ranks_.size(), std::move(done));
    for (const auto& rank : ranks_) rank->advance(upto, [all](std::string error) { all->end(std::move(error)); });
  }
  [[nodiscard]] protocols::step_output take() override { return ranks_.front()->take(); }

private:
  std::vector<std::unique_ptr<forward>> ranks_;
};

class joined_executor final : public executor {
public:
  joined_executor(executor_info whole, std::vector<std::shared_ptr<executor>> ranks)
      : info_(std::move(whole)), ranks_(std::move(ranks)) {
    if (ranks_.empty()) throw std::invalid_argument("an executor of no devices");
    std::vector<std::shared_ptr<swap_space>> swaps;
    for (const auto& rank : ranks_) swaps.push_back(rank->swap());
    swap_ = join_swap_spaces(std::move(swaps));
  }
  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    std::vector<std::unique_ptr<forward>> steps;
    for (const auto& rank : ranks_) steps.push_back(rank->begin(input));
    return std::make_unique<joined_forward>(std::move(steps));
  }
  // No one region holds all heads: whoever wants KV asks the ranks.
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] std::span<const std::shared_ptr<executor>> shards() const noexcept override { return ranks_; }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return ranks_.front()->adapters(); }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }

private:
  executor_info info_;
  std::vector<std::shared_ptr<executor>> ranks_;
  std::shared_ptr<swap_space> swap_; ///< null: none
};

} // namespace

std::unique_ptr<executor> join_ranks(executor_info whole, std::vector<std::shared_ptr<executor>> ranks) {
  return std::make_unique<joined_executor>(std::move(whole), std::move(ranks));
}

} // namespace godwit::gpu::tensor_parallel
