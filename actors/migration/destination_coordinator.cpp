#include "migration/destination_coordinator.hpp"

#include "migration/recorded_states.hpp"

#include <godwit/protocols/kv/block_hash.hpp>

#include <span>
#include <string>
#include <utility>

namespace godwit::actors {

using protocols::migration_reason;
using runtime::async::task;

destination_coordinator::destination_coordinator(runtime::actor_context context, destination_task what)
    : actor(context), task_(std::move(what)),
      machine_(machine::limits{task_.environment.settings.limits.stages_max * 2, task_.blocks_max},
               static_cast<std::uint32_t>(task_.known.size())),
      blocks_(std::move(task_.known)) {}

runtime::behavior_of<destination_coordinator_interface> destination_coordinator::make_behavior() {
  monitor(task_.llumlet, [this](runtime::stop_reason) { quit(runtime::stop_reason::failed); });
  const auto lost = [this](runtime::stop_reason) { feed(machine::source_lost{}); };
  monitor(task_.opened.coordinator, lost);
  if (task_.opened.llumlet) monitor(task_.opened.llumlet, lost); // see source_coordinator::open
  for (const auto& effect : machine_.begin()) std::visit([this](const auto& e) { perform(e); }, effect);
  start(guard_lease());
  task_.environment.pass("destination.opened");
  return {[this](protocols::pre_alloc& what) {
            feed(machine::asked_room{what.stage, what.first, what.upto});
          },
          [this](commit_move& what) {
            const auto& moved = what.request;
            const bool agrees =
                moved.request == task_.opened.request && what.blocks == protocols::blocks_for(moved.computed);
            if (!agrees) return feed(machine::abort_ordered{migration_reason::incompatible});
            if (!commit_) commit_ = std::move(what);
            task_.environment.pass("destination.commit");
            feed(machine::committed{commit_->blocks});
          },
          [this](protocols::abort_migration& what) { feed(machine::abort_ordered{what.reason}); },
          [this](landed_news& news) { landed(news); }};
}

void destination_coordinator::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  quit(runtime::stop_reason::failed);
}

// The memory is held until no write can land (`keep`); the blocks are the llumlet's, which waits for that too.
void destination_coordinator::on_stop() {
  for (std::uint32_t stage = 0; stage < posted_; ++stage)
    task_.environment.fabric->withdraw({task_.transfer, stage}, [] {});
}

void destination_coordinator::feed(const machine::event& what) {
  events_.push_back(what);
  if (feeding_) return;
  feeding_ = true;
  while (!events_.empty()) {
    const auto from = machine_.where();
    const auto effects = machine_.step(events_.front());
    note_state(task_.opened.migration, task_.opened.request, from, machine_.where(), events_.front());
    events_.pop_front();
    for (const auto& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  }
  feeding_ = false;
}

void destination_coordinator::perform(const machine::set_lease& e) {
  lease_ = e.lease;
  lease_until_ = now() + task_.environment.settings.lease;
}

// One watch for all renewals.
task<void> destination_coordinator::guard_lease() {
  while (!machine_.done()) {
    co_await sleep_for(lease_until_ - now());
    if (now() < lease_until_) continue;
    if (machine_.where() == machine::phase::receiving) task_.environment.pass("destination.expired");
    feed(machine::lease_expired{lease_});
    lease_until_ = now() + task_.environment.settings.lease;
  }
}

void destination_coordinator::perform(const machine::reserve& e) { start(reserve(machine_.stages() - 1, e.blocks)); }

task<void> destination_coordinator::reserve(std::uint32_t stage, std::uint32_t blocks) {
  auto answer = co_await ask(task_.llumlet, task_.environment.settings.answer_timeout,
                             reserve_order{task_.opened.migration, stage, blocks});
  // A llumlet that does not answer has failed, and we with it.
  if (!answer) {
    quit(runtime::stop_reason::failed);
    co_return;
  }
  blocks_.insert(blocks_.end(), answer->blocks.begin(), answer->blocks.end());
  feed(machine::room{answer->granted});
}

void destination_coordinator::perform(const machine::post& e) {
  auto regions = task_.memory->regions(std::span{blocks_}.subspan(e.first, e.upto - e.first));
  posted_ = e.stage + 1;
  landings_.resize(posted_);
  const auto blocks = e.upto - e.first;
  landings_[e.stage].regions = regions.size();
  landings_[e.stage].span =
      begin_transfer_span(task_.opened.request, {"in", task_.opened.source, task_.transfer, e.stage, blocks,
                                                 std::uint64_t{blocks} * task_.memory->block_bytes()});
  task_.environment.fabric->post({task_.transfer, e.stage}, std::move(regions), task_.memory->keep(),
                                 [&host = host(), me = self(), stage = e.stage,
                                  span = landings_[e.stage].span.as_cause()](const transport::landing& news) {
                                   const runtime::trace::because_of transfer(span);
                                   host.tell(me, landed_news{stage, news.regions, news.error});
                                 });
  // Blocks without memory of their own: there is nothing that could land, so it has.
  if (task_.memory->regions_per_block() == 0) feed(machine::landed{e.stage, blocks});
}

void destination_coordinator::landed(const landed_news& news) {
  if (news.stage < landings_.size()) {
    auto& [regions, span] = landings_[news.stage];
    if (!news.error.empty()) span.add("error", news.error);
    if (!news.error.empty() || news.regions >= regions) span.end();
  }
  if (!news.error.empty()) {
    task_.environment.log.request(task_.opened.request)
        .warning("migration {}: stage {} did not land: {}", task_.opened.migration.value(), news.stage, news.error);
    return feed(machine::transfer_failed{});
  }
  const auto per_block = task_.memory->regions_per_block();
  feed(machine::landed{news.stage, static_cast<std::uint32_t>(per_block == 0 ? 0 : news.regions / per_block)});
  task_.environment.pass("destination.landed");
}

void destination_coordinator::perform(const machine::answer_room& e) {
  tell(task_.opened.coordinator, protocols::pre_alloc_answer{e.stage, e.reason});
  task_.environment.pass("destination.reserved");
}

void destination_coordinator::perform(const machine::close&) {
  closing_ = posted_;
  if (closing_ == 0) return feed(machine::closed{});
  for (std::uint32_t stage = 0; stage < posted_; ++stage) start(close(stage));
}

task<void> destination_coordinator::close(std::uint32_t stage) {
  const auto withdraw = [this, stage](runtime::completer<bool> done) {
    task_.environment.fabric->withdraw({task_.transfer, stage}, [done] { done(true); });
  };
  const auto closed = co_await callback<bool>(withdraw);
  if (!closed) { // nobody knows whether something may still land there
    quit(runtime::stop_reason::failed);
    co_return;
  }
  if (--closing_ == 0) feed(machine::closed{});
}

void destination_coordinator::perform(const machine::adopt&) {
  task_.environment.pass("destination.adopting");
  start(adopt());
}

task<void> destination_coordinator::adopt() {
  const auto& s = task_.environment.settings;
  auto order = adopt_order{task_.opened.migration, std::move(*commit_)};
  const auto answer = co_await ask(task_.llumlet, s.claim_timeout * (s.claims_max + 2), std::move(order));
  feed(machine::adoption{answer && answer->granted});
}

void destination_coordinator::perform(const machine::free_blocks&) {
  tell(task_.llumlet, return_order{task_.opened.migration, machine_.why()});
}

void destination_coordinator::perform(const machine::answer_commit& e) {
  tell(task_.opened.coordinator, protocols::commit_answer{e.adopted});
  task_.environment.pass("destination.answered");
}

void destination_coordinator::perform(const machine::finish&) { quit(); }

} // namespace godwit::actors
