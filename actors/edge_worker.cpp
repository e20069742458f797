#include <godwit/actors/edge_worker.hpp>

#include <utility>

namespace godwit::actors {

edge_worker::edge_worker(std::size_t waiting_max) : waiting_max_(waiting_max), thread_([this] { run(); }) {}

edge_worker::~edge_worker() { end(); }

void edge_worker::end() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    dropped.swap(waiting_);
  }
  dropped.clear(); // without the lock: what jobs own may come back here
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool edge_worker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_ || waiting_.size() >= waiting_max_) return false;
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void edge_worker::run() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      job();
    } catch (...) { // no memory for it: what it held is let go, and its client hears of that
    }
  }
}

} // namespace godwit::actors
