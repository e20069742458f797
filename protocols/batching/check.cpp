#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace godwit::protocols {

void planner::check(std::span<const block_id> held) const {
  ledger_.check();
  std::vector<std::uint32_t> references(ledger_.total());
  std::size_t dropped = 0, parked_running = 0, loading = 0;
  std::uint64_t waiting_blocks = 0, waiting_tokens = 0;
  double waiting_pairs = 0;
  for (const auto& [serial, r] : requests_) {
    const auto queued = waiting_.find(r->place);
    const bool waits = queued != waiting_.end() && queued->second == r.get();
    const bool runs = running_.contains(rank_of(*r));
    const bool is_parked = parked_.contains(rank_of(*r));
    ensure((waits ? 1 : 0) + (runs ? 1 : 0) + (is_parked ? 1 : 0) + (r->dropped ? 1 : 0) == 1,
           "planner: a request is in exactly one place");
    ensure(r->state != request_state::migrating, "planner: a parked request remembers what it was");
    ensure(runs == (r->state == request_state::running) || is_parked || r->dropped,
           "planner: states agree with places");
    ensure(r->state == request_state::running || (r->blocks.size() == 0 && r->computed == 0),
           "planner: requests outside the batch hold no blocks");
    ensure(!r->dropped || r->in_flight > 0, "planner: dropped requests leave with the step");
    ensure(is_parked == r->parked, "planner: parked requests know it");
    ensure(!is_parked || r->in_flight == 0, "planner: parked requests are not in flight");
    ensure(!r->parks || (r->in_flight > 0 && runs), "planner: requests that are to be parked leave with the step");
    ensure(!r->loads() || (is_parked && r->state == request_state::running), "planner: what is loaded has its place");
    loading += r->loads() ? 1 : 0;
    ensure(!is_parked || r->loads() || r->blocks.size() == blocks_for(r->computed),
           "planner: parked requests hold what moves");
    ensure(r->computed <= r->blocks.capacity() && r->computed < r->total(), "planner: computed tokens have blocks");
    ensure(r->planned() <= r->blocks.capacity() && r->planned() <= r->total(), "planner: planned tokens have blocks");
    ensure(!r->keeps_logprobs() || r->drawn_from + r->drawn.size() == r->answer_tokens(),
           "planner: what was drawn is kept to the answer's end");
    dropped += r->dropped ? 1 : 0;
    waiting_blocks += waits ? blocks_to_start(*r) : 0;
    waiting_tokens += waits ? tokens_to_compute(*r) : 0;
    waiting_pairs += waits ? pairs_to_compute(*r) : 0;
    check_swap_of(*r);
    parked_running += is_parked && r->state == request_state::running ? 1 : 0;
    for (const auto block : r->blocks.table()) ++references[block.value()];
  }
  ensure(waiting_.size() + running_.size() + parked_.size() + dropped == requests_.size(),
         "planner: no request is lost");
  std::size_t in_parts = 0;
  for (const auto& part : queue_parts()) in_parts += part.requests;
  ensure(in_parts == waiting_.size(), "planner: what is said of the queue is all of it");
  ensure(waiting_blocks == waiting_blocks_ && waiting_tokens == waiting_tokens_ && waiting_pairs == waiting_pairs_,
         "planner: what the queue needs is counted");
  ensure(loading == loading_, "planner: requests that are loaded are counted");
  ensure(parked_running == parked_running_, "planner: parked requests that keep places are counted");
  ensure(places_taken() <= settings_.running_max, "planner: no more places are taken than there are");
  ensure(by_id_.size() + dropped == requests_.size(), "planner: every request is found by its id");
  check_swaps(references);
  std::unordered_map<const planned_request*, std::pair<std::uint32_t, std::uint32_t>> flying; // steps, tokens
  for (const auto& step : in_flight_) {
    for (const auto& part : step.shares) {
      auto& [steps, tokens] = flying[part.who];
      ++steps;
      tokens += part.tokens;
    }
    for (const auto block : step.holds) ++references[block.value()];
  }
  ensure(in_flight_.size() <= settings_.steps_max, "planner: no more steps in flight than there may be");
  for (const auto block : held) ++references[block.value()];
  for (const auto& [block, count] : reserved_) {
    ensure(ledger_.sealed(block) || (references[block.value()] == 0 && count == 1),
           "planner: reserved blocks that may be written are in no table");
    references[block.value()] += count;
  }
  for (std::uint32_t i = 0; i < ledger_.total(); ++i)
    ensure(references[i] == ledger_.references(block_id{i}), "planner: each reference is somebody's");
  for (const auto& [serial, r] : requests_) {
    const auto found = flying.find(r.get());
    const auto [steps, tokens] = found == flying.end() ? std::pair{0U, 0U} : found->second;
    ensure(r->in_flight == steps && r->ahead == tokens, "planner: steps in flight are counted with their requests");
  }
}

} // namespace godwit::protocols
