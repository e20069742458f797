#include "model_rules.hpp"

#include <algorithm>

namespace godwit::protocols::model {

void rules::copy(byte m, const migration_source::copy& order) {
  auto& move = w_.moves.at(m);
  const auto* e = entry_of(m);
  // The llumlet lets go of no block that a copy reads, and lets no copy read what it has let go of.
  const bool there = e != nullptr && e->blocks.size >= order.upto;
  const auto target = process_of_instance(move.to);
  const bool reachable = at(move.to).up && at(move.to).generation == move.to_generation &&
                         !w_.link_down[process_of_instance(move.from)][target];
  const bool posted = move.place == landing::open && move.posted >= order.upto;
  if (!there || !reachable || !posted)
    return send(fabric_actor, source_of(m), kind::copy_failed, move.request, move.epoch,
                {static_cast<byte>(order.stage)}, move.from_generation);
  for (auto b = order.first; b < order.upto; ++b)
    move.writes.push_back({static_cast<byte>(order.stage), static_cast<byte>(b), e->blocks.ids.at(b), false, nobody});
}

void rules::land(byte m, byte which) {
  auto& move = w_.moves.at(m);
  const auto w = move.writes.at(which);
  move.writes.erase(move.writes.begin() + which);
  if (seen_ != nullptr)
    seen_->push_back({source_of(m), destination_of(m),
                      "~ block " + std::to_string(static_cast<int>(w.index)) + (w.stale ? " (garbage)" : "")});
  if (w.index >= move.reservation.size || w.index >= move.posted || move.held_by == holder::none ||
      move.held_by == holder::claiming)
    return broken("a write landed in a block that was given back or handed over");
  if (at(move.to).ledger.read().references(block_id{move.reservation.ids.at(w.index)}) > 1)
    return broken("a write landed in a block that others hold");
  auto& target = at(move.to).kv.at(move.reservation.ids.at(w.index));
  if (w.stale)
    target = contents{};
  else if (w.captured != nobody)
    target = {move.request, w.index, w.captured};
  else
    target = at(move.from).kv.at(w.block);
  ++move.landed.at(w.stage);
  move.landed_news |= static_cast<byte>(1U << w.stage);
  const bool more = std::ranges::any_of(move.writes, [&](const write& other) { return other.stage == w.stage; });
  if (!more && move.source_life == life::alive && at(move.from).generation == move.from_generation)
    send(fabric_actor, source_of(m), kind::copied, move.request, move.epoch, {w.stage}, move.from_generation);
}

void rules::tell_landed(byte m, byte stage) {
  auto& move = w_.moves.at(m);
  move.landed_news &= static_cast<byte>(~(1U << stage));
  if (move.destination_life == life::alive) feed(m, migration_destination::landed{stage, move.landed.at(stage)});
}

/// From here on the landing places go; writes may still land until that is done.
void rules::begin_close(byte m) {
  auto& move = w_.moves.at(m);
  if (move.place == landing::closing || move.place == landing::closed) return;
  move.place = landing::closing;
  if (is(mutant::closes_without_waiting)) {
    if (move.destination_life == life::alive)
      send(fabric_actor, destination_of(m), kind::closed, move.request, move.epoch);
  }
}

void rules::close(byte m) {
  auto& move = w_.moves.at(m);
  move.place = landing::closed;
  move.landed_news = 0;
  drop_writes(m);
  if (move.held_by == holder::orphan) {
    free_blocks(move.to, move.reservation);
    move.held_by = holder::none;
  }
  if (move.destination_life == life::alive && !is(mutant::closes_without_waiting))
    send(fabric_actor, destination_of(m), kind::closed, move.request, move.epoch);
}

/// What was on its way lands nowhere any more; the sender hears of it.
void rules::drop_writes(byte m) {
  auto& move = w_.moves.at(m);
  if (move.writes.empty()) return;
  const auto stage = move.writes.front().stage;
  move.writes.clear();
  if (move.source_life == life::alive)
    send(fabric_actor, source_of(m), kind::copy_failed, move.request, move.epoch, {stage}, move.from_generation);
}

void rules::lose_source_block(byte i, byte block) {
  for (byte m = 0; m < w_.migrations; ++m) {
    auto& move = w_.moves.at(m);
    if (move.from != i || move.from_generation != at(i).generation) continue;
    for (auto& w : move.writes)
      if (!w.stale && w.captured == nobody && w.block == block) {
        w.stale = true;
        w.block = 0;
      }
  }
}

} // namespace godwit::protocols::model
