#include "actors/support/migration_storm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace godwit::test {

using namespace std::chrono_literals;
using runtime::async::counter_random;

namespace {

using microseconds = std::chrono::microseconds;

/// Bounds that fit the virtual times of a storm: a fault costs tens of steps, not minutes.
actors::migration_settings short_patience(counter_random& random) {
  actors::migration_settings m;
  m.limits.stages_max = 2 + static_cast<std::uint32_t>(random.below(7));
  m.limits.last_blocks_max = static_cast<std::uint32_t>(random.below(3));
  m.out_max = 1 + static_cast<std::uint32_t>(random.below(4));
  m.in_max = 1 + static_cast<std::uint32_t>(random.below(4));
  m.answer_timeout = 40ms;
  m.stage_timeout = 60ms;
  m.last_timeout = 30ms;
  m.lease = 80ms;
  m.claim_timeout = 30ms;
  m.portion_bytes = std::uint64_t{128} << random.below(4);
  m.copy_share = 0.25 + 0.25 * static_cast<double>(random.below(4));
  return m;
}

sim_cluster_options shape_of(const storm& s, counter_random& random) {
  sim_cluster_options o;
  o.seed = s.seed;
  o.instances = 2 + static_cast<std::uint32_t>(random.below(3));
  o.context = 256;
  o.blocks = s.memory_pressure ? 17 + static_cast<std::uint32_t>(random.below(20)) : 256;
  o.step_tokens_max = 16 + static_cast<std::uint32_t>(random.below(80));
  o.running_max = 3 + static_cast<std::uint32_t>(random.below(10));
  transport::sim::settings link;
  link.latency = microseconds(10 + random.below(1500));
  link.bytes_per_second = static_cast<double>(128U << random.below(10)) * 100;
  o.fabric = link;
  o.adjust = [settings = short_patience(random)](actors::node_options& n) {
    n.llumlet.migration.settings = settings;
    n.backoff_min = 5ms;
  };
  return o;
}

class weather {
public:
  weather(const storm& s, sim_cluster& cluster, std::uint32_t instances, counter_random& random)
      : storm_(s), cluster_(cluster), instances_(instances), random_(random) {}

  /// Perhaps something bad.
  void change() {
    if (storm_.kills && random_.below(40) == 0) cluster_.cluster->kill(protocols::instance_id{any()});
    if (storm_.links && random_.below(6) == 0) trouble_links();
    if (storm_.frontends && random_.below(120) == 0)
      cluster_.system->stop(cluster_.cluster->gate()->view().frontend, runtime::stop_reason::killed);
  }
  void clear() {
    for (std::uint32_t i = 0; i < instances_; ++i) heal(i);
  }

private:
  std::uint32_t any() { return static_cast<std::uint32_t>(random_.below(instances_)); }
  void heal(std::uint32_t who) {
    const auto name = sim_cluster::process_of(who);
    cluster_.network->thaw(name);
    cluster_.network->drop_acknowledgements(name, 0);
    for (std::uint32_t i = 0; i < instances_; ++i) cluster_.network->heal(name, sim_cluster::process_of(i));
  }
  void trouble_links() {
    const auto who = any();
    const auto name = sim_cluster::process_of(who);
    switch (random_.below(7)) {
    case 0:
      return cluster_.network->cut(name, sim_cluster::process_of(any()));
    case 1:
      return cluster_.network->freeze(name);
    case 2:
    case 3:
      return cluster_.network->drop_acknowledgements(name, 1 + static_cast<std::uint32_t>(random_.below(3)));
    default:
      return heal(who);
    }
  }

  const storm& storm_;
  sim_cluster& cluster_;
  std::uint32_t instances_;
  counter_random& random_;
};

} // namespace

void storm_outcome::add(const storm_outcome& other) {
  for (const auto& [name, count] : other.ends) ends[name] += count;
  for (const auto& [name, count] : other.hits) hits[name] += count;
  preemptions += other.preemptions;
  redispatches += other.redispatches;
  moves += other.moves;
  events += other.events;
}

std::uint32_t storm_outcome::with_outcome(const std::string& outcome) const {
  std::uint32_t sum = 0;
  for (const auto& [name, count] : ends)
    if (name.starts_with(outcome)) sum += count;
  return sum;
}

storm_outcome run_storm(const storm& s) {
  counter_random random(s.seed, 1001);
  counter_random luck(s.seed, 1002); // of the failpoints, which are passed in an order of their own
  storm_outcome out;
  auto options = shape_of(s, random);
  bool calm = false;
  const auto adjust = options.adjust;
  options.adjust = [&](actors::node_options& n) {
    adjust(n);
    n.llumlet.migration.hit = [&](std::string_view where) {
      ++out.hits[std::string(where)];
      // Adopted is passed by the llumlet itself, whose failure is that of its instance.
      const bool spared = where == "destination.adopted" && !s.kills;
      if (s.coordinators && !calm && !spared && where.starts_with(s.only) && luck.below(1000) < s.fault_permille)
        throw std::runtime_error("the weather");
    };
  };
  sim_cluster cluster(options);
  moves movers(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  weather sky(s, cluster, options.instances, random);

  std::vector<asked> all;
  const auto count = 6 + static_cast<std::uint32_t>(random.below(14));
  auto next = static_cast<std::uint32_t>(random.below(catalogue_size));
  const auto ended = [&] {
    for (const auto& one : all)
      if (!one.sink->ended() && !one.withdrawn) return false;
    return all.size() == count;
  };
  const auto pace = microseconds(300 + random.below(4000));
  for (int i = 0; i < 4000 && !ended(); ++i) {
    const bool home = static_cast<bool>(cluster.cluster->gate()->view().frontend);
    if (all.size() < count && home && random.below(3) == 0) {
      next = (next + 1) % catalogue_size;
      all.push_back({next, submit_catalogue(cluster, next)});
    }
    for (auto orders = random.below(3); orders > 0 && !all.empty(); --orders) {
      auto which = random.below(all.size());
      while (all[which].sink->ended() && random.below(8) > 0) which = random.below(all.size());
      movers.order(all[which].number, static_cast<std::uint32_t>(random.below(options.instances)));
    }
    if (s.withdrawals && !all.empty() && random.below(12) == 0) {
      auto& one = all[random.below(all.size())];
      one.withdrawn = one.withdrawn || !one.sink->ended();
      cluster.cluster->gate()->withdraw(one.sink);
    }
    sky.change();
    cluster.run_for(microseconds(random.below(static_cast<std::uint64_t>(pace.count()))));
  }
  calm = true;
  sky.clear();
  EXPECT_TRUE(cluster.run_until(ended)) << "a request does not end";
  EXPECT_TRUE(movers.run_until_settled()) << "a migration does not end";
  if (s.frontends)
    expect_beginnings(all);
  else
    expect_calm_answers(all);
  expect_nothing_left(cluster, options.instances, alive);
  if (!s.coordinators) {
    EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
  }

  const auto status = cluster.status();
  std::uint64_t drawn = 0;
  for (const auto& instance : status.instances) {
    out.preemptions += instance.load.preemptions_total;
    drawn += instance.load.generated_tokens_total;
  }
  if (!s.kills && !s.withdrawals && !s.frontends) {
    std::uint64_t wanted = 0;
    for (const auto& one : all) wanted += one.sink->tokens.size();
    EXPECT_EQ(drawn, wanted) << "a request ran at two instances, though only one of them was heard";
  }
  out.redispatches = status.redispatches_total;
  out.moves = status.moves_total;
  for (const auto& report : movers.journal->reports)
    ++out.ends[std::string(to_string(report.outcome)) + " " + std::string(to_string(report.reason))];
  out.events = cluster.events.count();
  out.hash = cluster.events.hash();
  return out;
}

storm_outcome run_storms(storm s, std::uint64_t count) {
  const char* more = std::getenv("GODWIT_TEST_SEEDS");
  count *= more == nullptr ? 1 : std::max<std::uint64_t>(1, std::strtoull(more, nullptr, 10));
  storm_outcome sum;
  for (s.seed = 1; s.seed <= count && !::testing::Test::HasFailure(); ++s.seed) {
    SCOPED_TRACE("seed " + std::to_string(s.seed));
    sum.add(run_storm(s));
  }
  for (const auto& [how, times] : sum.ends) std::printf("  %7u %s\n", times, how.c_str());
  std::printf("  %ju preemptions, %ju redispatches, %ju moves, %ju events\n", std::uintmax_t{sum.preemptions},
              std::uintmax_t{sum.redispatches}, std::uintmax_t{sum.moves}, std::uintmax_t{sum.events});
  return sum;
}

} // namespace godwit::test
