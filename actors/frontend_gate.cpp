#include <godwit/actors/frontend_gate.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors {

void frontend_gate::update(const topology& news) {
  const std::lock_guard lock(mutex_);
  if (news.version <= topology_.version) return;
  topology_ = news;
  changed_.notify_all();
}

void frontend_gate::close() {
  const std::lock_guard lock(mutex_);
  topology_ = {};
  topology_.version = ~std::uint64_t{0};
}

bool frontend_gate::wait_ready(std::uint32_t count, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, runtime::async::bounded_wait(timeout), [this, count] {
    const auto& all = topology_.instances;
    return std::count_if(all.begin(), all.end(), [](const instance_entry& entry) { return entry.takes_requests(); }) >=
           count;
  });
}

topology frontend_gate::view() const {
  const std::lock_guard lock(mutex_);
  return topology_;
}

bool frontend_gate::ready() const {
  const std::lock_guard lock(mutex_);
  return topology_.frontend && std::any_of(topology_.instances.begin(), topology_.instances.end(),
                                           [](const instance_entry& entry) { return entry.takes_requests(); });
}

bool frontend_gate::submit(std::vector<std::shared_ptr<submission>> what) {
  runtime::handle<frontend_interface> frontend;
  {
    const std::lock_guard lock(mutex_);
    frontend = topology_.frontend; // and not a copy of all that is there
  }
  if (!frontend) return false;
  for (auto& one : what) host_.tell(frontend, submit_request{std::move(one)});
  return true;
}

void frontend_gate::withdraw(std::shared_ptr<answer_sink> sink) {
  runtime::handle<frontend_interface> frontend;
  {
    const std::lock_guard lock(mutex_);
    frontend = topology_.frontend;
  }
  if (frontend) host_.tell(frontend, withdraw_request{std::move(sink)});
}

} // namespace godwit::actors
