#include <godwit/actors/kv_store_shard.hpp>

#include "arrivals.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace godwit::actors {

using protocols::blocks_per_chunk;
using runtime::async::task;
using std::chrono::nanoseconds;

namespace {

/// Of a chunk: more than any model has layers, times its devices and its four blocks. A peer's number decides how much
/// is allocated.
constexpr std::uint32_t regions_max = 65'536;
constexpr std::align_val_t alignment{transport::disk::alignment};
/// Of one message.
constexpr std::uint64_t regions_of_message_max = std::uint64_t{1} << 24U;

std::uint32_t slots_of(std::uint64_t bytes, std::uint64_t chunk_bytes) {
  protocols::ensure(chunk_bytes > 0, "kv_store_shard: blocks have bytes");
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / chunk_bytes, kv_store_settings::chunks_max));
}

} // namespace

kv_store_shard::kv_store_shard(runtime::actor_context context, kv_store_shard_options options)
    : actor(context), options_(std::move(options)), chunk_bytes_(options_.block_bytes * blocks_per_chunk),
      memory_(static_cast<std::byte*>(
                  ::operator new(slots_of(options_.bytes, chunk_bytes_) * chunk_bytes_, alignment, std::nothrow)),
              [](std::byte* memory) { ::operator delete(memory, alignment); }),
      chunks_(memory_ ? slots_of(options_.bytes, chunk_bytes_) : 0) { // the system gives memory as it is written
  figures_.bytes = chunks_.slots() * chunk_bytes_;
  open_disk();
}

runtime::behavior_of<kv_store_interface> kv_store_shard::make_behavior() {
  if (options_.keeper) start(report());
  if (chunks_.slots() == 0)
    options_.log.error("KV store: there is no room for a chunk of {} tokens, {} bytes, in {} bytes of memory",
                       protocols::tokens_per_chunk, chunk_bytes_, options_.bytes);
  else
    options_.log.info("KV store: {} MiB, {} chunks of {} tokens", figures_.bytes >> 20U, chunks_.slots(),
                      protocols::tokens_per_chunk);
  return {[this](protocols::store_look& what) { return look(what); },
          [this](protocols::store_fetch& order) { return respond(fetch(std::move(order))); },
          [this](protocols::store_offer& offer) { return make_room(offer); },
          [this](protocols::store_settled& news) { settle(news); }};
}

// Books that nobody can trust; the next one begins empty.
void kv_store_shard::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  quit(runtime::stop_reason::failed);
}

// The memory is held until no write can land, and no read goes on.
void kv_store_shard::on_stop() {
  for (const auto& [transfer, in] : incoming_) options_.fabric->withdraw({transfer, 0}, [] {});
}

protocols::store_found kv_store_shard::look(const protocols::store_look& what) {
  protocols::store_found out;
  if (what.names.size() > kv_store_settings::names_max) return out;
  out.filed.reserve(what.names.size());
  const auto since = chunks_.begin();
  for (const auto& name : what.names) {
    const bool below = !chunks_.has(name) && disk_works() && on_disk_.has(name);
    out.filed.push_back(below || chunks_.has(name) ? 1 : 0);
    if (below) reads_.expect(name, since); // until it is fetched it may well be there
  }
  if (on_disk_.slots() > 0) // what is read for this prompt takes nothing from it
    for (auto name = what.names.rbegin(); name != what.names.rend(); ++name)
      chunks_.touch(*name), on_disk_.touch(*name);
  use_disk();
  figures_.looked_up_total += out.filed.size();
  figures_.found_total += static_cast<std::uint64_t>(std::ranges::count(out.filed, 1));
  return out;
}

bool kv_store_shard::fits(const protocols::chunk_shape& shape) const noexcept {
  return shape.bytes == chunk_bytes_ && shape.regions > 0 && shape.regions <= regions_max &&
         shape.bytes % shape.regions == 0;
}

void kv_store_shard::append_regions(slot which, std::uint32_t regions,
                                    std::vector<protocols::memory_region>& out) const {
  const auto piece = chunk_bytes_ / regions;
  auto* const first = memory_.get() + which * chunk_bytes_;
  for (std::uint32_t i = 0; i < regions; ++i) out.push_back({first + i * piece, piece, protocols::memory_kind::host});
}

// ---- From here ------------------------------------------------------------------------------------------------------

task<protocols::store_fetched> kv_store_shard::fetch(protocols::store_fetch wish) {
  auto round = std::make_shared<outgoing>();
  round->answer.landed.assign(wish.chunks.size(), 0);
  if (!fits(wish.shape) || wish.chunks.size() > kv_store_settings::names_max ||
      wish.chunks.size() * wish.shape.regions > regions_of_message_max || fetches_ >= options_.settings.fetches_max)
    co_return std::move(round->answer);
  ++fetches_;
  const auto order = std::make_shared<const protocols::store_fetch>(std::move(wish));
  const auto since = chunks_.begin();
  round->open = order->chunks.size();
  std::vector<std::optional<slot>> there; // all of them before any is read, which may take memory from others
  there.reserve(order->chunks.size());
  for (const auto& chunk : order->chunks) there.push_back(chunks_.pin(chunk.name));
  for (std::size_t i = 0; i < there.size(); ++i) start(serve(round, i, there[i], order, since));
  if (round->open > 0) {
    auto all = [&round](runtime::completer<bool> done) {
      round->complete = std::make_unique<runtime::completer<bool>>(std::move(done));
    };
    (void)co_await callback<bool>(all);
  }
  // The beginning is the last to go.
  for (auto chunk = order->chunks.rbegin(); chunk != order->chunks.rend(); ++chunk) chunks_.touch(chunk->name);
  --fetches_;
  figures_.loaded_total += static_cast<std::uint64_t>(std::ranges::count(round->answer.landed, 1));
  use_disk();
  recount();
  co_return std::move(round->answer);
}

task<void> kv_store_shard::serve(std::shared_ptr<outgoing> round, std::size_t index, std::optional<slot> from,
                                 std::shared_ptr<const protocols::store_fetch> order, std::uint64_t since) {
  const auto name = order->chunks[index].name;
  // Whoever asked takes a shard that says nothing by then for silent.
  const auto ends = now() + options_.settings.load_timeout;
  const auto read_by = ends - options_.settings.load_timeout / 4;
  if (!from && disk_works() && on_disk_.has(name)) from = co_await from_disk(name, since, read_by);
  if (from) {
    const auto left = std::max(ends - now(), nanoseconds{1});
    if (co_await send(index, *from, std::move(order), left)) round->answer.landed[index] = 1;
    chunks_.unpin(*from);
    use_disk(); // there may be room now
  }
  if (--round->open == 0 && round->complete) (*round->complete)(true);
}

task<bool> kv_store_shard::send(std::size_t index, slot from, std::shared_ptr<const protocols::store_fetch> order,
                                nanoseconds timeout) {
  std::vector<protocols::memory_region> regions;
  append_regions(from, order->shape.regions, regions);
  auto copy = [this, &regions, index, order, timeout](runtime::completer<std::string> done) {
    options_.fabric->send(order->fabric, {order->transfer, 0}, order->chunks[index].first_region, std::move(regions),
                          transport::transfer_priority::urgent, timeout, memory_,
                          [done](std::string error) { done(std::move(error)); });
  };
  const auto error = co_await callback<std::string>(copy);
  if (error && error->empty()) co_return true;
  ++figures_.failed_total;
  options_.log.debug("KV store: a chunk could not be sent: {}", error ? *error : error.error().message);
  co_return false;
}

// ---- To here --------------------------------------------------------------------------------------------------------

protocols::store_room kv_store_shard::make_room(const protocols::store_offer& offer) {
  protocols::store_room out;
  if (!fits(offer.shape) || offer.names.size() > kv_store_settings::names_max ||
      offer.names.size() * offer.shape.regions > regions_of_message_max ||
      incoming_.size() >= options_.settings.offers_max)
    return out;
  auto regions_open = std::uint64_t{offer.shape.regions}; // with the next chunk
  for (const auto& [transfer, other] : incoming_) regions_open += other.slots.size() * other.regions_per_chunk;
  const auto since = chunks_.begin();
  for (auto name = offer.names.rbegin(); name != offer.names.rend(); ++name) {
    chunks_.touch(*name);
    on_disk_.touch(*name);
  }
  incoming in;
  for (std::uint32_t i = 0; i < offer.names.size(); ++i) {
    if (chunks_.knows(offer.names[i]) || (disk_works() && on_disk_.has(offer.names[i]))) continue;
    const bool room = regions_open <= options_.settings.offered_regions_max;
    const auto where = room ? chunks_.reserve(offer.names[i], since) : std::nullopt;
    if (!where) break; // what comes behind would be of no use without it
    regions_open += offer.shape.regions;
    in.slots.push_back(*where);
    out.wanted.push_back(i);
  }
  if (in.slots.empty()) return out;
  out.fabric = runtime::trace::input<std::string>("fabric.address", [&] { return options_.fabric->address(); });
  out.transfer = runtime::trace::input<std::uint64_t>("transfer", [&] { return ++*options_.transfers; });
  in.landed = std::make_shared<arrivals>();
  in.regions_per_chunk = offer.shape.regions;
  std::vector<protocols::memory_region> regions;
  regions.reserve(in.slots.size() * offer.shape.regions);
  for (const auto where : in.slots) append_regions(where, offer.shape.regions, regions);
  options_.fabric->post({out.transfer, 0}, std::move(regions), memory_,
                        [landed = in.landed](const transport::landing& news) { landed->landed(news); });
  in.until = now() + options_.settings.lease();
  incoming_.emplace(out.transfer, std::move(in));
  if (!guarding_) start(guard_leases());
  recount();
  return out;
}

void kv_store_shard::settle(const protocols::store_settled& news) {
  const auto found = incoming_.find(news.transfer);
  if (found == incoming_.end() || found->second.sent) return;
  found->second.sent = news.chunks;
  if (!found->second.closing) start(close(news.transfer));
}

// One watch for all: they have equal leases, and are numbered as they come.
task<void> kv_store_shard::guard_leases() {
  guarding_ = true;
  for (;;) {
    const auto oldest = std::ranges::find_if(incoming_, [](const auto& one) { return !one.second.closing; });
    if (oldest == incoming_.end()) break;
    const auto transfer = oldest->first;
    if (const auto left = oldest->second.until - now(); left > nanoseconds{0}) {
      co_await sleep_for(left);
      continue;
    }
    options_.log.debug("KV store: a sender did not settle within its lease");
    ++figures_.failed_total;
    oldest->second.closing = true;
    start(close(transfer));
  }
  guarding_ = false;
}

// Only what the sender has confirmed: it may have given the blocks to others while they were under way, and then their
// bytes are whole and wrong.
task<void> kv_store_shard::close(std::uint64_t transfer) {
  auto& open = incoming_.at(transfer);
  open.closing = true;
  if (const auto sent = std::uint64_t{open.sent.value_or(0)} * open.regions_per_chunk; sent > 0) {
    auto all = [landed = open.landed, sent](runtime::completer<bool> done) { landed->when(sent, std::move(done)); };
    (void)co_await callback<bool>(options_.settings.load_timeout, all);
  }
  auto withdraw = [this, transfer](runtime::completer<bool> done) {
    options_.fabric->withdraw({transfer, 0}, [done] { done(true); });
  };
  (void)co_await callback<bool>(withdraw);
  const auto found = incoming_.find(transfer);
  const auto in = std::move(found->second);
  incoming_.erase(found);
  const auto regions = runtime::trace::input<std::uint64_t>("kv_store.landed", [&] { return in.landed->regions(); });
  const auto whole = std::min<std::uint64_t>({in.sent.value_or(0), regions / in.regions_per_chunk, in.slots.size()});
  for (auto i = in.slots.size(); i-- > whole;) chunks_.abandon(in.slots[i]);
  for (auto i = whole; i-- > 0;) chunks_.file(in.slots[i]); // the beginning is the last to go
  use_disk();
  recount();
}

// ---- How it stands --------------------------------------------------------------------------------------------------

task<void> kv_store_shard::report() {
  std::optional<protocols::store_report> told;
  for (;;) {
    const auto& counted = chunks_.figures();
    figures_.bytes_used = chunks_.filed() * chunk_bytes_;
    figures_.filed_total = counted.filed;
    figures_.evicted_total = counted.evicted;
    figures_.disk_bytes_used = on_disk_.filed() * chunk_bytes_;
    figures_.disk_written_total = on_disk_.figures().filed;
    figures_.disk_evicted_total = on_disk_.figures().evicted;
    if (told != figures_) tell(options_.keeper, *(told = figures_));
    co_await sleep_for(options_.settings.report_interval);
  }
}

void kv_store_shard::recount() const {
  if (!options_.recount) return;
  chunks_.check();
  on_disk_.check();
  reads_.check();
}

} // namespace godwit::actors
