#include "actors/support/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::test {

using namespace std::chrono_literals;

protocols::generate_request catalogue_request(std::uint32_t number) {
  protocols::generate_request r;
  const auto group = number % 4; // 0: begins like no other
  const auto shared = group == 0 ? 0 : 12 + 20 * group;
  for (std::uint32_t i = 0; i < shared; ++i)
    r.prompt.push_back(static_cast<protocols::token_id>((group * 101 + i * 31) % 1000));
  const auto own = 1 + (number * 37) % 80;
  for (std::uint32_t i = 0; i < own; ++i)
    r.prompt.push_back(static_cast<protocols::token_id>((number * 7919 + i * 31) % 1000));
  r.stop.max_tokens = 5 + (number * 53) % 95;
  r.sampling.temperature = number % 3 == 0 ? 0.0F : 1.0F;
  r.sampling.seed = number;
  return r;
}

std::shared_ptr<recording_sink> submit_catalogue(sim_cluster& cluster, std::uint32_t number) {
  auto one = std::make_shared<actors::submission>();
  auto sink = std::make_shared<recording_sink>();
  one->request = catalogue_request(number);
  one->seeded = true;
  one->client_id = "r" + std::to_string(number);
  one->sink = sink;
  cluster.submit(std::move(one));
  return sink;
}

const std::vector<protocols::token_id>& calm_answer(std::uint32_t number) {
  static const auto answers = [] {
    sim_cluster cluster({.seed = 99, .instances = 1, .blocks = 4096, .waiting_max = 1000});
    std::vector<std::vector<protocols::token_id>> out;
    for (std::uint32_t i = 0; i < catalogue_size; ++i) {
      const auto sink = submit_catalogue(cluster, i);
      EXPECT_TRUE(cluster.run_until_ended({sink}));
      out.push_back(sink->tokens);
    }
    return out;
  }();
  return answers.at(number);
}

namespace {

void expect_beginning(const asked& one) {
  const auto& got = one.sink->tokens;
  const auto& whole = calm_answer(one.number);
  ASSERT_LE(got.size(), whole.size()) << "request " << one.number;
  EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin()))
      << "request " << one.number << ": a token is missing, repeated or another";
  if (one.sink->finished) {
    EXPECT_EQ(got.size(), whole.size()) << "request " << one.number;
  }
}

} // namespace

void expect_calm_answers(const std::vector<asked>& all) {
  for (const auto& one : all) {
    if (one.withdrawn) {
      expect_beginning(one);
      continue;
    }
    EXPECT_EQ(one.sink->endings, 1) << "request " << one.number;
    EXPECT_FALSE(one.sink->failed) << "request " << one.number << ": " << one.sink->failed->message;
    EXPECT_EQ(one.sink->tokens, calm_answer(one.number)) << "request " << one.number;
  }
}

void expect_beginnings(const std::vector<asked>& all) {
  for (const auto& one : all) {
    EXPECT_EQ(one.sink->endings, one.withdrawn && one.sink->endings == 0 ? 0 : 1) << "request " << one.number;
    expect_beginning(one);
  }
}

namespace {

std::string what_is_left(const protocols::cluster_status& status) {
  std::string out;
  const auto name = [&out](const char* what, std::uint64_t count, std::uint32_t instance) {
    if (count == 0) return;
    out += std::string(what) + " " + std::to_string(count) + " at instance " + std::to_string(instance) + "; ";
  };
  for (const auto& instance : status.instances) {
    const auto id = instance.instance.value();
    name("blocks", instance.load.blocks_used, id);
    name("running", instance.load.running, id);
    name("waiting", instance.load.waiting, id);
    name("parked", instance.load.migrating, id);
    name("migrations", instance.migrations.size(), id);
  }
  if (status.requests_open > 0) out += "open requests " + std::to_string(status.requests_open);
  return out;
}

} // namespace

void expect_nothing_left(sim_cluster& cluster, std::uint32_t instances, std::size_t alive) {
  std::string left;
  // Everything that waits is bounded; two minutes are more than all the bounds together.
  for (int i = 0; i < 60; ++i) {
    cluster.run_for(i == 0 ? 50ms : 2s);
    left.clear();
    if (!cluster.all_ready(instances)) left = "an instance is not ready; ";
    left += what_is_left(cluster.status());
    // The one who asks for the status counts while it asks.
    if (cluster.system->alive() != alive)
      left += std::to_string(cluster.system->alive()) + " actors instead of " + std::to_string(alive) + "; ";
    for (const auto& one : cluster.fabrics)
      if (const auto fabric = one.lock())
        if (const auto f = fabric->figures(); f.postings_open + f.sends_open > 0) left += "something in the fabric; ";
    if (left.empty()) return;
  }
  ADD_FAILURE() << "left behind: " << left;
}

} // namespace godwit::test
