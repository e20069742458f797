#include "main/profile_actors.hpp"
#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"
#include "main/profile_neighbours.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

// What serving adds to a device's steps, and what other instances do to them.
namespace godwit::main {
namespace {

using namespace std::chrono_literals;

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

TEST(MeasureActors, CountsWhatLiesBetweenStepsAndNotTheSteps) {
  const auto model = embedded();
  if (!model) GTEST_SKIP() << "no embedded model";
  const std::shared_ptr<gpu::executor> device = gpu::cpu::make_cpu_executor(model, one_thread());
  const auto of = [&](std::chrono::milliseconds step, std::chrono::milliseconds fetch) {
    const auto costs = measure_actors(std::make_shared<slow_executor>(device, step, fetch), 1ms);
    EXPECT_GE(costs.steps, 50U);
    return costs.overhead_us;
  };
  EXPECT_GT(of(0ms, 10ms), 10'000);
  const auto plain = of(20ms, 0ms);
  EXPECT_GT(plain, 0);
  EXPECT_LT(plain, 20'000);
}

// The measured step and the neighbour's want the same processor, where there is one only; memory, where there are more.
TEST(BusyNeighbours, RunUntilTheyEndAndLeaveTheMeasuredInstanceAlone) {
  const auto model = embedded();
  if (!model) GTEST_SKIP() << "no embedded model";
  const auto device = gpu::cpu::make_cpu_executor(model, one_thread());
  const auto step = step_shape{{{1, 0, 1, true}}}.input();
  {
    const busy_neighbours others(model, one_thread(), 2);
    for (int i = 0; i < 3; ++i) EXPECT_GT(run_step_us(*device, step), 0);
  }
  EXPECT_GT(run_step_us(*device, step), 0);
}

} // namespace
} // namespace godwit::main
