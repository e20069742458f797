#include "in_process/hub.hpp"

#include "fabric/identity.hpp"

#include <cstring>
#include <future>
#include <utility>

namespace godwit::transport::in_process {

hub::hub(settings options)
    : options_(options), name_("godwit-fabric/1/in-process/" + random_identity() + "/"), thread_([this] { run(); }) {}

hub::~hub() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<member> hub::join() {
  auto made = std::make_shared<member>();
  const std::lock_guard lock{mutex_};
  made->address = name_ + std::to_string(++last_member_);
  members_.emplace(made->address, made);
  return made;
}

void hub::call(std::function<void()> function) {
  {
    const std::lock_guard lock{mutex_};
    calls_.push_back(std::move(function));
  }
  changed_.notify_all();
}

void hub::leave(const std::shared_ptr<member>& who) {
  std::promise<void> left;
  // On the thread, so that no piece is being copied from or to the member.
  call([this, &who, &left] {
    for (auto& last : who->table.close_all()) last();
    std::unique_lock lock{mutex_};
    members_.erase(who->address);
    for (auto* queue : {&urgent_, &bulk_})
      for (auto i = queue->begin(); i != queue->end();) {
        const auto here = i++;
        if (here->from == who) finish(lock, *queue, here, "the fabric was closed");
      }
    left.set_value();
  });
  left.get_future().wait();
}

void hub::send(std::shared_ptr<member> from, const std::string& peer, transfer_key key, std::uint32_t first_region,
               std::vector<protocols::memory_region> regions, transfer_priority priority,
               std::chrono::nanoseconds timeout, std::shared_ptr<void> keep, std::function<void(std::string)> done) {
  const auto now = std::chrono::steady_clock::now();
  job made{std::move(from), peer,           key, piece_cutter{first_region, std::move(regions)}, now + timeout,
           std::move(keep), std::move(done)};
  {
    const std::lock_guard lock{mutex_};
    ++made.from->counted.sends_open;
    (priority == transfer_priority::urgent ? urgent_ : bulk_).push_back(std::move(made));
  }
  changed_.notify_all();
}

fabric::counters hub::figures(const member& who) const {
  const std::lock_guard lock{mutex_};
  return who.counted;
}

void hub::finish(std::unique_lock<std::mutex>& lock, std::list<job>& queue, std::list<job>::iterator which,
                 std::string error) {
  std::list<job> over;
  over.splice(over.begin(), queue, which);
  auto& ended = over.front();
  auto& counted = ended.from->counted;
  --counted.sends_open;
  if (error.empty())
    counted.bytes_sent += ended.cutter.bytes_total();
  else
    ++counted.failed;
  lock.unlock();
  ended.keep.reset();
  ended.done(std::move(error));
  over.clear();
  lock.lock();
}

void hub::finish_late(std::unique_lock<std::mutex>& lock) {
  const auto now = std::chrono::steady_clock::now();
  for (auto* queue : {&urgent_, &bulk_})
    for (auto i = queue->begin(); i != queue->end();) {
      const auto here = i++;
      if (here->deadline <= now) finish(lock, *queue, here, "timed out");
    }
}

void hub::copy_piece(std::unique_lock<std::mutex>& lock) {
  auto& queue = urgent_.empty() ? bulk_ : urgent_;
  const auto first = queue.begin();
  const auto found = members_.find(first->peer);
  if (found == members_.end()) return finish(lock, queue, first, "no fabric at " + first->peer);
  const auto to = found->second;
  lock.unlock(); // entries of a list stay where they are; only this thread removes any
  std::vector<protocols::memory_region> from;
  const piece_limits limits{options_.bytes_per_piece, 1U << 16U, 1U << 16U};
  const auto cut = first->cutter.next(limits, from);
  auto place = to->table.admit(first->key, cut);
  for (const auto& region : from)
    if (region.kind == protocols::memory_kind::device && place.error.empty()) {
      place.error = "device memory needs staging";
      for (auto& tell : to->table.failed(place.write, place.error)) tell();
    }
  if (!place.error.empty()) {
    lock.lock();
    return finish(lock, queue, first, place.error);
  }
  std::size_t index = 0;
  for (const auto& source : from) std::memcpy(place.into[index++].address, source.address, source.bytes);
  for (auto& tell : to->table.landed(place.write)) tell();
  lock.lock();
  ++first->from->counted.messages_sent;
  ++to->counted.messages_landed;
  to->counted.bytes_landed += cut.bytes;
  if (first->cutter.ended()) finish(lock, queue, first, {});
}

void hub::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    if (!calls_.empty()) {
      auto next = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      next();
      next = nullptr;
      lock.lock();
      continue;
    }
    finish_late(lock);
    if (!calls_.empty()) continue;
    if (!urgent_.empty() || !bulk_.empty())
      copy_piece(lock);
    else if (ending_)
      return;
    else
      changed_.wait(lock);
  }
}

} // namespace godwit::transport::in_process
