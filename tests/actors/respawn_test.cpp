// Actors that die and cannot be made again at once: for want of memory, say, which may be back in a moment. Whoever
// keeps them tries again, and says what stood in the way.
#include "actors/support/sim_cluster.hpp"

#include <godwit/runtime/log/logger.hpp>
#include <godwit/transport/sim/disk.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

namespace {

/// A function of options that are copied for every actor: there is no memory for so many copies of it.
class scarce {
public:
  struct memory {
    int short_for = 0;
    int copies = 0;
  };
  explicit scarce(std::shared_ptr<memory> of) : of_(std::move(of)) { ++of_->copies; }
  scarce(const scarce& other) : of_(other.of_) {
    if (of_->short_for > 0) {
      --of_->short_for;
      throw std::bad_alloc();
    }
    ++of_->copies;
  }
  scarce& operator=(const scarce&) = delete;
  ~scarce() { --of_->copies; }
  void operator()(auto&&...) const {}

private:
  std::shared_ptr<memory> of_;
};

/// Has no memory for lines that begin so, so many times.
class scarce_log final : public runtime::log::backend {
public:
  [[nodiscard]] std::chrono::nanoseconds now() override { return {}; }
  void write(const runtime::log::record& r) override {
    if (on_line) on_line(r.message);
    if (short_for == 0 || !r.message.starts_with(beginning)) return;
    --short_for;
    throw std::bad_alloc();
  }
  void flush() override {}
  [[nodiscard]] std::uint64_t dropped() const override { return 0; }
  std::string beginning;
  int short_for = 0;
  std::function<void(std::string_view)> on_line;
};

/// A cluster in which memory can be short.
struct short_of_memory {
  explicit short_of_memory(const std::function<void(actors::node_options&, short_of_memory&)>& adjust = {},
                           sim_cluster_options o = {}) {
    o.adjust = [&](actors::node_options& n) {
      n.log = runtime::log::logger(log, runtime::log::level_filter(runtime::log::level::debug));
      if (adjust) adjust(n, *this);
    };
    cluster = std::make_unique<sim_cluster>(std::move(o));
  }
  std::shared_ptr<scarce::memory> memory = std::make_shared<scarce::memory>();
  std::shared_ptr<scarce_log> log = std::make_shared<scarce_log>();
  std::unique_ptr<sim_cluster> cluster;
};

/// A fabric and a disk for a shard of the KV store, of another world: the shard is to be made, not used.
struct store_parts {
  runtime::sim::world world{1};
  transport::sim::network network{world.timers(), {}};
  std::shared_ptr<transport::fabric> fabric = network.make_fabric("ours");
  void into(actors::node_options& n) {
    constexpr std::size_t chunk = gpu::sim::sim_block_bytes * protocols::blocks_per_chunk;
    n.identity = {"0123456789abcdef", "f32", gpu::sim::sim_block_bytes, 512};
    n.llumlet.store.bytes = 4 * chunk;
    transport::sim::disk_settings d;
    d.slots = 4;
    d.slot_bytes = chunk;
    n.llumlet.store.disk = transport::sim::make_disk(d, world.timers());
    n.llumlet.migration.fabric = fabric;
    n.llumlet.migration.transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
  }
};

} // namespace

TEST(Respawn, APairThatCannotBeMadeIsMadeLater) {
  for (const bool the_instance : {true, false}) {
    SCOPED_TRACE(the_instance);
    short_of_memory c([the_instance](actors::node_options& n, short_of_memory& of) {
      if (the_instance)
        n.instance.on_shards = scarce(of.memory);
      else
        n.llumlet.on_report = scarce(of.memory);
    });
    const auto copies = c.memory->copies;
    c.memory->short_for = 3;
    c.cluster->cluster->kill(protocols::instance_id{0});
    EXPECT_TRUE(c.cluster->run_until([&] { return c.memory->short_for == 0; }));
    EXPECT_TRUE(c.cluster->run_until([&] { return c.cluster->all_ready(2); }));
    c.cluster->run_for(1s);
    EXPECT_EQ(c.memory->copies, copies) << "no half pair is left";
    EXPECT_EQ(c.cluster->status().instances.at(0).restarts, 4U);
    EXPECT_THAT(c.cluster->reports, Contains("member: instance 0 cannot be started: std::bad_alloc").Times(3));
  }
}

TEST(Respawn, APairThatCannotBeMadeAtFirstIsMadeLater) {
  store_parts parts;
  short_of_memory c([&parts](actors::node_options& n, short_of_memory& of) {
    parts.into(n);
    n.instance.on_shards = scarce(of.memory);
    of.log->on_line = [memory = of.memory, once = false](std::string_view line) mutable {
      if (line.starts_with("KV store: below") && !std::exchange(once, true)) memory->short_for = 1; // made before
    };
  });
  EXPECT_TRUE(c.cluster->all_ready(2));
  EXPECT_EQ(c.memory->short_for, 0);
  EXPECT_THAT(c.cluster->reports, Contains("member: instance 0 cannot be started: std::bad_alloc").Times(1));
}

TEST(Respawn, AMemberThatHasJoinedHasItsInstancesThoughNobodyCouldBeToldSo) {
  short_of_memory c([](actors::node_options&, short_of_memory& of) {
    of.log->beginning = "joined with 2 instances";
    of.log->short_for = 1;
  });
  EXPECT_TRUE(c.cluster->all_ready(2));
  EXPECT_EQ(c.log->short_for, 0);
  c.cluster->run_for(1s);
  EXPECT_EQ(c.cluster->status().instances.size(), 2U);
  EXPECT_THAT(c.cluster->reports, Contains("member: after it has joined: std::bad_alloc").Times(1));
}

TEST(Respawn, APairIsMadeAgainThoughNobodyCouldBeToldOfItsEnd) {
  short_of_memory c;
  c.log->beginning = "instance 0 is down";
  c.log->short_for = 1;
  c.cluster->cluster->kill(protocols::instance_id{0});
  EXPECT_TRUE(c.cluster->run_until([&] { return c.log->short_for == 0; }));
  c.cluster->run_for(1s);
  const auto status = c.cluster->status();
  EXPECT_EQ(status.instances.at(0).state, protocols::instance_state::ready);
  EXPECT_EQ(status.instances.at(0).restarts, 1U);
}

TEST(Respawn, TheKeeperOfAProcessesInstancesIsMadeAgainWhateverStandsInTheWay) {
  store_parts parts;
  short_of_memory c([&parts](actors::node_options& n, short_of_memory& of) {
    parts.into(n);
    n.instance.on_shards = scarce(of.memory);
    of.log->beginning = "KV store: below"; // and so the keeper ends as it begins
    of.log->short_for = 1;
    of.log->on_line = [&of, ended = false](std::string_view line) mutable {
      if (!line.starts_with("the keeper") || std::exchange(ended, true)) return;
      of.memory->short_for = 2;
      throw std::bad_alloc();
    };
  });
  EXPECT_TRUE(c.cluster->all_ready(2));
  EXPECT_EQ(c.memory->short_for, 0);
  EXPECT_THAT(c.cluster->reports,
              Contains("node: the keeper of this process's instances cannot be started: std::bad_alloc").Times(2));
}

TEST(Respawn, TheShardOfAProcessIsMadeAgainWhateverStandsInTheWay) {
  store_parts parts;
  short_of_memory c([&parts](actors::node_options& n, short_of_memory&) { parts.into(n); });
  const auto stores = [&] { return c.cluster->cluster->gate()->view().stores; };
  c.cluster->run_for(10ms);
  ASSERT_EQ(stores().size(), 1U);
  const auto first = stores().front().shard;
  c.log->on_line = [&c, ended = false](std::string_view line) mutable {
    if (!line.starts_with("the KV store of this process is down") || std::exchange(ended, true)) return;
    c.log->beginning = "KV store: below";
    c.log->short_for = 2;
    throw std::bad_alloc();
  };
  c.cluster->system->stop(first, runtime::stop_reason::killed);
  EXPECT_TRUE(c.cluster->run_until([&] { return c.log->beginning.starts_with("KV store"); }));
  c.cluster->run_for(5s);
  EXPECT_EQ(c.log->short_for, 0);
  ASSERT_EQ(stores().size(), 1U);
  EXPECT_NE(stores().front().shard, first);
  EXPECT_THAT(c.cluster->reports,
              Contains("member: the KV store of this process cannot be started: std::bad_alloc").Times(2));
}

TEST(Respawn, AMemberLooksForItsHeadWhateverStandsInTheWay) {
  sim_cluster cluster;
  int searches = 0, failing = 2;
  const auto log = std::make_shared<scarce_log>();
  actors::member_state state;
  actors::member_options o;
  o.version = "test";
  o.key = 7;
  o.find_head = [&](const std::function<void(actors::found_head)>& done) {
    ++searches;
    if (failing > 0) {
      --failing;
      throw std::bad_alloc();
    }
    done(cluster.cluster->node());
  };
  o.instances = 0;
  o.capacity = 1;
  o.on_state = [&](const actors::member_state& now) { state = now; };
  o.log = runtime::log::logger(log, runtime::log::level_filter(runtime::log::level::debug));
  auto whom = cluster.system->spawn<actors::member>(std::move(o));
  EXPECT_TRUE(cluster.run_until([&] { return state.joined; })) << searches;
  EXPECT_EQ(searches, 3);
  EXPECT_THAT(state.error, "");

  log->beginning = "the head is gone";
  log->short_for = 1;
  failing = 100;
  cluster.system->stop(cluster.cluster->node(), runtime::stop_reason::killed);
  EXPECT_TRUE(cluster.run_until([&] { return log->short_for == 0; }));
  cluster.run_for(1s);
  EXPECT_GT(searches, 4) << "it goes on looking";
}

} // namespace godwit::test
