#include "cuda/workspace.hpp"

#include <algorithm>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

/// Products are added by the norm that follows: a bias comes with them, or other devices' parts.
bool adds_later(const device_model& model) {
  return model.config.output_bias || model.config.mlp_bias || model.divided();
}

} // namespace

std::uint32_t product_rows(std::uint32_t rows) noexcept {
  const auto up_to = [rows](std::uint32_t multiple) { return (rows + multiple - 1) / multiple * multiple; };
  if (rows <= 32) return bucket_of(rows);
  return rows <= 256 ? up_to(32) : up_to(64);
}

workspace::workspace(driver& from, const device_model& model, bool deterministic, std::uint32_t step_tokens)
    : input(from, area::kind::twin, "a step's tokens"), moves(from, area::kind::twin, "a step's copies"),
      draws(from, area::kind::twin, "a step's draws"), lists(from, area::kind::twin, "what limits a step's draws"),
      results(from, area::kind::twin, "a step's results"),
      inner_type(deterministic ? model::data_type::f32 : model.type), model_(model), deterministic_(deterministic),
      activations_(from, area::kind::device, "a step"), logits_(from, area::kind::device, "logits"),
      attention_(from, area::kind::device, "attention"), drawn_(from, area::kind::device, "a step's draws") {
  reserve_lists({});
  const auto shape = largest_shape(model, step_tokens, deterministic);
  reserve(shape, shape.rows, 0, shape.single_slices, 0);
}

void workspace::reserve(const step_shape& shape, std::uint64_t table_entries, std::uint64_t move_count,
                        std::uint32_t logits_rows, std::uint32_t wanted_top) {
  const auto& c = model_.config;
  const std::uint64_t r = product_rows(shape.rows), slices = shape.rows;
  const std::uint64_t size = 2, inner_size = model::bytes_of(inner_type);
  const std::uint64_t queries_width = std::uint64_t{c.heads} * c.head_size;
  // A graph is for steps of one size, whose tables differ: room for some more at once.
  const std::uint32_t stride_before = std::exchange(top_stride, std::max({top_stride, wanted_top, 32U}));
  bool moved = top_stride != stride_before;
  moved |= input.reserve({r * 4, r * 4, r * 4, slices * sizeof(attention_slice), slices * sizeof(attention_slice),
                          std::max<std::uint64_t>(table_entries, 1024) * 4});
  moved |= moves.reserve({move_count * sizeof(move_piece)});
  const std::uint64_t columns = model_.intermediate_max, devices = model_.divided() ? model_.part.degree : 0;
  moved |= activations_.reserve({r * c.hidden * 4, r * c.hidden * size, r * model_.qkv_columns() * inner_size,
                                 r * queries_width * size, r * queries_width * size, r * 2 * columns * inner_size,
                                 r * columns * size, adds_later(model_) ? r * c.hidden * 4 : 0,
                                 deterministic_ ? devices * r * c.hidden * 4 : 0});
  const std::uint64_t drawn = bucket_of(logits_rows);
  const std::uint64_t group = std::min(product_rows(logits_rows), logits_rows_max);
  moved |= draws.reserve({drawn * 4, drawn * sizeof(sampling_row)});
  moved |= results.reserve({drawn * sizeof(sampled_row), drawn * top_stride * sizeof(top_entry)});
  const std::uint64_t part_bytes = group * model_.head_rows * sizeof(float);
  moved |= logits_.reserve({group * c.hidden * size, devices == 0 ? 0 : part_bytes, devices * part_bytes});
  const bool draws_here = model_.part.rank == 0;
  if (draws_here &&
      drawn_.reserve({group * model_.logits_stride * sizeof(float),
                      std::min<std::uint64_t>(group, sampling_rows_at_once) * sampling_scratch_bytes(c.vocabulary)}))
    ++own_version_;
  attention_job job;
  job.type = model_.type;
  job.kv.kv_heads = c.kv_heads;
  job.kv.head_size = c.head_size;
  job.slices_count = shape.single_slices;
  job.positions_max = shape.single_positions_max;
  job.heads = c.heads;
  job.split = shape.split;
  moved |= attention_.reserve({attention_scratch_bytes(job)});
  if (moved) ++version_;
  place();
}

void workspace::reserve_lists(const sampling_lists& wanted) {
  if (lists.reserve({wanted.forbidden * 4, wanted.biases * sizeof(bias_entry), wanted.counts * sizeof(token_count),
                     wanted.mask_words * 4}))
    ++own_version_;
}

void workspace::place() {
  residual = activations_.device<float>(0);
  normed = activations_.device<void>(1);
  qkv = activations_.device<void>(2);
  queries = activations_.device<void>(3);
  attended = activations_.device<void>(4);
  gate_up = activations_.device<void>(5);
  inner = activations_.device<void>(6);
  added = adds_later(model_) ? activations_.device<float>(7) : nullptr;
  gathered = model_.divided() && deterministic_ ? activations_.device<float>(8) : nullptr;
  last_normed = logits_.device<void>(0);
  part_logits = model_.divided() ? logits_.device<float>(1) : nullptr;
  all_logits = model_.divided() ? logits_.device<float>(2) : nullptr;
  if (model_.part.rank == 0) {
    logits = drawn_.device<float>(0);
    sampling_scratch = drawn_.device<void>(1);
  }
  attention_scratch = attention_.device<float>(0);
}

} // namespace godwit::gpu::cuda
