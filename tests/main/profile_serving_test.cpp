#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"
#include "main/profile_neighbours.hpp"
#include "main/profile_serving.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

// How long steps take when they are served, and what other instances do to them.
namespace godwit::main {
namespace {

using namespace std::chrono_literals;

/// A device whose steps take longer, and whose tokens take time to fetch.
class slow_executor final : public gpu::executor {
public:
  slow_executor(std::shared_ptr<gpu::executor> inner, std::chrono::milliseconds step, std::chrono::milliseconds fetch)
      : inner_(std::move(inner)), step_(step), fetch_(fetch) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override;
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->value_region(layer, block);
  }

  std::shared_ptr<gpu::executor> inner_;
  std::chrono::milliseconds step_, fetch_;
};

class slow_forward final : public gpu::forward {
public:
  slow_forward(std::unique_ptr<gpu::forward> inner, slow_executor& owner) : inner_(std::move(inner)), owner_(owner) {}
  [[nodiscard]] std::uint32_t layers() const noexcept override { return inner_->layers(); }
  void advance(std::uint32_t upto, gpu::completion done) override {
    inner_->advance(upto, [step = owner_.step_, done = std::move(done)](std::string error) {
      std::this_thread::sleep_for(step);
      done(std::move(error));
    });
  }
  [[nodiscard]] protocols::step_output take() override {
    std::this_thread::sleep_for(owner_.fetch_);
    return inner_->take();
  }

private:
  std::unique_ptr<gpu::forward> inner_;
  slow_executor& owner_;
};

std::unique_ptr<gpu::forward> slow_executor::begin(protocols::step_input input) {
  return std::make_unique<slow_forward>(inner_->begin(std::move(input)), *this);
}

gpu::sim::latency_model quick_device() {
  gpu::sim::latency_model out;
  out.base_us = 0;
  out.linear.points = {{1, 500}, {512, 5000}};
  return out;
}

served_load short_load() {
  served_load out;
  out.step_tokens_max = 64;
  out.sequences_max = 4;
  out.context_max = 64;
  out.time = 1ms; // a dozen requests all the same
  return out;
}

TEST(ServeAndWatch, TellsStepsFromWhatLiesBetweenThem) {
  const auto files = gpu::model::embedded_model();
  if (!files) GTEST_SKIP() << "no embedded model";
  const auto model = gpu::model::open_model(files);
  const auto of = [&](std::chrono::milliseconds step, std::chrono::milliseconds fetch) {
    const auto watched =
        serve_and_watch(*model, short_load(), quick_device(), [&](std::shared_ptr<gpu::executor> made) {
          return std::make_shared<slow_executor>(std::move(made), step, fetch);
        });
    EXPECT_EQ(watched.size(), 1U);
    std::vector<double> steps, pauses;
    for (const auto& one : watched.front()) {
      steps.push_back(one.us);
      if (one.pause_us) pauses.push_back(*one.pause_us);
    }
    EXPECT_GE(pauses.size(), 8U);
    return std::pair{median(steps), median(pauses)};
  };
  const auto [short_steps, long_pauses] = of(0ms, 20ms);
  const auto [long_steps, short_pauses] = of(20ms, 0ms);
  EXPECT_GT(long_pauses, 20'000);
  EXPECT_GT(long_steps, 20'000);
  EXPECT_GT(short_steps, 0);
  EXPECT_LT(short_steps, 20'000);
  EXPECT_GT(short_pauses, 0);
  EXPECT_LT(short_pauses, 20'000);
}

TEST(ServeAndWatch, ServesOnEveryInstanceWithinTheSizesGiven) {
  const auto files = gpu::model::embedded_model();
  if (!files) GTEST_SKIP() << "no embedded model";
  auto load = short_load();
  load.instances = 2;
  const auto watched = serve_and_watch(*gpu::model::open_model(files), load, quick_device());
  ASSERT_EQ(watched.size(), 2U);
  for (const auto& steps : watched) {
    EXPECT_FALSE(steps.empty());
    for (const auto& one : steps) {
      EXPECT_GT(one.us, 0);
      EXPECT_LE(one.shape.tokens(), load.step_tokens_max);
      EXPECT_LE(one.shape.sequences(), load.sequences_max);
      for (const auto& part : one.shape.parts) EXPECT_LE(part.first + part.tokens, load.context_max);
    }
  }
}

TEST(CarriedRate, IsThatOfADeviceWhichDecodesForSeveralAtOnce) {
  gpu::sim::latency_model device;
  device.base_us = device.per_decode_us = device.per_kv_token_us = device.per_pair_us = 0;
  device.linear.points = {{1, 1000}, {8, 1000}, {100, 10'000}};
  EXPECT_NEAR(carried_rate(device, 100, 40, 1), 1e6 / (10'000 + 40 * 1000), 0.1);
  EXPECT_NEAR(carried_rate(device, 100, 40, 256), 1e6 / (10'000 + 40 * 1000 / 8), 0.1);
}

std::shared_ptr<const gpu::cpu::packed_model> embedded() {
  const auto files = gpu::model::embedded_model();
  if (!files) return nullptr;
  const auto model = gpu::model::open_model(files);
  return gpu::cpu::pack_model(model->configuration, *model->tensors, 1);
}

gpu::cpu::cpu_executor_settings one_thread() {
  gpu::cpu::cpu_executor_settings out;
  out.threads = 1;
  out.blocks = 256;
  return out;
}

// The measured step and the neighbour's want the same processor, where there is one only; memory, where there are more.
TEST(BusyNeighbours, RunUntilTheyEndAndLeaveTheMeasuredInstanceAlone) {
  const auto model = embedded();
  if (!model) GTEST_SKIP() << "no embedded model";
  const auto device = gpu::cpu::make_cpu_executor(model, one_thread());
  const auto step = step_shape{{{1, 0, 1, true}}}.input();
  {
    std::vector<std::shared_ptr<gpu::executor>> two;
    for (int i = 0; i < 2; ++i) two.push_back(gpu::cpu::make_cpu_executor(model, one_thread()));
    busy_neighbours others(std::move(two));
    for (int i = 0; i < 3; ++i) EXPECT_GT(run_step_us(*device, step), 0);
    others.end();
  }
  EXPECT_GT(run_step_us(*device, step), 0);
}

/// A GPU that has fallen off its bus.
struct failing_executor final : gpu::executor {
  failing_executor() { info_.positions_max = 512; }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override {
    throw std::runtime_error("the device is gone");
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  gpu::executor_info info_;
};

TEST(BusyNeighbours, SayWhatTheyHaveFailedWith) {
  busy_neighbours others({std::make_shared<failing_executor>()});
  try {
    others.end();
    FAIL() << "nothing was said";
  } catch (const std::runtime_error& failure) {
    EXPECT_STREQ(failure.what(), "the device is gone");
  }
  const busy_neighbours ended({std::make_shared<failing_executor>()}); // by its destructor alone
}

} // namespace
} // namespace godwit::main
