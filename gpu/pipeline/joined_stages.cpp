#include "device/joined_swap_space.hpp"

#include <godwit/gpu/pipeline.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::pipeline {

namespace {

/// One stage after the other; each one's end begins the next one.
class staged_forward final : public forward {
public:
  explicit staged_forward(std::vector<std::unique_ptr<forward>> stages) : stages_(std::move(stages)) {
    for (const auto& one : stages_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + one->layers());
  }
  [[nodiscard]] std::uint32_t layers() const noexcept override { return ends_.back(); }
  void advance(std::uint32_t upto, completion done) override {
    if (upto <= requested_ || upto > layers())
      throw std::invalid_argument("advance to layer " + std::to_string(upto) + " after " + std::to_string(requested_) +
                                  " of " + std::to_string(layers()));
    const auto first = std::exchange(requested_, upto);
    go_on(first, upto, std::move(done));
  }
  [[nodiscard]] protocols::step_output take() override {
    auto out = stages_.back()->take();
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) out.duration_ns += stages_[i]->take().duration_ns;
    return out;
  }

private:
  void go_on(std::uint32_t first, std::uint32_t upto, completion done) {
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    const auto before = which == 0 ? 0 : ends_[which - 1];
    const auto end = std::min(upto, ends_[which]);
    if (end == upto) return stages_[which]->advance(upto - before, std::move(done));
    stages_[which]->advance(end - before, [this, end, upto, done = std::move(done)](std::string error) {
      if (!error.empty()) return done(std::move(error));
      go_on(end, upto, done);
    });
  }

  std::vector<std::uint32_t> ends_; ///< layers up to and with each stage
  std::uint32_t requested_ = 0;
  std::vector<std::unique_ptr<forward>> stages_; // goes first: it waits
};

class staged_executor final : public executor {
public:
  staged_executor(executor_info whole, std::vector<std::shared_ptr<executor>> stages,
                  std::shared_ptr<layer_division> division)
      : info_(std::move(whole)), stages_(std::move(stages)), division_(std::move(division)) {
    if (stages_.empty()) throw std::invalid_argument("an executor of no stages");
    std::vector<std::shared_ptr<swap_space>> swaps;
    for (const auto& one : stages_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + one->info().layers);
      swaps.push_back(one->swap());
    }
    if (ends_.back() != info_.layers) throw std::invalid_argument("the stages' layers are not the model's");
    swap_ = join_swap_spaces(std::move(swaps));
  }
  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    std::vector<std::unique_ptr<forward>> steps;
    for (const auto& one : stages_) steps.push_back(one->begin(input));
    return std::make_unique<staged_forward>(std::move(steps));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    const auto [which, own] = place_of(layer);
    return stages_[which]->key_region(own, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    const auto [which, own] = place_of(layer);
    return stages_[which]->value_region(own, block);
  }
  [[nodiscard]] std::span<const std::shared_ptr<executor>> stages() const noexcept override { return stages_; }
  [[nodiscard]] std::shared_ptr<layer_division> division() const override { return division_; }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return stages_.front()->adapters(); }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }

private:
  [[nodiscard]] std::pair<std::size_t, std::uint32_t> place_of(std::uint32_t layer) const {
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), layer) - ends_.begin());
    if (which == ends_.size()) throw std::invalid_argument("KV region outside the model");
    return {which, layer - (which == 0 ? 0 : ends_[which - 1])};
  }

  executor_info info_;
  std::vector<std::shared_ptr<executor>> stages_;
  std::vector<std::uint32_t> ends_;          ///< layers up to and with each stage, as they began: there their KV stays
  std::shared_ptr<layer_division> division_; ///< null: none
  std::shared_ptr<swap_space> swap_;         ///< null: none
};

} // namespace

std::unique_ptr<executor> join_stages(executor_info whole, std::vector<std::shared_ptr<executor>> stages,
                                      std::shared_ptr<layer_division> division) {
  return std::make_unique<staged_executor>(std::move(whole), std::move(stages), std::move(division));
}

} // namespace godwit::gpu::pipeline
