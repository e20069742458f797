// Instances get other roles while they run: by an operator's hand, and by the load of the two phases.
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
using protocols::instance_id;
using protocols::instance_role;
using protocols::request_state;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

llumlet_world::options two_of(instance_role first, instance_role second) {
  llumlet_world::options o;
  o.blocks = 300;
  o.adjust = [=](actors::llumlet_options& l) { l.role = l.id.value() == 0 ? first : second; };
  return o;
}

void give(llumlet_world& w, std::uint32_t instance, instance_role role) {
  w.system->tell(w.llumlets[instance], actors::role_order{instance_id{instance}, role});
  w.world.run_for(1ms);
}

} // namespace

TEST(LlumletRoleChanges, WhatDecodesOnANewPrefillInstanceLeavesIt) {
  llumlet_world w(two_of(instance_role::decode, instance_role::decode));
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(w.admit(0, id, 90, 900));
  w.world.run_for(50ms);
  EXPECT_THAT(w.with_state(0, request_state::running), SizeIs(5));
  give(w, 0, instance_role::prefill);
  EXPECT_EQ(w.status(0).load.role, instance_role::prefill);
  w.mark(0, 1, 10s);
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 5; })) << "more than two at a time";
  EXPECT_THAT(w.with_state(1, request_state::running), SizeIs(5));
}

TEST(LlumletRoleChanges, OneThatDecodesFromNowOnKeepsItsRequests) {
  auto o = two_of(instance_role::prefill, instance_role::decode);
  o.blocks = 400;
  llumlet_world w(o);
  w.mark(0, 1, 10s);
  ASSERT_TRUE(w.admit(0, 1, 90, 900));
  ASSERT_TRUE(w.run_until([&] { return w.books->committed() == 1; }));
  give(w, 0, instance_role::decode);
  for (std::uint64_t id = 2; id <= 5; ++id) ASSERT_TRUE(w.admit(0, id, 90, 300));
  w.world.run_for(200ms);
  EXPECT_THAT(w.with_state(0, request_state::running), SizeIs(4)) << "though the mark would hold";
  EXPECT_EQ(w.books->committed(), 1U);
}

// --- the cluster

namespace {

sim_cluster_options changing(std::vector<instance_role> roles, bool nodes = false) {
  sim_cluster_options o;
  o.instances = static_cast<std::uint32_t>(roles.size());
  o.context = 2048;
  o.blocks = 500;
  o.policy = "freeness";
  o.fabric = transport::sim::settings{};
  o.latency.base_us = 20'000;
  o.nodes = nodes;
  o.adjust = [roles = std::move(roles)](actors::node_options& n) { n.roles = roles; };
  return o;
}

actors::role_answer give(sim_cluster& cluster, std::uint32_t instance, instance_role role) {
  const auto answer = cluster.system->ask(cluster.cluster->node(), 1s, actors::role_order{instance_id{instance}, role});
  EXPECT_TRUE(answer);
  return answer ? *answer : actors::role_answer{};
}

instance_role role_of(sim_cluster& cluster, std::uint32_t instance) {
  return cluster.status().instances[instance].load.role;
}

std::vector<std::vector<protocols::token_id>> serve(sim_cluster& cluster,
                                                    const std::function<void(int)>& meanwhile = {}) {
  std::vector<std::shared_ptr<recording_sink>> all;
  for (int i = 0; i < 24; ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    all.push_back(cluster.submit(number, 200 + 10 * number, 100));
    cluster.run_for(100ms);
    if (meanwhile) meanwhile(i);
  }
  EXPECT_TRUE(cluster.run_until_ended(all));
  std::vector<std::vector<protocols::token_id>> answers;
  for (const auto& r : all) {
    EXPECT_EQ(r->endings, 1);
    EXPECT_FALSE(r->failed);
    answers.push_back(r->tokens);
  }
  cluster.run_for(1s);
  EXPECT_EQ(cluster.blocks_used(), 0U);
  return answers;
}

} // namespace

TEST(RoleChanges, AnOperatorsOrderHoldsUntilTheNextOne) {
  using enum instance_role;
  sim_cluster cluster(changing({prefill, decode, decode}));
  auto answer = give(cluster, 1, prefill);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.note, "");
  EXPECT_EQ(answer.before, decode);
  cluster.run_for(10ms);
  EXPECT_EQ(role_of(cluster, 1), prefill);
  EXPECT_EQ(give(cluster, 1, prefill).before, prefill);
  cluster.system->tell(cluster.cluster->node(), actors::kill_instance{instance_id{1}});
  cluster.run_for(2s);
  EXPECT_EQ(cluster.status().instances[1].restarts, 1U);
  EXPECT_EQ(role_of(cluster, 1), prefill) << "when it is started again, too";
  EXPECT_EQ(role_of(cluster, 0), prefill);
  EXPECT_EQ(role_of(cluster, 2), decode);
  EXPECT_EQ(give(cluster, 7, decode).error, "there is no instance 7");
}

TEST(RoleChanges, WhereTheyDoNotCountTheOperatorIsTold) {
  using enum instance_role;
  auto options = changing({prefill, decode});
  const auto roles = options.adjust;
  options.adjust = [&](actors::node_options& n) {
    roles(n);
    n.scheduler.policies.roles = protocols::role_policy::balance;
  };
  sim_cluster cluster(options);
  EXPECT_THAT(give(cluster, 1, prefill).note, HasSubstr("the role policy is balance"));
  EXPECT_EQ(give(cluster, 1, mixed).note, "") << "which that policy leaves alone";
  actors::policy_order pause;
  pause.paused = "yes";
  ASSERT_TRUE(cluster.system->ask(cluster.cluster->node(), 1s, std::move(pause)));
  EXPECT_THAT(give(cluster, 1, prefill).note, HasSubstr("roles do not count"));
}

TEST(RoleChanges, ASpareInstanceStartsWithTheRoleThatItWasGiven) {
  using enum instance_role;
  sim_cluster_options o;
  o.instances = 1;
  o.adjust = [](actors::node_options& n) {
    n.capacity = 2;
    n.roles = {prefill, decode};
  };
  sim_cluster cluster(o);
  ASSERT_THAT(cluster.status().stopped, SizeIs(1));
  EXPECT_EQ(give(cluster, 1, prefill).before, decode);
  cluster.run_for(10ms);
  EXPECT_EQ(cluster.status().stopped[0].load.role, prefill);
  EXPECT_TRUE(cluster.system->ask(cluster.cluster->node(), 1s, actors::drain_instance{instance_id{1}, false}));
  cluster.run_for(2s);
  ASSERT_THAT(cluster.status().instances, SizeIs(2));
  EXPECT_EQ(role_of(cluster, 1), prefill);
}

TEST(RoleChanges, NothingIsLostWhenTheyChangeAllTheTime) {
  using enum instance_role;
  for (const bool nodes : {false, true}) {
    sim_cluster calm(changing({prefill, decode, decode, mixed}, nodes));
    const auto wanted = serve(calm);
    sim_cluster cluster(changing({prefill, decode, decode, mixed}, nodes));
    const auto all = serve(cluster, [&](int i) {
      const auto which = static_cast<std::uint32_t>(i * 7 % 4);
      give(cluster, which, i % 5 == 0 ? mixed : i % 2 == 0 ? prefill : decode);
    });
    EXPECT_EQ(all, wanted) << nodes;
    const auto status = cluster.status();
    EXPECT_EQ(status.redispatches_total, 0U) << nodes;
    EXPECT_GT(status.moves_total, 0U) << nodes;
    for (const std::size_t once_for_decoding : {1U, 2U}) {
      EXPECT_EQ(calm.status().instances[once_for_decoding].load.prompt_tokens_total, 0U);
      EXPECT_GT(status.instances[once_for_decoding].load.prompt_tokens_total, 0U) << nodes;
    }
  }
}

namespace {

constexpr auto role_hold = 2s;

/// One that follows the load. What prompts take is what there is to do; little memory, so that answers fill it.
sim_cluster_options following(std::vector<instance_role> roles) {
  auto o = changing(std::move(roles));
  o.blocks = 200;
  o.latency.base_us = 5'000;
  o.latency.linear = {{{4, 100}, {256, 256'100}}}; // a millisecond for each token of a prompt
  o.step_tokens_max = 256;
  o.running_max = 64;
  o.waiting_max = 1'000;
  const auto first = o.adjust;
  o.adjust = [first](actors::node_options& n) {
    first(n);
    n.scheduler.policies.roles = protocols::role_policy::balance;
    n.scheduler.roles.hold_ns = std::chrono::nanoseconds(role_hold).count();
  };
  return o;
}

std::ptrdiff_t count(sim_cluster& cluster, instance_role role) {
  const auto status = cluster.status();
  return std::ranges::count_if(status.instances, [&](const auto& i) { return i.load.role == role; });
}

/// So many requests of these lengths each second.
void arrive(sim_cluster& cluster, std::vector<std::shared_ptr<recording_sink>>& all, std::chrono::seconds time,
            int per_second, std::uint32_t prompt, std::uint32_t answer) {
  for (int i = 0; i < time.count() * per_second; ++i) {
    all.push_back(cluster.submit(static_cast<std::uint32_t>(all.size()), prompt, answer));
    cluster.run_for(std::chrono::nanoseconds(1s) / per_second);
  }
}

} // namespace

TEST(RoleChanges, FollowTheLoadOfThePhases) {
  using enum instance_role;
  sim_cluster cluster(following({prefill, decode, decode, decode, decode, decode}));
  std::vector<std::shared_ptr<recording_sink>> all;
  arrive(cluster, all, 20s, 5, 500, 4); // 2.5 seconds of prompts each second
  EXPECT_GE(count(cluster, prefill), 3);
  auto page = cluster.status().scheduling;
  EXPECT_EQ(page.roles, "balance");
  EXPECT_THAT(page.roles_last, HasSubstr("for prefill: the load of "));
  arrive(cluster, all, 60s, 2, 30, 1000); // 120 of 64 blocks each
  EXPECT_LE(count(cluster, prefill), 2);
  EXPECT_GE(count(cluster, prefill), 1);
  EXPECT_THAT(cluster.status().scheduling.roles_last, HasSubstr("for decode: "));
  EXPECT_TRUE(cluster.run_until_ended(all));
  for (const auto& r : all) {
    EXPECT_EQ(r->endings, 1);
    EXPECT_FALSE(r->failed);
  }
  cluster.run_for(1s);
  EXPECT_EQ(cluster.blocks_used(), 0U);
}

TEST(RoleChanges, StayWhereTheyAreFixedOrMigrationIsPaused) {
  using enum instance_role;
  for (const bool paused : {false, true}) {
    sim_cluster cluster(following({prefill, decode, decode}));
    actors::policy_order order;
    if (paused)
      order.paused = "yes";
    else
      order.roles = "fixed";
    const auto answer = cluster.system->ask(cluster.cluster->node(), 1s, std::move(order));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->error, "");
    std::vector<std::shared_ptr<recording_sink>> all;
    arrive(cluster, all, 20s, 4, 500, 4);
    EXPECT_EQ(count(cluster, prefill), 1);
    if (!paused) {
      const auto page = cluster.status().scheduling;
      EXPECT_EQ(page.roles, "fixed");
      ASSERT_TRUE(page.phases_known) << "how it stands is measured all the same";
      EXPECT_GT(page.prefill_load, 1);
    }
    actors::policy_order back;
    back.paused = "no";
    back.roles = "balance";
    ASSERT_TRUE(cluster.system->ask(cluster.cluster->node(), 1s, std::move(back)));
    arrive(cluster, all, 8s, 4, 500, 4);
    EXPECT_EQ(count(cluster, prefill), 2);
    EXPECT_TRUE(cluster.run_until_ended(all));
  }
  sim_cluster cluster(following({prefill, decode}));
  actors::policy_order wrong;
  wrong.roles = "flip";
  const auto answer = cluster.system->ask(cluster.cluster->node(), 1s, std::move(wrong));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "no role policy is called 'flip'; known are fixed, balance");
}

TEST(RoleChanges, ASchedulerThatDiesIsFollowedByOneThatGoesOn) {
  using enum instance_role;
  sim_cluster cluster(following({prefill, decode, decode, decode}));
  std::vector<std::shared_ptr<recording_sink>> all;
  for (int i = 0; i < 6; ++i) {
    arrive(cluster, all, 3s, 5, 500, 4);
    cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  }
  arrive(cluster, all, 10s, 5, 500, 4);
  EXPECT_GE(count(cluster, prefill), 2);
  EXPECT_THAT(cluster.status().scheduling.roles_last, HasSubstr("for prefill")) << "the head knows";
  EXPECT_TRUE(cluster.run_until_ended(all));
}

TEST(RoleChanges, OfAnEmbeddersOwnBalanceWhatIsNotThereIsLeftOut) {
  using enum instance_role;
  auto options = following({prefill, decode, decode});
  const auto first = options.adjust;
  int asked = 0;
  options.adjust = [&](actors::node_options& n) {
    first(n);
    n.scheduler.balance = [&asked](std::int64_t, const std::vector<protocols::load_report>& loads) {
      if (++asked == 3) throw std::runtime_error("not now");
      std::vector<protocols::role_decision> out;
      if (asked > 5 && loads.size() == 3) out.push_back({prefill, {instance_id{2}, instance_id{9}}, "mine"});
      return out;
    };
  };
  sim_cluster cluster(options);
  cluster.run_for(3s);
  EXPECT_GT(asked, 5);
  EXPECT_EQ(count(cluster, prefill), 2);
  EXPECT_EQ(cluster.status().scheduling.roles_last, "mine");
  ASSERT_THAT(cluster.reports, SizeIs(1));
  EXPECT_THAT(cluster.reports[0], HasSubstr("not now"));
}

} // namespace godwit::test
