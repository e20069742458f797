#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace godwit::protocols {

/// Where instances come from.
struct provisioning_settings {
  std::int64_t timeout_ns = 600'000'000'000; ///< an ordered instance that takes no requests by then is given up
  bool provider = false;                     ///< somebody outside brings processes by order
  bool takes_others = true;                  ///< it also takes away processes that it has not brought
  bool here = false;                         ///< where nobody does, the head's own process brings one more itself
  std::size_t orders_max = 64;               ///< open ones; autoscaling orders few at a time
  std::uint32_t spare_attempts_max = 4;      ///< of a stopped instance that was not ready in time, one after the other
  /// Of the head, for the names of what is ordered: processes of an earlier life may be there still, or come back, and
  /// none of them may have the name of an order of this one. 0: the names do not say, as in simulations.
  std::uint32_t life = 0;
};

/// The head's books about instances that are to come or to go: drains, orders, processes to be given back.
///
/// Problem: an operator and autoscaling want instances started and stopped; members, the provisioner and processes obey
/// late, out of order, or never, and their answers cross the next orders. Contract: feed what happens to `step`,
/// perform the effects in order. Owns no clock, process or handle; times are nanoseconds of the caller's clock and
/// never go back. Same events, same effects. What belongs to nothing that is known (late, repeated, of a process that
/// is gone) changes nothing.
///
/// What always holds:
/// * Each order ends once: its instance takes requests, or it is given up, at its timeout at the latest (call `step`
///   with `time_passed` at `next_deadline`). One `out` makes one order at most.
/// * Everything that is ordered of a member has a number, and only what the member says of the last one counts.
/// * What is ordered outside has a name that no other order has, of this life of the head or another.
/// * A process is given back once for each time that it joined, after its last instance has stopped; one that an order
///   has not led to, once for that order. Never the head's own, nor, where the provider does not take these away, those
///   that nobody ordered: their stopped instances are the first to be started again.
/// * A process that comes after its order was given up is not wanted any more: its instances are stopped before they
///   take requests (or drained), and it is given back.
/// * A stopped instance that is not ready in time when it is wanted is left alone for twice as long each time, and
/// after
///   `spare_attempts_max` until somebody starts it by hand or its process joins anew.
/// * What an operator stops, autoscaling neither starts nor gives back; an order to start it has come to nothing.
/// * A process that the head knew before an order was made comes for it under its name only.
/// * In a process that leaves nothing is started, until an operator wants one of its instances after all.
class provisioning {
public:
  /// An instance as its member sees it.
  struct instance_news {
    std::uint64_t generation = 0;
    bool ready = false;
    bool draining = false;
    bool stopped = false;
    std::uint64_t order = 0; ///< the last one that this is after
    friend bool operator==(const instance_news&, const instance_news&) = default;
  };

  // Events.
  enum class place : std::uint8_t {
    own,     ///< of the instances that the head's process was started with: never given back
    further, ///< brought by the head's process, by order
    elsewhere
  };
  struct process_joined {
    std::uint64_t key = 0;
    std::string name;
    place where = place::elsewhere;
    instance_id first; ///< the same whenever it joins; whoever joins for the first time has higher ones than all before
    std::uint32_t instances = 0;
  };
  struct process_news { ///< of all its instances
    std::uint64_t key = 0;
    std::vector<instance_news> instances;
  };
  struct process_left {
    std::uint64_t key = 0;
  };
  struct drain_wanted { ///< by an operator
    instance_id instance;
    bool drains = true;
    bool leaves = false; ///< says its process, which ends: it asks for each of its instances
  };
  struct scaling_wanted { ///< by autoscaling
    scaling_decision::kind what = scaling_decision::kind::out;
    instance_id instance;
  };
  struct order_failed { ///< what was ordered will not come
    std::uint64_t order = 0;
    std::string why;
  };
  struct time_passed {};
  struct head_ends {}; ///< with all that it has: then the last instance that takes requests may drain, too
  using event = std::variant<process_joined, process_news, process_left, drain_wanted, scaling_wanted, order_failed,
                             time_passed, head_ends>;

  // Effects.
  struct tell_all {};     ///< what `draining` and `ordered` say has changed
  struct drain_instance { ///< tell its member: drain it and stop it, or let it go on, or start it where it has stopped
    instance_id instance;
    bool drains = true;
    std::uint64_t number = 0;
  };
  struct start_instance { ///< tell its member
    instance_id instance;
    std::uint64_t number = 0;
  };
  struct order_process { ///< of the provider, by this name
    std::uint64_t order = 0;
    std::string name;
  };
  struct run_process { ///< in the head's process, under this key
    std::uint64_t order = 0;
    std::uint64_t key = 0;
  };
  struct give_back { ///< to the provider
    std::string name;
    std::optional<instance_id> instance; ///< that was drained; empty: of an order that was given up
  };
  struct end_process { ///< which the head's process ran
    std::uint64_t key = 0;
  };
  struct refuse { ///< what an operator wanted
    std::string why;
    bool later = false; ///< for as long as no other instance takes requests, and the head does not end
  };
  struct say { ///< in the log
    bool warning = false;
    std::string text;
  };
  using effect = std::variant<tell_all, drain_instance, start_instance, order_process, run_process, give_back,
                              end_process, refuse, say>;
  using effects = std::vector<effect>;

  explicit provisioning(provisioning_settings settings);
  [[nodiscard]] effects step(const event& what, std::int64_t now_ns);
  /// When the next order is given up. Empty: none is open.
  [[nodiscard]] std::optional<std::int64_t> next_deadline() const noexcept;

  // For the topology and for status.
  /// It takes no requests, or will not in a moment. False for one that has stopped.
  [[nodiscard]] bool draining(instance_id id) const noexcept;
  /// Instances that are ordered and of which nothing is to be seen yet.
  [[nodiscard]] std::uint32_t ordered() const noexcept;
  /// Whether the head was told to end.
  [[nodiscard]] bool ends() const noexcept { return ends_; }
  [[nodiscard]] std::uint32_t orders() const noexcept { return static_cast<std::uint32_t>(orders_.size()); }
  [[nodiscard]] std::optional<std::int64_t> oldest_order() const noexcept;
  [[nodiscard]] std::uint64_t scaled_out_total() const noexcept { return scaled_out_; }
  [[nodiscard]] std::uint64_t scaled_in_total() const noexcept { return scaled_in_; }
  /// Orders that failed, whose instance or process did not come in time, or that are not wanted any more.
  [[nodiscard]] std::uint64_t given_up_total() const noexcept { return given_up_total_; }
  /// Why the last wish of autoscaling came to nothing. Empty: it did not, or not yet.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

private:
  /// Why an instance drains, or is stopped.
  enum class leaving : std::uint8_t {
    no,
    scaled_in,
    by_hand,
    given_up ///< it came too late, or not in time
  };
  struct instance_books {
    instance_news said;
    std::uint64_t number = 0; ///< of the last order to its member
    leaving why = leaving::no;
    bool ended = false;         ///< it has come to its stop
    std::uint32_t attempts = 0; ///< to start it, in a row, that came to nothing
    std::int64_t left_alone_until_ns = 0;

    [[nodiscard]] bool up_to_date() const noexcept { return said.order >= number; }
    [[nodiscard]] bool stopped() const noexcept { return said.stopped && up_to_date(); }
    [[nodiscard]] bool drains() const noexcept { return why != leaving::no || (said.draining && up_to_date()); }
    [[nodiscard]] bool says_ready() const noexcept { return said.ready && !said.stopped; }
    [[nodiscard]] bool takes_requests() const noexcept { return says_ready() && !drains(); }
  };
  struct process {
    std::uint64_t key = 0;
    std::string name;
    place where = place::elsewhere;
    instance_id first;
    bool late = false;     ///< nobody wants it any more
    bool returned = false; ///< given back
    bool leaves = false;   ///< ends by itself
    std::vector<instance_books> instances;
  };
  struct open_order {
    std::uint64_t number = 0;
    std::string name; ///< of the process that is to bring it; empty: it is `spare`, a stopped one
    instance_id spare;
    std::uint64_t key = 0;              ///< under which this process runs it; 0: it does not
    std::optional<std::uint64_t> bound; ///< the process that came for it
    std::int64_t at_ns = 0;
    std::uint32_t ids_known = 0; ///< when it was made: whoever has lower ones was known already
    bool there = false;          ///< to be seen in the topology, but takes no requests yet
  };

  void on(const process_joined& e);
  void on(const process_news& e);
  void on(const process_left& e);
  void on(const drain_wanted& e);
  void on(const scaling_wanted& e);
  void on(const order_failed& e);
  void on(const time_passed& e);
  void on(const head_ends& e);

  [[nodiscard]] bool was_ordered(std::string_view name) const;
  void scale_out();
  void scale_in(instance_id id);
  void note(process& p, instance_id id, const instance_books& before);
  void fulfil(const process& p, instance_id id, bool just_now);
  void note_stop(process& p, instance_id id);
  void stop_late(process& p);
  void note_leaving(process& p);
  void give_up(std::uint64_t number, std::string_view why);
  void hand_back(process& p, instance_id last);
  void changed();
  void drain(instance_id id, leaving why);
  void drain_by_hand(instance_id id);
  void go_on(instance_id id);
  void fail(std::string why);
  [[nodiscard]] std::string why_not_drain(instance_id id) const;
  struct spare_search {
    std::optional<instance_id> found;
    std::optional<instance_id> left_alone; ///< one that would be, were it ready in time
  };
  [[nodiscard]] spare_search find_spare() const;
  [[nodiscard]] open_order* order_for(instance_id spare) noexcept;
  [[nodiscard]] process* find(std::uint64_t key) noexcept;
  [[nodiscard]] const process* keeper_of(instance_id id) const noexcept;
  [[nodiscard]] process* keeper_of(instance_id id) noexcept;
  [[nodiscard]] const instance_books* find(instance_id id) const noexcept;
  [[nodiscard]] instance_books* find(instance_id id) noexcept;

  provisioning_settings settings_;
  bool ends_ = false;
  std::int64_t now_ = 0;
  effects out_;                              ///< of this step
  std::map<instance_id, process> processes_; ///< that are there, by their first instance
  std::unordered_map<std::uint64_t, instance_id> by_key_;
  std::vector<open_order> orders_;   ///< oldest first
  std::deque<std::string> given_up_; ///< names whose processes nobody wants any more, the last ones
  std::uint32_t ids_known_ = 0;      ///< all that anybody has had are lower
  std::uint64_t orders_total_ = 0, numbers_ = 0, scaled_out_ = 0, scaled_in_ = 0, given_up_total_ = 0;
  std::string failure_, failure_said_;
};

} // namespace godwit::protocols
