#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/dispatch_queue.hpp>
#include <godwit/protocols/policy/headroom.hpp>
#include <godwit/protocols/policy/own_policies.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::actors {

/// What the scheduler counts. Made once per process; restarts of the actor go on counting.
struct scheduler_metrics {
  explicit scheduler_metrics(runtime::metrics::registry& registry);
  runtime::metrics::counter& rounds;
  runtime::metrics::family<runtime::metrics::counter>& marks;   ///< by policy
  runtime::metrics::family<runtime::metrics::counter>& scaling; ///< by decision, and whether it was dry

  /// As protocols::role_balancer measures them; nothing: they are not known, and not exported.
  void tell(std::optional<protocols::phase_loads> loads) noexcept;

private:
  struct phases;
  std::shared_ptr<phases> phases_;
};

struct scheduler_options {
  scheduling_policies policies;                   ///< at the start
  protocols::pairing_settings pairing;            ///< its policy is the one of `policies`
  protocols::scaling_settings scaling;            ///< its mode is the one of `policies`
  protocols::role_settings roles;                 ///< likewise its policy
  std::vector<protocols::execution_level> levels; ///< of execution priority, as the llumlets have them
  /// Between two rounds of migration and autoscaling. Marks last for three of them.
  std::chrono::nanoseconds migration_interval{std::chrono::milliseconds(200)};
  /// An instance that has not reported for so long is neither picked nor paired. Several report intervals, lest one
  /// late report matters.
  std::chrono::nanoseconds stale_after{std::chrono::seconds(1)};
  /// Queries that wait for their decision; of more, the least urgent ones hear that every queue is full.
  std::uint32_t queries_max = 65'536;
  /// Policies of one's own (protocols/policy/own_policies.hpp). `policies.dispatch` and operators may name a dispatcher
  /// of these; its factory is called once more before it is used, to see that it makes one; while one throws, homes
  /// dispatch without it. One of the others that throws does nothing in this round, and the log says why.
  protocols::dispatcher_factories dispatchers;
  protocols::pair_policy pair;
  protocols::scale_policy scale;
  protocols::role_balance_policy balance;
  runtime::handle<node_interface> node; ///< carries out what autoscaling wants, and roles; filled in by the node
  /// Sees every report of every instance, on the scheduler's context; for metrics. Must only store. May be empty.
  std::function<void(const protocols::load_report&)> on_report;
  std::shared_ptr<scheduler_metrics> metrics; ///< may be null
  /// Hears of each failure of yours (a dispatcher, `pair`, `scale`, `balance`) that the log tells, on the scheduler's
  /// context. Must only store. Empty: the log alone, or the system's report function where the log does not have it.
  std::function<void(std::string_view)> on_failure;
  runtime::log::logger log;
  /// Held as long as the actor is there, for whoever waits for its end; filled in by the cluster. May be null.
  std::shared_ptr<void> keep;

  /// What `policies.dispatch` may be; the built-in ones first. Valid as long as these options are.
  [[nodiscard]] std::vector<std::string_view> dispatcher_names() const;
};

/// Says that queries wait. Of the scheduler to itself.
struct decide_queued {
  decide_queued() noexcept {}
  auto fields() { return std::tie(); }
};
struct scheduler_own_interface : scheduler_interface::extend<void(decide_queued)> {};

/// Dispatches new requests, pairs instances for migration and wishes for more or fewer of them (Llumnix sections 4.3
/// and 4.4.3), or for other roles, all by the load reports of the instances. Knows no requests, so it may die at any
/// moment: front ends go on by a simple rule, llumlets stop migrating when their marks' lease ends, and its successor
/// rebuilds everything from the next reports.
///
/// Queries that are in its mailbox together are decided together: the most urgent scheduling priority first, within
/// it in order of arrival at their homes.
///
/// What it costs depends on the number of instances, never on that of requests.
class global_scheduler final : public runtime::actor<scheduler_own_interface> {
public:
  global_scheduler(runtime::actor_context context, scheduler_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "global_scheduler"; }
  [[nodiscard]] runtime::behavior_of<scheduler_own_interface> make_behavior() override;
  /// Its books may be wrong: the node starts it anew, and the next reports fill them.
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;

private:
  using nanoseconds = std::chrono::nanoseconds;
  /// An instance of the topology.
  struct instance_books {
    std::uint64_t generation = 0;
    bool ready = false;
    bool draining = false;
    runtime::handle<llumlet_interface> llumlet;
    protocols::load_report report; ///< sequence 0: none yet
    nanoseconds heard{0};          ///< the last report, or the news that it is ready
    bool fresh = false;            ///< heard of lately
    [[nodiscard]] bool takes_requests() const noexcept { return ready && !draining && llumlet; }
    [[nodiscard]] bool reported() const noexcept { return ready && fresh && report.sequence > 0; }
  };
  struct query_in_line {
    dispatch_query query;
    runtime::completer<dispatch_decision> done;
    query_in_line(dispatch_query what, runtime::completer<dispatch_decision> how)
        : query(std::move(what)), done(std::move(how)) {}
  };

  [[nodiscard]] std::unique_ptr<protocols::dispatcher> dispatcher_called(const std::string& name) const;
  void take_report(const protocols::load_report& report);
  void adopt(const topology& news);
  [[nodiscard]] instance_books* find(protocols::instance_id id) noexcept;
  void feed(instance_books& books);
  void tell_of_policies();
  void switch_policies(scheduling_policies wish);
  [[nodiscard]] scheduler_view view() const;

  runtime::async::task<dispatch_decision> stand_in_line(dispatch_query query);
  void decide_all();
  [[nodiscard]] dispatch_decision decide(const dispatch_query& query);
  /// Finds the instances that are silent for too long.
  void expire();
  /// Calls what an embedder may have written. What it throws ends nothing but this call, whose result is then false;
  /// but for what says that the books themselves are wrong.
  template <class Call> bool guarded(std::string_view what, const Call& call) {
    try {
      call();
      return true;
    } catch (const protocols::contract_violation&) {
      throw;
    } catch (...) {
      blame(what, runtime::detail::describe(std::current_exception()).message);
      return false;
    }
  }
  /// Says why, in the log, or where there is none to the system's report function; once while it is the same.
  void blame(std::string_view what, std::string why);

  // global_scheduler_rounds.cpp:
  runtime::async::task<void> run_rounds();
  void pair_up(const std::vector<protocols::load_report>& known);
  void balance_roles(const std::vector<protocols::load_report>& known);
  /// Those of one source, of which `before` had some in the last round.
  void mark(std::span<const protocols::migration_pair> pairs, const std::vector<protocols::migration_pair>& before);
  void unmark(protocols::instance_id source);
  /// What is left of the decision of an autoscaler of one's own.
  [[nodiscard]] std::optional<protocols::scaling_decision> within_bounds(protocols::scaling_decision decision,
                                                                         protocols::scaling_view view);
  void scale(std::vector<protocols::load_report> known);
  [[nodiscard]] std::optional<protocols::scaling_roles> roles_for_scaling() const;
  [[nodiscard]] bool follows_load() const noexcept {
    return options_.policies.hands_over() && options_.policies.roles == protocols::role_policy::balance;
  }
  [[nodiscard]] std::vector<protocols::load_report> loads() const;

  scheduler_options options_;
  std::unique_ptr<protocols::dispatcher> dispatcher_;
  std::uint64_t topology_version_ = 0;
  std::uint32_t ordered_ = 0;
  /// By decisions of an autoscaler of one's own; until when they may not have heard of it.
  std::map<protocols::instance_id, std::chrono::nanoseconds> leaving_;
  std::map<protocols::instance_id, instance_books> instances_;
  std::vector<std::pair<protocols::instance_id, instance_books*>> by_id_; ///< the same
  protocols::dispatch_queue<query_in_line> line_;
  nanoseconds expired_{0};            ///< when that was last looked after
  std::uint64_t dispatches_from_ = 0; ///< its decisions have the numbers after this
  protocols::autoscaler autoscaler_;
  protocols::role_balancer balancer_;
  std::uint64_t crowded_out_ = 0; ///< refused since the last round, since others were before them
  std::vector<protocols::migration_pair> marked_;
  std::uint64_t rounds_ = 0, marks_ = 0;
  std::string scaling_last_;
  std::string dry_said_; ///< the last dry decision in the log, without its numbers
  struct failed_part {
    std::string why; ///< as it was said last
    std::chrono::nanoseconds at{0};
  };
  std::map<std::string, failed_part, std::less<>> blamed_; ///< by what failed
};

} // namespace godwit::actors
