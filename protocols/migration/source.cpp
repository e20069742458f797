#include <godwit/protocols/migration/source.hpp>

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/block_hash.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

migration_source::effects migration_source::begin() {
  ensure(timer_ == 0 && !done(), "migration_source: begins once");
  effects out;
  arm(timer_kind::answer, out);
  out.emplace_back(ask_home{});
  return out;
}

migration_source::effects migration_source::step(const event& what) {
  effects out;
  if (!done()) std::visit([&](const auto& e) { on(e, out); }, what);
  return out;
}

void migration_source::arm(timer_kind kind, effects& out) { out.emplace_back(set_timer{++timer_, kind}); }

void migration_source::on(const prepared& e, effects& out) {
  if (phase_ != phase::preparing) return;
  if (!e.wanted) return end(migration_outcome::refused, migration_reason::home_refused, out);
  phase_ = phase::opening;
  opened_ = true; // its answer may be lost
  arm(timer_kind::answer, out);
  out.emplace_back(open_destination{blocks_for(progress_.computed)});
}

void migration_source::on(const opened& e, effects& out) {
  if (phase_ != phase::opening) return;
  if (e.blocks > progress_.computed / tokens_per_block) return give_up(migration_reason::incompatible, out);
  copied_ = reserved_ = e.blocks;
  phase_ = phase::looking;
  arm(timer_kind::answer, out);
  out.emplace_back(look{});
}

void migration_source::on(const refused& e, effects& out) {
  if (phase_ == phase::opening) {
    opened_ = false;
    end(migration_outcome::refused, e.reason, out);
  } else if (phase_ == phase::reserving || phase_ == phase::extending) {
    give_up(e.reason, out);
  }
}

void migration_source::on(const looked& e, effects& out) {
  if (phase_ != phase::looking) return;
  if (e.now.preemptions != progress_.preemptions || e.now.computed < progress_.computed)
    return give_up(migration_reason::request_preempted, out);
  progress_ = e.now;
  next_stage(out);
}

void migration_source::next_stage(effects& out) {
  if (progress_.computed == 0) { // it waits: nothing to copy, only to hand over
    phase_ = phase::parking;
    park_ordered_ = true;
    arm(timer_kind::stage, out);
    out.emplace_back(park{});
    return;
  }
  const auto complete = progress_.computed / tokens_per_block;
  last_ = complete - copied_ <= limits_.last_blocks_max;
  if (!last_ && stages() + 1 >= limits_.stages_max) return give_up(migration_reason::not_converging, out);
  stage_ += begun_ ? 1 : 0;
  begun_ = true;
  first_ = copied_;
  // The last stage has room for the block that is being written and for the one after it, so that a step more or less
  // until the request is out of the batch costs no further round trip.
  const auto now = blocks_for(progress_.computed);
  upto_ = last_ ? std::max(now, std::min(now + 1, blocks_most_)) : complete;
  phase_ = phase::reserving;
  arm(timer_kind::answer, out);
  out.emplace_back(reserve{stage_, first_, upto_});
}

void migration_source::on(const reserved& e, effects& out) {
  if (e.stage != stage_) return;
  if (phase_ == phase::extending) {
    reserved_ = upto_;
    return last_copy(out);
  }
  if (phase_ != phase::reserving) return;
  reserved_ = upto_;
  arm(timer_kind::stage, out);
  if (last_) {
    phase_ = phase::parking;
    park_ordered_ = true;
    out.emplace_back(park{});
  } else {
    phase_ = phase::copying;
    out.emplace_back(copy{stage_, first_, upto_, false});
  }
}

void migration_source::on(const copied& e, effects& out) {
  if (phase_ != phase::copying || e.stage != stage_) return;
  copied_ = upto_;
  phase_ = phase::looking;
  arm(timer_kind::answer, out);
  out.emplace_back(look{});
}

void migration_source::on(const copy_failed& e, effects& out) {
  if (phase_ == phase::copying && e.stage == stage_)
    give_up(migration_reason::transfer_failed, out);
  else if (phase_ == phase::committing)
    ask_who_owns(migration_reason::transfer_failed, out);
}

void migration_source::on(const parked& e, effects& out) {
  if (phase_ != phase::parking) return;
  parked_ = true;
  if (e.now.preemptions != progress_.preemptions || e.now.computed < progress_.computed)
    return give_up(migration_reason::request_preempted, out);
  progress_ = e.now;
  const auto needed = blocks_for(progress_.computed);
  if (needed <= reserved_) return last_copy(out);
  phase_ = phase::extending;
  stage_ += begun_ ? 1 : 0;
  begun_ = true;
  first_ = reserved_;
  upto_ = needed;
  arm(timer_kind::last, out);
  out.emplace_back(reserve{stage_, first_, upto_});
}

void migration_source::last_copy(effects& out) {
  const auto needed = blocks_for(progress_.computed);
  const bool extended = phase_ == phase::extending;
  phase_ = phase::committing;
  commit_sent_ = true;
  arm(timer_kind::last, out);
  // The commit travels beside the blocks: the destination acts on it when all of them are there.
  const auto before = extended ? first_ : needed; // blocks that have room from the stage before the extension
  if (copied_ < before) out.emplace_back(copy{extended ? stage_ - 1 : stage_, copied_, before, true});
  if (before < needed) out.emplace_back(copy{stage_, before, needed, true});
  out.emplace_back(commit{needed});
}

void migration_source::on(const gone& e, effects& out) {
  if (phase_ == phase::settling) return; // the answer to `settle` tells the rest
  if (e.left) park_ordered_ = false;     // nothing to resume
  if (!commit_sent_) return give_up(e.reason, out);
  if (!e.left) return; // parked requests are not preempted
  out.emplace_back(abort_destination{e.reason});
  end(migration_outcome::aborted, e.reason, out);
}

void migration_source::on(const commit_answered& e, effects& out) {
  if (phase_ != phase::committing) return;
  if (!e.adopted) return ask_who_owns(migration_reason::home_refused, out);
  out.emplace_back(release{});
  end(migration_outcome::committed, migration_reason::none, out);
}

void migration_source::on(const settled& e, effects& out) {
  if (phase_ != phase::settling) return;
  switch (e.how) {
  case settlement::resumed:
    return end(migration_outcome::reclaimed, why_, out);
  case settlement::moved:
    return end(migration_outcome::committed, migration_reason::none, out);
  case settlement::ended:
    return end(migration_outcome::aborted, migration_reason::request_cancelled, out);
  case settlement::lost:
    return end(migration_outcome::lost, why_, out);
  }
}

void migration_source::on(const peer_lost&, effects& out) {
  if (phase_ == phase::settling || phase_ == phase::preparing) return;
  if (commit_sent_)
    ask_who_owns(migration_reason::peer_lost, out);
  else
    give_up(migration_reason::peer_lost, out);
}

void migration_source::on(const stop& e, effects& out) {
  if (phase_ == phase::settling) return;
  if (commit_sent_)
    ask_who_owns(e.reason, out);
  else
    give_up(e.reason, out);
}

void migration_source::on(const timed_out& e, effects& out) {
  if (e.timer != timer_ || phase_ == phase::settling) return;
  if (commit_sent_)
    ask_who_owns(migration_reason::timed_out, out);
  else
    give_up(migration_reason::timed_out, out);
}

void migration_source::give_up(migration_reason why, effects& out) {
  ensure(!commit_sent_, "migration_source: what is committed is not given up");
  if (park_ordered_) out.emplace_back(resume{});
  if (opened_) out.emplace_back(abort_destination{why});
  end(migration_outcome::aborted, why, out);
}

void migration_source::ask_who_owns(migration_reason why, effects& out) {
  why_ = why;
  phase_ = phase::settling;
  ++timer_; // whoever settles is bounded by itself
  out.emplace_back(abort_destination{why});
  out.emplace_back(settle{});
}

void migration_source::end(migration_outcome outcome, migration_reason why, effects& out) {
  phase_ = phase::ended;
  out.emplace_back(finish{outcome, why});
}

} // namespace godwit::protocols
