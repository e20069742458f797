#include "cpu/engine.hpp"

#include "cpu/host_memory.hpp"
#include "cpu/packing.hpp"

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/sampler.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

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

} // namespace

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

engine::engine(std::shared_ptr<const packed_model> model, const cpu_executor_settings& settings)
    : first_(std::move(model)), model_(first_), device_({settings.threads, settings.isa, 0}),
      kv_kind_(kv_storage(settings.kv, model_->weights)),
      kv_(std::make_shared<kv_pool>(
          device_.memory(), model_->config, kv_kind_,
          blocks_for(settings, model_->config, kv_kind_, device_.memory().available_bytes()))),
      layers_(kv_), memory_(device_.memory(), *first_, kv_kind_, device_.kernels().kind, device_.team().size()),
      angles_(model_->config), tap_(settings.logits_tap), logits_of_all_rows_(settings.logits_of_all_rows),
      group_(settings.group), before_(settings.before), after_(settings.after), adapters_(settings.adapters) {
  if (const auto& rope = model_->config.window_rope) window_angles_.emplace(*rope, model_->config.head_size);
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
  info_.blocks = kv_->blocks();
  info_.block_bytes = kv_pool::block_bytes(model_->config, kv_kind_);
  info_.weight_bytes = model_->bytes;
  info_.eos = model_->config.eos;
  info_.kv_layout = kv_pool::layout(model_->whole, kv_kind_);
  touch_pool();
}

step_plan engine::begin(protocols::step_input input) {
  const auto devices = std::max(model_->part.degree, model_->stage.stages);
  const auto adapter_of = [this, devices](std::uint64_t id) {
    auto parts = adapters_ ? adapters_->find(id) : nullptr;
    return parts && parts->size() == devices ? parts : nullptr;
  };
  auto plan = plan_step(std::move(input), model_->config, kv_->blocks(), logits_of_all_rows_, adapter_of);
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

void engine::leave_group() {
  if (group_) group_->abort("a step was abandoned by rank " + std::to_string(group_->rank()));
}

engine_parts engine::parts() noexcept {
  const auto* const window_angles = window_angles_ ? &*window_angles_ : nullptr;
  return {*model_, device_.kernels(), layers_,       memory_,     angles_, window_angles, samplers_,
          tap_,    group_.get(),      before_.get(), after_.get()};
}

void engine::compute(std::shared_ptr<const packed_model> model, kv_layers kv) noexcept {
  layers_ = std::move(kv);
  model_ = std::move(model);
  info_.layers = model_->config.layers;
  info_.block_bytes = kv_pool::block_bytes(model_->config, kv_kind_);
  info_.weight_bytes = model_->bytes;
}

void engine::reserve_adapted(const step_plan& plan) {
  if (plan.adapted.empty()) return;
  std::uint32_t ranks = 0;
  for (const auto& one : plan.adapted)
    for (const auto& part : *one.adapter) ranks = std::max(ranks, part->ranks_max);
  const auto& last = plan.adapted.back();
  memory_.reserve_adapted(last.first + round_up(static_cast<std::uint32_t>(last.rows.size()), lanes), ranks);
}

void engine::touch_pool() {
  const auto stream = device_.make_stream();
  stream->enqueue([this] {
    constexpr std::size_t page = 4096, piece = std::size_t{8} << 20;
    const auto& pool = kv_->memory();
    device_.team().run([&](team::member& self) {
      for (std::size_t at = self.next() * piece; at < pool.bytes(); at = self.next() * piece)
        for (std::size_t i = at; i < std::min(at + piece, pool.bytes()); i += page)
          *static_cast<volatile std::byte*>(pool.data() + i) = std::byte{};
    });
  });
  stream->record().wait();
}

} // namespace godwit::gpu::cpu
