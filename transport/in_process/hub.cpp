#include "in_process/hub.hpp"

#include "fabric/identity.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

namespace godwit::transport::in_process {

namespace {

constexpr auto pause_after_failure = std::chrono::milliseconds(10);

/// Users' callbacks must not throw. Where there is no memory to post with they do, and that ends nothing else.
template <class Call> void tell_user(const Call& call) noexcept {
  try {
    call();
  } catch (...) {
  }
}

/// Of a write that is not to land: no more can be done where there is no memory for that.
void give_up(member& receiver, std::uint64_t write, const char* why) noexcept {
  try {
    for (auto& tell : receiver.table.failed(write, why)) tell_user(tell);
  } catch (...) {
  }
}

} // namespace

hub::hub(settings options)
    : bytes_per_piece_(options.bytes_per_piece), name_("godwit-fabric/1/in-process/" + random_identity() + "/"),
      copies_(std::move(options.device),
              [this] {
                {
                  const std::lock_guard lock{mutex_};
                  copies_ended_ = true;
                }
                changed_.notify_all();
              }),
      thread_([this] { run(); }) {}

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
  std::list<leaver> going; // what follows must not fail for want of memory before it is known that it leaves
  going.push_back({who, [&left] { left.set_value(); }, {}});
  // On the thread, so that no piece is being copied from or to the member.
  call([this, &going] {
    going.front().until = std::chrono::steady_clock::now() + copies_.patience();
    leaving_.splice(leaving_.end(), going);
    tell_left();
  });
  left.get_future().wait();
}

// A device's copy holds its memory until it has ended, and so long nobody is told that no write can land. What throws
// is tried again.
void hub::tell_left() {
  const auto now = std::chrono::steady_clock::now();
  for (auto i = leaving_.begin(); i != leaving_.end();) {
    const auto here = i++;
    end_sends(*here->who);
    if (here->who->copies != 0 && now < here->until) continue;
    for (auto& last : here->who->table.close_all()) tell_user(last);
    std::list<leaver> over;
    over.splice(over.begin(), leaving_, here);
    over.front().who.reset();
    over.front().left();
  }
}

void hub::end_sends(const member& of) {
  std::unique_lock lock{mutex_};
  members_.erase(of.address);
  for (auto* queue : {&urgent_, &bulk_, &copying_})
    for (auto i = queue->begin(); i != queue->end();) {
      const auto here = i++;
      if (here->from.get() == &of) finish(lock, *queue, here, "the fabric was closed");
    }
}

void hub::send(std::shared_ptr<member> from, const std::string& peer, transfer_key key, std::uint32_t first_region,
               std::vector<protocols::memory_region> regions, transfer_priority priority,
               std::chrono::nanoseconds timeout, std::shared_ptr<void> keep, std::function<void(std::string)> done) {
  const auto now = std::chrono::steady_clock::now();
  const auto memory = kind_of(regions, copies_.present());
  job made{0,
           std::move(from),
           peer,
           key,
           piece_cutter{first_region, std::move(regions)},
           now + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24)),
           std::move(keep),
           std::move(done),
           memory};
  {
    const std::lock_guard lock{mutex_};
    made.name = ++last_job_;
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
  tell_user([&] { ended.done(std::move(error)); });
  over.clear();
  lock.lock();
}

void hub::finish_late(std::unique_lock<std::mutex>& lock) {
  const auto now = std::chrono::steady_clock::now();
  for (auto* queue : {&urgent_, &bulk_, &copying_})
    for (auto i = queue->begin(); i != queue->end();) {
      const auto here = i++;
      if (here->deadline <= now) finish(lock, *queue, here, "timed out");
    }
}

bool hub::copy_or_fail(std::unique_lock<std::mutex>& lock, std::list<job>& queue) {
  const auto name = queue.front().name;
  try {
    return copy_piece(lock, queue);
  } catch (const std::exception& failure) { // no memory: a piece of it may be missing
    if (!lock.owns_lock()) lock.lock();
    if (!queue.empty() && queue.front().name == name) finish(lock, queue, queue.begin(), failure.what());
    return true;
  }
}

bool hub::copy_piece(std::unique_lock<std::mutex>& lock, std::list<job>& queue) {
  const auto first = queue.begin();
  const auto found = members_.find(first->peer);
  if (found == members_.end() || !first->memory.error.empty()) {
    finish(lock, queue, first, found == members_.end() ? "no fabric at " + first->peer : first->memory.error);
    return true;
  }
  const auto to = found->second;
  lock.unlock(); // entries of a list stay where they are; only this thread removes any
  const bool into_device = to->table.on_device(first->key);
  if (first->memory.device || into_device) {
    const auto room = copies_.room(first->memory.device, into_device, &queue == &urgent_);
    if (room) copy_on_device(lock, queue, to, *room);
    if (!room) lock.lock();
    return room.has_value();
  }
  std::vector<protocols::memory_region> from;
  const piece_limits limits{bytes_per_piece_, 1U << 16U, 1U << 16U};
  const auto cut = first->cutter.next(limits, from);
  auto place = to->table.admit(first->key, cut);
  if (place.error.empty() && on_device(place.into)) { // since it was asked about
    give_up(*to, place.write, "posted while it was being sent to");
    place.error = "posting " + to_string(first->key) + ": posted while it was being sent to";
  }
  if (!place.error.empty()) {
    lock.lock();
    finish(lock, queue, first, place.error);
    return true;
  }
  std::size_t index = 0;
  for (const auto& source : from) std::memcpy(place.into[index++].address, source.address, source.bytes);
  try {
    for (auto& tell : to->table.landed(place.write)) tell_user(tell);
  } catch (const std::exception& failure) {
    give_up(*to, place.write, failure.what());
    throw;
  }
  lock.lock();
  ++first->from->counted.messages_sent;
  ++to->counted.messages_landed;
  to->counted.bytes_landed += cut.bytes;
  if (first->cutter.ended()) finish(lock, queue, first, {});
  return true;
}

// The copies of a job may end in any order: each is a write of its own, and what counts is how many have landed.
void hub::copy_on_device(std::unique_lock<std::mutex>& lock, std::list<job>& queue, const std::shared_ptr<member>& to,
                         std::uint64_t room) {
  const auto first = queue.begin();
  std::vector<protocols::memory_region> from;
  const auto cut = first->cutter.next({room, 1U << 16U, 1U << 16U}, from);
  auto place = to->table.admit(first->key, cut, true);
  if (!place.error.empty()) {
    lock.lock();
    return finish(lock, queue, first, place.error);
  }
  const bool urgent = &queue == &urgent_;
  auto then = [this, name = first->name, sender = first->from, to, write = place.write,
               bytes = cut.bytes](const std::string& error) { copied(name, sender, to, write, bytes, error); };
  if (cut.bytes != 0) try {
      copies_.move(
          std::move(from), std::move(place.into), urgent, {first->keep, std::move(place.keep)},
          [to, write = place.write] { return to->table.writing(write); }, then);
    } catch (const std::exception& failure) { // it has not begun
      give_up(*to, place.write, failure.what());
      throw;
    }
  ++first->copies; // its end is told on this thread, later
  ++first->from->copies;
  ++to->copies;
  if (cut.bytes == 0) {
    place.keep.reset();
    then({});
  }
  lock.lock();
  ++queue.front().from->counted.messages_sent;
  if (!queue.front().cutter.ended()) return;
  if (queue.front().copies == 0) return finish(lock, queue, queue.begin(), {});
  copying_.splice(copying_.end(), queue, queue.begin());
}

void hub::copied(std::uint64_t name, const std::shared_ptr<member>& from, const std::shared_ptr<member>& to,
                 std::uint64_t write, std::uint64_t bytes, const std::string& error) {
  --from->copies; // before anything that may fail
  --to->copies;
  std::unique_lock lock{mutex_};
  std::list<job>* where = nullptr;
  std::list<job>::iterator which;
  for (auto* queue : {&urgent_, &bulk_, &copying_})
    for (auto i = queue->begin(); i != queue->end(); ++i)
      if (i->name == name) where = queue, which = i;
  if (where != nullptr) --which->copies;
  auto wrong = error;
  if (wrong.empty() && !to->table.writing(write)) wrong = "the receiver has ended";
  // Whoever has been told that the send failed may have filled its memory with something else since.
  if (wrong.empty() && where == nullptr) wrong = "the sender gave up while its memory was copied";
  if (wrong.empty()) {
    ++to->counted.messages_landed;
    to->counted.bytes_landed += bytes;
  }
  lock.unlock();
  try {
    for (auto& tell : wrong.empty() ? to->table.landed(write) : to->table.failed(write, wrong)) tell_user(tell);
  } catch (const std::exception& failure) {
    wrong = failure.what();
    give_up(*to, write, failure.what());
  }
  if (where == nullptr) return;
  lock.lock();
  if (!wrong.empty())
    finish(lock, *where, which, wrong);
  else if (where == &copying_ && which->copies == 0)
    finish(lock, *where, which, {});
}

// What is thrown, for want of memory, is not the end of the others.
void hub::run() noexcept {
  for (bool over = false; !over;) {
    try {
      work();
      over = true;
    } catch (const std::exception&) { // nobody here can be told
      std::this_thread::sleep_for(pause_after_failure);
    }
  }
}

void hub::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    if (!calls_.empty()) {
      auto next = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      tell_user(next);
      next = nullptr;
      lock.lock();
      continue;
    }
    if (copies_ended_ || !leaving_.empty()) {
      const bool ended = std::exchange(copies_ended_, false);
      lock.unlock();
      (void)copies_.run();
      tell_left();
      lock.lock();
      if (ended) continue;
    }
    finish_late(lock);
    if (!calls_.empty() || copies_ended_) continue;
    const bool none_urgent = urgent_.empty();
    if (!none_urgent && copy_or_fail(lock, urgent_)) continue;
    if (!bulk_.empty() && copy_or_fail(lock, bulk_)) continue;
    // What came while the lock was let go of has woken nobody.
    if (!calls_.empty() || copies_ended_ || (none_urgent && !urgent_.empty())) continue;
    if (ending_) return;
    wait(lock);
  }
}

// What waits for copies alone is late at its time all the same.
void hub::wait(std::unique_lock<std::mutex>& lock) {
  auto until = time::max();
  for (const auto* queue : {&urgent_, &bulk_, &copying_})
    for (const auto& one : *queue) until = std::min(until, one.deadline);
  for (const auto& one : leaving_) until = std::min(until, one.until);
  if (until == time::max())
    changed_.wait(lock);
  else
    changed_.wait_until(lock, until);
}

} // namespace godwit::transport::in_process
