// One migration, and something that happens in the middle of it: at every step of the simulated world, one after the
// other, in several orders of messages.
#include "actors/support/catalogue.hpp"
#include "actors/support/llumlet_world.hpp"
#include "actors/support/mover.hpp"

#include <godwit/gpu/sim/sim_executor.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

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
  const auto noted = std::make_shared<std::vector<protocols::migration_report>>(); // what the metrics count
  o.adjust = [noted](actors::node_options& n) {
    n.backoff_min = 5ms;
    n.frontend.on_migration = [noted](const protocols::migration_report& report) {
      if (report.cause.what == protocols::migration_cause::kind::manual) noted->push_back(report);
    };
  };
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
  EXPECT_EQ(noted->size(), movers.journal->reports.size()) << "each migration is counted, and once";
  for (const auto& report : movers.journal->reports)
    ends.insert(std::string(to_string(report.outcome)) + " " + std::string(to_string(report.reason)));
  return true;
}

std::set<std::string> act_at_every_moment(const action& act, std::uint64_t seeds = 10, double bytes_per_second = 4e6) {
  std::set<std::string> ends;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (std::uint32_t step = 0; !::testing::Test::HasFailure(); ++step) {
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

// docs/design/migration_model.md, "What is assumed". The destination's process stands still, so that the copy neither
// lands nor is withdrawn when the source gives the request up.
TEST(MigrationMoments, TheBlocksOfAnEndedRequestAreHeldUntilTheLastCopyHasEnded) {
  llumlet_world::options o;
  o.link.bytes_per_second = 128.0 / 0.02; // a block takes 20 ms
  llumlet_world w(o);
  ASSERT_TRUE(w.admit(0, 1, 70, 60));
  const auto id = protocols::request_id{1};
  ASSERT_TRUE(w.run_until([&] { return w.books->requests.at(id).next_index() > 2; }));
  w.move(1, 0, 1);
  const auto phase = [&] {
    const auto all = w.status(0).migrations;
    return all.empty() ? std::string() : all.front().phase;
  };
  ASSERT_TRUE(w.run_until([&] { return phase() == "committing"; }));
  w.network->freeze("process-1");
  const auto blocks = w.status(0).load.blocks_used;
  ASSERT_GE(blocks, 5U);
  w.system->tell(w.llumlets[0], protocols::cancel_request{id, protocols::epoch{~std::uint32_t{0}}});
  w.world.run_for(1ms);
  EXPECT_TRUE(w.status(0).requests.empty()) << "the request is gone";
  std::uint32_t looks = 0;
  for (; !w.status(0).migrations.empty(); ++looks, w.world.run_for(1ms)) {
    const auto now = w.status(0);
    if (now.migrations.empty()) break;
    ASSERT_GE(now.load.blocks_used, blocks) << "and its blocks are still read";
    if (looks == 100) w.network->thaw("process-1");
  }
  EXPECT_GT(looks, 100U);
  EXPECT_EQ(w.status(0).load.blocks_used, 0U);
  w.books->requests.at(id).finish(protocols::finish_reason::cancelled);
}

// Its link to the home is cut: it frees the request, others take the blocks, and the home learns of it much later. The
// destination hears of the abort here.
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

// docs/embedding.md, 6: a device of somebody's own that has nothing to be moved.
TEST(MigrationMoments, BlocksWithoutMemoryOfTheirOwnHaveLandedAtOnce) {
  struct no_memory final : gpu::executor {
    std::shared_ptr<gpu::executor> like; ///< which has some
    sim_cluster** running = nullptr;
    std::unique_ptr<gpu::executor> model; ///< as long as it has stepped
    [[nodiscard]] const gpu::executor_info& info() const noexcept override { return like->info(); }
    [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
      if (!model) {
        gpu::sim::latency_model steps;
        steps.base_us = 10'000;
        gpu::sim::sim_model what;
        what.memory = gpu::sim::sim_memory::none;
        model = gpu::sim::make_sim_executor(info(), steps, (*running)->world.timers(), what);
      }
      return model->begin(std::move(input));
    }
    [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
    [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  };
  sim_cluster* running = nullptr;
  sim_cluster_options o{.instances = 2};
  o.fabric = transport::sim::settings{.bytes_per_second = 4e6, .latency = 100us};
  o.adjust = [&running](actors::node_options& n) {
    n.instance.make_executor = [&running, make = n.instance.make_executor](protocols::instance_id id, auto done) {
      make(id, [&running, done](actors::executor_outcome made) {
        auto wrapped = std::make_shared<no_memory>();
        wrapped->like = std::move(made.made);
        wrapped->running = &running;
        done({std::move(wrapped), {}});
      });
    };
  };
  sim_cluster cluster(o);
  running = &cluster;
  const auto sink = cluster.submit(1, 60, 100);
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 10; }));
  const auto source = cluster.instance_with(protocols::request_state::running);
  ASSERT_TRUE(source);
  const auto report = cluster.cluster->migrate(protocols::make_request_id(0, 1), protocols::instance_id{1 - *source});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->committed()) << to_string(report->outcome) << " " << to_string(report->reason);
  EXPECT_LT(report->stall_ns, std::chrono::nanoseconds(100ms).count());
  ASSERT_TRUE(cluster.run_until_ended({sink}));
  EXPECT_EQ(sink->tokens.size(), 100U);
}

} // namespace godwit::test
