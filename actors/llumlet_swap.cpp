#include <godwit/actors/llumlet.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

/// The llumlet's part in swapping: what the planner takes out of the pool goes to the host's memory, and comes back
/// when its request starts again (docs/design/preemption.md).
namespace godwit::actors {

using runtime::async::task;

namespace {

/// Nobody gets blocks portion by portion of what comes back; portions are there so that it can be given up.
constexpr std::size_t portions_in = 8;

std::vector<gpu::swap_move> moves_of(const std::vector<protocols::block_id>& blocks,
                                     const std::vector<protocols::swap_slot>& slots, std::size_t first,
                                     std::size_t end) {
  std::vector<gpu::swap_move> out;
  for (auto i = first; i < end; ++i) out.push_back({blocks[i], slots[i]});
  return out;
}

} // namespace

// One after the other, in each direction: the first one's blocks are what others have waited for longest, and what a
// copy takes can be told.
void llumlet::swap_out_later(protocols::swap_order order) {
  to_swap_out_.push_back(std::move(order));
  if (!std::exchange(swaps_out_, true)) start(swap_out_queued());
}

task<void> llumlet::swap_out_queued() {
  while (!to_swap_out_.empty()) {
    auto order = std::move(to_swap_out_.front());
    to_swap_out_.pop_front();
    co_await swap_out(std::move(order));
  }
  swaps_out_ = false;
}

std::size_t llumlet::blocks_per_copy() const {
  return std::max<std::uint64_t>(options_.swap_portion_bytes / std::max<std::uint64_t>(facts_.block_bytes, 1), 1);
}

void llumlet::hangs() {
  options_.log.error("instance {}: a copy of KV between its device and the host does not end", options_.id.value());
  to_swap_out_.clear(); // nothing more is asked of it
  to_swap_in_.clear();
  quit(runtime::stop_reason::failed);
}

task<void> llumlet::swap_out(protocols::swap_order order) {
  auto span = runtime::trace::begin_span("kv_swap.out", order.request.value());
  span.add("tokens", std::to_string(order.blocks.size() * protocols::tokens_per_block));
  for (auto left = order.blocks.size(); left > 0;) {
    // Whoever it was for has gone, and its blocks with it.
    const bool goes = planner_->swap_wanted(order.number);
    const auto until = goes ? left - std::min(left, blocks_per_copy()) : 0;
    std::string error;
    const auto began = now();
    if (goes) {
      options_.migration.pass("swap.out");
      auto copy = [this, moves = moves_of(order.blocks, order.slots, until, left)](
                      runtime::completer<std::string> done) mutable {
        swap_->copy_out(std::move(moves), [done](std::string why) { done(std::move(why)); });
      };
      const auto told = co_await callback<std::string>(options_.step_timeout, copy);
      if (!told) co_return hangs();
      error = *told;
    }
    const bool goes_on = planner_->swap_wanted(order.number);
    left = goes_on ? until : 0;
    if (error.empty()) { // of what is given up nothing is measured: it was not all copied
      planner_->swapped_out(order.number, static_cast<std::uint32_t>(left), goes_on ? (now() - began).count() : 0);
    } else {
      options_.log.warning("instance {}: KV cannot be swapped out, it is computed anew: {}", options_.id.value(),
                           error);
      span.add("error", error);
      planner_->swap_failed(order.number);
      left = 0;
    }
    if (options_.recount) recount();
    report_soon();
    wake(); // the blocks are what others wait for
  }
  span.end();
}

void llumlet::swap_in_later(protocols::load_order order) {
  // Whatever becomes of the request meanwhile, its blocks are nobody else's while something may be written there.
  for (const auto block : order.blocks) planner_->ledger().share(block);
  loading_[order.number] = {0, order.blocks};
  to_swap_in_.push_back(std::move(order));
  if (!std::exchange(swaps_in_, true)) start(swap_in_queued());
}

// Of those that have not begun: their blocks are free at once.
void llumlet::drop_swaps() {
  std::erase_if(to_swap_out_, [this](const protocols::swap_order& order) {
    if (planner_->swap_wanted(order.number)) return false;
    planner_->swapped_out(order.number, 0);
    return true;
  });
  std::erase_if(to_swap_in_, [this](const protocols::load_order& order) {
    if (planner_->load_wanted(order)) return false;
    for (const auto block : loading_.at(order.number).blocks) planner_->ledger().release(block);
    loading_.erase(order.number);
    planner_->loaded(order, order.first);
    return true;
  });
}

task<void> llumlet::swap_in_queued() {
  while (!to_swap_in_.empty()) {
    auto order = std::move(to_swap_in_.front());
    to_swap_in_.pop_front();
    co_await swap_in(std::move(order));
  }
  swaps_in_ = false;
}

task<void> llumlet::swap_in(protocols::load_order order) {
  auto span = runtime::trace::begin_span("kv_swap.in", order.request.value());
  span.add("tokens", std::to_string(order.upto - order.first));
  const auto began = now();
  std::string error;
  std::size_t came = 0;
  while (came < order.blocks.size() && error.empty() && planner_->load_wanted(order)) {
    const auto until = std::min(came + portions_in * blocks_per_copy(), order.blocks.size());
    options_.migration.pass("swap.in");
    auto copy =
        [this, moves = moves_of(order.blocks, order.slots, came, until)](runtime::completer<std::string> done) mutable {
          swap_->copy_in(std::move(moves), [done](std::string why) { done(std::move(why)); });
        };
    const auto told = co_await callback<std::string>(options_.step_timeout, copy);
    if (!told) co_return hangs();
    error = *told;
    if (error.empty()) came = until;
  }
  if (!error.empty()) {
    options_.log.warning("instance {}: KV cannot be swapped in, it is computed anew: {}", options_.id.value(), error);
    span.add("error", error);
  }
  span.end();
  for (const auto block : loading_.at(order.number).blocks) planner_->ledger().release(block);
  loading_.erase(order.number);
  const auto upto = order.first + static_cast<std::uint32_t>(came) * protocols::tokens_per_block;
  planner_->loaded(order, upto, came > 0 ? (now() - began).count() : 0);
  settle(planner_->take_effects());
  if (options_.recount) recount();
  report_soon();
  wake();
  tell_when_drained();
}

} // namespace godwit::actors
