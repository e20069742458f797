#include <godwit/protocols/batching/planner.hpp>

#include "batching/outline.hpp"
#include "batching/planned_request.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace godwit::protocols {

namespace {

/// Asks for the memory of all at once: a step comes back long after it was planned, and where there are many instances,
/// or requests, each would be waited for in turn.
void fetch(const planned_request& r) noexcept {
#if defined(__GNUC__)
  constexpr std::size_t line = 64;
  for (std::size_t at = 0; at < offsetof(planned_request, serial); at += line)
    __builtin_prefetch(reinterpret_cast<const char*>(&r) + at);
#endif
}

/// What that has elsewhere and a step reads of it.
void fetch_parts(const planned_request& r) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(r.tokens.data() + r.tokens.size());
  const auto& table = r.blocks.table();
  __builtin_prefetch(table.data());
  __builtin_prefetch(table.data() + table.size());
#endif
}

} // namespace

planner::planner(planner_settings settings)
    : settings_(std::move(settings)), ledger_(settings_.blocks, settings_.prefix_caching),
      swap_slots_(settings_.swap_slots) {
  const auto wrong = settings_.validate();
  ensure(wrong.empty(), ("planner: " + wrong).c_str());
}

planner::~planner() = default;
planner::planner(planner&&) noexcept = default;
planner& planner::operator=(planner&&) noexcept = default;

admission planner::admit(generate_request request, std::uint32_t stored) {
  const auto id = request.request;
  const auto owner_epoch = request.epoch;
  if (!supersede(id, owner_epoch)) return {id, owner_epoch, refusal::duplicate, 0};
  std::uint64_t limit = 0;
  if (const auto reason = judge(request, true, limit); reason != refusal::none) return {id, owner_epoch, reason, limit};
  auto& r = enter(std::move(request));
  if (settings_.store) r.stored = stored / tokens_per_chunk * tokens_per_chunk;
  if (const auto end = end_of(r); end != finish_reason::none) // whose last update was lost with its owner
    finish(r, update_of(r, {}, end), pending_);
  else
    join_queue(r);
  return {id, owner_epoch, refusal::none, 0};
}

bool planner::supersede(request_id id, epoch by) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return true;
  auto& earlier = *requests_.at(known->second);
  if (earlier.epoch >= by) return false;
  drop(earlier); // the home gave it a new owner: ourselves, again
  return true;
}

planned_request& planner::enter(generate_request request) {
  // A hint, of which what cannot be of use is left out.
  auto& hint = request.prediction;
  const auto unknown = std::ranges::find_if(hint, [this](token_id token) { return !knows(token); });
  hint.resize(std::min<std::size_t>(static_cast<std::size_t>(unknown - hint.begin()), settings_.context_length));
  const auto serial = next_serial_++;
  auto taken = std::make_unique<planned_request>(serial, std::move(request));
  auto& r = *taken;
  requests_.emplace(serial, std::move(taken));
  by_id_.emplace(r.id, serial);
  return r;
}

bool planner::knows(token_id token) const noexcept {
  return token >= 0 && (settings_.vocabulary == 0 || static_cast<std::uint32_t>(token) < settings_.vocabulary);
}

refusal planner::judge(const generate_request& request, bool queues, std::uint64_t& limit) const {
  const auto known = [this](token_id token) { return knows(token); };
  if (request.prompt.empty() || request.stop.max_tokens == 0 || !std::ranges::all_of(request.prompt, known) ||
      !std::ranges::all_of(request.answer, known))
    return refusal::invalid;
  limit = settings_.context_length;
  if (request.prompt.size() >= limit) return refusal::too_long;
  limit = settings_.blocks;
  if (blocks_for(request.prompt.size() + request.answer.size()) > limit) return refusal::never_fits;
  limit = settings_.waiting_max;
  if (queues && !request.taken_before && waiting_.size() + parked_waiting() >= limit) return refusal::queue_full;
  limit = 0;
  return refusal::none;
}

step_effects planner::complete(const step_output& output, std::int64_t took_ns, std::int64_t alone_ns) {
  ensure(step_in_flight() && output.step == in_flight_.front().step,
         "planner: the step that completes is the oldest in flight");
  const auto ran = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  const auto samples = static_cast<std::size_t>(std::ranges::count_if(ran.shares, &share::samples));
  ensure(output.tokens.size() == samples + ran.drafts.size() + output.drafts.size(),
         "planner: a token for each slice that samples and each draft");
  note_drafting(ran, output, took_ns);
  const auto scored = std::ranges::count_if(ran.shares, &share::scores);
  ensure(output.scores.size() == static_cast<std::size_t>(scored), "planner: scores for each slice that wants them");
  auto effects = take_effects();
  effects.updates.reserve(effects.updates.size() + output.tokens.size());
  for (const auto block : ran.holds) ledger_.release(block);
  for (const auto& part : ran.shares) fetch(*part.who);
  for (const auto& part : ran.shares) fetch_parts(*part.who);
  std::span<const sampled_token> tokens = output.tokens;
  std::span<const token_id> own_drafts = ran.drafts, asked_drafts = output.drafts;
  auto scores = output.scores.begin();
  auto why = output.undrawn.begin();
  step_sample sample;
  sample.took_ns = took_ns > 0 ? took_ns : output.duration_ns;
  sample.alone_ns = alone_ns;
  for (const auto& part : ran.shares) {
    auto& r = *part.who;
    --r.in_flight;
    r.ahead -= part.tokens;
    if (part.prefill) {
      sample.prompt_tokens += part.tokens;
      sample.prompt_pairs += attention_pairs(r.computed, std::uint64_t{r.computed} + part.tokens);
    } else {
      ++sample.decodes;
      sample.decoding += r.dropped ? 0 : 1;
    }
    r.computed += part.tokens;
    // The last token of a prompt may be alone in its step, which then costs what one that decodes does.
    const bool first = part.samples && r.answer_tokens() == 0;
    if (part.prefill || first) totals_.prompt_tokens_total += part.prefill ? part.tokens : 1;
    // Later steps have the table as it was.
    seal(r, r.in_flight > 0 ? &in_flight_.back().holds : nullptr);
    const auto drawn = tokens.first(part.samples ? std::size_t{1} + part.drafted : 0);
    tokens = tokens.subspan(drawn.size());
    auto& drafts = part.asks ? asked_drafts : own_drafts;
    const auto drafted = drafts.first(part.drafted);
    drafts = drafts.subspan(part.drafted);
    const auto undrawn =
        std::min<std::ptrdiff_t>(std::ranges::count(drawn, no_token, &sampled_token::id), output.undrawn.end() - why);
    const auto* const said = undrawn > 0 ? &*why : nullptr;
    why += undrawn;
    if (part.scores) {
      r.prompt_scores.insert(r.prompt_scores.end(), scores->begin(), scores->end());
      ++scores;
    }
    if (r.dropped) {
      if (r.in_flight == 0) remove(r, effects);
      continue;
    }
    if (drawn.empty()) {
      if (r.parks && r.in_flight == 0) set_aside(r, effects);
      continue;
    }
    if (drawn.front().id == no_token) {
      auto update = update_of(r, {}, finish_reason::error);
      update.error = "no token can be drawn: " +
                     (said != nullptr ? *said : "the device does not say why; is every token forbidden?");
      finish(r, std::move(update), effects);
      continue;
    }
    auto end = finish_reason::none;
    auto taken = accept(r, part, drawn, drafted, end);
    if (!part.prefill) sample.decoded_tokens += static_cast<std::uint32_t>(taken.size());
    if (!drafted.empty()) {
      seal(r);
      r.blocks.truncate(ledger_, r.computed);
    }
    auto update = update_of(r, std::move(taken), end);
    if (settings_.store && (update.finished() || part.prefill || first)) tell_computed(r, update.finished(), effects);
    if (update.finished()) {
      finish(r, std::move(update), effects);
      continue;
    }
    effects.updates.push_back(std::move(update));
    if (r.parks) set_aside(r, effects);
  }
  ++totals_.steps_total;
  sample.blocks_granted = std::exchange(blocks_granted_, 0);
  sample.blocks_used = ledger_.used();
  sample.places_granted = std::exchange(places_granted_, 0);
  sample.places_used = places_taken();
  meter_.took(sample);
  return effects;
}

void planner::seal(planned_request& r, std::vector<block_id>* replaced) {
  if (!r.mixed_kv) r.blocks.seal(ledger_, r.computed_tokens(), replaced);
}

void planner::note_drafting(const step_under_way& ran, const step_output& output, std::int64_t took_ns) {
  std::uint32_t asked = 0, deepest = 0, decodes = 0, drafts = 0;
  for (const auto& part : ran.shares) {
    const std::uint32_t drafted = part.asks ? part.drafted : 0;
    asked += drafted;
    deepest = std::max(deepest, drafted);
    decodes += part.tokens;
    drafts += part.drafted;
  }
  ensure(output.drafts.size() == asked, "planner: as many drafts as the draft model was asked for");
  totals_.drafting_ns_total += static_cast<std::uint64_t>(std::max<std::int64_t>(output.drafting_ns, 0));
  if (settings_.speculation.model_max == 0 || std::ranges::any_of(ran.shares, &share::prefill)) return;
  // What the devices do not count, messages and the way of tokens to the host, each pass has alike, and the step.
  const auto passes = deepest + 1;
  const auto between = std::max<std::int64_t>(took_ns - output.duration_ns, 0) / (passes + 1);
  draft_meter_.took(passes, output.drafting_ns + between * passes, decodes, drafts,
                    output.duration_ns - output.drafting_ns + between);
}

// The first token drawn, and those behind it for as long as the drafts that they were drawn behind are what was drawn.
// One that could not be drawn is drawn again when it is the first.
std::vector<sampled_token> planner::accept(planned_request& r, const share& part, std::span<const sampled_token> drawn,
                                           std::span<const token_id> drafts, finish_reason& end) {
  std::vector<sampled_token> taken;
  for (const auto& one : drawn) {
    if (one.id == no_token) break;
    const auto place = taken.size();
    taken.push_back(one);
    r.tokens.push_back(one.id);
    if (r.keeps_logprobs()) r.drawn.push_back(one);
    end = end_of(r);
    if (end != finish_reason::none || place == drafts.size() || one.id != drafts[place]) break;
  }
  totals_.generated_tokens_total += taken.size();
  if (drafts.empty()) return taken;
  const auto right = taken.size() - 1;
  r.computed += static_cast<std::uint32_t>(right); // their KV is these tokens'
  totals_.accepted_tokens_total += right;
  if (part.predicted) {
    r.prediction_accepted += static_cast<std::uint32_t>(right);
    r.prediction_rejected += static_cast<std::uint32_t>(drafts.size() - right);
  }
  if (part.asks) {
    r.guesses.took(static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(drafts.size()));
    totals_.model_accepted_tokens_total += right;
    return taken;
  }
  const auto next = right == drafts.size() ? 2 * right : right + 1;
  r.drafts_next = static_cast<std::uint8_t>(std::min<std::size_t>(next, speculation_settings::tokens_limit));
  constexpr int borne = 4, doublings_max = 6; // failures
  r.drafts_failed = static_cast<std::uint8_t>(right > 0 ? 0 : std::min(r.drafts_failed + 1, borne + doublings_max));
  r.drafts_wait = static_cast<std::uint8_t>((1U << std::max(r.drafts_failed - borne, 0)) - 1);
  return taken;
}

// Of one that ends nobody needs the tokens any more.
void planner::tell_computed(planned_request& r, bool ended, step_effects& effects) const {
  const auto whole = r.computed / tokens_per_chunk * tokens_per_chunk;
  if (whole <= r.stored || !ledger_.prefix_caching() || r.mixed_kv) return;
  computed_kv news;
  news.request = r.id;
  news.cache_salt = r.cache_salt;
  news.stored = std::exchange(r.stored, whole);
  news.tokens = ended ? std::move(r.tokens) : std::vector<token_id>(r.tokens.begin(), r.tokens.begin() + whole);
  news.tokens.resize(whole);
  effects.computed.push_back(std::move(news));
}

planner::cancellation planner::cancel(const cancel_request& order) {
  const auto known = by_id_.find(order.request);
  if (known == by_id_.end()) return cancellation::unknown;
  auto& r = *requests_.at(known->second);
  return r.epoch > order.epoch ? cancellation::unknown : drop(r);
}

planner::cancellation planner::drop(planned_request& r) {
  if (r.in_flight == 0) {
    remove(r, pending_);
    return cancellation::freed;
  }
  r.dropped = true;
  r.parks = false;
  running_.erase(rank_of(r));
  by_id_.erase(r.id);
  return cancellation::freed_after_step;
}

step_effects planner::take_effects() { return std::exchange(pending_, {}); }

std::vector<planner::batch::entry>::const_iterator planner::batch::place_of(const rank& who) const noexcept {
  return std::ranges::lower_bound(entries_, who, {}, &entry::first);
}

bool planner::batch::contains(const rank& who) const noexcept {
  const auto place = place_of(who);
  return place != entries_.end() && place->first == who;
}

void planner::batch::emplace(const rank& who, planned_request* r) { entries_.emplace(place_of(who), who, r); }

std::size_t planner::batch::erase(const rank& who) noexcept {
  if (!contains(who)) return 0;
  entries_.erase(place_of(who));
  return 1;
}

planner::rank planner::rank_of(const planned_request& r) noexcept { return {r.priority, r.arrival_ns, r.serial}; }

token_update planner::update_of(const planned_request& r, std::vector<sampled_token> drawn, finish_reason end) {
  const auto index = r.answer_tokens() - static_cast<std::uint32_t>(drawn.size());
  token_update update{r.id, r.epoch, index, std::move(drawn), end, r.prompt_tokens, r.cached_tokens};
  if (r.predicts) {
    update.prediction_accepted = r.prediction_accepted;
    update.prediction_rejected = r.prediction_rejected;
  }
  if (index == 0 && !update.tokens.empty()) update.prompt_scores = r.prompt_scores;
  return update;
}

finish_reason planner::end_of(const planned_request& r) const {
  if (r.answer_tokens() == 0) return finish_reason::none;
  const auto last = r.tokens.back();
  const auto among = [last](const std::vector<token_id>& ids) { return std::ranges::find(ids, last) != ids.end(); };
  if ((!r.stop.ignore_eos && among(settings_.eos)) || among(r.stop.stop_token_ids)) return finish_reason::stop;
  if (r.answer_tokens() >= r.stop.max_tokens || r.total() >= settings_.context_length) return finish_reason::length;
  return finish_reason::none;
}

void planner::finish(planned_request& r, token_update update, step_effects& effects) {
  effects.updates.push_back(std::move(update));
  remove(r, effects);
}

void planner::remove(planned_request& r, step_effects& effects) {
  r.blocks.release(ledger_);
  effects.gone.push_back(r.id);
  leave_queue(r);
  drop_swap(r);
  running_.erase(rank_of(r));
  if (parked_.erase(rank_of(r)) > 0 && r.state == request_state::running) --parked_running_;
  if (r.loads()) --loading_;
  if (const auto known = by_id_.find(r.id); known != by_id_.end() && known->second == r.serial) by_id_.erase(known);
  requests_.erase(r.serial);
}

// Every report says what the queue needs, so that is counted here: the queue may be long.
void planner::join_queue(planned_request& r) {
  const bool begun = r.started || r.answer_tokens() > 0; // here, or where it was lost
  r.place = place_in_queue(settings_.queue,
                           {r.priority, r.arrival_ns, r.serial, begun, r.prompt_tokens, r.expected_tokens, r.ttft_ns});
  waiting_.emplace(r.place, &r);
  waiting_blocks_ += blocks_to_start(r);
  waiting_tokens_ += tokens_to_compute(r);
  waiting_pairs_ += pairs_to_compute(r);
}

void planner::leave_queue(planned_request& r) {
  if (waiting_.erase(r.place) == 0) return;
  waiting_blocks_ -= blocks_to_start(r);
  waiting_tokens_ -= tokens_to_compute(r);
  waiting_pairs_ -= pairs_to_compute(r); // whole numbers: nothing is rounded
}

} // namespace godwit::protocols
