// What docs/design/migration.md says of live migration, one test for each claim, through the production actors in a
// simulated world.
#include "actors/support/catalogue.hpp"
#include "actors/support/llumlet_world.hpp"
#include "actors/support/mover.hpp"

#include <gtest/gtest.h>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::migration_outcome;
using protocols::migration_reason;
using protocols::request_state;

namespace {

sim_cluster_options two_instances(transport::sim::settings link = {}) {
  sim_cluster_options o{.instances = 2, .blocks = 64, .context = 256};
  o.fabric = link;
  return o;
}

/// One request on the first instance that takes it.
struct journey {
  explicit journey(sim_cluster_options o, std::uint32_t tokens = 10) : options(std::move(o)) {
    cluster.run_for(1ms);
    alive = cluster.system->alive();
    all.push_back({traveller, submit_catalogue(cluster, traveller)});
    EXPECT_TRUE(cluster.run_until([&] { return all[0].sink->tokens.size() >= tokens; }));
    if (tokens > 0) source = cluster.instance_with(request_state::running).value_or(0);
  }
  ~journey() {
    EXPECT_TRUE(cluster.run_until([&] {
      for (const auto& one : all)
        if (!one.withdrawn && !one.sink->ended()) return false;
      return movers.journal->open == 0;
    }));
    expect_calm_answers(all);
    expect_nothing_left(cluster, options.instances, alive);
    EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
  }
  [[nodiscard]] std::uint32_t other() const { return 1 - source; }

  sim_cluster_options options;
  sim_cluster cluster{options};
  moves movers{cluster};
  std::vector<asked> all;
  std::uint32_t source = 0;
  std::size_t alive = 0;
};

std::uint64_t prompt_tokens_computed(sim_cluster& cluster) {
  std::uint64_t sum = 0;
  for (const auto& instance : cluster.status().instances) sum += instance.load.prompt_tokens_total;
  return sum;
}

/// A link on which one block of a simulated instance (128 bytes) takes so long.
transport::sim::settings slow_link(std::chrono::nanoseconds per_block) {
  transport::sim::settings link;
  link.bytes_per_second = 128.0 / std::chrono::duration<double>(per_block).count();
  return link;
}

} // namespace

// Llumnix section 4.2, figure 7.
TEST(MigrationClaims, ARunningRequestMovesInTwoStagesAndNothingIsComputedTwice) {
  journey j(two_instances());
  const auto report = j.movers.move(traveller, j.other());
  EXPECT_EQ(report.outcome, migration_outcome::committed);
  EXPECT_EQ(report.stages, 2U);
  EXPECT_EQ(report.bytes, std::uint64_t{report.blocks} * 128);
  EXPECT_LE(report.last_bytes, 3U * 128);
  EXPECT_EQ(j.cluster.instance_with(request_state::running), j.other());
  ASSERT_TRUE(j.cluster.run_until_ended({j.all[0].sink}));
  EXPECT_EQ(prompt_tokens_computed(j.cluster), catalogue_request(traveller).prompt.size());
  EXPECT_EQ(j.cluster.status().moves_total, 1U);
  EXPECT_EQ(j.cluster.status().redispatches_total, 0U);
}

// A prefix that the destination has, of whomever, stays where it is; only the rest goes over the link.
TEST(MigrationClaims, WhatTheDestinationHasAlreadyIsNotCopied) {
  auto o = two_instances();
  o.context = 1024;
  sim_cluster cluster(o);
  moves movers(cluster);
  const auto traveller_sink = cluster.submit(1, 300, 120);
  ASSERT_TRUE(cluster.run_until([&] { return traveller_sink->tokens.size() >= 4; }));
  const auto source = cluster.instance_with(request_state::running).value_or(0);
  const auto there = movers.move(1, 1 - source);
  ASSERT_EQ(there.outcome, migration_outcome::committed) << to_string(there.reason);
  EXPECT_EQ(there.known, 0U);
  EXPECT_EQ(there.bytes, std::uint64_t{there.blocks} * 128);
  const auto generated = traveller_sink->tokens.size();
  ASSERT_TRUE(cluster.run_until([&] { return traveller_sink->tokens.size() >= generated + 20; }));
  const auto back = movers.move(1, source);
  ASSERT_EQ(back.outcome, migration_outcome::committed) << to_string(back.reason);
  EXPECT_GE(back.known, 300U / 16) << "its first home has the prompt's blocks still";
  EXPECT_EQ(back.bytes, std::uint64_t{back.blocks - back.known} * 128);
  ASSERT_TRUE(cluster.run_until_ended({traveller_sink}));
}

TEST(MigrationClaims, APromptThatSomebodyElseHasThereIsNotCopied) {
  auto o = two_instances();
  o.context = 1024;
  sim_cluster cluster(o);
  moves movers(cluster);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t number : {1U, 2U}) {
    auto one = std::make_shared<actors::submission>();
    for (int i = 0; i < 300; ++i) one->request.prompt.push_back(i * 31 % 1000);
    one->request.stop.max_tokens = 300;
    one->seeded = true;
    one->request.sampling.seed = number;
    one->client_id = "r" + std::to_string(number);
    one->sink = sinks.emplace_back(std::make_shared<recording_sink>());
    cluster.submit(std::move(one));
  }
  ASSERT_TRUE(cluster.run_until([&] { return sinks[0]->tokens.size() >= 4 && sinks[1]->tokens.size() >= 4; }));
  const auto first = movers.move(1, 1);
  const auto second = movers.move(2, 1);
  EXPECT_TRUE(second.committed() || second.reason == migration_reason::same_instance) << to_string(second.reason);
  const auto& last = second.committed() ? second : first;
  ASSERT_TRUE(last.committed()) << to_string(last.reason);
  EXPECT_GE(last.known, 300U / 16);
  EXPECT_EQ(last.bytes, std::uint64_t{last.blocks - last.known} * 128);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  EXPECT_NE(sinks[0]->tokens, sinks[1]->tokens);
}

// Llumnix figure 10: the downtime is that of the last stage, whatever the length.
TEST(MigrationClaims, TheStallIsBelowOneStepAndDoesNotDependOnTheLength) {
  std::vector<std::int64_t> stalls;
  std::vector<std::int64_t> durations;
  for (const std::uint32_t length : {32U, 256U, 1024U, 4096U}) {
    auto o = two_instances(slow_link(200us));
    o.context = 8192;
    o.blocks = 600;
    o.step_tokens_max = 512;
    sim_cluster cluster(o);
    moves movers(cluster);
    const auto sink = cluster.submit(1, length, 600);
    ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 4; }));
    const auto source = cluster.instance_with(request_state::running).value_or(0);
    const auto report = movers.move(1, 1 - source);
    ASSERT_EQ(report.outcome, migration_outcome::committed) << to_string(report.reason);
    stalls.push_back(report.stall_ns);
    durations.push_back(report.duration_ns);
    EXPECT_LT(report.stall_ns, 2'000'000) << "the shortest step of the simulated device";
  }
  const auto [least, most] = std::minmax_element(stalls.begin(), stalls.end());
  EXPECT_LE(*most - *least, 3 * 200'000) << "never more than what the last stage may have";
  EXPECT_GT(durations.back(), 10 * durations.front()) << "the copy takes longer, unnoticed";
}

TEST(MigrationClaims, AWaitingRequestMovesWithoutKv) {
  auto o = two_instances();
  o.running_max = 1;
  o.instances = 2;
  journey j(o);
  // Fills the other place, so that the next one waits.
  j.all.push_back({3, submit_catalogue(j.cluster, 3)});
  j.all.push_back({5, submit_catalogue(j.cluster, 5)});
  ASSERT_TRUE(j.cluster.run_until([&] { return j.cluster.instance_with(request_state::waiting).has_value(); }));
  const auto source = *j.cluster.instance_with(request_state::waiting);
  const auto report = j.movers.move(5, 1 - source);
  EXPECT_EQ(report.outcome, migration_outcome::committed) << to_string(report.reason);
  EXPECT_EQ(report.bytes, 0U);
  EXPECT_EQ(report.blocks, 0U);
}

TEST(MigrationClaims, TheTimeThatARequestWaitedBeforeItMovedIsNotForgotten) {
  llumlet_world::options o;
  o.running_max = 1;
  llumlet_world w(o);
  ASSERT_TRUE(w.admit(0, 1, 20, 200));
  ASSERT_TRUE(w.admit(0, 2, 20, 50));
  w.world.run_for(100ms);
  ASSERT_TRUE(w.books->queued_ns.contains(protocols::request_id{1}));
  EXPECT_LT(w.books->queued_ns[protocols::request_id{1}], 5'000'000);
  ASSERT_FALSE(w.books->queued_ns.contains(protocols::request_id{2})) << "it waits";
  w.move(2, 0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.books->queued_ns.contains(protocols::request_id{2}); }));
  EXPECT_EQ(w.books->committed(), 1U);
  EXPECT_GT(w.books->queued_ns[protocols::request_id{2}], 95'000'000);
  EXPECT_LT(w.books->queued_ns[protocols::request_id{2}], 110'000'000);
}

TEST(MigrationClaims, AFirstTokenThatComesWithAClaimSaysHowLongItsRequestWaited) {
  llumlet_world::options o;
  o.running_max = 1;
  llumlet_world w(o);
  ASSERT_TRUE(w.admit(0, 1, 20, 30));
  ASSERT_TRUE(w.admit(0, 2, 40, 50));
  const auto second = protocols::request_id{2};
  ASSERT_TRUE(w.run_until([&] { return w.with_state(0, request_state::running) == std::vector<std::uint64_t>{2}; }));
  const auto waited = w.world.now(); // its only step before the first token runs
  w.move(2, 0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 1; }));
  ASSERT_TRUE(w.books->claim_brought_first.contains(second)) << "else this test says nothing";
  EXPECT_GT(w.books->queued_ns[second], 20'000'000);
  EXPECT_LE(w.books->queued_ns[second], waited.count());
}

TEST(MigrationClaims, AHalfPrefilledRequestMovesWithTheBlocksThatItHas) {
  auto o = two_instances();
  o.step_tokens_max = 16;
  journey j(o, 0);
  ASSERT_TRUE(j.cluster.run_until([&] { return prompt_tokens_computed(j.cluster) >= 48; }));
  j.source = j.cluster.instance_with(request_state::running).value_or(0);
  const auto report = j.movers.move(traveller, j.other());
  EXPECT_EQ(report.outcome, migration_outcome::committed) << to_string(report.reason);
  EXPECT_TRUE(j.all[0].sink->tokens.empty()) << "else it was not half-prefilled";
  EXPECT_GE(report.blocks, 3U);
  EXPECT_LE(report.last_bytes, (2 + 1 + 1) * 128U) << "what may be left, a chunk of one block, and one that is begun";
  ASSERT_TRUE(j.cluster.run_until_ended({j.all[0].sink}));
  EXPECT_EQ(prompt_tokens_computed(j.cluster), catalogue_request(traveller).prompt.size());
}

TEST(MigrationClaims, APreemptedRequestMovesWithoutKvAndKeepsItsAnswerSoFar) {
  auto o = two_instances();
  o.instances = 2;
  o.blocks = 20;
  journey j(o);
  for (std::uint32_t i = 0; i < 8; ++i) j.all.push_back({i, submit_catalogue(j.cluster, i)});
  std::uint32_t moved = 0;
  for (int tries = 0; tries < 400 && moved == 0; ++tries) {
    j.cluster.run_for(1ms);
    for (const auto& instance : j.cluster.status(true).instances)
      for (const auto& request : instance.requests) {
        if (request.state != request_state::preempted || moved > 0) continue;
        const auto report =
            j.cluster.cluster->migrate(request.request, protocols::instance_id{1 - instance.instance.value()});
        ASSERT_TRUE(report);
        if (report->outcome == migration_outcome::committed && report->bytes == 0) ++moved;
      }
  }
  EXPECT_EQ(moved, 1U);
}

TEST(MigrationClaims, ARequestThatFinishesInTheMiddleEndsItsMigration) {
  journey j(two_instances(slow_link(20ms)), 60);
  const auto report = j.movers.move(traveller, j.other());
  EXPECT_EQ(report.outcome, migration_outcome::aborted);
  EXPECT_EQ(report.reason, migration_reason::request_finished);
}

TEST(MigrationClaims, ARequestWhoseClientLeavesEndsItsMigration) {
  journey j(two_instances(slow_link(20ms)));
  j.movers.order(traveller, j.other());
  j.cluster.run_for(30ms);
  ASSERT_EQ(j.cluster.status().instances[j.source].migrations.size(), 1U);
  EXPECT_EQ(j.cluster.status().instances[j.source].migrations[0].phase, "copying");
  EXPECT_GT(j.cluster.status().instances[j.other()].load.blocks_used, 0U) << "reserved";
  j.all[0].withdrawn = true;
  j.cluster.cluster->gate()->withdraw(j.all[0].sink);
  j.cluster.run_for(200ms);
  ASSERT_EQ(j.movers.journal->reports.size(), 1U);
  EXPECT_EQ(j.movers.journal->reports[0].outcome, migration_outcome::aborted);
  EXPECT_EQ(j.movers.journal->reports[0].reason, migration_reason::request_cancelled);
  EXPECT_EQ(j.cluster.blocks_used(), 0U);
}

TEST(MigrationClaims, DecodingThatOutrunsTheCopyEndsTheMigration) {
  auto o = two_instances(slow_link(50ms)); // a block of 16 tokens is decoded in about 35 ms
  o.adjust = [](actors::node_options& n) {
    n.llumlet.migration.settings.limits = {.stages_max = 3, .last_blocks_max = 0};
    n.llumlet.migration.settings.copy_share = 1;
  };
  sim_cluster cluster(o);
  moves movers(cluster);
  const auto sink = cluster.submit(1, 16, 200);
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 2; }));
  const auto source = cluster.instance_with(request_state::running).value_or(0);
  const auto report = movers.move(1, 1 - source);
  EXPECT_EQ(report.outcome, migration_outcome::aborted);
  EXPECT_EQ(to_string(report.reason), to_string(migration_reason::not_converging));
  EXPECT_FALSE(sink->ended()) << "it goes on where it is";
  ASSERT_TRUE(cluster.run_until_ended({sink}));
  EXPECT_EQ(sink->tokens.size(), 200U);
}

TEST(MigrationClaims, ACopyWithHardlyAnyShareEndsInItsTimeAllTheSame) {
  auto o = two_instances(slow_link(1ms));
  o.adjust = [](actors::node_options& n) {
    auto& settings = n.llumlet.migration.settings;
    settings.limits.last_blocks_max = 4;
    settings.portion_bytes = 1;
    settings.copy_share = 1e-6; // by that alone a rest would be minutes
    settings.stage_timeout = 200ms;
  };
  sim_cluster cluster(o);
  moves movers(cluster);
  const auto sink = cluster.submit(1, 96, 200);
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 2; }));
  const auto source = cluster.instance_with(request_state::running).value_or(0);
  const auto report = movers.move(1, 1 - source);
  EXPECT_EQ(report.outcome, migration_outcome::committed) << to_string(report.reason);
  EXPECT_GT(report.duration_ns, 50'000'000) << "it does rest";
  ASSERT_TRUE(cluster.run_until_ended({sink}));
}

TEST(MigrationClaims, RequestsGoBackAndForthAndBothWaysAtOnce) {
  auto o = two_instances();
  journey j(o);
  j.all.push_back({7, submit_catalogue(j.cluster, 7)});
  ASSERT_TRUE(j.cluster.run_until([&] { return j.all[1].sink->tokens.size() >= 2; }));
  for (std::uint32_t i = 0; i < 12 && !j.all[0].sink->ended() && !j.all[1].sink->ended(); ++i) {
    j.movers.order(traveller, (j.source + 1 + i) % 2);
    j.movers.order(7, (j.source + i) % 2);
    j.movers.order(7, (j.source + 1 + i) % 2); // one of the two is where it is
    ASSERT_TRUE(j.movers.run_until_settled());
  }
  EXPECT_GE(j.movers.journal->committed(), 8U);
}

TEST(MigrationClaims, AnAdoptedRequestFindsAPlaceInTheNextStep) {
  auto o = two_instances();
  o.running_max = 2;
  journey j(o);
  const auto before = j.all[0].sink->tokens.size();
  const auto report = j.movers.move(traveller, j.other());
  ASSERT_EQ(report.outcome, migration_outcome::committed);
  const auto tokens = j.all[0].sink->tokens.size();
  EXPECT_GT(tokens, before) << "it decodes while it is copied";
  const auto began = j.cluster.world.now();
  ASSERT_TRUE(j.cluster.run_until([&] { return j.all[0].sink->tokens.size() > tokens; }));
  EXPECT_LT(j.cluster.world.now() - began, 3ms);
}

// By default that takes longer than any migration may.
TEST(MigrationClaims, WhoeverWaitsNoLongerForAMigrationLeavesItsEndToBeCountedOnce) {
  std::vector<protocols::migration_report> noted;
  auto o = two_instances(slow_link(5ms));
  o.adjust = [&noted](actors::node_options& n) {
    n.frontend.migration_timeout = 10ms;
    n.frontend.on_migration = [&noted](const protocols::migration_report& report) { noted.push_back(report); };
  };
  {
    journey j(o);
    const auto answer = j.movers.move(traveller, j.other());
    EXPECT_EQ(answer.reason, migration_reason::timed_out);
    EXPECT_TRUE(noted.empty()) << "it is under way";
    ASSERT_TRUE(j.cluster.run_until([&] { return !noted.empty(); }));
    EXPECT_TRUE(noted[0].committed());
  }
  EXPECT_EQ(noted.size(), 1U);
}

TEST(MigrationClaims, AHomeWaitsForTheEndOfAMigrationAsLongAsItsLimitsLetItTake) {
  const actors::migration_settings limits;
  EXPECT_GT(limits.told_within(), limits.age_max());
  EXPECT_GT(limits.age_max(), limits.stage_timeout * limits.limits.stages_max + limits.last_timeout);
}

// ---- Refusals

TEST(MigrationClaims, WhatCannotMoveIsRefusedWithItsReason) {
  journey j(two_instances(slow_link(5ms)));
  EXPECT_EQ(j.movers.move(1000, j.other()).reason, migration_reason::request_unknown);
  EXPECT_EQ(j.movers.move(traveller, j.source).reason, migration_reason::same_instance);
  EXPECT_EQ(j.movers.move(traveller, 17).reason, migration_reason::destination_not_ready);
  j.movers.order(traveller, j.other());
  const auto busy = j.movers.move(traveller, j.other());
  EXPECT_EQ(busy.reason, migration_reason::request_busy);
  EXPECT_EQ(busy.outcome, migration_outcome::refused);
}

TEST(MigrationClaims, AnInstanceThatIsNotThereYetTakesNoRequests) {
  journey j(two_instances());
  j.cluster.cluster->kill(protocols::instance_id{j.other()});
  j.cluster.run_for(1ms);
  const auto report = j.movers.move(traveller, j.other());
  EXPECT_EQ(report.outcome, migration_outcome::refused);
  EXPECT_EQ(report.reason, migration_reason::destination_not_ready);
}

TEST(MigrationClaims, AnInstanceTakesAndGivesAFewRequestsAtATime) {
  for (const bool out : {true, false}) {
    auto o = two_instances(slow_link(5ms));
    o.policy = "round_robin";
    o.adjust = [out](actors::node_options& n) {
      (out ? n.llumlet.migration.settings.out_max : n.llumlet.migration.settings.in_max) = 1;
    };
    journey j(o);
    for (const std::uint32_t number : {7U, 11U, 15U, 19U})
      j.all.push_back({number, submit_catalogue(j.cluster, number)});
    j.cluster.run_for(60ms);
    for (const std::uint32_t number : {traveller, 7U, 11U, 15U, 19U}) j.movers.order(number, j.other());
    ASSERT_TRUE(j.movers.run_until_settled());
    std::uint32_t refused = 0;
    for (const auto& report : j.movers.journal->reports)
      refused += report.reason == (out ? migration_reason::source_busy : migration_reason::destination_busy) ? 1 : 0;
    EXPECT_GE(refused, 1U);
    EXPECT_GE(j.movers.journal->committed(), 1U);
  }
}

TEST(MigrationClaims, AFullDestinationIsLeftAsItIs) {
  auto o = two_instances();
  o.blocks = 17;
  journey j(o);
  for (std::uint32_t i = 0; i < 6; ++i) j.all.push_back({i, submit_catalogue(j.cluster, i)});
  j.cluster.run_for(10ms);
  std::uint32_t full = 0;
  for (int i = 0; i < 40; ++i) {
    j.cluster.run_for(1ms);
    full += j.movers.move(traveller, j.other()).reason == migration_reason::destination_full ? 1 : 0;
  }
  EXPECT_GE(full, 1U);
}

namespace {

/// A simulated executor that says to have another KV layout.
class foreign_executor final : public gpu::executor {
public:
  explicit foreign_executor(std::shared_ptr<gpu::executor> inner) : inner_(std::move(inner)), info_(inner_->info()) {
    info_.kv_layout = "sim/v2";
  }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return inner_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->value_region(layer, block);
  }

private:
  std::shared_ptr<gpu::executor> inner_;
  gpu::executor_info info_;
};

} // namespace

TEST(MigrationClaims, AnInstanceWithAnotherKvLayoutTakesNothing) {
  auto o = two_instances();
  o.adjust = [](actors::node_options& n) {
    n.instance.make_executor = [make = n.instance.make_executor](protocols::instance_id id,
                                                                 std::function<void(actors::executor_outcome)> done) {
      make(id, [id, done = std::move(done)](actors::executor_outcome out) {
        if (id.value() == 1) out.made = std::make_shared<foreign_executor>(std::move(out.made));
        done(std::move(out));
      });
    };
  };
  journey j(o);
  const auto report = j.movers.move(traveller, j.other());
  EXPECT_EQ(report.outcome, migration_outcome::refused);
  EXPECT_EQ(report.reason, migration_reason::incompatible);
}

TEST(MigrationClaims, WithoutAFabricNothingMoves) {
  sim_cluster cluster({.instances = 2});
  moves movers(cluster);
  const auto sink = cluster.submit(1, 50, 50);
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 5; }));
  const auto source = cluster.instance_with(request_state::running).value_or(0);
  const auto report = movers.move(1, 1 - source);
  EXPECT_EQ(report.outcome, migration_outcome::refused);
  EXPECT_EQ(report.reason, migration_reason::no_fabric);
}

} // namespace godwit::test
