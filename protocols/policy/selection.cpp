#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <algorithm>
#include <tuple>

namespace godwit::protocols {

namespace {

using wide = std::int64_t;

constexpr std::uint32_t bit_of(std::uint8_t level) noexcept { return 1U << std::min<std::uint32_t>(level, 31); }

/// What the planner of the destination asks of one that comes with its KV, as far as its report tells: room for it and
/// the block after it beside what its own requests demand, and a place beside the one of its head of line.
bool fits(const move_candidate& c, const load_report& destination) noexcept {
  const wide free = wide{destination.blocks_total} - destination.blocks_used - destination.queued_blocks;
  const wide places = wide{destination.running_max} - destination.running - destination.places_kept;
  return wide{c.blocks} + 1 <= free && places > (destination.waiting > 0 ? 1 : 0);
}

/// The head of line of an instance whose report says this waits for memory or a place, not for the next step.
bool is_stuck(const load_report& load) noexcept {
  return wide{load.blocks_used} + load.queued_blocks > wide{load.blocks_total} ||
         load.places_taken() >= load.running_max;
}

/// Moved into a smaller pool, it could grow out of it, and would end there.
bool may_outgrow(const move_candidate& c, const load_report& source, const load_report& destination) noexcept {
  return c.blocks_most > destination.blocks_total && destination.blocks_total < source.blocks_total;
}

/// Nobody moved it or failed to lately; of what has nothing to copy, or has to leave, only a failure counts.
bool settled(const move_candidate& c, const load_report& source, const selection_settings& settings) noexcept {
  if (!c.failed && (source.terminating || c.state != request_state::running)) return true;
  return c.settled_ns >= settings.cooldown_ns;
}

/// Whether it can go there and go on there at once.
bool can_go_on(const move_candidate& c, const load_report& source, const load_report& destination) noexcept {
  const bool runs = c.state == request_state::running;
  if (!runs && (!c.head_of_line || destination.waiting > 0 || !(source.terminating || is_stuck(source)))) return false;
  return !(c.swapped && !source.terminating) && fits(c, destination);
}

/// Who waits comes first, then who should go rather.
auto order_of(const move_candidate& c) noexcept {
  return std::tuple{c.state == request_state::running, c.execution_level, -wide{c.priority}, c.blocks, c.request};
}

bool has_queue_place(const load_report& load) noexcept {
  return load.waiting_max == 0 || load.waiting < load.waiting_max;
}

move_choice choice_of(const move_candidate& c, const load_report& source, const load_report& destination) {
  const bool runs = c.state == request_state::running;
  const auto headroom_leaves = c.last_of_level ? c.headroom : 0;
  move_choice choice;
  choice.request = c.request;
  choice.epoch = c.epoch;
  choice.blocks = c.blocks;
  choice.execution_level = c.execution_level;
  const auto there = c.headroom_is_profiled ? destination.headroom_profiled : c.headroom;
  choice.headroom_arrives = (destination.execution_levels & bit_of(c.execution_level)) == 0 ? there : 0;
  choice.source_before = freeness(source);
  choice.destination_before = freeness(destination);
  choice.source_after = freeness(source, -wide{c.frees} - wide{headroom_leaves}, runs ? -1 : 0);
  choice.destination_after = freeness(destination, wide{choice.blocks} + wide{choice.headroom_arrives}, 1);
  return choice;
}

bool pays(const move_choice& choice, const load_report& source, const selection_settings& settings) noexcept {
  const auto gain = settings.gain_min / static_cast<double>(std::max<std::uint32_t>(source.running, 1));
  return std::min(choice.source_after, choice.destination_after) >=
         std::min(choice.source_before, choice.destination_before) + std::max(gain, 0.0);
}

/// What a prefill instance is to be rid of next.
std::optional<move_choice> choose_handoff(const std::vector<move_candidate>& candidates, const load_report& source,
                                          const load_report& destination, const selection_settings& settings) {
  const auto order = [](const move_candidate& c) {
    return std::tuple{c.failed, -int{c.execution_level}, c.priority, c.request};
  };
  const move_candidate* found = nullptr;
  for (const auto& c : candidates) {
    const bool settled = c.failed || c.settled_ns >= settings.cooldown_ns; // somebody brought it here
    if (c.state != request_state::running || !settled) continue;
    if (may_outgrow(c, source, destination) || !fits(c, destination)) continue;
    if (choice_of(c, source, destination).destination_after < settings.handoff_least) continue;
    if (found == nullptr || order(c) < order(*found)) found = &c;
  }
  if (found == nullptr) return std::nullopt;
  return choice_of(*found, source, destination);
}

} // namespace

std::optional<move_choice> choose_move(const std::vector<move_candidate>& candidates, const load_report& source,
                                       const load_report& destination, const selection_settings& settings) {
  if (!destination.ready || destination.terminating) return std::nullopt;
  if (hands_over(source, destination)) return choose_handoff(candidates, source, destination, settings);
  std::optional<move_choice> best;
  const move_candidate* found = nullptr;
  const move_candidate* head = nullptr;
  for (const auto& c : candidates) {
    if (!settled(c, source, settings) || may_outgrow(c, source, destination)) continue;
    if (c.head_of_line) head = &c;
    if (!can_go_on(c, source, destination) || (found != nullptr && !(order_of(c) < order_of(*found)))) continue;
    const auto choice = choice_of(c, source, destination);
    if (!source.terminating && !pays(choice, source, settings)) continue;
    best = choice;
    found = &c;
  }
  // Into the queue there, as long as nobody waits for memory there already: the next round knows a freer one, perhaps.
  if (!best && head != nullptr && source.terminating && has_queue_place(destination) &&
      head->blocks <= destination.blocks_total && has_memory_left(destination))
    best = choice_of(*head, source, destination);
  return best;
}

std::vector<possible_move> possible_moves(const std::vector<move_candidate>& candidates, const load_report& source,
                                          const load_report& destination, const selection_settings& settings) {
  std::vector<possible_move> out;
  if (!destination.ready || destination.terminating || hands_over(source, destination)) return out;
  for (const auto& c : candidates)
    if (settled(c, source, settings) && !may_outgrow(c, source, destination) && can_go_on(c, source, destination))
      out.push_back({c, choice_of(c, source, destination)});
  std::ranges::sort(out, {}, [](const possible_move& m) { return order_of(m.request); });
  return out;
}

void account_arrival(load_report& load, const move_choice& moved) noexcept {
  load.blocks_used += moved.blocks;
  load.headroom_blocks += moved.headroom_arrives;
  load.execution_levels |= bit_of(moved.execution_level);
  ++load.running;
}

} // namespace godwit::protocols
