#include <godwit/gpu/sim/sim_stages.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::sim {

namespace {

/// What a stage takes a step, which changes with its layers.
struct stage_time {
  double speed = 1;
  bool logits = false;
  std::shared_ptr<latency_model> now = std::make_shared<latency_model>();

  void set(const latency_model& whole, std::uint32_t layers, std::uint32_t all) const {
    *now = share_of(whole, static_cast<double>(layers) / all / speed, logits);
    for (auto& point : now->logits.points) point.us /= speed;
  }
};

/// One stage: its own time, and of the KV that the last one has the layers that it began with.
class sim_stage final : public executor {
public:
  sim_stage(std::shared_ptr<executor> inner, std::shared_ptr<executor> pool, pipeline::stage which,
            std::uint64_t layer_bytes)
      : inner_(std::move(inner)), pool_(std::move(pool)), first_(which.first), layer_bytes_(layer_bytes),
        info_(inner_->info()) {
    has(info_.layers);
  }
  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    return std::make_unique<counted_forward>(inner_->begin(std::move(input)), steps_, info_.layers);
  }
  [[nodiscard]] bool in_step() const noexcept { return *steps_ > 0; }
  /// Between steps.
  void has(std::uint32_t layers) noexcept {
    info_.layers = layers;
    info_.block_bytes = layer_bytes_ * layers;
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
  /// One of the inner executor's, which does not know how many layers there are by now.
  class counted_forward final : public forward {
  public:
    counted_forward(std::unique_ptr<forward> inner, std::shared_ptr<std::uint32_t> steps, std::uint32_t layers)
        : inner_(std::move(inner)), steps_(std::move(steps)), layers_(layers) {
      ++*steps_;
    }
    ~counted_forward() override { --*steps_; }
    [[nodiscard]] std::uint32_t layers() const noexcept override { return layers_; }
    void advance(std::uint32_t upto, completion done) override {
      if (upto <= at_ || upto > layers_) throw std::invalid_argument("layers advance one after the other");
      at_ = upto;
      // Of the inner one's layers as large a part.
      const auto all = inner_->layers();
      const auto share = upto == layers_ ? all : std::uint64_t{all} * upto / layers_;
      if (share <= inner_at_) return done({});
      inner_at_ = static_cast<std::uint32_t>(share);
      inner_->advance(inner_at_, std::move(done));
    }
    [[nodiscard]] protocols::step_output take() override { return inner_->take(); }

  private:
    std::unique_ptr<forward> inner_;
    std::shared_ptr<std::uint32_t> steps_;
    std::uint32_t layers_, at_ = 0, inner_at_ = 0;
  };

  std::shared_ptr<executor> inner_, pool_;
  std::uint32_t first_;
  std::uint64_t layer_bytes_;
  executor_info info_;
  std::shared_ptr<std::uint32_t> steps_ = std::make_shared<std::uint32_t>(0); ///< in flight
};

class sim_layer_division final : public pipeline::layer_division {
public:
  sim_layer_division(latency_model whole, std::vector<std::shared_ptr<sim_stage>> stages, std::vector<stage_time> times,
                     runtime::async::timer_source& timers, std::chrono::nanoseconds move_time)
      : whole_(std::move(whole)), stages_(std::move(stages)), times_(std::move(times)), timers_(timers),
        move_time_(move_time) {
    for (const auto& one : stages_) all_ += one->info().layers;
  }
  ~sim_layer_division() override {
    if (moving_ != 0) timers_.cancel(moving_);
  }
  [[nodiscard]] std::vector<std::uint32_t> layers() const override {
    std::vector<std::uint32_t> out;
    for (const auto& one : stages_) out.push_back(one->info().layers);
    return out;
  }
  // By what steps of some tokens take, of which all or none are drawn from.
  [[nodiscard]] std::vector<double> beside() const override {
    constexpr std::uint32_t some = 32;
    protocols::step_input step;
    step.slices.resize(some);
    for (auto& slice : step.slices) {
      slice.tokens.resize(1);
      slice.samples = false;
    }
    const auto layers = static_cast<double>(whole_.step_time(step).count());
    for (auto& slice : step.slices) slice.samples = true;
    std::vector<double> out(stages_.size(), 0.0);
    if (layers > 0) out.back() = (static_cast<double>(whole_.step_time(step).count()) / layers - 1) * all_;
    return out;
  }
  void move(const std::vector<std::uint32_t>& layers, completion done) override {
    const auto wrong = pipeline::refuse_stages(all_, static_cast<std::uint32_t>(stages_.size()), layers);
    if (layers.empty() || !wrong.empty()) throw std::invalid_argument("layers cannot move: " + wrong);
    if (in_step()) throw std::logic_error("layers move while a step is in flight");
    if (moving_ != 0) throw std::logic_error("layers move already");
    if (move_time_.count() == 0) return done(switch_to(layers));
    moving_ = timers_.call_after(move_time_, [this, layers, done = std::move(done)] {
      moving_ = 0;
      done(switch_to(layers));
    });
  }

private:
  [[nodiscard]] bool in_step() const {
    return std::ranges::any_of(stages_, [](const auto& one) { return one->in_step(); });
  }
  std::string switch_to(const std::vector<std::uint32_t>& layers) {
    if (in_step()) return "a step began while layers moved";
    for (std::size_t i = 0; i < layers.size(); ++i) {
      stages_[i]->has(layers[i]);
      times_[i].set(whole_, layers[i], all_);
    }
    return {};
  }

  latency_model whole_;
  std::vector<std::shared_ptr<sim_stage>> stages_;
  std::vector<stage_time> times_;
  runtime::async::timer_source& timers_;
  std::chrono::nanoseconds move_time_;
  runtime::async::timer_source::timer_id moving_ = 0;
  std::uint32_t all_ = 0; ///< layers
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
                                          std::span<const pipeline::stage> stages, const sim_stage_settings& settings) {
  const auto& speeds = settings.speeds;
  if (stages.empty()) throw std::invalid_argument("a simulated replica of no stages");
  if (!speeds.empty() && speeds.size() != stages.size())
    throw std::invalid_argument("a simulated replica of " + std::to_string(stages.size()) + " stages, and " +
                                std::to_string(speeds.size()) + " speeds");
  std::vector<stage_time> times;
  for (const auto& which : stages) {
    times.push_back({speeds.empty() ? 1 : speeds[which.index], which.ends()});
    times.back().set(latency, which.layers_of(info.layers), info.layers);
  }
  const auto make = [&](const pipeline::stage& which, sim_model says) {
    auto own = info;
    own.layers = which.layers_of(info.layers);
    // Each copies its layers' part of a block over a link of its own.
    says.swap.blocks_per_second *= static_cast<double>(info.layers) / own.layers;
    std::shared_ptr<executor> made = make_sim_replica(std::move(own), times[which.index].now, timers, std::move(says));
    return settings.wrap ? settings.wrap(which.index, std::move(made)) : made;
  };
  const std::shared_ptr<executor> last = make(stages.back(), model);
  auto silent = model;
  silent.memory = sim_memory::none;
  silent.copies = nullptr;
  silent.counts_steps = false;
  std::vector<std::shared_ptr<sim_stage>> all(stages.size());
  for (const auto& which : stages) {
    std::shared_ptr<executor> inner = last;
    if (!which.ends()) {
      ++silent.seed; // they are not slow together
      inner = make(which, silent);
    }
    all[which.index] = std::make_shared<sim_stage>(std::move(inner), last, which, info.block_bytes / info.layers);
  }
  auto whole = info;
  whole.kv_layout = last->info().kv_layout;
  whole.eos = last->info().eos;
  whole.device = std::to_string(stages.size()) + " stages of " + whole.device;
  return pipeline::join_stages(
      std::move(whole), {all.begin(), all.end()},
      std::make_shared<sim_layer_division>(latency, all, std::move(times), timers, settings.move_time));
}

} // namespace godwit::gpu::sim
