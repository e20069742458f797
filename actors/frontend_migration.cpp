#include <godwit/actors/frontend.hpp>

#include <utility>

/// The home's part in live migrations: it decides who owns a request (protocols::request_ownership).
namespace godwit::actors {

using runtime::async::task;

protocols::move_prepared frontend::prepare_move(const protocols::prepare_move& wish) {
  const auto* r = find(wish.request);
  if (r == nullptr || r->placing || !r->ownership.owner() || r->ownership.current_epoch() != wish.epoch) return {};
  return {true, r->ownership.next_index()};
}

protocols::claim_answer frontend::claim(protocols::claim_request& wish) {
  auto* r = find(wish.request);
  if (r == nullptr || r->placing) return {};
  if (r->ownership.current_epoch() == wish.from && !wish.tail.empty()) {
    // What the source drew last and may still be on its way here: accepted while its epoch lasts.
    auto tail = protocols::token_update{wish.request, wish.from, wish.tail_index, std::move(wish.tail)};
    tail.cached_tokens = r->cached_tokens;
    take_one(tail);
    r = find(wish.request); // a stop string may have ended it
    if (r == nullptr || r->placing) return {};
  }
  const auto* entry = topology_.find(wish.instance);
  if (entry == nullptr || entry->generation != wish.generation || !entry->llumlet) return {};
  const bool first = r->ownership.current_epoch() == wish.from;
  const auto granted = r->ownership.claim(wish.from, wish.instance, wish.generation);
  if (!granted) return {};
  r->owner = entry->llumlet;
  r->owner_generation = entry->generation;
  if (first) {
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
  if (const auto granted = r->ownership.reclaim(wish.from)) return {answer::granted, *granted};
  return {r->ownership.claimed_from(wish.from) ? answer::moved : answer::ended, {}};
}

void frontend::disown(const protocols::disown_request& news) {
  auto* r = find(news.request);
  if (r == nullptr || r->placing || !r->ownership.disown(news.from, news.instance)) return;
  options_.log.request(news.request).warning("instance {} does not run it", news.instance.value());
  orphan(news.request);
}

task<protocols::migration_report> frontend::migrate(migrate_request order) {
  using protocols::migration_reason;
  protocols::migration_report refusal;
  refusal.destination = order.to;
  auto id = order.request;
  if (!order.client_id.empty()) {
    const auto named = by_client_.find(order.client_id);
    id = named == by_client_.end() ? protocols::request_id{} : named->second;
  }
  refusal.request = id;
  const auto* r = find(id);
  if (r == nullptr || r->placing || !r->owner) {
    refusal.reason = migration_reason::request_unknown;
    co_return refusal;
  }
  const auto* entry = topology_.find(order.to);
  if (entry == nullptr || !entry->ready || !entry->llumlet) {
    refusal.reason = migration_reason::destination_not_ready;
    co_return refusal;
  }
  refusal.source = *r->ownership.owner();
  auto command = migrate_order{id, r->ownership.current_epoch(), order.to, entry->llumlet};
  auto report = co_await ask(r->owner, options_.migration_timeout, std::move(command));
  if (report) co_return std::move(*report);
  refusal.reason = report.error().code == runtime::async::error_code::timeout ? migration_reason::timed_out
                                                                              : migration_reason::peer_lost;
  co_return refusal;
}

} // namespace godwit::actors
