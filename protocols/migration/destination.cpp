#include <godwit/protocols/migration/destination.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>

namespace godwit::protocols {

migration_destination::effects migration_destination::begin() {
  ensure(lease_ == 0, "migration_destination: begins once");
  effects out;
  renew(out);
  return out;
}

migration_destination::effects migration_destination::step(const event& what) {
  effects out;
  std::visit([&](const auto& e) { on(e, out); }, what);
  return out;
}

void migration_destination::renew(effects& out) { out.emplace_back(set_lease{++lease_}); }

void migration_destination::on(const asked_room& e, effects& out) {
  if (phase_ != phase::receiving) {
    if (!done() && phase_ != phase::aborting) return;
    out.emplace_back(answer_room{e.stage, why_ == migration_reason::none ? migration_reason::timed_out : why_});
    return;
  }
  renew(out);
  if (e.stage < stages_.size()) { // repeated
    const auto& known = stages_[e.stage];
    if (pending_room_ && e.stage + 1 == stages_.size()) return; // its answer comes
    const bool same = known.first == e.first && known.upto == e.upto;
    out.emplace_back(answer_room{e.stage, same ? migration_reason::none : migration_reason::incompatible});
    return;
  }
  // A peer's figures are checked, not trusted. A last stage begins before the blocks reserved end: [first, upto) may
  // overlap nothing that has landed, but begins where the stages before it end.
  const bool sound = e.stage == stages_.size() && e.first == reserved_ && e.first < e.upto &&
                     e.upto <= limits_.blocks_max && stages_.size() < limits_.stages_max && !pending_room_ &&
                     !commit_known_;
  if (!sound) {
    out.emplace_back(answer_room{e.stage, migration_reason::incompatible});
    return give_up(migration_reason::incompatible, out);
  }
  stages_.push_back({e.first, e.upto, 0});
  pending_room_ = true;
  out.emplace_back(reserve{e.upto - e.first});
}

void migration_destination::on(const room& e, effects& out) {
  if (!pending_room_) return;
  pending_room_ = false;
  const auto stage = static_cast<std::uint32_t>(stages_.size() - 1);
  if (e.granted)
    reserved_ = stages_.back().upto;
  else
    stages_.pop_back();
  if (phase_ == phase::aborting) {
    if (closed_) end_aborted(out);
    return;
  }
  if (!e.granted) {
    out.emplace_back(answer_room{stage, migration_reason::destination_full});
    return give_up(migration_reason::destination_full, out);
  }
  out.emplace_back(post{stage, stages_.back().first, stages_.back().upto});
  out.emplace_back(answer_room{stage, migration_reason::none});
}

void migration_destination::on(const landed& e, effects& out) {
  if (phase_ != phase::receiving || e.stage >= stages_.size()) return;
  auto& books = stages_[e.stage];
  if (e.blocks > books.landed) renew(out);
  books.landed = std::max(books.landed, e.blocks);
  try_close(out);
}

void migration_destination::on(const committed& e, effects& out) {
  switch (phase_) {
  case phase::receiving:
    break;
  case phase::closing:
  case phase::adopting:
    return; // the answer comes
  case phase::adopted:
    out.emplace_back(answer_commit{true});
    return;
  case phase::aborting:
  case phase::aborted:
    out.emplace_back(answer_commit{false});
    return;
  }
  if (commit_known_) return;
  // It never had room, for the last block at least, or it has lost what it had as it began.
  if (e.blocks > reserved_ || e.blocks < known_ || (e.blocks > 0 && stages_.empty())) {
    out.emplace_back(answer_commit{false});
    return give_up(migration_reason::incompatible, out);
  }
  renew(out);
  commit_known_ = true;
  commit_blocks_ = e.blocks;
  try_close(out);
}

bool migration_destination::all_landed() const noexcept {
  return std::ranges::all_of(stages_, [this](const stage_books& s) {
    const auto end = std::min(s.upto, commit_blocks_);
    return end <= s.first || s.landed >= end - s.first;
  });
}

void migration_destination::try_close(effects& out) {
  if (!commit_known_ || pending_room_ || !all_landed()) return;
  phase_ = phase::closing;
  out.emplace_back(close{});
}

void migration_destination::on(const closed&, effects& out) {
  if (phase_ == phase::closing) {
    phase_ = phase::adopting;
    closed_ = true;
    ++lease_; // the llumlet is bounded by itself
    out.emplace_back(adopt{commit_blocks_});
  } else if (phase_ == phase::aborting && !closed_) {
    closed_ = true;
    if (!pending_room_) end_aborted(out);
  }
}

void migration_destination::on(const adoption& e, effects& out) {
  if (phase_ != phase::adopting) return;
  phase_ = e.granted ? phase::adopted : phase::aborted;
  why_ = e.granted ? migration_reason::none : migration_reason::home_refused;
  out.emplace_back(answer_commit{e.granted});
  out.emplace_back(finish{e.granted, why_});
}

void migration_destination::on(const abort_ordered& e, effects& out) { give_up(e.reason, out); }

// With the commit and all blocks here nothing more is wanted from the source: it may die, and the home decides.
void migration_destination::on(const transfer_failed&, effects& out) {
  if (phase_ == phase::receiving) give_up(migration_reason::transfer_failed, out);
}
void migration_destination::on(const source_lost&, effects& out) {
  if (phase_ == phase::receiving) give_up(migration_reason::peer_lost, out);
}
void migration_destination::on(const lease_expired& e, effects& out) {
  if (phase_ == phase::receiving && e.lease == lease_) give_up(migration_reason::timed_out, out);
}

void migration_destination::give_up(migration_reason why, effects& out) {
  if (phase_ != phase::receiving && phase_ != phase::closing) return; // too late, or under way
  const bool closing = phase_ == phase::closing;
  phase_ = phase::aborting;
  why_ = why;
  if (commit_known_) out.emplace_back(answer_commit{false});
  if (!closing) out.emplace_back(close{}); // otherwise its answer is on the way
}

void migration_destination::end_aborted(effects& out) {
  phase_ = phase::aborted;
  out.emplace_back(free_blocks{});
  out.emplace_back(finish{false, why_});
}

} // namespace godwit::protocols
