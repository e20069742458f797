#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>
#include <godwit/protocols/migration/handover.hpp>
#include <godwit/protocols/migration/reason.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// What is said about a migration: between its two coordinators, to the request's home, and to whoever ordered it.
namespace godwit::protocols {

/// Names one migration: the source instance above, its generation, a counter.
using migration_id = basic_id<struct migration_id_tag, std::uint64_t>;
[[nodiscard]] constexpr migration_id make_migration_id(instance_id source, std::uint64_t generation,
                                                       std::uint32_t counter) noexcept {
  return migration_id{std::uint64_t{source.value()} << 48U | (generation & 0xFFFFU) << 32U | counter};
}

/// Destination -> home: I have all of this request, make me its owner. `tail` are the tokens from `tail_index` on,
/// drawn by the source, which may not have reached the home yet; they are accepted with the old epoch before it ends.
struct claim_request {
  request_id request;
  protocols::epoch from;
  instance_id instance;
  std::uint64_t generation = 0;
  std::uint32_t tail_index = 0;
  std::vector<sampled_token> tail;
  std::vector<sampled_token> prompt_scores; ///< see token_update, where the tail begins with the answer
  std::int64_t queued_ns = 0;               ///< the same
  std::uint32_t prediction_accepted = 0;    ///< the same
  std::uint32_t prediction_rejected = 0;

  claim_request() = default;
  claim_request(request_id id, protocols::epoch owner_epoch, instance_id me, std::uint64_t my_generation,
                std::uint32_t index, std::vector<sampled_token> tokens)
      : request(id), from(owner_epoch), instance(me), generation(my_generation), tail_index(index),
        tail(std::move(tokens)) {}
  auto fields() {
    return std::tie(request, from, instance, generation, tail_index, tail, prompt_scores, queued_ns,
                    prediction_accepted, prediction_rejected);
  }
};
struct claim_answer {
  bool granted = false;
  protocols::epoch epoch; ///< the new one

  claim_answer() = default;
  claim_answer(bool is_granted, protocols::epoch under) : granted(is_granted), epoch(under) {}
  auto fields() { return std::tie(granted, epoch); }
};

/// Source -> home: my commit went unanswered. Is the request still mine?
struct reclaim_request {
  request_id request;
  protocols::epoch from;

  reclaim_request() = default;
  reclaim_request(request_id id, protocols::epoch owner_epoch) : request(id), from(owner_epoch) {}
  auto fields() { return std::tie(request, from); }
};
struct reclaim_answer {
  ownership_reclaim::answer how = ownership_reclaim::answer::ended;
  protocols::epoch epoch;

  reclaim_answer() = default;
  reclaim_answer(ownership_reclaim::answer answer, protocols::epoch under) : how(answer), epoch(under) {}
  auto fields() { return std::tie(how, epoch); }
};

/// Instance -> home: I do not run this request, whatever you granted me.
struct disown_request {
  request_id request;
  protocols::epoch from;
  instance_id instance;

  disown_request() = default;
  disown_request(request_id id, protocols::epoch owner_epoch, instance_id me)
      : request(id), from(owner_epoch), instance(me) {}
  auto fields() { return std::tie(request, from, instance); }
};

/// Source -> destination: room for blocks [first, upto) of the request.
struct pre_alloc {
  std::uint32_t stage = 0, first = 0, upto = 0;

  pre_alloc() = default;
  pre_alloc(std::uint32_t number, std::uint32_t from, std::uint32_t to) : stage(number), first(from), upto(to) {}
  auto fields() { return std::tie(stage, first, upto); }
};
struct pre_alloc_answer {
  std::uint32_t stage = 0;
  migration_reason reason = migration_reason::none; ///< none: the landing place is posted

  pre_alloc_answer() = default;
  pre_alloc_answer(std::uint32_t number, migration_reason why) : stage(number), reason(why) {}
  auto fields() { return std::tie(stage, reason); }
};

/// Source -> destination: give up.
struct abort_migration {
  migration_reason reason = migration_reason::none;

  abort_migration() = default;
  explicit abort_migration(migration_reason why) : reason(why) {}
  auto fields() { return std::tie(reason); }
};

/// Destination -> source.
struct commit_answer {
  bool adopted = false;

  commit_answer() = default;
  explicit commit_answer(bool taken) : adopted(taken) {}
  auto fields() { return std::tie(adopted); }
};

/// Why a migration was ordered, with the numbers of that moment: freeness in blocks per running request, finite.
struct migration_cause {
  enum class kind : std::uint8_t { manual, freeness, defrag, drain, handoff };
  kind what = kind::manual;
  std::uint64_t round = 0; ///< of the scheduler
  double source_before = 0, destination_before = 0;
  double source_after = 0, destination_after = 0; ///< as expected

  migration_cause() = default;
  friend bool operator==(const migration_cause&, const migration_cause&) = default;
  auto fields() { return std::tie(what, round, source_before, destination_before, source_after, destination_after); }
};
[[nodiscard]] constexpr std::string_view to_string(migration_cause::kind kind) noexcept {
  switch (kind) {
  case migration_cause::kind::manual:
    return "manual";
  case migration_cause::kind::freeness:
    return "freeness";
  case migration_cause::kind::defrag:
    return "defrag";
  case migration_cause::kind::drain:
    return "drain";
  case migration_cause::kind::handoff:
    return "handoff";
  }
  return "unknown";
}

/// Source -> home: may this request move, and how much of its answer do you have? The rest is what the home tells of
/// the migration if its source dies before it has.
struct prepare_move {
  request_id request;
  protocols::epoch epoch;
  migration_id migration;
  instance_id destination;
  migration_cause cause;

  prepare_move() = default;
  prepare_move(request_id id, protocols::epoch owner_epoch, migration_id which, instance_id to, migration_cause why)
      : request(id), epoch(owner_epoch), migration(which), destination(to), cause(why) {}
  auto fields() { return std::tie(request, epoch, migration, destination, cause); }
};
struct move_prepared {
  bool wanted = false;
  std::uint32_t accepted = 0; ///< tokens of the answer that the home has; the commit brings those behind

  move_prepared() = default;
  move_prepared(bool goes_on, std::uint32_t tokens) : wanted(goes_on), accepted(tokens) {}
  auto fields() { return std::tie(wanted, accepted); }
};

/// How a migration went; for whoever ordered it, the log and the metrics.
struct migration_report {
  migration_id migration;
  request_id request;
  protocols::epoch epoch; ///< under which the source owned the request
  instance_id source;
  instance_id destination;
  migration_outcome outcome = migration_outcome::refused;
  migration_reason reason = migration_reason::none;
  std::uint32_t stages = 0;
  std::uint32_t blocks = 0;     ///< that the request had at the end
  std::uint32_t known = 0;      ///< of these, the first ones, which the destination had already
  std::uint64_t bytes = 0;      ///< copied, over all stages
  std::uint64_t last_bytes = 0; ///< of these, in the last stage
  std::int64_t stall_ns = 0;    ///< out of the batch of the source, until the destination had it or the source again
  std::int64_t duration_ns = 0;
  migration_cause cause;

  migration_report() = default;
  [[nodiscard]] bool committed() const noexcept { return outcome == migration_outcome::committed; }
  friend bool operator==(const migration_report&, const migration_report&) = default;
  auto fields() {
    return std::tie(migration, request, epoch, source, destination, outcome, reason, stages, blocks, known, bytes,
                    last_bytes, stall_ns, duration_ns, cause);
  }
};

/// A migration under way; for status.
struct migration_status {
  migration_id migration;
  request_id request;
  instance_id source;
  instance_id destination;
  std::string phase; ///< "copying", "committing", ...
  std::uint32_t stage = 0;
  std::uint64_t bytes = 0;
  std::int64_t stall_ns = 0;
  std::int64_t age_ns = 0;

  migration_status() = default;
  friend bool operator==(const migration_status&, const migration_status&) = default;
  auto fields() { return std::tie(migration, request, source, destination, phase, stage, bytes, stall_ns, age_ns); }
};

} // namespace godwit::protocols
