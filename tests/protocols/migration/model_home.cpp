#include "model_rules.hpp"

namespace godwit::protocols::model {

void rules::home_receives(const message& m, delivery how) {
  auto& r = w_.front.requests.at(m.request);
  auto& own = r.ownership;
  if (!r.known) return home_receives_of_unknown(m);
  switch (m.what) {
  case kind::prepare_move: {
    const bool wanted =
        own.where() == request_ownership::phase::owned && !r.placing && own.current_epoch() == epoch{m.epoch};
    send(home_actor, m.from, kind::move_prepared, m.request, m.epoch, {wanted, static_cast<byte>(own.next_index())});
    return;
  }
  case kind::tokens:
    accept(m.request, m.epoch, m.x[0], m.x[1], m.x[2] != 0);
    if (how == delivery::stop_string) finish(m.request, finish_reason::stop);
    return;
  case kind::admitted:
    if (own.current_epoch() == epoch{m.epoch} && own.owner()) r.placing = false;
    return;
  case kind::claim:
    return claim(m, how);
  case kind::reclaim:
    return reclaim(m);
  case kind::disown:
    if (is(mutant::ignores_disown)) return;
    if (own.disown(epoch{m.epoch}, instance_id{static_cast<std::uint32_t>(m.from - 1)})) r.placing = true;
    return;
  default:
    broken("a message that the home does not know");
  }
}

/// Of a request that only the home before knew. Tokens, and who has let go of it, are nothing to this one.
void rules::home_receives_of_unknown(const message& m) {
  if (m.what == kind::prepare_move)
    return send(home_actor, m.from, kind::move_prepared, m.request, m.epoch, {false, 0});
  if (m.what == kind::claim) {
    const bool granted = is(mutant::grants_the_unknown);
    return send(home_actor, m.from, kind::claim_answer, m.request, static_cast<byte>(granted ? m.epoch + 1 : 0),
                {m.x[3], granted, m.x[4]}, m.x[0] >> 4U);
  }
  if (m.what != kind::reclaim) return;
  const auto how = static_cast<byte>(ownership_reclaim::answer::ended);
  send(home_actor, m.from, kind::reclaim_answer, m.request, 0, {m.x[0], how, m.epoch});
}

/// A token's value is its index: whoever draws it from the right KV draws the same.
void rules::accept(byte r, byte from, byte first, byte count, bool last) {
  auto& record = w_.front.requests.at(r);
  auto& own = record.ownership;
  std::vector<sampled_token> drawn;
  for (byte i = 0; i < count; ++i) drawn.emplace_back(static_cast<token_id>(first + i));
  const auto before = own.next_index();
  const auto result =
      own.accept(epoch{from}, first, std::move(drawn), last ? finish_reason::length : finish_reason::none);
  if (result.what == request_ownership::verdict::gap) {
    // Whatever was lost was lost with a link.
    if (case_.faults.cuts == 0 && case_.faults.freezes == 0 && case_.faults.crashes == 0 && case_.faults.losses == 0)
      broken("tokens are missing although no link was cut");
    const auto owner = own.owner();
    if (owner)
      send(home_actor, llumlet_of(static_cast<byte>(owner->value())), kind::cancel, r, from, {},
           w_.front.generation.at(owner->value()));
    own.owner_lost(own.current_epoch());
    record.placing = true;
    return;
  }
  if (result.what != request_ownership::verdict::accepted) return;
  if (result.first_index != before) broken("accepted indices are not contiguous");
  for (std::size_t i = 0; i < result.fresh.size(); ++i)
    if (result.fresh[i].id != static_cast<token_id>(before + i)) broken("a token was lost or repeated");
}

void rules::claim(const message& m, delivery how) {
  const byte i = m.x[0] & 0x0FU;
  const byte generation = m.x[0] >> 4U;
  auto& r = w_.front.requests.at(m.request);
  auto& own = r.ownership;
  std::optional<epoch> granted;
  const bool known =
      (w_.front.alive.at(i) && w_.front.generation.at(i) == generation) || is(mutant::grants_to_the_dead);
  if (known && !r.placing) {
    if (!is(mutant::drops_the_tail)) accept(m.request, m.epoch, m.x[1], static_cast<byte>(m.x[2] - m.x[1]), false);
    if (how == delivery::stop_string) finish(m.request, finish_reason::stop);
    const bool repeated = own.claimed_from(epoch{m.epoch});
    if (is(mutant::does_not_raise_the_epoch) && own.owner() && own.current_epoch() == epoch{m.epoch})
      granted = epoch{m.epoch};
    else if (!(repeated && is(mutant::refuses_a_repeated_claim)))
      granted = own.claim(epoch{m.epoch}, instance_id{i}, generation);
    if (!granted && is(mutant::revives_the_finished) && own.finished()) granted = epoch{m.epoch + 1U};
  }
  const auto value = static_cast<byte>(granted ? granted->value() : 0);
  send(home_actor, m.from, kind::claim_answer, m.request, value, {m.x[3], granted.has_value(), m.x[4]}, generation);
}

void rules::reclaim(const message& m) {
  auto& own = w_.front.requests.at(m.request).ownership;
  const epoch from{m.epoch};
  const bool repeated = own.current_epoch() != from;
  auto how = ownership_reclaim::answer::ended;
  std::optional<epoch> granted;
  if (!(repeated && is(mutant::refuses_a_repeated_reclaim))) granted = own.reclaim(from);
  if (granted)
    how = ownership_reclaim::answer::granted;
  else if (own.moved_from(from))
    how = ownership_reclaim::answer::moved;
  if (is(mutant::grants_claim_and_reclaim) && how == ownership_reclaim::answer::moved) {
    how = ownership_reclaim::answer::granted;
    granted = own.current_epoch();
  }
  const auto value = static_cast<byte>(granted ? granted->value() : 0);
  send(home_actor, m.from, kind::reclaim_answer, m.request, value, {m.x[0], static_cast<byte>(how), m.epoch});
}

void rules::place(byte r, byte i) {
  auto& record = w_.front.requests.at(r);
  const auto granted = record.ownership.dispatch(instance_id{i});
  if (!granted) {
    record.ownership.finish(finish_reason::error);
    record.placing = false;
    return note(home_actor, "gives the request up");
  }
  record.placing = true;
  note(home_actor, "dispatches anew to " + name_of_process(process_of_instance(i)));
  send(home_actor, llumlet_of(i), kind::dispatch, r, static_cast<byte>(granted->value()),
       {static_cast<byte>(record.ownership.next_index())}, w_.front.generation.at(i));
}

void rules::finish(byte r, finish_reason why) {
  auto& record = w_.front.requests.at(r);
  auto& own = record.ownership;
  if (own.finished()) return;
  if (const auto owner = own.owner()) {
    auto i = static_cast<byte>(owner->value());
    auto under = own.current_epoch().value();
    if (is(mutant::cancels_the_owner_before) && own.claimed_from(epoch{under - 1})) {
      i = w_.moves[0].from;
      --under;
    }
    send(home_actor, llumlet_of(i), kind::cancel, r, static_cast<byte>(under), {}, w_.front.generation.at(i));
  }
  own.finish(why);
  record.placing = false;
}

void rules::home_loses(byte i) {
  w_.front.alive.at(i) = false;
  for (byte r = 0; r < case_.requests; ++r) {
    auto& record = w_.front.requests.at(r);
    if (is(mutant::forgets_migrated_requests) &&
        record.ownership.claimed_from(epoch{record.ownership.current_epoch().value() - 1}))
      continue;
    if (record.ownership.owner_lost(instance_id{i})) record.placing = true;
  }
}

} // namespace godwit::protocols::model
