#include "model_rules.hpp"

#include <algorithm>
#include <tuple>

namespace godwit::protocols::model {
namespace {

auto order_of(const message& m) { return std::tuple(m.from, m.to, m.generation, m.late); }

void insert(std::vector<message>& into, const message& m) {
  const auto place =
      std::ranges::upper_bound(into, order_of(m), {}, [](const message& other) { return order_of(other); });
  into.insert(place, m);
}

} // namespace

byte rules::generation_of(byte process) const {
  return process == home_process ? w_.front.own_generation : at(static_cast<byte>(process - 1)).generation;
}

void rules::note(byte actor, std::string text) {
  if (seen_ != nullptr) seen_->push_back({actor, actor, std::move(text)});
}

void rules::broken(const char* promise) {
  if (w_.broken == nullptr) w_.broken = promise;
}

/// `generation`: of the receiver's process, as the sender knows it. An address outlives nobody: what is sent to a dead
/// process, or over a link that is down, is gone.
void rules::send(byte from, byte to, kind what, byte request, byte epoch, std::array<byte, 5> x, byte generation) {
  const auto target = process_of(w_, to);
  const auto origin = from == fabric_actor ? target : process_of(w_, from);
  const bool up = target == home_process ? w_.front.up : at(static_cast<byte>(target - 1)).up;
  if (!up || generation_of(target) != generation || w_.link_down[origin][target]) return;
  // What is sent to a coordinator that has ended arrives nowhere; leaving it out at once changes nothing.
  const bool to_source = to >= source_of(0) && to < destination_of(0);
  if (to_source && w_.moves.at(to - source_of(0)).source_life != life::alive) return;
  const bool to_destination = to >= destination_of(0) && to < fabric_actor;
  if (to_destination && w_.moves.at(to - destination_of(0)).destination_life != life::alive) return;
  insert(w_.messages, {from, to, generation_of(origin), false, what, request, epoch, x});
}

void rules::send(byte from, byte to, kind what, byte request, byte epoch, std::array<byte, 5> x) {
  send(from, to, what, request, epoch, x, generation_of(process_of(w_, to)));
}

void rules::deliver(byte index, delivery how) {
  const auto m = w_.messages.at(index);
  w_.messages.erase(w_.messages.begin() + index);
  if (how == delivery::lost) {
    --w_.left.losses;
    if (seen_ != nullptr) seen_->push_back({m.from, m.to, "(lost) " + describe(m)});
    return;
  }
  if (how == delivery::overtaken) {
    --w_.left.duplicates;
    auto later = m;
    later.late = true;
    return insert(w_.messages, later);
  }
  if (seen_ != nullptr) seen_->push_back({m.from, m.to, describe(m) + (m.late ? " (late)" : "")});
  if (how == delivery::twice) {
    --w_.left.duplicates;
    auto again = m;
    again.late = true;
    insert(w_.messages, again);
  }
  if (how == delivery::refused) --w_.left.refusals;
  if (how == delivery::stop_string) --w_.left.stops;
  receive(m, how);
}

void rules::receive(const message& m, delivery how) {
  if (m.to == home_actor) return home_receives(m, how);
  if (m.to < source_of(0)) return llumlet_receives(static_cast<byte>(m.to - 1), m, how);
  if (m.to < destination_of(0)) return source_receives(static_cast<byte>(m.to - source_of(0)), m);
  destination_receives(static_cast<byte>(m.to - destination_of(0)), m, how);
}

/// Answers within a process without delay: the step before them, which is an arrival at an arbitrary moment or the
/// work of the fabric, may be delayed instead. News that run against the coordinator's own doings (`gone`, `parked`,
/// losses and deaths) take their time always.
void rules::deliver_at_once() {
  const auto prompt = [](const message& m) {
    return m.what == kind::looked || m.what == kind::room || m.what == kind::copied || m.what == kind::closed ||
           m.what == kind::adoption || m.what == kind::settled;
  };
  for (bool more = true; more;) {
    more = false;
    for (byte m = 0; m < w_.migrations && !more; ++m)
      for (byte s = 0; s < w_.moves[m].landed.size() && !more; ++s)
        if ((w_.moves[m].landed_news >> s & 1U) != 0 && running(process_of_instance(w_.moves[m].to))) {
          tell_landed(m, s);
          more = true;
        }
    for (std::size_t i = 0; i < w_.messages.size() && !more; ++i) {
      const auto& m = w_.messages[i];
      if (!prompt(m) || !running(process_of(w_, m.to))) continue;
      if (i > 0 && w_.messages[i - 1].from == m.from && w_.messages[i - 1].to == m.to) continue;
      deliver(static_cast<byte>(i), delivery::plain);
      more = true;
    }
  }
}

/// Leaves out what can make no difference any more, so that worlds that go on alike are alike.
void rules::forget_what_is_void() {
  // Tokens of an earlier epoch, or for a request that has ended: the home drops them, now or later.
  std::erase_if(w_.messages, [&](const message& m) {
    if (m.what == kind::prepare_move) return w_.moves.at(m.from - source_of(0)).source_life != life::alive;
    if (m.what != kind::tokens && m.what != kind::admitted) return false;
    const auto& own = w_.front.requests.at(m.request).ownership;
    return own.finished() || epoch{m.epoch} < own.current_epoch();
  });
  bool all_over = w_.migrations == case_.migrations;
  for (byte m = 0; m < w_.migrations; ++m) {
    auto& move = w_.moves.at(m);
    if (move.source_life == life::ended) move.accepted = move.parked_tokens = move.parked_computed = 0;
    if (move.destination_life == life::ended && !move.claim) move.state = {};
    if (move.place == landing::closed) {
      move.posted = 0;
      move.landed = {};
      move.landed_news = 0;
    }
    all_over = all_over && move.source_life == life::ended && move.destination_life != life::alive;
  }
  const bool opening = std::ranges::any_of(w_.messages, [](const message& m) { return m.what == kind::open; });
  if (!all_over || opening) return;
  // Between instances there are only coordinators, and there will be no more.
  for (byte p = 1; p < processes_max; ++p)
    for (byte q = 1; q < processes_max; ++q) w_.unnoticed[p][q] = false;
}

std::string describe(const message& m) {
  const auto number = [](byte n) { return std::to_string(static_cast<int>(n)); };
  const auto epoch = " e" + number(m.epoch);
  const auto reason = [&] { return std::string(to_string(static_cast<migration_reason>(m.x[0]))); };
  switch (m.what) {
  case kind::prepare_move:
    return "prepare_move" + epoch;
  case kind::move_prepared:
    return m.x[0] != 0 ? "wanted, has " + number(m.x[1]) : "not wanted";
  case kind::open:
    return "open";
  case kind::opened:
    return m.x[0] == 0 ? "opened" : "opened, has " + number(m.x[0]);
  case kind::open_refused:
    return "refused: " + reason();
  case kind::pre_alloc:
    return "pre_alloc " + number(m.x[0]) + ": [" + number(m.x[1]) + "," + number(m.x[2]) + ")";
  case kind::pre_alloc_answer:
    return m.x[1] == 0 ? "room for stage " + number(m.x[0]) : "no room: " + number(m.x[0]);
  case kind::commit:
    return "commit" + epoch + ", " + number(m.x[0]) + " blocks, " + number(m.x[1]) + " tokens";
  case kind::commit_answer:
    return m.x[0] != 0 ? "adopted" : "not adopted";
  case kind::abort:
    return "abort: " + reason();
  case kind::down:
    return "down";
  case kind::tokens:
    return "token " + number(m.x[0]) + epoch + (m.x[2] != 0 ? ", end" : "");
  case kind::admitted:
    return "admitted" + epoch;
  case kind::claim:
    return "claim" + epoch + ", tail [" + number(m.x[1]) + "," + number(m.x[2]) + ")";
  case kind::claim_answer:
    return m.x[1] != 0 ? "granted" + epoch : "denied";
  case kind::reclaim:
    return "reclaim" + epoch;
  case kind::reclaim_answer:
    return m.x[1] == 0 ? "granted" + epoch : m.x[1] == 1 ? "moved" : "ended";
  case kind::disown:
    return "disown" + epoch;
  case kind::dispatch:
    return "dispatch" + epoch + ", has " + number(m.x[0]);
  case kind::cancel:
    return "cancel" + epoch;
  case kind::looked:
    return "looked: " + number(m.x[0]) + " computed";
  case kind::parked:
    return "parked: " + number(m.x[0]) + " computed";
  case kind::gone:
    return "gone: " + reason();
  case kind::room:
    return m.x[0] != 0 ? "granted" : "full";
  case kind::adoption:
    return m.x[0] != 0 ? "adopted" : "not adopted";
  case kind::settled:
    return "settled: " + number(m.x[0]);
  case kind::copied:
    return "copied stage " + number(m.x[0]);
  case kind::copy_failed:
    return "copy failed";
  case kind::transfer_failed:
    return "transfer failed";
  case kind::closed:
    return "closed";
  case kind::peer_lost:
    return "peer lost";
  case kind::home_lost:
    return "home lost";
  case kind::died:
    return "coordinator died";
  }
  return "?";
}

} // namespace godwit::protocols::model
