#include <godwit/actors/frontend.hpp>

#include "recorded_decisions.hpp"
#include "watchers.hpp"

#include <algorithm>
#include <utility>

/// The home's part in live migrations: it decides who owns a request (protocols::request_ownership).
namespace godwit::actors {

using runtime::async::task;

namespace {

constexpr std::size_t told_moves_max = 256;

/// Whatever its source said of it: the destination has the request.
void commit(protocols::migration_report& report) {
  report.outcome = protocols::migration_outcome::committed;
  report.reason = protocols::migration_reason::none;
}

} // namespace

protocols::move_prepared frontend::prepare_move(const protocols::prepare_move& wish) {
  const auto* r = find(wish.request);
  if (r == nullptr || r->placing || !r->ownership.owner() || r->ownership.current_epoch() != wish.epoch) return {};
  const auto written_off = [&](const told_move& told) {
    return told.request == wish.request && told.epoch == wish.epoch && told.migration == protocols::migration_id{};
  };
  if (std::ranges::any_of(told_moves_, written_off)) return {};
  const std::pair key{wish.request, wish.epoch};
  if (moving_.size() < options_.requests_max || moving_.contains(key)) {
    auto& begun = moving_[key];
    begun = {};
    begun.known.migration = wish.migration;
    begun.known.request = wish.request;
    begun.known.epoch = wish.epoch;
    begun.known.source = r->owner_instance;
    begun.known.destination = wish.destination;
    begun.known.cause = wish.cause;
    begun.generation = r->owner_generation;
    begun.began = now();
  }
  return {true, r->ownership.next_index()};
}

protocols::claim_answer frontend::claim(protocols::claim_request& wish) {
  auto* r = find(wish.request);
  if (r == nullptr || r->placing) return {};
  if (r->ownership.current_epoch() == wish.from && !wish.tail.empty()) {
    // What the source drew last and may still be on its way here: accepted while its epoch lasts.
    auto tail = protocols::token_update{wish.request, wish.from, wish.tail_index, std::move(wish.tail)};
    tail.cached_tokens = r->cached_tokens;
    tail.prompt_scores = std::move(wish.prompt_scores);
    tail.queue_ns = wish.queued_ns;
    tail.prediction_accepted = wish.prediction_accepted;
    tail.prediction_rejected = wish.prediction_rejected;
    const bool cached_known = r->cached_known;
    take_one(tail);
    r = find(wish.request); // a stop string may have ended it
    if (r == nullptr || r->placing) return {};
    r->cached_known = cached_known; // the tail does not say; the next update does
  }
  const auto* entry = topology_.find(wish.instance);
  if (entry == nullptr || entry->generation != wish.generation || !entry->llumlet) return {};
  const bool first = r->ownership.current_epoch() == wish.from;
  const auto granted = r->ownership.claim(wish.from, wish.instance, wish.generation);
  if (!granted) return {};
  r->owner = entry->llumlet;
  r->owner_instance = entry->instance;
  r->owner_generation = entry->generation;
  r->last_heard = now();
  if (first) {
    if (const auto begun = moving_.find({wish.request, wish.from}); begun != moving_.end())
      begun->second.claimed = begun->second.known.destination == wish.instance;
    note_ownership(wish.request, *granted, "claimed", wish.instance);
    if (options_.on_claimed)
      tell_watcher(context(), "on_claimed", [&] { options_.on_claimed(wish.request, wish.from, wish.instance); });
    ++counts_.moves_total;
    if (options_.metrics) options_.metrics->moves.increment();
    options_.log.request(wish.request)
        .debug("moved to instance {} with epoch {} after {} tokens", wish.instance.value(), granted->value(),
               r->ownership.next_index());
  }
  return {true, *granted};
}

protocols::reclaim_answer frontend::reclaim(const protocols::reclaim_request& wish) {
  using answer = protocols::ownership_reclaim::answer;
  auto* r = find(wish.request);
  if (r == nullptr || r->placing) return {};
  if (const auto granted = r->ownership.reclaim(wish.from)) {
    r->last_heard = now();
    note_ownership(wish.request, *granted, "reclaimed", r->owner_instance);
    return {answer::granted, *granted};
  }
  return {r->ownership.moved_from(wish.from) ? answer::moved : answer::ended, {}};
}

void frontend::disown(const protocols::disown_request& news) {
  auto* r = find(news.request);
  if (r == nullptr || r->placing || !r->ownership.disown(news.from, news.instance)) return;
  if (const auto begun = moving_.find({news.request, news.from}); begun != moving_.end()) begun->second.claimed = false;
  note_ownership(news.request, news.from, "disowned", news.instance);
  options_.log.request(news.request).warning("instance {} does not run it", news.instance.value());
  orphan(news.request);
}

task<protocols::migration_report> frontend::migrate(migrate_request order) {
  using protocols::migration_reason;
  protocols::migration_report report;
  report.destination = order.to;
  report.request = order.request;
  std::size_t known = 1;
  if (!order.client_id.empty()) {
    const auto named = by_client_.find(order.client_id);
    known = named == by_client_.end() ? 0 : named->second.size();
    report.request = known == 0 ? protocols::request_id{} : named->second.front();
  }
  const auto* r = find(report.request);
  const auto* entry = topology_.find(order.to);
  const bool placed = r != nullptr && !r->placing && r->owner && r->ownership.owner();
  if (placed && known == 1) {
    report.source = *r->ownership.owner();
    report.epoch = r->ownership.current_epoch();
  }
  if (known > 1)
    report.reason = migration_reason::request_ambiguous;
  else if (!placed)
    report.reason = migration_reason::request_unknown;
  else if (entry == nullptr || !entry->takes_requests())
    report.reason = migration_reason::destination_not_ready;
  if (report.reason != migration_reason::none) {
    note(report);
    co_return report;
  }
  const auto ordered = now();
  auto command = migrate_order{report.request, report.epoch, order.to, entry->llumlet};
  auto answer = co_await ask(r->owner, options_.migration_timeout, std::move(command));
  if (answer) {
    report = std::move(*answer);
    correct(report);
    if (report.migration == protocols::migration_id{}) note(report); // never begun: nobody else tells of it
    co_return report;
  }
  report.outcome = protocols::migration_outcome::aborted;
  report.reason = find(report.request) == nullptr                              ? migration_reason::request_finished
                  : answer.error().code == runtime::async::error_code::timeout ? migration_reason::timed_out
                                                                               : migration_reason::peer_lost;
  // Another migration of the same request, to another instance, is no answer to this order.
  if (const auto* left = find(report.request); left != nullptr && left->owner_instance == order.to) correct(report);
  // In time its source tells how it ended; whether that ever began is not known here.
  const bool late = answer.error().code == runtime::async::error_code::timeout;
  if (late || told_otherwise(report, ordered)) co_return report;
  note(report);
  remember_told(report);
  co_return report;
}

void frontend::remember_told(const protocols::migration_report& report) {
  if (told_moves_.size() >= told_moves_max) told_moves_.pop_front();
  told_moves_.push_back({report.migration, report.request, report.epoch, report.destination, now()});
}

bool frontend::told_otherwise(const protocols::migration_report& report, nanoseconds since) const {
  const auto begun = moving_.find({report.request, report.epoch});
  if (begun != moving_.end() && begun->second.known.destination == report.destination) return true;
  return std::ranges::any_of(told_moves_, [&](const told_move& told) {
    return told.request == report.request && told.epoch == report.epoch && told.destination == report.destination &&
           told.at >= since;
  });
}

void frontend::tell_of_lost_moves() {
  std::vector<begun_move> lost;
  std::erase_if(moving_, [&](const auto& one) {
    const auto* entry = topology_.find(one.second.known.source);
    const bool there = entry != nullptr && entry->generation == one.second.generation && entry->llumlet;
    if (!there) lost.push_back(one.second);
    return !there;
  });
  for (auto& one : lost) {
    auto& report = one.known;
    report.outcome = protocols::migration_outcome::aborted;
    report.reason = protocols::migration_reason::peer_lost;
    if (one.claimed) commit(report);
    report.duration_ns = (now() - one.began).count();
    note(std::move(report));
  }
}

void frontend::correct(protocols::migration_report& report) {
  using protocols::migration_outcome;
  if (report.outcome != migration_outcome::aborted && report.outcome != migration_outcome::lost) return;
  const auto* r = find(report.request);
  if (r == nullptr) return;
  if (r->ownership.moved_from(report.epoch)) {
    commit(report);
  } else if (r->ownership.current_epoch() != report.epoch || !r->ownership.owner()) {
    report.outcome = migration_outcome::lost; // and dispatched anew
    report.reason = protocols::migration_reason::peer_lost;
  }
}

void frontend::note(protocols::migration_report report) {
  if (report.migration != protocols::migration_id{}) {
    const auto same = [&](const told_move& told) {
      const bool unnumbered = told.migration == protocols::migration_id{};
      return told.request == report.request && told.epoch == report.epoch &&
             (unnumbered || told.migration == report.migration);
    };
    if (std::ranges::any_of(told_moves_, same)) return; // its source was cut off from this home, and tells late
    remember_told(report);
    const auto begun = moving_.find({report.request, report.epoch});
    if (begun != moving_.end() && begun->second.known.migration == report.migration) {
      // Its source may not know: the answer to its commit was lost, and the request has ended at the destination since.
      if (begun->second.claimed && report.outcome != protocols::migration_outcome::committed) commit(report);
      moving_.erase(begun);
    }
  }
  correct(report);
  remember(report);
  if (options_.migrations) options_.migrations->observe(report);
  if (options_.on_migration) tell_watcher(context(), "on_migration", [&] { options_.on_migration(report); });
}

} // namespace godwit::actors
