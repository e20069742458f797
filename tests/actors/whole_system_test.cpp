#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::test {

using namespace std::chrono_literals;
using protocols::finish_reason;

namespace {

/// A mixed load; every answer is a function of the request's number only.
std::vector<std::shared_ptr<recording_sink>> submit_mix(sim_cluster& cluster, std::uint32_t count) {
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < count; ++i) sinks.push_back(cluster.submit(i, 1 + (i * 37) % 150, 1 + (i * 53) % 90));
  return sinks;
}

std::vector<std::vector<protocols::token_id>> tokens_of(const std::vector<std::shared_ptr<recording_sink>>& sinks) {
  std::vector<std::vector<protocols::token_id>> out;
  for (const auto& sink : sinks) out.push_back(sink->tokens);
  return out;
}

/// The answers of a run that nothing disturbs.
const std::vector<std::vector<protocols::token_id>>& calm_answers() {
  static const auto answers = [] {
    sim_cluster cluster({.seed = 99, .blocks = 4096, .waiting_max = 1000});
    const auto sinks = submit_mix(cluster, 40);
    EXPECT_TRUE(cluster.run_until_ended(sinks));
    return tokens_of(sinks);
  }();
  return answers;
}

void expect_whole_answers(const std::vector<std::shared_ptr<recording_sink>>& sinks) {
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->endings, 1) << "request " << i;
    EXPECT_FALSE(sinks[i]->failed) << "request " << i << ": " << sinks[i]->failed->message;
    EXPECT_EQ(sinks[i]->tokens, calm_answers()[i]) << "request " << i;
  }
}

} // namespace

TEST(WholeSystem, TheSameSeedGivesTheSameRunByteForByte) {
  const auto run = [](std::uint64_t seed) {
    std::string log;
    {
      sim_cluster cluster({.seed = seed});
      cluster.events = runtime::sim::event_log([&log](const auto& event) { log += to_string(event) + "\n"; });
      const auto sinks = submit_mix(cluster, 30);
      cluster.world.run_for(20ms);
      cluster.cluster->kill(protocols::instance_id{1});
      EXPECT_TRUE(cluster.run_until_ended(sinks));
    }
    return log;
  };
  const auto first = run(5);
  EXPECT_GT(first.size(), 50'000U);
  EXPECT_EQ(first, run(5));
  EXPECT_NE(first, run(6));
}

TEST(WholeSystem, AnswersDoNotDependOnOrderOrLoad) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    sim_cluster cluster({.seed = seed, .instances = 1 + static_cast<std::uint32_t>(seed % 3)});
    const auto sinks = submit_mix(cluster, 40);
    ASSERT_TRUE(cluster.run_until_ended(sinks));
    expect_whole_answers(sinks);
  }
}

TEST(WholeSystem, PreemptionsUnderMemoryPressureDoNotChangeAnswers) {
  sim_cluster cluster({.instances = 1, .blocks = 34, .context = 512});
  const auto sinks = submit_mix(cluster, 40);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  EXPECT_GT(cluster.status().instances[0].load.preemptions_total, 0U);
}

// DESIGN section 4: an instance that dies loses its epoch; the home re-dispatches prompt and tokens so far.
TEST(WholeSystem, AnInstanceKilledAtAnyMomentCostsNoTokenAndRepeatsNone) {
  std::uint64_t redispatches = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    sim_cluster cluster({.seed = seed});
    const auto sinks = submit_mix(cluster, 40);
    auto random = cluster.world.random(17);
    for (int kills = 0; kills < 3; ++kills) {
      cluster.run_for(std::chrono::microseconds(random.below(60'000)));
      cluster.cluster->kill(protocols::instance_id{static_cast<std::uint32_t>(random.below(2))});
    }
    ASSERT_TRUE(cluster.run_until_ended(sinks)) << "seed " << seed;
    expect_whole_answers(sinks);
    redispatches += cluster.status().redispatches_total;
    cluster.run_for(1s);
    EXPECT_EQ(cluster.blocks_used(), 0U) << "seed " << seed;
  }
  EXPECT_GT(redispatches, 100U);
}

TEST(WholeSystem, WithoutTheGlobalSchedulerRequestsGoOnByASimpleRule) {
  sim_cluster cluster;
  const auto before = submit_mix(cluster, 10);
  cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  const auto during = submit_mix(cluster, 40);
  ASSERT_TRUE(cluster.run_until_ended(during));
  ASSERT_TRUE(cluster.run_until_ended(before));
  expect_whole_answers(during);
  cluster.run_for(1s);
  EXPECT_TRUE(cluster.cluster->gate()->view().scheduler) << "it is restarted";
  const auto after = submit_mix(cluster, 40);
  ASSERT_TRUE(cluster.run_until_ended(after));
  expect_whole_answers(after);
}

TEST(WholeSystem, AClientThatGoesAwayFreesItsBlocksWithinOneStep) {
  sim_cluster cluster({.instances = 1});
  const auto sink = cluster.submit(1, 100, 400);
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 5; }));
  EXPECT_GT(cluster.blocks_used(), 0U);
  const auto steps = cluster.status().instances[0].load.steps_total;
  cluster.cluster->gate()->withdraw(sink);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.blocks_used() == 0; }));
  EXPECT_LE(cluster.status().instances[0].load.steps_total, steps + 1);
  EXPECT_FALSE(sink->ended()) << "nobody is there to be told";
  EXPECT_EQ(cluster.status().requests_open, 0U);
}

TEST(WholeSystem, AClientThatGoesAwayAtAnyMomentLeavesNothingBehind) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    sim_cluster cluster({.seed = seed});
    auto sinks = submit_mix(cluster, 40);
    auto random = cluster.world.random(18);
    for (int i = 0; i < 20; ++i) {
      cluster.run_for(std::chrono::microseconds(random.below(8'000)));
      cluster.cluster->gate()->withdraw(sinks[random.below(sinks.size())]);
      if (i == 10) cluster.cluster->kill(protocols::instance_id{0});
    }
    ASSERT_TRUE(cluster.run_until([&] { return cluster.status().requests_open == 0; })) << "seed " << seed;
    cluster.run_for(1s);
    EXPECT_EQ(cluster.blocks_used(), 0U) << "seed " << seed;
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      const auto& got = sinks[i]->tokens;
      const auto& whole = calm_answers()[i];
      ASSERT_LE(got.size(), whole.size());
      EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin())) << "a prefix, without gap or repeat";
      EXPECT_TRUE(!sinks[i]->finished || got.size() == whole.size());
    }
  }
}

TEST(WholeSystem, ASinkThatHasEnoughEndsTheAnswerWithStop) {
  sim_cluster cluster({.instances = 1});
  auto sink = std::make_shared<recording_sink>();
  sink->enough = 7;
  auto one = std::make_shared<actors::submission>();
  one->request.prompt = {1, 2, 3};
  one->request.stop.max_tokens = 100;
  one->sink = sink;
  cluster.submit(one);
  ASSERT_TRUE(cluster.run_until([&] { return sink->ended(); }));
  EXPECT_EQ(sink->finished, finish_reason::stop);
  EXPECT_EQ(sink->tokens.size(), 7U);
  EXPECT_EQ(sink->usage.answer_tokens, 7U);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.blocks_used() == 0; }));
}

TEST(WholeSystem, FullQueuesTurnNewClientsAwayAndLoseNobody) {
  sim_cluster cluster({.running_max = 2, .waiting_max = 3});
  const auto sinks = submit_mix(cluster, 40);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  int overloaded = 0;
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->endings, 1);
    if (sinks[i]->failed) {
      EXPECT_EQ(sinks[i]->failed->kind, actors::failure_kind::overloaded);
      EXPECT_TRUE(sinks[i]->tokens.empty());
      ++overloaded;
    } else {
      EXPECT_EQ(sinks[i]->tokens, calm_answers()[i]);
    }
  }
  EXPECT_GT(overloaded, 0);
  EXPECT_LT(overloaded, 40 - 4);
}

TEST(WholeSystem, AFullInstanceSendsClientsOnToOneThatHasRoom) {
  // Without a scheduler the choice is blind: half of it falls on the instance whose queue is full.
  sim_cluster cluster({.running_max = 1, .waiting_max = 2, .adjust = [](actors::node_options& o) {
                         o.backoff_min = o.backoff_max = 3600s;
                       }});
  cluster.system->stop(cluster.cluster->gate()->view().scheduler, runtime::stop_reason::killed);
  cluster.run_for(1ms);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < 6; ++i) {
    sinks.push_back(cluster.submit(i, 10, i % 2 == 0 ? 200 : 5)); // long answers on one instance, short on the other
    cluster.run_for(30ms);
  }
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  for (const auto& sink : sinks) EXPECT_FALSE(sink->failed);
}

TEST(WholeSystem, SubmissionsToADeadFrontEndEnd) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    sim_cluster cluster({.seed = seed});
    auto sinks = submit_mix(cluster, 10);
    cluster.run_for(std::chrono::microseconds(seed * 500));
    cluster.system->stop(cluster.cluster->gate()->view().frontend, runtime::stop_reason::killed);
    for (const auto& sink : submit_mix(cluster, 10)) sinks.push_back(sink); // before anybody knows
    ASSERT_TRUE(cluster.run_until_ended(sinks)) << "seed " << seed;
    for (const auto& sink : sinks) EXPECT_EQ(sink->endings, 1);
    cluster.run_for(1s);
    EXPECT_EQ(cluster.blocks_used(), 0U);
    const auto after = submit_mix(cluster, 40);
    ASSERT_TRUE(cluster.run_until_ended(after));
    expect_whole_answers(after);
  }
}

TEST(WholeSystem, ARequestForWhichNoTokenCanBeDrawnEndsAloneWithAnError) {
  sim_cluster cluster;
  const auto sinks = submit_mix(cluster, 40);
  auto poisoned = std::make_shared<recording_sink>();
  auto one = std::make_shared<actors::submission>();
  one->request.prompt = {1, 2, 3};
  one->request.stop.max_tokens = 50;
  one->request.stop.min_tokens = 50;
  for (protocols::token_id id = 0; id < 1000; ++id) one->request.stop.stop_token_ids.push_back(id); // the vocabulary
  one->sink = poisoned;
  cluster.submit(std::move(one));
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  ASSERT_TRUE(cluster.run_until([&] { return poisoned->ended(); }));
  ASSERT_TRUE(poisoned->failed);
  EXPECT_THAT(poisoned->failed->message, ::testing::HasSubstr("no token can be drawn"));
  const auto status = cluster.status();
  EXPECT_EQ(status.redispatches_total, 0U);
  for (const auto& instance : status.instances) EXPECT_EQ(instance.restarts, 0U);
}

TEST(WholeSystem, RestartsAreNeverABusyLoop) {
  const auto starts = std::make_shared<int>(0);
  const auto lost = std::make_shared<bool>(false);
  sim_cluster cluster({.instances = 1, .adjust = [&](actors::node_options& o) {
                         o.backoff_min = 0s;
                         o.instance.make_executor = [make = o.instance.make_executor, starts, lost](auto id,
                                                                                                    auto done) {
                           ++*starts;
                           if (!*lost) return make(id, std::move(done));
                           done({nullptr, "no device any more"});
                         };
                       }});
  *lost = true;
  cluster.cluster->kill(protocols::instance_id{0});
  cluster.run_for(10s);
  EXPECT_LT(*starts, 30);
}

TEST(WholeSystem, StaticBatchesGiveTheSameAnswers) {
  sim_cluster cluster({.blocks = 256, .adjust = [](actors::node_options& o) {
                         o.llumlet.planner.mode = protocols::batching_mode::static_batch;
                       }});
  const auto sinks = submit_mix(cluster, 40);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
}

TEST(WholeSystem, TheFrontEndHoldsABoundedNumberOfRequests) {
  sim_cluster cluster({.adjust = [](actors::node_options& o) { o.frontend.requests_max = 5; }});
  const auto sinks = submit_mix(cluster, 8);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->failed.has_value(), i >= 5) << i;
    EXPECT_EQ(sinks[i]->endings, 1) << i;
  }
  EXPECT_EQ(cluster.status().requests_failed_total, 3U);
}

TEST(WholeSystem, ARequestThatCanNeverFitIsRefusedWithTheNumbers) {
  sim_cluster cluster({.blocks = 4, .context = 512});
  const auto sink = cluster.submit(1, 200, 10);
  ASSERT_TRUE(cluster.run_until([&] { return sink->ended(); }));
  ASSERT_TRUE(sink->failed);
  EXPECT_EQ(sink->failed->kind, actors::failure_kind::too_long);
  EXPECT_NE(sink->failed->message.find(" 4"), std::string::npos) << sink->failed->message;
}

TEST(WholeSystem, WhileNoInstanceLivesRequestsWaitAndThenGoOn) {
  sim_cluster cluster({.instances = 1});
  const auto sinks = submit_mix(cluster, 10);
  cluster.run_for(10ms);
  cluster.cluster->kill(protocols::instance_id{0});
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
}

TEST(WholeSystem, AnInstanceThatNeverComesBackEndsItsRequestsInBoundedTime) {
  const auto lost = std::make_shared<bool>(false);
  sim_cluster cluster({.instances = 1, .adjust = [lost](actors::node_options& o) {
                         o.instance.make_executor = [make = o.instance.make_executor, lost](auto id, auto done) {
                           if (!*lost) return make(id, std::move(done));
                           done({nullptr, "no device any more"});
                         };
                       }});
  *lost = true;
  const auto sinks = submit_mix(cluster, 10);
  cluster.run_for(10ms);
  const auto killed = cluster.world.now();
  cluster.cluster->kill(protocols::instance_id{0});
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  EXPECT_LE(cluster.world.now() - killed, 32s) << "frontend_options::placement_timeout is 30 s";
  int failed = 0;
  for (const auto& sink : sinks)
    if (sink->failed && sink->failed->kind == actors::failure_kind::unavailable) ++failed;
  EXPECT_GT(failed, 0);
}

TEST(WholeSystem, AStepThatHangsCostsTheInstanceItsRequestsNotTheClient) {
  // The first executor of instance 0 never completes a step.
  const auto hung = std::make_shared<bool>(false);
  struct hanging_forward final : gpu::forward {
    [[nodiscard]] std::uint32_t layers() const noexcept override { return 1; }
    void advance(std::uint32_t, gpu::completion done) override { kept = std::move(done); }
    [[nodiscard]] protocols::step_output take() override { return {}; }
    gpu::completion kept;
  };
  struct hanging_executor final : gpu::executor {
    std::shared_ptr<gpu::executor> model;
    [[nodiscard]] const gpu::executor_info& info() const noexcept override { return model->info(); }
    [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override {
      return std::make_unique<hanging_forward>();
    }
    [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
    [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  };
  sim_cluster cluster({.adjust = [hung](actors::node_options& o) {
    o.llumlet.step_timeout = 500ms;
    auto make = o.instance.make_executor;
    o.instance.make_executor = [make, hung](protocols::instance_id id, auto done) {
      if (id.value() != 0 || std::exchange(*hung, true)) return make(id, std::move(done));
      make(id, [done](actors::executor_outcome made) {
        auto wrapped = std::make_shared<hanging_executor>();
        wrapped->model = std::move(made.made);
        done({std::move(wrapped), {}});
      });
    };
  }});
  const auto sinks = submit_mix(cluster, 20);
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  EXPECT_GT(cluster.status().redispatches_total, 0U);
}

TEST(WholeSystem, StoppingTheClusterAnswersEverybody) {
  sim_cluster cluster;
  const auto sinks = submit_mix(cluster, 20);
  cluster.run_for(10ms);
  cluster.cluster.reset();
  ASSERT_TRUE(cluster.run_until_ended(sinks));
  for (const auto& sink : sinks) {
    EXPECT_EQ(sink->endings, 1);
    EXPECT_TRUE(!sink->failed || sink->failed->kind == actors::failure_kind::unavailable);
  }
}

} // namespace godwit::test
