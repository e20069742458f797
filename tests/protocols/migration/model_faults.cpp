#include "model_rules.hpp"

namespace godwit::protocols::model {
namespace {

/// The end of a coordinator with its process: nobody is left to say so.
void forget_source(migration& move) {
  if (move.source_life == life::alive) move.source_life = life::ended;
  move.source.reset();
  move.timer = 0;
}

void forget_destination(migration& move) {
  if (move.destination_life == life::alive) move.destination_life = life::ended;
  move.destination.reset();
  move.lease = 0;
  move.landed_news = 0;
  move.claim.reset();
  move.ask = 0;
  move.held_by = holder::none;
  move.reservation = {};
  move.place = landing::none;
}

} // namespace

void rules::crash(byte process) {
  // What is late may still reach the home that comes after this one.
  std::erase_if(w_.messages, [&](const message& m) {
    return process_of(w_, m.to) == process && !(m.late && process == home_process);
  });
  for (byte p = 0; p < processes_max; ++p) {
    w_.unnoticed[process][p] = false;
    const bool there = p == home_process ? w_.front.up : at(static_cast<byte>(p - 1)).up;
    if (p != process && there) w_.unnoticed[p][process] = true;
  }
  if (process == home_process) {
    w_.front.up = false;
    w_.front.frozen = false;
    return note(home_actor, "CRASHES");
  }
  const auto i = static_cast<byte>(process - 1);
  note(llumlet_of(i), "CRASHES");
  for (byte m = 0; m < w_.migrations; ++m) {
    auto& move = w_.moves.at(m);
    if (move.from == i && move.from_generation == at(i).generation) {
      for (auto& w : move.writes) // the memory is gone; what was on the wire may still arrive
        if (!w.stale && w.captured == nobody) {
          w.captured = at(i).kv.at(w.block).filled;
          w.block = 0;
        }
      forget_source(move);
    }
    if (move.to == i && move.to_generation == at(i).generation) {
      forget_destination(move);
      drop_writes(m);
    }
  }
  auto& gone = at(i);
  gone.up = false;
  gone.frozen = false;
  gone.entries = {};
  gone.kv = {};
  gone.cache = {};
  gone.ledger = shared_ledger{case_.pool};
}

void rules::restart(byte process) {
  if (process == home_process) {
    note(home_actor, "starts again, and knows of no request");
    w_.front = home{.own_generation = static_cast<byte>(w_.front.own_generation + 1)};
    for (auto& r : w_.front.requests) {
      r.known = false;
      r.ownership.finish(finish_reason::error);
    }
    return;
  }
  const auto i = static_cast<byte>(process - 1);
  note(llumlet_of(i), "starts again");
  at(i).up = true;
  ++at(i).generation;
  // What is on its way to it was addressed to the one before.
}

void rules::cut(byte p, byte q) {
  w_.link_down[p][q] = w_.link_down[q][p] = true;
  w_.unnoticed[p][q] = w_.unnoticed[q][p] = true;
  note(p, "the link to " + name_of_process(q) + " is CUT");
}

/// The observer's runtime finds the connection gone. What had not arrived by now never will.
void rules::notice(byte observer, byte subject) {
  w_.unnoticed[observer][subject] = false;
  const bool is_home = subject == home_process;
  const bool up = is_home ? w_.front.up : at(static_cast<byte>(subject - 1)).up;
  const bool frozen = !is_home && at(static_cast<byte>(subject - 1)).frozen;
  if (frozen && !w_.link_down[observer][subject]) { // no heartbeat for too long: the connection is given up
    w_.link_down[observer][subject] = w_.link_down[subject][observer] = true;
    w_.unnoticed[subject][observer] = true;
  }
  const bool all = !up || w_.link_down[observer][subject];
  const auto concerns = [&](byte generation) { return all || generation != generation_of(subject); };
  note(observer, "notices the loss of " + name_of_process(subject));
  std::erase_if(w_.messages, [&](const message& m) {
    return m.from != fabric_actor && !m.late && process_of(w_, m.to) == observer && process_of(w_, m.from) == subject &&
           concerns(m.generation);
  });
  if (observer == home_process) return home_loses(static_cast<byte>(subject - 1));
  const auto i = static_cast<byte>(observer - 1);
  if (is_home) return is(mutant::ignores_death_of_the_home) ? void() : llumlet_loses_home(i);
  const auto other = static_cast<byte>(subject - 1);
  for (byte m = 0; m < w_.migrations; ++m) {
    auto& move = w_.moves.at(m);
    if (move.from == i && move.to == other && move.source_life == life::alive && concerns(move.to_generation))
      send(source_of(m), source_of(m), kind::peer_lost, move.request, move.epoch);
    if (move.to == i && move.from == other && move.destination_life == life::alive && concerns(move.from_generation))
      send(destination_of(m), destination_of(m), kind::peer_lost, move.request, move.epoch);
  }
}

void rules::freeze(byte process, bool on) {
  note(process, on ? "is STOPPED" : "goes on");
  if (process == home_process) {
    w_.front.frozen = on;
    return;
  }
  at(static_cast<byte>(process - 1)).frozen = on;
  // Only the home's heartbeats are taken into account: between instances nothing but leases and timers may be needed.
  if (!w_.link_down[home_process][process] && w_.front.up) w_.unnoticed[home_process][process] = on;
}

} // namespace godwit::protocols::model
