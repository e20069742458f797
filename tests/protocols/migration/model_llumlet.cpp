#include "model_rules.hpp"

#include <algorithm>

namespace godwit::protocols::model {

byte rules::blocks_of(byte tokens) const { return static_cast<byte>(blocks_for(std::uint64_t{tokens} * case_.scale)); }

byte rules::filled(byte computed, byte index) const {
  const auto per_block = static_cast<int>(tokens_per_block / case_.scale);
  return static_cast<byte>(std::clamp(computed - index * per_block, 0, per_block));
}

void rules::llumlet_receives(byte i, const message& m, delivery how) {
  auto& e = at(i).entries.at(m.request);
  switch (m.what) {
  case kind::dispatch:
    return dispatched(i, m);
  case kind::cancel:
    if (e.there && e.epoch <= m.epoch) drop(i, m.request, migration_reason::request_cancelled);
    return;
  case kind::open:
    return spawn_destination(i, static_cast<byte>(m.from - source_of(0)), how);
  case kind::claim_answer: {
    auto& move = w_.moves.at(m.x[2]);
    if (!move.claim || move.ask != m.x[0]) return; // nobody waits for it any more
    return act_on(m.x[2], move.claim->answered(m.x[1] != 0, epoch{m.epoch}));
  }
  case kind::reclaim_answer:
    if (!e.there || !e.reclaim || e.ask != m.x[0] || e.epoch != m.x[2]) return;
    return act_on(i, m.request, e.reclaim->answered(static_cast<ownership_reclaim::answer>(m.x[1]), epoch{m.epoch}));
  case kind::died: {
    if (m.from < destination_of(0)) {
      if (is(mutant::ignores_death_of_a_source) || !e.there || e.migration != m.from - source_of(0)) return;
      e.migration = nobody;
      if (e.park == parking::parked && !e.reclaim) return begin_reclaim(i, m.request);
      if (e.park == parking::ordered) e.park = parking::none;
      return;
    }
    const auto k = static_cast<byte>(m.from - destination_of(0));
    auto& move = w_.moves.at(k);
    if (is(mutant::ignores_death_of_a_destination) || move.held_by != holder::coordinator) return;
    move.held_by = holder::orphan;
    if (is(mutant::frees_under_open_postings)) free_blocks(i, move.reservation);
    if (move.place == landing::closed) { // the coordinator had that done
      free_blocks(i, move.reservation);
      move.held_by = holder::none;
      return;
    }
    return begin_close(k);
  }
  default:
    broken("a message that a llumlet does not know");
  }
}

void rules::dispatched(byte i, const message& m) {
  auto& e = at(i).entries.at(m.request);
  if (e.there && e.epoch >= m.epoch) return;
  if (e.there) drop(i, m.request, migration_reason::request_cancelled);
  e.there = true;
  e.epoch = m.epoch;
  e.tokens = m.x[0];
  send(llumlet_of(i), home_actor, kind::admitted, m.request, m.epoch);
}

/// One step of the batch for one request: the KV of all tokens so far, or a chunk of it, and then the next token.
void rules::step(byte i, byte r, bool last) {
  auto& e = at(i).entries.at(r);
  check_kv(i, r);
  const auto known = static_cast<byte>(case_.prompt + e.tokens);
  const auto target = std::min<byte>(known, static_cast<byte>(e.computed + case_.chunk));
  const auto needed = blocks_of(target);
  if (needed > e.blocks.size && !take_blocks(i, e.blocks, static_cast<byte>(needed - e.blocks.size)))
    return broken("a step without blocks");
  for (byte b = blocks_of(e.computed) == 0 ? byte{0} : static_cast<byte>(blocks_of(e.computed) - 1); b < needed; ++b) {
    const auto id = e.blocks.ids.at(b);
    const contents after{r, b, filled(target, b)};
    if (at(i).kv.at(id) != after && at(i).ledger.read().references(block_id{id}) > 1)
      return broken("a step writes into a block that others hold");
    at(i).kv.at(id) = after;
  }
  e.computed = target;
  if (target < known) return note(llumlet_of(i), "computes a part of the prompt");
  const auto index = e.tokens++;
  const bool ends = last || e.tokens == case_.tokens;
  note(llumlet_of(i), "draws token " + std::to_string(static_cast<int>(index)));
  send(llumlet_of(i), home_actor, kind::tokens, r, e.epoch, {index, 1, ends});
  if (ends) drop(i, r, migration_reason::request_finished);
}

void rules::check_kv(byte i, byte r) {
  const auto& e = at(i).entries.at(r);
  const auto blocks = blocks_of(e.computed);
  if (e.blocks.size < blocks) return broken("a request decodes without the blocks of its KV");
  for (byte b = 0; b < blocks; ++b) {
    const auto& c = at(i).kv.at(e.blocks.ids.at(b));
    if (c.request != r || c.index != b || c.filled < filled(e.computed, b))
      return broken("a request decodes on KV that is not its own, or not complete");
  }
}

/// The order to park takes effect between two steps.
void rules::park(byte i, byte r) {
  auto& e = at(i).entries.at(r);
  e.park = parking::parked;
  note(llumlet_of(i), "parks the request");
  if (e.migration != nobody)
    send(llumlet_of(i), source_of(e.migration), kind::parked, r, e.epoch, {e.computed, e.preemptions, e.tokens});
}

void rules::preempt(byte i, byte r) {
  auto& e = at(i).entries.at(r);
  note(llumlet_of(i), "preempts the request");
  free_blocks(i, e.blocks);
  e.computed = 0;
  ++e.preemptions;
  if (e.migration != nobody)
    send(llumlet_of(i), source_of(e.migration), kind::gone, r, e.epoch,
         {static_cast<byte>(migration_reason::request_preempted), 0});
}

/// The request ends here; its coordinator is told.
void rules::drop(byte i, byte r, migration_reason why) {
  auto& e = at(i).entries.at(r);
  if (e.migration != nobody) {
    if (e.reclaim)
      send(llumlet_of(i), source_of(e.migration), kind::settled, r, e.epoch,
           {static_cast<byte>(migration_source::settlement::ended)});
    else
      send(llumlet_of(i), source_of(e.migration), kind::gone, r, e.epoch, {static_cast<byte>(why), 1});
  }
  clear(i, r);
}

void rules::clear(byte i, byte r) {
  auto& e = at(i).entries.at(r);
  // A parked request may have been committed: the copy out of its blocks ends before they are used for anything else,
  // or the destination would count what it got of others as its own.
  if (e.park == parking::parked && !is(mutant::frees_under_the_last_copy))
    for (byte m = 0; m < w_.migrations; ++m)
      if (w_.moves.at(m).from == i && w_.moves.at(m).request == r) drop_writes(m);
  free_blocks(i, e.blocks);
  e = entry{};
}

void rules::free_blocks(byte i, block_list& blocks) {
  for (byte b = blocks.size; b > 0; --b) {
    const auto id = blocks.ids.at(b - 1);
    at(i).ledger.write().release(block_id{id});
    if (at(i).ledger.read().references(block_id{id}) > 0) continue; // others hold it
    at(i).kv.at(id) = contents{};
    lose_source_block(i, id);
  }
  blocks = block_list{};
}

bool rules::take_blocks(byte i, block_list& blocks, byte count) {
  auto& ledger = at(i).ledger.write();
  if (ledger.available() < count || blocks.size + count > static_cast<int>(blocks.ids.size())) return false;
  for (byte b = 0; b < count; ++b) {
    const auto id = static_cast<byte>(ledger.allocate()->value());
    at(i).kv.at(id) = contents{};
    blocks.push(id);
  }
  return true;
}

void rules::spawn_destination(byte i, byte m, delivery how) {
  auto& move = w_.moves.at(m);
  // Repeated. A second coordinator would wait for a source that does not know it, holding nothing.
  if (move.destination_life != life::never) return;
  if (how == delivery::refused)
    return send(llumlet_of(i), source_of(m), kind::open_refused, move.request, move.epoch,
                {static_cast<byte>(migration_reason::destination_busy)}, move.from_generation);
  move.destination_life = life::alive;
  move.held_by = holder::coordinator;
  auto known = static_cast<byte>(move.request == 0 ? std::min(move.complete, at(i).cache.size) : 0);
  for (byte b = 0; b < known; ++b) {
    const auto id = at(i).cache.ids.at(b);
    if (!is(mutant::keeps_no_reference_to_what_it_has)) at(i).ledger.write().share(block_id{id});
    move.reservation.push(id);
  }
  if (is(mutant::says_that_it_has_more)) known = move.complete;
  move.destination.emplace(migration_destination::limits{static_cast<std::uint32_t>(case_.stages_max + 1), case_.pool},
                           known);
  note(destination_of(m), "starts");
  if (move.source_life != life::alive) { // its monitor fires at once
    send(destination_of(m), destination_of(m), kind::peer_lost, move.request, move.epoch);
  }
  perform(m, move.destination->begin());
  send(destination_of(m), source_of(m), kind::opened, move.request, move.epoch, {known}, move.from_generation);
}

void rules::llumlet_loses_home(byte i) {
  for (byte r = 0; r < case_.requests; ++r) {
    auto& e = at(i).entries.at(r);
    if (!e.there) continue;
    if (e.reclaim)
      act_on(i, r, e.reclaim->home_down());
    else
      drop(i, r, migration_reason::home_lost);
  }
  for (byte m = 0; m < w_.migrations; ++m) {
    auto& move = w_.moves.at(m);
    if (move.claim && move.to == i) act_on(m, move.claim->home_down());
    if (move.source_life == life::alive && move.from == i)
      send(llumlet_of(i), source_of(m), kind::home_lost, move.request, move.epoch);
  }
}

} // namespace godwit::protocols::model
