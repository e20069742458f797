// More than ten thousand migrations in one world: what one of them leaves behind would show.
#include "actors/support/catalogue.hpp"
#include "actors/support/mover.hpp"

#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <cstdio>

namespace godwit::test {

using namespace std::chrono_literals;

TEST(MigrationSoak, FifteenThousandMigrationsLeaveNothingBehind) {
  constexpr std::uint32_t migrations = 15'000;
  constexpr std::uint32_t instances = 3;
  sim_cluster_options o{.seed = 3, .instances = instances, .blocks = 256, .context = 256, .running_max = 8};
  o.fabric = transport::sim::settings{};
  sim_cluster cluster(o);
  const auto calm = calm_answer(0); // made before memory is measured
  auto movers = std::make_unique<moves>(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  const auto events_of_an_idle_minute = [&] {
    const auto before = cluster.world.steps();
    cluster.run_for(60s);
    return cluster.world.steps() - before;
  };
  const auto idle = events_of_an_idle_minute();

  auto random = cluster.world.random(5);
  std::uint32_t committed = 0;
  std::uint64_t others = 0;
  std::vector<std::size_t> memory;
  while (committed < migrations && !HasFailure()) {
    std::vector<asked> all;
    const auto first = static_cast<std::uint32_t>(random.below(catalogue_size - 8));
    for (std::uint32_t i = 0; i < 8; ++i) all.push_back({first + i, submit_catalogue(cluster, first + i)});
    const auto ended = [&] {
      for (const auto& one : all)
        if (!one.sink->ended()) return false;
      return true;
    };
    while (!ended()) {
      movers->order(all[random.below(all.size())].number, static_cast<std::uint32_t>(random.below(instances)));
      cluster.run_for(std::chrono::microseconds(random.below(1500)));
    }
    ASSERT_TRUE(movers->run_until_settled());
    expect_calm_answers(all);
    committed += movers->journal->committed();
    others += movers->journal->reports.size() - movers->journal->committed();
    movers->journal->reports.clear();
    movers->journal->reports.shrink_to_fit();
    if (committed / 1000 > memory.size()) {
      expect_nothing_left(cluster, instances, alive);
      memory.push_back(mallinfo2().uordblks);
    }
  }
  expect_nothing_left(cluster, instances, alive);
  EXPECT_LE(events_of_an_idle_minute(), idle + idle / 100) << "timers of migrations that are over";
  // In the first thousands, tables reach their sizes (cached blocks, names of postings that are over).
  ASSERT_GE(memory.size(), 15U);
  EXPECT_LE(memory.back(), memory[11] + (std::size_t{64} << 10U));
  std::printf("  %u migrations, %ju refused or aborted; memory in use %zu KiB after 12,000, %zu KiB at the end\n",
              committed, std::uintmax_t{others}, memory[11] / 1024, memory.back() / 1024);
  movers.reset();
}

// Places in the batch that arriving requests hold are in no report; an instance whose places leak runs fewer requests.
TEST(MigrationSoak, AfterManyAbortedMigrationsEveryPlaceIsFree) {
  constexpr std::uint32_t places = 4;
  sim_cluster_options o{.seed = 4, .instances = 2, .blocks = 256, .context = 256, .running_max = places};
  o.fabric = transport::sim::settings{.bytes_per_second = 20'000};
  o.adjust = [](actors::node_options& n) {
    n.llumlet.migration.settings.limits.stages_max = 2;
    n.llumlet.planner.prefix_caching = false; // or there is little to copy, from the second round on
  };
  sim_cluster cluster(o);
  moves movers(cluster);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<recording_sink>> sinks;
    for (std::uint32_t i = 0; i < 3; ++i) sinks.push_back(submit_catalogue(cluster, i));
    cluster.run_for(15ms);
    for (std::uint32_t i = 0; i < 3; ++i)
      for (std::uint32_t to = 0; to < 2; ++to) movers.order(i, to);
    cluster.run_for(std::chrono::milliseconds(round));
    if (round % 2 == 0) cluster.cluster->gate()->withdraw(sinks[0]);
    sinks.erase(sinks.begin());
    ASSERT_TRUE(cluster.run_until_ended(sinks));
    ASSERT_TRUE(movers.run_until_settled());
    cluster.run_for(5s);
  }
  EXPECT_GT(movers.journal->count(protocols::migration_outcome::aborted), 5U);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < 4 * places; ++i) sinks.push_back(cluster.submit(i, 10, 60));
  std::uint32_t most = 0;
  const auto some_open = [&] {
    return std::any_of(sinks.begin(), sinks.end(), [](const auto& sink) { return !sink->ended(); });
  };
  for (int i = 0; i < 10'000 && some_open(); ++i) {
    cluster.run_for(2ms);
    std::uint32_t running = 0;
    for (const auto& instance : cluster.status().instances) running += instance.load.running;
    most = std::max(most, running);
  }
  EXPECT_FALSE(some_open());
  EXPECT_EQ(most, 2 * places);
}

} // namespace godwit::test
