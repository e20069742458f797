#pragma once

#include "sim/due_queue.hpp"

#include <godwit/runtime/async/counter_random.hpp>

#include <caf/actor_clock.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/atom.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message_id.hpp>

#include <chrono>
#include <cstdint>
#include <unordered_map>

namespace godwit::runtime::sim::detail {

class node_timers;

/// CAF's timeouts of one system, on its node's time. CAF's own simulated clock finds the one to fire by counting all
/// that are due, in trees: too slow for a thousand instances.
class virtual_clock final : public caf::actor_clock {
public:
  explicit virtual_clock(node_timers& node) : node_(node) {}
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  /// By the world's clock.
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept;
  /// Among those due first, one drawn at random.
  void fire_one(async::counter_random& random);

  time_point now() const noexcept override;
  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type, std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver, caf::mailbox_element_ptr content) override;
  /// Groups have no place in a simulation: ends the process.
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender, caf::message content) override;
  void cancel_all() override;

private:
  enum class kind_type : std::uint8_t { ordinary, multi, request, message };
  struct timeout {
    kind_type kind = kind_type::ordinary;
    caf::atom_value type{};
    std::uint64_t id = 0;     ///< of a timeout, or of the request
    std::uint64_t next = 0;   ///< another one of this actor in the queue; 0: none. Messages are in no such list
    caf::strong_actor_ptr to; ///< held until then, as CAF does
    caf::mailbox_element_ptr content;
  };
  using queue = due_queue<timeout>;
  using heads = std::unordered_map<caf::actor_id, queue::id>;
  queue::id add(time_point t, caf::abstract_actor* self, timeout what);
  /// Takes the first of the actor's list out of list and queue for which that holds.
  template <class Predicate> void cancel(caf::actor_id actor, Predicate is_meant);
  void unlink(caf::actor_id actor, queue::id which);

  node_timers& node_;
  queue due_;
  heads first_; ///< of each actor's list
};

} // namespace godwit::runtime::sim::detail
