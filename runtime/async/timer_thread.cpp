#include <godwit/runtime/async/timer_thread.hpp>

#include <algorithm>

namespace godwit::runtime::async {

timer_thread::timer_thread() : thread_([this] { run(); }) {}

timer_thread::~timer_thread() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  while (!due_.empty()) { // one by one, for what they hold may have timers of its own
    const auto dropped = due_.extract(due_.begin());
    times_.erase(dropped.key().second);
  }
}

std::chrono::nanoseconds timer_thread::now() const noexcept { return std::chrono::steady_clock::now() - start_; }

timer_source::timer_id timer_thread::call_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  const auto time = now() + std::max(bounded_wait(delay), std::chrono::nanoseconds{0});
  const std::lock_guard lock{mutex_};
  const auto id = ++last_;
  if (ending_) return id; // its time would not come any more; the function goes when the caller's lock is gone
  due_.emplace(key{time, id}, std::move(function));
  times_.emplace(id, time);
  if (due_.begin()->first.second == id) changed_.notify_all();
  return id;
}

bool timer_thread::cancel(timer_id id) {
  decltype(due_)::node_type gone; // what the function holds goes without the lock: it may have timers of its own
  const std::lock_guard lock{mutex_};
  const auto found = times_.find(id);
  if (found == times_.end()) return false;
  gone = due_.extract(key{found->second, id});
  times_.erase(found);
  return true;
}

void timer_thread::run() {
  std::unique_lock lock{mutex_};
  while (!ending_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = due_.begin()->first.first;
    if (now() < next) {
      changed_.wait_until(lock, start_ + next);
      continue;
    }
    auto first = due_.extract(due_.begin());
    times_.erase(first.key().second);
    lock.unlock();
    try {
      first.mapped()();
    } catch (...) { // no memory for it: the others' time comes all the same
    }
    first = {};
    lock.lock();
  }
}

} // namespace godwit::runtime::async
