#pragma once

#include "sim/timer_queue.hpp"
#include "sim/timetable.hpp"

#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <caf/node_id.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace caf {
class resumable;
}
namespace godwit::runtime::detail {
class engine;
}

namespace godwit::runtime::sim::detail {

class connection;
class endpoint;
class scheduler;
class world_timers;

/// Timers on a node's own clock, which may have jumped.
class node_timers final : public timer_source {
public:
  node_timers(const timer_source& world, timetable& table, node& owner) : world_(world), table_(table), owner_(owner) {}
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return world_.now() + ahead_; }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    if (closed_) return 0;
    changed();
    return due_.add(now() + std::max(async::bounded_wait(delay), std::chrono::nanoseconds{0}), std::move(function));
  }
  bool cancel(timer_id id) override {
    changed();
    return due_.cancel(id);
  }
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  /// By the world's clock.
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return due_.earliest() - ahead_; }
  void fire_one() {
    changed();
    due_.fire_one();
  }
  [[nodiscard]] std::chrono::nanoseconds ahead() const noexcept { return ahead_; }
  void jump(std::chrono::nanoseconds forward) {
    changed();
    ahead_ += forward;
  }
  /// Forgets what is due and takes no more.
  void close() {
    closed_ = true;
    changed();
    due_.clear();
  }
  /// When something is due on this node may change, here or with its actors: to be said before, or after.
  void changed() { table_.changed(owner_); }

private:
  const timer_source& world_;
  timetable& table_;
  node& owner_;
  timer_queue due_;
  std::chrono::nanoseconds ahead_{0};
  bool closed_ = false;
};

/// What a world knows of one process. Lives as long as the world, since what was sent to it may arrive later.
struct node {
  enum class state_type : std::uint8_t { running, frozen, crashed, gone };

  node(const timer_source& world, timetable& table, std::uint32_t its_number, std::string its_name,
       std::uint32_t its_machine, caf::node_id its_id)
      : number(its_number), name(std::move(its_name)), machine(its_machine), id(std::move(its_id)),
        timers(world, table, *this) {}
  [[nodiscard]] bool running() const noexcept { return state == state_type::running; }
  /// Takes nothing more, ever.
  [[nodiscard]] bool dead() const noexcept { return state == state_type::crashed || state == state_type::gone; }

  const std::uint32_t number;
  const std::string name;
  const std::uint32_t machine; ///< nodes of one name have one
  const caf::node_id id;
  state_type state = state_type::running;
  bool silent = false; ///< crashed without a word
  node_timers timers;
  // The timetable's:
  std::optional<std::size_t> place;                  ///< none: it is not in there
  bool changed = false;                              ///< since it was asked
  scheduler* jobs = nullptr;                         ///< null: gone
  sim::detail::endpoint* endpoint = nullptr;         ///< null: gone
  godwit::runtime::detail::engine* engine = nullptr; ///< null: gone
  std::vector<caf::resumable*> parked;               ///< ready, but the node does not run

  std::map<std::uint32_t, std::shared_ptr<connection>> direct; ///< by the peer's number; this side is open
  std::map<std::uint32_t, std::set<std::uint32_t>> indirect;   ///< who was heard to know a way to a third node
  std::map<std::uint16_t, std::uint64_t> published;            ///< actors' ids, by port
  std::vector<std::function<void()>> knocking;                 ///< who came while it was frozen
};

} // namespace godwit::runtime::sim::detail
