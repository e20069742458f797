#include <godwit/gpu/tensor_parallel.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::tensor_parallel {

namespace {

/// Calls `done` when all ranks have ended a stretch of layers, or a copy, with the first error.
class stretch {
public:
  stretch(std::size_t ranks, completion done) : left_(ranks), done_(std::move(done)) {}
  void end(std::string error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_.empty()) error_ = std::move(error);
      if (--left_ > 0) return;
    }
    if (done_) done_(std::move(error_));
  }

private:
  std::mutex mutex_;
  std::size_t left_;
  std::string error_;
  completion done_;
};

class joined_forward final : public forward {
public:
  explicit joined_forward(std::vector<std::unique_ptr<forward>> ranks) : ranks_(std::move(ranks)) {}
  [[nodiscard]] std::uint32_t layers() const noexcept override { return ranks_.front()->layers(); }
  void advance(std::uint32_t upto, completion done) override {
    const auto all = std::make_shared<stretch>(ranks_.size(), std::move(done));
    for (const auto& rank : ranks_) rank->advance(upto, [all](std::string error) { all->end(std::move(error)); });
  }
  [[nodiscard]] protocols::step_output take() override { return ranks_.front()->take(); }

private:
  std::vector<std::unique_ptr<forward>> ranks_;
};

/// A block's KV is divided among the ranks, and so is what waits of it.
class joined_swap_space final : public swap_space {
public:
  explicit joined_swap_space(std::vector<std::shared_ptr<swap_space>> ranks) : ranks_(std::move(ranks)) {
    for (const auto& rank : ranks_) slots_ = std::min(slots_, rank->slots());
  }
  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  void copy_out(std::vector<swap_move> moves, completion done) override {
    const auto all = std::make_shared<stretch>(ranks_.size(), std::move(done));
    for (const auto& rank : ranks_) rank->copy_out(moves, [all](std::string error) { all->end(std::move(error)); });
  }
  void copy_in(std::vector<swap_move> moves, completion done) override {
    const auto all = std::make_shared<stretch>(ranks_.size(), std::move(done));
    for (const auto& rank : ranks_) rank->copy_in(moves, [all](std::string error) { all->end(std::move(error)); });
  }

private:
  std::vector<std::shared_ptr<swap_space>> ranks_;
  std::uint32_t slots_ = ~0U;
};

/// Null where a rank has none.
std::shared_ptr<swap_space> join_swap_spaces(const std::vector<std::shared_ptr<executor>>& ranks) {
  std::vector<std::shared_ptr<swap_space>> all;
  for (const auto& rank : ranks) {
    all.push_back(rank->swap());
    if (!all.back()) return nullptr;
  }
  return std::make_shared<joined_swap_space>(std::move(all));
}

class joined_executor final : public executor {
public:
  joined_executor(executor_info whole, std::vector<std::shared_ptr<executor>> ranks)
      : info_(std::move(whole)), ranks_(std::move(ranks)) {
    if (ranks_.empty()) throw std::invalid_argument("an executor of no devices");
    swap_ = join_swap_spaces(ranks_);
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
