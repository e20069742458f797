#include <godwit/gpu/sim/sim_stages.hpp>

#include <stdexcept>
#include <utility>
#include <vector>

namespace godwit::gpu::sim {

namespace {

/// One stage: its own time, and its layers of the KV that the last one has.
class sim_stage final : public executor {
public:
  sim_stage(std::shared_ptr<executor> inner, std::shared_ptr<executor> pool, pipeline::stage which,
            std::uint64_t block_bytes)
      : inner_(std::move(inner)), pool_(std::move(pool)), first_(which.first), info_(inner_->info()) {
    info_.block_bytes = block_bytes;
  }
  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    return inner_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return pool_->key_region(first_ + layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return pool_->value_region(first_ + layer, block);
  }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return inner_->adapters(); }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return inner_->swap(); }

private:
  std::shared_ptr<executor> inner_, pool_;
  std::uint32_t first_;
  executor_info info_;
};

} // namespace

latency_model share_of(const latency_model& whole, double share, bool logits) {
  auto part = whole;
  const auto scale = [share](step_table& table) {
    for (auto& point : table.points) point.us *= share;
  };
  part.base_us *= share;
  part.per_decode_us *= share;
  part.per_kv_token_us *= share;
  part.per_pair_us *= share;
  part.per_copy_us *= share;
  scale(part.linear);
  scale(part.kv);
  if (!logits) part.logits = {};
  return part;
}

std::unique_ptr<executor> make_sim_stages(const executor_info& info, const latency_model& latency,
                                          runtime::async::timer_source& timers, const sim_model& model,
                                          std::span<const pipeline::stage> stages, const wrap_stage& wrap) {
  if (stages.empty()) throw std::invalid_argument("a simulated replica of no stages");
  std::vector<std::shared_ptr<executor>> all(stages.size());
  const auto make = [&](const pipeline::stage& which, sim_model says) {
    auto own = info;
    own.layers = which.layers_of(info.layers);
    const auto share = static_cast<double>(own.layers) / static_cast<double>(info.layers);
    std::shared_ptr<executor> made =
        make_sim_executor(std::move(own), share_of(latency, share, which.ends()), timers, std::move(says));
    return wrap ? wrap(which.index, std::move(made)) : made;
  };
  // Each copies its layers' part of a block over a link of its own.
  const auto with_its_swap = [&](sim_model says, const pipeline::stage& which) {
    says.swap.blocks_per_second *= static_cast<double>(info.layers) / which.layers_of(info.layers);
    return says;
  };
  const std::shared_ptr<executor> last = make(stages.back(), with_its_swap(model, stages.back()));
  auto silent = model;
  silent.memory = sim_memory::none;
  silent.copies = nullptr;
  silent.counts_steps = false;
  for (const auto& which : stages) {
    std::shared_ptr<executor> inner = last;
    if (!which.ends()) {
      ++silent.seed; // they are not slow together
      inner = make(which, with_its_swap(silent, which));
    }
    all[which.index] = std::make_shared<sim_stage>(std::move(inner), last, which,
                                                   info.block_bytes / info.layers * which.layers_of(info.layers));
  }
  auto whole = info;
  whole.kv_layout = last->info().kv_layout;
  whole.eos = last->info().eos;
  whole.device = std::to_string(stages.size()) + " stages of " + whole.device;
  return pipeline::join_stages(std::move(whole), std::move(all));
}

} // namespace godwit::gpu::sim
