// Processes that join a head, in the simulated world: every member is an actor of the same system, so that all orders
// of messages can happen. Real processes: tests/processes.
#include "actors/support/sim_cluster.hpp"

#include <godwit/actors/member.hpp>
#include <godwit/runtime/log/string_backend.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

using node_handle = runtime::handle<actors::node_interface>;
using member_handle = runtime::handle<actors::member_interface>;

/// A cluster whose members can come, die and come back.
class joinable {
public:
  explicit joinable(std::uint64_t seed, std::uint32_t head_instances = 1)
      : cluster({.seed = seed, .instances = head_instances, .adjust = [this](actors::node_options& n) {
                   n.identity = {"0123456789abcdef", "f32", 4096, n.llumlet.planner.context_length};
                   n.metrics = counts = std::make_shared<actors::cluster_metrics>(registry);
                   n.log = runtime::log::logger(lines, {});
                   head_options = n;
                 }}) {
    head = cluster.cluster->node();
  }
  ~joinable() { // handles go before their system
    head = {};
    states.clear();
  }

  /// What a process of this model would bring.
  actors::member_options options(std::uint64_t key, std::uint32_t instances = 1) {
    actors::member_options o;
    o.version = head_options.version;
    o.address = "process " + std::to_string(key);
    o.key = key;
    o.instances = instances;
    o.model = head_options.identity;
    o.find_head = [this](const std::function<void(actors::found_head)>& done) {
      ++searches;
      if (head)
        done(head);
      else
        done(runtime::async::error{runtime::async::error_code::down, "nobody listens there"});
    };
    o.instance = head_options.instance;
    o.llumlet = head_options.llumlet;
    o.on_state = [this, key](const actors::member_state& state) {
      states[key] = state;
      for (std::size_t i = 0; i < state.pairs.size(); ++i)
        if (state.pairs[i].llumlet)
          lives.insert({state.first.value() + static_cast<std::uint32_t>(i), state.pairs[i].generation,
                        state.pairs[i].llumlet.id()});
    };
    return o;
  }
  member_handle start(actors::member_options o) { return cluster.system->spawn<actors::member>(std::move(o)); }

  bool run_until_ready(std::uint64_t key) {
    return cluster.run_until([&] { return states[key].joined && states[key].ready == states[key].pairs.size(); });
  }
  /// Whatever the head says of this member's instances now.
  std::vector<actors::instance_entry> entries(std::uint64_t key) {
    std::vector<actors::instance_entry> out;
    const auto first = states[key].first.value();
    for (const auto& entry : cluster.cluster->gate()->view().instances)
      if (entry.instance.value() >= first && entry.instance.value() < first + states[key].pairs.size())
        out.push_back(entry);
    return out;
  }

  /// id, generation, llumlet: no two llumlets ever share the first two.
  using life = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  actors::node_options head_options;
  node_handle head;
  std::map<std::uint64_t, actors::member_state> states;
  std::set<life> lives;
  int searches = 0;
  runtime::metrics::registry registry;
  std::shared_ptr<actors::cluster_metrics> counts;
  std::shared_ptr<runtime::log::string_backend> lines = std::make_shared<runtime::log::string_backend>();
  sim_cluster cluster;
};

void expect_no_identity_twice(const joinable& c) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const auto& [id, generation, llumlet] : c.lives)
    EXPECT_TRUE(seen.insert({id, generation}).second) << "instance " << id << " generation " << generation;
}

std::vector<std::shared_ptr<recording_sink>> submit_some(sim_cluster& cluster, std::uint32_t count) {
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < count; ++i) sinks.push_back(cluster.submit(i, 1 + (i * 37) % 150, 20 + (i * 53) % 90));
  return sinks;
}

const std::vector<std::vector<protocols::token_id>>& calm_answers() {
  static const auto answers = [] {
    sim_cluster cluster({.seed = 4, .blocks = 4096, .waiting_max = 1000});
    std::vector<std::vector<protocols::token_id>> out;
    const auto sinks = submit_some(cluster, 30);
    EXPECT_TRUE(cluster.run_until_ended(sinks));
    for (const auto& sink : sinks) out.push_back(sink->tokens);
    return out;
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

/// Understands what a member does and does nothing.
class silent_member final : public runtime::actor<actors::member_interface> {
public:
  using actor::actor;
  [[nodiscard]] runtime::behavior_of<interface_type> make_behavior() override {
    return {[](actors::instance_ready&) {},
            [](actors::instance_failed&) {},
            [](actors::instance_drained&) {},
            [](actors::kill_instance&) {},
            [](actors::topology&) {},
            [](actors::retire&) {},
            [](actors::activate_instance&) {},
            [](actors::drain_instance&) {},
            [](actors::role_order&) { return actors::role_answer{}; },
            [](actors::trace_order&) { return actors::trace_state{}; },
            [](actors::dump_order&) { return actors::dumped_file{}; },
            [](actors::dump_part_query&) { return actors::dump_part{}; },
            [](protocols::store_report&) {}};
  }
};

/// Stands for a llumlet that never says how it is.
struct mute_interface : runtime::interface<protocols::instance_status(actors::status_query)> {};
class mute final : public runtime::actor<mute_interface> {
public:
  using actor::actor;
  [[nodiscard]] runtime::behavior_of<interface_type> make_behavior() override {
    return {[this](actors::status_query&) { return respond(never()); }};
  }

private:
  runtime::async::task<protocols::instance_status> never() {
    co_await sleep_for(1h);
    co_return protocols::instance_status{};
  }
};

} // namespace

TEST(Membership, WhoIsLostIsCountedAndWarnedOfWhoLeavesIsNot) {
  joinable c(5);
  const auto lost = c.cluster.system->spawn<silent_member>();
  ASSERT_TRUE(c.cluster.system->ask(
      c.head, 5s, actors::join_cluster{c.head_options.version, 77, "there", 1, c.head_options.identity, lost}));
  const auto leaving = c.start(c.options(8));
  ASSERT_TRUE(c.run_until_ready(8));
  c.cluster.run_for(10ms);
  EXPECT_EQ(c.counts->members.value(), 2.0);
  ASSERT_TRUE(c.cluster.system->ask(leaving, 10s, actors::retire{}));
  c.cluster.run_for(10ms);
  EXPECT_EQ(c.counts->members.value(), 1.0);
  EXPECT_EQ(c.counts->members_lost.value(), 0U);
  EXPECT_THAT(c.lines->text(), AllOf(HasSubstr("is gone (it leaves)"), ::testing::Not(HasSubstr("warning"))));
  c.cluster.system->stop(lost, runtime::stop_reason::killed);
  c.cluster.run_for(10ms);
  EXPECT_EQ(c.counts->members.value(), 0.0);
  EXPECT_EQ(c.counts->members_lost.value(), 1U);
  EXPECT_THAT(c.lines->text(), HasSubstr("warning"));
}

TEST(Membership, AMembersInstancesGetTheirOwnIdsAndServe) {
  joinable c(1, 2);
  const auto m = c.start(c.options(7, 3));
  ASSERT_TRUE(c.run_until_ready(7));
  c.cluster.run_for(10ms);
  EXPECT_EQ(c.states[7].first.value(), 2U) << "the head's own are 0 and 1";
  const auto view = c.cluster.cluster->gate()->view();
  ASSERT_EQ(view.instances.size(), 5U);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(view.instances[i].instance.value(), i);
    EXPECT_TRUE(view.instances[i].ready);
  }
  const auto sinks = submit_some(c.cluster, 30);
  ASSERT_TRUE(c.cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  const auto status = c.cluster.status();
  ASSERT_EQ(status.instances.size(), 5U);
  EXPECT_EQ(status.instances[4].node, "process 7");
  for (const auto& instance : status.instances)
    EXPECT_GT(instance.load.generated_tokens_total, 0U) << "instance " << instance.instance.value();
}

TEST(Membership, AHeadWithoutInstancesServesWithThoseThatMembersBring) {
  joinable c(3);
  auto options = c.head_options;
  options.instances = 0;
  c.cluster.cluster = std::make_unique<actors::cluster>(*c.cluster.system, options);
  c.head = c.cluster.cluster->node();
  c.cluster.run_for(1s);
  EXPECT_FALSE(c.cluster.cluster->gate()->ready());
  EXPECT_TRUE(c.cluster.cluster->gate()->view().instances.empty());
  const auto m = c.start(c.options(7, 2));
  ASSERT_TRUE(c.run_until_ready(7));
  c.cluster.run_for(1ms);
  EXPECT_TRUE(c.cluster.cluster->gate()->ready());
  const auto sinks = submit_some(c.cluster, 30);
  ASSERT_TRUE(c.cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
}

TEST(Membership, WhatDoesNotFitIsRefusedWithTheReason) {
  joinable c(2);
  const auto refusal_of = [&](const std::function<void(actors::member_options&)>& change) {
    static std::uint64_t key = 100;
    auto o = c.options(++key);
    change(o);
    const auto m = c.start(std::move(o));
    EXPECT_TRUE(c.cluster.run_until([&] { return c.states[key].failures > 0 || c.states[key].joined; }));
    EXPECT_FALSE(c.states[key].joined);
    c.cluster.system->stop(m, runtime::stop_reason::killed);
    return c.states[key].error;
  };
  EXPECT_THAT(refusal_of([](auto& o) { o.version = "9.9"; }), HasSubstr("the member godwit 9.9"));
  EXPECT_THAT(refusal_of([](auto& o) { o.model.fingerprint = "ffff"; }), HasSubstr("another model"));
  EXPECT_THAT(refusal_of([](auto& o) { o.model.kv_type = "bf16"; }), HasSubstr("KV cache"));
  EXPECT_THAT(refusal_of([](auto& o) { o.model.kv_block_bytes *= 2; }), HasSubstr("KV cache"));
  EXPECT_THAT(refusal_of([](auto& o) { o.model.context_length = 256; }), HasSubstr("--model-context-max"));
  EXPECT_THAT(refusal_of([](auto& o) { o.instances = 0; }), HasSubstr("1 to 1024 instances"));
  EXPECT_THAT(refusal_of([](auto& o) { o.instances = 5000; }), HasSubstr("1 to 1024 instances"));
  EXPECT_THAT(refusal_of([](auto& o) { o.key = 0; }), HasSubstr("head's own"));
  EXPECT_EQ(c.cluster.cluster->gate()->view().instances.size(), 1U);
}

// The message that tells all of them to a process would end its connection.
TEST(Membership, AClusterHasNoMoreInstancesThanAMessageMayName) {
  joinable c(18);
  const auto fake = c.cluster.system->spawn<silent_member>();
  const auto join = [&](std::uint64_t key, std::uint32_t instances) {
    const auto answer = c.cluster.system->ask(
        c.head, 5s,
        actors::join_cluster{c.head_options.version, key, "there", instances, c.head_options.identity, fake});
    return answer ? answer->refusal : answer.error().message;
  };
  for (std::uint64_t key = 100; key < 115; ++key) EXPECT_EQ(join(key, 1024), "");
  EXPECT_EQ(join(115, 640), "the cluster has 15361 instances and takes no more than 16000, this member brings 640");
  EXPECT_EQ(join(115, 639), "");
  EXPECT_EQ(join(115, 639), "") << "it comes back";
  EXPECT_THAT(join(116, 1), HasSubstr("the cluster has 16000 instances"));
}

TEST(Membership, ALostMemberCostsNoTokenAndRepeatsNone) {
  std::uint64_t redispatches = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    joinable c(seed);
    auto random = c.cluster.world.random(23);
    std::vector<member_handle> members{c.start(c.options(1, 2)), c.start(c.options(2))};
    ASSERT_TRUE(c.run_until_ready(1) && c.run_until_ready(2));
    c.cluster.run_for(1ms); // everybody has heard of them
    const auto sinks = submit_some(c.cluster, 30);
    for (std::uint64_t losses = 0; losses < 3; ++losses) {
      c.cluster.run_for(std::chrono::microseconds(random.below(40'000)));
      const auto which = random.below(2);
      c.cluster.system->stop(members[which], runtime::stop_reason::killed);
      members[which] = c.start(c.options(10 + 2 * losses + which, 2)); // another process
    }
    ASSERT_TRUE(c.cluster.run_until_ended(sinks)) << "seed " << seed;
    expect_whole_answers(sinks);
    expect_no_identity_twice(c);
    redispatches += c.cluster.status().redispatches_total;
    c.cluster.run_for(1s);
    EXPECT_EQ(c.cluster.blocks_used(), 0U) << "seed " << seed;
  }
  EXPECT_GT(redispatches, 100U);
}

TEST(Membership, AProcessThatComesBackGetsItsIdsWithHigherGenerationsANewcomerFreshOnes) {
  joinable c(5);
  auto m = c.start(c.options(7, 2));
  ASSERT_TRUE(c.run_until_ready(7));
  const auto first = c.states[7].first;
  const auto before = c.states[7].pairs;
  c.cluster.system->stop(m, runtime::stop_reason::killed);
  ASSERT_TRUE(c.cluster.run_until([&] { return c.cluster.cluster->gate()->view().instances.size() == 1; }));

  m = c.start(c.options(7, 2));
  c.states[7] = {};
  ASSERT_TRUE(c.run_until_ready(7));
  EXPECT_EQ(c.states[7].first, first);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_GT(c.states[7].pairs[i].generation, before[i].generation);

  const auto other = c.start(c.options(8, 2));
  ASSERT_TRUE(c.run_until_ready(8));
  EXPECT_GE(c.states[8].first.value(), first.value() + 2);
  expect_no_identity_twice(c);
}

TEST(Membership, ThePairsOfAMemberAreRestartedAndTheHeadHearsOfIt) {
  joinable c(6);
  const auto m = c.start(c.options(7, 2));
  ASSERT_TRUE(c.run_until_ready(7));
  const auto victim = protocols::instance_id{c.states[7].first.value() + 1};
  c.cluster.cluster->kill(victim); // by way of the head
  ASSERT_TRUE(c.cluster.run_until([&] { return c.states[7].ready == 1; }));
  ASSERT_TRUE(c.run_until_ready(7));
  c.cluster.run_for(10ms);
  const auto entries = c.entries(7);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].generation, 1U);
  EXPECT_EQ(entries[1].generation, 2U);
  EXPECT_TRUE(entries[1].ready);
  expect_no_identity_twice(c);
}

TEST(Membership, AMemberThatLeavesIsOutBeforeItEnds) {
  joinable c(8);
  const auto m = c.start(c.options(7, 2));
  ASSERT_TRUE(c.run_until_ready(7));
  const auto sinks = submit_some(c.cluster, 30);
  c.cluster.run_for(5ms);
  ASSERT_TRUE(c.cluster.system->ask(m, 10s, actors::retire{}));
  c.cluster.run_for(1ms);
  EXPECT_EQ(c.cluster.cluster->gate()->view().instances.size(), 1U);
  ASSERT_TRUE(c.cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  EXPECT_EQ(c.states[7].joins, 1U);
  const auto searches = c.searches;
  c.cluster.run_for(1min);
  EXPECT_EQ(c.searches, searches) << "it does not come back";
}

TEST(Membership, AMemberLooksForItsHeadForEverWithBackOff) {
  joinable c(9);
  c.head = {};
  auto o = c.options(7);
  o.rejoin_min = 100ms;
  o.rejoin_max = 2s;
  const auto m = c.start(std::move(o));
  c.cluster.run_for(10min);
  // 100, 200, 400, 800, 1600 ms, and then every 2 s
  EXPECT_GT(c.searches, 290);
  EXPECT_LT(c.searches, 310);
  EXPECT_THAT(c.states[7].error, HasSubstr("nobody listens"));
  c.head = c.cluster.cluster->node();
  ASSERT_TRUE(c.run_until_ready(7));
  EXPECT_EQ(c.states[7].failures, 0U);
}

TEST(Membership, AfterTheLossOfItsHeadAMemberDropsAllAndServesTheNextHead) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    joinable c(seed);
    const auto m = c.start(c.options(7, 2));
    ASSERT_TRUE(c.run_until_ready(7));
    const auto lost = submit_some(c.cluster, 30);
    c.cluster.run_for(5ms);
    c.head = {};
    c.cluster.cluster.reset(); // ends the head and answers its clients
    ASSERT_TRUE(c.cluster.run_until([&] { return !c.states[7].joined; }));
    EXPECT_EQ(c.states[7].ready, 0U);
    const auto before = c.states[7].pairs;

    auto options = c.head_options;
    c.cluster.cluster = std::make_unique<actors::cluster>(*c.cluster.system, options);
    c.head = c.cluster.cluster->node();
    ASSERT_TRUE(c.run_until_ready(7));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_GT(c.states[7].pairs[i].generation, before[i].generation);
    ASSERT_TRUE(c.cluster.run_until([&] {
      const auto view = c.cluster.cluster->gate()->view();
      return view.instances.size() == 3 &&
             std::all_of(view.instances.begin(), view.instances.end(), [](const auto& e) { return e.ready; });
    }));
    EXPECT_EQ(c.cluster.blocks_used(), 0U);
    const auto sinks = submit_some(c.cluster, 30);
    ASSERT_TRUE(c.cluster.run_until_ended(sinks));
    expect_whole_answers(sinks);
  }
}

TEST(Membership, NewsThatDoNotFitTheBooksChangeNothing) {
  joinable c(10);
  const auto fake = c.cluster.system->spawn<silent_member>();
  const auto taken_in = c.cluster.system->ask(
      c.head, 5s, actors::join_cluster{c.head_options.version, 77, "there", 2, c.head_options.identity, fake});
  ASSERT_TRUE(taken_in && taken_in->joined());
  const auto send = [&](std::uint64_t key, std::uint64_t number, std::vector<actors::pair_entry> pairs) {
    c.cluster.system->tell(c.head, actors::member_news{key, number, std::move(pairs)});
    c.cluster.run_for(1ms);
    std::vector<std::uint64_t> generations;
    for (const auto& entry : c.cluster.cluster->gate()->view().instances) generations.push_back(entry.generation);
    return generations;
  };
  const auto generation = [](std::uint64_t n) { return actors::pair_entry{n, false, {}}; };
  using ::testing::ElementsAre;
  EXPECT_THAT(send(77, 5, {generation(1), generation(4)}), ElementsAre(1, 1, 4));
  EXPECT_THAT(send(77, 4, {generation(9), generation(9)}), ElementsAre(1, 1, 4)) << "older";
  EXPECT_THAT(send(77, 6, {generation(9)}), ElementsAre(1, 1, 4)) << "not its number of instances";
  EXPECT_THAT(send(78, 7, {generation(9), generation(9)}), ElementsAre(1, 1, 4)) << "nobody's";
  EXPECT_THAT(send(77, 8, {generation(2), generation(4)}), ElementsAre(1, 2, 4));
}

// An earlier head had admitted the member, which had given it up by then; its versions are the higher ones.
TEST(Membership, WhatAHeadThatWasGivenUpSaysDoesNotOutliveIt) {
  joinable c(12);
  const auto head = std::exchange(c.head, {});
  const auto member = c.start(c.options(7));
  ASSERT_TRUE(c.cluster.run_until([&] { return c.states[7].failures > 0; }));
  actors::topology late;
  late.version = 3000;
  c.cluster.system->tell(member, std::move(late));
  c.cluster.run_for(1ms);
  c.head = head;
  ASSERT_TRUE(c.run_until_ready(7));
  c.cluster.run_for(3s); // so long without a report and it is picked no more
  const auto sinks = submit_some(c.cluster, 30);
  ASSERT_TRUE(c.cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  const auto status = c.cluster.status();
  ASSERT_EQ(status.instances.size(), 2U);
  EXPECT_GT(status.instances[1].load.generated_tokens_total, 0U);
}

// The same while it is asked, before it says no.
TEST(Membership, WhatAHeadSaysBeforeItRefusesDoesNotOutliveIt) {
  joinable c(13);
  const auto refusing = c.cluster.system->spawn<mute>();
  member_handle member;
  int attempts = 0;
  auto options = c.options(7);
  options.find_head = [&](const std::function<void(actors::found_head)>& done) {
    if (attempts++ > 0) return done(c.head);
    done(node_handle{refusing.ref()}); // it understands nothing of it
    actors::topology early;
    early.version = 3000;
    c.cluster.system->tell(member, std::move(early));
  };
  member = c.start(std::move(options));
  ASSERT_TRUE(c.run_until_ready(7));
  EXPECT_EQ(attempts, 2);
  c.cluster.run_for(3s);
  const auto sinks = submit_some(c.cluster, 30);
  ASSERT_TRUE(c.cluster.run_until_ended(sinks));
  expect_whole_answers(sinks);
  EXPECT_GT(c.cluster.status().instances.at(1).load.generated_tokens_total, 0U);
}

TEST(Membership, StatusAsksAllInstancesAtOnceAndSaysWhoIsSilent) {
  joinable c(11);
  const auto fake = c.cluster.system->spawn<silent_member>();
  constexpr std::uint32_t silent = 20;
  ASSERT_TRUE(c.cluster.system->ask(
      c.head, 5s, actors::join_cluster{c.head_options.version, 77, "there", silent, c.head_options.identity, fake}));
  std::vector<actors::pair_entry> pairs;
  for (std::uint32_t i = 0; i < silent; ++i)
    pairs.emplace_back(1, false, runtime::handle<actors::llumlet_interface>{c.cluster.system->spawn<mute>().ref()});
  c.cluster.system->tell(c.head, actors::member_news{77, 1, std::move(pairs)});
  c.cluster.run_for(1ms);
  const auto before = c.cluster.world.now();
  const auto status = c.cluster.status();
  EXPECT_LT(c.cluster.world.now() - before, 3s);
  ASSERT_EQ(status.instances.size(), 1 + silent);
  EXPECT_EQ(status.instances[0].state, protocols::instance_state::ready);
  for (std::uint32_t i = 1; i <= silent; ++i) EXPECT_EQ(status.instances[i].state, protocols::instance_state::down);
  EXPECT_EQ(status.instances[1].node, "there");
}

// Who asked without end, and took no answer, had all of the head's memory.
TEST(Membership, TooManyWhoAskForTheStatusAtOnceAreRefused) {
  joinable c(17);
  const auto fake = c.cluster.system->spawn<silent_member>();
  ASSERT_TRUE(c.cluster.system->ask(
      c.head, 5s, actors::join_cluster{c.head_options.version, 77, "there", 1, c.head_options.identity, fake}));
  std::vector<actors::pair_entry> pairs;
  pairs.emplace_back(1, false, runtime::handle<actors::llumlet_interface>{c.cluster.system->spawn<mute>().ref()});
  c.cluster.system->tell(c.head, actors::member_news{77, 1, std::move(pairs)});
  c.cluster.run_for(1ms);
  for (int i = 0; i < 64; ++i) c.cluster.system->tell(c.head, actors::status_query{});
  const auto refused = c.cluster.system->ask(c.head, 10s, actors::status_query{});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, runtime::async::error_code::refused);
  c.cluster.run_for(5s);
  EXPECT_TRUE(c.cluster.system->ask(c.head, 10s, actors::status_query{}));
}

} // namespace godwit::test
