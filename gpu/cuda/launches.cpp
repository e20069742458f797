#include "cuda/launches.hpp"

#include "cuda/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace godwit::gpu::cuda {

void launches::product(driver_stream& to, gemm_job job, std::uint32_t rows) const {
  job.type = model_.type;
  if (deterministic_) {
    job.rows = rows;
    return launch_fixed(to, job);
  }
  job.rows = product_rows(rows);
  const auto way = ways_ != nullptr ? ways_->of(job) : 0;
  if (way == product_ways::fixed_kernel) return launch_fixed(to, job);
  to.gemm(job, way);
}

gemm_job launches::of_normed(const void* w, void* y, std::uint32_t columns) const {
  gemm_job job;
  job.type = model_.type;
  job.x = memory_.normed;
  job.w = w;
  job.y = y;
  job.y_type = memory_.inner_type;
  job.columns = columns;
  job.depth = model_.config.hidden;
  return job;
}

gemm_job launches::qkv_of(const device_layer& layer) const {
  return of_normed(layer.qkv, memory_.qkv, model_.qkv_columns());
}

gemm_job launches::added_of(const void* x, const void* w, std::uint32_t depth, const void* bias) const {
  gemm_job job;
  job.type = model_.type;
  job.x = x;
  job.w = w;
  job.y = later(bias).there ? memory_.added : memory_.residual;
  job.columns = model_.config.hidden;
  job.depth = depth;
  job.accumulate = !later(bias).there;
  return job;
}

gemm_job launches::output_of(const device_layer& layer) const {
  return added_of(memory_.attended, layer.output, model_.config.heads * model_.config.head_size, layer.output_bias);
}

gemm_job launches::gate_up_of(const device_layer& layer) const {
  return of_normed(layer.gate_up, memory_.gate_up, 2 * model_.config.intermediate);
}

gemm_job launches::down_of(const device_layer& layer) const {
  return added_of(memory_.inner, layer.down, model_.config.intermediate, layer.down_bias);
}

gemm_job launches::router_of(const device_layer& layer) const {
  auto job = of_normed(layer.router, memory_.router, model_.router_rows);
  job.y_type = data_type::f32;
  return job;
}

gemm_job launches::head() const {
  gemm_job job;
  job.type = model_.type;
  job.x = memory_.last_normed;
  job.w = model_.head;
  job.y = model_.divided() ? memory_.part_logits : memory_.logits;
  job.columns = model_.head_rows;
  job.depth = model_.config.hidden;
  return job;
}

std::vector<product_trial> launches::trials() const {
  std::vector<product_trial> all;
  if (model_.stage.ends()) {
    all.push_back({head(), {model_.head}});
    all.back().job.rows = memory_.logits_rows_room();
  }
  std::vector<gemm_job (launches::*)(const device_layer&) const> products{&launches::qkv_of, &launches::output_of};
  if (model_.router_rows == 0) products.insert(products.end(), {&launches::gate_up_of, &launches::down_of});
  for (const auto of : products) {
    product_trial trial{(this->*of)(model_.layers.front()), {}};
    trial.job.rows = memory_.rows_room();
    for (const auto& layer : model_.layers) trial.weights.push_back((this->*of)(layer).w);
    all.push_back(std::move(trial));
  }
  return all;
}

void launches::embed(driver_stream& to, const step_shape& shape) const {
  embedding_job job;
  job.type = model_.type;
  job.table = model_.embeddings;
  job.tokens = memory_.input.device<std::uint32_t>(workspace::tokens);
  job.vocabulary = model_.config.vocabulary;
  job.x = memory_.residual;
  job.rows = shape.rows;
  job.hidden = model_.config.hidden;
  launch(to, job);
}

void launches::norm(driver_stream& to, const step_shape& shape, const void* weight, addition before) const {
  norm_job job;
  job.type = model_.type;
  job.x = memory_.residual;
  if (before.there) {
    const bool in_parts = memory_.gathered != nullptr;
    job.add = in_parts ? memory_.gathered : memory_.added;
    job.add_parts = in_parts ? model_.part.degree : 1;
    job.bias = before.bias;
  }
  job.weight = weight;
  job.epsilon = static_cast<float>(model_.config.rms_norm_epsilon);
  job.out = memory_.normed;
  job.rows = shape.rows;
  job.hidden = model_.config.hidden;
  launch(to, job);
}

void launches::add_product(driver_stream& to, const step_shape& shape, const gemm_job& job) const {
  product(to, job, shape.rows);
  share_added(to, shape);
}

void launches::share_added(driver_stream& to, const step_shape& shape) const {
  if (!group_) return;
  const std::size_t values = std::size_t{shape.rows} * model_.config.hidden;
  // In which order a library adds may depend on where an element lies, so on the batch: in deterministic mode the norm
  // adds what all devices bring.
  if (memory_.gathered != nullptr)
    group_->all_gather(to, memory_.added, memory_.gathered, values);
  else
    group_->all_reduce(to, memory_.added, values);
}

void launches::attend(driver_stream& to, const step_shape& shape, std::uint32_t index) const {
  const auto& c = model_.config;
  attention_job job;
  job.type = model_.type;
  job.queries = memory_.queries;
  job.kv = kv_.layer(index);
  job.block_table = memory_.input.device<std::uint32_t>(workspace::block_table);
  job.heads = c.heads;
  job.window = c.sliding_window.value_or(0);
  job.scale = 1.0F / std::sqrt(static_cast<float>(c.head_size));
  job.out = memory_.attended;
  job.scratch = memory_.attention_scratch;
  if (shape.single_slices > 0) {
    job.slices = memory_.input.device<attention_slice>(workspace::single_slices);
    job.slices_count = shape.single_slices;
    job.positions_max = shape.single_positions_max;
    job.split = shape.split;
    launch_decode(to, job);
  }
  if (shape.long_slices > 0) {
    job.slices = memory_.input.device<attention_slice>(workspace::long_slices);
    job.slices_count = shape.long_slices;
    job.slice_rows_max = shape.long_rows_max;
    job.positions_max = shape.long_positions_max;
    if (deterministic_) {
      // The same parts of a row's positions as when it comes alone.
      job.split = {1, fixed_part_tokens(c.positions_max)};
      launch_decode(to, job);
    } else {
      job.split = {};
      launch_prefill(to, job);
    }
  }
}

void launches::layer(driver_stream& to, const step_shape& shape, std::uint32_t index) const {
  const auto& c = model_.config;
  const auto& w = model_.layers[index];
  norm(to, shape, w.attention_norm, index > 0 ? later(model_.layers[index - 1].down_bias) : addition{});
  product(to, qkv_of(w), shape.rows);

  rope_job rope;
  rope.type = model_.type;
  rope.in_type = memory_.inner_type;
  rope.qkv = memory_.qkv;
  rope.bias = w.qkv_bias;
  rope.query_norm = w.query_norm;
  rope.key_norm = w.key_norm;
  rope.epsilon = static_cast<float>(c.rms_norm_epsilon);
  rope.cosine = model_.cosine;
  rope.sine = model_.sine;
  rope.positions = memory_.input.device<std::uint32_t>(workspace::positions);
  rope.slots = memory_.input.device<std::uint32_t>(workspace::slots);
  rope.kv = kv_.layer(index);
  rope.queries = memory_.queries;
  rope.rows = shape.rows;
  rope.heads = c.heads;
  launch(to, rope);
  attend(to, shape, index);
  add_product(to, shape, output_of(w));

  norm(to, shape, w.mlp_norm, later(w.output_bias));
  mlp(to, shape, w);
}

void launches::swiglu(driver_stream& to, std::uint32_t rows, const void* bias) const {
  swiglu_job job;
  job.type = model_.type;
  job.in_type = memory_.inner_type;
  job.in = memory_.gate_up;
  job.bias = bias;
  job.out = memory_.inner;
  job.rows = rows;
  job.intermediate = model_.config.intermediate;
  launch(to, job);
}

void launches::mlp(driver_stream& to, const step_shape& shape, const device_layer& w) const {
  if (w.router != nullptr) {
    const auto& of = model_.config.mixture;
    const bool many = std::uint64_t{shape.rows} * of.chosen >= std::uint64_t{expert_gemm_job::few} * of.experts;
    return mixture(to, shape, w, many ? expert_gemm_job::many : expert_gemm_job::few);
  }
  product(to, gate_up_of(w), shape.rows);
  swiglu(to, shape.rows, w.gate_up_bias);
  add_product(to, shape, down_of(w));
}

void launches::mixture(driver_stream& to, const step_shape& shape, const device_layer& w,
                       std::uint32_t tile_rows) const {
  const auto& c = model_.config;
  const std::uint32_t entries = shape.rows * c.mixture.chosen;
  auto router = router_of(w);
  router.rows = shape.rows;
  launch_fixed(to, router); // in one order, so that devices that share the model choose the same
  route_job route;
  route.logits = memory_.router;
  route.stride = model_.router_rows;
  route.experts = c.mixture.experts;
  route.chosen = c.mixture.chosen;
  route.normed = c.mixture.normed;
  route.rows = shape.rows;
  route.tile_rows = tile_rows;
  route.experts_of = memory_.experts_of;
  route.weights = memory_.weights_of;
  route.entries = memory_.entries;
  route.rows_of = memory_.rows_of;
  route.tiles = memory_.tiles;
  route.tiles_count = expert_tiles_max(entries, c.mixture.experts, tile_rows);
  launch(to, route);

  expert_gemm_job raise;
  raise.product = gate_up_of(w);
  raise.product.rows = entries;
  raise.take = memory_.rows_of;
  raise.tiles = memory_.tiles;
  raise.tiles_count = route.tiles_count;
  raise.tile_rows = tile_rows;
  launch_fixed(to, raise);
  swiglu(to, entries, nullptr);
  auto lower = raise;
  lower.product.x = memory_.inner;
  lower.product.w = w.down;
  lower.product.y = memory_.of_experts;
  lower.product.columns = c.hidden;
  lower.product.depth = c.intermediate;
  lower.take = nullptr;
  launch_fixed(to, lower);

  const bool added_later = later(nullptr).there;
  combine_job sum;
  sum.y_type = memory_.inner_type;
  sum.y = memory_.of_experts;
  sum.weights = memory_.weights_of;
  sum.entries = memory_.entries;
  sum.chosen = c.mixture.chosen;
  sum.to = added_later ? memory_.added : memory_.residual;
  sum.accumulate = !added_later;
  sum.rows = shape.rows;
  sum.hidden = c.hidden;
  launch(to, sum);
  share_added(to, shape);
}

void launches::close(driver_stream& to, const step_shape& shape) const {
  // Rows of logits are normed without an addition, and other stages know of none, so what the last layer left is added
  // here; what a norm makes of it nobody reads.
  const auto& last = model_.layers.back();
  const auto left = later(last.down_bias);
  if (left.there) norm(to, shape, last.mlp_norm, left);
}

void launches::logits(driver_stream& to, std::uint32_t first, std::uint32_t count) const {
  norm_job last;
  last.type = model_.type;
  last.x = memory_.residual;
  last.weight = model_.final_norm;
  last.epsilon = static_cast<float>(model_.config.rms_norm_epsilon);
  last.take = memory_.draws.device<std::uint32_t>(workspace::take) + first;
  last.out = memory_.last_normed;
  last.rows = count;
  last.hidden = model_.config.hidden;
  launch(to, last);
  product(to, head(), count);
  if (group_) group_->all_gather(to, memory_.part_logits, memory_.all_logits, std::size_t{count} * model_.head_rows);
}

void launches::join_logits(driver_stream& to, std::uint32_t count) const {
  join_job job;
  job.parts = memory_.all_logits;
  job.parts_count = model_.part.degree;
  job.width = model_.head_rows;
  for (std::uint32_t rank = 0; rank < model_.part.degree; ++rank) {
    const auto there = tensor_parallel::part_of(model_.whole, {rank, model_.part.degree}).vocabulary;
    job.first[rank] = there.first;
    job.first[rank + 1] = there.first + there.count;
  }
  job.out = memory_.logits;
  job.stride = model_.logits_stride;
  job.rows = count;
  launch(to, job);
}

void launches::draw(driver_stream& to, std::uint32_t first, std::uint32_t count) const {
  sampling_job job;
  job.logits = memory_.logits;
  job.logits_stride = model_.logits_stride;
  job.vocabulary = model_.config.vocabulary;
  job.rows = memory_.draws.device<sampling_row>(workspace::rows) + first;
  job.count = count;
  job.masks = memory_.lists.device<std::uint32_t>(workspace::masks);
  job.forbidden = memory_.lists.device<std::uint32_t>(workspace::forbidden);
  job.biases = memory_.lists.device<bias_entry>(workspace::biases);
  job.counts = memory_.lists.device<token_count>(workspace::counts);
  job.sampled = memory_.results.device<sampled_row>(workspace::sampled) + first;
  job.top = memory_.results.device<top_entry>(workspace::top) + std::uint64_t{first} * memory_.top_stride;
  job.top_stride = memory_.top_stride;
  job.rows_at_once = memory_.sampling_rows;
  job.scratch = memory_.sampling_scratch;
  launch(to, job);
}

} // namespace godwit::gpu::cuda
