// Instances for prefill hand their requests over to those that decode: the llumlet's part, and a whole cluster's, on
// virtual time.
#include "actors/support/llumlet_world.hpp"
#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_role;
using protocols::request_state;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

using cause = protocols::migration_cause::kind;

/// Instance 0 is for prefill, the others decode.
llumlet_world::options one_for_prefill() {
  llumlet_world::options o;
  o.blocks = 300;
  o.adjust = [](actors::llumlet_options& l) {
    l.role = l.id.value() == 0 ? instance_role::prefill : instance_role::decode;
  };
  return o;
}

} // namespace

TEST(LlumletRoles, WhatDecodesLeavesAtOnceWhileTheMarkHolds) {
  llumlet_world w(one_for_prefill());
  EXPECT_EQ(w.status(0).load.role, instance_role::prefill);
  w.mark(0, 1, 10s); // before anybody is there
  w.world.run_for(20ms);
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(w.admit(0, id, 90, 600));
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 5; })) << "without another mark";
  EXPECT_THAT(w.status(0).requests, IsEmpty());
  EXPECT_THAT(w.with_state(1, request_state::running), SizeIs(5));
  for (const auto& report : w.books->reports) {
    EXPECT_EQ(report.cause.what, cause::handoff);
    EXPECT_GT(report.bytes, 0U) << "with its KV";
  }
  for (const auto& r : w.status(1).requests) EXPECT_LT(r.answer_tokens, 60U) << "soon after its first token";
}

TEST(LlumletRoles, AsManyLeaveAtATimeAsMayLeave) {
  auto o = one_for_prefill();
  const auto role = o.adjust;
  o.adjust = [role](actors::llumlet_options& l) {
    role(l);
    l.migration.settings.handoff_max = 3;
  };
  o.link.bytes_per_second = 100'000; // a copy takes many steps
  llumlet_world w(o);
  for (std::uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(w.admit(0, id, 90, 900));
  w.mark(0, 1, 10s);
  std::size_t most = 0;
  ASSERT_TRUE(w.run_until([&] {
    most = std::max(most, w.status(0).migrations.size());
    return w.books->reports.size() == 8;
  }));
  EXPECT_EQ(most, 3U);
  EXPECT_EQ(w.books->committed(), 8U) << "none was refused by the destination";
}

TEST(LlumletRoles, WhoWaitsIsPrefilledWhereItIs) {
  llumlet_world::options o = one_for_prefill();
  o.blocks = 64;
  llumlet_world w(o);
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(w.admit(0, id, 150, 20));
  ASSERT_TRUE(w.admit(0, 9, 700, 4)); // 44 blocks
  w.mark_rounds(0, 1, 3);
  ASSERT_TRUE(w.run_until([&] { return w.books->all_finished(); }));
  EXPECT_GT(w.books->committed(), 0U);
  for (const auto& report : w.books->reports) EXPECT_GT(report.bytes, 0U) << report.request.value();
}

TEST(LlumletRoles, OfSeveralDestinationsTheFreerOneIsTakenEachTime) {
  auto o = one_for_prefill();
  o.instances = 3;
  llumlet_world w(o);
  w.mark(0, {1, 2}, 10s);
  for (std::uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(w.admit(0, id, 90, 600));
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 8; }));
  EXPECT_THAT(w.with_state(1, request_state::running), SizeIs(4)) << "by what is on its way, too";
  EXPECT_THAT(w.with_state(2, request_state::running), SizeIs(4));
}

TEST(LlumletRoles, OneThatIsBusyIsAskedAgainAtTheEndOfAStep) {
  auto o = one_for_prefill();
  o.instances = 3;
  o.adjust = [](actors::llumlet_options& l) {
    l.role = l.id.value() < 2 ? instance_role::prefill : instance_role::decode;
    l.migration.settings.in_max = l.migration.settings.handoff_max = 1; // and two leave each
  };
  o.running_max = 16;
  llumlet_world w(o);
  for (std::uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(w.admit(id % 2, id, 90, 900));
  w.mark(0, 2, 10s);
  w.mark(1, 2, 10s);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 8; })) << "without another mark";
  const auto refused = std::ranges::count(w.books->reports, protocols::migration_reason::destination_busy,
                                          &protocols::migration_report::reason);
  EXPECT_GT(refused, 0);
}

TEST(LlumletRoles, ADestinationWithoutRoomIsNotAskedBeforeTheNextMark) {
  auto o = one_for_prefill();
  o.blocks = 40;
  llumlet_world w(o);
  const auto idle = w.status(1).load;
  for (std::uint64_t id = 11; id <= 13; ++id) ASSERT_TRUE(w.admit(1, id, 160, 400));
  w.world.run_for(30ms);
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(w.admit(0, id, 150, 60));
  w.mark(0, 1, 10s, idle); // old news
  w.world.run_for(50ms);
  EXPECT_LE(w.books->reports.size(), 3U);
  for (const auto& report : w.books->reports) EXPECT_EQ(report.reason, protocols::migration_reason::destination_full);
  EXPECT_GE(w.books->reports.size(), 1U);
}

TEST(LlumletRoles, AMoveThatFailsIsTriedAgainWithTheNextMark) {
  llumlet_world w(one_for_prefill());
  w.books->grants = false;
  ASSERT_TRUE(w.admit(0, 1, 90, 900));
  w.mark(0, 1, 10s);
  w.world.run_for(400ms);
  const auto tries = w.books->reports.size();
  EXPECT_EQ(tries, 1U) << "and not with each step";
  EXPECT_THAT(w.with_state(0, request_state::running), ElementsAre(1)) << "it goes on where it is";
  w.mark_rounds(0, 1, 3);
  EXPECT_EQ(w.books->reports.size(), tries + 3) << "no cool-down";
  w.books->grants = true;
  w.mark(0, 1);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 1; }));
}

TEST(LlumletRoles, WithoutAMarkTheyDecodeToTheirEnd) {
  llumlet_world w(one_for_prefill());
  ASSERT_TRUE(w.admit(0, 1, 90, 50));
  ASSERT_TRUE(w.run_until([&] { return w.books->all_finished(); }));
  EXPECT_THAT(w.books->reports, IsEmpty());
}

TEST(LlumletRoles, WhatSomebodyBroughtByHandStaysForItsCoolDown) {
  auto o = one_for_prefill();
  const auto role = o.adjust;
  o.adjust = [role](actors::llumlet_options& l) {
    role(l);
    l.selection.cooldown_ns = 500'000'000;
  };
  llumlet_world w(o);
  ASSERT_TRUE(w.admit(1, 1, 90, 2000));
  w.world.run_for(100ms);
  w.move(1, 1, 0);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 1; }));
  w.mark_rounds(0, 1, 2);
  EXPECT_EQ(w.books->committed(), 1U);
  w.mark_rounds(0, 1, 2);
  EXPECT_EQ(w.books->committed(), 2U);
}

// --- the cluster

namespace {

sim_cluster_options roles_of(std::vector<instance_role> roles, std::uint64_t seed = 1) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = static_cast<std::uint32_t>(roles.size());
  o.context = 2048;
  o.blocks = 500; // for all of them
  o.policy = "freeness";
  o.fabric = transport::sim::settings{};
  o.latency.base_us = 20'000;
  o.adjust = [roles = std::move(roles)](actors::node_options& n) { n.roles = roles; };
  return o;
}

void kill(sim_cluster& cluster, std::uint32_t instance) {
  cluster.system->tell(cluster.cluster->node(), actors::kill_instance{protocols::instance_id{instance}});
}

struct served {
  std::vector<std::vector<protocols::token_id>> answers;
  std::map<std::uint32_t, std::uint64_t> prompts, generated; ///< tokens, by instance
  std::uint64_t moves = 0;
  std::uint64_t redispatched = 0;
};

/// `meanwhile` is called between two requests.
served serve(std::vector<instance_role> roles, const std::function<void(sim_cluster&, int)>& meanwhile = {}) {
  served out;
  sim_cluster cluster(roles_of(std::move(roles)));
  std::vector<std::shared_ptr<recording_sink>> all;
  for (int i = 0; i < 16; ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    all.push_back(cluster.submit(number, 200 + 10 * number, 100));
    cluster.run_for(100ms);
    if (meanwhile) meanwhile(cluster, i);
  }
  EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r->ended(); }); }));
  for (const auto& r : all) {
    EXPECT_EQ(r->endings, 1);
    EXPECT_FALSE(r->failed);
    out.answers.push_back(r->tokens);
  }
  cluster.run_for(1s);
  EXPECT_EQ(cluster.blocks_used(), 0U);
  const auto status = cluster.status();
  out.moves = status.moves_total;
  out.redispatched = status.redispatches_total;
  for (const auto& i : status.instances) {
    out.prompts[i.instance.value()] = i.load.prompt_tokens_total;
    out.generated[i.instance.value()] = i.load.generated_tokens_total;
  }
  return out;
}

} // namespace

TEST(Roles, PromptsAreComputedOnOneSideAndAnswersOnTheOther) {
  using enum instance_role;
  const auto together = serve({mixed, mixed, mixed});
  const auto apart = serve({prefill, decode, decode});
  EXPECT_EQ(apart.answers, together.answers);
  EXPECT_GE(apart.moves, 16U);
  EXPECT_GT(apart.prompts.at(0), 16 * 200U);
  EXPECT_EQ(apart.prompts.at(1) + apart.prompts.at(2), 0U) << "nothing is computed twice";
  EXPECT_GT(apart.generated.at(1), 0U);
  EXPECT_GT(apart.generated.at(2), 0U) << "rounds choose the freer one";
  EXPECT_LT(apart.generated.at(0), 16 * 30U) << "the tokens until a request has left";
}

TEST(Roles, WithoutTheOnesForPrefillTheOthersServe) {
  using enum instance_role;
  const auto calm = serve({prefill, decode, decode});
  const auto killed = serve({prefill, decode, decode}, [](sim_cluster& cluster, int i) {
    if (i % 4 == 3) kill(cluster, 0);
  });
  EXPECT_EQ(killed.answers, calm.answers);
  EXPECT_GT(killed.redispatched, 0U);
  EXPECT_GT(killed.prompts.at(1) + killed.prompts.at(2), 0U);
}

TEST(Roles, WithoutTheOnesThatDecodeTheOthersDo) {
  using enum instance_role;
  const auto calm = serve({prefill, prefill, decode});
  const auto killed = serve({prefill, prefill, decode}, [](sim_cluster& cluster, int i) {
    if (i % 3 == 2) kill(cluster, 2);
  });
  EXPECT_EQ(killed.answers, calm.answers);
  EXPECT_GT(killed.moves, 0U);
  EXPECT_GT(killed.redispatched, 0U);
  EXPECT_GT(killed.generated.at(0) + killed.generated.at(1), calm.generated.at(0) + calm.generated.at(1));
}

// Clients hear that they may come again: whoever decodes is not to be held up just when all is busy.
TEST(Roles, AFullQueueForPromptsIsNotPassedOnToThoseThatDecode) {
  using enum instance_role;
  auto options = roles_of({prefill, decode});
  options.waiting_max = 2;
  options.running_max = 4;
  sim_cluster cluster(options);
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < 24; ++i) all.push_back(cluster.submit(i, 600, 50));
  EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r->ended(); }); }));
  std::size_t refused = 0;
  for (const auto& r : all) {
    if (!r->failed) continue;
    EXPECT_EQ(r->failed->kind, actors::failure_kind::overloaded);
    ++refused;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, 24U);
  EXPECT_EQ(cluster.status().instances[1].load.prompt_tokens_total, 0U);
}

TEST(Roles, ThePromptsOfAPrefillInstanceThatDrainsGoToTheOther) {
  using enum instance_role;
  sim_cluster cluster(roles_of({prefill, prefill, decode}));
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < 24; ++i) all.push_back(cluster.submit(i, 600, 50));
  cluster.run_for(100ms);
  EXPECT_GT(cluster.status().instances[0].load.waiting, 0U);
  cluster.system->tell(cluster.cluster->node(), actors::drain_instance{protocols::instance_id{0}, true});
  EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r->ended(); }); }));
  for (const auto& r : all) EXPECT_FALSE(r->failed);
  cluster.run_for(1s);
  const auto status = cluster.status();
  ASSERT_EQ(status.stopped.size(), 1U);
  EXPECT_EQ(status.stopped[0].load.role, prefill);
  ASSERT_EQ(status.instances.size(), 2U);
  EXPECT_EQ(status.instances[1].load.prompt_tokens_total, 0U);
}

TEST(Roles, WhereMigrationIsPausedAllAreMixed) {
  using enum instance_role;
  const auto refused = [](std::vector<instance_role> roles) {
    auto options = roles_of(std::move(roles));
    options.waiting_max = 2; // so that front ends try again
    options.running_max = 4;
    sim_cluster cluster(options);
    actors::policy_order pause;
    pause.paused = "yes";
    EXPECT_TRUE(cluster.system->ask(cluster.cluster->node(), 1s, std::move(pause)));
    std::vector<std::shared_ptr<recording_sink>> all;
    for (std::uint32_t i = 0; i < 12; ++i) all.push_back(cluster.submit(i, 300, 50));
    EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r->ended(); }); }));
    const auto status = cluster.status();
    EXPECT_EQ(status.moves_total, 0U);
    EXPECT_GT(status.instances[0].load.prompt_tokens_total, 0U);
    EXPECT_GT(status.instances[1].load.prompt_tokens_total, 0U);
    return std::ranges::count_if(all, [](const auto& r) { return r->failed.has_value(); });
  };
  EXPECT_EQ(refused({prefill, decode}), refused({mixed, mixed}));
}

// Nobody would say to whom they hand over.
TEST(Roles, WithoutASchedulerAllAreMixed) {
  using enum instance_role;
  sim_cluster cluster(roles_of({prefill, decode}));
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < 12; ++i) {
    if (const auto scheduler = cluster.cluster->gate()->view().scheduler) {
      cluster.system->stop(scheduler, runtime::stop_reason::killed);
      cluster.run_for(1ms);
    }
    all.push_back(cluster.submit(i, 300, 50));
    cluster.run_for(10ms);
  }
  EXPECT_TRUE(cluster.run_until([&] { return std::ranges::all_of(all, [](auto& r) { return r->ended(); }); }));
  for (const auto& r : all) EXPECT_FALSE(r->failed);
  EXPECT_GT(cluster.status().instances[1].load.prompt_tokens_total, 4 * 300U);
}

TEST(Roles, OnesForPrefillAloneServe) {
  using enum instance_role;
  const auto alone = serve({prefill, prefill});
  EXPECT_EQ(alone.answers, serve({mixed, mixed}).answers);
  EXPECT_EQ(alone.moves, 0U);
}

} // namespace godwit::test
