#pragma once

#include "actor/seldom.hpp"
#include "actor/tracing.hpp"

#include <godwit/runtime/host.hpp>
#include <godwit/runtime/sim/event_log.hpp>

#include <caf/actor_clock.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace godwit::runtime::detail {

/// What a simulation adds to an engine: deliveries may be logged, by the world's time and with the nodes' numbers.
struct simulated_place {
  const runtime::clock* world = nullptr;
  std::uint32_t number = 0;
  std::function<std::uint32_t(const caf::node_id&)> number_of; ///< of other nodes
  sim::event_log* log = nullptr;
};

/// What lies under an actor_host: CAF's system, the actors that are alive, the messages that are known.
class engine {
public:
  using configure_function = std::function<void(caf::actor_system_config&)>;
  engine(const configure_function& configure, std::unique_ptr<runtime::clock> own_clock, const runtime::clock* clock,
         report_function report);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  [[nodiscard]] caf::actor_system& system() noexcept { return *system_; }
  [[nodiscard]] const runtime::clock& clock() const noexcept { return *clock_; }
  /// An actor of another node (or of another system in this process).
  [[nodiscard]] bool elsewhere(const actor_ref& whom) const noexcept;
  void report(std::string_view actor, std::string_view text) const noexcept;
  /// What anybody who may send can cause: one such line a second.
  void report_stray(std::string_view actor, std::string_view text) noexcept;

  actor_ref spawn(actor_host& host, const actor_factory& make);
  void send(const actor_ref& to, draft message);
  void stop(const actor_ref& whom, stop_reason reason);
  void stop_all(stop_reason reason);
  void declare_down(const actor_ref& whom);
  [[nodiscard]] std::size_t alive() const;
  bool wait_until_empty(std::chrono::milliseconds timeout);
  /// Called by an actor whose cleanup is over.
  void ended(std::uint64_t id) noexcept;

  /// From now on, what its actors do is recorded. Before the first of them.
  void record(std::shared_ptr<trace::detail::recorder_core> with, std::string name);
  /// CAF's time when the recorder's is 0.
  [[nodiscard]] caf::actor_clock::time_point caf_zero() const noexcept { return caf_zero_; }

  /// Reports two types of one name.
  void register_types(const std::vector<const message_type*>& types);
  /// Null: unknown.
  [[nodiscard]] const message_type* find_type(std::uint64_t id) const;

  /// Alarms are kept exact, since in a simulation time must not pass for waits that are over.
  bool exact_alarms = false;
  simulated_place place;
  /// Null: nobody records. Actors hold it too: their handles outlive the engine.
  std::shared_ptr<detail::tracing> tracer;
  /// The same, where this runtime can record at all: a benchmark's runtime cannot.
  [[nodiscard]] detail::tracing* recorded() const noexcept {
#ifdef GODWIT_UNRECORDED
    return nullptr;
#else
    return tracer.get();
#endif
  }
  /// The actor of this system that lives and has this id; null: none.
  [[nodiscard]] actor_ref find(std::uint64_t id) const;
  /// Null: unknown.
  [[nodiscard]] const message_type* find_type(std::string_view name) const;

private:
  /// While a recording keeps contents: time as it was when the message came.
  class standing_clock final : public runtime::clock {
  public:
    explicit standing_clock(std::shared_ptr<trace::detail::recorder_core> core) : core_(std::move(core)) {}
    [[nodiscard]] std::chrono::nanoseconds now() const noexcept override {
      const auto frozen = core_->frozen_ns();
      return frozen >= 0 ? std::chrono::nanoseconds(frozen) : core_->clock().now();
    }

  private:
    std::shared_ptr<trace::detail::recorder_core> core_;
  };

  caf::actor_system_config config_;
  std::unique_ptr<runtime::clock> own_clock_;
  const runtime::clock* clock_;
  std::unique_ptr<standing_clock> standing_;
  caf::actor_clock::time_point caf_zero_{};
  report_function report_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_map<std::uint64_t, actor_ref> alive_; ///< holds every actor until it has ended
  std::unordered_map<std::uint64_t, const message_type*> types_;
  std::unordered_set<std::uint64_t> doubled_; ///< names of two types, which was reported
  seldom strays_;
  std::unique_ptr<caf::actor_system> system_; ///< last: goes first
};

} // namespace godwit::runtime::detail
