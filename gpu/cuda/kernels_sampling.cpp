#include "cuda/kernels_sampling_draw.hpp"

// A block of threads draws from a row of logits. The stages are model::sampler's, in its order.

namespace godwit::gpu::cuda {

namespace sampling {

GODWIT_DEVICE float logprob_of(float logit, float highest, float log_sum) {
  return simt::add(logit == highest ? 0.0F : simt::add(logit, -highest), -log_sum);
}

/// Log-probabilities under the logits as they came, and the most probable tokens.
struct normaliser {
  float highest = 0;
  float log_sum = 0;
};
GODWIT_DEVICE normaliser describe(board& shared, const sampling_job& job, const sampling_row& row, const float* logits,
                                  top_entry* top, std::uint64_t* memory) {
  normaliser whole;
  whole.highest = best_of(shared, job.vocabulary, logits).value;
  double sum = 0;
  over(logits, job.vocabulary, [&](std::uint32_t, float logit) {
    sum = simt::add(sum, static_cast<double>(weight_of(clean(logit), whole.highest, 1.0F)));
  });
  whole.log_sum = static_cast<float>(simt::natural_log(sum_all(shared, sum)));
  const std::int32_t most = row.logprobs > row.scores_top ? row.logprobs : row.scores_top;
  if (most <= 0) return whole;
  list_goal goal;
  goal.count = static_cast<std::uint32_t>(most) < job.vocabulary ? static_cast<std::uint32_t>(most) : job.vocabulary;
  const auto entry = [](float& value) {
    value = clean(value);
    return true;
  };
  const auto bounds = find_bounds(shared, job.vocabulary, logits, goal, entry);
  const std::uint64_t* list = sorted_list(shared, job.vocabulary, logits, bounds, memory, entry);
  for (std::uint32_t i = simt::thread_index(); i < goal.count; i += threads) {
    const std::uint32_t id = id_of(list[i]);
    top[i] = {static_cast<std::int32_t>(id), logprob_of(clean(logits[id]), whole.highest, whole.log_sum)};
  }
  simt::sync_block(); // the list is read
  return whole;
}

/// The logits after mask, forbidden tokens, biases and penalties, into `to`.
GODWIT_DEVICE void adjust(const sampling_job& job, const sampling_row& row, const float* logits, float* to) {
  const std::uint32_t* mask = row.mask != sampling_row::no_mask ? job.masks + row.mask : nullptr;
  for (std::uint32_t i = simt::thread_index(); i < job.vocabulary; i += threads)
    to[i] = mask == nullptr || (mask[i / 32] >> i % 32 & 1U) != 0 ? clean(logits[i]) : -INFINITY;
  simt::sync_block();
  for (std::uint32_t i = simt::thread_index(); i < row.forbidden_count; i += threads)
    simt::store_alike(to + job.forbidden[row.forbidden_first + i], -INFINITY); // a token may be listed twice
  simt::sync_block();
  const bias_entry* biases = job.biases + row.bias_first;
  for (std::uint32_t i = simt::thread_index(); i < row.bias_count; i += threads) {
    const std::uint32_t id = biases[i].id;
    if (i != 0 && biases[i - 1].id == id) continue; // the first of them does all
    for (std::uint32_t k = i; k < row.bias_count && biases[k].id == id; ++k) to[id] = simt::add(to[id], biases[k].bias);
  }
  simt::sync_block();
  for (std::uint32_t i = simt::thread_index(); i < row.counts_count; i += threads) {
    const token_count entry = job.counts[row.counts_first + i];
    float logit = to[entry.id];
    if (row.repetition_penalty != 1.0F)
      logit = logit > 0 ? simt::div(logit, row.repetition_penalty) : simt::mul(logit, row.repetition_penalty);
    if (entry.generated != 0) {
      logit = simt::add(logit, -simt::mul(row.frequency_penalty, entry.generated));
      logit = simt::add(logit, -row.presence_penalty);
    }
    to[entry.id] = logit;
  }
  simt::sync_block();
}

GODWIT_DEVICE std::int32_t draw_token(board& shared, const sampling_job& job, const sampling_row& row,
                                      const float* logits, float* work, std::uint64_t* memory,
                                      std::uint32_t& exact_walks) {
  const bool adjusts =
      row.mask != sampling_row::no_mask || row.forbidden_count + row.bias_count + row.counts_count != 0;
  if (adjusts) adjust(job, row, logits, work);
  const float* values = adjusts ? work : logits;
  const best_entry best = best_of(shared, job.vocabulary, values);
  if (best.value == -INFINITY) return -1;
  if (row.temperature == 0) return static_cast<std::int32_t>(best.id);
  double sum = 0;
  over(values, job.vocabulary, [&](std::uint32_t i, float logit) {
    const float weight = weight_of(clean(logit), best.value, row.temperature);
    work[i] = weight;
    sum = simt::add(sum, static_cast<double>(weight));
  });
  sum = sum_all(shared, sum); // and all weights are there
  drawing draw{shared, work, job.vocabulary, job.exact_always};
  const double number = uniform(row.seed, row.index);
  const bool filters = row.min_p > 0 || (row.top_k > 0 && row.top_k < job.vocabulary) || row.top_p < 1.0F;
  const std::int32_t token = filters ? draw_filtered(draw, row, number, memory) : draw_from_all(draw, number, sum);
  exact_walks = draw.exact_walks;
  return token;
}

GODWIT_DEVICE void sample_row(board& shared, const sampling_job& job, std::uint32_t index, std::uint64_t* memory) {
  const sampling_row row = job.rows[index];
  const float* logits = job.logits + std::uint64_t{row.logits_row} * job.logits_stride;
  auto* work = reinterpret_cast<float*>(memory + next_power(job.vocabulary));
  const bool describes = row.logprobs >= 0 || row.scored >= 0;
  normaliser whole;
  if (describes) whole = describe(shared, job, row, logits, job.top + std::uint64_t{index} * job.top_stride, memory);
  sampled_row result;
  if (row.draws != 0) result.token = draw_token(shared, job, row, logits, work, memory, result.exact_walks);
  if (simt::thread_index() != 0) return;
  if (row.logprobs >= 0 && result.token >= 0)
    result.logprob = logprob_of(clean(logits[result.token]), whole.highest, whole.log_sum);
  if (row.scored >= 0) {
    const bool known = static_cast<std::uint32_t>(row.scored) < job.vocabulary;
    result.scored_logprob = logprob_of(known ? clean(logits[row.scored]) : -INFINITY, whole.highest, whole.log_sum);
  }
  job.sampled[index] = result;
}

GODWIT_KERNEL(threads, 1) sample(sampling_job job, std::uint64_t scratch_stride) {
  auto& shared = *reinterpret_cast<board*>(simt::shared());
  auto* memory = static_cast<std::byte*>(job.scratch) + simt::block_index().x * scratch_stride;
  for (std::uint32_t index = simt::block_index().x; index < job.count; index += simt::grid_size().x) {
    sample_row(shared, job, index, reinterpret_cast<std::uint64_t*>(memory));
    simt::sync_block(); // the row's scratch is read
  }
}

} // namespace sampling

std::uint64_t sampling_scratch_bytes(std::uint32_t vocabulary) noexcept {
  std::uint64_t power = 1;
  while (power < vocabulary) power *= 2;
  return power * sizeof(std::uint64_t) + (std::uint64_t{vocabulary} * sizeof(float) + 15) / 16 * 16;
}

void launch(driver_stream& stream, const sampling_job& job) {
  if (job.count == 0) return;
  require(job.vocabulary != 0 && job.vocabulary <= vocabulary_max, "a vocabulary has at most 524,287 tokens");
  require(job.logits_stride % 4 == 0, "rows of logits begin at multiples of 16 bytes");
  require(job.rows_at_once != 0, "sampling is of at least one row at once");
  simt::launch(stream, "sampling", &sampling::sample,
               {job.count < job.rows_at_once ? job.count : job.rows_at_once, 1, 1}, sampling::threads,
               sizeof(sampling::board), job, sampling_scratch_bytes(job.vocabulary));
}

} // namespace godwit::gpu::cuda
