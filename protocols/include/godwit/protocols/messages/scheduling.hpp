#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/migration.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// What scheduler, homes and llumlets say about decisions, and what is told of them when somebody asks why. No number
/// here is infinite or not a number: CAF's serializer does not end on those.
namespace godwit::protocols {

/// Why an instance was chosen for a request. What the score counts depends on the policy: freeness in blocks per
/// running request ("freeness"), share of the KV pool ("infaas"), requests ("least_requests", "power_of_two"), nothing
/// ("round_robin"), blocks held and tokens to be computed ("cache_aware"), milliseconds ("ttft"). Two more are the
/// home's own: "bypass", in turn while the scheduler is away, and "retry", in turn among the others after the chosen
/// instance had no place in its queue. They count nothing either.
struct dispatch_reason {
  std::string policy;
  double score = 0;             ///< of the chosen instance, without this request ("cache_aware", "ttft": with it)
  double runner_up = 0;         ///< of the next best one; the same where there is none
  std::uint32_t candidates = 0; ///< instances that could have been chosen
  std::uint32_t blocks = 0;     ///< that the request demands
  std::uint32_t prefix_tokens =
      0;                    ///< of its prompt's beginning, that the instance was sent before; 0 too: not looked for
  std::int64_t ttft_ns = 0; ///< until its first token, or its next one, as expected there; 0: nobody knew

  dispatch_reason() = default;
  friend bool operator==(const dispatch_reason&, const dispatch_reason&) = default;
  auto fields() { return std::tie(policy, score, runner_up, candidates, blocks, prefix_tokens, ttft_ns); }
};

/// What a request is to be answered within, and whether it may be turned away at its dispatch where that is not to be
/// expected of any instance (Mooncake's early rejection, FAST '25, section 7). From the moment of the dispatch.
struct latency_objectives {
  std::int64_t ttft_ns = 0; ///< until its first token; 0: as it comes
  std::int64_t tpot_ns = 0; ///< for each further one; 0: as they come
  bool refusable = false;

  latency_objectives() = default;
  [[nodiscard]] bool any() const noexcept { return ttft_ns > 0 || tpot_ns > 0; }
  friend bool operator==(const latency_objectives&, const latency_objectives&) = default;
  auto fields() { return std::tie(ttft_ns, tpot_ns, refusable); }
};

/// One thing that befell a request, for `godwit status --request`.
struct request_event {
  enum class kind : std::uint8_t {
    dispatched,
    lost,    ///< its instance died, hung or let go of it
    migrated ///< or tried to, see `migration.outcome`
  };
  kind what = kind::dispatched;
  std::int64_t at_ns = 0; ///< since the request arrived
  instance_id instance;   ///< dispatched: where to; lost: where from
  protocols::epoch epoch;
  dispatch_reason dispatch;
  migration_report migration;

  request_event() = default;
  request_event(kind which, std::int64_t at, instance_id where, protocols::epoch under)
      : what(which), at_ns(at), instance(where), epoch(under) {}
  auto fields() { return std::tie(what, at_ns, instance, epoch, dispatch, migration); }
};

/// The home's answer to whoever asks about one request. Several may go by one client id (the prompts of one call, or a
/// client that uses its ids again): the answer is about the open one with the lowest number, else about the ended one
/// with the highest, and names the others.
struct request_history {
  bool found = false;
  bool ended = false;  ///< a short while ago
  std::string outcome; ///< "stop", "length", "cancelled", "overloaded", "rejected", "error"; empty: open
  request_id request;
  std::string client_id;
  std::vector<request_id> namesakes; ///< others of this client id, the first few
  bool owned = false;                ///< an instance has it, or had it at its end
  instance_id instance;              ///< that one
  protocols::epoch epoch;
  std::int32_t priority = 0;
  std::string execution_priority;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0;
  std::int64_t age_ns = 0;           ///< from its arrival until now, or to its end
  std::uint64_t events_dropped = 0;  ///< the oldest ones, where there were too many
  std::vector<request_event> events; ///< oldest first

  request_history() = default;
  auto fields() {
    return std::tie(found, ended, outcome, request, client_id, namesakes, owned, instance, epoch, priority,
                    execution_priority, prompt_tokens, answer_tokens, age_ns, events_dropped, events);
  }
};

/// How the cluster is scheduled, for status.
struct scheduling_status {
  bool scheduler_up = false; ///< false: homes dispatch by a simple rule, and nothing migrates by policy
  std::string dispatch_policy;
  std::string migration_policy;
  bool migration_paused = false;
  std::string scaling; ///< "off", "dry_run", "on"
  std::uint64_t rounds_total = 0;
  std::uint64_t marks_total = 0;    ///< pairs marked that were not in the round before
  double mean_freeness = 0;         ///< as autoscaling sees it, in blocks per running request
  std::uint32_t provisioning = 0;   ///< instances ordered by autoscaling that are not there yet
  std::int64_t provisioning_ns = 0; ///< since the oldest of those orders
  std::uint64_t scaled_out_total = 0;
  std::uint64_t scaled_in_total = 0;
  std::string scaling_last;  ///< the last decision, dry or not, with its numbers; empty: none yet
  std::string roles;         ///< "fixed", "balance"
  bool phases_known = false; ///< the next two are: instances of both roles have been there for a while
  double prefill_load = 0;   ///< what is asked of the prefill instances; 1 is as much as is good
  double decode_load = 0;    ///< of the decode instances
  std::string roles_last;    ///< the last change by policy, with its numbers; empty: none yet
  std::vector<std::pair<instance_id, instance_id>> pairs; ///< source and destination of the marks that hold

  scheduling_status() = default;
  friend bool operator==(const scheduling_status&, const scheduling_status&) = default;
  auto fields() {
    return std::tie(scheduler_up, dispatch_policy, migration_policy, migration_paused, scaling, rounds_total,
                    marks_total, mean_freeness, provisioning, provisioning_ns, scaled_out_total, scaled_in_total,
                    scaling_last, roles, phases_known, prefill_load, decode_load, roles_last, pairs);
  }
};

} // namespace godwit::protocols
