// Instances for prefill and for decoding: what dispatch, pairing, the choice of what moves, and autoscaling make of it.
#include "loads.hpp"
#include "pairs.hpp"
#include "protocols/second.hpp"

#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace godwit::protocols {
namespace {

using testing_support::second_ns;

load_report for_prefill(load_report load) {
  load.role = instance_role::prefill;
  return load;
}
load_report for_decoding(load_report load) {
  load.role = instance_role::decode;
  return load;
}
load_report that_terminates(load_report load) {
  load.terminating = true;
  return load;
}
load_report later(load_report load, std::uint64_t sequence) {
  load.sequence = sequence;
  return load;
}

std::uint32_t picked_of(dispatcher& policy) {
  const auto choice = policy.pick({.tokens = 15});
  return choice ? choice->instance.value() : 0;
}

TEST(Roles, HaveNamesThatAreReadBack) {
  for (const auto& [role, name] : instance_roles) EXPECT_EQ(parse_instance_role(to_string(role)), role) << name;
  EXPECT_FALSE(parse_instance_role("prompt"));
  EXPECT_EQ(to_string(static_cast<instance_role>(9)), "unknown");
}

TEST(Roles, TheLastOfAProcessIsThatOfAllBehindIt) {
  using enum instance_role;
  EXPECT_EQ(role_at({}, 3), mixed);
  EXPECT_EQ(role_at({prefill, decode}, 0), prefill);
  EXPECT_EQ(role_at({prefill, decode}, 1), decode);
  EXPECT_EQ(role_at({prefill, decode}, 7), decode);
}

// --- dispatch

TEST(RolesInDispatch, NewRequestsGoToThoseForPrefillHoweverBusyTheyAre) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(for_decoding(load_of(1)));
    policy->report(for_prefill(load_of(2, 90, 7)));
    policy->report(for_decoding(load_of(3)));
    EXPECT_EQ(picked_of(*policy), 2U) << name;
    const auto choice = policy->pick({.tokens = 15});
    ASSERT_TRUE(choice) << name;
    EXPECT_EQ(choice->why.candidates, 1U) << name;
  }
}

TEST(RolesInDispatch, OneThatIsMixedTakesNewRequestsToo) {
  const auto policy = make_dispatcher("freeness");
  policy->report(for_decoding(load_of(1)));
  policy->report(for_prefill(load_of(2, 90, 7)));
  policy->report(load_of(3, 50, 3));
  EXPECT_EQ(picked_of(*policy), 3U);
  policy->remove(instance_id{2});
  EXPECT_EQ(picked_of(*policy), 1U) << "nobody hands anything over";
}

TEST(RolesInDispatch, WhereNothingIsHandedOverAllAreMixed) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(for_prefill(load_of(1, 90, 7)));
    policy->report(for_decoding(load_of(2)));
    policy->set_handoff(false);
    EXPECT_EQ(policy->pick({.tokens = 15})->why.candidates, 2U) << name;
    const auto next = make_dispatcher(name);
    next->take_over(*policy);
    EXPECT_EQ(next->pick({.tokens = 15})->why.candidates, 2U) << name;
    next->set_handoff(true);
    EXPECT_EQ(next->pick({.tokens = 15})->why.candidates, 1U) << name;
  }
}

TEST(RolesInDispatch, APrefillInstanceRelievesThoseThatCanTakeItsKv) {
  const auto policy = make_dispatcher("freeness");
  auto prefill = for_prefill(load_of(1, 90, 7)), other = for_decoding(load_of(3));
  prefill.kv_kind = 7;
  other.kv_kind = 8;
  policy->report(prefill);
  policy->report(other);
  EXPECT_EQ(picked_of(*policy), 3U);
  prefill.kv_kind = 8; // started anew, with another fabric
  prefill.generation = 2;
  policy->report(prefill);
  EXPECT_EQ(picked_of(*policy), 1U);
  prefill.kv_kind = 7;
  prefill.generation = 3;
  policy->report(prefill);
  EXPECT_EQ(picked_of(*policy), 3U) << "it counts with one kind at a time";
}

TEST(RolesInDispatch, AFullQueueForPromptsIsNoReasonToAskThoseForDecoding) {
  const auto policy = make_dispatcher("freeness");
  auto full = for_prefill(load_of(1, 50, 8));
  full.waiting = full.waiting_max;
  policy->report(full);
  policy->report(for_decoding(load_of(2)));
  EXPECT_EQ(picked_of(*policy), 0U);
  EXPECT_EQ(policy->why_none(), dispatcher::lack::full);
}

TEST(RolesInDispatch, ThoseForDecodingStandInWhileNobodyIsThereForPrompts) {
  for (const auto name : dispatcher_names()) {
    const auto policy = make_dispatcher(name);
    policy->report(for_decoding(load_of(1)));
    EXPECT_EQ(picked_of(*policy), 1U) << name << ": before the other has come";
    policy->report(for_prefill(load_of(2)));
    EXPECT_EQ(picked_of(*policy), 2U) << name;
    policy->set_stale(instance_id{2}, true);
    EXPECT_EQ(picked_of(*policy), 1U) << name << ": silent";
    policy->report(for_prefill(load_of(2, 0, 0, 2)));
    EXPECT_EQ(picked_of(*policy), 2U) << name;
    policy->report(that_terminates(for_prefill(load_of(2, 0, 0, 3))));
    EXPECT_EQ(picked_of(*policy), 1U) << name << ": drains";
    policy->report(for_prefill(load_of(2, 0, 0, 4)));
    EXPECT_EQ(picked_of(*policy), 2U) << name;
    policy->remove(instance_id{2});
    EXPECT_EQ(picked_of(*policy), 1U) << name << ": gone";
    auto again = for_prefill(load_of(2));
    again.generation = 2;
    policy->report(again);
    again.generation = 3; // started anew, while it counts
    policy->report(again);
    EXPECT_EQ(picked_of(*policy), 2U) << name;
    const auto next = make_dispatcher(name);
    next->take_over(*policy);
    EXPECT_EQ(picked_of(*next), 2U) << name;
    next->remove(instance_id{2});
    EXPECT_EQ(picked_of(*next), 1U) << name << ": it counted once";
  }
}

TEST(RolesInDispatch, AnInstanceMayChangeItsRole) {
  const auto policy = make_dispatcher("freeness");
  policy->report(for_prefill(load_of(1)));
  policy->report(for_decoding(load_of(2)));
  EXPECT_EQ(picked_of(*policy), 1U);
  policy->report(for_decoding(later(load_of(1, 50, 3), 2)));
  EXPECT_EQ(picked_of(*policy), 2U) << "nobody is for prompts";
  policy->report(for_prefill(later(load_of(2, 90, 7), 2)));
  EXPECT_EQ(picked_of(*policy), 2U);
}

// --- pairing

// DistServe, Splitwise: what is prefilled goes where it is decoded.
TEST(RolesInPairing, EachPrefillInstanceIsPairedWithThoseThatHaveRoomTheFreestFirst) {
  const std::vector loads{for_prefill(load_with_freeness(1, 50)), for_prefill(load_of(2)),
                          for_decoding(load_with_freeness(3, 7)), for_decoding(load_with_freeness(4, 20)),
                          for_decoding(load_with_freeness(5, 6))};
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 4), pair_of(1, 3), pair_of(2, 3), pair_of(2, 4)}))
      << "idle ones too, and each begins with another; 5 has too little";
  EXPECT_EQ(mark_cause(loads[0], loads[3]), migration_cause::kind::handoff);
  EXPECT_EQ(mark_cause(loads[0], loads[1]), migration_cause::kind::freeness);
  EXPECT_EQ(mark_cause(that_terminates(loads[0]), loads[3]), migration_cause::kind::drain);
}

TEST(RolesInPairing, OfManyDestinationsEachHasSome) {
  std::vector loads{for_prefill(load_with_freeness(1, 1)), for_prefill(load_with_freeness(2, 2))};
  for (std::uint32_t i = 3; i <= 9; ++i) loads.push_back(load_with_freeness(i, 40.0 - i));
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(1, 3), pair_of(1, 4), pair_of(1, 5), pair_of(1, 6), pair_of(2, 4),
                                              pair_of(2, 5), pair_of(2, 6), pair_of(2, 7)}));
}

TEST(RolesInPairing, ThoseThatDecodeExchangeRequestsAsEver) {
  const std::vector loads{for_prefill(load_with_freeness(1, 1)), for_decoding(load_with_freeness(2, 1)),
                          for_decoding(load_with_freeness(3, 20)), for_prefill(load_of(4))};
  EXPECT_EQ(pair_instances(loads, {}), (pairs{pair_of(2, 3), pair_of(1, 3), pair_of(4, 3)}))
      << "not with prefill instances, be they idle";
}

// A decode instance without memory gives requests away to whoever has some.
TEST(RolesInPairing, WhereNobodyHasRoomForWhatIsPrefilledAllAreMixed) {
  const auto prefill = for_prefill(load_of(1, 20, 2));
  EXPECT_EQ(pair_instances({prefill, for_decoding(load_with_freeness(2, 4))}, {}), pairs{});
  EXPECT_EQ(pair_instances({prefill, for_decoding(load_with_freeness(2, 1))}, {}), pairs{pair_of(2, 1)});
  auto stuck = for_decoding(load_of(2, 95, 5));
  stuck.waiting = 1;
  stuck.queued_blocks = 20;
  EXPECT_EQ(pair_instances({prefill, stuck}, {.policy = migration_policy::defrag}), pairs{pair_of(2, 1)});
  auto full = for_decoding(load_of(3, 20, 8)); // its batch has no place
  EXPECT_EQ(pair_instances({for_prefill(load_with_freeness(1, 1)), for_prefill(load_with_freeness(2, 20)), full}, {}),
            pairs{pair_of(1, 2)});
  EXPECT_EQ(pair_instances({for_prefill(load_with_freeness(1, 1)), for_prefill(load_with_freeness(2, 20)),
                            that_terminates(for_decoding(load_of(3)))},
                           {}),
            pairs{pair_of(1, 2)});
}

TEST(RolesInPairing, OnlyByPoliciesThatMigrateAndOnlyWithHandoff) {
  const std::vector loads{for_prefill(load_with_freeness(1, 50)), for_decoding(load_of(2))};
  pairing_settings settings;
  for (const auto policy : {migration_policy::none, migration_policy::defrag, migration_policy::freeness}) {
    settings.policy = policy;
    EXPECT_EQ(pair_instances(loads, settings), pairs{pair_of(1, 2)}) << to_string(policy);
  }
  settings.handoff = false;
  EXPECT_EQ(pair_instances(loads, settings), pairs{});
  settings = {.policy = migration_policy::never};
  EXPECT_EQ(pair_instances(loads, settings), pairs{});
}

TEST(RolesInPairing, WhatDecodesLeavesOneThatTerminatesForOthersThatDecodeWherePossible) {
  const auto leaving = that_terminates(for_decoding(load_with_freeness(1, 5)));
  const auto freest = for_prefill(load_of(2));
  const auto small = for_decoding(load_with_freeness(3, 7)), full = for_decoding(load_with_freeness(3, 0));
  EXPECT_EQ(pair_instances({leaving, freest, small}, {}), (pairs{pair_of(1, 3), pair_of(2, 3)}));
  EXPECT_EQ(pair_instances({leaving, freest, full}, {}), pairs{pair_of(1, 2)});
  const auto second = that_terminates(for_decoding(load_with_freeness(4, 5)));
  EXPECT_EQ(pair_instances({leaving, second, freest, small}, {}), (pairs{pair_of(1, 3), pair_of(4, 2), pair_of(2, 3)}));
}

// Most of what a prefill instance has waits for its prompt.
TEST(RolesInPairing, APrefillInstanceThatTerminatesGoesToOthersOfItsRoleFirst) {
  const auto leaving = that_terminates(for_prefill(load_with_freeness(1, 5)));
  const auto other = for_prefill(load_of(2, 50, 5)), freest = for_decoding(load_of(3));
  EXPECT_EQ(pair_instances({leaving, other, freest}, {}), (pairs{pair_of(1, 2), pair_of(2, 3)}));
  EXPECT_EQ(pair_instances({leaving, freest}, {}), pairs{pair_of(1, 3)});
}

TEST(RolesInPairing, KvThatOthersCannotTakeStays) {
  auto prefilling = for_prefill(load_with_freeness(1, 50));
  prefilling.kv_kind = 7;
  EXPECT_EQ(pair_instances({prefilling, for_decoding(load_of(2))}, {}), pairs{});
}

// Whatever instances say.
TEST(RolesInPairing, EveryPrefillInstanceHandsOverAndTheOthersAreAsWithoutThem) {
  workload::counter_random random{31};
  std::size_t handed_over = 0;
  for (int cluster = 0; cluster < 3000; ++cluster) {
    pairing_settings settings;
    settings.policy = static_cast<migration_policy>(random.below(4));
    std::map<instance_id, load_report> loads;
    std::vector<load_report> all, others;
    for (std::uint32_t i = 0; i < random.below(20); ++i) {
      auto load = random_load(i, 1, random);
      load.role = static_cast<instance_role>(random.below(3));
      loads.emplace(load.instance, load);
      all.push_back(load);
      if (load.role != instance_role::prefill) others.push_back(load);
    }
    const auto takes_over = [&](const load_report& r) {
      return r.takes_requests() && r.role != instance_role::prefill && has_memory_left(r) &&
             freeness(r) > settings.destination_above && (r.running_max == 0 || r.places_taken() < r.running_max) &&
             (r.waiting_max == 0 || r.waiting < r.waiting_max);
    };
    const auto takers = static_cast<std::size_t>(std::ranges::count_if(all, takes_over));
    if (takers == 0) continue; // all are mixed
    const auto found = pair_instances(all, settings, static_cast<std::uint64_t>(cluster));
    pairs rest;
    std::map<instance_id, std::set<instance_id>> handed;
    for (const auto& pair : found) {
      const auto& source = loads.at(pair.source);
      const auto& destination = loads.at(pair.destination);
      if (!hands_over(source, destination)) {
        ASSERT_TRUE(source.terminating || source.role != instance_role::prefill);
        if (source.role != instance_role::prefill && destination.role != instance_role::prefill) rest.push_back(pair);
        continue;
      }
      ++handed_over;
      ASSERT_TRUE(takes_over(destination));
      ASSERT_TRUE(handed[pair.source].insert(pair.destination).second);
    }
    for (const auto& load : all) {
      const bool hands =
          load.role == instance_role::prefill && load.takes_requests() && settings.policy != migration_policy::never;
      ASSERT_EQ(handed[load.instance].size(), hands ? std::min(takers, handoff_destinations) : 0U);
    }
    // Those that terminate may take a place each, and change it.
    if (std::ranges::none_of(all, [](const auto& r) { return r.terminating; })) {
      ASSERT_EQ(rest, pair_instances(others, settings, static_cast<std::uint64_t>(cluster)));
    }
  }
  EXPECT_GT(handed_over, 1000U);
}

// --- what moves

move_candidate decoding(std::uint64_t id, std::uint32_t blocks, std::int32_t priority = 0, std::uint8_t level = 0) {
  move_candidate c;
  c.request = request_id{id};
  c.epoch = epoch{1};
  c.priority = priority;
  c.execution_level = level;
  c.blocks = c.frees = blocks;
  return c;
}

std::vector<std::uint64_t> in_turn(std::vector<move_candidate> all, const load_report& source,
                                   const load_report& destination) {
  std::vector<std::uint64_t> order;
  while (const auto choice = choose_move(all, source, destination, {})) {
    order.push_back(choice->request.value());
    std::erase_if(all, [&](const auto& c) { return c.request == choice->request; });
  }
  return order;
}

TEST(RolesInSelection, WhatDecodesIsHandedOverTheMostUrgentFirst) {
  const auto idle = for_prefill(load_of(1)), busy = for_decoding(load_of(2, 60, 5));
  EXPECT_EQ(in_turn({decoding(4, 2), decoding(3, 9), decoding(2, 3, -5), decoding(1, 3, 7, 1)}, idle, busy),
            (std::vector<std::uint64_t>{1, 2, 3, 4}))
      << "though the destination is the fuller one";
  EXPECT_EQ(in_turn({decoding(1, 40), decoding(2, 5)}, idle, busy), std::vector<std::uint64_t>{2}) << "1 does not fit";
}

TEST(RolesInSelection, ADestinationIsNotFilledToTheLastBlock) {
  const auto source = for_prefill(load_of(1)), destination = for_decoding(load_of(2, 60, 5)); // 40 blocks
  EXPECT_EQ(in_turn({decoding(1, 22)}, source, destination), std::vector<std::uint64_t>{1}) << "18 for 6 of them";
  EXPECT_EQ(in_turn({decoding(1, 23)}, source, destination), std::vector<std::uint64_t>{});
}

TEST(RolesInSelection, WhoWaitsIsPrefilledHere) {
  auto head = decoding(1, 4);
  head.state = request_state::waiting;
  head.head_of_line = true;
  auto stuck = for_prefill(load_of(1, 99, 3));
  stuck.waiting = 1;
  stuck.queued_blocks = 4;
  EXPECT_EQ(in_turn({head}, stuck, for_decoding(load_of(2))), std::vector<std::uint64_t>{});
  EXPECT_EQ(in_turn({head}, stuck, for_prefill(load_of(2))), std::vector<std::uint64_t>{1}) << "as ever";
}

TEST(RolesInSelection, WhatFailedIsTriedAgainAfterAllOthers) {
  auto failed = decoding(1, 2), brought = decoding(3, 2);
  failed.failed = true;
  failed.settled_ns = 0;
  brought.settled_ns = 0; // by hand, a moment ago
  EXPECT_EQ(in_turn({failed, decoding(2, 2), brought}, for_prefill(load_of(1)), for_decoding(load_of(2))),
            (std::vector<std::uint64_t>{2, 1}));
}

// --- autoscaling

TEST(RolesInScaling, PrefillInstancesAreOnlyCounted) {
  scaling_settings s; // x = 10, y = 60
  s.mode = scaling_mode::on;
  const auto decided = [&](const std::vector<load_report>& loads) {
    autoscaler scaler{s};
    std::optional<scaling_decision> decision;
    for (std::int64_t t = 0; t <= 10 && !decision; ++t) decision = scaler.step({t * second_ns, loads, 0, 0});
    return decision;
  };
  const auto full = for_decoding(load_with_freeness(2, 1)), idle = for_decoding(load_of(3));
  auto found = decided({for_prefill(load_of(1)), full});
  ASSERT_TRUE(found) << "an idle prefill instance does not hide that the others are full";
  EXPECT_EQ(found->what, scaling_decision::kind::out);
  found = decided({for_prefill(load_of(1)), idle, for_decoding(load_of(4))});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, scaling_decision::kind::in);
  EXPECT_EQ(found->instance, instance_id{4});
  EXPECT_FALSE(decided({for_prefill(load_of(1)), for_prefill(load_of(2)), idle})) << "the last that decodes stays";
  found = decided({for_prefill(load_of(1)), for_prefill(load_of(2))});
  ASSERT_TRUE(found) << "where there are no others";
  EXPECT_EQ(found->instance, instance_id{2});
  s.instances_max = 2;
  EXPECT_FALSE(decided({for_prefill(load_of(1)), full})) << "they are instances";
}

/// With roles that follow the load.
std::optional<scaling_decision> decided_with(const std::vector<load_report>& loads, const scaling_roles& roles,
                                             std::int64_t seconds = 10) {
  scaling_settings s; // x = 10, y = 60
  s.mode = scaling_mode::on;
  autoscaler scaler{s};
  std::optional<scaling_decision> decision;
  for (std::int64_t t = 0; t <= seconds && !decision; ++t) {
    scaling_view view{t * second_ns, loads, 0, 0};
    view.roles = roles;
    decision = scaler.step(view);
  }
  return decision;
}

TEST(RolesInScaling, WhereTheyFollowTheLoadPromptsOrderInstancesToo) {
  const std::vector loads{for_prefill(load_of(1)), for_decoding(load_with_freeness(2, 20))};
  const auto found = decided_with(loads, {.prefill = 2.5, .prefill_with_less = 10.0, .prefill_missing = 2});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, scaling_decision::kind::out);
  EXPECT_EQ(found->count, 2U);
  EXPECT_EQ(found->why, "prefill load 2.50, above 1 for 10 s, 2 instances");
  EXPECT_FALSE(decided_with(loads, {.prefill = 0.95, .prefill_with_less = 10.0}));
  const std::vector idle{for_prefill(load_of(1)), for_decoding(load_of(2)), for_decoding(load_of(3))};
  const auto short_of = decided_with(idle, {.prefill = 1.2, .prefill_with_less = 10.0, .prefill_missing = 1});
  ASSERT_TRUE(short_of);
  EXPECT_EQ(short_of->what, scaling_decision::kind::out) << "none leaves meanwhile";
  EXPECT_FALSE(decided_with(loads, {}));
}

TEST(RolesInScaling, WhereTheyFollowTheLoadAPrefillInstanceMayLeave) {
  const std::vector loads{for_prefill(load_of(1)), for_prefill(load_of(2)), for_decoding(load_with_freeness(3, 20))};
  EXPECT_FALSE(decided_with(loads, {.prefill = 0.2, .prefill_with_less = 0.4}, 59)) << "a queue is there sooner";
  auto found = decided_with(loads, {.prefill = 0.2, .prefill_with_less = 0.4}, 60);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, scaling_decision::kind::in);
  EXPECT_EQ(found->instance, instance_id{2});
  EXPECT_EQ(found->why, "prefill load 0.40 with one less, below 0.6 for 60 s, 3 instances");
  EXPECT_FALSE(decided_with(loads, {.prefill = 0.35, .prefill_with_less = 0.7}, 90));
  EXPECT_FALSE(decided_with({loads[0], loads[2]}, {.prefill = 0.2, .prefill_with_less = 0.4}, 90))
      << "the last one stays";
  const std::vector full{for_prefill(load_of(1)), for_prefill(load_of(2)), for_decoding(load_with_freeness(3, 1))};
  found = decided_with(full, {.prefill = 0.2, .prefill_with_less = 0.4});
  ASSERT_TRUE(found) << "none leaves while others are missing";
  EXPECT_EQ(found->what, scaling_decision::kind::out);
  const std::vector idle{for_prefill(load_of(1)), for_prefill(load_of(2)), for_decoding(load_of(3)),
                         for_decoding(load_of(4))};
  found = decided_with(idle, {.prefill = 0.2, .prefill_with_less = 0.4});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->instance, instance_id{4}) << "those that decode first";
}

TEST(RolesInScaling, WhatWasMeasuredOfOtherInstancesDoesNotCount) {
  scaling_settings s;
  s.mode = scaling_mode::on;
  autoscaler scaler{s};
  std::vector loads{for_prefill(load_of(1)), for_decoding(load_with_freeness(2, 20))};
  scaling_view view{0, loads, 0, 0};
  view.roles = scaling_roles{.prefill = 2.5, .prefill_with_less = 10.0, .prefill_missing = 2};
  std::vector<std::int64_t> ordered;
  const auto pass = [&](std::int64_t seconds) {
    for (const auto end = view.now_ns + seconds * second_ns; view.now_ns < end; view.now_ns += second_ns)
      if (scaler.step(view)) ordered.push_back(view.now_ns / second_ns);
  };
  pass(11);
  EXPECT_EQ(ordered, std::vector<std::int64_t>{10});
  view.ordered = 2;
  pass(9);
  view.ordered = 0; // they have come
  for (const std::uint32_t id : {3U, 4U}) view.loads.push_back(for_decoding(load_with_freeness(id, 20)));
  pass(60);
  EXPECT_EQ(ordered.size(), 1U) << "nobody has measured since";
  view.roles->measured_since = 18 * second_ns; // which began before
  pass(20);
  EXPECT_EQ(ordered.size(), 1U);
  view.roles->measured_since = view.now_ns;
  pass(20);
  EXPECT_EQ(ordered.size(), 2U);
}

TEST(RolesInScaling, ADecodeInstanceDoesNotLeaveForWhatAPrefillInstanceHasEarned) {
  scaling_settings s;
  s.mode = scaling_mode::on;
  autoscaler scaler{s};
  std::optional<scaling_decision> decision;
  for (std::int64_t t = 0; t <= 70 && !decision; ++t) {
    const auto free = t % 5 == 0 ? 65 : 45;
    const std::vector loads{for_prefill(load_of(1)), for_prefill(load_of(2)), for_decoding(load_with_freeness(3, free)),
                            for_decoding(load_with_freeness(4, free))};
    scaling_view view{t * second_ns, loads, 0, 0};
    view.roles = scaling_roles{.prefill = 0.2, .prefill_with_less = 0.4};
    decision = scaler.step(view);
  }
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->instance, instance_id{2});
}

TEST(RolesInScaling, NothingIsDecidedWhileRolesChangeButNotForEver) {
  const std::vector loads{for_prefill(load_of(1)), for_decoding(load_with_freeness(2, 1))};
  EXPECT_FALSE(decided_with(loads, {.settling = true}, 39));
  EXPECT_TRUE(decided_with(loads, {.settling = true}, 40));
}

} // namespace
} // namespace godwit::protocols
