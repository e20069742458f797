#pragma once

#include "actor/deadlines.hpp"
#include "actor/letter.hpp"
#include "actor/order_notes.hpp"
#include "actor/tracing.hpp"

#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/sim/event_log.hpp>

#include <caf/event_based_actor.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::runtime::detail {

class engine;
struct envelope;

/// The CAF actor under every actor_base. The one class that CAF calls: `enqueue` when something is sent to it,
/// `consume` when it is handled; recording sits in these two.
///
/// Requests carry their wait_id as CAF's message id, so an answer finds its coroutine by an index, and CAF's own table
/// of pending responses stays empty.
class actor_core final : public caf::event_based_actor {
public:
  actor_core(caf::actor_config& config, engine& e, actor_host& host);
  ~actor_core() override;

  /// Before launch: the object whose messages these are.
  void adopt(std::unique_ptr<actor_base> user) {
    user_ = std::move(user);
    comes_before(this);
  }
  /// What its spawned event begins with.
  void born(trace::event birth);
  /// Into its mailbox, whoever replays.
  void take_in(caf::mailbox_element_ptr message) { caf::event_based_actor::enqueue(std::move(message), nullptr); }

  /// "NAME got MESSAGE", by what its mailbox has first: for a last word. Only while it does not run.
  [[nodiscard]] std::string what_came();

  // what CAF calls
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* where) override;
  caf::invoke_message_result consume(caf::mailbox_element& x) override;
  resume_result resume(caf::execution_unit* where, std::size_t messages_max) override;
  void on_exit() override;
  bool cleanup(caf::error&& reason, caf::execution_unit* where) override;
  const char* name() const override { return "godwit.actor"; }

  // what actor_context calls
  void send(const actor_ref& to, draft message);
  void send_after(std::chrono::nanoseconds delay, const actor_ref& to, draft message);
  void reply(const actor_ref& to, std::uint64_t request, draft message);
  async::wait_id request(async::parked& waiter, const actor_ref& to, std::chrono::nanoseconds timeout, draft message,
                         async::error& failure);
  async::wait_id park(async::parked& waiter, std::chrono::nanoseconds timeout);
  void forget(async::wait_id wait) noexcept;
  std::uint64_t watch(const actor_ref& whom, actor_context::down_function on_down);
  void unwatch(std::uint64_t id);
  void fault(const std::exception_ptr& failure, std::string_view where) noexcept;
  void report(std::string_view text) noexcept;
  void report_stray(std::string_view text) noexcept;
  void end(stop_reason reason);

  [[nodiscard]] async::scope& frames() noexcept { return frames_; }
  [[nodiscard]] actor_host& host() const noexcept { return host_; }
  [[nodiscard]] engine& runtime() const noexcept { return engine_; }

protected:
  caf::behavior make_behavior() override;

private:
  /// Somebody whose end concerns this actor: by `monitor`, or because an ask to another node is under way.
  struct watched {
    actor_ref whom;
    std::vector<std::pair<std::uint64_t, actor_context::down_function>> callbacks;
    std::vector<async::wait_id> asks;
  };

  [[nodiscard]] bool elsewhere(const actor_ref& to) const noexcept { return block_of(to)->nid != node_; }
  [[nodiscard]] static caf::actor_control_block* block_of(const actor_ref& ref) noexcept {
    return static_cast<caf::actor_control_block*>(ref.control());
  }
  void post(const actor_ref& to, caf::mailbox_element_ptr sealed);
  /// Reports where not.
  bool may_leave(const letter& message, const actor_ref& to) noexcept;
  [[nodiscard]] tracing* recorded() const noexcept {
#ifdef GODWIT_UNRECORDED // a benchmark's runtime
    return nullptr;
#else
    return tracer_.get();
#endif
  }
  [[nodiscard]] bool replayed() const noexcept { return recorded() && recorded()->replay; }
  void handle(caf::mailbox_element& x, letter* l);
  void handle_recorded(tracing& t, caf::mailbox_element& x);
  void begin_recorded();
  void began_recorded();
  void ended_recorded();
  /// The waiter, whose wait is over; null where it is already.
  [[nodiscard]] async::parked* take(async::wait_id wait);
  void dispatch(const message_type& type, void* payload, caf::mailbox_element& x);
  void wake(async::wait_id wait, answer value);
  void wake(async::wait_id wait, const message_type& type, void* payload);
  void consume_foreign(caf::mailbox_element& x);
  void open(const envelope& e, caf::mailbox_element& x);
  void went_down(const caf::actor_addr& source, const caf::error& reason);
  void fire_deadlines();
  void set_alarm();
  void watch_ask(const actor_ref& to, async::wait_id wait);
  watched& watch_entry(const actor_ref& whom);
  void log(caf::mailbox_element& x, const letter* l);
  reply_to reply_for(caf::mailbox_element& x);
  /// For deadlines: while a recording keeps contents, time stands still within a handler, so that replay can tell it.
  [[nodiscard]] deadlines::time_point moment() const;

  engine& engine_;
  actor_host& host_;
  caf::node_id node_;
  const std::shared_ptr<tracing> tracer_; ///< null: nobody records
  async::scope frames_;
  deadlines deadlines_;
  std::optional<deadlines::time_point> alarm_;
  std::unique_ptr<actor_base> user_;
  handler_table handlers_;
  std::unordered_map<void*, watched> watched_; ///< by control block; never iterated over
  std::unordered_map<std::uint64_t, void*> watch_ids_;
  std::uint64_t last_watch_ = 0;
  std::unique_ptr<trace::event> birth_;   ///< where recorded, until it has begun
  std::atomic<std::uint32_t> queued_{0};  ///< messages into its mailbox that were counted
  std::atomic<std::uint32_t> handled_{0}; ///< ... and out of it; written by the actor only
  std::vector<std::uint64_t> parked_by_;  ///< where recorded: what was handled when a wait began, by slot
  bool resumed_ = false;                  ///< the message being handled woke a coroutine
  std::uint64_t woken_for_ = 0;           ///< and that had begun to wait in this event
};

} // namespace godwit::runtime::detail
