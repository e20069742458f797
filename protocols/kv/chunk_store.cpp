#include <godwit/protocols/kv/chunk_store.hpp>

#include <godwit/protocols/ensure.hpp>

namespace godwit::protocols {

chunk_store::chunk_store(std::uint32_t slots) : slots_(slots) {
  places_.reserve(slots);
  for (slot i = 0; i < slots; ++i) push_back(free_, i);
}

chunk_store::entry& chunk_store::at(slot which, state expected) {
  ensure(which < slots_.size() && slots_[which].where == expected, "chunk_store: a slot is what its user takes it for");
  return slots_[which];
}

bool chunk_store::has(const chunk_name& name) const {
  const auto found = places_.find(name);
  return found != places_.end() && slots_[found->second].where == state::filed;
}

void chunk_store::touch(const chunk_name& name) {
  const auto found = places_.find(name);
  if (found == places_.end() || slots_[found->second].where != state::filed) return;
  auto& touched = slots_[found->second];
  touched.used = ++uses_;
  if (touched.pins > 0) return;
  remove(idle_, found->second);
  push_back(idle_, found->second);
}

std::optional<chunk_store::slot> chunk_store::reserve(const chunk_name& name, std::uint64_t since) {
  ensure(!knows(name), "chunk_store: a slot is reserved for a chunk that is not known");
  slot taken = free_.front;
  if (taken != none) {
    remove(free_, taken);
  } else {
    taken = idle_.front;
    if (taken == none || slots_[taken].used > since) return std::nullopt;
    remove(idle_, taken);
    places_.erase(slots_[taken].name);
    --filed_;
    ++counters_.evicted;
  }
  auto& reserved = slots_[taken];
  reserved.name = name;
  reserved.where = state::landing;
  places_.emplace(name, taken);
  ++landing_;
  return taken;
}

void chunk_store::file(slot where) {
  auto& landed = at(where, state::landing);
  landed.where = state::filed;
  landed.used = ++uses_;
  push_back(idle_, where);
  --landing_;
  ++filed_;
  ++counters_.filed;
}

void chunk_store::abandon(slot where) {
  auto& given_up = at(where, state::landing);
  places_.erase(given_up.name);
  given_up.where = state::free;
  push_back(free_, where);
  --landing_;
  ++counters_.abandoned;
}

std::optional<chunk_store::slot> chunk_store::pin(const chunk_name& name) {
  const auto found = places_.find(name);
  if (found == places_.end() || slots_[found->second].where != state::filed) return std::nullopt;
  auto& pinned = slots_[found->second];
  pinned.used = ++uses_;
  if (pinned.pins++ == 0) remove(idle_, found->second);
  return found->second;
}

void chunk_store::unpin(slot where) {
  auto& pinned = at(where, state::filed);
  ensure(pinned.pins > 0, "chunk_store: what is unpinned was pinned");
  pinned.used = ++uses_;
  if (--pinned.pins == 0) push_back(idle_, where);
}

void chunk_store::push_back(list& into, slot which) noexcept {
  slots_[which].previous = into.back;
  slots_[which].next = none;
  if (into.back == none)
    into.front = which;
  else
    slots_[into.back].next = which;
  into.back = which;
  ++into.size;
}

void chunk_store::remove(list& from, slot which) noexcept {
  auto& leaving = slots_[which];
  if (leaving.previous == none)
    from.front = leaving.next;
  else
    slots_[leaving.previous].next = leaving.next;
  if (leaving.next == none)
    from.back = leaving.previous;
  else
    slots_[leaving.next].previous = leaving.previous;
  leaving.previous = leaving.next = none;
  --from.size;
}

void chunk_store::check() const {
  check_list(free_, state::free);
  check_list(idle_, state::filed);
  std::uint32_t filed = 0, landing = 0, pinned = 0;
  for (slot i = 0; i < slots_.size(); ++i) {
    const auto& e = slots_[i];
    filed += e.where == state::filed ? 1 : 0;
    landing += e.where == state::landing ? 1 : 0;
    pinned += e.pins > 0 ? 1 : 0;
    ensure(e.pins == 0 || e.where == state::filed, "chunk_store: only filed chunks are read");
    ensure(e.used <= uses_, "chunk_store: uses are counted");
    if (e.where == state::free) continue;
    const auto found = places_.find(e.name);
    ensure(found != places_.end() && found->second == i, "chunk_store: every chunk is found by its name");
  }
  ensure(filed == filed_ && landing == landing_ && places_.size() == filed + landing, "chunk_store: slots are counted");
  ensure(idle_.size + pinned == filed, "chunk_store: filed chunks are read or may be taken");
  ensure(free_.size + filed + landing == slots_.size(), "chunk_store: each slot is in exactly one state");
}

void chunk_store::check_list(const list& of, state where) const {
  std::uint32_t count = 0;
  auto previous = none;
  for (auto i = of.front; i != none; previous = i, i = slots_[i].next) {
    ensure(slots_[i].where == where && slots_[i].pins == 0 && slots_[i].previous == previous,
           "chunk_store: lists are linked both ways");
    ensure(++count <= of.size, "chunk_store: lists end");
  }
  ensure(count == of.size && of.back == previous, "chunk_store: lists are counted");
}

} // namespace godwit::protocols
