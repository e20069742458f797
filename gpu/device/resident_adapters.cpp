#include "device/resident_adapters.hpp"

#include <godwit/protocols/adapters/adapter_shelf.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace godwit::gpu {

namespace {

constexpr std::size_t loads_waiting_max = 4096;

} // namespace

struct resident_adapters::state : std::enable_shared_from_this<state> {
  struct order {
    protocols::adapter_ref which;
    std::function<void(adapter_outcome)> done;
  };

  state(std::uint64_t bytes_max, prepare_function how) : prepare(std::move(how)), shelf(bytes_max) {
    totals.bytes_max = bytes_max;
  }

  // With the mutex held, of one that is here.
  [[nodiscard]] adapter_outcome hold(std::uint64_t id) {
    shelf.use(id);
    auto let_go = [self = shared_from_this(), id](const void*) {
      {
        const std::lock_guard lock(self->mutex);
        self->shelf.release(id);
      }
      self->changed.notify_all(); // somebody may wait for its room
    };
    return {std::shared_ptr<const void>(made.at(id).get(), std::move(let_go)), {}};
  }

  void work() {
    for (;;) {
      order next;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return ends || !waiting.empty(); });
        if (ends) return;
        next = std::move(waiting.front());
        waiting.pop_front();
      }
      adapter_outcome outcome;
      try {
        outcome = bring(next.which);
      } catch (const std::exception& failure) {
        outcome.error = failure.what();
        const std::lock_guard lock(mutex);
        ++totals.failures_total;
      }
      next.done(std::move(outcome));
    }
  }

  adapter_outcome bring(const protocols::adapter_ref& which) {
    {
      const std::lock_guard lock(mutex);
      if (made.contains(which.id)) return hold(which.id); // by another order
    }
    auto ready = prepare(which);
    std::vector<std::shared_ptr<const void>> gone; // freed without the lock
    {
      std::unique_lock lock(mutex);
      if (ready.bytes > shelf.bytes_max())
        throw std::runtime_error("adapter '" + which.name + "' takes " + std::to_string(ready.bytes) +
                                 " bytes, more than the " + std::to_string(shelf.bytes_max()) +
                                 " that all adapters of this process may have; give it more");
      std::optional<std::vector<std::uint64_t>> evicted;
      changed.wait(lock, [&] { return ends || (evicted = shelf.make_room(ready.bytes)).has_value(); });
      if (!evicted) return {nullptr, "this process ends"};
      for (const auto id : *evicted) {
        gone.push_back(std::move(made.at(id)));
        made.erase(id);
      }
      totals.evictions_total += evicted->size();
      shelf.put(which.id, ready.bytes);
      shelf.use(which.id); // by this load
    }
    gone.clear();
    std::shared_ptr<const void> one;
    try {
      one = ready.make();
    } catch (...) {
      const std::lock_guard lock(mutex);
      shelf.release(which.id);
      shelf.drop(which.id);
      throw;
    }
    const std::lock_guard lock(mutex);
    made.emplace(which.id, std::move(one));
    ++totals.loads_total;
    auto outcome = hold(which.id);
    shelf.release(which.id);
    return outcome;
  }

  const prepare_function prepare;
  mutable std::mutex mutex;
  std::condition_variable changed;
  protocols::adapter_shelf shelf;
  std::unordered_map<std::uint64_t, std::shared_ptr<const void>> made;
  std::deque<order> waiting;
  adapter_counts totals; ///< without what the shelf knows
  bool ends = false;
  std::thread thread;
};

resident_adapters::resident_adapters(std::uint64_t bytes_max, prepare_function prepare)
    : state_(std::make_shared<state>(bytes_max, std::move(prepare))) {
  state_->thread = std::thread([raw = state_.get()] { raw->work(); });
}

resident_adapters::~resident_adapters() {
  std::deque<state::order> left;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    left.swap(state_->waiting);
  }
  state_->changed.notify_all();
  state_->thread.join();
  for (auto& order : left) order.done({nullptr, "this process ends"});
}

void resident_adapters::load(const protocols::adapter_ref& which, std::function<void(adapter_outcome)> done) {
  adapter_outcome outcome;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->made.contains(which.id)) {
      outcome = state_->hold(which.id);
    } else if (state_->ends || state_->waiting.size() >= loads_waiting_max) {
      outcome.error = "too many adapters are being loaded";
    } else {
      state_->waiting.push_back({which, std::move(done)});
      state_->changed.notify_all();
      return;
    }
  }
  done(std::move(outcome));
}

adapter_counts resident_adapters::counts() const {
  const std::lock_guard lock(state_->mutex);
  auto out = state_->totals;
  out.bytes = state_->shelf.bytes();
  out.adapters = state_->made.size();
  return out;
}

std::shared_ptr<const void> resident_adapters::find(std::uint64_t id) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->made.find(id);
  return found == state_->made.end() ? nullptr : found->second;
}

} // namespace godwit::gpu
