#include "model_rules.hpp"

#include <algorithm>

namespace godwit::protocols::model {
namespace {

bool is_ask(kind what) {
  switch (what) {
  case kind::prepare_move:
  case kind::open:
  case kind::pre_alloc:
  case kind::commit:
  case kind::abort:
  case kind::claim:
  case kind::reclaim:
  case kind::disown:
    return true;
  default:
    return false;
  }
}

bool is_answer(kind what) {
  switch (what) {
  case kind::move_prepared:
  case kind::opened:
  case kind::pre_alloc_answer:
  case kind::commit_answer:
  case kind::claim_answer:
  case kind::reclaim_answer:
    return true;
  default:
    return false;
  }
}

bool first_of_its_pair(const std::vector<message>& all, std::size_t i) {
  if (i == 0) return true;
  const auto& before = all[i - 1];
  const auto& m = all[i];
  return m.late || before.from != m.from || before.to != m.to || before.generation != m.generation ||
         before.late != m.late;
}

} // namespace

bool rules::running(byte process) const {
  if (process == home_process) return w_.front.up && !w_.front.frozen;
  const auto& i = at(static_cast<byte>(process - 1));
  return i.up && !i.frozen;
}

void rules::possible(std::vector<action>& into) const {
  into.clear();
  possible_deliveries(into);
  possible_work(into);
  possible_faults(into);
}

void rules::possible_deliveries(std::vector<action>& into) const {
  const auto& all = w_.messages;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& m = all[i];
    if (!first_of_its_pair(all, i) || !running(process_of(w_, m.to))) continue;
    const auto add = [&](delivery how) {
      into.push_back({act::deliver, static_cast<byte>(i), static_cast<byte>(how), 0});
    };
    add(delivery::plain);
    if (w_.left.duplicates > 0 && is_ask(m.what) && !m.late) {
      add(delivery::twice);
      add(delivery::overtaken);
    }
    if (w_.left.losses > 0 && is_answer(m.what)) add(delivery::lost);
    if (w_.left.refusals > 0 && (m.what == kind::open || m.what == kind::pre_alloc)) add(delivery::refused);
    const bool brings_tokens = m.what == kind::tokens || (m.what == kind::claim && m.x[2] > m.x[1]);
    const auto& own = w_.front.requests.at(m.request).ownership;
    if (w_.left.stops > 0 && brings_tokens && own.owner() && own.current_epoch() == epoch{m.epoch})
      add(delivery::stop_string);
  }
}

bool rules::may_step(byte i, byte r) const {
  const auto& e = at(i).entries.at(r);
  if (!e.there || e.tokens >= case_.tokens) return false;
  if (!is(mutant::parked_requests_decode_on) && (e.park == parking::parked || e.reclaim)) return false;
  const auto known = static_cast<byte>(case_.prompt + e.tokens);
  const auto needed = blocks_of(std::min<byte>(known, static_cast<byte>(e.computed + case_.chunk)));
  return needed <= e.blocks.size ||
         at(i).ledger.read().available() >= static_cast<std::uint32_t>(needed - e.blocks.size);
}

void rules::possible_work(std::vector<action>& into) const {
  for (byte m = 0; m < w_.migrations; ++m) {
    const auto& move = w_.moves.at(m);
    const bool source_runs = running(process_of_instance(move.from));
    const bool destination_runs = running(process_of_instance(move.to));
    if (case_.timers && source_runs && move.timer != 0) {
      into.push_back({act::timer, m, 0, 0});
      if (case_.stale_timers && move.timer > 1) into.push_back({act::stale_timer, m, 0, 0});
    }
    if (!destination_runs) continue;
    if (case_.timers && move.lease != 0) {
      into.push_back({act::lease, m, 0, 0});
      if (case_.stale_timers && move.lease > 1) into.push_back({act::stale_lease, m, 0, 0});
    }
    if (move.claim && !is(mutant::claim_waits_for_ever)) into.push_back({act::claim_unanswered, m, 0, 0});
    if (move.place == landing::open || move.place == landing::closing)
      for (byte k = 0; k < move.writes.size(); ++k) into.push_back({act::land, m, k, 0});
    for (byte s = 0; s < move.landed.size(); ++s)
      if ((move.landed_news >> s & 1U) != 0) into.push_back({act::tell_landed, m, s, 0});
    if (move.place == landing::closing) into.push_back({act::close, m, 0, 0});
  }
  for (byte i = 0; i < case_.instances; ++i) {
    if (!running(process_of_instance(i))) continue;
    for (byte r = 0; r < case_.requests; ++r) {
      const auto& e = at(i).entries.at(r);
      if (e.there && e.reclaim && !is(mutant::reclaim_waits_for_ever))
        into.push_back({act::reclaim_unanswered, i, r, 0});
      if (e.there && e.park == parking::ordered) into.push_back({act::park, i, r, 0});
      if (!may_step(i, r)) continue;
      into.push_back({act::step, i, r, 0});
      if (case_.may_finish_early && e.tokens + 1 < case_.tokens) into.push_back({act::step_to_end, i, r, 0});
    }
  }
  if (running(home_process)) {
    for (byte i = 0; i < case_.instances; ++i) {
      const auto p = process_of_instance(i);
      const bool known = w_.front.alive.at(i) && w_.front.generation.at(i) == at(i).generation;
      if (!known && running(p) && !w_.link_down[home_process][p] && !w_.unnoticed[home_process][p])
        into.push_back({act::learn, i, 0, 0});
      for (byte r = 0; r < case_.requests; ++r)
        if (w_.front.requests.at(r).ownership.where() == request_ownership::phase::unowned && w_.front.alive.at(i))
          into.push_back({act::place, r, i, 0});
    }
  }
  for (byte o = 0; o < processes_max; ++o)
    for (byte s = 0; s < processes_max; ++s)
      if (w_.unnoticed[o][s] && running(o)) into.push_back({act::notice, o, s, 0});
}

void rules::possible_faults(std::vector<action>& into) const {
  const auto& left = w_.left;
  const auto processes = static_cast<byte>(1 + case_.instances);
  const auto up = [&](byte p) { return p == home_process ? w_.front.up : at(static_cast<byte>(p - 1)).up; };
  for (byte i = 0; i < case_.instances; ++i)
    for (byte r = 0; r < case_.requests && running(process_of_instance(i)); ++r) {
      const auto& e = at(i).entries.at(r);
      if (!e.there || e.park == parking::parked || e.reclaim) continue;
      if (left.preempts > 0 && e.computed > 0) into.push_back({act::preempt, i, r, 0});
      if (w_.migrations >= case_.migrations || e.migration != nobody || e.park != parking::none) continue;
      for (byte to = 0; to < case_.instances; ++to)
        if (to != i && at(to).up) into.push_back({act::start, r, i, to});
    }
  if (left.evictions > 0)
    for (byte i = 0; i < case_.instances; ++i)
      if (running(process_of_instance(i)) && at(i).cache.size > 0) into.push_back({act::evict, i, 0, 0});
  if (left.cancels > 0 && running(home_process))
    for (byte r = 0; r < case_.requests; ++r)
      if (!w_.front.requests.at(r).ownership.finished()) into.push_back({act::cancel, r, 0, 0});
  for (byte m = 0; m < w_.migrations; ++m) {
    const auto& move = w_.moves.at(m);
    const bool source_lives = move.source_life == life::alive && running(process_of_instance(move.from));
    const bool destination_lives = move.destination_life == life::alive && running(process_of_instance(move.to));
    if (left.orders > 0 && source_lives) into.push_back({act::order_stop, m, 0, 0});
    if (left.deaths > 0 && source_lives) into.push_back({act::source_dies, m, 0, 0});
    if (left.deaths > 0 && destination_lives) into.push_back({act::destination_dies, m, 0, 0});
    if (left.fabric > 0 && !move.writes.empty())
      for (byte both = 0; both < 2; ++both) into.push_back({act::transfer_fails, m, both, 0});
  }
  for (byte p = 0; p < processes; ++p) {
    const bool eligible = (case_.crashable >> p & 1U) != 0;
    if (left.crashes > 0 && eligible && up(p)) into.push_back({act::crash, p, 0, 0});
    if (left.freezes > 0 && eligible && running(p)) into.push_back({act::freeze, p, 0, 0});
    if (left.thaws > 0 && up(p) && !running(p)) into.push_back({act::thaw, p, 0, 0});
    if (left.restarts > 0 && !up(p)) into.push_back({act::restart, p, 0, 0});
    for (byte q = static_cast<byte>(p + 1); q < processes; ++q) {
      const bool pending = w_.unnoticed[p][q] || w_.unnoticed[q][p];
      if (pending || !up(p) || !up(q)) continue;
      if (w_.link_down[p][q] && left.heals > 0) into.push_back({act::heal, p, q, 0});
      if (!w_.link_down[p][q] && left.cuts > 0) into.push_back({act::cut, p, q, 0});
    }
  }
}

void rules::perform(const action& chosen) {
  act_on(chosen);
  if (!case_.local_delays) deliver_at_once();
  forget_what_is_void();
}

void rules::act_on(const action& chosen) {
  const auto [what, a, b, c] = chosen;
  auto& left = w_.left;
  switch (what) {
  case act::deliver:
    return deliver(a, delivery{b});
  case act::timer: {
    const auto id = std::exchange(w_.moves.at(a).timer, byte{0});
    note(source_of(a), "its timer runs out");
    return feed(a, migration_source::timed_out{id});
  }
  case act::stale_timer:
    return feed(a, migration_source::timed_out{w_.moves.at(a).timer - 1U});
  case act::lease: {
    const auto id = std::exchange(w_.moves.at(a).lease, byte{0});
    note(destination_of(a), "its lease runs out");
    return feed(a, migration_destination::lease_expired{id});
  }
  case act::stale_lease:
    return feed(a, migration_destination::lease_expired{w_.moves.at(a).lease - 1U});
  case act::claim_unanswered:
    note(llumlet_of(w_.moves.at(a).to), "waits no longer for the claim's answer");
    return act_on(a, w_.moves.at(a).claim->unanswered());
  case act::reclaim_unanswered:
    note(llumlet_of(a), "waits no longer for the reclaim's answer");
    return act_on(a, b, at(a).entries.at(b).reclaim->unanswered());
  case act::step:
    return step(a, b, false);
  case act::step_to_end:
    return step(a, b, true);
  case act::park:
    return park(a, b);
  case act::land:
    return land(a, b);
  case act::tell_landed:
    return tell_landed(a, b);
  case act::close:
    note(destination_of(a), "its landing places are closed");
    return close(a);
  case act::place:
    return place(a, b);
  case act::learn:
    w_.front.alive.at(a) = true;
    w_.front.generation.at(a) = at(a).generation;
    return note(home_actor, "sees " + name_of_process(process_of_instance(a)));
  case act::notice:
    return notice(a, b);
  case act::start:
    return start(a, b, c);
  case act::cancel:
    --left.cancels;
    note(home_actor, "the client goes away");
    return finish(a, finish_reason::cancelled);
  case act::order_stop:
    --left.orders;
    note(source_of(a), "is told to stop");
    return feed(a, migration_source::stop{});
  case act::preempt:
    --left.preempts;
    return preempt(a, b);
  case act::evict:
    --left.evictions;
    note(llumlet_of(a), "lets go of what it has of the beginning");
    return free_blocks(a, at(a).cache);
  case act::crash:
    --left.crashes;
    return crash(a);
  case act::restart:
    --left.restarts;
    return restart(a);
  case act::cut:
    --left.cuts;
    return cut(a, b);
  case act::heal:
    --left.heals;
    w_.link_down[a][b] = w_.link_down[b][a] = false;
    return note(a, "the link to " + name_of_process(b) + " is back");
  case act::freeze:
    --left.freezes;
    return freeze(a, true);
  case act::thaw:
    --left.thaws;
    return freeze(a, false);
  case act::source_dies:
    --left.deaths;
    return coordinator_dies(a, true);
  case act::destination_dies:
    --left.deaths;
    return coordinator_dies(a, false);
  case act::transfer_fails:
    --left.fabric;
    note(source_of(a), "the transfer FAILS");
    drop_writes(a);
    if (b != 0)
      send(fabric_actor, destination_of(a), kind::transfer_failed, w_.moves.at(a).request, w_.moves.at(a).epoch);
    return;
  }
}

} // namespace godwit::protocols::model
