#include "sim/network_state.hpp"

#include "sim/endpoint.hpp"
#include "sim/world_state.hpp"

#include <algorithm>

// Nodes, their connections, and what goes over these.
namespace godwit::runtime::sim::detail {

using std::chrono::nanoseconds;

network_state::network_state(world_state& world) : world_(world), random_(world.seed, ~std::uint64_t{0}) {}

std::uint32_t network_state::machine(const std::string& name) {
  const auto [entry, is_new] = machine_numbers_.emplace(name, static_cast<std::uint32_t>(machines_.size()));
  if (is_new) machines_.emplace_back();
  return entry->second;
}

void network_state::add(node& n) {
  by_id_.emplace(n.id, &n);
  machines_[n.machine].current = &n;
}

node* network_state::find(const caf::node_id& id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

node* network_state::at(std::uint32_t number) const noexcept {
  return number < world_.nodes.size() ? world_.nodes[number].get() : nullptr;
}

node* network_state::hop(node& from, std::uint32_t to) const {
  if (from.direct.count(to) != 0) return world_.nodes[to].get();
  const auto ways = from.indirect.find(to);
  if (ways == from.indirect.end()) return nullptr;
  for (const auto by : ways->second)
    if (from.direct.count(by) != 0) return world_.nodes[by].get();
  return nullptr;
}

bool network_state::transmit(node& from, packet p) {
  if (from.dead()) return false;
  auto* by = hop(from, p.to);
  if (!by) return false;
  if (p.kind == packet::kind_type::message) {
    ++messages;
    bytes += p.bytes.size();
  }
  const auto c = from.direct.at(by->number);
  put(c, c->side_of(from), std::move(p));
  return true;
}

nanoseconds network_state::arrival(wire& w, std::size_t size) {
  const auto& settings = w.settings ? *w.settings : links_;
  auto leaves = world_.timers.now();
  if (settings.bytes_per_second > 0) {
    const auto takes = static_cast<double>(size) * 1e9 / static_cast<double>(settings.bytes_per_second);
    w.free_at = std::max(w.free_at, leaves) + nanoseconds{static_cast<std::int64_t>(takes)};
    leaves = w.free_at;
  }
  const auto least = std::max(settings.latency_min, nanoseconds{0});
  const auto range = std::max(settings.latency_max - least, nanoseconds{0});
  const auto drawn = random_.below(static_cast<std::uint64_t>(range.count()) + 1);
  return leaves + least + nanoseconds{static_cast<std::int64_t>(drawn)} + w.extra;
}

void network_state::put(const connection_ptr& c, int from, packet p) {
  auto& s = c->sides[from];
  if (c->sides[1 - from].owner->dead()) return;
  constexpr std::size_t header = 64;
  s.last = std::max(s.last, arrival(*s.out, p.bytes.size() + header)); // nothing overtakes
  s.outgoing.emplace_back(s.last, std::move(p));
  schedule(c, from);
}

void network_state::schedule(const connection_ptr& c, int from) {
  auto& s = c->sides[from];
  if (s.timer != 0 || s.outgoing.empty() || s.out->cut || !c->sides[1 - from].owner->running()) return;
  s.timer = world_.timers.call_after(s.outgoing.front().first - world_.timers.now(), [this, c, from] {
    c->sides[from].timer = 0;
    arrive(c, from);
  });
}

void network_state::unschedule(connection::side& s) {
  if (s.timer != 0) world_.timers.cancel(s.timer);
  s.timer = 0;
}

void network_state::arrive(const connection_ptr& c, int from) {
  auto& s = c->sides[from];
  auto p = std::move(s.outgoing.front().second);
  s.outgoing.pop_front();
  schedule(c, from);
  if (c->sides[1 - from].open) deliver(c, from, std::move(p));
}

void network_state::deliver(const connection_ptr& c, int from, packet p) {
  auto& hop = *c->sides[from].owner;
  auto& here = *c->sides[1 - from].owner;
  if (p.kind == packet::kind_type::close) return close(c, 1 - from, true);
  if (p.kind == packet::kind_type::accept) {
    const auto found = attempts_.find(p.attempt);
    if (found == attempts_.end()) return;
    const auto kept = found->second;
    return settle(*kept, std::pair{&hop, p.actor});
  }
  // whoever is heard of by way of a node can be reached that way
  if (p.from != hop.number) here.indirect[p.from].insert(hop.number);
  if (p.to == here.number)
    here.endpoint->take(std::move(p), hop);
  else
    transmit(here, std::move(p));
}

connection_ptr network_state::establish(node& a, node& b) {
  const key k = std::minmax(a.number, b.number);
  if (const auto found = connections_.find(k); found != connections_.end()) {
    const auto old = found->second;
    if (old->sides[0].open && old->sides[1].open) return old;
    for (const int i : {0, 1}) // one side has given it up already
      if (old->sides[i].open) close(old, i, false);
    forget(old);
  }
  auto c = std::make_shared<connection>();
  node* owners[] = {&a, &b};
  for (const int i : {0, 1}) {
    c->sides[i].owner = owners[i];
    c->sides[i].out = &wire_between(owners[i]->machine, owners[1 - i]->machine);
    owners[i]->direct[owners[1 - i]->number] = c;
  }
  connections_[k] = c;
  for (const int i : {0, 1}) listen(c, i);
  world_.log(event::kind_type::connected, b.number, a.number);
  return c;
}

void network_state::close(const connection_ptr& c, int i, bool tell) {
  auto& s = c->sides[i];
  auto& peer = *c->sides[1 - i].owner;
  if (!s.open) return;
  s.open = false;
  s.owner->direct.erase(peer.number);
  if (tell && c->sides[1 - i].open) {
    packet last;
    last.kind = packet::kind_type::close;
    put(c, i, std::move(last));
  }
  if (!c->sides[1 - i].open) forget(c);
  if (s.owner->dead()) return;
  world_.log(event::kind_type::lost, s.owner->number, peer.number);
  s.owner->endpoint->lost(peer);
}

void network_state::forget(const connection_ptr& c) {
  for (auto& s : c->sides) {
    unschedule(s);
    s.outgoing.clear();
    ++s.silences;
  }
  const auto found = connections_.find(std::minmax(c->sides[0].owner->number, c->sides[1].owner->number));
  if (found != connections_.end() && found->second == c) connections_.erase(found);
}

} // namespace godwit::runtime::sim::detail
