#include <godwit/actors/kv_store_shard.hpp>

#include <algorithm>
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
/// ... and as much at most is waited for by nobody, and read for those that may want it.
constexpr std::uint32_t part_ahead = 2;

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
  figures_.disk_bytes = on_disk_.slots() * chunk_bytes_;
  options_.log.info("KV store: below its memory a disk, {} MiB, {} chunks", figures_.disk_bytes >> 20U,
                    on_disk_.slots());
}

bool kv_store_shard::disk_works() const {
  return on_disk_.slots() > 0 && (disk_since_.empty() || now() - *disk_since_.begin() < options_.settings.load_timeout);
}

void kv_store_shard::note_failure(const std::string& what, const std::string& error) {
  if (figures_.disk_failed_total++ == 0)
    options_.log.warning("KV store: the disk: {}: {}; further failures are counted", what, error);
  else
    options_.log.debug("KV store: the disk: {}: {}", what, error);
}

// ---- From the disk --------------------------------------------------------------------------------------------------

kv_store_shard::reading* kv_store_shard::want(const chunk_name& name, std::uint64_t since, bool urgent) {
  auto found = reading_.find(name);
  if (found == reading_.end()) {
    // Of those that nobody waits for more would push each other out of memory.
    if (reading_.size() >= (urgent ? chunks_.slots() : chunks_.slots() / part_ahead)) return nullptr;
    found = reading_.try_emplace(name).first;
    if (!urgent) ahead_.push_back(name);
  }
  auto& wanted = found->second;
  wanted.since = std::max(wanted.since, since);
  if (urgent && !wanted.begun && wanted.waiting.empty()) urgent_.push_back(name);
  return &wanted;
}

task<bool> kv_store_shard::from_disk(chunk_name name, std::uint64_t since, nanoseconds until) {
  auto* const wanted = want(name, since, true);
  if (wanted == nullptr) co_return false;
  auto wait = [this, wanted](runtime::completer<bool> done) {
    wanted->waiting.push_back(std::move(done));
    read_more();
  };
  const auto there = co_await callback<bool>(until - now(), wait);
  co_return there&&* there;
}

void kv_store_shard::read_more() {
  while (reads_ < options_.settings.disk_reads_max && !(urgent_.empty() && ahead_.empty())) {
    if (!chunks_.has_spare()) { // what only memory has is not given up for what is on the disk anyway
      write_more();
      if (writes_ > 0) return; // and goes on then
    }
    auto& queue = urgent_.empty() ? ahead_ : urgent_;
    const auto name = queue.front();
    queue.pop_front();
    // One that was wanted twice is in both queues.
    if (const auto found = reading_.find(name); found != reading_.end() && !found->second.begun) start(read(name));
  }
}

task<void> kv_store_shard::read(chunk_name name) {
  auto& wanted = reading_.at(name);
  wanted.begun = true;
  bool there = chunks_.has(name); // an instance has brought it meanwhile
  const auto from = there || chunks_.knows(name) ? std::nullopt : on_disk_.hold(name);
  const auto to = from ? chunks_.reserve(name, wanted.since) : std::nullopt;
  if (to) {
    ++reads_;
    const auto began = disk_since_.insert(now());
    auto* const place = memory_.get() + *to * chunk_bytes_;
    auto copy = [this, slot = *from, place](runtime::completer<std::string> done) {
      options_.settings.disk->read(slot, place, memory_, [done](std::string error) { done(std::move(error)); });
    };
    const auto error = co_await callback<std::string>(copy); // without a limit: something may land there until then
    disk_since_.erase(began);
    --reads_;
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
  auto waiting = std::move(reading_.at(name).waiting);
  reading_.erase(name);
  for (const auto& one : waiting) one(there);
  if (to) read_more(); // else whoever started this goes on
  write_more();
  recount();
}

// ---- To the disk ----------------------------------------------------------------------------------------------------

void kv_store_shard::write_more() {
  if (chunks_.filed() + chunks_.landing() <= chunks_.slots() / part_free) return;
  while (disk_works() && writes_ < options_.settings.disk_writes_max && now() >= no_writes_until_) {
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
  ++writes_;
  const auto began = disk_since_.insert(now());
  auto copy = [this, from, to](runtime::completer<std::string> done) {
    options_.settings.disk->write(to, memory_.get() + from * chunk_bytes_, memory_,
                                  [done](std::string error) { done(std::move(error)); });
  };
  const auto error = co_await callback<std::string>(copy);
  disk_since_.erase(began);
  --writes_;
  const bool well = error && error->empty();
  chunks_.end_copy(from, well);
  if (well) {
    on_disk_.file(to);
  } else {
    on_disk_.abandon(to);
    no_writes_until_ = now() + options_.settings.silence; // full, maybe
    note_failure("a write failed", error ? *error : error.error().message);
  }
  write_more();
  read_more();
  recount();
}

} // namespace godwit::actors
