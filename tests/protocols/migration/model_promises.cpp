#include "model_rules.hpp"

#include <algorithm>
#include <array>

namespace godwit::protocols::model {

const char* rules::broken_promise() const {
  if (w_.broken != nullptr) return w_.broken;
  for (byte r = 0; r < case_.requests; ++r) {
    const auto& own = w_.front.requests.at(r).ownership;
    if (!w_.front.up) continue;
    const bool owned = own.where() == request_ownership::phase::owned;
    int owners = 0;
    for (byte i = 0; i < case_.instances; ++i) {
      const auto& e = at(i).entries.at(r);
      const bool decodes = e.there && e.park != parking::parked && !e.reclaim;
      if (!at(i).up || !decodes) continue;
      const bool current = owned && epoch{e.epoch} == own.current_epoch();
      owners += current ? 1 : 0;
      if (current || at(i).frozen) continue;
      // It computes for nobody. Allowed only while the news of that is under way.
      const auto p = process_of_instance(i);
      const bool cut_off = w_.unnoticed[p][home_process] || w_.link_down[p][home_process];
      const bool told = std::ranges::any_of(w_.messages, [&](const message& m) {
        return m.to == llumlet_of(i) && m.request == r && (m.what == kind::cancel || m.what == kind::dispatch) &&
               m.epoch >= e.epoch;
      });
      if (!cut_off && !told) return "an instance decodes a request that is not its own, and nobody will tell it";
    }
    if (owners > 1) return "a request has two owners whose tokens the home accepts";
  }
  for (byte i = 0; i < case_.instances; ++i) {
    if (!at(i).up) continue;
    std::array<byte, pool_max> holders{};
    const auto add = [&](const block_list& blocks) {
      for (byte b = 0; b < blocks.size; ++b) ++holders.at(blocks.ids.at(b));
    };
    add(at(i).cache);
    for (const auto& e : at(i).entries) add(e.blocks);
    for (byte m = 0; m < w_.migrations; ++m)
      if (w_.moves[m].to == i) add(w_.moves[m].reservation);
    const auto& ledger = at(i).ledger.read();
    std::uint32_t count = 0;
    for (byte id = 0; id < case_.pool; ++id) {
      if (holders.at(id) > ledger.references(block_id{id})) return "a block is used by two";
      if (holders.at(id) < ledger.references(block_id{id})) return "a block is leaked";
      count += holders.at(id) > 0 ? 1 : 0;
    }
    if (count != ledger.used()) return "a block is leaked";
  }
  for (byte m = 0; m < w_.migrations; ++m) {
    const auto& move = w_.moves[m];
    const bool writable = move.place == landing::open || move.place == landing::closing;
    if (writable && move.posted > move.reservation.size)
      return "a landing place is open over blocks that were given back or handed over";
  }
  return nullptr;
}

const char* rules::broken_at_rest() const {
  for (byte m = 0; m < w_.migrations; ++m) {
    const auto& move = w_.moves[m];
    if (running(process_of_instance(move.from)) && move.source_life == life::alive)
      return "a source coordinator waits for ever";
    if (!running(process_of_instance(move.to))) continue;
    if (move.destination_life == life::alive) return "a destination coordinator waits for ever";
    if (move.held_by == holder::claiming) return "a llumlet waits for ever for its claim";
    if (move.held_by != holder::none) return "a reservation outlives its migration";
    if (move.place == landing::open || move.place == landing::closing) return "a landing place outlives its migration";
  }
  bool reachable = false;
  for (byte i = 0; i < case_.instances; ++i) {
    const auto p = process_of_instance(i);
    if (!running(p)) continue;
    reachable = reachable || (!w_.link_down[home_process][p] && w_.front.alive.at(i));
    for (byte r = 0; r < case_.requests; ++r) {
      const auto& e = at(i).entries.at(r);
      if (!e.there) continue;
      if (e.reclaim) return "a llumlet waits for ever for its reclaim";
      return e.park == parking::parked ? "a request stays parked for ever" : "a request stays for ever";
    }
    at(i).ledger.read().check();
    if (at(i).ledger.read().used() != at(i).cache.size) return "blocks are in use where nothing is left";
  }
  if (!running(home_process) || !reachable) return nullptr;
  for (byte r = 0; r < case_.requests; ++r)
    if (!w_.front.requests.at(r).ownership.finished()) return "a request never ends";
  return nullptr;
}

} // namespace godwit::protocols::model
