// The KV store: what one instance computes another one loads, on virtual time. The simulated devices remember which
// tokens each slot of their KV stands for, so KV of other tokens gives other answers.
#include "actors/support/shard_test.hpp"
#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/metrics/registry.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

constexpr std::uint64_t chunk_bytes = gpu::sim::sim_block_bytes * protocols::blocks_per_chunk;

sim_cluster_options with_store(std::uint32_t instances, std::uint32_t chunks_each, std::uint64_t seed = 1) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = instances;
  o.context = 2048;
  o.blocks = 200;
  o.policy = "round_robin"; // does not look where prefixes are
  o.fabric = transport::sim::settings{};
  o.adjust = [chunks_each](actors::node_options& n) {
    n.llumlet.store.bytes = chunks_each * chunk_bytes;
    n.llumlet.recount = true;
    n.scheduler.policies.migration = protocols::migration_policy::never;
  };
  return o;
}

std::shared_ptr<actors::submission> prompt_of(std::vector<protocols::token_id> tokens, std::uint32_t answer,
                                              std::shared_ptr<recording_sink> sink, std::uint64_t salt = 5) {
  auto one = std::make_shared<actors::submission>();
  one->request.prompt = std::move(tokens);
  one->request.stop.max_tokens = answer;
  one->request.cache_salt = salt;
  one->seeded = true;
  one->request.sampling.seed = 3;
  one->sink = std::move(sink);
  return one;
}

std::vector<protocols::token_id> tokens_of(std::uint32_t number, std::uint32_t count) {
  std::vector<protocols::token_id> out;
  for (std::uint32_t i = 0; i < count; ++i)
    out.push_back(static_cast<protocols::token_id>((number * 7919 + i * 31) % 1000));
  return out;
}

/// To its end, and until what is to be stored is.
std::shared_ptr<recording_sink> serve(sim_cluster& cluster, std::vector<protocols::token_id> tokens,
                                      std::uint32_t answer, std::uint64_t salt = 5) {
  auto sink = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(std::move(tokens), answer, sink, salt));
  EXPECT_TRUE(cluster.run_until_ended({sink}));
  EXPECT_FALSE(sink->failed) << (sink->failed ? sink->failed->message : "");
  cluster.run_for(2s);
  return sink;
}

protocols::store_report stores_of(sim_cluster& cluster) {
  protocols::store_report sum;
  for (const auto& [node, r] : cluster.status().stores) {
    sum.bytes_used += r.bytes_used;
    sum.loaded_total += r.loaded_total;
    sum.filed_total += r.filed_total;
    sum.evicted_total += r.evicted_total;
    sum.failed_total += r.failed_total;
    sum.looked_up_total += r.looked_up_total;
  }
  return sum;
}

/// Of a cluster without a store.
std::vector<protocols::token_id> calm_answer(std::vector<protocols::token_id> tokens, std::uint32_t answer) {
  auto o = with_store(1, 0);
  sim_cluster calm(o);
  return serve(calm, std::move(tokens), answer)->tokens;
}

void kill(sim_cluster& cluster, std::uint32_t instance) {
  cluster.system->tell(cluster.cluster->node(), actors::kill_instance{protocols::instance_id{instance}});
}

} // namespace

TEST(KvStore, WhatOneInstanceComputedAnotherOneLoads) {
  sim_cluster cluster(with_store(3, 64));
  ASSERT_THAT(cluster.status().stores, SizeIs(3));
  const auto calm = calm_answer(tokens_of(1, 300), 40);
  for (int i = 0; i < 3; ++i) {
    const auto sink = serve(cluster, tokens_of(1, 300), 40);
    EXPECT_EQ(sink->tokens, calm);
    EXPECT_EQ(sink->usage.cached_tokens, i == 0 ? 0U : 256U);
  }
  const auto status = cluster.status();
  EXPECT_EQ(status.instances[0].load.store_hit_tokens_total, 0U);
  for (const std::uint32_t other : {1, 2}) {
    EXPECT_EQ(status.instances[other].load.store_hit_tokens_total, 256U) << other;
    EXPECT_EQ(status.instances[other].load.prompt_tokens_total, 300U - 256) << other;
  }
  EXPECT_EQ(stores_of(cluster).filed_total, 5U) << "339 tokens, once";
  EXPECT_EQ(stores_of(cluster).loaded_total, 8U);
  EXPECT_EQ(stores_of(cluster).failed_total, 0U);
  EXPECT_EQ(cluster.blocks_used(), 0U);
  EXPECT_THAT(cluster.reports, IsEmpty());
}

TEST(KvStore, AConversationGoesOnElsewhere) {
  sim_cluster cluster(with_store(2, 64));
  auto talk = tokens_of(1, 100);
  for (int turn = 0; turn < 4; ++turn) {
    const auto sink = serve(cluster, talk, 100);
    EXPECT_EQ(sink->tokens, calm_answer(talk, 100)) << turn;
    if (turn > 0) {
      EXPECT_GE(sink->usage.cached_tokens + 64 + 25, talk.size()) << "all but the last question";
    }
    talk.insert(talk.end(), sink->tokens.begin(), sink->tokens.end());
    const auto question = tokens_of(10 + static_cast<std::uint32_t>(turn), 20);
    talk.insert(talk.end(), question.begin(), question.end());
  }
}

TEST(KvStore, OfTenantsEachFindsItsOwn) {
  sim_cluster cluster(with_store(2, 64));
  (void)serve(cluster, tokens_of(1, 200), 5, 1);
  EXPECT_EQ(serve(cluster, tokens_of(1, 200), 5, 2)->usage.cached_tokens, 0U);
  (void)serve(cluster, tokens_of(2, 10), 5, 1); // so that the next one goes where the first was not
  EXPECT_EQ(serve(cluster, tokens_of(1, 200), 5, 1)->usage.cached_tokens, 192U);
}

// Of a request that is dispatched again its prompt need not be computed again, nor the answer so far but for its end.
TEST(KvStore, WhatADeadInstanceComputedIsNotLost) {
  sim_cluster cluster(with_store(2, 64));
  const auto sink = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(tokens_of(1, 500), 200, sink));
  ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() == 150; }));
  kill(cluster, 0);
  ASSERT_TRUE(cluster.run_until_ended({sink}));
  EXPECT_EQ(sink->tokens, calm_answer(tokens_of(1, 500), 200));
  const auto status = cluster.status();
  EXPECT_EQ(status.redispatches_total, 1U);
  std::uint64_t loaded = 0;
  for (const auto& i : status.instances) loaded += i.load.store_hit_tokens_total;
  EXPECT_EQ(loaded, 448U);
}

TEST(KvStore, WhoIsPreemptedGetsItsPromptBack) {
  auto o = with_store(1, 256);
  o.blocks = 60;
  sim_cluster cluster(o);
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < 6; ++i) {
    all.push_back(std::make_shared<recording_sink>());
    cluster.submit(prompt_of(tokens_of(i, 300), 150, all.back()));
  }
  ASSERT_TRUE(cluster.run_until_ended(all));
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(all[i]->tokens, calm_answer(tokens_of(i, 300), 150)) << i;
  const auto load = cluster.status().instances.at(0).load;
  EXPECT_GT(load.preemptions_total, 0U);
  EXPECT_GT(load.store_hit_tokens_total, 0U);
}

TEST(KvStore, AShardThatIsFullKeepsWhatWasUsedLast) {
  sim_cluster cluster(with_store(2, 4));
  for (std::uint32_t i = 0; i < 12; ++i) {
    const auto number = i % 3 == 2 ? 0 : i; // one comes again and again
    EXPECT_EQ(serve(cluster, tokens_of(number, 200), 10)->tokens, calm_answer(tokens_of(number, 200), 10)) << i;
  }
  EXPECT_GT(stores_of(cluster).evicted_total, 0U);
  EXPECT_EQ(stores_of(cluster).failed_total, 0U);
}

TEST(KvStore, MoreThanAShardHoldsKeepsItsBeginning) {
  sim_cluster cluster(with_store(1, 3));
  (void)serve(cluster, tokens_of(1, 640), 10);
  EXPECT_EQ(stores_of(cluster).filed_total, 3U);
  kill(cluster, 0);
  cluster.run_for(1s);
  EXPECT_EQ(serve(cluster, tokens_of(1, 640), 10)->usage.cached_tokens, 192U);
}

TEST(KvStore, TheShardOutlivesInstances) {
  sim_cluster cluster(with_store(1, 64));
  const auto sink = serve(cluster, tokens_of(1, 300), 10);
  kill(cluster, 0);
  cluster.run_for(1s);
  const auto again = serve(cluster, tokens_of(1, 300), 10);
  EXPECT_EQ(again->tokens, sink->tokens);
  EXPECT_EQ(again->usage.cached_tokens, 256U);
}

// Its process dies: it leaves the topology, and its share is computed.
TEST(KvStore, WhatIsLostWithAShardIsComputed) {
  auto o = with_store(3, 64);
  o.nodes = true;
  sim_cluster cluster(o);
  const auto sink = serve(cluster, tokens_of(1, 700), 10);
  cluster.processes.at("process-1")->crash();
  cluster.run_for(10s);
  EXPECT_THAT(cluster.status().stores, SizeIs(2));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(serve(cluster, tokens_of(1, 700), 10)->tokens, sink->tokens) << i;
}

// Nothing arrives over its fabric; its actors answer.
TEST(KvStore, KvThatDoesNotComeIsComputed) {
  sim_cluster cluster(with_store(2, 64));
  const auto sink = serve(cluster, tokens_of(1, 700), 10);
  cluster.network->cut("process-0", "process-1");
  const auto late = serve(cluster, tokens_of(1, 700), 10);
  EXPECT_EQ(late->tokens, sink->tokens);
  EXPECT_GT(stores_of(cluster).failed_total, 0U);
  cluster.network->heal("process-0", "process-1");
  EXPECT_EQ(serve(cluster, tokens_of(1, 700), 10)->tokens, sink->tokens);
  EXPECT_EQ(cluster.blocks_used(), 0U);
}

// A shard that is silent costs one wait, not one for each request.
TEST(KvStore, AShardThatIsSilentIsLeftInPeace) {
  auto o = with_store(2, 64);
  o.nodes = true;
  const auto adjust = o.adjust;
  o.adjust = [adjust](actors::node_options& n) {
    adjust(n);
    n.llumlet.store.lookup_timeout = 100ms;
    n.llumlet.store.silence = 60s;
  };
  sim_cluster cluster(o);
  (void)serve(cluster, tokens_of(1, 700), 10);
  cluster.world.network().set_detection({100ms, 3600s});
  cluster.world.network().cut("head", "process-1"); // by way of which members reach each other
  std::vector<std::chrono::nanoseconds> times;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto began = cluster.world.now();
    const auto sink = std::make_shared<recording_sink>();
    cluster.submit(prompt_of(tokens_of(20 + i, 700), 1, sink));
    ASSERT_TRUE(cluster.run_until([&] { return sink->ended() || cluster.world.now() - began > 30s; }));
    if (sink->ended()) times.push_back(cluster.world.now() - began); // others were for the instance that is away
  }
  std::ranges::sort(times);
  ASSERT_GE(times.size(), 2U);
  EXPECT_LT(times.front() + 80ms, times.back());
}

TEST(KvStore, AClientThatGoesAwayWhileKvComesLeavesNothing) {
  auto o = with_store(2, 64);
  o.fabric->bytes_per_second = 50'000; // a chunk takes 10 ms
  sim_cluster cluster(o);
  const auto calm = serve(cluster, tokens_of(1, 700), 10);
  for (int i = 0; i < 20; ++i) {
    kill(cluster, 0);
    kill(cluster, 1); // so that nothing is in their caches
    cluster.run_for(1s);
    const auto sink = std::make_shared<recording_sink>();
    cluster.submit(prompt_of(tokens_of(1, 700), 10, sink));
    cluster.run_for(i * 7ms);
    cluster.cluster->gate()->withdraw(sink);
    const auto other = serve(cluster, tokens_of(1, 700), 10); // gets blocks of the first one
    EXPECT_EQ(other->tokens, calm->tokens) << i;
    EXPECT_EQ(cluster.blocks_used(), 0U) << i;
  }
  EXPECT_THAT(cluster.reports, IsEmpty());
}

// Puts hold blocks, and give them back where somebody needs them; what was under way then is not believed.
TEST(KvStore, RequestsDoNotWaitForWhatIsOnItsWayToTheStore) {
  auto o = with_store(2, 256);
  o.blocks = 60;
  o.fabric->bytes_per_second = 20'000; // a chunk takes 25 ms
  sim_cluster cluster(o);
  std::vector<std::shared_ptr<recording_sink>> all;
  for (std::uint32_t i = 0; i < 40; ++i) {
    all.push_back(std::make_shared<recording_sink>());
    cluster.submit(prompt_of(tokens_of(i % 8, 400), 20, all.back()));
    cluster.run_for(20ms);
  }
  ASSERT_TRUE(cluster.run_until_ended(all));
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_EQ(all[i]->tokens, calm_answer(tokens_of(i % 8, 400), 20)) << i;
  cluster.run_for(60s);
  EXPECT_EQ(cluster.blocks_used(), 0U);
  EXPECT_THAT(cluster.reports, IsEmpty());
}

// One for the prompt and one for the answer, which share blocks.
TEST(KvStore, RequestsDoNotWaitForPutsThatAreStuck) {
  auto o = with_store(2, 64);
  o.blocks = 20;
  sim_cluster cluster(o);
  cluster.network->freeze("process-1"); // which takes no blocks
  const auto first = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(tokens_of(1, 192), 70, first));
  ASSERT_TRUE(cluster.run_until_ended({first}));
  cluster.run_for(1s);
  EXPECT_EQ(cluster.status().instances.at(0).load.blocks_used, 16U) << "held for the store";
  const auto other = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(tokens_of(100, 20), 1, other)); // to the other instance
  const auto second = std::make_shared<recording_sink>();
  const auto began = cluster.world.now();
  cluster.submit(prompt_of(tokens_of(200, 220), 1, second)); // 14 blocks
  ASSERT_TRUE(cluster.run_until_ended({second}));
  EXPECT_LT(cluster.world.now() - began, 500ms) << "not for as long as puts may take";
}

TEST(KvStore, NobodyIsLookedUpInVain) {
  sim_cluster cluster(with_store(2, 64));
  const auto scored = std::make_shared<recording_sink>();
  auto one = prompt_of(tokens_of(1, 300), 5, scored);
  one->request.sampling.prompt_logprobs = 0; // each of its tokens has to be computed
  cluster.submit(one);
  const auto short_one = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(tokens_of(2, 64), 5, short_one)); // the last token is computed, and with it its chunk
  ASSERT_TRUE(cluster.run_until_ended({scored, short_one}));
  cluster.run_for(2s);
  EXPECT_EQ(stores_of(cluster).looked_up_total, 0U);
  (void)serve(cluster, tokens_of(3, 300), 5);
  EXPECT_EQ(stores_of(cluster).looked_up_total, 4U);
}

TEST(KvStore, RequestsMoveWhileTheirKvComes) {
  auto o = with_store(2, 256);
  o.fabric->bytes_per_second = 100'000;
  o.running_max = 4;
  sim_cluster cluster(o);
  const auto calm = calm_answer(tokens_of(1, 700), 60);
  (void)serve(cluster, tokens_of(1, 700), 60);
  for (int i = 0; i < 12; ++i) {
    kill(cluster, 0);
    kill(cluster, 1);
    cluster.run_for(1s);
    const auto sink = std::make_shared<recording_sink>();
    cluster.submit(prompt_of(tokens_of(1, 700), 60, sink));
    std::uint64_t id = 0;
    std::uint32_t at = 0;
    ASSERT_TRUE(cluster.run_until([&] {
      for (const auto& instance : cluster.status(true).instances)
        for (const auto& r : instance.requests) id = r.request.value(), at = instance.instance.value();
      return id != 0 || sink->ended();
    }));
    cluster.run_for(i * 4ms);
    (void)cluster.cluster->migrate(protocols::request_id{id}, protocols::instance_id{1 - at});
    ASSERT_TRUE(cluster.run_until_ended({sink}));
    EXPECT_EQ(sink->tokens, calm) << i;
    cluster.run_for(5s);
    EXPECT_EQ(cluster.blocks_used(), 0U) << i;
  }
  EXPECT_THAT(cluster.reports, IsEmpty());
}

// While its only request waits for a shard's word.
TEST(KvStore, AnInstanceIsDrainedWhileARequestIsLookedUp) {
  auto o = with_store(2, 64);
  o.nodes = true;
  sim_cluster cluster(o);
  cluster.world.network().delay("head", "process-1", 60ms); // by way of which members reach each other
  const auto sink = std::make_shared<recording_sink>();
  cluster.submit(prompt_of(tokens_of(1, 700), 5, sink));
  cluster.run_for(20ms);
  cluster.system->tell(cluster.cluster->node(), actors::drain_instance{protocols::instance_id{0}, true});
  ASSERT_TRUE(cluster.run_until([&] { return cluster.status().stopped.size() == 1 || cluster.world.now() > 60s; }));
  EXPECT_THAT(cluster.status().stopped, SizeIs(1));
  ASSERT_TRUE(cluster.run_until_ended({sink}));
  EXPECT_FALSE(sink->failed);
}

TEST(KvStore, ShowsWhereItIsAndWhatItHas) {
  runtime::metrics::registry registry;
  auto o = with_store(2, 64);
  const auto adjust = o.adjust;
  o.adjust = [&registry, adjust](actors::node_options& n) {
    adjust(n);
    n.metrics = std::make_shared<actors::cluster_metrics>(registry);
  };
  sim_cluster cluster(o);
  cluster.run_for(3s);
  for (const auto& s : cluster.status().stores) EXPECT_EQ(s.report.bytes, 64 * chunk_bytes) << "before its first use";
  (void)serve(cluster, tokens_of(1, 300), 5);
  const auto used = stores_of(cluster).bytes_used;
  EXPECT_EQ(used, 4 * chunk_bytes);
  const auto page = registry.expose();
  EXPECT_THAT(page, ::testing::HasSubstr("godwit_kv_store_bytes{node=\"process-0\"} 32768"));
  EXPECT_THAT(page, ::testing::HasSubstr("godwit_kv_store_used_bytes{node=\"process-1\"}"));
  for (const auto& s : cluster.status().stores) EXPECT_EQ(s.report.bytes, 64 * chunk_bytes) << s.node;
}

// --- a shard by itself

TEST_F(ShardTest, GivesWhatItGotHoweverItIsCut) {
  bring({1, 2, 3});
  EXPECT_THAT(filed(4), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(fetch({3, 4, 1}), ElementsAre(3, 0, 1));
  EXPECT_THAT(fetch({2}, 1), ElementsAre(2)) << "by an instance with other devices";
  EXPECT_THAT(fetch({2}, 32), ElementsAre(2));
}

TEST_F(ShardTest, WantsWhatItLacks) {
  bring({1, 2});
  EXPECT_THAT(offer({1, 2, 3, 4}).wanted, ElementsAre(2, 3));
  EXPECT_THAT(offer({1, 2, 3, 4}).wanted, IsEmpty()) << "these are on their way";
}

TEST_F(ShardTest, FilesWhatTheSenderConfirmsAndNothingElse) {
  const auto room = offer({1, 2, 3});
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(send(room, i, static_cast<std::uint8_t>(i + 1)), "");
  EXPECT_THAT(filed(3), Each(0)) << "not yet";
  tell({room.transfer, 2}); // the third was overwritten while it was sent
  world.run_for(10ms);
  EXPECT_THAT(filed(3), ElementsAre(1, 1, 0));
  EXPECT_NE(send(room, 2, 9), "") << "the place is withdrawn";
  tell({room.transfer, 3});
  world.run_for(10ms);
  EXPECT_THAT(filed(3), ElementsAre(1, 1, 0)) << "a second word is none";
}

TEST_F(ShardTest, FilesNothingThatHasNotLanded) {
  const auto room = offer({1, 2});
  EXPECT_EQ(send(room, 0, 1), "");
  EXPECT_EQ(send(room, 1, 2, 7), "") << "but for its last piece";
  tell({room.transfer, 2});
  world.run_for(2s); // for what may yet be counted
  EXPECT_THAT(filed(2), ElementsAre(1, 0));
}

TEST_F(ShardTest, ASenderThatFallsSilentLosesItsPlaces) {
  const auto room = offer({1, 2, 3, 4});
  EXPECT_EQ(send(room, 0, 1), "");
  EXPECT_THAT(offer({5}).wanted, IsEmpty()) << "there is no other slot";
  world.run_for(6s);
  EXPECT_THAT(filed(4), Each(0)) << "nobody confirmed it";
  bring({5, 6, 7, 8});
  EXPECT_THAT(fetch({5, 6, 7, 8}), ElementsAre(5, 6, 7, 8));
}

TEST_F(ShardTest, TakesAsManyOffersAtATimeAsItMay) {
  EXPECT_THAT(offer({1}).wanted, SizeIs(1));
  EXPECT_THAT(offer({2}).wanted, SizeIs(1));
  EXPECT_THAT(offer({3}).wanted, IsEmpty());
  world.run_for(6s);
  EXPECT_THAT(offer({3}).wanted, SizeIs(1));
}

TEST_F(ShardTest, TakesAsManyRegionsInAllItsOffersAsItMay) {
  start_shard(nullptr, [](actors::kv_store_settings& s) { s.offered_regions_max = 20; });
  const auto room = offer({1, 2, 3});
  EXPECT_THAT(room.wanted, ElementsAre(0, 1)) << "eight regions each";
  EXPECT_THAT(offer({4}).wanted, IsEmpty());
  EXPECT_THAT(offer({4}, {512, 4}).wanted, SizeIs(1));
  tell({room.transfer, 0});
  world.run_for(10ms);
  EXPECT_THAT(offer({3}).wanted, SizeIs(1));
}

TEST_F(ShardTest, ChunksOfAnotherSizeAreNotItsOwn) {
  EXPECT_THAT(offer({1}, {1024, 8}).wanted, IsEmpty());
  EXPECT_THAT(offer({1}, {512, 0}).wanted, IsEmpty());
  EXPECT_THAT(offer({1}, {512, 5}).wanted, IsEmpty());
  bring({1});
  protocols::store_fetch order;
  order.shape = {256, 8};
  order.chunks.emplace_back(name_of(1), 0);
  EXPECT_THAT(ask(std::move(order)).landed, ElementsAre(0));
}

TEST_F(ShardTest, WhatAPeerMakesItAllocateIsBounded) {
  protocols::store_offer many;
  for (std::uint64_t i = 0; i < 40'000; ++i) many.names.push_back(name_of(i));
  many.shape = {512, 512};
  EXPECT_THAT(ask(many).wanted, IsEmpty());
  many.shape = {512, 8};
  EXPECT_THAT(ask(many).wanted, SizeIs(4));
  protocols::store_look look;
  look.names = many.names;
  EXPECT_THAT(ask(look).filed, SizeIs(40'000));
  look.names.resize(actors::kv_store_settings::names_max + 1);
  EXPECT_THAT(ask(look).filed, IsEmpty());
}

TEST_F(ShardTest, WhatIsReadIsNotOverwritten) {
  bring({1, 2, 3, 4});
  network.freeze("ours"); // a reader that takes nothing
  protocols::store_fetch order;
  order.fabric = ours->address();
  order.transfer = 99;
  order.shape = {512, 8};
  for (std::uint64_t i = 1; i <= 4; ++i) order.chunks.emplace_back(name_of(i), static_cast<std::uint32_t>(i - 1) * 8);
  bool answered = false;
  struct asker final : runtime::actor<runtime::interface<void(actors::load_model)>> {
    asker(runtime::actor_context c, runtime::handle<actors::kv_store_interface> s, protocols::store_fetch what,
          bool* to)
        : actor(c), shard(std::move(s)), order(std::move(what)), done(to) {}
    runtime::behavior_of<runtime::interface<void(actors::load_model)>> make_behavior() override {
      start(run());
      return {[](actors::load_model&) {}};
    } runtime::async::task<void> run() {
      (void)co_await ask(shard, 10s, std::move(order));
      *done = true;
    }
    runtime::handle<actors::kv_store_interface> shard;
    protocols::store_fetch order;
    bool* done;
  };
  const auto who = system->spawn<asker>(shard, std::move(order), &answered);
  world.run_for(100ms);
  EXPECT_THAT(offer({5}).wanted, IsEmpty());
  world.run_for(2s);
  EXPECT_TRUE(answered) << "in bounded time";
  EXPECT_THAT(offer({5}).wanted, SizeIs(1));
  system->stop(who);
}

} // namespace godwit::test
