#include "cpu/engine.hpp"
#include "cpu/host_copier.hpp"
#include "cpu/host_memory.hpp"
#include "cpu/stage_layers.hpp"
#include "device/copied_swap_space.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

class cpu_forward final : public forward {
public:
  cpu_forward(std::shared_ptr<engine> owner, step_plan plan)
      : engine_(std::move(owner)), pass_(engine_->parts(), std::move(plan)), stream_(engine_->device().make_stream()) {}

  ~cpu_forward() override {
    cancelled_ = true;
    if (!finished_) engine_->leave_group(); // it may be where it waits for others
    stream_.reset();                        // waits
    engine_->end();
  }

  [[nodiscard]] std::uint32_t layers() const noexcept override { return engine_->info().layers; }

  void advance(std::uint32_t upto, completion done) override {
    if (upto <= requested_ || upto > layers())
      throw std::invalid_argument("advance to layer " + std::to_string(upto) + " after " + std::to_string(requested_) +
                                  " of " + std::to_string(layers()));
    const std::uint32_t first = std::exchange(requested_, upto);
    stream_->enqueue([this, first, upto, done = std::move(done)] {
      const auto start = std::chrono::steady_clock::now();
      engine_->device().team().run([&](team::member& self) { pass_.run(self, first, upto, cancelled_); });
      spent_ += std::chrono::steady_clock::now() - start;
      if (cancelled_) return;
      if (upto == layers() && pass_.error().empty()) finished_ = true;
      if (done) done(pass_.error());
    });
  }

  [[nodiscard]] protocols::step_output take() override {
    if (!finished_) throw std::logic_error("take before the step has run");
    protocols::step_output out;
    out.step = pass_.plan().input.step;
    out.duration_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(spent_).count();
    if (!pass_.draws()) return out;
    out.tokens = std::move(pass_.drawn());
    for (const auto& [sample, why] : pass_.undrawn()) out.undrawn.push_back(why);
    auto score = pass_.scores().begin();
    for (const auto& slice : pass_.plan().input.slices) {
      if (slice.scored.empty()) continue;
      const auto end = score + static_cast<std::ptrdiff_t>(slice.scored.size());
      out.scores.emplace_back(std::make_move_iterator(score), std::make_move_iterator(end));
      score = end;
    }
    return out;
  }

private:
  std::shared_ptr<engine> engine_;
  forward_pass pass_;
  std::uint32_t requested_ = 0;
  std::chrono::steady_clock::duration spent_{};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> finished_{false};
  std::unique_ptr<stream> stream_;
};

class cpu_executor final : public executor {
public:
  cpu_executor(std::shared_ptr<engine> shared, std::shared_ptr<swap_space> swap)
      : engine_(std::move(shared)), swap_(std::move(swap)) {}
  [[nodiscard]] const executor_info& info() const noexcept override { return engine_->info(); }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    auto plan = engine_->begin(std::move(input));
    return std::make_unique<cpu_forward>(engine_, std::move(plan));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return engine_->kv()->keys(layer, block.value());
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return engine_->kv()->values(layer, block.value());
  }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return engine_->adapters(); }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }

private:
  std::shared_ptr<engine> engine_;
  std::shared_ptr<swap_space> swap_; ///< null: none
};

std::shared_ptr<swap_space> make_swap_space(const std::shared_ptr<engine>& of, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  require_memory(bytes, available_memory_bytes(), "the swap space");
  const auto regions = [pool = of->kv()](protocols::block_id block) {
    std::vector<protocols::memory_region> out;
    for (std::uint32_t layer = 0; layer < pool->layers(); ++layer) {
      out.push_back(pool->keys(layer, block.value()));
      out.push_back(pool->values(layer, block.value()));
    }
    return out;
  };
  return make_copied_swap_space(make_host_copier(), regions, of->info().block_bytes, bytes);
}

std::unique_ptr<executor> executor_of(const std::shared_ptr<engine>& of, std::uint64_t swap_bytes) {
  return std::make_unique<cpu_executor>(of, make_swap_space(of, swap_bytes));
}

std::shared_ptr<pipeline::stage_link> host_link() {
  return std::make_shared<pipeline::stage_link>(
      [](std::uint64_t bytes) { return host_memory_pool(0).allocate(bytes, "what goes from stage to stage"); });
}

} // namespace

std::unique_ptr<executor> make_cpu_executor(std::shared_ptr<const packed_model> model,
                                            const cpu_executor_settings& settings) {
  return executor_of(std::make_shared<engine>(std::move(model), settings), settings.swap_bytes);
}

std::unique_ptr<executor> make_cpu_executor(const std::vector<std::shared_ptr<const packed_model>>& parts,
                                            const cpu_executor_settings& settings, std::chrono::nanoseconds wait_max) {
  const auto degree = static_cast<std::uint32_t>(parts.size());
  if (degree == 1) return make_cpu_executor(parts.front(), settings);
  const bool staged = parts.front()->stage.stages > 1;
  const auto shards = staged ? ready_to_move(parts) : parts;
  if (staged && shards.front()->stage.stages != degree) throw std::invalid_argument("not all stages of a model");
  const auto group = staged ? std::vector<std::shared_ptr<collective::communicator>>(degree)
                            : collective::make_host_group(degree, wait_max);
  const auto& whole = shards.front()->whole;
  const auto kind = kv_storage(settings.kv, shards.front()->weights);
  const auto threads = settings.threads == 0 ? usable_threads() : settings.threads;
  auto own = settings;
  own.blocks = blocks_for(settings, whole, kind, available_memory_bytes());
  std::vector<std::shared_ptr<engine>> engines;
  std::vector<std::shared_ptr<executor>> ranks;
  std::uint64_t weight_bytes = 0;
  for (std::uint32_t rank = 0; rank < degree; ++rank) {
    own.threads = std::max(1U, threads / degree + (rank < threads % degree ? 1 : 0));
    own.group = group[rank];
    own.before = std::exchange(own.after, staged && rank + 1 < degree ? host_link() : nullptr);
    own.logits_tap = shards[rank]->draws() ? settings.logits_tap : nullptr; // the others have none
    own.tokens = shards[rank]->draws() ? settings.tokens : nullptr;
    own.swap_bytes =
        settings.swap_bytes / kv_pool::block_bytes(whole, kind) * kv_pool::block_bytes(shards[rank]->config, kind);
    engines.push_back(std::make_shared<engine>(shards[rank], own));
    ranks.push_back(executor_of(engines.back(), own.swap_bytes));
    weight_bytes += ranks.back()->info().weight_bytes;
  }
  auto info = ranks.front()->info();
  info.layers = whole.layers;
  info.device = std::to_string(degree) + (staged ? " stages of " : " x ") + info.device;
  info.block_bytes = kv_pool::block_bytes(whole, kind);
  info.weight_bytes = weight_bytes;
  if (staged) return pipeline::join_stages(std::move(info), std::move(ranks), make_layer_division(std::move(engines)));
  return tensor_parallel::join_ranks(std::move(info), std::move(ranks));
}

std::unique_ptr<executor> make_cpu_executor(const model::config& config, std::shared_ptr<const model::weights> weights,
                                            const cpu_executor_settings& settings) {
  auto packed = pack_model(config, *weights, settings.threads);
  weights.reset();
  return make_cpu_executor(std::move(packed), settings);
}

std::vector<float> compute_logits(std::shared_ptr<const packed_model> model,
                                  std::span<const protocols::token_id> tokens, const cpu_executor_settings& settings,
                                  std::uint32_t chunk, std::uint64_t adapter) {
  return compute_logits(std::vector{std::move(model)}, tokens, settings, chunk, adapter);
}

std::vector<float> compute_logits(const std::vector<std::shared_ptr<const packed_model>>& shards,
                                  std::span<const protocols::token_id> tokens, const cpu_executor_settings& settings,
                                  std::uint32_t chunk, std::uint64_t adapter) {
  const std::size_t vocabulary = shards.front()->whole.vocabulary;
  std::vector<float> all(tokens.size() * vocabulary);
  cpu_executor_settings own = settings;
  own.blocks = static_cast<std::uint32_t>(tokens.size() / protocols::tokens_per_block + 1);
  own.logits_of_all_rows = true;
  own.logits_tap = [&](const logits_row& row) {
    std::ranges::copy(row.values, all.begin() + row.position * vocabulary);
  };
  const auto runner = make_cpu_executor(shards, own);
  if (chunk == 0) chunk = static_cast<std::uint32_t>(std::max<std::size_t>(1, tokens.size()));
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const auto some = tokens.subspan(first, std::min<std::size_t>(chunk, tokens.size() - first));
    protocols::step_slice slice;
    slice.first_position = static_cast<std::uint32_t>(first);
    slice.adapter = adapter;
    slice.tokens.assign(some.begin(), some.end());
    for (std::uint32_t block = 0; block < own.blocks; ++block) slice.blocks.emplace_back(block);
    protocols::step_input input;
    input.slices.push_back(std::move(slice));
    const auto pass = runner->begin(std::move(input));
    const event ran;
    pass->advance(pass->layers(), [&](const std::string&) { ran.set(); });
    ran.wait();
  }
  return all;
}

} // namespace godwit::gpu::cpu
