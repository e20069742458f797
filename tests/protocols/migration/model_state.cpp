#include "model_state.hpp"

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <tuple>
#include <type_traits>

namespace godwit::protocols::model {
namespace {

constexpr std::size_t bytes_max = 4096;

/// Everything that a small world holds fits a byte; what does not is a bug of the model.
struct writer {
  char* out;

  template <class T> void operator()(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      (*this)(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      *out++ = value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      ensure(value >= 0 && value <= 0xFF, "the model's numbers fit a byte");
      *out++ = static_cast<char>(value);
    } else {
      (*this)(value.value());
    }
  }
  void operator()(const std::vector<migration_destination::stage_books>& stages) {
    (*this)(stages.size());
    for (const auto& s : stages) all(s.first, s.upto, s.landed);
  }
  template <class... Ts> void operator()(const std::tuple<Ts...>& values) {
    std::apply([this](const auto&... v) { all(v...); }, values);
  }
  template <class... Ts> void all(const Ts&... values) { ((*this)(values), ...); }
  template <class T> void machine(const std::optional<T>& of) {
    (*this)(of.has_value());
    if (of) (*this)(of->state());
  }
};

void put(writer& to, const model_case& bounds, const instance& at, const block_list& blocks) {
  to(blocks.size);
  for (byte i = 0; i < blocks.size; ++i) {
    const auto id = blocks.ids.at(i);
    const auto& c = at.kv.at(id);
    to.all(c.request, c.index, c.filled);
    if (bounds.known > 0) to(at.ledger.read().references(block_id{id}));
  }
}

void put(writer& to, const model_case& bounds, const instance& at) {
  to.all(at.up, at.frozen, at.generation);
  for (byte r = 0; r < bounds.requests; ++r) {
    const auto& e = at.entries[r];
    to(e.there);
    if (!e.there) continue;
    to.all(e.epoch, e.tokens, e.computed, e.preemptions, e.park, e.migration, e.ask);
    to.machine(e.reclaim);
    put(to, bounds, at, e.blocks);
  }
  if (bounds.known > 0) put(to, bounds, at, at.cache);
}

/// The numbers of timers and leases only ever meet the newest one: what counts is how far apart they are.
template <std::size_t Number, class Machine>
void put_timed(writer& to, const model_case& bounds, const std::optional<Machine>& machine, byte armed) {
  to(std::min<byte>(armed, bounds.stale_timers ? 2 : 1));
  to(machine.has_value());
  if (!machine) return;
  auto state = machine->state();
  auto& newest = std::get<Number>(state);
  ensure(newest >= armed, "a timer is armed that was never set");
  newest = armed == 0 ? 0 : newest - armed;
  to(state);
}

void put(writer& to, const model_case& bounds, const world& in, const migration& m) {
  to.all(m.request, m.from, m.to, m.from_generation, m.to_generation, m.epoch, m.accepted, m.parked_tokens,
         m.parked_computed);
  if (bounds.known > 0) to.all(m.known, m.complete);
  to.all(m.source_life, m.destination_life, m.state.epoch, m.state.tokens, m.state.computed, m.state.accepted,
         m.held_by, m.ask, m.place, m.posted, m.landed_news);
  put_timed<8>(to, bounds, m.source, m.timer);
  put_timed<5>(to, bounds, m.destination, m.lease);
  to.machine(m.claim);
  put(to, bounds, in.instances.at(m.to), m.reservation);
  for (const auto n : m.landed) to(n);
  to(m.writes.size());
  for (const auto& w : m.writes) to.all(w.stage, w.index, w.stale, w.captured);
}

} // namespace

void serialise(const model_case& bounds, const world& from, std::string& into) {
  std::array<char, bytes_max> buffer;
  writer to{buffer.data()};
  const auto& f = from.front;
  to.all(f.up, f.frozen, f.own_generation);
  for (byte r = 0; r < bounds.requests; ++r)
    to.all(f.requests[r].ownership.state(), f.requests[r].placing, f.requests[r].known);
  for (byte i = 0; i < bounds.instances; ++i) to.all(f.alive[i], f.generation[i]);
  for (byte i = 0; i < bounds.instances; ++i) put(to, bounds, from.instances[i]);
  to(from.migrations);
  for (byte m = 0; m < from.migrations; ++m) put(to, bounds, from, from.moves[m]);
  to(from.messages.size());
  for (const auto& m : from.messages) {
    to.all(m.from, m.to, m.generation, m.late, m.what, m.request, m.epoch);
    for (const auto x : m.x) to(x);
  }
  for (byte p = 0; p <= bounds.instances; ++p)
    for (byte q = 0; q <= bounds.instances; ++q)
      to(static_cast<byte>(from.link_down[p][q] << 1 | static_cast<byte>(from.unnoticed[p][q])));
  const auto& l = from.left;
  to.all(l.crashes, l.restarts, l.heals, l.thaws, l.cuts, l.freezes, l.deaths, l.fabric, l.cancels, l.stops, l.preempts,
         l.duplicates, l.refusals, l.orders, l.losses, l.evictions);
  const auto size = static_cast<std::size_t>(to.out - buffer.data());
  ensure(size <= bytes_max, "a small world fits its buffer");
  into.assign(buffer.data(), size);
}

world first_world(const model_case& bounds) {
  world w;
  w.left = bounds.faults;
  for (byte i = 0; i < bounds.instances; ++i) {
    w.instances[i].ledger = shared_ledger{bounds.pool};
    w.front.alive[i] = true;
  }
  for (byte i = bounds.instances; i < instances_max; ++i) w.instances[i].up = false;
  for (byte r = 0; r < bounds.requests; ++r) {
    // Two requests begin on different instances, so that they can move towards each other.
    const byte i = r % bounds.instances;
    auto& ownership = w.front.requests[r].ownership;
    const auto epoch = ownership.dispatch(instance_id{i}).value();
    auto& e = w.instances[i].entries[r];
    e.there = true;
    e.epoch = static_cast<byte>(epoch.value());
    if (bounds.starts_waiting) continue;
    (void)ownership.accept(epoch, 0, {sampled_token{0}}, finish_reason::none);
    e.tokens = 1;
    e.computed = bounds.prompt;
    const auto blocks = blocks_for(std::uint64_t{bounds.prompt} * bounds.scale);
    for (byte b = 0; b < blocks; ++b) {
      const auto id = static_cast<byte>(w.instances[i].ledger.write().allocate()->value());
      e.blocks.push(id);
      const auto per_block = static_cast<byte>(tokens_per_block / bounds.scale);
      const auto behind = static_cast<byte>(bounds.prompt - b * per_block);
      w.instances[i].kv[id] = {r, b, std::min(per_block, behind)};
    }
  }
  // The first request begins on the first instance.
  for (byte i = 1; i < bounds.instances; ++i)
    for (byte b = 0; b < bounds.known; ++b) {
      const auto id = static_cast<byte>(w.instances[i].ledger.write().allocate()->value());
      w.instances[i].cache.push(id);
      w.instances[i].kv[id] = {0, b, static_cast<byte>(tokens_per_block / bounds.scale)};
    }
  for (byte r = bounds.requests; r < requests_max; ++r) w.front.requests[r].ownership.finish(finish_reason::length);
  return w;
}

byte process_of(const world& in, byte actor) {
  if (actor == home_actor) return home_process;
  if (actor < source_of(0)) return actor;
  if (actor < destination_of(0)) return process_of_instance(in.moves.at(actor - source_of(0)).from);
  return process_of_instance(in.moves.at(actor - destination_of(0)).to);
}

std::string name_of_process(byte process) {
  if (process == home_process) return "home";
  return std::string(1, static_cast<char>('A' + process - 1));
}

} // namespace godwit::protocols::model
