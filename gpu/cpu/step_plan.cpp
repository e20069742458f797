#include "cpu/step_plan.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

namespace godwit::gpu::cpu {

namespace {

using protocols::tokens_per_block;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("step: " + why); }

void check_slice(const protocols::step_slice& slice, const model::config& config, std::uint32_t blocks) {
  const std::string name = "request " + std::to_string(slice.request.value()) + ": ";
  if (slice.tokens.empty()) refuse(name + "no tokens");
  const std::uint64_t end = std::uint64_t{slice.first_position} + slice.tokens.size();
  if (end > config.positions_max)
    refuse(name + "position " + std::to_string(end - 1) + " is behind the model's " +
           std::to_string(config.positions_max) + " positions");
  if (slice.blocks.size() * std::uint64_t{tokens_per_block} < end)
    refuse(name + std::to_string(slice.blocks.size()) + " blocks do not cover " + std::to_string(end) + " positions");
  for (const auto block : slice.blocks)
    if (block.value() >= blocks) refuse(name + "block " + std::to_string(block.value()) + " is outside the pool");
  for (const auto token : slice.tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= config.vocabulary)
      refuse(name + "token " + std::to_string(token) + " is outside the vocabulary");
  if (slice.drafts_wanted > 0) refuse(name + "wants drafts, which no device has");
  if (slice.drafted >= slice.tokens.size() || (slice.drafted > 0 && !slice.samples))
    refuse(name + std::to_string(slice.drafted) + " drafts follow no token that one is drawn after");
  if (slice.scored.size() > slice.tokens.size()) refuse(name + "more tokens are scored than there are");
}

void cut(step_plan& plan, std::uint32_t index, std::uint32_t group) {
  const auto& planned = plan.slices[index];
  const std::uint32_t first = planned.slice->first_position;
  for (std::uint32_t token = 0; token < planned.rows;) {
    const std::uint32_t room = tokens_per_block - (first + token) % tokens_per_block;
    const std::uint32_t tokens = std::min(room, planned.rows - token);
    plan.pieces.push_back({index, token, tokens});
    token += tokens;
  }
  for (std::uint32_t row = 0; row < planned.rows * group; row += query_rows_max)
    plan.query_pieces.push_back({index, row, std::min(query_rows_max, planned.rows * group - row)});
}

using adapter_function = std::function<std::shared_ptr<const adapter_parts>(std::uint64_t)>;

void group_by_adapter(step_plan& plan, const adapter_function& adapter_of) {
  std::map<std::uint64_t, std::vector<std::uint32_t>> rows;
  for (const auto& planned : plan.slices)
    if (const auto id = planned.slice->adapter; id != 0)
      for (std::uint32_t i = 0; i < planned.rows; ++i) rows[id].push_back(planned.first_row + i);
  std::uint32_t first = 0;
  for (auto& [id, theirs] : rows) {
    auto adapter = adapter_of ? adapter_of(id) : nullptr;
    if (!adapter) refuse("adapter " + std::to_string(id) + " is not on the device");
    const auto count = static_cast<std::uint32_t>(theirs.size());
    plan.adapted.push_back({std::move(adapter), std::move(theirs), first});
    first += (count + lanes - 1) / lanes * lanes;
  }
}

} // namespace

step_plan plan_step(protocols::step_input input, const model::config& config, std::uint32_t blocks,
                    bool logits_of_all_rows, const adapter_function& adapter_of) {
  step_plan plan;
  plan.input = std::move(input);
  for (const auto& copy : plan.input.copies)
    if (copy.from.value() >= blocks || copy.to.value() >= blocks) refuse("a copied block is outside the pool");
  std::unordered_set<std::uint32_t> written;
  for (const auto& slice : plan.input.slices) {
    check_slice(slice, config, blocks);
    planned_slice planned;
    planned.slice = &slice;
    planned.first_row = plan.rows;
    planned.rows = static_cast<std::uint32_t>(slice.tokens.size());
    const std::uint32_t used = (slice.first_position + planned.rows + tokens_per_block - 1) / tokens_per_block;
    for (std::uint32_t i = 0; i < used; ++i) planned.blocks.push_back(slice.blocks[i].value());
    for (std::uint32_t i = slice.first_position / tokens_per_block; i < used; ++i)
      if (!written.insert(planned.blocks[i]).second)
        refuse("block " + std::to_string(planned.blocks[i]) + " is written twice");
    plan.rows += planned.rows;
    plan.decodes_only = plan.decodes_only && planned.rows == 1;
    const auto index = static_cast<std::uint32_t>(plan.slices.size());
    for (std::uint32_t row = 0; row < planned.rows; ++row) {
      const bool samples = slice.samples && row + 1 + slice.drafted >= planned.rows;
      const std::uint32_t draw = samples ? row + 1 + slice.drafted - planned.rows : 0;
      const bool scores = row < slice.scored.size();
      if (samples || scores || logits_of_all_rows)
        plan.logits.push_back(
            {planned.first_row + row, index, samples, draw, scores ? plan.scored : logits_place::no_score});
      plan.sampled += samples ? 1 : 0;
      plan.scored += scores ? 1 : 0;
    }
    plan.slices.push_back(std::move(planned));
    cut(plan, index, config.heads / config.kv_heads);
  }
  if (plan.rows == 0) refuse("no slices");
  group_by_adapter(plan, adapter_of);
  return plan;
}

} // namespace godwit::gpu::cpu
