#include "model_rules.hpp"

namespace godwit::protocols::model {

entry* rules::entry_of(byte m) {
  auto& move = w_.moves.at(m);
  auto& i = at(move.from);
  auto& e = i.entries.at(move.request);
  return i.up && i.generation == move.from_generation && e.there && e.migration == m ? &e : nullptr;
}

void rules::start(byte r, byte from, byte to) {
  const auto m = w_.migrations++;
  auto& move = w_.moves.at(m);
  auto& e = at(from).entries.at(r);
  e.migration = m;
  move.request = r;
  move.from = from;
  move.to = to;
  move.from_generation = at(from).generation;
  move.to_generation = at(to).generation;
  move.epoch = e.epoch;
  move.complete = static_cast<byte>(e.computed * case_.scale / tokens_per_block);
  move.source_life = life::alive;
  move.source.emplace(
      migration_source::request_progress{static_cast<std::uint32_t>(e.computed) * case_.scale, e.preemptions},
      migration_limits{case_.stages_max, case_.last_blocks_max});
  note(source_of(m), "starts: to " + name_of_process(process_of_instance(to)));
  perform(m, move.source->begin());
}

void rules::feed(byte m, const migration_source::event& what) {
  if (w_.moves.at(m).source_life == life::alive) perform(m, step_source(m, what));
}

void rules::feed(byte m, const migration_destination::event& what) {
  if (w_.moves.at(m).destination_life == life::alive) perform(m, step_destination(m, what));
}

void rules::source_receives(byte m, const message& letter) {
  using source = migration_source;
  auto& move = w_.moves.at(m);
  const auto& x = letter.x;
  const auto progress_of = [&] {
    return source::request_progress{static_cast<std::uint32_t>(x[0]) * case_.scale, x[1]};
  };
  switch (letter.what) {
  case kind::move_prepared:
    move.accepted = x[1];
    return feed(m, source::prepared{x[0] != 0});
  case kind::home_lost:
    return feed(m, source::prepared{false});
  case kind::opened:
    move.known = x[0];
    return feed(m, source::opened{x[0]});
  case kind::open_refused:
    return feed(m, source::refused{static_cast<migration_reason>(x[0])});
  case kind::pre_alloc_answer:
    if (x[1] == 0) return feed(m, source::reserved{x[0]});
    return feed(m, source::refused{static_cast<migration_reason>(x[1])});
  case kind::commit_answer:
    return feed(m, source::commit_answered{x[0] != 0});
  case kind::looked:
    return feed(m, source::looked{progress_of()});
  case kind::parked:
    move.parked_computed = x[0];
    move.parked_tokens = x[2];
    return feed(m, source::parked{progress_of()});
  case kind::gone:
    return feed(m, source::gone{static_cast<migration_reason>(x[0]), x[1] != 0});
  case kind::settled:
    return feed(m, source::settled{static_cast<source::settlement>(x[0])});
  case kind::copied:
    return feed(m, source::copied{x[0]});
  case kind::copy_failed:
    return feed(m, source::copy_failed{x[0]});
  case kind::down:
  case kind::peer_lost:
    return feed(m, source::peer_lost{});
  default:
    broken("a message that a source does not know");
  }
}

void rules::perform(byte m, const migration_source::effects& effects) {
  using source = migration_source;
  auto& move = w_.moves.at(m);
  const auto r = move.request;
  const auto me = source_of(m);
  const auto to_destination = [&](kind what, std::array<byte, 5> x) {
    send(me, destination_of(m), what, r, move.epoch, x, move.to_generation);
  };
  for (const auto& effect : effects) {
    if (const auto* e = std::get_if<source::set_timer>(&effect)) {
      move.timer = is(mutant::has_no_timers) ? byte{0} : static_cast<byte>(e->timer);
    } else if (std::holds_alternative<source::ask_home>(effect)) {
      send(me, home_actor, kind::prepare_move, r, move.epoch);
    } else if (std::holds_alternative<source::open_destination>(effect)) {
      send(me, llumlet_of(move.to), kind::open, r, move.epoch, {}, move.to_generation);
    } else if (const auto* wanted = std::get_if<source::reserve>(&effect)) {
      to_destination(kind::pre_alloc, {static_cast<byte>(wanted->stage), static_cast<byte>(wanted->first),
                                       static_cast<byte>(wanted->upto)});
    } else if (const auto* order = std::get_if<source::copy>(&effect)) {
      copy(m, *order);
    } else if (std::holds_alternative<source::look>(effect)) {
      const auto* at_source = entry_of(m);
      // Where the request is gone already, the news of that is on the way.
      if (at_source != nullptr)
        send(llumlet_of(move.from), me, kind::looked, r, move.epoch, {at_source->computed, at_source->preemptions});
    } else if (std::holds_alternative<source::park>(effect)) {
      if (auto* at_source = entry_of(m)) at_source->park = parking::ordered;
    } else if (const auto* commit = std::get_if<source::commit>(&effect)) {
      to_destination(kind::commit,
                     {static_cast<byte>(commit->blocks), move.parked_tokens, move.parked_computed, move.accepted});
    } else if (const auto* abort = std::get_if<source::abort_destination>(&effect)) {
      to_destination(kind::abort, {static_cast<byte>(abort->reason)});
    } else if (std::holds_alternative<source::resume>(effect)) {
      if (auto* at_source = entry_of(m)) {
        if (at_source->park == parking::parked) note(llumlet_of(move.from), "lets the request decode on");
        at_source->park = parking::none;
      }
    } else if (std::holds_alternative<source::release>(effect)) {
      if (entry_of(m) != nullptr) {
        note(llumlet_of(move.from), "frees the request");
        clear(move.from, r);
      }
    } else if (std::holds_alternative<source::settle>(effect)) {
      move.timer = 0;
      if (entry_of(m) != nullptr)
        begin_reclaim(move.from, r);
      else
        send(llumlet_of(move.from), me, kind::settled, r, move.epoch, {static_cast<byte>(source::settlement::ended)});
    } else if (const auto* end = std::get_if<source::finish>(&effect)) {
      note(me, "ends: " + std::string(to_string(end->outcome)) + ", " + std::string(to_string(end->reason)));
      end_source(m);
      return;
    }
  }
}

void rules::destination_receives(byte m, const message& letter, delivery how) {
  using destination = migration_destination;
  auto& move = w_.moves.at(m);
  if (move.destination_life != life::alive) return;
  const auto& x = letter.x;
  switch (letter.what) {
  case kind::pre_alloc:
    return perform(m, step_destination(m, destination::asked_room{x[0], x[1], x[2]}), how == delivery::refused);
  case kind::commit:
    move.state = {letter.epoch, x[1], x[2], x[3]};
    return feed(m, destination::committed{x[0]});
  case kind::abort:
    return feed(m, destination::abort_ordered{static_cast<migration_reason>(x[0])});
  case kind::down:
  case kind::peer_lost:
    return feed(m, destination::source_lost{});
  case kind::room:
    return feed(m, destination::room{x[0] != 0});
  case kind::closed:
    return feed(m, destination::closed{});
  case kind::adoption:
    return feed(m, destination::adoption{x[0] != 0});
  case kind::transfer_failed:
    return feed(m, destination::transfer_failed{});
  default:
    broken("a message that a destination does not know");
  }
}

void rules::perform(byte m, const migration_destination::effects& effects, bool refuse) {
  using destination = migration_destination;
  auto& move = w_.moves.at(m);
  const auto r = move.request;
  const auto me = destination_of(m);
  const auto to_source = [&](kind what, std::array<byte, 5> x) {
    send(me, source_of(m), what, r, move.epoch, x, move.from_generation);
  };
  for (const auto& effect : effects) {
    if (const auto* lease = std::get_if<destination::set_lease>(&effect)) {
      move.lease = is(mutant::has_no_lease) ? byte{0} : static_cast<byte>(lease->lease);
    } else if (const auto* wanted = std::get_if<destination::reserve>(&effect)) {
      const bool granted = !refuse && take_blocks(move.to, move.reservation, static_cast<byte>(wanted->blocks));
      send(llumlet_of(move.to), me, kind::room, r, move.epoch, {granted});
    } else if (const auto* offer = std::get_if<destination::post>(&effect)) {
      move.place = landing::open;
      move.posted = static_cast<byte>(offer->upto);
    } else if (const auto* answer = std::get_if<destination::answer_room>(&effect)) {
      to_source(kind::pre_alloc_answer, {static_cast<byte>(answer->stage), static_cast<byte>(answer->reason)});
    } else if (std::holds_alternative<destination::close>(effect)) {
      begin_close(m);
    } else if (const auto* taken = std::get_if<destination::adopt>(&effect)) {
      begin_claim(m, static_cast<byte>(taken->blocks));
    } else if (std::holds_alternative<destination::free_blocks>(effect)) {
      note(llumlet_of(move.to), "frees the reservation");
      free_blocks(move.to, move.reservation);
      move.held_by = holder::none;
    } else if (const auto* done = std::get_if<destination::answer_commit>(&effect)) {
      to_source(kind::commit_answer, {done->adopted});
    } else if (const auto* end = std::get_if<destination::finish>(&effect)) {
      note(me, end->adopted ? "ends: adopted" : "ends: " + std::string(to_string(end->reason)));
      end_destination(m);
      return;
    }
  }
}

void rules::end_source(byte m) {
  auto& move = w_.moves.at(m);
  if (auto* e = entry_of(m)) e->migration = nobody;
  move.source_life = life::ended;
  move.source.reset();
  move.timer = 0;
  std::erase_if(w_.messages, [m](const message& other) { return other.to == source_of(m); });
  send(source_of(m), destination_of(m), kind::down, move.request, move.epoch, {}, move.to_generation);
}

void rules::end_destination(byte m) {
  auto& move = w_.moves.at(m);
  move.destination_life = life::ended;
  move.destination.reset();
  move.lease = 0;
  move.landed_news = 0;
  std::erase_if(w_.messages, [m](const message& other) { return other.to == destination_of(m); });
  send(destination_of(m), source_of(m), kind::down, move.request, move.epoch, {}, move.from_generation);
}

void rules::coordinator_dies(byte m, bool at_source) {
  auto& move = w_.moves.at(m);
  const auto me = at_source ? source_of(m) : destination_of(m);
  note(me, "dies");
  if (at_source) {
    auto* e = entry_of(m);
    end_source(m);
    if (e != nullptr) e->migration = m; // until its llumlet hears of it
  } else {
    end_destination(m);
  }
  send(me, llumlet_of(at_source ? move.from : move.to), kind::died, move.request, move.epoch);
}

} // namespace godwit::protocols::model
