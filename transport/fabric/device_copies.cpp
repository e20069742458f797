#include "fabric/device_copies.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace godwit::transport {

namespace {

using protocols::copy_urgency;
using protocols::memory_kind;
using protocols::memory_region;

/// Device-to-device copies at a time: one runs, others wait behind it; urgent ones have their own.
constexpr std::uint64_t direct_max = 4;
/// Less at once would end no transfer.
constexpr std::size_t bytes_per_copy_min = 4096;

copy_urgency urgency(bool urgent) { return urgent ? copy_urgency::urgent : copy_urgency::bulk; }

std::size_t sum(const std::vector<memory_region>& regions) {
  std::size_t bytes = 0;
  for (const auto& region : regions) bytes += region.bytes;
  return bytes;
}

memory_region pinned(const pinned_piece& piece, std::size_t bytes) { return {piece.get(), bytes, memory_kind::pinned}; }

} // namespace

bool on_device(const std::vector<memory_region>& regions) noexcept {
  return std::any_of(regions.begin(), regions.end(),
                     [](const auto& region) { return region.kind == memory_kind::device; });
}

std::vector<memory_region> cut_like(const pinned_piece& piece, const std::vector<memory_region>& regions) {
  std::vector<memory_region> out;
  out.reserve(regions.size());
  std::size_t at = 0;
  for (const auto& region : regions) {
    out.push_back({piece.get() + at, region.bytes, memory_kind::pinned});
    at += region.bytes;
  }
  return out;
}

memory_question kind_of(const std::vector<memory_region>& regions, bool reachable) {
  memory_question out;
  out.device = on_device(regions);
  if (out.device && !reachable)
    out.error = "device memory is not reachable by this fabric; stage it in host memory";
  else if (out.device && std::any_of(regions.begin(), regions.end(), [](const auto& region) {
             return region.kind != memory_kind::device && region.bytes != 0;
           }))
    out.error = "memory of the host and of a device in one transfer";
  return out;
}

/// Where the copier's threads leave what has ended. Outlives the fabric while copies are under way.
struct device_copies::post_box {
  struct entry {
    owners held; ///< let go of before `then`
    ended then;
    std::string error;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::list<entry> entries;
  std::function<void()> wake; ///< empty: the fabric is gone

  /// One, made before.
  void put(std::list<entry>& made) {
    {
      const std::lock_guard lock{mutex};
      entries.splice(entries.end(), made);
      if (wake) wake(); // under the lock: whoever takes it away waits for the call
    }
    changed.notify_all();
  }
  std::optional<entry> next() {
    const std::lock_guard lock{mutex};
    if (entries.empty()) return std::nullopt;
    std::optional<entry> first{std::move(entries.front())};
    entries.pop_front();
    return first;
  }
  void wait() {
    std::unique_lock lock{mutex};
    changed.wait(lock, [this] { return !entries.empty(); });
  }
};

device_copies::device_copies(device_memory options, std::function<void()> wake)
    : options_(std::move(options)), box_(std::make_shared<post_box>()) {
  box_->wake = std::move(wake);
  if (!present()) return;
  const auto ring = [this] {
    return std::make_unique<pinned_ring>(*options_.copier, options_.pieces, options_.urgent_pieces,
                                         options_.bytes_per_piece);
  };
  sending_ = ring();
  arriving_ = ring();
}

pinned_ring* device_copies::reading() {
  if (!reading_ && !reading_failed_ && present()) try {
      reading_ = std::make_unique<pinned_ring>(*options_.copier, options_.pieces, options_.urgent_pieces,
                                               options_.bytes_per_piece);
    } catch (const std::runtime_error&) {
      reading_failed_ = true;
    }
  return reading_.get();
}

// A device that does not end its copies would hold up whoever destroys its copier, frees page-locked memory or lets go
// of what the copies hold; the middle one waits for whatever else the device has, too. None of that may happen on the
// copier's own threads, nor wait for ever on the fabric's.
device_copies::~device_copies() {
  {
    const std::lock_guard lock{box_->mutex};
    box_->wake = nullptr;
  }
  if (!present()) return;
  struct rest {
    std::shared_ptr<post_box> box;
    std::uint64_t open = 0;
    std::shared_ptr<protocols::memory_copier> copier;
    std::unique_ptr<pinned_ring> sending, arriving, reading; // they go before the copier
  };
  const auto patience = open_ == 0 ? options_.patience : std::chrono::milliseconds{0}; // `finish` had some
  auto* const left =
      new rest{box_, open_, std::move(options_.copier), std::move(sending_), std::move(arriving_), std::move(reading_)};
  std::promise<void> gone;
  const auto when_gone = gone.get_future();
  try {
    std::thread([left, gone = std::move(gone)]() mutable {
      std::unique_ptr<rest> mine(left);
      for (; mine->open != 0; --mine->open) {
        mine->box->wait();
        (void)mine->box->next();
      }
      mine.reset();
      gone.set_value();
    }).detach();
    (void)when_gone.wait_for(patience);
  } catch (const std::system_error&) {
  } // no thread: it stays until the process ends, since letting go of it might wait for ever
}

template <class Copy> void device_copies::begin(owners held, ended then, const Copy& copy) {
  // A std::function is copied at will, but called once: what it holds moves on with the call.
  auto mine = std::make_shared<std::list<post_box::entry>>();
  mine->push_back({std::move(held), std::move(then), {}});
  completion over = [box = box_, mine = std::move(mine)](std::string error) {
    mine->front().error = std::move(error);
    box->put(*mine);
  };
  ++open_;
  try {
    copy(std::move(over));
  } catch (...) { // it has not begun
    --open_;
    throw;
  }
}

void device_copies::gather(regions from, const pinned_piece& into, bool urgent, owners keep, ended then) {
  const auto place = pinned(into, sum(from));
  keep.push_back(into);
  begin(std::move(keep), std::move(then),
        [&](completion over) { options_.copier->gather(std::move(from), place, urgency(urgent), std::move(over)); });
}

void device_copies::scatter(const pinned_piece& from, regions into, bool urgent, owners keep, ended then) {
  const auto place = pinned(from, sum(into));
  keep.push_back(from);
  begin(std::move(keep), std::move(then),
        [&](completion over) { options_.copier->scatter(place, std::move(into), urgency(urgent), std::move(over)); });
}

std::optional<std::uint64_t> device_copies::room(bool from_device, bool into_device, bool urgent) {
  if (from_device && into_device) {
    if ((urgent ? direct_urgent_ : direct_bulk_) >= direct_max) return std::nullopt;
    return std::max(options_.bytes_per_copy, bytes_per_copy_min);
  }
  const auto& ring = from_device ? *sending_ : *arriving_;
  if (!ring.free(urgent)) return std::nullopt;
  return ring.bytes();
}

void device_copies::move(regions from, regions into, bool urgent, owners keep, std::function<bool()> wanted,
                         ended then) {
  const bool from_device = on_device(from), into_device = on_device(into);
  if (from_device && into_device) {
    auto& count = urgent ? direct_urgent_ : direct_bulk_;
    auto over = [&count, then = std::move(then)](const std::string& error) {
      --count;
      then(error);
    };
    begin(std::move(keep), std::move(over), [&](completion end) {
      options_.copier->copy(std::move(from), std::move(into), urgency(urgent), std::move(end));
    });
    ++count;
    return;
  }
  auto piece = (from_device ? *sending_ : *arriving_).take(urgent);
  if (into_device) {
    const auto parts = cut_like(piece, from);
    for (std::size_t i = 0; i < from.size(); ++i) std::memcpy(parts[i].address, from[i].address, from[i].bytes);
    return scatter(piece, std::move(into), urgent, std::move(keep), std::move(then));
  }
  // Held until the host's part is done, too.
  auto over = [piece, keep = std::move(keep), into = std::move(into), wanted = std::move(wanted),
               then = std::move(then)](const std::string& error) mutable {
    const auto parts = cut_like(piece, into);
    if (error.empty() && wanted())
      for (std::size_t i = 0; i < into.size(); ++i) std::memcpy(into[i].address, parts[i].address, into[i].bytes);
    piece.reset();
    keep.clear();
    then(error);
  };
  gather(std::move(from), piece, urgent, {}, std::move(over));
}

bool device_copies::run() {
  bool any = false;
  while (auto next = box_->next()) {
    any = true;
    --open_;
    next->held.clear();
    next->then(next->error);
  }
  return any;
}

void device_copies::finish() {
  const auto until = std::chrono::steady_clock::now() + options_.patience;
  while (open_ != 0) {
    if (run()) continue;
    std::unique_lock lock{box_->mutex};
    if (!box_->changed.wait_until(lock, until, [this] { return !box_->entries.empty(); })) return;
  }
}

} // namespace godwit::transport
