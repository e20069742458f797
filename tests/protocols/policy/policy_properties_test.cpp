#include "departures.hpp"
#include "loads.hpp"

#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

// What holds whatever instances say, on random reports.
namespace godwit::protocols {
namespace {

using workload::counter_random;

/// A model of what a dispatcher may pick: every instance's state, kept in the plainest way.
struct instance_model {
  load_report report;
  std::uint64_t picked = 0;
  bool stale = false;
  [[nodiscard]] bool takes_requests() const { return report.ready && !report.terminating && !stale; }
  [[nodiscard]] bool may_be_picked() const {
    if (!takes_requests()) return false;
    if (report.waiting_max == 0) return true;
    const auto taken = report.running + report.places_kept;
    const auto places = report.waiting_max + (report.running_max > taken ? report.running_max - taken : 0);
    return report.waiting + picked < places;
  }
};

TEST(PolicyProperties, DispatchNeverPicksATerminatingADeadAStaleOrAFullInstance) {
  for (const auto name : dispatcher_names()) {
    counter_random random{21};
    std::uint64_t picks = 0;
    for (int cluster = 0; cluster < 60; ++cluster) {
      const auto policy = make_dispatcher(name, 5);
      std::map<instance_id, instance_model> model;
      for (std::uint64_t step = 1; step <= 400; ++step) {
        const auto id = static_cast<std::uint32_t>(1 + random.below(12));
        switch (random.below(8)) {
        case 0:
        case 1: {
          auto report = random_load(id, step, random);
          if (cluster % 2 == 1)
            report.role = static_cast<instance_role>(random.below(4) == 0 ? 0 : 1 + random.below(2));
          ASSERT_TRUE(policy->report(report));
          model[report.instance] = {report, 0, false};
          break;
        }
        case 2:
          policy->remove(instance_id{id});
          model.erase(instance_id{id});
          break;
        case 3:
          policy->set_stale(instance_id{id}, true);
          if (model.contains(instance_id{id})) model[instance_id{id}].stale = true;
          break;
        default: {
          auto demand = dispatch_demand{static_cast<std::uint32_t>(random.below(5000)),
                                        static_cast<std::uint8_t>(random.below(2)), 10};
          if (random.below(2) == 0) demand.headroom.reset();
          const auto choice = policy->pick(demand);
          const bool for_prompts = std::ranges::any_of(model, [](const auto& m) {
            return m.second.takes_requests() && m.second.report.role == instance_role::prefill;
          });
          const auto may_be_picked = [&](const instance_model& m) {
            return m.may_be_picked() && !(for_prompts && m.report.role == instance_role::decode);
          };
          const auto eligible = std::ranges::count_if(model, [&](const auto& m) { return may_be_picked(m.second); });
          ASSERT_EQ(choice.has_value(), eligible > 0) << name;
          if (!choice) {
            ASSERT_NE(policy->why_none(), dispatcher::lack::none);
            break;
          }
          auto& chosen = model.at(choice->instance);
          ASSERT_TRUE(may_be_picked(chosen)) << name << " picked " << choice->instance.value();
          ASSERT_EQ(choice->why.candidates, eligible) << name;
          ASSERT_TRUE(std::isfinite(choice->why.score) && std::isfinite(choice->why.runner_up)) << name;
          ASSERT_FALSE(std::signbit(choice->why.score) && choice->why.score == 0) << name << " says -0";
          ++chosen.picked;
          ++picks;
        }
        }
      }
    }
    EXPECT_GT(picks, 5000U) << name;
  }
}

TEST(PolicyProperties, DispatchByFreenessFindsTheHighestAndTheNext) {
  counter_random random{22};
  for (int cluster = 0; cluster < 500; ++cluster) {
    const auto policy = make_dispatcher("freeness");
    std::vector<double> scores;
    for (std::uint32_t id = 1; id <= 20; ++id) {
      auto report =
          load_of(id, static_cast<std::uint32_t>(random.below(100)), static_cast<std::uint32_t>(random.below(8)));
      policy->report(report);
      scores.push_back(freeness(report));
    }
    std::ranges::sort(scores, std::greater{});
    const auto choice = policy->pick({});
    ASSERT_TRUE(choice);
    ASSERT_EQ(choice->why.score, scores[0]);
    ASSERT_EQ(choice->why.runner_up, scores[1]);
  }
}

TEST(PolicyProperties, PairingNeverPairsAnInstanceWithItselfOrTwiceAndKeepsToItsRules) {
  counter_random random{23};
  std::size_t pairs_seen = 0;
  for (int cluster = 0; cluster < 3000; ++cluster) {
    pairing_settings settings;
    settings.policy = static_cast<migration_policy>(random.below(4));
    settings.source_below = static_cast<double>(random.below(60)) - 20;
    settings.destination_above = static_cast<double>(random.below(60)) - 20;
    std::map<instance_id, load_report> loads;
    std::vector<load_report> list;
    const auto count = random.below(20);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto load = random_load(static_cast<std::uint32_t>(random.below(40)), 1, random);
      if (loads.emplace(load.instance, load).second) list.push_back(load);
    }
    const auto chosen_pairs = pair_instances(list, settings, static_cast<std::uint64_t>(cluster));
    std::set<instance_id> used;
    auto before = no_freeness;
    auto last = -no_freeness;
    bool leaves = true; // the source before
    for (const auto& pair : chosen_pairs) {
      ASSERT_NE(settings.policy, migration_policy::never);
      ASSERT_NE(pair.source, pair.destination);
      ASSERT_TRUE(used.insert(pair.source).second);
      ASSERT_TRUE(used.insert(pair.destination).second);
      const auto& source = loads.at(pair.source);
      const auto& destination = loads.at(pair.destination);
      const auto f = freeness(source);
      ASSERT_GE(f, before) << "ascending";
      before = f;
      if (std::exchange(leaves, source.terminating) && !source.terminating) last = -no_freeness;
      ASSERT_LE(freeness(destination), last) << "descending, of those that leave and of the others";
      last = freeness(destination);
      ASSERT_FALSE(destination.terminating);
      ASSERT_TRUE(destination.ready);
      ASSERT_GT(freeness(destination), f);
      if (source.terminating) {
        ASSERT_TRUE(has_memory_left(destination));
        continue;
      }
      ASSERT_GT(freeness(destination), settings.destination_above);
      ASSERT_TRUE(source.ready);
      ASSERT_NE(settings.policy, migration_policy::none);
      if (settings.policy == migration_policy::freeness) {
        ASSERT_LT(f, settings.source_below);
      }
      if (settings.policy == migration_policy::defrag) {
        ASSERT_GT(source.waiting, 0U);
        ASSERT_GE(source.blocks_used + source.queued_blocks, source.blocks_total);
      }
    }
    const auto has_places = [](const load_report& load) {
      return load.ready && !load.terminating && (load.waiting_max == 0 || load.waiting < load.waiting_max) &&
             (load.running_max == 0 || load.places_taken() < load.running_max);
    };
    const bool one_stays =
        settings.policy != migration_policy::never && std::ranges::any_of(list, [&](const auto& l) {
          return l.terminating && l.running + l.waiting + l.migrating > 0 && !used.contains(l.instance);
        });
    for (const auto& load : list) {
      if (!one_stays || !has_places(load) || !has_memory_left(load)) continue;
      ASSERT_EQ(std::ranges::count(chosen_pairs, load.instance, &migration_pair::destination), 1)
          << "whoever has memory left over takes from those that terminate";
    }
    for (const auto& load : list) { // whoever is left out had no better claim
      if (chosen_pairs.empty() || used.contains(load.instance) || load.terminating || !load.ready) continue;
      const auto f = freeness(load);
      if (settings.policy == migration_policy::freeness && load.running > 0 && f < settings.source_below) {
        ASSERT_GE(f, before);
      }
      const bool is_source = settings.policy == migration_policy::freeness ? f < settings.source_below : f <= 0;
      const bool only_leave = loads.at(chosen_pairs.back().source).terminating;
      if (!is_source && has_places(load) && (!only_leave || has_memory_left(load))) {
        ASSERT_LE(f, last);
      }
    }
    pairs_seen += chosen_pairs.size();
    std::ranges::reverse(list);
    ASSERT_EQ(pair_instances(list, settings, static_cast<std::uint64_t>(cluster)), chosen_pairs)
        << "the order of the reports does not matter";
  }
  EXPECT_GT(pairs_seen, 1000U);
}

/// One that runs, holds its blocks alone and has no headroom.
move_candidate running_request(std::uint64_t id, std::uint32_t blocks) {
  move_candidate c;
  c.request = request_id{id};
  c.blocks = c.frees = blocks;
  c.settled_ns = 1'000'000'000'000;
  return c;
}

TEST(PolicyProperties, WithoutPrioritiesAMigrationConservesTheTotalVirtualUsage) {
  counter_random random{24};
  std::size_t moves = 0;
  for (int round = 0; round < 2000; ++round) {
    auto source = load_of(1);
    source.blocks_total = 1000;
    source.running_max = 64;
    std::vector<move_candidate> requests;
    for (std::uint64_t i = 1; i <= 1 + random.below(20); ++i) {
      requests.push_back(running_request(i, static_cast<std::uint32_t>(1 + random.below(45))));
      source.blocks_used += requests.back().blocks;
      ++source.running;
    }
    auto destination = load_of(2, static_cast<std::uint32_t>(random.below(300)), 4);
    destination.blocks_total = 1000;
    destination.running_max = 64;
    const auto total = virtual_usage(source) + virtual_usage(destination);
    const auto running = source.running + destination.running;
    const auto settings = selection_settings{};
    for (std::size_t bound = requests.size() + 1; bound > 0; --bound) {
      const auto choice = choose_move(requests, source, destination, settings);
      if (!choice) break;
      const auto worse = std::min(freeness(source), freeness(destination));
      account_departure(source, candidate_of(*choice, requests));
      account_arrival(destination, *choice);
      std::erase_if(requests, [&](const auto& c) { return c.request == choice->request; });
      ASSERT_EQ(virtual_usage(source) + virtual_usage(destination), total);
      ASSERT_EQ(source.running + destination.running, running);
      ASSERT_DOUBLE_EQ(freeness(source), choice->source_after);
      ASSERT_DOUBLE_EQ(freeness(destination), choice->destination_after);
      ASSERT_GT(std::min(freeness(source), freeness(destination)), worse) << "it is worth something";
      ++moves;
    }
  }
  EXPECT_GT(moves, 500U);
}

TEST(PolicyProperties, WithoutPrioritiesAMigrationOfTheHeadOfLineConservesTheTotalVirtualUsageToo) {
  auto source = load_of(1, 90, 8);
  source.waiting = 1;
  source.queued_blocks = 25;
  auto head = running_request(1, 25);
  head.state = request_state::waiting;
  head.head_of_line = true;
  auto destination = load_of(2, 10, 1);
  const auto total = virtual_usage(source) + virtual_usage(destination);
  const auto choice = choose_move({head}, source, destination, {});
  ASSERT_TRUE(choice);
  account_departure(source, head);
  account_arrival(destination, *choice);
  EXPECT_EQ(virtual_usage(source) + virtual_usage(destination), total);
  EXPECT_EQ(virtual_usage(source), 90U);
}

} // namespace
} // namespace godwit::protocols
