// Instances on one CUDA device and on several that share the model, between which requests migrate: on emulated GPUs
// with every build, on real ones where there are enough (ctest -L gpu).
#include "actors/support/waiting_sink.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/cuda/cuda_support.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/in_process/fabric.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

using gpu::cuda::testing::four_kv_heads;
using tokens = std::vector<protocols::token_id>;

constexpr std::uint32_t answer_length = 70;

const gpu::cpu::testing::memory_weights& weights() {
  static const gpu::cpu::testing::memory_weights all(four_kv_heads(), gpu::model::data_type::bf16, 11);
  return all;
}

tokens prompt(std::uint32_t number) {
  return gpu::cpu::testing::some_tokens(20 + 13 * number, four_kv_heads().vocabulary, number);
}

/// The devices of one instance: from `first` on.
struct share {
  std::uint32_t degree = 1;
  std::uint32_t first = 0;
  bool staged = false; ///< each has some of the layers
};

/// A cluster whose instances have these devices. `drafts`: each has the model once more, as its draft model, on the
/// first of them.
class gpu_cluster {
public:
  gpu_cluster(std::shared_ptr<gpu::cuda::cuda_backend> backend, const std::vector<share>& list, bool drafts = false) {
    actors::node_options o;
    o.version = "test";
    o.model = "random";
    o.instances = static_cast<std::uint32_t>(list.size());
    o.backoff_min = 1ms;
    o.instance.pipeline_rows = 8; // prompts are cut
    o.instance.on_shards = [this](protocols::instance_id id, const auto& shards) {
      const std::lock_guard lock(mutex_);
      shards_[id.value()] = shards;
    };
    std::vector<gpu::cuda::testing::model_parts> parts, beside;
    const std::vector<std::uint32_t> layer_each(four_kv_heads().layers, 1);
    for (const auto& one : list) {
      using gpu::cuda::testing::upload_parts, gpu::cuda::testing::upload_stages;
      parts.push_back(one.staged ? upload_stages(*backend, four_kv_heads(), weights(), layer_each, one.first)
                                 : upload_parts(*backend, four_kv_heads(), weights(), one.degree, one.first));
      if (drafts)
        beside.push_back(gpu::cuda::testing::upload_parts(*backend, four_kv_heads(), weights(), 1, one.first));
    }
    if (drafts) o.llumlet.planner.speculation.model_max = 3;
    o.instance.make_executor = [backend, parts, beside](protocols::instance_id id,
                                                        const std::function<void(actors::executor_outcome)>& done) {
      gpu::cuda::cuda_executor_settings settings;
      settings.blocks = 64;
      settings.step_tokens = 64;
      settings.deterministic = true;
      try {
        std::shared_ptr<gpu::executor> made = backend->make_executor(parts[id.value()], settings, 20s);
        if (!beside.empty())
          made = gpu::make_drafted_executor(std::move(made), backend->make_executor(beside[id.value()], settings, 20s));
        done({std::move(made), {}});
      } catch (const std::exception& failure) {
        done({nullptr, failure.what()});
      }
    };
    transport::device_memory memory;
    memory.copier = backend->make_copier(0);
    memory.bytes_per_piece = 1 << 14;
    o.llumlet.planner.context_length = 512;
    o.llumlet.planner.step_tokens_max = 64;
    o.llumlet.migration.fabric =
        transport::in_process::make_fabric(transport::in_process::make_hub({.device = memory}));
    o.llumlet.migration.settings.limits.last_blocks_max = 1; // more than one stage
    o.scheduler.policies.migration = protocols::migration_policy::none;
    o.scheduler.policies.dispatch = "round_robin";
    cluster = std::make_unique<actors::cluster>(system, std::move(o));
    EXPECT_TRUE(cluster->gate()->wait_ready(static_cast<std::uint32_t>(list.size()), 30s));
  }
  ~gpu_cluster() {
    cluster.reset();
    const std::lock_guard lock(mutex_);
    shards_.clear();
  }

  std::shared_ptr<waiting_sink> submit(std::uint32_t number) {
    auto one = std::make_shared<actors::submission>();
    one->request.prompt = prompt(number);
    one->request.sampling.temperature = 0;
    one->request.stop.max_tokens = answer_length;
    one->request.stop.ignore_eos = true;
    one->seeded = true;
    auto sink = std::make_shared<waiting_sink>(all);
    one->sink = sink;
    EXPECT_TRUE(cluster->gate()->submit({std::move(one)}));
    return sink;
  }
  void wait_ended(std::size_t count) {
    std::unique_lock lock(all->mutex);
    EXPECT_TRUE(all->changed.wait_for(lock, 90s, [&] { return all->ended >= count; }));
  }
  /// Moves whatever runs to the next instance, again and again, until so many requests have ended. The instances that
  /// requests went from and to.
  std::set<std::pair<std::uint32_t, std::uint32_t>> move_until(std::size_t ended) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
    const auto over = [&] {
      const std::lock_guard lock(all->mutex);
      return all->ended >= ended;
    };
    const auto until = std::chrono::steady_clock::now() + 90s;
    while (!over() && std::chrono::steady_clock::now() < until) {
      const auto status = cluster->status(true);
      if (!status) continue;
      const auto count = static_cast<std::uint32_t>(status->instances.size());
      for (const auto& instance : status->instances)
        for (const auto& request : instance.requests) {
          const auto from = instance.instance.value(), to = (from + 1) % count;
          const auto report = cluster->migrate(request.request, protocols::instance_id{to});
          if (report && report->committed()) ways.emplace(from, to);
        }
      std::this_thread::yield();
    }
    return ways;
  }
  void end_device(std::uint32_t instance, std::size_t rank) {
    const std::lock_guard lock(mutex_);
    system.stop(shards_.at(instance).at(rank), runtime::stop_reason::killed);
  }

  runtime::actor_system system;
  std::unique_ptr<actors::cluster> cluster;
  std::shared_ptr<waiting_sink::group> all = std::make_shared<waiting_sink::group>();

private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::vector<runtime::handle<actors::shard_interface>>> shards_;
};

/// Each token is the most probable one, or next to it, by the CPU's logits of all before it: what a request brings
/// along is right, and none is lost or twice.
void expect_likely(const tokens& before, const tokens& answer) {
  ASSERT_EQ(answer.size(), answer_length);
  tokens text = before;
  text.insert(text.end(), answer.begin(), answer.end());
  const auto config = four_kv_heads();
  static const auto packed = gpu::cpu::pack_model(config, weights(), 1);
  const auto logits = gpu::cpu::compute_logits(packed, text, {.threads = 1});
  for (std::size_t i = before.size(); i < text.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * config.vocabulary, config.vocabulary);
    const float best = *std::ranges::max_element(row);
    // Of the largest logit; as the tests of the logits themselves have it (tests/gpu/cuda/device_test.hpp).
    EXPECT_GE(row[static_cast<std::size_t>(text[i])], best - 2 * 0.05F * std::abs(best)) << "token " << i;
  }
}

} // namespace

class CudaTensorParallel : public ::testing::Test {
protected:
  void use(std::uint32_t devices) {
    auto found = gpu::cuda::testing::find_backend(devices);
    if (!found.backend) GTEST_SKIP() << found.why_not;
    backend_ = std::move(found.backend);
  }
  std::shared_ptr<gpu::cuda::cuda_backend> backend_;
};

/// Requests go to and fro until there has been a move each way, and their answers are what they may be.
void expect_moves_each_way(gpu_cluster& d) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
  for (std::size_t ended = 0; ended < 40 && ways.size() < 2;) {
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    for (std::uint32_t i = 0; i < 2; ++i) sinks.push_back(d.submit(i));
    ended += 2;
    ways.merge(d.move_until(ended));
    d.wait_ended(ended);
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::lock_guard lock(d.all->mutex);
      EXPECT_FALSE(sinks[i]->record.failed);
      EXPECT_EQ(sinks[i]->record.endings, 1);
      expect_likely(prompt(i), sinks[i]->record.tokens);
    }
  }
  EXPECT_EQ(ways.size(), 2U) << "each to the other";
}

TEST_F(CudaTensorParallel, RequestsGoFromOneDeviceToTwoAndBackWhileTheyDecode) {
  use(2);
  if (IsSkipped()) return;
  gpu_cluster d(backend_, {{1, 0}, {2, 0}});
  expect_moves_each_way(d);
}

// The draft model is on one device, whatever the model is on, and thinks as the model does but for roundings.
TEST_F(CudaTensorParallel, ADraftModelsKvGoesAlongFromOneDeviceToTwoAndBack) {
  use(2);
  if (IsSkipped()) return;
  gpu_cluster d(backend_, {{1, 0}, {2, 0}}, true);
  expect_moves_each_way(d);
  const auto status = d.cluster->status();
  ASSERT_TRUE(status);
  std::uint64_t drafted = 0, accepted = 0;
  for (const auto& instance : status->instances) {
    drafted += instance.load.draft_tokens_total;
    accepted += instance.load.accepted_tokens_total;
  }
  EXPECT_GT(accepted, 40U);
  EXPECT_GT(static_cast<double>(accepted), 0.8 * static_cast<double>(drafted));
}

/// In deterministic mode, where all instances compute the same bits, an answer is a function of its request alone: it
/// stays what it is while it moves.
void expect_the_same_tokens_while_they_move(gpu_cluster& d) {
  std::vector<tokens> calm;
  std::size_t ended = 0;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto sink = d.submit(i);
    d.wait_ended(++ended);
    const std::lock_guard lock(d.all->mutex);
    calm.push_back(sink->record.tokens);
    ASSERT_EQ(calm.back().size(), answer_length);
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
  for (int round = 0; round < 20 && ways.size() < 2; ++round) {
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    for (std::uint32_t i = 0; i < 2; ++i) sinks.push_back(d.submit(i));
    ended += 2;
    ways.merge(d.move_until(ended));
    d.wait_ended(ended);
    const std::lock_guard lock(d.all->mutex);
    for (std::uint32_t i = 0; i < 2; ++i) EXPECT_EQ(sinks[i]->record.tokens, calm[i]);
  }
  EXPECT_EQ(ways.size(), 2U) << "each to the other";
}

TEST_F(CudaTensorParallel, RequestsThatMoveBetweenPairsOfDevicesGiveTheSameTokens) {
  use(4);
  if (IsSkipped()) return;
  gpu_cluster d(backend_, {{2, 0}, {2, 2}});
  expect_the_same_tokens_while_they_move(d);
}

// Stages change no bit of what is computed.
TEST_F(CudaTensorParallel, RequestsThatMoveBetweenOneDeviceAndAPipelineOfTwoGiveTheSameTokens) {
  use(2);
  if (IsSkipped()) return;
  gpu_cluster d(backend_, {{1, 0}, {2, 0, true}});
  expect_the_same_tokens_while_they_move(d);
  const auto status = d.cluster->status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->instances[1].device.substr(0, 21), "2 stages of cuda 0, 1");
}

TEST_F(CudaTensorParallel, ADeviceWhoseActorDiesCostsNoRequest) {
  use(4);
  if (IsSkipped()) return;
  for (const std::size_t rank : {0U, 1U}) {
    gpu_cluster d(backend_, {{2, 0}, {2, 2}});
    d.all->tokens_awaited = 20;
    d.all->on_tokens = [&d, rank] { d.end_device(0, rank); };
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    for (std::uint32_t i = 0; i < 4; ++i) sinks.push_back(d.submit(i % 2));
    d.wait_ended(4);
    {
      const std::lock_guard lock(d.all->mutex);
      for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_FALSE(sinks[i]->record.failed);
        EXPECT_EQ(sinks[i]->record.tokens, sinks[i % 2]->record.tokens);
      }
    }
    EXPECT_TRUE(d.cluster->gate()->wait_ready(2, 30s)) << "it comes back, on the devices that it had";
    const auto status = d.cluster->status();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->instances[0].restarts, 1U);
    EXPECT_EQ(status->instances[0].device.substr(0, 15), "2 x cuda 0, 1 (");
  }
}

} // namespace godwit::test
