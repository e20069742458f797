#include "cuda/workspace.hpp"

#include <algorithm>

namespace godwit::gpu::cuda {

namespace {

/// A list that grows with every token of an answer does not move with every few of them.
constexpr std::uint64_t list_bytes_least = 64U << 10U;
/// Scratch of rows that are drawn from side by side, at most.
constexpr std::uint64_t sampling_bytes_max = 256U << 20U;

/// A multiprocessor draws from a row.
std::uint32_t sampling_rows_of(const device_properties& device, std::uint32_t vocabulary) {
  const std::uint64_t fit = std::max<std::uint64_t>(1, sampling_bytes_max / sampling_scratch_bytes(vocabulary));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(device.multiprocessors, fit));
}

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
    : input(from, area::kind::twin, "a step's tokens", model.divided()),
      moves(from, area::kind::twin, "a step's copies", model.divided()),
      draws(from, area::kind::twin, "a step's draws", model.divided()),
      lists(from, area::kind::twin, "what limits a step's draws", model.divided()),
      results(from, area::kind::twin, "a step's results", model.divided()),
      inner_type(deterministic ? model::data_type::f32 : model.type),
      sampling_rows(sampling_rows_of(from.properties(), model.config.vocabulary)), model_(model),
      deterministic_(deterministic), activations_(from, area::kind::device, "a step", model.divided()),
      logits_(from, area::kind::device, "logits", model.divided()),
      attention_(from, area::kind::device, "attention", model.divided()),
      drawn_(from, area::kind::device, "a step's draws", model.divided()) {
  if (model.draws()) reserve_lists({});
  const auto shape = largest_shape(model, step_tokens, deterministic);
  reserve(shape, shape.rows, 0, model.divided() ? logits_rows_max : std::min(shape.rows, logits_rows_max), 0);
}

void workspace::reserve(const step_shape& shape, std::uint64_t table_entries, std::uint64_t move_count,
                        std::uint32_t logits_rows, std::uint32_t wanted_top) {
  const auto& c = model_.config;
  const std::uint64_t r = product_rows(shape.rows), slices = shape.rows;
  const std::uint64_t size = 2, inner_size = model::bytes_of(inner_type);
  const std::uint64_t queries_width = std::uint64_t{c.heads} * c.head_size;
  top_stride = std::max({top_stride, wanted_top, 32U});
  // A graph is for steps of one size, whose tables differ: room for some more at once.
  input.reserve({r * 4, r * 4, r * 4, slices * sizeof(attention_slice), slices * sizeof(attention_slice),
                 std::max<std::uint64_t>(table_entries, 1024) * 4});
  moves.reserve({move_count * sizeof(move_piece)});
  const std::uint64_t columns = model_.intermediate_max, devices = model_.divided() ? model_.part.degree : 0;
  const bool mixture = c.mixture.experts > 0;
  const std::uint64_t routed = r * c.mixture.chosen, inner_rows = mixture ? routed : r; // none, of a plain MLP
  const std::uint64_t tiles_room = mixture ? routed / expert_gemm_job::few + c.mixture.experts : 0;
  activations_.reserve({r * c.hidden * 4, r * c.hidden * size, r * model_.qkv_columns() * inner_size,
                        r * queries_width * size, r * queries_width * size, inner_rows * 2 * columns * inner_size,
                        inner_rows * columns * size, adds_later(model_) ? r * c.hidden * 4 : 0,
                        deterministic_ ? devices * r * c.hidden * 4 : 0, r * model_.router_rows * 4, routed * 4,
                        routed * 4, routed * 4, routed * 4, tiles_room * sizeof(expert_tile),
                        routed * c.hidden * inner_size});
  const std::uint64_t drawn = bucket_of(logits_rows);
  const std::uint64_t group = std::min(product_rows(logits_rows), logits_rows_max);
  rows_ = std::max(rows_, product_rows(shape.rows));
  logits_rows_ = std::max(logits_rows_, std::min(product_rows(logits_rows), logits_rows_max));
  draws.reserve({drawn * 4, drawn * sizeof(sampling_row)});
  results.reserve({drawn * sizeof(sampled_row), drawn * top_stride * sizeof(top_entry)});
  const std::uint64_t part_bytes = group * model_.head_rows * sizeof(float);
  if (model_.stage.ends())
    logits_.reserve({group * c.hidden * size, devices == 0 ? 0 : part_bytes, devices * part_bytes});
  if (model_.draws())
    drawn_.reserve({group * model_.logits_stride * sizeof(float),
                    std::min<std::uint64_t>(group, sampling_rows) * sampling_scratch_bytes(c.vocabulary)});
  attention_job job;
  job.type = model_.type;
  job.kv.kv_heads = c.kv_heads;
  job.kv.head_size = c.head_size;
  job.heads = c.heads;
  if (deterministic_) {
    job.slices_count = shape.single_slices;
    job.positions_max = shape.single_positions_max;
    job.split = shape.split;
  } else { // as much as any batch wants, so that none moves it
    job.slices_count = 1;
    const auto places = decode_places(model_.driver->properties(), c.head_size);
    job.split = {decode_parts_max({1, 1, c.heads, c.kv_heads, places, 0}), 0};
  }
  attention_.reserve({attention_scratch_bytes(job)});
  place();
}

void workspace::reserve_lists(const sampling_lists& wanted) {
  const auto room = [](std::uint64_t bytes) { return std::max(bytes, list_bytes_least); };
  lists.reserve({room(wanted.forbidden * 4), room(wanted.biases * sizeof(bias_entry)),
                 room(wanted.counts * sizeof(token_count)), room(wanted.mask_words * 4)});
}

void workspace::reserve_table(std::uint64_t blocks) { input.reserve({0, 0, 0, 0, 0, blocks * 4}); }

// Sums of numbers that only grow: equal where all of them are.
std::uint64_t workspace::layers_version() const noexcept {
  return input.moves() + activations_.moves() + attention_.moves();
}

std::uint64_t workspace::logits_version() const noexcept {
  const std::uint64_t logits_alone = activations_.moves() + draws.moves() + logits_.moves();
  if (model_.divided()) return logits_alone;
  return logits_alone + drawn_.moves() + lists.moves() + results.moves() + top_stride;
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
  if (model_.router_rows > 0) {
    router = activations_.device<float>(9);
    experts_of = activations_.device<std::uint32_t>(10);
    weights_of = activations_.device<float>(11);
    entries = activations_.device<std::uint32_t>(12);
    rows_of = activations_.device<std::uint32_t>(13);
    tiles = activations_.device<expert_tile>(14);
    of_experts = activations_.device<void>(15);
  }
  last_normed = model_.stage.ends() ? logits_.device<void>(0) : nullptr;
  part_logits = model_.divided() ? logits_.device<float>(1) : nullptr;
  all_logits = model_.divided() ? logits_.device<float>(2) : nullptr;
  if (model_.draws()) {
    logits = drawn_.device<float>(0);
    sampling_scratch = drawn_.device<void>(1);
  }
  attention_scratch = attention_.device<float>(0);
}

} // namespace godwit::gpu::cuda
