#include "main/device_hold.hpp"
#include "main/fake_gpus.hpp"
#include "main/loader.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::main {
namespace {

using namespace std::chrono_literals;
using testing::fake_backend;

/// Holds up whoever makes an executor, until it is told not to.
class hanging_backend final : public fake_backend {
public:
  hanging_backend() : fake_backend(1) {}
  [[nodiscard]] std::unique_ptr<gpu::executor>
  make_executor(const std::vector<std::shared_ptr<const gpu::cuda::cuda_model>>& parts,
                const gpu::cuda::cuda_executor_settings& settings, std::chrono::nanoseconds wait_max) override {
    asked.set_value();
    answer.get_future().wait();
    return fake_backend::make_executor(parts, settings, wait_max);
  }
  std::promise<void> asked, answer;
};

class Loader : public ::testing::Test {
protected:
  void SetUp() override {
    auto files = gpu::model::embedded_model();
    if (!files) GTEST_SKIP() << "no model is compiled in";
    auto opened = gpu::model::open_model(std::move(files));
    ASSERT_TRUE(opened);
    model_ = std::make_unique<gpu::model::model_directory>(std::move(*opened));
  }
  std::unique_ptr<gpu::model::model_directory> model_;
};

TEST_F(Loader, GoesWithoutAGpuThatDoesNotAnswerAndLeavesItWhatItUses) {
  ASSERT_FALSE(device_hold::any());
  auto gpus = std::make_shared<hanging_backend>();
  auto one = std::make_unique<loader>(*model_, serve_settings{}, gpus, runtime::log::logger(), 20ms);
  const auto told = std::make_shared<int>(0);
  const auto make = one->factory();
  for (const std::uint32_t id : {0U, 1U})
    make(protocols::instance_id{id}, [told](const actors::executor_outcome&) { ++*told; });
  gpus->asked.get_future().wait();
  one.reset();
  EXPECT_TRUE(device_hold::any()) << "the process is to end without the library's end";
  make(protocols::instance_id{2}, [told](const actors::executor_outcome&) { ++*told; });

  const std::weak_ptr<hanging_backend> there = gpus;
  std::exchange(gpus, nullptr)->answer.set_value();
  for (const auto until = std::chrono::steady_clock::now() + 30s;
       (!there.expired() || device_hold::any()) && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(there.expired());
  EXPECT_FALSE(device_hold::any());
  EXPECT_EQ(told.use_count(), 1);
  EXPECT_EQ(*told, 0) << "whoever asked has gone";
}

TEST_F(Loader, OfTheCpuHoldsNoDevice) {
  const loader one(*model_, serve_settings{}, {}, runtime::log::logger());
  EXPECT_FALSE(device_hold::any());
}

TEST_F(Loader, GoesWithAllThatItHas) {
  auto gpus = std::make_shared<fake_backend>(1);
  std::promise<std::shared_ptr<gpu::executor>> made;
  {
    loader one(*model_, serve_settings{}, gpus, runtime::log::logger(), 1min);
    one.factory()(protocols::instance_id{0}, [&made](actors::executor_outcome out) { made.set_value(out.made); });
    EXPECT_TRUE(made.get_future().get()) << "and it goes first, as an actor's does";
  }
  EXPECT_EQ(gpus.use_count(), 1);
  EXPECT_FALSE(device_hold::any());
}

} // namespace
} // namespace godwit::main
