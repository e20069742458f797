#include "migration/source_coordinator.hpp"

#include "migration/recorded_states.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace godwit::actors {

using protocols::migration_reason;
using runtime::async::task;

namespace {

/// A third of what the fabric over UCX keeps a connection that nobody uses.
constexpr std::chrono::seconds reach_lasts{10};

constexpr const char* phase_name(protocols::migration_source::phase phase) noexcept {
  using p = protocols::migration_source::phase;
  switch (phase) {
  case p::preparing:
    return "preparing";
  case p::opening:
    return "opening";
  case p::reserving:
    return "reserving";
  case p::copying:
  case p::looking:
    return "copying";
  case p::parking:
    return "parking";
  case p::extending:
  case p::committing:
    return "committing";
  case p::settling:
    return "settling";
  case p::ended:
    return "ended";
  }
  return "unknown";
}

} // namespace

source_coordinator::source_coordinator(runtime::actor_context context, source_task what)
    : actor(context), task_(std::move(what)),
      machine_(task_.start, task_.environment.settings.limits, task_.blocks_most),
      pacer_(task_.environment.settings.pace_of_copies(task_.memory->on_host())) {}

runtime::behavior_of<source_coordinator_interface> source_coordinator::make_behavior() {
  began_ = now();
  // Without its llumlet there is nothing to move, and nobody to tell.
  monitor(task_.llumlet, [this](runtime::stop_reason) { quit(runtime::stop_reason::failed); });
  feeding_ = true;
  for (const auto& effect : machine_.begin()) std::visit([this](const auto& e) { perform(e); }, effect);
  feeding_ = false;
  drain(); // what was answered at once
  return {[this](protocols::pre_alloc_answer& answer) {
            if (answer.reason != migration_reason::none)
              feed(machine::refused{answer.reason});
            else if (reached_ && (now() - *reached_ < reach_lasts || machine_.where() != machine::phase::reserving))
              feed(machine::reserved{answer.stage});
            else
              start(reach(answer.stage));
          },
          [this](protocols::commit_answer& answer) { feed(machine::commit_answered{answer.adopted}); },
          [this](request_gone& what) {
            feed(machine::gone{what.reason, what.left});
          }};
}

void source_coordinator::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  quit(runtime::stop_reason::failed);
}

// Effects may bring events at once; they wait until the effects before them are performed.
void source_coordinator::feed(const machine::event& what) {
  events_.push_back(what);
  if (!feeding_) drain();
}

void source_coordinator::drain() {
  feeding_ = true;
  while (!events_.empty() && !machine_.done()) {
    const auto from = machine_.where();
    const auto effects = machine_.step(events_.front());
    note_state(task_.migration, task_.order.request, from, machine_.where(), events_.front());
    events_.pop_front();
    for (const auto& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  }
  feeding_ = false;
  if (!machine_.done()) tell_status();
}

void source_coordinator::perform(const machine::set_timer& e) {
  const auto& s = task_.environment.settings;
  timer_ = e.timer;
  deadline_ = now() + (e.kind == machine::timer_kind::stage  ? s.stage_timeout
                       : e.kind == machine::timer_kind::last ? s.last_timeout
                                                             : s.answer_timeout);
  // A shorter limit after a longer one needs a watch of its own.
  start(watch_time());
}

task<void> source_coordinator::watch_time() {
  const auto timer = timer_;
  co_await sleep_for(deadline_ - now());
  feed(machine::timed_out{timer});
}

void source_coordinator::perform(const machine::ask_home&) { start(prepare()); }

task<void> source_coordinator::prepare() {
  const auto answer = co_await ask(task_.home, task_.environment.settings.answer_timeout,
                                   protocols::prepare_move{task_.order.request, task_.order.epoch, task_.migration,
                                                           task_.order.to, task_.order.cause});
  if (!answer) {
    feed(machine::stop{migration_reason::home_lost});
    co_return;
  }
  accepted_ = answer->accepted;
  feed(machine::prepared{answer->wanted});
}

void source_coordinator::perform(const machine::open_destination& e) { start(open(e.blocks)); }

task<void> source_coordinator::open(std::uint32_t blocks) {
  auto message = open_migration{task_.migration, task_.order.request, task_.source, blocks, task_.kv_layout,
                                self(),          task_.llumlet};
  message.devices = task_.memory->devices();
  message.adapter = task_.adapter;
  message.tokens = std::move(task_.tokens);
  message.cache_salt = task_.cache_salt;
  auto answer = co_await ask(task_.order.destination, task_.environment.settings.answer_timeout, std::move(message));
  if (!answer) {
    feed(machine::refused{migration_reason::destination_not_ready});
    co_return;
  }
  if (answer->reason != migration_reason::none) {
    feed(machine::refused{answer->reason});
    co_return;
  }
  destination_ = answer->coordinator;
  auto memory = task_.memory->common_with(answer->devices);
  if (!memory) { // it thought otherwise
    tell(destination_, protocols::abort_migration{migration_reason::incompatible});
    feed(machine::refused{migration_reason::incompatible});
    co_return;
  }
  task_.memory = std::move(memory);
  fabric_ = std::move(answer->fabric);
  transfer_ = answer->transfer;
  // The llumlet too: of processes that reach each other through the head, the topology says when one is gone, and only
  // of llumlets (docs/design/membership.md).
  const auto lost = [this](runtime::stop_reason) { feed(machine::peer_lost{}); };
  monitor(destination_, lost);
  monitor(task_.order.destination, lost);
  known_ = answer->known;
  task_.environment.pass("source.opened");
  feed(machine::opened{known_});
}

void source_coordinator::perform(const machine::reserve& e) {
  stage_first_.resize(e.stage + 1);
  stage_first_[e.stage] = e.first;
  tell(destination_, protocols::pre_alloc{e.stage, e.first, e.upto});
}

// An empty send on the last stage's way, while the request still runs: a fabric that cannot be reached is found out
// before it stands still, and no connection has to be made then. Once more where the
// copies before it took long.
task<void> source_coordinator::reach(std::uint32_t stage) {
  reached_ = now();
  auto send = [this, stage](runtime::completer<std::string> done) {
    task_.environment.fabric->send(fabric_, {transfer_, stage}, 0, {}, transport::transfer_priority::urgent,
                                   task_.environment.settings.answer_timeout, nullptr,
                                   [done](std::string error) { done(std::move(error)); });
  };
  const auto error = co_await callback<std::string>(send);
  if (error && error->empty()) {
    feed(machine::reserved{stage});
    co_return;
  }
  task_.environment.log.request(task_.order.request)
      .warning("migration {}: instance {} cannot be reached over the fabric: {}", task_.migration.value(),
               task_.order.to.value(), error ? *error : error.error().message);
  feed(machine::stop{migration_reason::transfer_failed});
}

void source_coordinator::perform(const machine::copy& e) {
  if (e.last) ++last_copies_;
  start(copy_blocks(e));
}

task<void> source_coordinator::copy_blocks(machine::copy what) {
  task_.environment.pass(what.last ? "source.last_copy" : "source.copying");
  const auto per_block = task_.memory->regions_per_block();
  const auto bytes_per_block = task_.memory->block_bytes();
  const auto portion = what.last
                           ? what.upto - what.first
                           : static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
                                 task_.environment.settings.portion_bytes / std::max<std::uint64_t>(bytes_per_block, 1),
                                 1, what.upto - what.first));
  if (what.last) last_bytes_ += std::uint64_t{portion} * bytes_per_block; // now: the commit may end us before its echo
  for (auto first = what.first; first < what.upto; first += portion) {
    const auto count = std::min(portion, what.upto - first);
    const auto began = now();
    const transport::transfer_key key{transfer_, what.stage};
    auto send = [this, key, offset = (first - stage_first_[what.stage]) * per_block,
                 regions = task_.memory->regions(std::span{blocks_}.subspan(first, count)),
                 urgent = what.last](runtime::completer<std::string> done) mutable {
      const auto& settings = task_.environment.settings;
      task_.environment.fabric->send(fabric_, key, offset, std::move(regions),
                                     urgent ? transport::transfer_priority::urgent : transport::transfer_priority::bulk,
                                     urgent ? settings.last_timeout : settings.stage_timeout, task_.memory->keep(),
                                     [done](std::string error) { done(std::move(error)); });
    };
    const recorded_transfer way{"out",      task_.order.to, transfer_,
                                what.stage, count,          std::uint64_t{count} * bytes_per_block};
    auto span = begin_transfer_span(task_.order.request, way);
    const auto error = co_await callback<std::string>(send);
    if (!error || !error->empty()) span.add("error", error ? *error : error.error().message);
    span.end();
    if (!error || !error->empty()) {
      task_.environment.log.request(task_.order.request)
          .warning("migration {}: stage {} could not be copied: {}", task_.migration.value(), what.stage,
                   error ? *error : error.error().message);
      if (what.last) --last_copies_;
      feed(machine::copy_failed{what.stage});
      end_when_quiet();
      co_return;
    }
    if (!what.last) bytes_ += std::uint64_t{count} * bytes_per_block;
    if (!what.last && first + count < what.upto) {
      const auto stage_bytes = std::uint64_t{what.upto - what.first} * bytes_per_block;
      const auto rest = pacer_.rest(std::uint64_t{count} * bytes_per_block, stage_bytes, now() - began);
      if (rest != nanoseconds{0}) co_await sleep_for(rest);
    }
    if (machine_.done() && !what.last) co_return;
  }
  task_.environment.pass("source.copied");
  if (what.last) --last_copies_;
  feed(machine::copied{what.stage});
  end_when_quiet();
}

void source_coordinator::perform(const machine::look&) { start(look()); }

task<void> source_coordinator::look() {
  auto answer = co_await ask(task_.llumlet, task_.environment.settings.answer_timeout,
                             look_order{task_.order.request, task_.order.epoch});
  if (!answer || !answer->here) co_return; // request_gone is on the way, or the llumlet's end
  blocks_ = std::move(answer->blocks);
  feed(machine::looked{answer->now});
}

void source_coordinator::perform(const machine::park&) { start(park()); }

task<void> source_coordinator::park() {
  auto answer = co_await ask(task_.llumlet, task_.environment.settings.stage_timeout,
                             park_order{task_.order.request, task_.order.epoch, accepted_});
  if (!answer || !answer->parked) co_return;
  parked_ = now();
  blocks_ = std::move(answer->blocks);
  state_ = std::move(answer->state);
  home_ = answer->home;
  task_.environment.pass("source.parked");
  feed(machine::parked{answer->now});
}

void source_coordinator::perform(const machine::commit& e) {
  tell(destination_, commit_move{std::move(state_), home_, e.blocks});
  task_.environment.pass("source.committing");
}

void source_coordinator::perform(const machine::abort_destination& e) {
  if (destination_) tell(destination_, protocols::abort_migration{e.reason});
}

void source_coordinator::perform(const machine::resume&) {
  unparked_ = now();
  tell(task_.llumlet, resume_order{task_.order.request, task_.order.epoch});
}

void source_coordinator::perform(const machine::release&) {
  unparked_ = now();
  task_.environment.pass("source.committed");
  tell(task_.llumlet, release_order{task_.order.request, task_.order.epoch});
}

void source_coordinator::perform(const machine::settle&) { start(settle()); }

task<void> source_coordinator::settle() {
  const auto& s = task_.environment.settings;
  // The llumlet bounds its questions; should it not answer all the same, it is what has failed.
  const auto answer = co_await ask(task_.llumlet, s.claim_timeout * (s.claims_max + 2),
                                   settle_order{task_.order.request, task_.order.epoch});
  unparked_ = now();
  feed(machine::settled{answer ? answer->how : machine::settlement::lost});
}

std::chrono::nanoseconds source_coordinator::stall() const {
  if (parked_ == nanoseconds{0}) return nanoseconds{0};
  return (unparked_ == nanoseconds{0} ? now() : unparked_) - parked_;
}

void source_coordinator::tell_status() {
  protocols::migration_status status;
  status.migration = task_.migration;
  status.request = task_.order.request;
  status.source = task_.source;
  status.destination = task_.order.to;
  status.phase = phase_name(machine_.where());
  status.stage = machine_.stages();
  status.bytes = bytes_ + last_bytes_;
  status.stall_ns = stall().count();
  status.age_ns = (now() - began_).count();
  tell(task_.llumlet, migration_news{std::move(status)});
}

void source_coordinator::perform(const machine::finish& e) {
  protocols::migration_report report;
  report.migration = task_.migration;
  report.request = task_.order.request;
  report.epoch = task_.order.epoch;
  report.source = task_.source;
  report.destination = task_.order.to;
  report.outcome = e.outcome;
  report.reason = e.reason;
  report.stages = machine_.stages();
  report.blocks = static_cast<std::uint32_t>(blocks_.size());
  report.known = known_;
  report.bytes = bytes_ + last_bytes_;
  report.last_bytes = last_bytes_;
  report.stall_ns = stall().count();
  report.duration_ns = (now() - began_).count();
  report.cause = task_.order.cause;
  report_ = std::move(report);
  end_when_quiet();
}

// The llumlet holds the blocks of the last copy until it hears that this migration has ended.
void source_coordinator::end_when_quiet() {
  if (!report_ || last_copies_ > 0) return;
  tell(task_.llumlet, source_ended{std::move(*report_)});
  report_.reset();
  quit();
}

} // namespace godwit::actors
