// Instances on several simulated devices, each with its actor: what the rest of the system sees of them.
#include "actors/support/catalogue.hpp"
#include "actors/support/divided_device.hpp"
#include "actors/support/mover.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

using shards = std::vector<runtime::handle<actors::shard_interface>>;

/// The actors of the instances' devices, by instance; of the last start.
using device_actors = std::map<std::uint32_t, shards>;

sim_cluster_options divided(std::uint64_t seed, const std::vector<std::uint32_t>& degrees, device_actors& devices) {
  sim_cluster_options o{
      .seed = seed, .instances = static_cast<std::uint32_t>(degrees.size()), .blocks = 64, .context = 256};
  o.fabric = transport::sim::settings{.bytes_per_second = 4e6, .latency = 100us};
  o.adjust = [degrees, &devices](actors::node_options& n) {
    n.backoff_min = 5ms;
    n.instance.make_executor = divide(n.instance.make_executor, degrees);
    n.instance.on_shards = [&devices](protocols::instance_id id, const shards& list) { devices[id.value()] = list; };
  };
  return o;
}

std::vector<asked> submit_all(sim_cluster& cluster, std::uint32_t count) {
  std::vector<asked> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({i, submit_catalogue(cluster, i)});
  return all;
}
bool run_until_ended(sim_cluster& cluster, const std::vector<asked>& all) {
  return cluster.run_until([&] {
    for (const auto& one : all)
      if (!one.sink->ended()) return false;
    return true;
  });
}

/// What goes wrong with one of the devices: an error of its step, or none that begins.
class failing_device final : public gpu::executor {
public:
  enum class fault { none, at_begin, in_step };
  failing_device(std::shared_ptr<gpu::executor> inner, std::shared_ptr<fault> what)
      : inner_(std::move(inner)), fault_(std::move(what)) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    if (*fault_ == fault::at_begin) {
      *fault_ = fault::none;
      throw std::runtime_error("out of memory");
    }
    return std::make_unique<step>(inner_->begin(std::move(input)), fault_);
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->value_region(layer, block);
  }

private:
  class step final : public gpu::forward {
  public:
    step(std::unique_ptr<gpu::forward> inner, std::shared_ptr<fault> what)
        : inner_(std::move(inner)), fault_(std::move(what)) {}
    [[nodiscard]] std::uint32_t layers() const noexcept override { return inner_->layers(); }
    void advance(std::uint32_t upto, gpu::completion done) override {
      inner_->advance(upto, [what = fault_, done = std::move(done)](std::string error) {
        const bool breaks = *what == fault::in_step;
        if (breaks) *what = fault::none;
        done(breaks ? "the device fell off the bus" : std::move(error));
      });
    }
    [[nodiscard]] protocols::step_output take() override { return inner_->take(); }

  private:
    std::unique_ptr<gpu::forward> inner_;
    std::shared_ptr<fault> fault_;
  };
  std::shared_ptr<gpu::executor> inner_;
  std::shared_ptr<fault> fault_;
};

} // namespace

// Its sums differ in the last bits from those that are computed there.
TEST(TensorParallelInstance, KvThatComesFromAnotherDegreeIsCachedForNobody) {
  for (const std::vector<std::uint32_t>& degrees : {std::vector{1U, 2U}, std::vector{2U, 1U}, std::vector{2U, 2U}}) {
    device_actors devices;
    sim_cluster cluster(divided(3, degrees, devices));
    moves movers(cluster);
    const auto sink = cluster.submit(1, 100, 60);
    ASSERT_TRUE(cluster.run_until([&] { return sink->tokens.size() >= 4; }));
    const auto source = cluster.instance_with(protocols::request_state::running).value_or(0);
    const auto report = movers.move(1, 1 - source);
    ASSERT_TRUE(report.committed()) << to_string(report.reason);
    ASSERT_TRUE(cluster.run_until_ended({sink}));
    cluster.run_for(1s);
    const auto cached = cluster.status().instances.at(1 - source).load.blocks_cached;
    EXPECT_EQ(cached > 0, degrees[0] == degrees[1]) << degrees[0] << " and " << degrees[1] << ": " << cached;
  }
}

TEST(TensorParallelInstance, GivesTheAnswersOfOneDeviceWhateverItsDegreeAndStride) {
  for (const std::uint32_t stride : {0U, 1U, 3U}) {
    device_actors devices;
    auto o = divided(7 + stride, {1, 2, 4}, devices);
    o.adjust = [adjust = o.adjust, stride](actors::node_options& n) {
      adjust(n);
      n.instance.layers_per_advance = stride;
    };
    sim_cluster cluster(o);
    EXPECT_FALSE(devices.contains(0)) << "one device needs no actor of its own";
    EXPECT_EQ(devices[1].size(), 2U);
    EXPECT_EQ(devices[2].size(), 4U);
    const auto status = cluster.status();
    ASSERT_EQ(status.instances.size(), 3U);
    EXPECT_EQ(status.instances[2].device, "4 x sim");
    const auto alive = cluster.system->alive();
    const auto all = submit_all(cluster, 30);
    ASSERT_TRUE(run_until_ended(cluster, all));
    expect_calm_answers(all);
    expect_nothing_left(cluster, 3, alive);
  }
}

TEST(TensorParallelInstance, RequestsMoveBetweenAllDegreesWhileTheyDecode) {
  device_actors devices;
  sim_cluster cluster(divided(3, {1, 2, 4}, devices));
  moves movers(cluster);
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
  for (std::uint32_t round = 0; round < 6; ++round) {
    const std::vector<asked> all{{traveller, submit_catalogue(cluster, traveller)}};
    std::size_t at = 5;
    for (std::uint32_t i = 0; i < 8 && cluster.run_until([&] { return all[0].sink->tokens.size() >= at; }); ++i) {
      const auto from = cluster.instance_with(protocols::request_state::running);
      ASSERT_TRUE(from);
      const auto to = (*from + 1 + (round + i / 3) % 2) % 3;
      const auto report = movers.move(traveller, to);
      EXPECT_TRUE(report.committed()) << to_string(report.reason);
      ways.emplace(*from, to);
      at = all[0].sink->tokens.size() + 3;
    }
    ASSERT_TRUE(run_until_ended(cluster, all));
    expect_calm_answers(all);
  }
  EXPECT_EQ(ways.size(), 6U) << "from each to each";
  expect_nothing_left(cluster, 3, alive);
  EXPECT_TRUE(cluster.reports.empty()) << cluster.reports.front();
}

// The instance fails as one with a broken device does: its requests are dispatched anew, and it is restarted.
TEST(TensorParallelInstance, ADeviceWhoseActorDiesEndsTheInstanceAtEveryMoment) {
  std::uint64_t redispatches = 0;
  for (std::uint32_t step = 0; step < 400 && !HasFailure(); step += 1 + step / 40) {
    SCOPED_TRACE("step " + std::to_string(step));
    device_actors devices;
    sim_cluster cluster(divided(1 + step % 5, {2, 4}, devices));
    cluster.run_for(1ms);
    const auto alive = cluster.system->alive();
    const auto all = submit_all(cluster, 6);
    for (std::uint32_t i = 0; i < step; ++i) cluster.world.step();
    const auto instance = step % 2;
    const auto victim = devices.at(instance).at(step / 2 % devices.at(instance).size());
    cluster.system->stop(victim, step % 3 == 0 ? runtime::stop_reason::killed : runtime::stop_reason::shutdown);
    ASSERT_TRUE(run_until_ended(cluster, all));
    expect_calm_answers(all);
    ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
    EXPECT_NE(devices.at(instance).front(), victim);
    const auto status = cluster.status();
    EXPECT_EQ(status.instances[instance].restarts, 1U);
    EXPECT_EQ(status.instances[1 - instance].restarts, 0U);
    redispatches += status.redispatches_total;
    expect_nothing_left(cluster, 2, alive);
  }
  EXPECT_GT(redispatches, 50U);
}

TEST(TensorParallelInstance, AnErrorOfOneDeviceEndsTheInstanceWhicheverItIs) {
  using fault = failing_device::fault;
  for (const auto what : {fault::at_begin, fault::in_step})
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const auto pending = std::make_shared<fault>(fault::none);
      device_actors devices;
      auto o = divided(rank + 1, {4, 1}, devices);
      o.adjust = [pending, rank, adjust = o.adjust](actors::node_options& n) {
        const auto make = n.instance.make_executor;
        adjust(n);
        n.instance.make_executor =
            divide(make, {4, 1},
                   [pending, rank](protocols::instance_id id, std::uint32_t which,
                                   std::shared_ptr<gpu::executor> device) -> std::shared_ptr<gpu::executor> {
                     if (id.value() != 0 || which != rank) return device;
                     return std::make_shared<failing_device>(std::move(device), pending);
                   });
      };
      sim_cluster cluster(o);
      cluster.run_for(1ms);
      const auto alive = cluster.system->alive();
      const auto all = submit_all(cluster, 8);
      ASSERT_TRUE(cluster.run_until([&] {
        std::size_t tokens = 0;
        for (const auto& one : all) tokens += one.sink->tokens.size();
        return tokens > 20;
      }));
      *pending = what;
      ASSERT_TRUE(run_until_ended(cluster, all));
      expect_calm_answers(all);
      ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
      EXPECT_EQ(*pending, fault::none) << "it has happened";
      const auto status = cluster.status();
      EXPECT_EQ(status.instances[0].restarts, 1U);
      EXPECT_GT(status.redispatches_total, 0U);
      expect_nothing_left(cluster, 2, alive);
    }
}

TEST(TensorParallelInstance, KilledOneTakesItsDevicesActorsAlong) {
  device_actors devices;
  sim_cluster cluster(divided(5, {4, 2}, devices));
  cluster.run_for(1ms);
  const auto alive = cluster.system->alive();
  const auto all = submit_all(cluster, 10);
  cluster.run_for(20ms);
  cluster.cluster->kill(protocols::instance_id{0});
  ASSERT_TRUE(run_until_ended(cluster, all));
  expect_calm_answers(all);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.all_ready(2); }));
  expect_nothing_left(cluster, 2, alive);
}

} // namespace godwit::test
