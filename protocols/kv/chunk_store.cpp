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
  end_idle(found->second);
  become_idle(found->second);
}

std::optional<chunk_store::slot> chunk_store::reserve(const chunk_name& name, std::uint64_t since) {
  ensure(!knows(name), "chunk_store: a slot is reserved for a chunk that is not known");
  displaced_.reset();
  slot taken = free_.front;
  if (taken != none) {
    remove(free_, taken);
  } else {
    taken = next_to_go();
    if (taken == none || slots_[taken].used > since) return std::nullopt;
    end_idle(taken);
    displaced_ = slots_[taken].name;
    places_.erase(slots_[taken].name);
    --filed_;
    ++counters_.evicted;
  }
  auto& reserved = slots_[taken];
  reserved.name = name;
  reserved.where = state::landing;
  reserved.below = copy::none;
  places_.emplace(name, taken);
  ++landing_;
  return taken;
}

bool chunk_store::has_room() const noexcept { return free_.front != none || next_to_go() != none; }

bool chunk_store::has_spare() const noexcept {
  if (free_.front != none) return true;
  const auto next = next_to_go();
  return next != none && slots_[next].below == copy::there;
}

bool chunk_store::may_have_spare() const noexcept {
  return idle_.front != none && slots_[idle_.front].below != copy::failed;
}

chunk_store::slot chunk_store::next_to_go() const noexcept {
  auto out = idle_.front;
  while (out != none && slots_[out].holds > 0) out = slots_[out].next;
  return out;
}

void chunk_store::file(slot where, bool copied) {
  auto& landed = at(where, state::landing);
  landed.where = state::filed;
  landed.below = copied ? copy::there : copy::none;
  landed.used = ++uses_;
  become_idle(where);
  --landing_;
  ++filed_;
  if (!copied) ++counters_.filed;
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
  if (pinned.pins++ == 0) end_idle(found->second);
  return found->second;
}

void chunk_store::unpin(slot where) {
  auto& pinned = at(where, state::filed);
  ensure(pinned.pins > 0, "chunk_store: what is unpinned was pinned");
  pinned.used = ++uses_;
  if (--pinned.pins == 0) become_idle(where);
}

std::optional<chunk_store::slot> chunk_store::hold(const chunk_name& name) {
  const auto found = places_.find(name);
  if (found == places_.end() || slots_[found->second].where != state::filed) return std::nullopt;
  ++slots_[found->second].holds;
  return found->second;
}

void chunk_store::let_go(slot where) {
  auto& held = at(where, state::filed);
  ensure(held.holds > 0, "chunk_store: what is let go was held");
  --held.holds;
}

void chunk_store::drop(slot where) {
  auto& dropped = at(where, state::filed);
  ensure(dropped.pins == 0 && dropped.holds == 0, "chunk_store: what is dropped nobody reads");
  end_idle(where);
  places_.erase(dropped.name);
  dropped.where = state::free;
  push_back(free_, where);
  --filed_;
}

void chunk_store::retire(slot where) {
  abandon(where); // the last of the free ones
  while (free_.front != none) {
    const auto out = free_.front;
    remove(free_, out);
    slots_[out].where = state::retired;
    push_back(retired_, out);
  }
}

std::optional<chunk_store::slot> chunk_store::restore_one() {
  const auto back = retired_.front;
  if (back == none) return std::nullopt;
  remove(retired_, back);
  slots_[back].where = state::free;
  push_back(free_, back);
  return back;
}

void chunk_store::restore_all() {
  while (restore_one()) {
  }
}

std::optional<chunk_store::slot> chunk_store::begin_copy() {
  if (next_copy_ == none) return std::nullopt;
  const auto chosen = next_copy_;
  slots_[chosen].below = copy::going;
  ++slots_[chosen].holds;
  pass_copied();
  return chosen;
}

void chunk_store::end_copy(slot where, bool well) {
  ensure(at(where, state::filed).below == copy::going, "chunk_store: a copy ends that has begun");
  let_go(where);
  slots_[where].below = well ? copy::there : copy::failed;
}

void chunk_store::lose_copy(const chunk_name& name) {
  const auto found = places_.find(name);
  if (found == places_.end() || slots_[found->second].below != copy::there) return;
  slots_[found->second].below = copy::failed; // below, what was used longest ago is the first to go
}

const chunk_name& chunk_store::name_of(slot where) const {
  ensure(where < slots_.size() && (slots_[where].where == state::landing || slots_[where].where == state::filed),
         "chunk_store: a slot with a chunk has its name");
  return slots_[where].name;
}

void chunk_store::become_idle(slot which) noexcept {
  auto& idle = slots_[which];
  push_back(idle_, which);
  if (idle.below == copy::failed) idle.below = copy::none;
  if (next_copy_ != none) return;
  next_copy_ = which;
  pass_copied();
}

void chunk_store::end_idle(slot which) noexcept {
  auto& used = slots_[which];
  used.passed = false;
  const auto next = used.next;
  remove(idle_, which);
  if (next_copy_ != which) return;
  next_copy_ = next;
  pass_copied();
}

void chunk_store::pass_copied() noexcept {
  for (; next_copy_ != none && slots_[next_copy_].below != copy::none; next_copy_ = slots_[next_copy_].next)
    slots_[next_copy_].passed = true;
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
  check_list(retired_, state::retired);
  check_list(idle_, state::filed);
  std::uint32_t filed = 0, landing = 0, pinned = 0;
  for (slot i = 0; i < slots_.size(); ++i) {
    const auto& e = slots_[i];
    filed += e.where == state::filed ? 1 : 0;
    landing += e.where == state::landing ? 1 : 0;
    pinned += e.pins > 0 ? 1 : 0;
    ensure((e.pins == 0 && e.holds == 0) || e.where == state::filed, "chunk_store: only filed chunks are read");
    ensure(e.below != copy::going || e.holds > 0, "chunk_store: what is copied is held");
    ensure(e.used <= uses_, "chunk_store: uses are counted");
    if (e.where == state::free || e.where == state::retired) continue;
    const auto found = places_.find(e.name);
    ensure(found != places_.end() && found->second == i, "chunk_store: every chunk is found by its name");
  }
  ensure(filed == filed_ && landing == landing_ && places_.size() == filed + landing, "chunk_store: slots are counted");
  ensure(idle_.size + pinned == filed, "chunk_store: filed chunks are read or may be taken");
  bool before = true;
  for (auto i = idle_.front; i != none; i = slots_[i].next) {
    before = before && i != next_copy_;
    ensure(slots_[i].passed == before, "chunk_store: those before the next copy are passed");
    ensure(!before || slots_[i].below != copy::none, "chunk_store: the next copy is the oldest one");
  }
  ensure(next_copy_ == none || (!before && slots_[next_copy_].below == copy::none),
         "chunk_store: what is copied next is idle, and has no copy");
  ensure(free_.size + retired_.size + filed + landing == slots_.size(),
         "chunk_store: each slot is in exactly one state");
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
