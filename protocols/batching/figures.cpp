#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <limits>
#include <utility>

/// What a planner says of itself: to the scheduler, to people, and to whoever looks for requests to move.
namespace godwit::protocols {

namespace {

constexpr std::uint32_t levels_told = 32;

std::uint32_t narrowed(std::uint64_t blocks) noexcept {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, std::numeric_limits<std::uint32_t>::max()));
}

} // namespace

std::uint32_t planner::blocks_at_most(const planned_request& r) const noexcept {
  return narrowed(blocks_for(
      std::min<std::uint64_t>(std::uint64_t{r.prompt_tokens} + r.stop.max_tokens, settings_.context_length)));
}

load_report planner::load() const {
  auto report = totals_;
  report.blocks_total = ledger_.total();
  report.blocks_used = ledger_.used() - leaving();
  report.blocks_cached = ledger_.cached();
  report.waiting = static_cast<std::uint32_t>(waiting_.size());
  report.waiting_max = settings_.waiting_max;
  report.running = static_cast<std::uint32_t>(running_.size() + loading_);
  report.running_max = settings_.running_max;
  report.places_kept = static_cast<std::uint32_t>(places_taken() - report.running);
  report.migrating = static_cast<std::uint32_t>(parked_.size() - loading_);
  const auto outstanding = blocks_outstanding();
  report.queued_blocks = narrowed(outstanding + demand_of_head(outstanding));
  report.outstanding_blocks = narrowed(outstanding);
  report.waiting_blocks = narrowed(waiting_blocks_);
  report.swap_blocks = swap_slots_.total();
  report.swap_blocks_used = swap_slots_.used();
  report.swapped = swapped_;
  const auto levels = running_by_level();
  report.headroom_blocks = narrowed(headroom_of(settings_.execution_levels, levels, settings_.headroom_profiled));
  report.headroom_profiled = settings_.headroom_profiled;
  for (std::size_t level = 0; level < levels.size(); ++level)
    if (levels[level] > 0) report.execution_levels |= 1U << std::min<std::size_t>(level, levels_told - 1);
  std::size_t decoding = 0;
  for (const auto& [place, r] : running_) {
    if (r->decodes()) {
      ++decoding;
      continue;
    }
    report.prefill_tokens += r->remaining();
    report.prefill_pairs += attention_pairs(r->computed, r->total());
  }
  report.decoding = static_cast<std::uint32_t>(decoding);
  report.prompt_ns_total = meter_.prompt_ns_total();
  report.step_tokens = settings_.step_tokens_max;
  report.pace =
      meter_.pace((decoding + settings_.steps_max - 1) / settings_.steps_max, report.blocks_used, places_taken());
  // Who waits for a batch to end waits for what nobody can tell.
  if (settings_.mode == batching_mode::static_batch) report.pace.knows_prompts = false;
  report.prefill_tokens += static_cast<std::uint64_t>(static_cast<double>(waiting_tokens_) * meter_.missed());
  report.prefill_pairs += waiting_pairs_ * meter_.missed();
  report.order = settings_.queue;
  report.queue = queue_parts();
  return report;
}

std::vector<queue_part> planner::queue_parts() const {
  if (waiting_.empty()) return {};
  std::vector<queue_part> parts;
  const auto& last = waiting_.rbegin()->first;
  if (settings_.queue.order == queue_order::fcfs && waiting_.begin()->first.priority == last.priority) {
    // Whoever is new is the last one: no need to look at all of them for each report.
    parts.push_back({waiting_.begin()->first, last, waiting_.size(), waiting_blocks_, waiting_tokens_, waiting_pairs_});
  } else {
    queue_summary sum(waiting_.size());
    for (const auto& [place, r] : waiting_)
      sum.add({place, place, 1, blocks_to_start(*r), tokens_to_compute(*r), pairs_to_compute(*r)});
    parts = std::move(sum).parts();
  }
  for (auto& part : parts) {
    part.first.serial = part.last.serial = 0; // say nothing elsewhere
    part.tokens = static_cast<std::uint64_t>(static_cast<double>(part.tokens) * meter_.missed());
    part.pairs *= meter_.missed();
  }
  return parts;
}

std::uint64_t planner::demand_of_head(std::uint64_t outstanding) const {
  if (waiting_.empty()) return 0;
  const auto& head = *waiting_.begin()->second;
  const auto demand = blocks_to_reserve(head);
  const bool place = places_taken() < settings_.running_max && !batch_is_closed();
  if (place || outranks_running(head)) return demand;
  // Free memory is of no use to one that lacks a place.
  const auto available = std::uint64_t{ledger_.available()} + leaving();
  return std::max(demand, available > outstanding ? available - outstanding : 0);
}

// Parked ones included: a request that moves leaves with its headroom, not before.
std::vector<std::uint32_t> planner::running_by_level() const {
  std::vector<std::uint32_t> running(std::max<std::size_t>(settings_.execution_levels.size(), 1));
  const auto count = [&running](const planned_request& r) {
    ++running[std::min<std::size_t>(r.execution_level, running.size() - 1)];
  };
  for (const auto& [place, r] : running_) count(*r);
  for (const auto& [place, r] : parked_)
    if (r->state == request_state::running) count(*r);
  return running;
}

bool planner::lacks_blocks() const {
  const auto outstanding = blocks_outstanding();
  return outstanding + demand_of_head(outstanding) > std::uint64_t{ledger_.available()} + leaving();
}

std::uint32_t planner::answer_tokens(request_id id) const {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? 0 : requests_.at(known->second)->answer_tokens();
}

std::vector<request_status> planner::requests() const {
  std::vector<request_status> list;
  const auto tell = [&list](const auto& lined_up) {
    for (const auto& [place, r] : lined_up) {
      list.emplace_back(r->id, r->epoch, r->parked && !r->loads() ? request_state::migrating : r->state, r->priority,
                        r->prompt_tokens, r->answer_tokens(), r->blocks.size(), r->preemptions);
      list.back().execution_level = r->execution_level;
    }
  };
  tell(running_);
  tell(waiting_);
  tell(parked_);
  return list;
}

std::vector<move_candidate> planner::move_candidates() const {
  std::vector<move_candidate> list;
  const auto levels = running_by_level();
  const auto candidate_of = [&](const planned_request& r) {
    move_candidate c;
    c.request = r.id;
    c.epoch = r.epoch;
    c.priority = r.priority;
    c.execution_level = r.execution_level;
    const auto level = std::min<std::size_t>(r.execution_level, levels.size() - 1);
    std::vector<std::uint32_t> alone(levels.size());
    alone[level] = 1;
    c.headroom = narrowed(headroom_of(settings_.execution_levels, alone, settings_.headroom_profiled));
    const auto& known = settings_.execution_levels;
    c.blocks_most = blocks_at_most(r);
    c.headroom_is_profiled = level < known.size() && !known[level].headroom;
    c.last_of_level = r.state == request_state::running && levels[level] == 1;
    return c;
  };
  if (!waiting_.empty()) {
    const auto& r = *waiting_.begin()->second;
    auto c = candidate_of(r);
    c.state = request_state::waiting;
    c.head_of_line = true;
    c.swapped = r.swap != 0;
    c.blocks = narrowed(blocks_to_reserve(r));
    c.frees = narrowed(demand_of_head(blocks_outstanding()));
    list.push_back(c);
  }
  for (const auto& [place, r] : running_) {
    if (!r->decodes() || r->parks) continue; // of a prompt, each step writes more blocks than a last stage takes
    auto c = candidate_of(*r);
    c.blocks = r->blocks.size();
    c.frees = static_cast<std::uint32_t>(
        std::ranges::count_if(r->blocks.table(), [this](block_id block) { return ledger_.references(block) == 1; }));
    list.push_back(c);
  }
  return list;
}

} // namespace godwit::protocols
