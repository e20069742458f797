// Autoscaling with the production actors on virtual time: what load brings and takes away, what happens when an
// instance that was ordered does not come, and what an operator's hand and a dry run mean.
#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/log/string_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::instance_id;
using protocols::scaling_mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

using sinks = std::vector<std::shared_ptr<recording_sink>>;
constexpr auto hold = 2s;

/// Keeps what it is told, and does what the test says.
class fake_provisioner final : public actors::provisioner {
public:
  std::vector<std::string> orders;
  std::vector<std::pair<std::string, std::optional<std::uint32_t>>> released;
  std::function<void(const std::string& node, std::function<void(std::string)> failed)> on_order;
  std::function<void(const std::string& node)> on_release;

  void order(const std::string& node, std::function<void(std::string)> failed) override {
    orders.push_back(node);
    if (on_order) on_order(node, std::move(failed));
  }
  void release(const std::string& node, std::optional<instance_id> instance) override {
    released.emplace_back(node, instance ? std::optional(instance->value()) : std::nullopt);
    if (on_release) on_release(node);
  }
};

struct fleet {
  std::uint64_t seed = 1;
  std::uint32_t instances = 1;
  scaling_mode mode = scaling_mode::on;
  bool here = false; ///< without a provisioner: the head's own process runs the instances
  std::function<void(actors::node_options&)> adjust = {};
};

/// A cluster that scales: of 64 blocks each, from 10 to 40 blocks for each running request on the mean.
class scaled {
public:
  explicit scaled(fleet s) : cluster(options_of(s)) {}
  ~scaled() {
    provisioner->on_order = {};
    provisioner->on_release = {};
    members.clear();
  }
  /// The provisioner brings processes so long after they are ordered.
  void provide(std::chrono::nanoseconds cold_start) {
    provisioner->on_order = [this, cold_start](const std::string& node, const std::function<void(std::string)>&) {
      cluster.world.timers().call_after(cold_start,
                                        [this, node] { members[node] = cluster.start_process(next_++, node); });
    };
    provisioner->on_release = [this](const std::string& node) {
      const auto found = members.find(node);
      if (found == members.end()) return;
      cluster.system->stop(found->second, runtime::stop_reason::shutdown);
      members.erase(found);
    };
  }
  void load(std::uint32_t requests, std::uint32_t answer = 300) {
    for (std::uint32_t i = 0; i < requests; ++i) all.push_back(cluster.submit(i, 60, answer));
  }
  protocols::scheduling_status page() { return cluster.status().scheduling; }
  std::size_t instances() { return cluster.cluster->gate()->view().instances.size(); }
  bool run_until_instances(std::size_t count) {
    return cluster.run_until([&] {
      const auto view = cluster.cluster->gate()->view();
      return view.instances.size() == count &&
             std::ranges::all_of(view.instances, [](const auto& e) { return e.takes_requests(); });
    });
  }

  std::shared_ptr<fake_provisioner> provisioner = std::make_shared<fake_provisioner>();
  sim_cluster cluster;
  std::map<std::string, runtime::handle<actors::member_interface>> members;
  sinks all;

private:
  sim_cluster_options options_of(const fleet& s) {
    sim_cluster_options o;
    o.seed = s.seed;
    o.instances = s.instances;
    o.latency.base_us = 20'000;
    if (!s.here) o.fabric = transport::sim::settings{};
    o.adjust = [this, s](actors::node_options& n) {
      n.identity = {"0123456789abcdef", "f32", 4096, n.llumlet.planner.context_length};
      n.scheduler.policies.scaling = s.mode;
      auto& scaling = n.scheduler.scaling;
      scaling.freeness_min = 10;
      scaling.freeness_max = 40;
      scaling.hold_ns = std::chrono::nanoseconds(hold).count();
      scaling.instances_max = 3;
      scaling.provision_timeout_ns = std::chrono::nanoseconds(10s).count();
      if (s.here)
        n.provision_here = true;
      else
        n.provisioner = provisioner;
      if (s.adjust) s.adjust(n);
    };
    return o;
  }
  std::uint32_t next_ = 100; ///< number of the next process
};

} // namespace

TEST(Scaling, WhenTheLoadRisesAnInstanceIsOrderedAfterTheHoldAndItsColdStartIsShown) {
  scaled c({});
  c.provide(3s);
  c.cluster.run_for(hold);
  const auto begun = c.cluster.world.now();
  c.load(12);
  ASSERT_TRUE(c.cluster.run_until([&] { return !c.provisioner->orders.empty(); }));
  EXPECT_GE(c.cluster.world.now() - begun, hold);
  EXPECT_LT(c.cluster.world.now() - begun, hold + 1s);
  c.cluster.run_for(1s);
  auto page = c.page();
  EXPECT_EQ(page.provisioning, 1U);
  EXPECT_NEAR(static_cast<double>(page.provisioning_ns), 1e9, 1e8);
  EXPECT_EQ(page.scaled_out_total, 0U);
  EXPECT_THAT(page.scaling_last, ::testing::EndsWith("below 10 for 2 s, 1 instance"));
  ASSERT_TRUE(c.run_until_instances(2));
  page = c.page();
  EXPECT_EQ(page.provisioning, 0U);
  EXPECT_EQ(page.scaled_out_total, 1U);
  EXPECT_THAT(c.provisioner->orders, ElementsAre("scaled-1"));
  c.cluster.run_for(2s);
  EXPECT_GT(c.cluster.status().instances[1].load.generated_tokens_total, 0U) << "requests migrate to it";
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, WhenTheLoadFallsTheEmptiestIsDrainedStoppedAndItsProcessReleased) {
  scaled c({.instances = 3});
  c.provide(1s);
  c.load(3, 400); // one on each, which leaves too much free
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 2; }));
  EXPECT_THAT(c.provisioner->released, ElementsAre(std::pair{std::string("process-2"), std::optional(2U)}))
      << "the youngest of equals";
  EXPECT_EQ(c.page().scaled_in_total, 1U);
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
  for (const auto& sink : c.all) EXPECT_EQ(sink->tokens.size(), 400U);
  c.cluster.run_for(1min);
  EXPECT_EQ(c.instances(), 1U) << "and not below the minimum";
  EXPECT_EQ(c.cluster.status().redispatches_total, 0U);
}

// Without migration a drain lasts as long as its requests do, and load may rise meanwhile.
TEST(Scaling, WithoutMigrationADrainWaitsForItsRequestsAndIsTakenBackWhereTheLoadRises) {
  for (const bool rises : {false, true}) {
    scaled c({.instances = 3, .adjust = [](actors::node_options& n) {
                n.scheduler.policies.migration = protocols::migration_policy::never;
              }});
    c.provide(1s);
    c.load(3, 400);
    const auto draining = [&] {
      return std::ranges::any_of(c.cluster.status().instances,
                                 [](const auto& i) { return i.state == protocols::instance_state::draining; });
    };
    ASSERT_TRUE(c.cluster.run_until(draining));
    c.cluster.run_for(1s);
    EXPECT_TRUE(draining()) << "its request is not at its end";
    if (rises) {
      c.load(24, 300);
      ASSERT_TRUE(c.run_until_instances(3));
      EXPECT_TRUE(c.provisioner->orders.empty()) << "it is the fastest to be had";
    } else {
      ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() < 3; }));
    }
    ASSERT_TRUE(c.cluster.run_until_ended(c.all));
    for (const auto& sink : c.all) EXPECT_FALSE(sink->failed);
    EXPECT_EQ(c.cluster.status().moves_total, 0U);
    EXPECT_EQ(c.cluster.status().redispatches_total, 0U);
    EXPECT_EQ(c.cluster.blocks_used(), 0U);
  }
}

TEST(Scaling, InThisProcessOneMoreInstanceIsRunByTheHeadAndGoneAgainAfterwards) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto log = std::make_shared<runtime::log::string_backend>();
    scaled c({.seed = seed, .here = true, .adjust = [&](actors::node_options& o) {
                o.log = runtime::log::logger(log, runtime::log::level_filter(runtime::log::level::info));
              }});
    c.load(12);
    ASSERT_TRUE(c.run_until_instances(2)) << "seed " << seed;
    EXPECT_EQ(log->text().find("another member is called"), std::string::npos) << log->text();
    EXPECT_NE(log->text().find("scaled out"), std::string::npos) << "it is this log";
    EXPECT_EQ(c.page().scaled_out_total, 1U);
    ASSERT_TRUE(c.cluster.run_until_ended(c.all));
    ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 1; }));
    c.cluster.run_for(10s);
    c.all.clear();
    c.load(12);
    ASSERT_TRUE(c.run_until_instances(2)) << "and comes again";
    ASSERT_TRUE(c.cluster.run_until_ended(c.all));
    EXPECT_EQ(c.cluster.status().requests_failed_total, 0U);
  }
}

TEST(Scaling, AnInstanceWhoseProcessWasGivenBackIsNotStartedAgain) {
  scaled c({.instances = 2});
  c.provide(1s);
  c.cluster.run_for(10s);
  ASSERT_EQ(c.instances(), 1U) << "idle";
  ASSERT_EQ(c.provisioner->released.size(), 1U);
  c.load(12);
  ASSERT_TRUE(c.run_until_instances(2));
  EXPECT_EQ(c.provisioner->orders.size(), 1U);
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, AnInstanceThatAnOperatorStoppedIsNotStartedAgain) {
  scaled c({.instances = 2, .mode = scaling_mode::off});
  c.provide(1s);
  const auto node = c.cluster.cluster->node();
  const auto answer = c.cluster.system->ask(node, 1s, actors::drain_instance{instance_id{0}, true});
  ASSERT_TRUE(answer && answer->error.empty());
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 1; }));
  EXPECT_TRUE(c.provisioner->released.empty()) << "nor is its process anybody's but the operator's";
  c.cluster.system->tell(node, actors::scaling_wish{protocols::scaling_decision::kind::out, {}, "the test wants it"});
  ASSERT_TRUE(c.run_until_instances(2));
  EXPECT_EQ(c.provisioner->orders.size(), 1U);
  EXPECT_EQ(c.cluster.cluster->gate()->view().find(instance_id{0}), nullptr);
}

TEST(Scaling, ASpareInstanceThatDoesNotComeIsStoppedAgain) {
  scaled c({.mode = scaling_mode::off, .here = true, .adjust = [](actors::node_options& n) {
              n.capacity = 2;
              const auto make = n.instance.make_executor;
              n.instance.make_executor = [make](instance_id id, std::function<void(actors::executor_outcome)> done) {
                if (id == instance_id{0}) make(id, std::move(done)); // the other one loads for ever
              };
            }});
  c.cluster.system->tell(c.cluster.cluster->node(),
                         actors::scaling_wish{protocols::scaling_decision::kind::out, {}, "the test wants it"});
  c.cluster.run_for(9s);
  EXPECT_EQ(c.instances(), 2U);
  EXPECT_EQ(c.page().provisioning, 1U);
  EXPECT_EQ(c.cluster.cluster->gate()->view().ordered, 0U) << "it is there, and counted once";
  c.cluster.run_for(2s);
  EXPECT_EQ(c.instances(), 1U);
  EXPECT_EQ(c.page().provisioning, 0U);
}

TEST(Scaling, ASpareInstanceThatNeverLoadsIsLeftAloneAndAnotherOneComesInstead) {
  scaled c({.here = true, .adjust = [](actors::node_options& n) {
              n.capacity = 2;
              const auto make = n.instance.make_executor;
              n.instance.make_executor = [make](instance_id id, std::function<void(actors::executor_outcome)> done) {
                if (id != instance_id{1}) make(id, std::move(done)); // this one loads for ever
              };
            }});
  c.load(60, 400);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 2; }));
  ASSERT_TRUE(c.cluster.run_until([&] { return c.page().provisioning == 0; }));
  EXPECT_THAT(c.page().scaling_last,
              HasSubstr("gave up instance 1 after 10000 ms: it is not ready in time; it is left alone for 10000 ms"));
  ASSERT_TRUE(c.run_until_instances(2));
  EXPECT_EQ(c.cluster.cluster->gate()->view().find(instance_id{1}), nullptr) << "not the same again";
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

// A cluster manager that is slower than scaling.provision_timeout.
TEST(Scaling, AProcessThatComesAfterItsOrderWasGivenUpIsStoppedAndGivenBack) {
  scaled c({.mode = scaling_mode::off});
  c.provide(12s);
  c.provisioner->on_release = {};
  c.cluster.system->tell(c.cluster.cluster->node(),
                         actors::scaling_wish{protocols::scaling_decision::kind::out, {}, "the test wants it"});
  c.cluster.run_for(11s);
  EXPECT_THAT(c.provisioner->released, ElementsAre(std::pair{std::string("scaled-1"), std::optional<std::uint32_t>{}}));
  c.cluster.run_for(5s);
  EXPECT_EQ(c.instances(), 1U);
  EXPECT_THAT(c.provisioner->released, ElementsAre(std::pair{std::string("scaled-1"), std::optional<std::uint32_t>{}},
                                                   std::pair{std::string("scaled-1"), std::optional(1U)}));
  EXPECT_EQ(c.page().scaled_out_total, 0U);
  EXPECT_EQ(c.page().scaled_in_total, 0U);
}

// A command may start a process somewhere that calls itself as it likes.
TEST(Scaling, AProcessThatComesUnderAnotherNameIsTheOneThatWasOrdered) {
  scaled c({.mode = scaling_mode::off});
  c.provisioner->on_order = [&c](const std::string&, const std::function<void(std::string)>&) {
    c.cluster.world.timers().call_after(1s,
                                        [&c] { c.members["x"] = c.cluster.start_process(55, "node-of-somewhere"); });
  };
  c.cluster.system->tell(c.cluster.cluster->node(),
                         actors::scaling_wish{protocols::scaling_decision::kind::out, {}, "the test wants it"});
  ASSERT_TRUE(c.run_until_instances(2));
  EXPECT_EQ(c.page().provisioning, 0U);
  EXPECT_EQ(c.page().scaled_out_total, 1U);
  c.cluster.run_for(20s);
  EXPECT_TRUE(c.provisioner->released.empty()) << "and is not given up";
  EXPECT_EQ(c.instances(), 2U);
}

TEST(Scaling, AProvisionerThatSaysNothingIsWaitedForNoLongerThanItsTime) {
  scaled c({.mode = scaling_mode::off});
  std::vector<std::function<void(std::string)>> unanswered;
  c.provisioner->on_order = [&](const std::string&, std::function<void(std::string)> failed) {
    unanswered.push_back(std::move(failed));
  };
  c.cluster.system->tell(c.cluster.cluster->node(),
                         actors::scaling_wish{protocols::scaling_decision::kind::out, {}, "the test wants it"});
  c.cluster.run_for(9s);
  EXPECT_EQ(c.page().provisioning, 1U);
  c.cluster.run_for(2s);
  EXPECT_EQ(c.page().provisioning, 0U);
  EXPECT_EQ(c.provisioner->released.size(), 1U);
  ASSERT_EQ(unanswered.size(), 1U);
  unanswered[0]("too late"); // does no harm
  c.cluster.run_for(1s);
  EXPECT_EQ(c.provisioner->released.size(), 1U);
}

TEST(Scaling, SpareInstancesAreStartedFirst) {
  scaled c({.here = true, .adjust = [](actors::node_options& n) {
              n.capacity = 2;
              n.provision_here = false;
            }});
  c.load(12);
  ASSERT_TRUE(c.run_until_instances(2));
  EXPECT_EQ(c.cluster.cluster->gate()->view().instances[1].instance, instance_id{1});
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 1; }));
  c.cluster.run_for(5s);
  c.all.clear();
  c.load(12);
  ASSERT_TRUE(c.run_until_instances(2)) << "stopped by autoscaling, started by it";
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, ADryRunChangesNothing) {
  scaled c({.instances = 2, .mode = scaling_mode::dry_run});
  c.cluster.run_for(20s);
  EXPECT_EQ(c.instances(), 2U);
  EXPECT_THAT(c.page().scaling_last, HasSubstr("in (dry run)"));
  c.load(30);
  c.cluster.run_for(5s);
  EXPECT_THAT(c.page().scaling_last, HasSubstr("out (dry run)"));
  EXPECT_TRUE(c.provisioner->orders.empty());
  EXPECT_TRUE(c.provisioner->released.empty());
  EXPECT_EQ(c.page().provisioning, 0U);
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, WhatFailsToComeIsGivenUpAtOnceAndOrderedAgainAfterTheHold) {
  scaled c({});
  c.provisioner->on_order = [](const std::string&, const std::function<void(std::string)>& failed) {
    failed("exit code 3");
  };
  c.load(12, 400);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.provisioner->orders.size() == 1; }));
  c.cluster.run_for(10ms);
  EXPECT_EQ(c.page().provisioning, 0U);
  EXPECT_THAT(c.page().scaling_last, ::testing::HasSubstr("gave up scaled-1")) << "status says that it came to nothing";
  EXPECT_THAT(c.page().scaling_last, ::testing::HasSubstr("exit code 3"));
  const auto begun = c.cluster.world.now();
  ASSERT_TRUE(c.cluster.run_until([&] { return c.provisioner->orders.size() == 2; }));
  EXPECT_GE(c.cluster.world.now() - begun, hold - 300ms);
  EXPECT_EQ(c.provisioner->released.size(), 1U) << "what there is of it is taken away";
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
  EXPECT_EQ(c.cluster.status().requests_failed_total, 0U);
}

TEST(Scaling, WhatNeverComesIsGivenUpAfterItsTimeAndOrderedAgain) {
  scaled c({});
  c.provisioner->on_order = [](const std::string&, const std::function<void(std::string)>&) {};
  c.load(40, 400);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.provisioner->orders.size() == 1; }));
  const auto begun = c.cluster.world.now();
  c.cluster.run_for(9s);
  EXPECT_EQ(c.provisioner->orders.size(), 1U) << "one at a time";
  EXPECT_EQ(c.page().provisioning, 1U);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.provisioner->orders.size() == 2; }));
  EXPECT_GE(c.cluster.world.now() - begun, 10s);
  EXPECT_THAT(c.provisioner->released, ElementsAre(std::pair{std::string("scaled-1"), std::optional<std::uint32_t>{}}));
  EXPECT_THAT(c.provisioner->orders, ElementsAre("scaled-1", "scaled-2"));
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, AProcessThatDiesBeforeItIsReadyIsGivenUpAtOnce) {
  scaled c({.adjust = [](actors::node_options& n) {
    const auto make = n.instance.make_executor;
    n.instance.make_executor = [make](instance_id id, std::function<void(actors::executor_outcome)> done) {
      if (id == instance_id{0}) make(id, std::move(done)); // others load for ever
    };
  }});
  c.provide(1s);
  c.load(40, 400);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 2; }));
  EXPECT_EQ(c.page().provisioning, 1U);
  c.provisioner->on_release("scaled-1"); // it ends
  ASSERT_TRUE(c.cluster.run_until([&] { return c.instances() == 1; }));
  c.cluster.run_for(1ms);
  EXPECT_EQ(c.page().provisioning, 0U);
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, IsSwitchedOnWhileItRuns) {
  scaled c({.mode = scaling_mode::off});
  c.provide(1s);
  c.load(40, 300);
  c.cluster.run_for(5s);
  EXPECT_TRUE(c.provisioner->orders.empty());
  actors::policy_order order;
  order.scaling = "on";
  ASSERT_TRUE(c.cluster.system->ask(c.cluster.cluster->node(), 1s, order));
  ASSERT_TRUE(c.run_until_instances(2));
  ASSERT_TRUE(c.cluster.run_until_ended(c.all));
}

TEST(Scaling, WhoeverDiesMeanwhileNoRequestFailsAndTheNumberOfInstancesStaysInItsBounds) {
  std::uint64_t out = 0, in = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    scaled c({.seed = seed, .adjust = [](actors::node_options& n) {
                n.backoff_min = 20ms;
                n.settled_after = 100ms;
                n.scheduler.scaling.hold_ns = std::chrono::nanoseconds(500ms).count();
              }});
    c.provide(700ms);
    auto random = c.cluster.world.random(31);
    for (int wave = 0; wave < 3; ++wave) {
      const auto from = c.all.size();
      c.load(12, 150);
      for (int i = 0; i < 6; ++i) {
        c.cluster.run_for(std::chrono::milliseconds(random.below(700)));
        const auto view = c.cluster.cluster->gate()->view();
        EXPECT_LE(view.instances.size() + view.ordered, 4U) << "one may just be going";
        const auto what = random.below(4);
        if (what == 0 && view.scheduler) c.cluster.system->stop(view.scheduler, runtime::stop_reason::killed);
        if (what == 1 && !view.instances.empty())
          c.cluster.cluster->kill(view.instances[random.below(view.instances.size())].instance);
        if (what == 2 && !c.members.empty())
          c.cluster.system->stop(c.members.begin()->second, runtime::stop_reason::killed);
      }
      ASSERT_TRUE(c.cluster.run_until_ended(c.all)) << "seed " << seed;
      for (std::size_t i = 0; i < c.all.size(); ++i) {
        EXPECT_FALSE(c.all[i]->failed) << "seed " << seed;
        EXPECT_EQ(c.all[i]->tokens, c.all[i % 12]->tokens) << "the same requests in each wave, from " << from;
      }
      c.cluster.run_for(5s);
    }
    EXPECT_TRUE(c.cluster.run_until([&] { return c.instances() == 1; })) << "seed " << seed;
    const auto page = c.page();
    EXPECT_EQ(page.provisioning, 0U) << "seed " << seed;
    out += page.scaled_out_total;
    in += page.scaled_in_total;
    EXPECT_EQ(c.cluster.blocks_used(), 0U);
  }
  EXPECT_GT(out, 30U);
  EXPECT_GT(in, 20U);
}

TEST(Scaling, TheSameSeedGivesTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    std::string log;
    {
      scaled c({.seed = seed});
      c.cluster.events = runtime::sim::event_log([&log](const auto& event) { log += to_string(event) + "\n"; });
      c.provide(2s);
      c.load(20);
      EXPECT_TRUE(c.cluster.run_until_ended(c.all));
      c.cluster.run_for(10s);
    }
    return log;
  };
  const auto first = run(5);
  EXPECT_GT(first.size(), 100'000U);
  EXPECT_EQ(first, run(5));
}

} // namespace godwit::test
