#include "cuda/kernels_sampling_input.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

bool known(protocols::token_id id, std::uint32_t vocabulary) {
  return id >= 0 && static_cast<std::uint32_t>(id) < vocabulary;
}

std::uint32_t size_of(const auto& list) { return static_cast<std::uint32_t>(list.size()); }

} // namespace

void sampling_input::clear() {
  rows.clear();
  masks.clear();
  forbidden.clear();
  biases.clear();
  counts.clear();
}

void sampling_input::add(std::uint32_t logits_row) {
  auto& row = rows.emplace_back();
  row.logits_row = logits_row;
  row.draws = 0;
}

void sampling_input::draw(const protocols::step_slice& slice, std::uint32_t vocabulary,
                          const model::token_mask* allowed) {
  const auto& wanted = slice.sampling;
  auto& row = rows.back();
  row.draws = 1;
  row.temperature = wanted.temperature;
  row.top_p = wanted.top_p;
  row.top_k = wanted.top_k > 0 ? static_cast<std::uint32_t>(wanted.top_k) : 0;
  row.min_p = wanted.min_p;
  row.repetition_penalty = wanted.repetition_penalty;
  row.frequency_penalty = wanted.frequency_penalty;
  row.presence_penalty = wanted.presence_penalty;
  row.index = slice.sample_index;
  row.seed = wanted.seed;
  row.logprobs = wanted.logprobs;
  if (allowed != nullptr) {
    row.mask = size_of(masks);
    for (std::uint32_t word = 0; word * 32 < vocabulary; ++word)
      masks.push_back(word / 2 < allowed->words.size()
                          ? static_cast<std::uint32_t>(allowed->words[word / 2] >> (word % 2 * 32))
                          : 0);
  }
  row.forbidden_first = size_of(forbidden);
  const bool must_end = allowed != nullptr && allowed->must_end;
  for (const auto id : slice.forbidden)
    if (known(id, vocabulary) && !(must_end && allowed->allows(id)))
      forbidden.push_back(static_cast<std::uint32_t>(id));
  row.forbidden_count = size_of(forbidden) - row.forbidden_first;
  row.bias_first = size_of(biases);
  for (const auto& bias : wanted.logit_bias)
    if (known(bias.id, vocabulary)) biases.push_back({static_cast<std::uint32_t>(bias.id), bias.bias});
  row.bias_count = size_of(biases) - row.bias_first;
  std::stable_sort(biases.begin() + row.bias_first, biases.end(),
                   [](const bias_entry& a, const bias_entry& b) { return a.id < b.id; });
  row.counts_first = size_of(counts);
  if (wanted.penalised()) count_tokens(slice, vocabulary);
  row.counts_count = size_of(counts) - row.counts_first;
}

// Each token once; where it is penalised for having been in the prompt alone, with a count of zero.
void sampling_input::count_tokens(const protocols::step_slice& slice, std::uint32_t vocabulary) {
  constexpr std::uint32_t in_prompt = 1U << 31U;
  if (times_.size() < vocabulary) times_.resize(vocabulary);
  using tokens = std::span<const protocols::token_id>;
  const tokens generated = slice.generated;
  const tokens prompt = slice.sampling.repetition_penalty == 1.0F ? tokens() : tokens(slice.prompt);
  for (const auto id : prompt)
    if (known(id, vocabulary)) times_[static_cast<std::uint32_t>(id)] = in_prompt;
  for (const auto id : generated)
    if (known(id, vocabulary)) ++times_[static_cast<std::uint32_t>(id)];
  for (const auto list : {generated, prompt})
    for (const auto id : list) {
      const auto times = known(id, vocabulary) ? std::exchange(times_[static_cast<std::uint32_t>(id)], 0U) : 0U;
      if (times != 0) counts.push_back({static_cast<std::uint32_t>(id), static_cast<float>(times & ~in_prompt)});
    }
}

void sampling_input::score(protocols::token_id token, std::int32_t top) {
  auto& row = rows.back();
  row.scored = token >= 0 ? token : std::numeric_limits<std::int32_t>::max();
  row.scores_top = top;
}

} // namespace godwit::gpu::cuda
