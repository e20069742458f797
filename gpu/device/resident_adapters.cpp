#include "device/resident_adapters.hpp"

#include <godwit/protocols/adapters/adapter_orders.hpp>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::gpu {

namespace {

constexpr std::size_t adapter_askers_max = 4096;

} // namespace

struct resident_adapters::state : std::enable_shared_from_this<state> {
  using orders = protocols::adapter_orders;
  using tickets = std::vector<orders::ticket>;
  struct asker {
    std::weak_ptr<const void> alive;
    std::function<void(adapter_outcome)> done;
  };

  state(std::uint64_t bytes_max, source how) : from(std::move(how)), books(bytes_max, adapter_askers_max) {
    totals.bytes_max = bytes_max;
  }

  /// Of one that the books count as a user; without the mutex, which the last holder takes.
  [[nodiscard]] std::shared_ptr<const void> held(std::uint64_t id, const void* what) {
    auto let_go = [self = shared_from_this(), id](const void*) {
      {
        const std::lock_guard lock(self->mutex);
        self->books.release(id);
      }
      self->changed.notify_all(); // somebody may wait for its room
    };
    return {what, std::move(let_go)};
  }

  void work() {
    std::unique_lock lock(mutex);
    while (!ends) {
      if (auto gone = those_gone(); !gone.empty()) {
        lock.unlock(); // what they own may let go of adapters
        gone.clear();
        lock.lock();
        continue;
      }
      const auto next = books.next();
      switch (next.kind) {
      case orders::work::what::none:
        changed.wait(lock);
        break;
      case orders::work::what::measure:
        measure(lock, next.which);
        break;
      case orders::work::what::bring:
        bring(lock, next.which, next.evicted);
        break;
      }
    }
  }

  [[nodiscard]] std::vector<asker> those_gone() {
    std::vector<asker> gone;
    for (auto one = askers.begin(); one != askers.end();) {
      const auto here = one++;
      if (!here->second.alive.expired()) continue;
      books.leave(here->first);
      gone.push_back(std::move(here->second));
      askers.erase(here);
    }
    return gone;
  }

  void measure(std::unique_lock<std::mutex>& lock, const protocols::adapter_ref& which) {
    lock.unlock();
    std::uint64_t bytes = 0;
    adapter_outcome wrong;
    attempt(wrong, [&] { bytes = from.measure(which); });
    lock.lock();
    if (!wrong.error.empty()) return tell(lock, books.failed(), wrong);
    const auto in_vain = books.measured(bytes);
    if (in_vain.empty()) return;
    wrong.error = "adapter '" + which.name + "' takes " + std::to_string(bytes) + " bytes, more than the " +
                  std::to_string(totals.bytes_max) + " that all adapters of this process may have; give it more";
    tell(lock, in_vain, wrong);
  }

  void bring(std::unique_lock<std::mutex>& lock, const protocols::adapter_ref& which,
             const std::vector<std::uint64_t>& evicted) {
    std::vector<std::shared_ptr<const void>> gone;
    for (const auto id : evicted) {
      gone.push_back(std::move(made.at(id)));
      made.erase(id);
    }
    totals.evictions_total += evicted.size();
    lock.unlock();
    gone.clear();
    std::shared_ptr<const void> one;
    adapter_outcome wrong;
    attempt(wrong, [&] { one = from.make(which); });
    lock.lock();
    if (!wrong.error.empty()) return tell(lock, books.failed(), wrong);
    const auto* const what = one.get();
    made.insert_or_assign(which.id, std::move(one));
    ++totals.loads_total;
    const auto users = books.brought();
    auto told = take(users);
    lock.unlock();
    for (auto& asking : told) { // who has gone lets go at once
      auto hold = held(which.id, what);
      if (!asking.alive.expired()) asking.done({std::move(hold), {}, false});
    }
    told.clear();
    lock.lock();
  }

  template <class Try> static void attempt(adapter_outcome& wrong, const Try& what) {
    try {
      what();
    } catch (const adapter_not_now& failure) {
      wrong.error = failure.what();
      wrong.passes = true;
    } catch (const std::bad_alloc&) {
      wrong.error = "too little memory";
      wrong.passes = true;
    } catch (const std::exception& failure) {
      wrong.error = failure.what();
    }
  }

  /// One for each ticket; of those who are not here an empty one, which has gone.
  [[nodiscard]] std::vector<asker> take(const tickets& whom) {
    std::vector<asker> out;
    for (const auto who : whom) {
      const auto found = askers.find(who);
      out.push_back(found == askers.end() ? asker{} : std::move(found->second));
      if (found != askers.end()) askers.erase(found);
    }
    return out;
  }

  void tell(std::unique_lock<std::mutex>& lock, const tickets& whom, const adapter_outcome& what) {
    ++totals.failures_total;
    auto told = take(whom);
    lock.unlock();
    for (auto& one : told)
      if (!one.alive.expired()) one.done(what);
    told.clear();
    lock.lock();
  }

  const source from;
  mutable std::mutex mutex;
  std::condition_variable changed;
  orders books;
  std::map<orders::ticket, asker> askers; ///< those who wait
  std::unordered_map<std::uint64_t, std::shared_ptr<const void>> made;
  adapter_counts totals; ///< without what the shelf knows
  orders::ticket last = 0;
  bool ends = false;
  std::thread thread;
};

resident_adapters::resident_adapters(std::uint64_t bytes_max, source from)
    : state_(std::make_shared<state>(bytes_max, std::move(from))) {
  state_->thread = std::thread([own = state_] { own->work(); });
}

resident_adapters::~resident_adapters() {
  std::map<state::orders::ticket, state::asker> left; // dropped without the mutex
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    left.swap(state_->askers);
  }
  state_->changed.notify_all();
  if (state_->thread.get_id() == std::this_thread::get_id())
    state_->thread.detach(); // the last who had us was told something
  else
    state_->thread.join();
}

void resident_adapters::load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
                             std::function<void(adapter_outcome)> done) {
  using asking = protocols::adapter_orders::asking;
  const void* what = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    const auto number = ++state_->last;
    const auto answer = state_->ends ? asking::too_many : state_->books.ask(which, number);
    if (answer == asking::waits) {
      state_->askers.emplace(number, state::asker{std::move(asker), std::move(done)});
      state_->changed.notify_all();
      return;
    }
    if (answer == asking::there) what = state_->made.at(which.id).get();
  }
  if (what == nullptr) state_->changed.notify_all(); // some of those who wait may have gone
  if (what == nullptr) return done({nullptr, "too many requests wait for adapters", true});
  done({state_->held(which.id, what), {}, false});
}

adapter_counts resident_adapters::counts() const {
  const std::lock_guard lock(state_->mutex);
  auto out = state_->totals;
  out.bytes = state_->books.shelf().bytes();
  out.adapters = state_->made.size();
  return out;
}

std::shared_ptr<const void> resident_adapters::find(std::uint64_t id) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->made.find(id);
  return found == state_->made.end() ? nullptr : found->second;
}

} // namespace godwit::gpu
