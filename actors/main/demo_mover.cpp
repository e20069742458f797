#include "main/demo_mover.hpp"

#include <algorithm>
#include <chrono>

namespace godwit::main {

mover::mover(actors::cluster& cluster) : cluster_(cluster), thread_([this] { run(); }) {}

moves mover::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return done_;
}

void mover::run() {
  while (!stopping_) {
    move_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void mover::move_all() {
  const auto status = cluster_.status(true);
  if (!status) return;
  std::vector<protocols::instance_id> ready;
  for (const auto& instance : status->instances)
    if (instance.state == protocols::instance_state::ready) ready.push_back(instance.instance);
  if (ready.size() < 2) return;
  for (const auto& instance : status->instances)
    for (const auto& request : instance.requests) {
      if (stopping_) return;
      auto next = std::find(ready.begin(), ready.end(), instance.instance);
      if (next == ready.end() || ++next == ready.end()) next = ready.begin();
      ++done_.ordered;
      const auto report = cluster_.migrate(request.request, *next);
      if (!report || !report->committed()) continue;
      ++done_.committed;
      done_.bytes += report->bytes;
      done_.stall_ms.push_back(static_cast<double>(report->stall_ns) / 1e6);
    }
}

} // namespace godwit::main
