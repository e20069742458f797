#include <godwit/actors/kv_store_shard.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

/// The shard's disk: what its memory has no room for is copied there, and read again for whoever looks for it
/// (docs/design/kv_store.md).
namespace godwit::actors {

using protocols::chunk_name;
using runtime::async::task;
using std::chrono::nanoseconds;

namespace {

/// Of a shard's memory: once more is in use, what only memory has goes to the disk. In the long run no less is written
/// by waiting until memory is needed: what is there is the oldest some day.
constexpr std::uint32_t part_free = 2;
/// ... and as much at most is read for nobody yet.
constexpr std::uint32_t part_expected = 2;

/// Whoever fetches may take memory also from what it has got already: that was sent.
constexpr auto anybodys = std::numeric_limits<std::uint64_t>::max();

/// What lies in a slot: a chunk's name says all of its bytes.
std::uint64_t tag_of(const chunk_name& name) { return name.low ^ (name.high << 1U); }

} // namespace

void kv_store_shard::open_disk() {
  auto& disk = options_.settings.disk;
  if (!disk || chunks_.slots() == 0) return;
  if (disk->slot_bytes() != chunk_bytes_) {
    options_.log.error("KV store: a chunk has {} bytes, and a slot of the disk {}; it is not used", chunk_bytes_,
                       disk->slot_bytes());
    return disk.reset();
  }
  on_disk_ = protocols::chunk_store(disk->slots());
  reads_ = protocols::read_queue(on_disk_.slots(), chunks_.slots() / part_expected);
  figures_.disk_bytes = on_disk_.slots() * chunk_bytes_;
  options_.log.info("KV store: below its memory a disk, {} MiB, {} chunks", figures_.disk_bytes >> 20U,
                    on_disk_.slots());
}

bool kv_store_shard::disk_works() const {
  if (on_disk_.slots() == 0) return false;
  return disk_since_.empty() || now() - *disk_since_.begin() < options_.settings.disk_patience;
}

void kv_store_shard::note_failure(const std::string& what, const std::string& error) {
  if (figures_.disk_failed_total++ == 0)
    options_.log.warning("KV store: the disk: {}: {}; further failures are counted", what, error);
  else
    options_.log.debug("KV store: the disk: {}: {}", what, error);
}

void kv_store_shard::use_disk() {
  if (!disk_works()) return;
  write_more();
  read_more();
}

// ---- From the disk --------------------------------------------------------------------------------------------------

task<std::optional<kv_store_shard::slot>> kv_store_shard::from_disk(chunk_name name, std::uint64_t since,
                                                                    nanoseconds until) {
  const auto ticket = reads_.await(name, since);
  if (!ticket) co_return std::nullopt;
  std::shared_ptr<reader> self;
  auto wait = [this, name, &self](runtime::completer<bool> done) {
    self = std::make_shared<reader>(std::move(done));
    readers_[name].push_back(self);
    use_disk();
  };
  (void)co_await callback<bool>(std::max(until - now(), nanoseconds{1}), wait);
  if (self->pinned) co_return self->pinned; // also where it came as the time was over
  reads_.give_up(name, *ticket);
  if (const auto found = readers_.find(name); found != readers_.end()) {
    std::erase(found->second, self);
    if (found->second.empty()) readers_.erase(found);
  }
  co_return std::nullopt;
}

// What only memory has is not given up for what is on the disk anyway, unless somebody waits for that and no write is
// under way that would mend it.
void kv_store_shard::read_more() {
  while (reading_ < options_.settings.disk_reads_max && chunks_.has_room()) {
    const bool spare = chunks_.has_spare();
    if (!spare && writing_ > 0 && chunks_.may_have_spare()) return;
    const auto next = reads_.next(!spare);
    if (!next) return;
    start(read(*next));
  }
}

task<void> kv_store_shard::read(protocols::read_queue::order what) {
  bool there = chunks_.has(what.name); // an instance has brought it meanwhile
  const auto from = there || chunks_.knows(what.name) ? std::nullopt : on_disk_.hold(what.name);
  const auto to = from ? chunks_.reserve(what.name, what.awaited ? anybodys : what.since) : std::nullopt;
  if (to) {
    ++reading_;
    const auto began = disk_since_.insert(now());
    auto copy = [this, &what, slot = *from,
                 place = memory_.get() + *to * chunk_bytes_](runtime::completer<std::string> done) {
      options_.settings.disk->read(slot, tag_of(what.name), place, memory_,
                                   [done](std::string error) { done(std::move(error)); });
    };
    const auto error = co_await callback<std::string>(copy); // without a limit: something may land there until then
    disk_since_.erase(began);
    --reading_;
    there = error && error->empty();
    if (there) {
      chunks_.file(*to, true);
      ++figures_.disk_read_total;
    } else {
      chunks_.abandon(*to);
      note_failure("a read failed", error ? *error : error.error().message);
    }
  }
  if (from) {
    on_disk_.let_go(*from);
    if (to && !there) on_disk_.drop(*from);
  }
  reads_.ended(what.name);
  if (const auto waiting = readers_.extract(what.name))
    for (const auto& one : waiting.mapped()) {
      if (there) one->pinned = chunks_.pin(what.name); // or the next read might take it
      one->done(there);
    }
  if (to) use_disk(); // else whoever started this goes on
  recount();
}

// ---- To the disk ----------------------------------------------------------------------------------------------------

void kv_store_shard::write_more() {
  if (chunks_.filed() + chunks_.landing() <= chunks_.slots() / part_free) return;
  if (on_disk_.retired() > 0 && now() >= retry_at_) {
    on_trial_ = on_disk_.restore_one();
    retry_at_ = now() + options_.settings.disk_retry;
  }
  while (writing_ < options_.settings.disk_writes_max && now() >= no_writes_until_ && on_disk_.has_room()) {
    const auto from = chunks_.begin_copy();
    if (!from) return;
    const auto& name = chunks_.name_of(*from);
    const auto to = on_disk_.knows(name) ? std::nullopt : on_disk_.reserve(name, on_disk_.begin());
    if (!to) {
      chunks_.end_copy(*from, on_disk_.has(name));
      continue;
    }
    if (const auto& gone = on_disk_.displaced()) chunks_.lose_copy(*gone);
    start(write(*from, *to));
  }
}

task<void> kv_store_shard::write(slot from, slot to) {
  ++writing_;
  const auto began = disk_since_.insert(now());
  auto copy = [this, from, to](runtime::completer<std::string> done) {
    options_.settings.disk->write(to, tag_of(chunks_.name_of(from)), memory_.get() + from * chunk_bytes_, memory_,
                                  [done](std::string error) { done(std::move(error)); });
  };
  const auto error = co_await callback<std::string>(copy);
  disk_since_.erase(began);
  --writing_;
  const bool well = error && error->empty();
  chunks_.end_copy(from, well);
  if (well) {
    on_disk_.file(to);
    if (on_trial_ == to) on_disk_.restore_all(); // they may be good again, too
  } else {
    on_trial_.reset();
    on_disk_.retire(to); // or it would be the next to be written, and then others like it
    no_writes_until_ = now() + options_.settings.disk_pause; // full, maybe
    retry_at_ = now() + options_.settings.disk_retry;
    note_failure("a write failed", error ? *error : error.error().message);
  }
  use_disk();
  recount();
}

} // namespace godwit::actors
