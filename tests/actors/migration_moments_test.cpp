// One migration, and something that happens in the middle of it: at every step of the simulated world, one after the
// other, in several orders of messages.
#include "actors/support/catalogue.hpp"
#include "actors/support/mover.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t traveller = 41; // 110 tokens of prompt, 88 of answer

struct scene {
  sim_cluster& cluster;
  moves& movers;
  std::vector<asked>& all;
  std::uint32_t source;
  std::uint32_t destination;
};
using action = std::function<void(scene&)>;

/// False where the migration had ended by then. Collects its ends.
bool act_at(std::uint64_t seed, std::uint32_t step, const action& act, std::set<std::string>& ends,
            double bytes_per_second = 4e6) {
  sim_cluster_options o{.seed = seed, .instances = 3, .blocks = bytes_per_second < 1e6 ? 20U : 64U, .context = 256};
  o.fabric = transport::sim::settings{.bytes_per_second = bytes_per_second, .latency = 100us};
  o.adjust = [](actors::node_options& n) { n.backoff_min = 5ms; };
  sim_cluster cluster(o);
  moves movers(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  std::vector<asked> all{{traveller, submit_catalogue(cluster, traveller)}};
  EXPECT_TRUE(cluster.run_until([&] { return all[0].sink->tokens.size() >= 10 + seed % 7; }));
  const auto source = cluster.instance_with(protocols::request_state::running).value_or(0);
  scene s{cluster, movers, all, source, (source + 1) % 3};
  movers.order(traveller, s.destination);
  for (std::uint32_t i = 0; i < step && movers.journal->open > 0; ++i) cluster.world.step();
  if (movers.journal->open == 0) return false;
  act(s);
  EXPECT_TRUE(cluster.run_until([&] {
    for (const auto& one : all)
      if (!one.withdrawn && !one.sink->ended()) return false;
    return movers.journal->open == 0;
  }));
  expect_calm_answers(all);
  expect_nothing_left(cluster, 3, alive);
  EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
  for (const auto& report : movers.journal->reports)
    ends.insert(std::string(to_string(report.outcome)) + " " + std::string(to_string(report.reason)));
  return true;
}

std::set<std::string> act_at_every_moment(const action& act, std::uint64_t seeds = 10, double bytes_per_second = 4e6) {
  std::set<std::string> ends;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (std::uint32_t step = 0; !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      if (!act_at(seed, step, act, ends, bytes_per_second)) {
        EXPECT_GT(step, 50U);
        break;
      }
    }
  return ends;
}

} // namespace

TEST(MigrationMoments, TheClientLeaves) {
  const auto ends = act_at_every_moment([](scene& s) {
    s.all[0].withdrawn = true;
    s.cluster.cluster->gate()->withdraw(s.all[0].sink);
  });
  EXPECT_TRUE(ends.contains("aborted request_cancelled"));
  EXPECT_TRUE(ends.contains("committed none"));
}

TEST(MigrationMoments, TheDestinationDies) {
  const auto ends =
      act_at_every_moment([](scene& s) { s.cluster.cluster->kill(protocols::instance_id{s.destination}); }, 30);
  EXPECT_TRUE(ends.contains("aborted peer_lost"));
  EXPECT_TRUE(ends.contains("reclaimed peer_lost"));
}

TEST(MigrationMoments, TheSourceDies) {
  const auto ends = act_at_every_moment([](scene& s) { s.cluster.cluster->kill(protocols::instance_id{s.source}); });
  EXPECT_TRUE(ends.contains("aborted peer_lost")) << "says the home, before it has seen the death";
  EXPECT_TRUE(ends.contains("committed none"));
}

TEST(MigrationMoments, TheLinkBreaksForGood) {
  const auto ends = act_at_every_moment([](scene& s) {
    s.cluster.network->cut(sim_cluster::process_of(s.source), sim_cluster::process_of(s.destination));
  });
  EXPECT_TRUE(ends.contains("reclaimed timed_out") || ends.contains("reclaimed transfer_failed"));
}

TEST(MigrationMoments, TheDestinationsFabricStandsStillForAWhile) {
  act_at_every_moment([](scene& s) {
    s.cluster.network->freeze(sim_cluster::process_of(s.destination));
    s.cluster.run_for(700ms);
    s.cluster.network->thaw(sim_cluster::process_of(s.destination));
  });
}

TEST(MigrationMoments, AnotherMigrationOfTheSameRequestIsOrdered) {
  const auto ends = act_at_every_moment([](scene& s) { s.movers.order(traveller, (s.destination + 1) % 3); });
  EXPECT_TRUE(ends.contains("refused request_busy"));
}

TEST(MigrationMoments, OthersComeAndNeedTheBlocks) {
  act_at_every_moment([](scene& s) {
    for (std::uint32_t i = 0; i < 12; ++i) s.all.push_back({i, submit_catalogue(s.cluster, i)});
  });
}

// Its link to the home is cut: it frees the request, others take the blocks, and the home learns of it much later. The
// destination hears of the abort here. That the last copy's blocks are held until it has ended (llumlet::let_go)
// matters where it does not hear of it, which takes a cut between the two that this world cannot make.
TEST(MigrationMoments, TheSourceAloneLosesItsHome) {
  const auto act = [](scene& s) {
    const auto view = s.cluster.cluster->gate()->view();
    const auto* entry = view.find(protocols::instance_id{s.source});
    ASSERT_NE(entry, nullptr);
    const auto request = protocols::make_request_id(0, 1);
    s.cluster.system->tell(entry->llumlet, protocols::cancel_request{request, protocols::epoch{~std::uint32_t{0}}});
    for (std::uint32_t i = 0; i < 12; ++i) s.all.push_back({i, submit_catalogue(s.cluster, i)});
    s.cluster.run_for(100ms);
    s.cluster.cluster->kill(protocols::instance_id{s.source});
  };
  const auto ends = act_at_every_moment(act, 4, 2e4); // so slow that others get the blocks before it ends
  EXPECT_TRUE(ends.contains("aborted request_cancelled"));
}

TEST(MigrationMoments, TheClientHasEnough) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::set<std::string> ends;
    std::uint32_t last = 0;
    while (act_at(
        seed, last, [](scene&) {}, ends))
      ++last;
    for (std::uint32_t step = 0; step < last && !HasFailure(); ++step)
      for (const std::size_t more : {1U, 2U}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
        (void)act_at(
            seed, step,
            [more](scene& s) {
              auto& sink = *s.all[0].sink;
              sink.enough = sink.tokens.size() + more;
              const auto enough = sink.enough;
              EXPECT_TRUE(s.cluster.run_until([&] { return sink.ended(); }));
              EXPECT_EQ(sink.endings, 1);
              EXPECT_EQ(sink.finished, protocols::finish_reason::stop);
              EXPECT_EQ(sink.tokens.size(), enough) << "a client that has enough gets no more";
              const auto& calm = calm_answer(traveller);
              EXPECT_TRUE(std::equal(sink.tokens.begin(), sink.tokens.end(), calm.begin()));
              s.all.clear();
            },
            ends);
      }
    EXPECT_TRUE(ends.contains("aborted request_cancelled"));
  }
}

} // namespace godwit::test
