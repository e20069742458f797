#include "cpu/device.hpp"
#include "cpu/forward_pass.hpp"
#include "cpu/host_copier.hpp"
#include "cpu/host_memory.hpp"
#include "cpu/packing.hpp"
#include "device/copied_swap_space.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/sampler.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

std::uint32_t blocks_for(const cpu_executor_settings& settings, const model::config& config, storage kv,
                         std::uint64_t available) {
  if (settings.blocks != 0) return settings.blocks;
  const std::uint64_t block = kv_pool::block_bytes(config, kv) + settings.beside_block;
  const std::uint64_t whole =
      (config.positions_max + protocols::tokens_per_block - 1) / protocols::tokens_per_block; // one full request
  const std::uint64_t bytes = settings.kv_bytes != 0 ? settings.kv_bytes : std::min(8 * whole * block, available / 4);
  const std::uint64_t blocks = bytes / block;
  if (blocks == 0)
    throw out_of_memory("a KV cache of " + in_words(bytes) + " holds no block; one takes " + in_words(block));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, std::numeric_limits<std::uint32_t>::max()));
}

/// model::sampler, with what keeps answers within their schemas where the vocabulary is known.
draw_function make_draw(std::shared_ptr<model::constraints> schemas) {
  return [own = std::make_shared<model::sampler>(), schemas = std::move(schemas)](std::span<float> logits,
                                                                                  const protocols::step_slice& slice) {
    if (!slice.sampling.constrained()) return own->draw(logits, slice);
    if (!schemas) throw std::runtime_error("a schema asks for the model's vocabulary, which this device was not given");
    const auto mask = schemas->allowed(slice);
    return own->draw(logits, slice, mask.get());
  };
}

/// All that an executor's forwards use. Shared with them, so that the order of destruction does not matter.
class engine {
public:
  engine(std::shared_ptr<const packed_model> model, const cpu_executor_settings& settings)
      : model_(std::move(model)), device_({settings.threads, settings.isa, 0}),
        kv_kind_(kv_storage(settings.kv, model_->weights)),
        kv_(device_.memory(), model_->config, kv_kind_,
            blocks_for(settings, model_->config, kv_kind_, device_.memory().available_bytes())),
        memory_(device_.memory(), *model_, kv_kind_, device_.kernels().kind, device_.team().size()),
        angles_(model_->config), tap_(settings.logits_tap), logits_of_all_rows_(settings.logits_of_all_rows),
        group_(settings.group), before_(settings.before), after_(settings.after), adapters_(settings.adapters) {
    if (model_->stage.begins() != !before_ || model_->stage.ends() != !after_)
      throw std::invalid_argument("a stage of a model, and not such links");
    const auto [rank, degree] = model_->part;
    if (degree > 1 ? !group_ || group_->rank() != rank || group_->ranks() != degree : group_ != nullptr)
      throw std::invalid_argument("part " + std::to_string(rank) + " of " + std::to_string(degree) +
                                  " of a model, and not such a group");
    // One for all threads: what one has found out about a schema serves the others.
    std::shared_ptr<model::constraints> schemas;
    if (settings.tokens && !settings.make_sampler)
      schemas = std::make_shared<model::constraints>(*settings.tokens, model_->config.eos, model_->config.vocabulary);
    for (std::uint32_t i = 0; i < device_.team().size(); ++i)
      samplers_.push_back(settings.make_sampler ? settings.make_sampler() : make_draw(schemas));
    info_.device = device_.name();
    info_.layers = model_->config.layers;
    info_.vocabulary = model_->config.vocabulary;
    info_.positions_max = model_->config.positions_max;
    info_.blocks = kv_.blocks();
    info_.block_bytes = kv_pool::block_bytes(model_->config, kv_kind_);
    info_.weight_bytes = model_->bytes;
    info_.eos = model_->config.eos;
    info_.kv_layout = kv_pool::layout(model_->whole, kv_kind_);
    touch_pool();
  }

  [[nodiscard]] const executor_info& info() const noexcept { return info_; }
  [[nodiscard]] kv_pool& kv() noexcept { return kv_; }
  [[nodiscard]] cpu_device& device() noexcept { return device_; }
  [[nodiscard]] const std::shared_ptr<cpu_adapters>& adapters() const noexcept { return adapters_; }

  /// Takes the one place for a step in flight.
  [[nodiscard]] step_plan begin(protocols::step_input input) {
    const auto adapter_of = [this](std::uint64_t id) {
      return adapters_ ? adapters_->find(id, model_->part.rank + model_->stage.index) : nullptr;
    };
    auto plan = plan_step(std::move(input), model_->config, kv_.blocks(), logits_of_all_rows_, adapter_of);
    if (busy_.exchange(true)) throw std::invalid_argument("step: the one before is still in flight");
    try {
      memory_.reserve(plan.rows, model_->stage.ends() ? static_cast<std::uint32_t>(plan.logits.size()) : 0);
      reserve_adapted(plan);
    } catch (...) {
      busy_ = false;
      throw;
    }
    return plan;
  }
  void end() noexcept { busy_ = false; }
  /// Nobody waits for this device any more.
  void leave_group() {
    if (group_) group_->abort("a step was abandoned by rank " + std::to_string(group_->rank()));
  }

  [[nodiscard]] engine_parts parts() noexcept {
    return {*model_, device_.kernels(), kv_,           memory_,     angles_, samplers_,
            tap_,    group_.get(),      before_.get(), after_.get()};
  }

private:
  void reserve_adapted(const step_plan& plan) {
    if (plan.adapted.empty()) return;
    std::uint32_t ranks = 0;
    for (const auto& one : plan.adapted) ranks = std::max(ranks, one.adapter->ranks_max);
    const auto& last = plan.adapted.back();
    memory_.reserve_adapted(last.first + round_up(static_cast<std::uint32_t>(last.rows.size()), lanes), ranks);
  }
  /// Makes the system hand out the pool's pages now, when too little memory is still an error and not a killed process.
  void touch_pool() {
    const auto stream = device_.make_stream();
    stream->enqueue([this] {
      constexpr std::size_t page = 4096, piece = std::size_t{8} << 20;
      const auto& pool = kv_.memory();
      device_.team().run([&](team::member& self) {
        for (std::size_t at = self.next() * piece; at < pool.bytes(); at = self.next() * piece)
          for (std::size_t i = at; i < std::min(at + piece, pool.bytes()); i += page)
            *static_cast<volatile std::byte*>(pool.data() + i) = std::byte{};
      });
    });
    stream->record().wait();
  }

  std::shared_ptr<const packed_model> model_;
  cpu_device device_;
  storage kv_kind_;
  kv_pool kv_;
  activations memory_;
  rope_angles angles_;
  std::vector<draw_function> samplers_;
  std::function<void(const logits_row&)> tap_;
  bool logits_of_all_rows_;
  std::shared_ptr<collective::communicator> group_;
  std::shared_ptr<pipeline::stage_link> before_, after_;
  std::shared_ptr<cpu_adapters> adapters_; ///< null: none
  std::atomic<bool> busy_{false};
  executor_info info_;
};

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
    return engine_->kv().keys(layer, block.value());
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return engine_->kv().values(layer, block.value());
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
  const auto regions = [of](protocols::block_id block) {
    std::vector<protocols::memory_region> out;
    for (std::uint32_t layer = 0; layer < of->info().layers; ++layer) {
      out.push_back(of->kv().keys(layer, block.value()));
      out.push_back(of->kv().values(layer, block.value()));
    }
    return out;
  };
  return make_copied_swap_space(make_host_copier(), regions, of->info().block_bytes, bytes);
}

std::shared_ptr<pipeline::stage_link> host_link() {
  return std::make_shared<pipeline::stage_link>(
      [](std::uint64_t bytes) { return host_memory_pool(0).allocate(bytes, "what goes from stage to stage"); });
}

} // namespace

std::unique_ptr<executor> make_cpu_executor(std::shared_ptr<const packed_model> model,
                                            const cpu_executor_settings& settings) {
  const auto shared = std::make_shared<engine>(std::move(model), settings);
  auto swap = make_swap_space(shared, settings.swap_bytes);
  return std::make_unique<cpu_executor>(shared, std::move(swap));
}

std::unique_ptr<executor> make_cpu_executor(const std::vector<std::shared_ptr<const packed_model>>& shards,
                                            const cpu_executor_settings& settings, std::chrono::nanoseconds wait_max) {
  const auto degree = static_cast<std::uint32_t>(shards.size());
  if (degree == 1) return make_cpu_executor(shards.front(), settings);
  const bool staged = shards.front()->stage.stages > 1;
  if (staged && shards.front()->stage.stages != degree) throw std::invalid_argument("not all stages of a model");
  const auto group = staged ? std::vector<std::shared_ptr<collective::communicator>>(degree)
                            : collective::make_host_group(degree, wait_max);
  const auto& whole = shards.front()->whole;
  const auto kind = kv_storage(settings.kv, shards.front()->weights);
  const auto threads = settings.threads == 0 ? usable_threads() : settings.threads;
  auto own = settings;
  own.blocks = blocks_for(settings, whole, kind, available_memory_bytes());
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
    ranks.push_back(make_cpu_executor(shards[rank], own));
    weight_bytes += ranks.back()->info().weight_bytes;
  }
  auto info = ranks.front()->info();
  info.layers = whole.layers;
  info.device = std::to_string(degree) + (staged ? " stages of " : " x ") + info.device;
  info.block_bytes = kv_pool::block_bytes(whole, kind);
  info.weight_bytes = weight_bytes;
  if (staged) return pipeline::join_stages(std::move(info), std::move(ranks));
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
