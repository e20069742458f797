#include "cuda/draw_arrays.hpp"

#include <godwit/gpu/model/sampler.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace godwit::gpu::cuda {

namespace {

std::uint32_t wanted(std::int32_t top) { return static_cast<std::uint32_t>(std::max(top, 0)); }

template <class Value> void put(const std::vector<Value>& values, const area& lists, std::size_t section) {
  std::copy(values.begin(), values.end(), lists.host<Value>(section));
}

template <class Value>
void send(driver_stream& to, const std::vector<Value>& values, const area& lists, std::size_t section) {
  if (!values.empty()) lists.upload_section(to, section, values.size() * sizeof(Value));
}

/// What the slice's schema leaves; null: everything.
std::shared_ptr<const model::token_mask> mask_of(const protocols::step_slice& slice, const mask_function& allowed) {
  if (!slice.sampling.constrained()) return nullptr;
  if (!allowed) throw std::runtime_error("a schema asks for the model's vocabulary, which this device was not given");
  return allowed(slice);
}

protocols::sampled_token with_top(protocols::token_id id, float logprob, const top_entry* top, std::uint32_t count,
                                  std::uint32_t vocabulary) {
  protocols::sampled_token token{id};
  token.logprob = logprob;
  for (std::uint32_t i = 0; i < std::min(count, vocabulary); ++i) token.top.emplace_back(top[i].token, top[i].logprob);
  return token;
}

/// Rows whose logits are computed, padding included.
std::uint32_t put_rows(const cpu::step_plan& plan, const workspace& memory) {
  const auto count = static_cast<std::uint32_t>(plan.logits.size()), padded = bucket_of(count);
  auto* take = memory.draws.host<std::uint32_t>(workspace::take);
  std::ranges::transform(plan.logits, take, [](const cpu::logits_place& place) { return place.row; });
  std::fill(take + count, take + padded, 0U);
  return padded;
}

} // namespace

std::uint32_t draw_arrays::top_wanted(const cpu::step_plan& plan) noexcept {
  std::uint32_t top = 0;
  for (const auto& place : plan.logits) {
    const auto& slice = *plan.slices[place.slice].slice;
    if (place.samples) top = std::max(top, wanted(slice.sampling.logprobs));
    if (place.scored != cpu::logits_place::no_score) top = std::max(top, wanted(slice.scores_top));
  }
  return top;
}

sampling_lists draw_arrays::lists_max(const cpu::step_plan& plan, std::uint32_t vocabulary) noexcept {
  sampling_lists most;
  for (const auto& place : plan.logits) {
    if (!place.samples) continue;
    const auto& slice = *plan.slices[place.slice].slice;
    const auto& wanted = slice.sampling;
    most.forbidden += slice.forbidden.size();
    most.biases += wanted.logit_bias.size();
    const std::uint64_t repeated = wanted.repetition_penalty == 1.0F ? 0 : slice.prompt.size();
    if (wanted.penalised())
      most.counts += std::min<std::uint64_t>(slice.generated.size() + place.draw + repeated, vocabulary);
    if (wanted.constrained()) most.mask_words += (vocabulary + 31) / 32;
  }
  return most;
}

void draw_arrays::upload(driver_stream& to, const cpu::step_plan& plan, std::uint32_t vocabulary,
                         const mask_function& allowed, const workspace& memory) {
  input_.clear();
  refused_.clear();
  for (std::uint32_t i = 0; i < plan.logits.size(); ++i) {
    const auto& place = plan.logits[i];
    const auto& planned = plan.slices[place.slice];
    const auto& slice = *planned.slice;
    input_.add(i % logits_rows_max);
    if (place.scored != cpu::logits_place::no_score)
      input_.score(slice.scored[place.row - planned.first_row], slice.scores_top);
    if (!place.samples) continue;
    try {
      if (place.draw > 0) {
        const auto later = slice.drawn_at(place.draw);
        input_.draw(later, vocabulary, mask_of(later, allowed).get());
      } else {
        input_.draw(slice, vocabulary, mask_of(slice, allowed).get());
      }
    } catch (const std::exception& failed) { // its request's end, not the step's
      refused_.emplace_back(failed.what());
    }
  }
  const std::uint32_t padded = put_rows(plan, memory);
  auto* rows = memory.draws.host<sampling_row>(workspace::rows);
  std::ranges::copy(input_.rows, rows);
  sampling_row nothing;
  nothing.draws = 0;
  std::fill(rows + input_.rows.size(), rows + padded, nothing);
  put(input_.forbidden, memory.lists, workspace::forbidden);
  put(input_.biases, memory.lists, workspace::biases);
  put(input_.counts, memory.lists, workspace::counts);
  put(input_.masks, memory.lists, workspace::masks);
  memory.draws.upload(to, workspace::rows, std::uint64_t{padded} * sizeof(sampling_row));
  send(to, input_.forbidden, memory.lists, workspace::forbidden);
  send(to, input_.biases, memory.lists, workspace::biases);
  send(to, input_.counts, memory.lists, workspace::counts);
  send(to, input_.masks, memory.lists, workspace::masks);
}

void draw_arrays::upload_rows(driver_stream& to, const cpu::step_plan& plan, const workspace& memory) {
  const std::uint32_t padded = put_rows(plan, memory);
  memory.draws.upload_section(to, workspace::take, std::uint64_t{padded} * sizeof(std::uint32_t));
}

void draw_arrays::download(driver_stream& from, const workspace& memory) const {
  memory.results.download_section(from, workspace::sampled, input_.rows.size() * sizeof(sampled_row));
  const bool any =
      std::ranges::any_of(input_.rows, [](const sampling_row& row) { return row.logprobs > 0 || row.scores_top > 0; });
  if (any)
    memory.results.download_section(from, workspace::top, input_.rows.size() * memory.top_stride * sizeof(top_entry));
}

protocols::step_output draw_arrays::collect(const cpu::step_plan& plan, std::uint32_t vocabulary,
                                            const workspace& memory) const {
  protocols::step_output out;
  auto refused = refused_.begin();
  const auto* sampled = memory.results.host<sampled_row>(workspace::sampled);
  for (std::size_t i = 0; i < plan.logits.size(); ++i) {
    const auto& place = plan.logits[i];
    const auto& planned = plan.slices[place.slice];
    const auto& row = input_.rows[i];
    const auto* top = memory.results.host<top_entry>(workspace::top) + i * memory.top_stride;
    if (place.scored != cpu::logits_place::no_score) {
      if (place.row == planned.first_row) out.scores.emplace_back();
      out.scores.back().push_back(with_top(planned.slice->scored[place.row - planned.first_row],
                                           sampled[i].scored_logprob, top, wanted(row.scores_top), vocabulary));
    }
    if (!place.samples) continue;
    if (row.draws == 0 || sampled[i].token < 0) {
      out.tokens.emplace_back(protocols::no_token);
      const bool was_refused = row.draws == 0 && refused != refused_.end();
      out.undrawn.push_back(was_refused ? *refused++
                                        : model::why_none(*planned.slice, row.mask != sampling_row::no_mask));
    } else {
      out.tokens.push_back(with_top(sampled[i].token, row.logprobs >= 0 ? sampled[i].logprob : 0.0F, top,
                                    wanted(row.logprobs), vocabulary));
    }
  }
  return out;
}

} // namespace godwit::gpu::cuda
