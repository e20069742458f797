#include "batching/outline.hpp"
#include "batching/planned_request.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

/// How a planner forms a step.
namespace godwit::protocols {

std::optional<step_input> planner::plan() {
  ensure(steps_in_flight() < settings_.steps_max, "planner: no more steps in flight than there may be");
  outline d{settings_.step_tokens_max};
  start_outranking(d);
  const bool apart = settings_.mode == batching_mode::prefill_first;
  if (!apart) continue_running(d, true);
  continue_running(d, false);
  if (!batch_is_closed() && !d.preempted) start_waiting(d);
  if (apart && d.shares.empty()) continue_running(d, true);
  ensure(d.copies.empty() || !d.shares.empty(), "planner: copies belong to slices");
  if (d.shares.empty()) return std::nullopt;
  speculate(d);

  step_input input;
  input.step = next_step_++;
  input.copies = std::move(d.copies);
  input.slices.reserve(d.shares.size());
  std::span<const token_id> drafts = d.drafts;
  for (auto& part : d.shares) {
    auto& r = *part.who;
    part.prefill = !r.decodes();
    part.samples = r.planned() + part.tokens == r.total();
    part.scores = r.scores_missing();
    const auto own = drafts.first(part.asks ? 0 : part.drafted);
    input.slices.push_back(slice_of(r, part, own));
    drafts = drafts.subspan(own.size());
    ++r.in_flight;
    r.ahead += part.tokens;
  }
  in_flight_.push_back({input.step, std::move(d.shares), std::move(d.drafts), std::move(d.holds)});
  return input;
}

void planner::continue_running(outline& d, bool decodes) {
  auto most = decodes ? decodes_at_most() : running_.size();
  // In order, so that whoever is preempted lies behind.
  for (std::size_t place = 0; place < running_.size() && d.budget() > 0 && most > 0;) {
    auto& r = *running_[place].second;
    const bool outgrows = blocks_for(r.planned() + 1ULL) > ledger_.total();
    if (!r.may_be_planned() || r.decodes() != decodes || (outgrows && r.in_flight > 0) || d.holds_back(r)) {
      ++place;
      continue;
    }
    if (outgrows) {        // nobody left to take blocks from, ever
      end_as_too_large(r); // the next one has its place now
      continue;
    }
    // One block each is enough to go on with.
    const auto waits = [&] {
      if (!d.leaving) d.leaving = leaving();
      return *d.leaving > d.waits_for_swaps;
    };
    while (tokens_that_fit(r) == 0 && !waits() && next_victim() != nullptr && next_victim() != &r)
      preempt(*next_victim(), d);
    if (tokens_that_fit(r) == 0) {
      if (!waits() && next_victim() == nullptr) d.wanted = running_.last().second;
      ++d.waits_for_swaps;
    }
    const auto shares = d.shares.size();
    schedule(r, d);
    ++place;
    most -= d.shares.size() - shares;
  }
}

// About as many in each, so that all stages have as much to do; nobody is left over, since those of the step that ends
// next are free then.
std::size_t planner::decodes_at_most() const noexcept {
  if (settings_.steps_max == 1) return running_.size();
  const auto all = std::ranges::count_if(running_, [](const auto& entry) { return entry.second->decodes(); });
  return (static_cast<std::size_t>(all) + settings_.steps_max - 1) / settings_.steps_max;
}

planned_request* planner::next_victim() const noexcept {
  auto* const last = running_.last().second;
  return last->in_flight > 0 ? nullptr : last;
}

void planner::end_as_too_large(planned_request& r) {
  auto update = update_of(r, {}, finish_reason::error);
  update.error = "the request needs more KV than the pool of " + std::to_string(ledger_.total()) + " blocks holds";
  finish(r, std::move(update), pending_);
}

bool planner::batch_is_closed() const noexcept {
  return settings_.mode == batching_mode::static_batch && running_.size() + parked_running_ > 0;
}

bool planner::outranks_running(const planned_request& r) const {
  return settings_.mode != batching_mode::static_batch && !running_.empty() &&
         r.priority < running_.last().first.priority;
}

// First of all, and without tokens: it gets those by its rank, as the running requests do.
void planner::start_outranking(outline& d) {
  while (!waiting_.empty() && outranks_running(*waiting_.begin()->second)) {
    auto& r = *waiting_.begin()->second;
    if (waits_for_sibling(r)) return;
    const auto starts = [&] { return places_taken() < settings_.running_max && start(r, d, false); };
    bool started = starts();
    if (!started && !suffices_to_preempt_for(r)) return;
    while (!started && outranks_running(r)) {
      if (waits_for_swaps(r)) return;
      if (next_victim() == nullptr) {
        d.outranked_by = r.priority;
        return;
      }
      preempt(*next_victim(), d);
      started = starts();
    }
    if (!started) return;
  }
}

bool planner::waits_for_swaps(const planned_request& r) const {
  const auto leaves = leaving();
  const bool itself = r.swap != 0 && swaps_.at(r.swap).where == swapped_kv::phase::leaves;
  return (leaves > 0 || itself) && places_taken() < settings_.running_max &&
         blocks_to_reserve(r) + blocks_outstanding() <= std::uint64_t{ledger_.available()} + leaves;
}

// Would r start if all that it outranks were gone? Otherwise they would lose their blocks for nothing.
bool planner::suffices_to_preempt_for(const planned_request& r) const {
  std::uint64_t kept = blocks_to_reserve(r);
  std::uint64_t room = std::uint64_t{ledger_.available()} + leaving();
  std::uint64_t held = 0;
  const auto is_outranked = [&r](const batch::entry& running) {
    return running.first.priority > r.priority && !running.second->parks; // what is parked keeps its blocks
  };
  for (const auto& running : running_) {
    if (is_outranked(running))
      held += running.second->blocks.size();
    else
      kept += blocks_to_reserve(*running.second);
  }
  for (const auto& [place, parked] : parked_)
    if (parked->state == request_state::running) kept += blocks_to_reserve(*parked);
  if (kept > room + held) return false; // even if nothing of theirs is shared
  std::unordered_map<block_id, std::uint32_t> references;
  for (const auto& running : running_)
    if (is_outranked(running))
      for (const auto block : running.second->blocks.table()) ++references[block];
  for (const auto& [block, count] : references) room += ledger_.references(block) == count ? 1 : 0;
  return kept <= room;
}

void planner::start_waiting(outline& d) {
  const bool whole_batch = settings_.mode == batching_mode::static_batch;
  batch_former forming{settings_.batch};
  while (!waiting_.empty() && places_taken() < settings_.running_max && (d.budget() > 0 || whole_batch)) {
    auto& r = *waiting_.begin()->second;
    if (blocks_for(r.total()) > ledger_.total()) { // preempted when it had just outgrown the pool
      end_as_too_large(r);
      continue;
    }
    if (!forming.takes(r.ttft_ns, r.expected_tokens)) return;
    if (waits_for_sibling(r) || !start(r, d, true)) return; // nobody overtakes
    forming.add(r.ttft_ns, r.expected_tokens);
  }
}

/// Another sample of the same prompt that is here, whoever says so.
planned_request* planner::sibling_of(const planned_request& r) const {
  if (r.sibling == request_id{} || r.answer_tokens() > 0 || r.scores_missing()) return nullptr;
  const auto known = by_id_.find(r.sibling);
  if (known == by_id_.end()) return nullptr;
  auto* const other = requests_.at(known->second).get();
  const bool same = other != &r && !other->mixed_kv && other->cache_salt == r.cache_salt &&
                    other->prompt_tokens == r.prompt_tokens &&
                    std::equal(r.tokens.begin(), r.tokens.end(), other->tokens.begin());
  return same ? other : nullptr;
}

// While the sibling computes the prompt, which the batch does before it takes on more work anyway, there is no use in
// computing it a second time.
bool planner::waits_for_sibling(const planned_request& r) const {
  if (settings_.mode == batching_mode::static_batch) return false;
  const auto* const other = sibling_of(r);
  return other != nullptr && other->state == request_state::running && (!other->parked || other->loads()) &&
         !other->parks && other->computed < r.prompt_tokens && rank_of(*other) < rank_of(r);
}

/// Fills the empty table with what is there of the request's KV; returns how many tokens that is.
std::uint32_t planner::take_up_prefix(planned_request& r) {
  if (r.scores_missing()) return 0;
  const auto* const other = sibling_of(r);
  if (other == nullptr || other->computed < r.prompt_tokens) return r.blocks.match(ledger_, r.tokens);
  r.blocks = other->blocks.fork(ledger_);
  r.blocks.truncate(ledger_, r.prompt_tokens); // its last block may hold the other's answer, behind the prompt
  return r.prompt_tokens;
}

// The head of line may lack memory for many steps, and a long prefix takes longer to look up than all the rest of a
// step. Where nothing was cached or taken up since the last time, and no more of the prefix is known, another lookup
// would find the same and change nothing: the prefix's cached blocks are those that would be evicted last already.
bool planner::lacks_memory_as_before(const planned_request& r, std::uint64_t outstanding) const {
  const auto& then = shortage_;
  if (then.serial != r.serial || r.sibling != request_id{}) return false;
  if (then.cache_version != ledger_.cache_version() || then.prefix_cached > ledger_.cached()) return false;
  const auto behind = std::span{r.tokens}.subspan(then.prefix_tokens);
  if (behind.size() >= tokens_per_block && ledger_.knows(then.prefix_end, behind.first(tokens_per_block), r.cache_salt))
    return false; // there is more of it now
  return (!running_.empty() || loading_ > 0 || leaving_held_ > 0) && then.needed + outstanding > ledger_.available();
}

/// How many leading tokens a store could bring, where that is worth it beside those that are there; else 0. The last
/// token is always computed.
std::uint32_t planner::loadable(const planned_request& r, std::uint32_t matched) const {
  if (settings_.mode == batching_mode::static_batch || r.scores_missing()) return 0;
  const auto most = std::min(r.stored, (r.total() - 1) / tokens_per_chunk * tokens_per_chunk);
  return most >= matched + std::max(settings_.load_min, 1U) ? most : 0;
}

// Without a share of the step now (`schedules` false), nothing is copied for it either.
bool planner::start(planned_request& r, outline& d, bool schedules) {
  ensure(r.computed == 0 && r.blocks.size() == 0, "planner: a request starts from nothing");
  if (r.swap != 0 && swaps_.at(r.swap).where == swapped_kv::phase::leaves) return false;
  const auto outstanding = blocks_outstanding();
  if (lacks_memory_as_before(r, outstanding)) return false;
  shortage found;
  found.serial = r.serial;
  const auto available = ledger_.available();
  auto matched = take_up_prefix(r);
  if (matched > 0) found.prefix_end = r.blocks.table().back();
  found.prefix_tokens = matched;
  found.prefix_cached = available - ledger_.available();
  const bool from_swap = swap_is_of_use(r, matched);
  const auto stored = from_swap ? 0 : loadable(r, matched);
  if (stored > 0) { // by whole chunks
    matched = matched / tokens_per_chunk * tokens_per_chunk;
    r.blocks.truncate(ledger_, matched);
  }
  const auto missed = r.total() - matched;
  // The last token is always computed, for its logits; where its block is shared, in a copy of that block.
  const bool matches_all = matched == r.total();
  const bool scheduled = schedules && d.budget() > 0;
  bool copies = matches_all && scheduled;
  const auto room = [&] {
    const auto needed = blocks_to_reserve(r) + (copies ? 1 : 0);
    if (needed + outstanding <= ledger_.available()) return true;
    if (from_swap && blocks_for(r.swapped) > std::uint64_t{r.blocks.size()} + ledger_.available()) return false;
    return running_.empty() && loading_ == 0 && leaving_held_ == 0 &&
           ledger_.available() > 0; // alone it may have what there is
  };
  if (matches_all && !(copies && room())) { // the shared block itself may be the room that is missing
    copies = false;
    matched = (matched - 1) / tokens_per_block * tokens_per_block;
    r.blocks.truncate(ledger_, matched);
  }
  if (!room()) {
    found.needed = blocks_to_reserve(r) + (available - ledger_.available());
    r.blocks.release(ledger_);
    found.cache_version = ledger_.cache_version();
    shortage_ = found;
    return false;
  }
  shortage_ = {};
  r.computed = matched;
  if (copies) {
    r.computed = matched - 1;
    const auto written = r.blocks.make_writable(ledger_, r.computed);
    ensure(written && written->copies(), "planner: a shared block is copied before it is written");
    d.holds.push_back(written->from);
    d.copies.emplace_back(written->from, written->to);
  }
  totals_.prefix_query_tokens_total += ledger_.prefix_caching() ? r.total() : 0;
  totals_.prefix_hit_tokens_total += ledger_.prefix_caching() ? r.computed : 0;
  if (settings_.store && !from_swap) totals_.store_query_tokens_total += missed;
  if (!std::exchange(r.started, true)) {
    r.cached_tokens = std::min(r.computed, r.prompt_tokens);
    pending_.begun.push_back(r.id);
  }
  r.state = request_state::running;
  leave_queue(r);
  // What is swapped is not in the queue's figures, to which this share is applied.
  if (from_swap)
    meter_.started(r.total() - r.swapped, r.total() - r.swapped);
  else
    meter_.started(r.total(), r.total() - r.computed);
  ++places_granted_;
  const auto loaded_upto = from_swap ? r.swapped : stored;
  if (!from_swap) {
    drop_swap(r);
    r.mixed_kv = false; // all of it is ours
  }
  const bool loads = loaded_upto > 0 && r.blocks.grow(ledger_, loaded_upto);
  blocks_granted_ += std::int64_t{available} - ledger_.available();
  if (loads) {
    begin_load(r, loaded_upto, from_swap);
    return true;
  }
  running_.emplace(rank_of(r), &r);
  if (scheduled) schedule(r, d);
  return true;
}

void planner::schedule(planned_request& r, outline& d) {
  const auto tokens = std::min(d.budget(), tokens_that_fit(r));
  if (tokens == 0) return; // keeps its blocks and waits for more
  const auto held = r.blocks.size();
  ensure(r.blocks.grow(ledger_, r.planned() + std::uint64_t{tokens}), "planner: tokens that fit have blocks");
  if (!r.decodes()) blocks_granted_ += r.blocks.size() - held;
  d.add({&r, tokens});
}

// What is left of a step, after all that has to be in it.
void planner::speculate(outline& d) {
  const auto& settings = settings_.speculation;
  if (!settings.on()) return;
  const auto asks = ask_draft_model(d);
  const bool crowded = d.shares.size() > settings.batch_max; // of a draft model it is known what that costs
  if (crowded && asks.empty()) return;
  std::optional<std::uint64_t> spare; // blocks that nobody needs next
  for (std::size_t place = 0; place < d.shares.size(); ++place) {
    auto& part = d.shares[place];
    auto& r = *part.who;
    if (!may_draft(r)) continue;
    if (!spare) spare = spare_blocks();
    const auto before = d.drafts.size();
    if (r.drafts_wait > 0)
      r.drafts_wait -= crowded ? 0 : 1;
    else if (!crowded)
      guess(r, part, drafts_for(r, std::min<std::uint32_t>(r.drafts_next, d.budget()), *spare), d.drafts);
    auto drafted = static_cast<std::uint32_t>(d.drafts.size() - before);
    if (drafted == 0 && !asks.empty()) {
      drafted = drafts_for(r, std::min(asks[place], d.budget()), *spare);
      part.asks = drafted > 0;
      if (asks[place] == 0) r.guesses.rested();
    }
    if (drafted == 0) continue;
    const auto held = r.blocks.size();
    ensure(r.blocks.grow(ledger_, r.computed + std::uint64_t{1} + drafted), "planner: drafts that fit have blocks");
    *spare -= r.blocks.size() - held;
    d.add_drafts(part, drafted);
    ++totals_.drafts_total;
    totals_.draft_tokens_total += drafted;
    totals_.model_draft_tokens_total += part.asks ? drafted : 0;
  }
}

/// Up to `room` tokens out of what the request has with it.
void planner::guess(const planned_request& r, share& part, std::uint32_t room, std::vector<token_id>& drafts) const {
  const auto& settings = settings_.speculation;
  const auto before = drafts.size();
  const std::span<const token_id> tokens = r.tokens;
  if (r.predicts)
    draft_by_prediction(tokens.subspan(r.prompt_tokens), r.prediction, settings,
                        std::min(room, settings.prediction_max), drafts);
  part.predicted = drafts.size() > before;
  if (!part.predicted) draft_by_lookup(tokens, settings, std::min(room, settings.tokens_max), drafts);
}

/// How many tokens the draft model is to guess for each share; empty: none for anybody. Whose prompt is computed in the
/// step would wait for guesses that are not its own.
std::vector<std::uint32_t> planner::ask_draft_model(const outline& d) {
  const auto most = settings_.speculation.model_max;
  const auto decodes = [](const share& part) { return part.who->decodes(); };
  if (most == 0 || !std::ranges::all_of(d.shares, decodes)) return {};
  std::vector<std::size_t> places;
  std::vector<double> chances;
  for (std::size_t place = 0; place < d.shares.size(); ++place) {
    if (!may_draft(*d.shares[place].who)) continue;
    places.push_back(place);
    chances.push_back(d.shares[place].who->guesses.chance());
  }
  const auto depths = draft_meter_.depths(chances, static_cast<std::uint32_t>(d.shares.size()), most);
  std::vector<std::uint32_t> out(d.shares.size(), 0);
  for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = depths[i];
  return out;
}

// What a schema leaves is found out token by token, and that again wherever an answer took another way than its drafts.
bool planner::may_draft(const planned_request& r) const noexcept {
  const auto& settings = settings_.speculation;
  const bool has_source =
      settings.tokens_max > 0 || settings.model_max > 0 || (r.predicts && settings.prediction_max > 0);
  return has_source && r.decodes() && !r.sampling.constrained();
}

std::uint64_t planner::spare_blocks() const {
  const auto outstanding = blocks_outstanding();
  const auto needed = outstanding + demand_of_head(outstanding);
  return ledger_.available() - std::min<std::uint64_t>(needed, ledger_.available());
}

// Nobody is preempted for them, and none lies behind where the answer ends. Those of one step are drawn under the same
// prohibitions. Of blocks that are cached each takes one at most, which it would take soon anyway.
std::uint32_t planner::drafts_for(const planned_request& r, std::uint32_t limit, std::uint64_t blocks) const {
  const auto answer = r.answer_tokens();
  std::uint64_t most = limit;
  const auto bound = [&most](std::uint64_t end, std::uint64_t at) { most = std::min(most, end > at ? end - at : 0); };
  bound(r.stop.max_tokens, answer + std::uint64_t{1});
  bound(settings_.context_length, r.total() + std::uint64_t{1});
  if (answer < r.stop.min_tokens) bound(r.stop.min_tokens, answer + std::uint64_t{1});
  const auto unused = std::max<std::uint64_t>(ledger_.available() - ledger_.cached(), 1);
  bound(r.blocks.capacity() + std::min(blocks, unused) * tokens_per_block, r.computed + std::uint64_t{1});
  return static_cast<std::uint32_t>(most);
}

void planner::preempt(planned_request& victim, outline& d) {
  d.withdraw(victim);
  d.preempted = true;
  d.leaving.reset();
  ++victim.preemptions;
  ++totals_.preemptions_total;
  pending_.preempted.push_back(victim.id);
  if (const auto worth = swap_worth(victim); worth.end > worth.first) swap_out(victim, worth);
  victim.blocks.release(ledger_);
  victim.computed = 0;
  if (victim.scores_missing()) victim.prompt_scores.clear();
  victim.state = request_state::preempted;
  running_.erase(rank_of(victim));
  join_queue(victim);
}

std::uint32_t planner::tokens_that_fit(const planned_request& r) const {
  const auto positions = r.blocks.capacity() + std::uint64_t{ledger_.available()} * tokens_per_block;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(positions - r.planned(), r.total() - r.planned()));
}

std::uint64_t planner::blocks_to_start(const planned_request& r) const {
  // Continuous: what is known now, and the first token drawn. Static: to the end, since nobody of a batch may be
  // preempted.
  auto tokens = std::uint64_t{r.total()} + 1;
  if (settings_.mode == batching_mode::static_batch)
    tokens = std::min<std::uint64_t>(std::uint64_t{r.prompt_tokens} + r.stop.max_tokens, settings_.context_length);
  return blocks_for(tokens);
}

std::uint64_t planner::blocks_to_reserve(const planned_request& r) const {
  const auto blocks = blocks_to_start(r);
  return blocks > r.blocks.size() ? blocks - r.blocks.size() : 0;
}

std::uint64_t planner::blocks_outstanding() const {
  std::uint64_t sum = 0;
  for (const auto& [place, r] : running_) sum += blocks_to_reserve(*r);
  for (const auto& [place, r] : parked_)
    if (r->state == request_state::running) sum += blocks_to_reserve(*r);
  return sum;
}

step_slice planner::slice_of(const planned_request& r, const share& part, std::span<const token_id> drafts) const {
  step_slice slice;
  slice.request = r.id;
  slice.first_position = r.planned();
  slice.adapter = r.adapter.id;
  const auto first = r.tokens.begin() + r.planned();
  slice.tokens.reserve(part.tokens + drafts.size());
  slice.tokens.assign(first, first + part.tokens);
  slice.tokens.insert(slice.tokens.end(), drafts.begin(), drafts.end());
  const auto& table = r.blocks.table();
  slice.blocks.assign(table.begin(),
                      table.begin() + blocks_for(r.planned() + std::uint64_t{part.tokens} + part.drafted));
  slice.samples = part.samples;
  (part.asks ? slice.drafts_wanted : slice.drafted) = part.drafted;
  if (part.scores) {
    const auto end = std::min(r.planned() + part.tokens + 1, r.prompt_tokens);
    slice.scored.assign(first + 1, r.tokens.begin() + end);
    slice.scores_top = r.sampling.prompt_logprobs;
  }
  if (!part.samples) return slice;
  slice.sample_index = r.answer_tokens();
  slice.sampling = r.sampling;
  if (r.answer_tokens() < r.stop.min_tokens) {
    slice.forbidden = settings_.eos;
    slice.forbidden.insert(slice.forbidden.end(), r.stop.stop_token_ids.begin(), r.stop.stop_token_ids.end());
  }
  if (r.sampling.penalised()) slice.prompt.assign(r.tokens.begin(), r.tokens.begin() + r.prompt_tokens);
  if (r.sampling.penalised() || r.sampling.constrained())
    slice.generated.assign(r.tokens.begin() + r.prompt_tokens, r.tokens.end());
  return slice;
}

} // namespace godwit::protocols
