#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/host.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace godwit::actors {

/// The way from other threads (HTTP sessions, an embedder's main) to the front end actor, which may be restarted behind
/// it. Thread-safe. Must not outlive its host.
class frontend_gate {
public:
  explicit frontend_gate(runtime::actor_host& host) : host_(host) {}

  /// Give it to node_options::on_topology.
  void update(const topology& news);
  /// All go to the same front end. False when there is none at the moment; the sinks hear `unavailable`.
  [[nodiscard]] bool submit(std::vector<std::shared_ptr<submission>> what);
  /// From now on there is no front end.
  void close();
  /// Its client is gone. Posts and returns: calls may come until the front end has read it; from then on none, and no
  /// ending either.
  void withdraw(std::shared_ptr<answer_sink> sink);
  /// True while some instance takes requests.
  [[nodiscard]] bool ready() const;
  [[nodiscard]] topology view() const;
  /// Waits until `count` instances take requests; false at the timeout: cluster::status then says why they do not come
  /// up (protocols::instance_status::last_error). Not in a simulation.
  [[nodiscard]] bool wait_ready(std::uint32_t count, std::chrono::milliseconds timeout) const;

private:
  runtime::actor_host& host_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  topology topology_;
};

} // namespace godwit::actors
