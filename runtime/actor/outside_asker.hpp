#pragma once

#include "actor/engine.hpp"

#include <caf/mailbox_element.hpp>
#include <caf/monitorable_actor.hpp>

#include <condition_variable>
#include <functional>
#include <mutex>

namespace godwit::runtime::detail {

/// Takes the answer to one request from a thread that is no actor. CAF's own scoped_actor keeps stale timeouts in its
/// mailbox and brings a whole blocking actor along.
class outside_asker final : public caf::monitorable_actor {
public:
  explicit outside_asker(caf::actor_config& config) : caf::monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override;
  [[nodiscard]] bool answered() const;
  /// False at the deadline.
  bool wait_until(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] caf::mailbox_element_ptr take();

private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  caf::mailbox_element_ptr answer_;
};

/// Sends the request, has `wait` wait for the answer (it may give up), and gives it, or a timeout, to `take`.
void ask_from_outside(engine& e, const actor_ref& to, draft message, const std::function<void(outside_asker&)>& wait,
                      const std::function<void(answer&)>& take);

/// The same without waiting: `take` is called once when the answer comes, by whoever brings it, and never where none
/// comes. The engine must be there as long as the answer can come.
void ask_and_go_on(engine& e, const actor_ref& to, draft message, std::function<void(answer&)> take);

} // namespace godwit::runtime::detail
