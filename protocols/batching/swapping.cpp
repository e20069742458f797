#include "batching/planned_request.hpp"

#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <utility>

/// What becomes of the KV of requests that lose their blocks: swap or recompute (AdaptiveLLM, spec adaptivellm.md).
namespace godwit::protocols {

namespace {

/// Of swaps that are not expected to pay, the so-many-th is tried all the same: what was slow once may not be any more,
/// and nothing else would tell.
constexpr std::uint32_t tried_every = 16;

} // namespace

// What others hold too, and keep, stays in the pool with them, where prefix caching finds it again. Where a cost is not
// known yet, swapping finds it out.
planner::swap_range planner::swap_worth(const planned_request& victim) {
  const auto whole = victim.computed / tokens_per_block;
  if (settings_.preemption == preemption_mode::recompute || settings_.mode == batching_mode::static_batch ||
      victim.scores_missing())
    return {};
  swap_range all{0, whole};
  if (settings_.prefix_caching) {
    const auto leave = references_that_leave();
    const auto alone = [&](block_id block) {
      const auto others = leave.find(block);
      return ledger_.references(block) == 1 + (others == leave.end() ? 0 : others->second);
    };
    const auto& table = victim.blocks.table();
    all.first = static_cast<std::uint32_t>(std::find_if(table.begin(), table.begin() + whole, alone) - table.begin());
  }
  if (all.first == whole || whole - all.first > swap_slots_.available()) return {};
  if (settings_.preemption == preemption_mode::swap || !meter_.knows_prompts()) return all;
  std::uint64_t before = 0; // blocks that are copied first
  if (leaving_held_ > 0)
    for (const auto& [number, out] : swaps_) before += out.left;
  const double out = copies_out_.ns_per_block();
  const double there_and_back = (whole - all.first) * (out + copies_in_.ns_per_block());
  const bool pays = there_and_back + static_cast<double>(before) * out <
                    meter_.prompt_ns(all.first * tokens_per_block, victim.computed);
  if (!pays && ++swaps_refused_ < tried_every) return {};
  if (!pays) swaps_refused_ = 0;
  return all;
}

// Its beginning may have gone from the pool meanwhile. What the way back costs was asked before it went.
bool planner::swap_is_of_use(const planned_request& r, std::uint32_t matched) noexcept {
  return r.swapped > matched && matched >= r.swap_from;
}

void planner::swap_out(planned_request& victim, swap_range what) {
  auto slots = swap_slots_.take(what.end - what.first);
  ensure(slots.has_value(), "planner: slots that are there are taken");
  const auto number = ++swaps_begun_;
  auto& out = swaps_[number];
  out.serial = victim.serial;
  out.first = what.first * tokens_per_block;
  out.left = what.end - what.first;
  victim.blocks.truncate(ledger_, std::uint64_t{what.end} * tokens_per_block);
  out.blocks = std::exchange(victim.blocks, sequence_blocks(victim.cache_salt));
  out.slots = std::move(*slots);
  leaving_held_ += out.blocks.size();
  victim.swap = number;
  victim.swap_from = out.first;
  victim.swapped = what.end * tokens_per_block;
  ++swapped_;
  ++totals_.swaps_total;
  swap_order order;
  order.number = number;
  order.request = victim.id;
  order.first = out.first;
  const auto& table = out.blocks.table();
  order.blocks.assign(table.begin() + what.first, table.end());
  order.slots = out.slots;
  pending_.swaps.push_back(std::move(order));
}

std::unordered_map<block_id, std::uint32_t> planner::references_that_leave() const {
  std::unordered_map<block_id, std::uint32_t> out;
  if (leaving_held_ == 0) return out;
  for (const auto& [number, swap] : swaps_)
    for (const auto block : swap.blocks.table()) ++out[block];
  return out;
}

std::uint32_t planner::leaving() const {
  const auto leave = references_that_leave();
  const auto alone = [this](const auto& one) { return ledger_.references(one.first) == one.second; };
  return static_cast<std::uint32_t>(std::ranges::count_if(leave, alone));
}

std::uint32_t planner::tokens_to_compute(const planned_request& r) noexcept {
  return r.total() - (r.swapped - r.swap_from);
}

double planner::pairs_to_compute(const planned_request& r) noexcept {
  return attention_pairs(0, r.swap_from) + attention_pairs(r.swapped, r.total());
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
  if (out.serial != 0) totals_.swapped_out_tokens_total += std::uint64_t{copied} * tokens_per_block;
  leaving_held_ -= out.blocks.size();
  out.blocks.truncate(ledger_, left > 0 ? out.first + std::uint64_t{left} * tokens_per_block : 0);
  leaving_held_ += out.blocks.size();
  if (left > 0) return;
  out.where = swapped_kv::phase::kept;
  if (out.serial == 0) free_swap(swap);
}

void planner::swap_failed(std::uint64_t swap) {
  auto& out = swaps_.at(swap);
  ensure(out.where == swapped_kv::phase::leaves, "planner: a swap fails while it goes on");
  if (const auto whose = requests_.find(out.serial); whose != requests_.end()) {
    auto& r = *whose->second;
    const bool waits = waiting_.contains(r.place);
    if (waits) leave_queue(r);
    drop_swap(r);
    if (waits) join_queue(r);
  }
  leaving_held_ -= out.blocks.size();
  out.blocks.release(ledger_);
  free_swap(swap);
}

void planner::drop_swap(planned_request& r) {
  if (r.swap == 0) return;
  const auto number = std::exchange(r.swap, 0);
  r.swap_from = r.swapped = 0;
  --swapped_;
  auto& out = swaps_.at(number);
  out.serial = 0;
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
    ensure(r.swapped == 0 && r.swap_from == 0, "planner: what is swapped has a number");
    return;
  }
  const auto found = swaps_.find(r.swap);
  ensure(found != swaps_.end() && found->second.serial == r.serial, "planner: what is swapped is its request's");
  ensure(found->second.where != swapped_kv::phase::comes, "planner: what comes back is its load's");
  ensure(found->second.first == r.swap_from && r.swapped < r.total() &&
             r.swap_from + found->second.slots.size() * tokens_per_block == r.swapped,
         "planner: what is swapped is of its request");
  ensure(r.blocks.size() == 0 && r.computed == 0 && r.state == request_state::preempted,
         "planner: who is swapped out has no blocks");
}

void planner::check_swaps(std::vector<std::uint32_t>& references) const {
  std::vector<bool> seen(swap_slots_.total());
  std::uint32_t held = 0, used = 0, waited_with = 0;
  for (const auto& [number, out] : swaps_) {
    held += out.blocks.size();
    waited_with += out.serial != 0 && out.where != swapped_kv::phase::comes ? 1 : 0;
    for (const auto block : out.blocks.table()) ++references[block.value()];
    for (const auto slot : out.slots) {
      ensure(swap_slots_.taken(slot) && !seen[slot.value()], "planner: a slot has one user");
      seen[slot.value()] = true;
      ++used;
    }
    ensure(out.blocks.size() == (out.where == swapped_kv::phase::leaves ? blocks_for(out.first) + out.left : 0),
           "planner: what leaves is held until it is copied");
    const auto whose = requests_.find(out.serial);
    ensure(out.serial == 0 || out.where == swapped_kv::phase::comes ||
               (whose != requests_.end() && whose->second->swap == number),
           "planner: what is swapped is known by its request");
  }
  ensure(held == leaving_held_ && waited_with == swapped_, "planner: what leaves and waits is counted");
  ensure(used == swap_slots_.used(), "planner: each slot is somebody's");
}

} // namespace godwit::protocols
