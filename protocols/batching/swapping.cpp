#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <utility>

/// What becomes of the KV of requests that lose their blocks: swap or recompute (AdaptiveLLM, spec adaptivellm.md).
namespace godwit::protocols {

// What is shared stays in the pool with those who share it. Where a cost is not known yet, swapping finds it out.
bool planner::swap_pays(const planned_request& victim) const {
  const auto whole = victim.computed / tokens_per_block;
  if (settings_.preemption == preemption_mode::recompute || settings_.mode == batching_mode::static_batch ||
      victim.scores_missing() || whole == 0 || whole > swap_slots_.available())
    return false;
  const auto& table = victim.blocks.table();
  const auto alone = [this](block_id block) { return ledger_.references(block) == 1; };
  const auto own = std::find_if(table.begin(), table.begin() + whole, alone);
  if (own == table.begin() + whole) return false;
  if (settings_.preemption == preemption_mode::swap || !meter_.knows_prompts()) return true;
  const double out = copies_out_.ns_per_block();
  const double there_and_back = whole * (out + copies_in_.ns_per_block());
  const auto shared = static_cast<std::uint64_t>(own - table.begin()) * tokens_per_block;
  return there_and_back + leaving_ * out < meter_.prompt_ns(shared, victim.computed);
}

bool planner::swap_in_pays(const planned_request& r, std::uint32_t matched) const {
  if (r.swapped <= matched) return false;
  if (settings_.preemption != preemption_mode::adaptive || !meter_.knows_prompts()) return true;
  return (r.swapped - matched) / tokens_per_block * copies_in_.ns_per_block() < meter_.prompt_ns(matched, r.swapped);
}

void planner::swap_out(planned_request& victim) {
  const auto whole = victim.computed / tokens_per_block;
  auto slots = swap_slots_.take(whole);
  ensure(slots.has_value(), "planner: slots that are there are taken");
  victim.blocks.truncate(ledger_, std::uint64_t{whole} * tokens_per_block);
  const auto number = ++swaps_begun_;
  auto& out = swaps_[number];
  out.serial = victim.serial;
  out.left = whole;
  out.blocks = std::exchange(victim.blocks, sequence_blocks(victim.cache_salt));
  out.slots = std::move(*slots);
  leaving_ += whole;
  victim.swap = number;
  victim.swapped = whole * tokens_per_block;
  ++totals_.swaps_total;
  swap_order order;
  order.number = number;
  order.request = victim.id;
  order.blocks = out.blocks.table();
  order.slots = out.slots;
  pending_.swaps.push_back(std::move(order));
}

bool planner::swap_wanted(std::uint64_t swap) const {
  const auto found = swaps_.find(swap);
  return found != swaps_.end() && found->second.serial != 0;
}

void planner::swapped_out(std::uint64_t swap, std::uint32_t left, std::int64_t took_ns) {
  auto& out = swaps_.at(swap);
  ensure(out.where == swapped_kv::phase::leaves && left <= out.left, "planner: what is swapped out was ordered");
  const auto copied = std::exchange(out.left, left) - left;
  if (took_ns > 0) copies_out_.took(copied, took_ns);
  if (out.serial != 0) {
    totals_.swapped_out_tokens_total += std::uint64_t{copied} * tokens_per_block;
    leaving_ -= copied;
    out.blocks.truncate(ledger_, std::uint64_t{left} * tokens_per_block);
  }
  if (left > 0) return;
  out.where = swapped_kv::phase::kept;
  if (out.serial == 0) free_swap(swap);
}

void planner::swap_failed(std::uint64_t swap) {
  const auto& out = swaps_.at(swap);
  ensure(out.where == swapped_kv::phase::leaves, "planner: a swap fails while it goes on");
  if (const auto whose = requests_.find(out.serial); whose != requests_.end()) {
    auto& r = *whose->second;
    const bool waits = waiting_.contains(rank_of(r));
    if (waits) leave_queue(r);
    drop_swap(r);
    if (waits) join_queue(r);
  }
  free_swap(swap);
}

// Its blocks are free at once; slots only when nothing is written there any more.
void planner::drop_swap(planned_request& r) {
  if (r.swap == 0) return;
  const auto number = std::exchange(r.swap, 0);
  r.swapped = 0;
  auto& out = swaps_.at(number);
  out.serial = 0;
  leaving_ -= out.blocks.size();
  out.blocks.release(ledger_);
  if (out.where == swapped_kv::phase::kept) free_swap(number);
}

void planner::free_swap(std::uint64_t number) {
  const auto found = swaps_.find(number);
  ensure(found != swaps_.end() && found->second.blocks.size() == 0, "planner: what is swapped is freed once");
  swap_slots_.give_back(found->second.slots);
  swaps_.erase(found);
}

void planner::check_swap_of(const planned_request& r) const {
  if (r.swap == 0) {
    ensure(r.swapped == 0, "planner: what is swapped has a number");
    return;
  }
  const auto found = swaps_.find(r.swap);
  ensure(found != swaps_.end() && found->second.serial == r.serial, "planner: what is swapped is its request's");
  ensure(found->second.where != swapped_kv::phase::comes, "planner: what comes back is its load's");
  ensure(found->second.slots.size() * tokens_per_block == r.swapped && r.swapped < r.total(),
         "planner: what is swapped is the beginning of its request");
  ensure(r.blocks.size() == 0 && r.computed == 0 && r.state == request_state::preempted,
         "planner: who is swapped out has no blocks");
}

void planner::check_swaps(std::vector<std::uint32_t>& references) const {
  std::vector<bool> seen(swap_slots_.total());
  std::uint32_t leaving = 0, used = 0;
  for (const auto& [number, out] : swaps_) {
    leaving += out.blocks.size();
    for (const auto block : out.blocks.table()) ++references[block.value()];
    for (const auto slot : out.slots) {
      ensure(swap_slots_.taken(slot) && !seen[slot.value()], "planner: a slot has one user");
      seen[slot.value()] = true;
      ++used;
    }
    ensure(out.serial == 0 || out.where != swapped_kv::phase::leaves || out.blocks.size() == out.left,
           "planner: what leaves is held until it is copied");
    const auto whose = requests_.find(out.serial);
    ensure(out.serial == 0 || out.where == swapped_kv::phase::comes ||
               (whose != requests_.end() && whose->second->swap == number),
           "planner: what is swapped is known by its request");
  }
  ensure(leaving == leaving_, "planner: blocks that leave are counted");
  ensure(used == swap_slots_.used(), "planner: each slot is somebody's");
}

} // namespace godwit::protocols
