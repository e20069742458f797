#include "model_rules.hpp"

namespace godwit::protocols::model {

/// The destination's llumlet takes over the blocks, and asks the home for the request.
void rules::begin_claim(byte m, byte blocks) {
  auto& move = w_.moves.at(m);
  const auto i = move.to;
  move.held_by = holder::claiming;
  if (blocks < move.reservation.size) { // what was reserved beyond is given back
    block_list beyond;
    for (byte b = blocks; b < move.reservation.size; ++b) beyond.push(move.reservation.ids.at(b));
    move.reservation.size = blocks;
    free_blocks(i, beyond);
  }
  if (is(mutant::claims_without_asking)) {
    move.claim.emplace(case_.asks_max);
    (void)move.claim->begin();
    return act_on(m, move.claim->answered(true, epoch{move.state.epoch + 1U}));
  }
  move.claim.emplace(case_.asks_max);
  act_on(m, move.claim->begin());
}

void rules::act_on(byte m, ownership_claim::action what) {
  auto& move = w_.moves.at(m);
  const auto i = move.to;
  const auto& s = move.state;
  const auto end = [&](bool granted) {
    move.claim.reset();
    move.ask = 0;
    move.held_by = holder::none;
    if (move.destination_life == life::alive)
      send(llumlet_of(i), destination_of(m), kind::adoption, move.request, s.epoch, {granted});
  };
  switch (what) {
  case ownership_claim::action::ask:
    ++move.ask;
    send(llumlet_of(i), home_actor, kind::claim, move.request, s.epoch,
         {static_cast<byte>(i | at(i).generation << 4U), s.accepted, s.tokens, move.ask, m});
    return;
  case ownership_claim::action::adopt: {
    auto& e = at(i).entries.at(move.request);
    if (e.there) drop(i, move.request, migration_reason::request_cancelled); // of an older epoch
    e.there = true;
    e.epoch = is(mutant::adopts_under_the_old_epoch) ? s.epoch : static_cast<byte>(move.claim->granted().value());
    e.tokens = s.tokens;
    e.computed = s.computed;
    e.blocks = move.reservation;
    move.reservation = {};
    note(llumlet_of(i), "takes the request into its batch");
    check_kv(i, move.request);
    return end(true);
  }
  case ownership_claim::action::disown:
    if (!is(mutant::gives_up_in_silence)) send(llumlet_of(i), home_actor, kind::disown, move.request, s.epoch);
    [[fallthrough]];
  case ownership_claim::action::give_back:
    free_blocks(i, move.reservation);
    return end(false);
  }
}

void rules::begin_reclaim(byte i, byte r) {
  auto& e = at(i).entries.at(r);
  e.reclaim.emplace(case_.asks_max);
  act_on(i, r, e.reclaim->begin());
}

void rules::act_on(byte i, byte r, ownership_reclaim::action what) {
  auto& e = at(i).entries.at(r);
  using settlement = migration_source::settlement;
  const auto tell = [&](settlement how) {
    if (e.migration != nobody)
      send(llumlet_of(i), source_of(e.migration), kind::settled, r, e.epoch, {static_cast<byte>(how)});
  };
  switch (what) {
  case ownership_reclaim::action::ask:
    ++e.ask;
    send(llumlet_of(i), home_actor, kind::reclaim, r, e.epoch, {e.ask});
    return;
  case ownership_reclaim::action::resume:
    if (!is(mutant::resumes_under_the_old_epoch)) e.epoch = static_cast<byte>(e.reclaim->granted().value());
    e.park = parking::none;
    e.reclaim.reset();
    e.ask = 0;
    note(llumlet_of(i), "takes the request into its batch again");
    return tell(settlement::resumed);
  case ownership_reclaim::action::release_moved:
    tell(settlement::moved);
    return clear(i, r);
  case ownership_reclaim::action::release_ended:
    tell(settlement::ended);
    return clear(i, r);
  case ownership_reclaim::action::disown:
    if (!is(mutant::gives_up_in_silence)) send(llumlet_of(i), home_actor, kind::disown, r, e.epoch);
    tell(settlement::lost);
    return clear(i, r);
  }
}

} // namespace godwit::protocols::model
