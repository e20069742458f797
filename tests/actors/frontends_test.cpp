#include "actors/support/sim_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

// Front ends in processes of their own, beside the head's.
namespace godwit::test::frontends {
namespace {

using namespace std::chrono_literals;
using sinks = std::vector<std::shared_ptr<recording_sink>>;

constexpr std::uint32_t requests = 24;

sim_cluster_options two_instances(std::uint64_t seed) {
  sim_cluster_options o;
  o.seed = seed;
  o.instances = 2;
  o.waiting_max = 1000;
  o.fabric = transport::sim::settings{};
  o.nodes = true;
  return o;
}

std::uint32_t prompt_of(std::uint32_t number) { return 1 + (number * 37) % 150; }
std::uint32_t answer_of(std::uint32_t number) { return 20 + (number * 53) % 90; }

const std::vector<std::vector<protocols::token_id>>& calm() {
  static const auto answers = [] {
    std::vector<std::vector<protocols::token_id>> out;
    sim_cluster cluster({.seed = 1, .blocks = 4096, .waiting_max = 1000});
    sinks all;
    for (std::uint32_t i = 0; i < requests; ++i) all.push_back(cluster.submit(i, prompt_of(i), answer_of(i)));
    EXPECT_TRUE(cluster.run_until_ended(all));
    for (const auto& sink : all) out.push_back(sink->tokens);
    return out;
  }();
  return answers;
}

void expect_whole(std::uint32_t number, const recording_sink& sink) {
  EXPECT_EQ(sink.endings, 1) << number;
  EXPECT_FALSE(sink.failed) << number << ": " << sink.failed->message;
  EXPECT_EQ(sink.tokens, calm()[number]) << number;
}

bool all_ended(const sinks& all) {
  return std::ranges::all_of(all, [](const auto& sink) { return sink->ended(); });
}

/// Requests to each front end in turn.
sinks submit_to(sim_cluster& cluster, const std::vector<actors::frontend_gate*>& gates) {
  sinks out;
  for (std::uint32_t i = 0; i < requests; ++i)
    out.push_back(cluster.submit_at(*gates[i % gates.size()], i, prompt_of(i), answer_of(i)));
  return out;
}

/// Until it is told of instances that take requests.
[[nodiscard]] bool comes_up(sim_cluster& cluster, actors::frontend_gate& gate, std::size_t instances = 2) {
  return cluster.run_until([&] {
    const auto view = gate.view();
    return view.frontend && view.scheduler && view.instances.size() == instances &&
           std::ranges::all_of(view.instances, [](const auto& entry) { return entry.takes_requests(); });
  });
}

TEST(Frontends, AnswersComeFromAllOfThemAndAreTheSame) {
  sim_cluster cluster(two_instances(1));
  const auto first = cluster.start_frontend(10, "front-0"), second = cluster.start_frontend(11, "front-1");
  ASSERT_TRUE(comes_up(cluster, *first) && comes_up(cluster, *second));
  const auto all = submit_to(cluster, {cluster.cluster->gate().get(), first.get(), second.get()});
  cluster.run_for(20ms);
  const auto running = cluster.status(true);
  ASSERT_EQ(running.frontends.size(), 3U);
  EXPECT_EQ(running.frontends[0].node, cluster.cluster->status()->frontends[0].node);
  EXPECT_EQ(running.frontends[0].home, 0U);
  std::set<std::uint16_t> homes;
  std::set<std::string> nodes;
  std::uint64_t open = 0;
  for (const auto& front : running.frontends) {
    EXPECT_TRUE(front.answers);
    EXPECT_GT(front.requests_open, 0U) << front.node;
    homes.insert(front.home);
    nodes.insert(front.node);
    open += front.requests_open;
  }
  EXPECT_EQ(homes.size(), 3U);
  EXPECT_EQ(nodes.count("front-0") + nodes.count("front-1"), 2U);
  EXPECT_EQ(running.requests_open, open);
  std::set<std::string> names;
  for (const auto& instance : running.instances)
    for (const auto& request : instance.requests) names.insert(request.client_id);
  EXPECT_FALSE(names.contains("")) << "each front end knows what its clients call their requests";
  ASSERT_TRUE(cluster.run_until_ended(all));
  for (std::uint32_t i = 0; i < requests; ++i) expect_whole(i, *all[i]);
  cluster.run_for(1s);
  const auto after = cluster.status();
  EXPECT_EQ(after.requests_finished_total, requests);
  EXPECT_EQ(after.requests_open, 0U);
  EXPECT_EQ(cluster.blocks_used(), 0U);
}

// By the number that it has, or by its name, whichever front end it came to.
TEST(Frontends, TheHeadMovesAndExplainsRequestsOfEachOfThem) {
  auto options = two_instances(2);
  options.latency.base_us = 3000; // long answers
  sim_cluster cluster(options);
  const auto front = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *front));
  const auto here = cluster.submit(1, 40, 100);
  const auto there = cluster.submit_at(*front, 2, 40, 100);
  cluster.run_for(30ms);
  std::map<std::string, std::pair<protocols::request_id, std::uint32_t>> places;
  for (const auto& instance : cluster.status(true).instances)
    for (const auto& request : instance.requests)
      places[request.client_id] = {request.request, instance.instance.value()};
  ASSERT_EQ(places.size(), 2U);
  EXPECT_NE(protocols::home_of(places["r1"].first), protocols::home_of(places["r2"].first));
  const auto ask = [&](auto what) { return cluster.system->ask(cluster.cluster->node(), 30s, std::move(what)); };
  const auto other = [&](const std::string& name) { return protocols::instance_id{1 - places[name].second}; };
  for (const auto& name : {"r1", "r2"}) {
    const auto moved = ask(actors::migrate_request{{}, name, other(name)});
    ASSERT_TRUE(moved);
    EXPECT_TRUE(moved->committed()) << name << " " << to_string(moved->reason);
    EXPECT_EQ(moved->request, places[name].first);
    const auto story = ask(actors::history_query{{}, name});
    ASSERT_TRUE(story);
    EXPECT_TRUE(story->found);
    EXPECT_EQ(story->request, places[name].first);
    EXPECT_EQ(story->instance, other(name));
    const auto back = ask(actors::migrate_request{places[name].first, {}, protocols::instance_id{places[name].second}});
    ASSERT_TRUE(back);
    EXPECT_TRUE(back->committed()) << name << " by its number: " << to_string(back->reason);
    const auto by_number = ask(actors::history_query{places[name].first, {}});
    ASSERT_TRUE(by_number);
    EXPECT_EQ(by_number->client_id, name);
  }
  const auto nobody = ask(actors::migrate_request{{}, "nobody's", protocols::instance_id{0}});
  ASSERT_TRUE(nobody);
  EXPECT_EQ(nobody->reason, protocols::migration_reason::request_unknown);
  const auto gone = ask(actors::migrate_request{protocols::make_request_id(77, 1), {}, protocols::instance_id{0}});
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->reason, protocols::migration_reason::home_lost);
  ASSERT_TRUE(cluster.run_until_ended({here, there}));
  EXPECT_FALSE(here->failed || there->failed);
  const auto ended = ask(actors::history_query{{}, "r2"});
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->found && ended->ended);
}

// What it had asked for is computed for nobody.
TEST(Frontends, OneThatDiesTakesNothingWithItButItsOwnRequests) {
  for (const auto how : {runtime::sim::crash_kind::reset, runtime::sim::crash_kind::silent}) {
    sim_cluster cluster(two_instances(3));
    const auto front = cluster.start_frontend(10, "front-0");
    ASSERT_TRUE(comes_up(cluster, *front));
    const auto all = submit_to(cluster, {cluster.cluster->gate().get(), front.get()});
    cluster.run_for(10ms);
    ASSERT_FALSE(all_ended(all));
    cluster.processes.at("front-0")->crash(how);
    sinks rest;
    for (std::uint32_t i = 0; i < requests; i += 2) rest.push_back(all[i]);
    ASSERT_TRUE(cluster.run_until_ended(rest));
    for (std::uint32_t i = 0; i < requests; i += 2) expect_whole(i, *all[i]);
    cluster.run_for(5s);
    const auto status = cluster.status(true);
    EXPECT_EQ(status.frontends.size(), 1U);
    EXPECT_EQ(cluster.blocks_used(), 0U);
    for (const auto& instance : status.instances) EXPECT_TRUE(instance.requests.empty());
    // The next process of that name serves.
    const auto again = cluster.start_frontend(12, "front-0");
    ASSERT_TRUE(comes_up(cluster, *again));
    const auto sink = cluster.submit_at(*again, 7, prompt_of(7), answer_of(7));
    ASSERT_TRUE(cluster.run_until_ended({sink}));
    expect_whole(7, *sink);
  }
}

// The head's own clients lose their answers with it. Those of the others see a pause.
TEST(Frontends, ClientsOfTheOthersOutliveTheHead) {
  for (const auto how : {runtime::sim::crash_kind::reset, runtime::sim::crash_kind::silent})
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      sim_cluster cluster(two_instances(seed));
      const auto first = cluster.start_frontend(10, "front-0"), second = cluster.start_frontend(11, "front-1");
      ASSERT_TRUE(comes_up(cluster, *first) && comes_up(cluster, *second));
      const auto all = submit_to(cluster, {first.get(), second.get()});
      cluster.run_for(3ms * seed);
      ASSERT_FALSE(all_ended(all));
      cluster.crash_head(how);
      cluster.run_for(how == runtime::sim::crash_kind::reset ? 100ms : 5s);
      EXPECT_FALSE(all_ended(all));
      EXPECT_FALSE(first->ready()) << "its process says that it takes no requests";
      EXPECT_TRUE(first->view().instances.empty());
      cluster.restart_head();
      ASSERT_TRUE(cluster.run_until_ended(all));
      for (std::uint32_t i = 0; i < requests; ++i) expect_whole(i, *all[i]);
      cluster.run_for(30s);
      EXPECT_TRUE(cluster.all_ready(2));
      EXPECT_EQ(cluster.blocks_used(), 0U);
      const auto status = cluster.status();
      EXPECT_EQ(status.frontends.size(), 3U);
      EXPECT_EQ(status.requests_finished_total, requests) << "the front ends have counted on";
      EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
    }
}

// An instance may hear of its end by the topology alone: its handle may be one of before.
TEST(Frontends, AnInstanceDropsWhatIsOfAHomeThatIsNamedNoMore) {
  auto options = two_instances(1);
  options.instances = 1;
  options.latency.base_us = 20'000;
  sim_cluster cluster(options);
  const auto front = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *front, 1));
  const auto sink = cluster.submit_at(*front, 3, prompt_of(3), answer_of(3));
  cluster.run_for(100ms);
  ASSERT_EQ(cluster.status(true).instances[0].requests.size(), 1U);
  auto told = cluster.cluster->gate()->view();
  ASSERT_EQ(told.frontends.size(), 1U);
  told.version += 1'000;
  told.frontends.clear();
  cluster.system->tell(told.instances[0].llumlet, told);
  cluster.run_for(200ms);
  EXPECT_TRUE(cluster.status(true).instances[0].requests.empty());
  ASSERT_TRUE(cluster.run_until_ended({sink})) << "its home, which lives, finds that out";
  expect_whole(3, *sink);
}

TEST(Frontends, OneWhoseLinkIsCutGoesOnWhenItIsHealed) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    sim_cluster cluster(two_instances(seed));
    const auto front = cluster.start_frontend(10, "front-0");
    ASSERT_TRUE(comes_up(cluster, *front));
    const auto all = submit_to(cluster, {cluster.cluster->gate().get(), front.get()});
    cluster.run_for(5ms);
    ASSERT_FALSE(all_ended(all));
    cluster.world.network().cut("head", "front-0");
    cluster.run_for(5s);
    EXPECT_EQ(cluster.status().frontends.size(), 1U);
    EXPECT_EQ(cluster.blocks_used(), 0U) << "nobody computes for whom nobody hears";
    cluster.world.network().heal("head", "front-0");
    ASSERT_TRUE(cluster.run_until_ended(all));
    for (std::uint32_t i = 0; i < requests; ++i) expect_whole(i, *all[i]);
    cluster.run_for(10s);
    EXPECT_EQ(cluster.status().frontends.size(), 2U);
    EXPECT_EQ(cluster.blocks_used(), 0U);
  }
}

// Requests would get the same ids.
TEST(Frontends, TwoThatChooseOneNumberGetTwo) {
  sim_cluster cluster(two_instances(1));
  const auto first = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *first));
  const auto second = cluster.start_frontend(10 + (protocols::nobodys_home - 1), "front-1");
  ASSERT_TRUE(comes_up(cluster, *second));
  cluster.run_for(1s);
  const auto status = cluster.status();
  ASSERT_EQ(status.frontends.size(), 3U);
  EXPECT_EQ(
      std::set<std::uint16_t>({status.frontends[0].home, status.frontends[1].home, status.frontends[2].home}).size(),
      3U);
  const auto all = submit_to(cluster, {first.get(), second.get()});
  ASSERT_TRUE(cluster.run_until_ended(all));
  for (std::uint32_t i = 0; i < requests; ++i) expect_whole(i, *all[i]);
}

TEST(Frontends, OneThatLeavesTellsItsClientsAndTheHead) {
  sim_cluster cluster(two_instances(1));
  const auto front = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *front));
  const auto all = submit_to(cluster, {front.get()});
  cluster.run_for(5ms);
  ASSERT_FALSE(all_ended(all));
  ASSERT_TRUE(cluster.processes.at("front-0")->shutdown());
  EXPECT_TRUE(all_ended(all));
  for (const auto& sink : all) EXPECT_EQ(sink->endings, 1);
  EXPECT_TRUE(std::ranges::any_of(
      all, [](const auto& sink) { return sink->failed && sink->failed->kind == actors::failure_kind::unavailable; }));
  cluster.run_for(1s);
  EXPECT_EQ(cluster.status().frontends.size(), 1U);
  EXPECT_EQ(cluster.blocks_used(), 0U);
}

// Clocks of processes count from their starts.
TEST(Frontends, QueuesGoByOneClock) {
  for (const bool ahead : {true, false}) {
    auto options = two_instances(1);
    options.instances = 1;
    options.running_max = 1;
    sim_cluster cluster(options);
    if (!ahead) cluster.system->jump_clock(24h);
    const auto front = cluster.start_frontend(10, "front-0");
    if (ahead) cluster.processes.at("front-0")->jump_clock(24h);
    ASSERT_TRUE(comes_up(cluster, *front, 1));
    std::vector<std::uint32_t> order;
    sinks all;
    const auto ask = [&](actors::frontend_gate& gate, std::uint32_t number) {
      all.push_back(cluster.submit_at(gate, number, 20, 20));
      all.back()->on_each = [&order, number] {
        if (std::ranges::find(order, number) == order.end()) order.push_back(number);
      };
      cluster.run_for(2ms);
    };
    ask(*cluster.cluster->gate(), 1);
    ask(*front, 2);
    ask(*cluster.cluster->gate(), 3);
    ask(*front, 4);
    ask(*cluster.cluster->gate(), 5);
    ASSERT_TRUE(cluster.run_until_ended(all));
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 4, 5})) << (ahead ? "ahead" : "behind");
  }
}

// As one does that has taken its home for dead.
TEST(Frontends, WhatAnInstanceHasForgottenIsDispatchedAgain) {
  auto options = two_instances(1);
  options.instances = 1;
  options.latency.base_us = 20'000;
  sim_cluster cluster(options);
  const auto front = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *front, 1));
  const auto sink = cluster.submit_at(*front, 3, prompt_of(3), answer_of(3));
  cluster.run_for(100ms);
  ASSERT_FALSE(sink->ended());
  const auto view = cluster.cluster->gate()->view();
  const auto known = cluster.status(true);
  ASSERT_EQ(known.instances[0].requests.size(), 1U);
  cluster.system->tell(view.instances[0].llumlet,
                       protocols::cancel_request{known.instances[0].requests[0].request, protocols::epoch{1000}});
  ASSERT_TRUE(cluster.run_until_ended({sink}));
  expect_whole(3, *sink);
  EXPECT_EQ(cluster.status().redispatches_total, 1U);
}

TEST(Frontends, ItsExecutionPrioritiesAreTheHeads) {
  sim_cluster cluster(two_instances(1));
  const auto front = cluster.start_frontend(10, "front-0", [](actors::frontend_options& o) {
    o.execution_levels = {"high", "normal"};
  });
  cluster.run_for(5s);
  EXPECT_FALSE(front->ready());
  EXPECT_EQ(cluster.status().frontends.size(), 1U);
}

TEST(Frontends, SoManyAreTakenInAsMayBe) {
  auto options = two_instances(1);
  options.adjust = [](actors::node_options& n) { n.frontends_max = 1; };
  sim_cluster cluster(options);
  const auto first = cluster.start_frontend(10, "front-0");
  ASSERT_TRUE(comes_up(cluster, *first));
  const auto second = cluster.start_frontend(11, "front-1");
  cluster.run_for(5s);
  EXPECT_FALSE(second->ready());
  EXPECT_EQ(cluster.status().frontends.size(), 2U);
  cluster.processes.at("front-0")->crash(runtime::sim::crash_kind::reset);
  EXPECT_TRUE(comes_up(cluster, *second)) << "there is a place now";
}

} // namespace
} // namespace godwit::test::frontends
