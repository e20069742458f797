// An instance whose GPU does not end a step or a copy: the bounds on both end it, and it takes no worker of the actors
// with it.
#include "actors/support/waiting_sink.hpp"
#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/cuda/cuda_support.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

using gpu::cuda::testing::small_config;

constexpr std::size_t gpus = 2;

template <class Condition> bool eventually(const Condition& holds) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(2ms);
  return holds();
}

/// Two instances, each on a GPU of its own, and one worker for all actors.
class HangingInstance : public ::testing::Test {
protected:
  HangingInstance() {
    std::vector<gpu::cuda::emulated::emulated_settings> each(gpus);
    for (std::size_t i = 0; i < gpus; ++i) {
      each[i].stands = stands_[i] = std::make_shared<gpu::cuda::emulated::standstill>();
      each[i].counts = counts_[i] = std::make_shared<gpu::cuda::emulated::memory_counts>();
    }
    const auto backend = gpu::cuda::make_backend(gpu::cuda::emulated::make_emulated_drivers(each));
    const gpu::cpu::testing::memory_weights weights(small_config(), gpu::model::data_type::bf16, 11);
    for (std::uint32_t i = 0; i < gpus; ++i) models_.push_back(backend->upload(i, small_config(), weights));
    for (std::size_t i = 0; i < gpus; ++i) weights_held_[i] = counts_[i]->taken - counts_[i]->given_back;

    actors::node_options o;
    o.version = "test";
    o.model = "random";
    o.instances = gpus;
    o.backoff_min = 1ms;
    o.backoff_max = 20ms;
    o.instance.make_executor = [this, backend](protocols::instance_id id,
                                               const std::function<void(actors::executor_outcome)>& done) {
      gpu::cuda::cuda_executor_settings settings;
      settings.blocks = 16;
      settings.step_tokens = 64;
      settings.patience = 20ms;
      try {
        done({backend->make_executor(models_[id.value()], settings), {}});
      } catch (const std::exception& failure) {
        {
          const std::lock_guard lock(mutex_);
          refused_.emplace_back(failure.what());
        }
        done({nullptr, failure.what()});
      }
    };
    o.llumlet.step_timeout = 5s;
    o.llumlet.planner.context_length = 256;
    o.llumlet.planner.step_tokens_max = 64;
    o.scheduler.policies.migration = protocols::migration_policy::none;
    o.scheduler.policies.dispatch = "round_robin";
    runtime::actor_system_settings one_worker;
    one_worker.worker_threads = 1;
    system_ = std::make_unique<runtime::actor_system>(one_worker);
    cluster_ = std::make_unique<actors::cluster>(*system_, std::move(o));
    EXPECT_TRUE(cluster_->gate()->wait_ready(gpus, 60s));
  }
  ~HangingInstance() override {
    for (const auto& one : stands_) one->end();
    cluster_.reset();
    system_.reset();
  }

  std::shared_ptr<waiting_sink> submit(std::uint32_t number) {
    auto one = std::make_shared<actors::submission>();
    one->request.prompt = gpu::cpu::testing::some_tokens(20, small_config().vocabulary, number);
    one->request.stop.max_tokens = 60;
    one->request.stop.ignore_eos = true;
    auto sink = std::make_shared<waiting_sink>(all_);
    one->sink = sink;
    EXPECT_TRUE(cluster_->gate()->submit({std::move(one)}));
    return sink;
  }
  [[nodiscard]] bool ready(std::uint32_t instance) const {
    for (const auto& entry : cluster_->gate()->view().instances)
      if (entry.instance.value() == instance) return entry.ready;
    return false;
  }
  [[nodiscard]] std::size_t refusals() {
    const std::lock_guard lock(mutex_);
    return refused_.size();
  }
  [[nodiscard]] std::uint64_t held(std::size_t device) const {
    return counts_[device]->taken - counts_[device]->given_back - weights_held_[device];
  }
  /// Requests on both instances, of which the first one's GPU stands still.
  void hang_the_first() {
    const std::vector<std::shared_ptr<waiting_sink>> sinks{submit(0), submit(1)};
    {
      std::unique_lock lock(all_->mutex);
      EXPECT_TRUE(all_->changed.wait_for(lock, 60s, [&] { return all_->tokens > 4; }));
    }
    stands_[0]->begin();
    {
      std::unique_lock lock(all_->mutex);
      EXPECT_TRUE(all_->changed.wait_for(lock, 60s, [&] { return all_->ended == 2; }));
    }
    for (const auto& sink : sinks) EXPECT_EQ(sink->record.tokens.size(), 60U) << "the other instance goes on with it";
  }

  std::array<std::shared_ptr<gpu::cuda::emulated::standstill>, gpus> stands_;
  std::array<std::shared_ptr<gpu::cuda::emulated::memory_counts>, gpus> counts_;
  std::array<std::uint64_t, gpus> weights_held_{};
  std::vector<std::shared_ptr<const gpu::cuda::cuda_model>> models_;
  std::mutex mutex_;
  std::vector<std::string> refused_;
  std::shared_ptr<waiting_sink::group> all_ = std::make_shared<waiting_sink::group>();
  std::unique_ptr<runtime::actor_system> system_;
  std::unique_ptr<actors::cluster> cluster_;
};

} // namespace

TEST_F(HangingInstance, IsDownUntilItsGpuGoesOnAndTheOthersServe) {
  hang_the_first();
  EXPECT_TRUE(eventually([&] { return refusals() >= 3; })) << "it is tried again and again";
  EXPECT_FALSE(ready(0));
  EXPECT_GT(held(0), 0U);
  EXPECT_TRUE(cluster_->status());
  stands_[0]->end();
  EXPECT_TRUE(eventually([&] { return ready(0); }));
}

TEST_F(HangingInstance, DoesNotHoldUpTheEndOfTheActors) {
  hang_the_first();
  EXPECT_TRUE(eventually([&] { return refusals() >= 1; }));
  EXPECT_TRUE(cluster_->shutdown(60s));
  EXPECT_TRUE(system_->shutdown(60s));
  cluster_.reset();
  system_.reset();
  EXPECT_GT(held(0), 0U);
  EXPECT_TRUE(eventually([&] { return held(1) == 0; }));
  stands_[0]->end();
  EXPECT_TRUE(eventually([&] { return held(0) == 0; }));
}

} // namespace godwit::test
