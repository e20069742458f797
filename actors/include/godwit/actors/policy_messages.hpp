#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/messages/scheduling.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/runtime/handle.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What is said about scheduling: by the global scheduler to llumlets and the head, and by operators.
namespace godwit::actors {

struct llumlet_interface;

/// Where the requests of a marked source may go.
struct mark_destination {
  protocols::instance_id to;
  runtime::handle<llumlet_interface> llumlet;
  protocols::load_report load;

  mark_destination() = default;
  mark_destination(protocols::instance_id id, runtime::handle<llumlet_interface> whom,
                   const protocols::load_report& last)
      : to(id), llumlet(std::move(whom)), load(last) {}
  auto fields() { return std::tie(to, llumlet, load); }
};

/// Scheduler -> the llumlet of a source: keep moving requests there, until the next round says otherwise or the lease
/// ends. Comes every round in which it is a source; without a destination it takes the mark back. There are several for
/// what is handed over only.
struct migration_mark {
  std::uint64_t round = 0;
  protocols::migration_cause::kind why = protocols::migration_cause::kind::freeness;
  std::vector<mark_destination> destinations;
  std::int64_t lease_ns = 0; ///< from its arrival

  migration_mark() = default;
  auto fields() { return std::tie(round, why, destinations, lease_ns); }
};

/// Its keeper -> a llumlet: take no more requests and report as terminating, or go on as before.
struct drain_order {
  bool drains = true;
  std::uint64_t order = 0; ///< comes back in instance_drained
  drain_order() = default;
  explicit drain_order(bool on, std::uint64_t number = 0) : drains(on), order(number) {}
  auto fields() { return std::tie(drains, order); }
};

/// The policies of the scheduler, from the head: at its start, and whenever an operator switches them.
struct scheduling_policies {
  std::string dispatch = "freeness"; ///< one of scheduler_options::dispatcher_names
  protocols::migration_policy migration = protocols::migration_policy::freeness;
  bool migration_paused = false;
  protocols::scaling_mode scaling = protocols::scaling_mode::off;
  protocols::role_policy roles = protocols::role_policy::fixed;

  /// Whether prefill instances hand requests over.
  [[nodiscard]] bool hands_over() const noexcept {
    return migration != protocols::migration_policy::never && !migration_paused;
  }

  /// Whether requests migrate to where there is memory.
  [[nodiscard]] bool makes_room() const noexcept {
    return hands_over() && migration != protocols::migration_policy::none;
  }

  scheduling_policies() = default;
  friend bool operator==(const scheduling_policies&, const scheduling_policies&) = default;
  auto fields() { return std::tie(dispatch, migration, migration_paused, scaling, roles); }
};

/// Operator -> head. Empty texts leave things as they are; all empty asks what they are.
struct policy_order {
  std::string dispatch;
  std::string migration;
  std::string paused; ///< "yes", "no"
  std::string scaling;
  std::string roles;

  policy_order() = default;
  auto fields() { return std::tie(dispatch, migration, paused, scaling, roles); }
};
struct policy_answer {
  std::string error; ///< one line; empty: done
  scheduling_policies now;

  policy_answer() = default;
  auto fields() { return std::tie(error, now); }
};

/// Operator -> head -> home: what befell this request?
struct history_query {
  protocols::request_id request; ///< read when `client_id` is empty
  std::string client_id;

  history_query() = default;
  history_query(protocols::request_id id, std::string label) : request(id), client_id(std::move(label)) {}
  auto fields() { return std::tie(request, client_id); }
};

/// Operator -> head -> its member: drain this instance and stop it once it is empty, or take that back. A process that
/// ends asks it of the head too, for each of its instances.
///
/// The head numbers what it orders of its members' instances. An instance drains, goes on and drains again while
/// answers are on their way, and only what is said of the last order counts: `instance_drained` and `pair_entry` name
/// it.
struct drain_instance {
  protocols::instance_id instance;
  bool drains = true;
  std::uint64_t order = 0; ///< counts up; an operator leaves it to the head
  bool leaves = false;     ///< its process ends; set by that process alone

  drain_instance() = default;
  drain_instance(protocols::instance_id id, bool on, std::uint64_t number = 0)
      : instance(id), drains(on), order(number) {}
  auto fields() { return std::tie(instance, drains, order, leaves); }
};
struct drain_answer {
  std::string error;  ///< one line; empty: begun
  bool later = false; ///< it is refused as long as no other takes requests and the head does not end
  drain_answer() = default;
  drain_answer(std::string why_not, bool may_ask_again) : error(std::move(why_not)), later(may_ask_again) {}
  auto fields() { return std::tie(error, later); }
};

/// Scheduler -> head: autoscaling decided this (never a dry decision).
struct scaling_wish {
  protocols::scaling_decision::kind what = protocols::scaling_decision::kind::out;
  protocols::instance_id instance;
  std::string why;

  scaling_wish() = default;
  scaling_wish(protocols::scaling_decision::kind which, protocols::instance_id whom, std::string reason)
      : what(which), instance(whom), why(std::move(reason)) {}
  auto fields() { return std::tie(what, instance, why); }
};

/// Operator -> head -> its member -> its llumlet: the instance is for this from now on, also when it is started again.
/// What it has of the other phase it ends, or gives away by live migration; nothing is lost, and nothing waits for it.
struct role_order {
  protocols::instance_id instance;
  protocols::instance_role role = protocols::instance_role::mixed;

  role_order() = default;
  role_order(protocols::instance_id whom, protocols::instance_role what) : instance(whom), role(what) {}
  auto fields() { return std::tie(instance, role); }
};
struct role_answer {
  std::string error; ///< one line; empty: its member is told
  protocols::instance_role before = protocols::instance_role::mixed;
  std::string note; ///< why that may not mean much, in one line; empty: nothing is to be said

  role_answer() = default;
  auto fields() { return std::tie(error, before, note); }
};

/// Scheduler -> head: these instances are to have the other role.
struct role_wish {
  protocols::instance_role role = protocols::instance_role::mixed;
  std::vector<protocols::instance_id> instances;
  std::string why;

  role_wish() = default;
  role_wish(protocols::instance_role what, std::vector<protocols::instance_id> whom, std::string reason)
      : role(what), instances(std::move(whom)), why(std::move(reason)) {}
  auto fields() { return std::tie(role, instances, why); }
};

/// Head -> member: start this instance of yours, which is stopped.
struct activate_instance {
  protocols::instance_id instance;
  std::uint64_t order = 0; ///< as in drain_instance
  activate_instance() = default;
  explicit activate_instance(protocols::instance_id id, std::uint64_t number = 0) : instance(id), order(number) {}
  auto fields() { return std::tie(instance, order); }
};
} // namespace godwit::actors
