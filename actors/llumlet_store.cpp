#include "arrivals.hpp"
#include "migration/kv_memory.hpp"

#include <godwit/actors/llumlet.hpp>
#include <godwit/protocols/migration/copy_pacer.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// The llumlet's part in the KV store: what of a request's KV is there is loaded as the request starts, and what is
/// computed is brought there (docs/design/kv_store.md).
namespace godwit::actors {

using protocols::blocks_per_chunk;
using protocols::chunk_name;
using protocols::tokens_per_chunk;
using runtime::async::task;
using std::chrono::nanoseconds;

struct llumlet::put_part {
  shard_share share;
  protocols::store_room room;
  std::uint32_t sent = 0; ///< of room.wanted
  bool failed = false;
};

struct llumlet::store_round {
  std::vector<chunk_name> names;
  std::vector<std::uint8_t> there; ///< for each: found, or landed
  std::vector<put_part> parts;     ///< of offers
  std::size_t open = 0;            ///< shards that have not answered
  std::unique_ptr<runtime::completer<bool>> complete;

  explicit store_round(std::vector<chunk_name> all) : names(std::move(all)), there(names.size(), 0) {}
  void one_less() {
    if (--open == 0 && complete) (*complete)(true);
  }
  [[nodiscard]] std::uint32_t leading(std::uint32_t first) const {
    const auto missing = std::find(there.begin() + first, there.end(), 0);
    return static_cast<std::uint32_t>(missing - there.begin());
  }
};

// ---- Shards ---------------------------------------------------------------------------------------------------------

void llumlet::know_stores(const std::vector<store_entry>& stores) {
  std::vector<store_shard> now_there;
  for (const auto& entry : stores) {
    const auto before = std::ranges::find(stores_, entry, &store_shard::entry);
    now_there.push_back({entry, before == stores_.end() ? nanoseconds{0} : before->silent_until});
  }
  stores_ = std::move(now_there);
  store_ids_.clear();
  for (const auto& shard : stores_) store_ids_.push_back(shard.entry.id);
  review_store();
}

void llumlet::review_store() {
  if (!planner_) return;
  const bool moves_kv = options_.migration.fabric && stored_memory_;
  if (!stores_.empty() && memory_ && !stored_memory_ && !std::exchange(store_is_of_no_use_, true))
    options_.log.warning("instance {}: a block of its KV is in pieces that are too small for the KV store, which is of "
                         "no use to it",
                         options_.id.value());
  planner_->use_store(moves_kv && !stores_.empty() && planner_->settings().prefix_caching);
}

protocols::chunk_shape llumlet::shape_of_chunks() const {
  return {stored_memory_->block_bytes() * blocks_per_chunk, stored_memory_->regions_per_block() * blocks_per_chunk};
}

std::vector<chunk_name> llumlet::names_of(std::span<const protocols::token_id> tokens, std::uint64_t salt) const {
  // Devices that share a model sum up in another order than one alone: whose KV a request gets must not change its
  // text.
  const auto order_of_sums = std::uint64_t{stored_memory_->devices()} << 56U;
  return protocols::chunk_names(tokens, salt, kv_kind_ ^ order_of_sums);
}

std::vector<llumlet::shard_share> llumlet::shares_of(std::span<const chunk_name> names, std::uint32_t first) const {
  if (stores_.empty()) return {};
  std::vector<shard_share> by_shard(stores_.size());
  for (auto i = first; i < names.size(); ++i) by_shard[shard_of(names[i], store_ids_)].chunks.push_back(i);
  std::vector<shard_share> out;
  for (std::size_t i = 0; i < by_shard.size(); ++i) {
    if (by_shard[i].chunks.empty() || now() < stores_[i].silent_until) continue;
    by_shard[i].entry = stores_[i].entry;
    out.push_back(std::move(by_shard[i]));
  }
  return out;
}

void llumlet::note_silence(const store_entry& whom) {
  for (auto& shard : stores_)
    if (shard.entry == whom) shard.silent_until = now() + options_.store.silence;
}

task<void> llumlet::all_of(std::shared_ptr<store_round> round) {
  if (round->open == 0) co_return;
  auto wait = [&round](runtime::completer<bool> done) {
    round->complete = std::make_unique<runtime::completer<bool>>(std::move(done));
  };
  (void)co_await callback<bool>(wait);
}

// ---- What is there --------------------------------------------------------------------------------------------------

task<protocols::admission> llumlet::take_in(generate_order order) {
  const auto id = order.request.request;
  const auto epoch = order.request.epoch;
  if (order.dispatch > 0) { // whatever becomes of it
    const auto from = protocols::home_of(id);
    auto& last = from == 0 ? dispatched_ : dispatched_elsewhere_[from];
    last = std::max(last, order.dispatch);
  }
  const auto& asked = order.request;
  const auto is_loaded = [this, &asked] { // in vain are they looked up who compute all of it, or are refused
    const auto& settings = planner_->settings();
    return settings.mode != protocols::batching_mode::static_batch && !asked.prompt.empty() &&
           asked.prompt.size() < settings.context_length &&
           (asked.sampling.prompt_logprobs < 0 || !asked.answer.empty()) && looking_.size() < settings.waiting_max;
  };
  held_adapter adapter;
  if (const auto which = order.request.adapter; which && planner_ && !terminating_) {
    if (fetching_.size() >= planner_->settings().waiting_max && !asked.taken_before)
      co_return protocols::admission{id, epoch, protocols::refusal::queue_full, planner_->settings().waiting_max};
    const auto place = fetching_.insert(fetching_.end(), {id, epoch, order.dispatch});
    auto answer = co_await hold(which, options_.adapter_wait);
    if (place->cancelled && answer.reason == protocols::refusal::none) answer.reason = protocols::refusal::not_ready;
    fetching_.erase(place);
    tell_when_drained(); // it may have been the last one, and is refused then
    if (answer.reason != protocols::refusal::none) {
      auto refused = protocols::admission{id, epoch, answer.reason, 0};
      refused.why = std::move(answer.why);
      co_return refused;
    }
    adapter = std::move(answer.adapter);
  }
  if (!uses_store() || terminating_ || !is_loaded()) co_return admit(std::move(order), 0, std::move(adapter));
  auto tokens = order.request.prompt;
  tokens.insert(tokens.end(), order.request.answer.begin(), order.request.answer.end());
  const auto salt = order.request.cache_salt;
  const auto known = std::uint64_t{planner_->ledger().known_prefix(tokens, salt)} * protocols::tokens_per_block;
  const auto useful = (tokens.size() - 1) / tokens_per_chunk * tokens_per_chunk; // the last token is always computed
  if (useful < known + std::max(options_.store.load_min, 1U)) co_return admit(std::move(order), 0, std::move(adapter));
  const auto place = looking_.insert(looking_.end(), {id, epoch, order.dispatch});
  const auto stored = co_await look_up(names_of(std::span{tokens}.first(useful), salt));
  const bool cancelled = place->cancelled;
  looking_.erase(place);
  auto answer = protocols::admission{id, epoch, protocols::refusal::not_ready, 0};
  if (!cancelled) answer = admit(std::move(order), stored * tokens_per_chunk, std::move(adapter));
  tell_when_drained(); // it may have been the last one
  co_return answer;
}

task<std::uint32_t> llumlet::look_up(std::vector<chunk_name> names) {
  auto round = std::make_shared<store_round>(std::move(names));
  auto shares = shares_of(round->names, 0);
  round->open = shares.size();
  for (auto& share : shares) start(look_at(std::move(share), round));
  co_await all_of(round);
  co_return round->leading(0);
}

task<void> llumlet::look_at(shard_share share, std::shared_ptr<store_round> round) {
  std::vector<chunk_name> names;
  for (const auto chunk : share.chunks) names.push_back(round->names[chunk]);
  const auto answer =
      co_await ask(share.entry.shard, options_.store.lookup_timeout, protocols::store_look{std::move(names)});
  if (!answer) note_silence(share.entry);
  if (answer && answer->filed.size() == share.chunks.size())
    for (std::size_t i = 0; i < share.chunks.size(); ++i) round->there[share.chunks[i]] = answer->filed[i];
  round->one_less();
}

// ---- From the store -------------------------------------------------------------------------------------------------

task<void> llumlet::load_kv(protocols::load_order order) {
  const auto first = order.first / tokens_per_chunk;
  const auto shape = shape_of_chunks();
  auto round = std::make_shared<store_round>(names_of(order.tokens, order.cache_salt));
  const auto transfer =
      runtime::trace::input<std::uint64_t>("transfer", [this] { return ++*options_.migration.transfers; });
  // Whatever becomes of the request meanwhile, its blocks are nobody else's while something may land in them.
  for (const auto block : order.blocks) planner_->ledger().share(block);
  loading_[order.number] = {transfer, order.blocks};
  auto span = runtime::trace::begin_span("kv_store.load", order.request.value());
  span.add("tokens", std::to_string(order.upto - order.first));
  const auto landed = std::make_shared<arrivals>();
  options_.migration.fabric->post({transfer, 0}, stored_memory_->regions(order.blocks), stored_memory_->keep(),
                                  [landed](const transport::landing& news) { landed->landed(news); });
  options_.migration.pass("store.loading");
  auto shares = shares_of(round->names, first);
  round->open = shares.size();
  for (auto& share : shares) start(fetch_from(std::move(share), first, transfer, round));
  co_await all_of(round);
  const auto said = static_cast<std::uint64_t>(std::count(round->there.begin() + first, round->there.end(), 1));
  if (said > 0) {
    auto all = [landed, sent = said * shape.regions](runtime::completer<bool> done) {
      landed->when(sent, std::move(done));
    };
    (void)co_await callback<bool>(options_.store.load_timeout, all);
  }
  auto withdraw = [this, transfer](runtime::completer<bool> done) {
    options_.migration.fabric->withdraw({transfer, 0}, [done] { done(true); });
  };
  (void)co_await callback<bool>(withdraw);
  auto upto = round->leading(first);
  // A shard that says so of what has not come is not believed in anything.
  const auto regions = runtime::trace::input<std::uint64_t>("kv_store.landed", [&landed] { return landed->regions(); });
  if (regions < said * shape.regions) {
    options_.log.warning("KV store: {} of {} pieces have come that shards say they sent; none is used", regions,
                         said * shape.regions);
    upto = first;
  }
  span.add("loaded", std::to_string((upto - first) * tokens_per_chunk));
  span.end();
  for (const auto block : loading_.at(order.number).blocks) planner_->ledger().release(block);
  loading_.erase(order.number);
  if (upto > first) options_.migration.pass("store.loaded");
  planner_->loaded(order, upto * tokens_per_chunk);
  settle(planner_->take_effects());
  if (options_.recount) recount();
  report_soon();
  wake();
  tell_when_drained();
}

task<void> llumlet::fetch_from(shard_share share, std::uint32_t first, std::uint64_t transfer,
                               std::shared_ptr<store_round> round) {
  protocols::store_fetch wish;
  wish.fabric =
      runtime::trace::input<std::string>("fabric.address", [this] { return options_.migration.fabric->address(); });
  wish.transfer = transfer;
  wish.shape = shape_of_chunks();
  for (const auto chunk : share.chunks)
    wish.chunks.emplace_back(round->names[chunk], (chunk - first) * wish.shape.regions);
  const auto answer =
      co_await ask(share.entry.shard, options_.store.load_timeout + options_.store.lookup_timeout, std::move(wish));
  if (!answer) note_silence(share.entry);
  if (answer && answer->landed.size() == share.chunks.size())
    for (std::size_t i = 0; i < share.chunks.size(); ++i)
      round->there[share.chunks[i]] = answer->landed[i] == 0 ? 0 : 1;
  round->one_less();
}

void llumlet::withdraw_loads() {
  for (const auto& [number, in] : loading_)
    if (in.transfer != 0) options_.migration.fabric->withdraw({in.transfer, 0}, [] {});
}

// ---- To the store ---------------------------------------------------------------------------------------------------

void llumlet::put_later(protocols::computed_kv what) {
  if (options_.store.puts_max == 0) return;
  if (to_put_.size() >= options_.store.puts_queued_max) to_put_.pop_front(); // its blocks are the next to go here
  to_put_.push_back(std::move(what));
  if (putters_ >= options_.store.puts_max) return;
  ++putters_;
  start(put_queued());
}

task<void> llumlet::put_queued() {
  while (!to_put_.empty()) {
    auto what = std::move(to_put_.front());
    to_put_.pop_front();
    if (uses_store()) co_await put(std::move(what));
  }
  --putters_;
}

task<void> llumlet::put(protocols::computed_kv what) {
  const auto from = putting_.insert(putting_.end(), putting{protocols::sequence_blocks(what.cache_salt)});
  auto& blocks = from->blocks;
  const auto chunks = blocks.match(planner_->ledger(), what.tokens) / tokens_per_chunk;
  blocks.truncate(planner_->ledger(), std::uint64_t{chunks} * tokens_per_chunk);
  const auto first = what.stored / tokens_per_chunk;
  if (chunks > first) {
    auto span = runtime::trace::begin_span("kv_store.put", what.request.value());
    auto round = std::make_shared<store_round>(
        names_of(std::span{what.tokens}.first(std::size_t{chunks} * tokens_per_chunk), what.cache_salt));
    auto shares = shares_of(round->names, first);
    round->open = shares.size();
    for (auto& share : shares) start(offer_to(std::move(share), round));
    co_await all_of(round);
    co_await send_parts(round, from);
    std::uint32_t sent = 0;
    for (const auto& part : round->parts) sent += part.sent;
    span.add("tokens", std::to_string((chunks - first) * tokens_per_chunk));
    span.add("sent", std::to_string(sent * tokens_per_chunk));
    span.end();
  }
  blocks.release(planner_->ledger());
  putting_.erase(from);
  if (options_.recount) recount();
  report_soon();
  wake(); // they may be what others wait for
}

task<void> llumlet::offer_to(shard_share share, std::shared_ptr<store_round> round) {
  protocols::store_offer offer;
  offer.shape = shape_of_chunks();
  for (const auto chunk : share.chunks) offer.names.push_back(round->names[chunk]);
  // Nobody waits for it, and places that are offered in vain are kept for long.
  auto answer = co_await ask(share.entry.shard, options_.store.load_timeout, std::move(offer));
  if (!answer) note_silence(share.entry);
  const auto in_order = [&share](const std::vector<std::uint32_t>& places) {
    return !places.empty() && places.back() < share.chunks.size() &&
           std::ranges::adjacent_find(places, std::ranges::greater_equal{}) == places.end();
  };
  if (answer && in_order(answer->wanted))
    round->parts.push_back({std::move(share), std::move(*answer)});
  else if (answer && !answer->wanted.empty())
    tell(share.entry.shard, protocols::store_settled{answer->transfer, 0});
  round->one_less();
}

// In the order of the prefix, whose beginning is of use without its end. One after the other, with rests, as other bulk
// copies: nobody waits for them.
task<void> llumlet::send_parts(std::shared_ptr<store_round> round, std::list<putting>::iterator from) {
  struct chunk_to_send {
    std::uint32_t chunk;
    std::size_t part;
    std::uint32_t place; ///< of the part's posting
  };
  std::vector<chunk_to_send> order;
  for (std::size_t p = 0; p < round->parts.size(); ++p) {
    const auto& [share, room, sent, failed] = round->parts[p];
    for (std::uint32_t i = 0; i < room.wanted.size(); ++i) order.push_back({share.chunks[room.wanted[i]], p, i});
  }
  std::ranges::sort(order, {}, &chunk_to_send::chunk);
  const auto shape = shape_of_chunks();
  const auto ends = now() + options_.store.put_timeout;
  protocols::copy_pacer pacer{options_.migration.settings.pace_of_copies(stored_memory_->on_host())};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& next = order[i];
    auto& part = round->parts[next.part];
    if (from->let_go || now() >= ends) break;
    if (part.failed) continue;
    options_.migration.pass("store.putting");
    const auto began = now();
    const auto table =
        std::span{from->blocks.table()}.subspan(std::size_t{next.chunk} * blocks_per_chunk, blocks_per_chunk);
    auto send = [&, regions = stored_memory_->regions(table)](runtime::completer<std::string> done) mutable {
      options_.migration.fabric->send(part.room.fabric, {part.room.transfer, 0}, next.place * shape.regions,
                                      std::move(regions), transport::transfer_priority::bulk, ends - began,
                                      stored_memory_->keep(), [done](std::string error) { done(std::move(error)); });
    };
    const auto error = co_await callback<std::string>(send);
    options_.migration.pass(from->let_go ? "store.let_go" : "store.put");
    if (from->let_go) break; // somebody may have written there meanwhile
    part.failed = !error || !error->empty();
    if (part.failed)
      options_.log.debug("KV store: a chunk could not be sent: {}", error ? *error : error.error().message);
    else
      ++part.sent;
    const auto rest = pacer.rest(shape.bytes, order.size() * shape.bytes, now() - began);
    if (rest > nanoseconds{0} && i + 1 < order.size()) // the blocks are held meanwhile
      co_await sleep_for(std::clamp(rest, nanoseconds{0}, std::max(ends - now(), nanoseconds{0})));
  }
  for (const auto& part : round->parts)
    tell(part.share.entry.shard, protocols::store_settled{part.room.transfer, part.sent});
}

// Only of those whose blocks no request has: nothing would be gained otherwise. The last block says it, since who has
// it has those before it; puts may share blocks.
bool llumlet::let_go_of_puts() {
  std::map<protocols::block_id, std::uint32_t> ours;
  for (const auto& one : putting_)
    for (const auto block : one.blocks.table()) ++ours[block];
  std::vector<putting*> alone;
  for (auto& one : putting_) {
    if (one.blocks.size() == 0) continue;
    const auto last = one.blocks.table().back();
    if (planner_->ledger().references(last) == ours.at(last)) alone.push_back(&one);
  }
  for (auto* one : alone) {
    one->let_go = true;
    one->blocks.release(planner_->ledger());
  }
  return !alone.empty();
}

} // namespace godwit::actors
