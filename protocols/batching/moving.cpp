#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

/// How a request leaves a planner with its KV, and how it comes to another one.
namespace godwit::protocols {

planned_request* planner::find(request_id id, epoch under) const {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return nullptr;
  auto* const r = requests_.at(known->second).get();
  return r->epoch == under ? r : nullptr;
}

std::optional<request_view> planner::view(request_id id, epoch under) const {
  const auto* const r = find(id, under);
  if (r == nullptr) return std::nullopt;
  request_view seen;
  seen.state = r->parked && !r->loads() ? request_state::migrating : r->state;
  seen.prompt_tokens = r->prompt_tokens;
  seen.answer_tokens = r->answer_tokens();
  seen.computed = r->computed;
  seen.blocks_most = blocks_at_most(*r);
  seen.preemptions = r->preemptions;
  seen.in_flight = r->in_flight > 0;
  const auto& table = r->blocks.table();
  seen.blocks.assign(table.begin(), table.begin() + blocks_for(seen.computed));
  return seen;
}

planner::parking planner::park(request_id id, epoch under) {
  auto* const r = find(id, under);
  if (r == nullptr) return parking::unknown;
  if (r->in_flight > 0) {
    r->parks = true;
    return parking::parked_after_step;
  }
  if (r->loads()) end_load(*r); // it leaves with what it has
  set_aside(*r, pending_);
  return parking::parked;
}

void planner::set_aside(planned_request& r, step_effects& effects) {
  effects.parked.push_back(r.id); // also of one that is: whoever asks again is answered again
  if (std::exchange(r.parked, true)) return;
  r.parks = false;
  leave_queue(r);
  if (running_.erase(rank_of(r)) > 0) ++parked_running_;
  parked_.emplace(rank_of(r), &r);
}

moved_request planner::snapshot(request_id id, std::uint32_t tail_from) const {
  const auto known = by_id_.find(id);
  ensure(known != by_id_.end(), "planner: a snapshot is of a request that is here");
  const auto& r = *requests_.at(known->second);
  ensure(r.parked, "planner: a snapshot is of a parked request");
  const auto answer = r.tokens.begin() + r.prompt_tokens;
  moved_request moved{r.id, r.epoch, {r.tokens.begin(), answer}, {answer, r.tokens.end()}, r.sampling, r.stop};
  moved.priority = r.priority;
  moved.arrival_ns = r.arrival_ns;
  moved.cache_salt = r.cache_salt;
  moved.adapter = r.adapter;
  moved.execution_level = r.execution_level;
  moved.state = r.state;
  moved.computed = r.computed;
  moved.cached_tokens = r.cached_tokens;
  moved.started = r.started;
  moved.preemptions = r.preemptions;
  moved.mixed_kv = r.mixed_kv;
  moved.expected_tokens = r.expected_tokens;
  moved.ttft_ns = r.ttft_ns;
  moved.prediction = r.prediction;
  moved.prediction_accepted = r.prediction_accepted;
  moved.prediction_rejected = r.prediction_rejected;
  moved.tail_index = std::min(tail_from, r.answer_tokens());
  if (r.keeps_logprobs()) {
    moved.tail_index = std::max(moved.tail_index, r.drawn_from);
    moved.tail.assign(r.drawn.begin() + (moved.tail_index - r.drawn_from), r.drawn.end());
  } else {
    for (auto i = moved.tail_index; i < r.answer_tokens(); ++i) moved.tail.emplace_back(moved.answer[i]);
  }
  if (moved.tail_index == 0) moved.prompt_scores = r.prompt_scores; // its home has them otherwise
  return moved;
}

computed_kv planner::complete_kv(request_id id, epoch under) const {
  computed_kv kv;
  const auto* const r = find(id, under);
  if (r == nullptr || !ledger_.prefix_caching()) return kv;
  kv.request = id;
  kv.cache_salt = r->cache_salt;
  kv.tokens.assign(r->tokens.begin(), r->tokens.begin() + r->computed / tokens_per_block * tokens_per_block);
  return kv;
}

bool planner::unpark(request_id id, epoch from, epoch to) {
  auto* const r = find(id, from);
  if (r == nullptr || to < from) return false;
  r->epoch = to;
  r->parks = false;
  if (r->loads()) return true; // not parked for whoever asks
  if (!std::exchange(r->parked, false)) return true;
  parked_.erase(rank_of(*r));
  if (r->state == request_state::running) {
    --parked_running_;
    running_.emplace(rank_of(*r), r);
  } else {
    join_queue(*r);
  }
  return true;
}

void planner::begin_load(planned_request& r, std::uint32_t upto, bool from_swap) {
  r.parked = true;
  r.load = ++loads_begun_;
  ++loading_;
  ++parked_running_;
  parked_.emplace(rank_of(r), &r);
  load_order order;
  order.number = r.load;
  order.serial = r.serial;
  order.request = r.id;
  order.cache_salt = r.cache_salt;
  order.tokens.assign(r.tokens.begin(), r.tokens.begin() + upto);
  order.first = r.computed;
  order.upto = upto;
  const auto& table = r.blocks.table();
  order.blocks.assign(table.begin() + blocks_for(r.computed), table.begin() + blocks_for(upto));
  if (from_swap) {
    auto& kept = swaps_.at(r.swap);
    kept.where = swapped_kv::phase::comes;
    order.slots.assign(kept.slots.begin() + (blocks_for(r.computed) - blocks_for(kept.first)), kept.slots.end());
    order.swap = std::exchange(r.swap, 0);
    r.swap_from = r.swapped = 0;
    --swapped_;
  }
  pending_.loads.push_back(std::move(order));
}

// It holds what is computed, as parked ones do.
void planner::end_load(planned_request& r) {
  r.load = 0;
  --loading_;
  r.blocks.truncate(ledger_, r.computed);
}

bool planner::load_wanted(const load_order& order) const {
  const auto found = requests_.find(order.serial);
  return found != requests_.end() && found->second->load == order.number;
}

void planner::loaded(const load_order& order, std::uint32_t upto, std::int64_t took_ns) {
  const bool from_swap = order.swap != 0;
  if (from_swap) {
    if (took_ns > 0) copies_in_.took(blocks_for(upto - order.first), took_ns);
    free_swap(order.swap);
  }
  const auto found = requests_.find(order.serial);
  if (found == requests_.end() || found->second->load != order.number) return;
  auto& r = *found->second;
  ensure(upto >= r.computed && upto <= order.upto && upto % (from_swap ? tokens_per_block : tokens_per_chunk) == 0,
         "planner: what is loaded are chunks, or blocks, that were ordered");
  const bool first_run = r.preemptions == 0 && r.answer_tokens() == 0;
  if (from_swap) {
    totals_.swapped_in_tokens_total += upto - r.computed;
  } else {
    totals_.store_hit_tokens_total += upto - r.computed;
    r.stored = upto; // what else there was is not asked for again
  }
  r.computed = upto;
  end_load(r);
  seal(r);
  if (first_run) r.cached_tokens = std::min(r.computed, r.prompt_tokens);
  unpark(r.id, r.epoch, r.epoch);
}

bool planner::hold_place() {
  if (settings_.mode == batching_mode::static_batch) return false;
  const std::size_t kept_for_waiting = waiting_.empty() ? 0 : 1; // or they could be overtaken for ever
  if (places_taken() + kept_for_waiting >= settings_.running_max) return false;
  ++places_held_;
  ++places_granted_;
  return true;
}

void planner::free_place() {
  ensure(places_held_ > 0, "planner: a place that is freed was held");
  --places_held_;
  --places_granted_;
}

std::uint64_t planner::blocks_spoken_for() const {
  return blocks_outstanding() + (waiting_.empty() ? 0 : blocks_to_reserve(*waiting_.begin()->second));
}

std::optional<std::vector<block_id>> planner::reserve(std::uint32_t blocks) {
  if (blocks + blocks_spoken_for() > ledger_.available()) return std::nullopt;
  std::vector<block_id> taken;
  taken.reserve(blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    taken.push_back(*ledger_.allocate());
    reserved_.emplace(taken.back(), 1);
  }
  blocks_granted_ += blocks;
  return taken;
}

std::vector<block_id> planner::reserve_known(std::span<const token_id> tokens, std::uint64_t salt) {
  const auto spoken_for = blocks_spoken_for();
  const auto before = ledger_.available();
  std::vector<block_id> taken;
  std::optional<block_id> parent;
  for (std::size_t at = 0; at + tokens_per_block <= tokens.size(); at += tokens_per_block) {
    const auto available = ledger_.available();
    parent = ledger_.find(parent, tokens.subspan(at, tokens_per_block), salt);
    if (!parent) break;
    if (ledger_.available() < available && available <= spoken_for) { // nobody's so far
      ledger_.release(*parent);
      break;
    }
    taken.push_back(*parent);
    ++reserved_[*parent];
  }
  blocks_granted_ += std::int64_t{before} - ledger_.available();
  return taken;
}

void planner::end_reservation(block_id block) {
  const auto found = reserved_.find(block);
  ensure(found != reserved_.end(), "planner: blocks of a request that comes were reserved");
  if (--found->second == 0) reserved_.erase(found);
}

// From the tail, as a table is released.
void planner::give_back(const std::vector<block_id>& blocks) {
  const auto before = ledger_.available();
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    end_reservation(*block);
    ledger_.release(*block);
  }
  blocks_granted_ -= std::int64_t{ledger_.available()} - before;
}

bool planner::known_agree(const moved_request& moved, std::span<const block_id> blocks) const {
  std::array<token_id, tokens_per_block> held{};
  std::optional<block_id> parent;
  for (std::size_t i = 0; i < blocks.size() && ledger_.sealed(blocks[i]); ++i) {
    if ((i + 1) * tokens_per_block > moved.computed) return false; // it would be written
    for (std::size_t k = 0; k < held.size(); ++k) {
      const auto at = i * tokens_per_block + k;
      held[k] = at < moved.prompt.size() ? moved.prompt[at] : moved.answer[at - moved.prompt.size()];
    }
    if (!ledger_.stands_for(blocks[i], parent, held, moved.cache_salt)) return false;
    parent = blocks[i];
  }
  return true;
}

admission planner::adopt(moved_request moved, epoch under, std::vector<block_id> blocks) {
  const auto id = moved.request;
  const bool has_kv = moved.computed > 0;
  ensure(std::ranges::all_of(blocks, [this](block_id block) { return reserved_.contains(block); }),
         "planner: adopted blocks were reserved");
  if (!supersede(id, under)) return {id, under, refusal::duplicate, 0};
  ensure(!has_kv || places_held_ > 0, "planner: a request that comes with its KV has a place");
  const auto total = moved.prompt.size() + moved.answer.size();
  const auto tail_from = std::min<std::size_t>(moved.tail_index, moved.answer.size());
  // While the home lacks them, of the computed part or, after a preemption, of all.
  const bool scores = moved.sampling.prompt_logprobs >= 0 && moved.tail_index == 0;
  const auto scored = moved.prompt_scores.size();
  const bool scores_agree =
      !scores || scored + 1 == moved.prompt.size() || (moved.answer.empty() && scored == moved.computed);
  const bool agrees =
      scores_agree && moved.computed < total && blocks.size() == blocks_for(moved.computed) &&
      known_agree(moved, blocks) && moved.cached_tokens <= moved.prompt.size() && moved.tail_index == tail_from &&
      std::ranges::equal(moved.tail, std::span{moved.answer}.subspan(tail_from), {}, &sampled_token::id);
  if (!agrees) return {id, under, refusal::invalid, 0};
  generate_request request{id,         under,          std::move(moved.prompt), std::move(moved.answer), moved.sampling,
                           moved.stop, moved.priority, moved.arrival_ns,        moved.cache_salt};
  request.adapter = std::move(moved.adapter);
  request.execution_level = moved.execution_level;
  request.expected_tokens = moved.expected_tokens;
  request.ttft_ns = moved.ttft_ns;
  request.prediction = std::move(moved.prediction);
  std::uint64_t limit = 0;
  if (const auto reason = judge(request, !has_kv, limit); reason != refusal::none) return {id, under, reason, limit};

  auto& r = enter(std::move(request));
  r.cached_tokens = moved.cached_tokens;
  r.started = moved.started;
  r.preemptions = moved.preemptions;
  r.mixed_kv = moved.mixed_kv && has_kv;
  r.prediction_accepted = moved.prediction_accepted;
  r.prediction_rejected = moved.prediction_rejected;
  r.computed = moved.computed;
  r.drawn_from = moved.tail_index;
  if (r.keeps_logprobs()) r.drawn = std::move(moved.tail);
  r.scores_prompt = scores;
  if (scores) r.prompt_scores = std::move(moved.prompt_scores);
  for (const auto block : blocks) end_reservation(block);
  r.blocks.take(ledger_, std::move(blocks));
  seal(r);
  if (has_kv) {
    --places_held_;
    r.state = request_state::running;
    running_.emplace(rank_of(r), &r);
  } else {
    r.state = moved.state == request_state::preempted ? request_state::preempted : request_state::waiting;
    join_queue(r);
  }
  if (const auto end = end_of(r); end != finish_reason::none) // by this instance's context length, or its last update
    finish(r, update_of(r, {}, end), pending_);               // was lost
  return {id, under, refusal::none, 0};
}

} // namespace godwit::protocols
