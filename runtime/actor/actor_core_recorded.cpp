#include "actor/actor_core.hpp"

#include "actor/engine.hpp"
#include "actor/protocol.hpp"

#include <algorithm>

// What an actor does besides where it is recorded.
namespace godwit::runtime::detail {

deadlines::time_point actor_core::moment() const {
  if (const auto* t = recorded())
    if (const auto frozen = t->core().frozen_ns(); frozen >= 0)
      return engine_.caf_zero() + std::chrono::nanoseconds(frozen);
  return home_system().clock().now();
}

async::parked* actor_core::take(async::wait_id wait) {
  auto* waiter = frames_.take(wait);
  if (!waiter || !recorded()) return waiter;
  if (!resumed_ && wait.slot < parked_by_.size()) woken_for_ = parked_by_[wait.slot];
  resumed_ = true;
  return waiter;
}

void actor_core::handle_recorded(tracing& t, caf::mailbox_element& x) {
  auto* l = letter::of(x);
  stamp* mark = nullptr;
  if (l)
    mark = &l->mark;
  else if (auto* marked = marked_element::of(x))
    mark = &marked->mark;
  if (mark && mark->counted) handled_.store(handled_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  auto& core = t.core();
  auto& m = core.at();
  core.finish(m);
  m.frozen_ns = -1;
  if (!t.on() || !m.book) {
    if (t.on()) core.miss();
    m.current = 0;
    m.handling = false;
    return handle(x, l);
  }
  stamp late; // it was queued before anybody recorded
  if (!mark || mark->id == 0) {
    t.made(late);
    late.cause = 0;
    late.outside = true;
    mark = &late;
  }
  t.describe(m.now, x, l, *mark, *this, engine_);
  m.whole = core.whole();
  const auto my_name = [this] { return user_ ? user_->name() : std::string_view{}; };
  m.kept = core.keeps(m, m.now, my_name);
  m.now.begin = m.last_end != 0 ? std::max(m.last_end, mark->queued) : core.ticks();
  if (m.whole) {
    const auto ns = core.now_ns();
    if (m.kept) t.keep_content(m.book->whole, x, l, engine_);
    m.book->whole.begin_ns = ns;
    if (!engine_.exact_alarms) m.frozen_ns = ns;
  }
  core.show(m, my_name);
  m.now.first = m.book->next++; // its own: along a thread they rise
  m.current = mark->id;
  m.handling = true;
  m.pending = true;
  resumed_ = false;
  woken_for_ = 0;
  handle(x, l);
  m.now.resumed = resumed_;
  // a completion or a timer: because of what was being handled when the wait began
  if (m.now.cause == 0 && woken_for_ != 0) {
    m.now.cause = woken_for_;
    m.now.cause_process = t.process();
  }
  m.last_end = m.now.end = core.ticks();
}

void actor_core::born(trace::event birth) {
  birth.receiver = {engine_.tracer->process(), id()};
  birth_ = std::make_unique<trace::event>(std::move(birth));
}

void actor_core::begin_recorded() {
  auto& core = engine_.tracer->core();
  auto& m = core.at();
  core.finish(m);
  if (!m.book) return;
  m.now = {};
  m.now.process = m.now.receiver_process = engine_.tracer->process();
  m.now.receiver = id();
  m.current = birth_->id.number;
  m.handling = core.on();
  birth_->first = m.book->next++;
  birth_->begin_ns = core.now_ns();
  birth_->thread = m.book->number;
  if (core.whole() && !engine_.exact_alarms) m.frozen_ns = birth_->begin_ns;
}

void actor_core::began_recorded() {
  auto& core = engine_.tracer->core();
  auto& m = core.at();
  birth_->end_ns = std::max(birth_->begin_ns, core.now_ns());
  if (m.book) birth_->made = m.book->next - birth_->first;
  core.actor_began(*birth_, user_->name());
  birth_.reset();
}

void actor_core::ended_recorded() {
  auto& core = engine_.tracer->core();
  const trace::actor_id me{engine_.tracer->process(), id()};
  const auto name = core.name_of(me);
  core.actor_ended(me);
  if (!core.on()) return;
  stamp mark;
  engine_.tracer->made(mark);
  trace::event e;
  e.kind = trace::event_kind::ended;
  e.id = {engine_.tracer->process(), mark.id};
  if (mark.cause != 0) e.cause = {mark.cause_process, mark.cause};
  e.receiver = me;
  e.queued_ns = e.begin_ns = e.end_ns = core.now_ns();
  core.add(std::move(e), name);
}

} // namespace godwit::runtime::detail
