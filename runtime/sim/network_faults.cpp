#include "sim/endpoint.hpp"
#include "sim/network_state.hpp"
#include "sim/world_state.hpp"

#include <algorithm>

// What goes wrong between nodes, and who notices.
namespace godwit::runtime::sim::detail {

using std::chrono::nanoseconds;

// By number, so that all runs do it in one order. Connections may be forgotten meanwhile.
template <class Function> void network_state::each_connection(const node& n, Function f) {
  std::vector<connection_ptr> all;
  for (const auto& [k, c] : connections_)
    if (k.first == n.number || k.second == n.number) all.push_back(c);
  for (const auto& c : all) f(c, c->side_of(n));
}

void network_state::set_links(link_settings settings) { links_ = settings; }

void network_state::set_link(const std::string& a, const std::string& b, link_settings settings) {
  const auto from = machine(a);
  const auto to = machine(b);
  wire_between(from, to).settings = settings;
  wire_between(to, from).settings = settings;
}

void network_state::cut(const std::string& from, const std::string& to) {
  auto& w = wire_between(machine(from), machine(to));
  if (w.cut) return;
  w.cut = true;
  world_.log(event::kind_type::cut, 0, 0, from + ">" + to);
  rewire(w);
}

void network_state::heal(const std::string& from, const std::string& to) {
  auto& w = wire_between(machine(from), machine(to));
  if (!w.cut) return;
  w.cut = false;
  world_.log(event::kind_type::healed, 0, 0, from + ">" + to);
  rewire(w);
}

bool network_state::is_cut(const std::string& from, const std::string& to) const {
  const auto a = machine_numbers_.find(from);
  const auto b = machine_numbers_.find(to);
  if (a == machine_numbers_.end() || b == machine_numbers_.end()) return false;
  const auto found = wires_.find({a->second, b->second});
  return found != wires_.end() && found->second.cut;
}

void network_state::delay(const std::string& from, const std::string& to, nanoseconds extra) {
  auto& w = wire_between(machine(from), machine(to));
  const auto more = extra - w.extra;
  w.extra = std::max(extra, nanoseconds{0});
  world_.log(event::kind_type::delayed, 0, 0, from + ">" + to);
  if (more < detection_.least) return;
  // until the first message that took the longer way, the other side hears nothing
  const auto until = world_.timers.now() + more;
  for (const auto& [k, c] : connections_) {
    for (const int i : {0, 1}) {
      if (c->sides[i].out != &w) continue;
      c->sides[1 - i].quiet_until = std::max(c->sides[1 - i].quiet_until, until);
      listen(c, 1 - i);
      world_.timers.call_after(more, [this, c = c, i] { listen(c, 1 - i); });
    }
  }
}

void network_state::rewire(const wire& w) {
  for (const auto& [k, c] : connections_) {
    for (const int i : {0, 1}) {
      auto& s = c->sides[i];
      if (s.out != &w) continue;
      unschedule(s);
      if (!w.cut) { // sent again
        s.last = world_.timers.now();
        for (auto& [time, p] : s.outgoing) time = s.last = std::max({time, s.last, arrival(*s.out, p.bytes.size())});
      }
      schedule(c, i);
      listen(c, 1 - i);
    }
  }
}

void network_state::listen(const connection_ptr& c, int i) {
  auto& s = c->sides[i];
  const auto& peer = c->sides[1 - i];
  const bool silent = peer.out->cut || !peer.owner->running() || world_.timers.now() < s.quiet_until;
  if (silent == s.silence || !s.open) return;
  s.silence = silent;
  s.overdue = false;
  const auto silence = ++s.silences;
  if (!silent) return;
  const auto range = std::max(detection_.most - detection_.least, nanoseconds{0});
  const auto drawn = random_.below(static_cast<std::uint64_t>(range.count()) + 1);
  world_.timers.call_after(detection_.least + nanoseconds{static_cast<std::int64_t>(drawn)}, [this, c, i, silence] {
    auto& listener = c->sides[i];
    if (!listener.open || listener.silences != silence || listener.owner->dead()) return;
    if (listener.owner->running())
      close(c, i, true);
    else
      listener.overdue = true;
  });
}

void network_state::stopped(node& n) {
  each_connection(n, [&](const connection_ptr& c, int i) {
    unschedule(c->sides[1 - i]);
    listen(c, 1 - i);
  });
}

void network_state::resumed(node& n) {
  each_connection(n, [&](const connection_ptr& c, int i) {
    schedule(c, 1 - i);
    listen(c, 1 - i);
    if (c->sides[i].open && c->sides[i].silence && c->sides[i].overdue) close(c, i, true);
  });
}

void network_state::ended(node& n) {
  n.direct.clear();
  each_connection(n, [&](const connection_ptr& c, int i) {
    auto& peer = c->sides[1 - i];
    unschedule(peer);
    peer.outgoing.clear();
    c->sides[i].open = false;
    if (!peer.open || peer.owner->dead()) return forget(c);
    if (!n.silent) {
      packet last;
      last.kind = packet::kind_type::close;
      put(c, i, std::move(last));
    }
    listen(c, 1 - i);
  });
}

} // namespace godwit::runtime::sim::detail
