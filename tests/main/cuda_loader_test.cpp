#include "main/cuda_loader.hpp"
#include "main/device_choice.hpp"
#include "main/fake_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::main {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::fake_backend;
using ::testing::HasSubstr;

class CudaLoader : public ::testing::Test {
protected:
  void SetUp() override {
    auto files = gpu::model::embedded_model();
    if (!files) GTEST_SKIP() << "no model is compiled in";
    auto opened = gpu::model::open_model(std::move(files));
    ASSERT_TRUE(opened);
    model_ = std::make_unique<gpu::model::model_directory>(std::move(*opened));
  }
  [[nodiscard]] cuda_loader loader(const std::shared_ptr<fake_backend>& gpus, std::uint32_t degree,
                                   std::uint32_t instances, std::chrono::milliseconds memory_wait = 1min) const {
    serve_settings settings;
    settings.instances.tensor_parallel = degree;
    settings.instances.count = instances;
    settings.instances.step_timeout = 10s;
    return {gpus, *model_, settings, {}, memory_wait};
  }
  std::unique_ptr<gpu::model::model_directory> model_;
};

TEST_F(CudaLoader, InstancesGoRoundTheDevices) {
  const auto gpus = std::make_shared<fake_backend>(2);
  auto all = loader(gpus, 1, 3);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {0U, 1U, 2U}) living.push_back(all.make(protocols::instance_id{id}));
  living[0].reset();
  living[0] = all.make(protocols::instance_id{0});
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(0U), ElementsAre(0U)));
  EXPECT_EQ(gpus->uploads, 2U);
}

TEST_F(CudaLoader, DividedInstancesGoRoundGroupsOfDevices) {
  const auto gpus = std::make_shared<fake_backend>(5);
  auto all = loader(gpus, 2, 3);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {7U, 8U, 9U}) living.push_back(all.make(protocols::instance_id{id}));
  living[1].reset();
  living[1] = all.make(protocols::instance_id{8});
  EXPECT_THAT(gpus->executors,
              ElementsAre(ElementsAre(0U, 1U), ElementsAre(2U, 3U), ElementsAre(0U, 1U), ElementsAre(2U, 3U)))
      << "one that starts again gets the devices that it had";
  EXPECT_EQ(gpus->uploads, 4U) << "the weights once to each group";
  EXPECT_DOUBLE_EQ(gpus->used[0].memory_share, 2 * gpus->used[1].memory_share / 4)
      << "two instances share the first group";
  EXPECT_EQ(gpus->used[0].blocks, 0U);
  EXPECT_EQ(gpus->used[3].blocks, 77U) << "as at the first start";
  EXPECT_EQ(gpus->waits[0], 5s) << "before anybody takes the instance for hung";
  EXPECT_TRUE(gpus->used[0].warn) << "what a device has to say has somewhere to go";
}

TEST_F(CudaLoader, ADraftModelIsOnTheFirstDeviceOfAGroupAndHasItsPartOfTheMemory) {
  auto draft = *model_;
  draft.configuration.layers = 2;
  model_->draft = std::make_shared<const gpu::model::model_directory>(draft); // two of six layers
  const auto gpus = std::make_shared<fake_backend>(4);
  auto all = loader(gpus, 2, 2);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {0U, 1U}) living.push_back(all.make(protocols::instance_id{id}));
  living[0].reset();
  living[0] = all.make(protocols::instance_id{0});
  EXPECT_THAT(gpus->uploaded, ElementsAre(0U, 0U, 1U, 2U, 2U, 3U)) << "before the model, which looks at what is left";
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U, 1U), ElementsAre(0U), ElementsAre(2U, 3U), ElementsAre(2U),
                                           ElementsAre(0U, 1U), ElementsAre(0U)));
  EXPECT_DOUBLE_EQ(gpus->used[0].memory_share, 0.9);
  EXPECT_DOUBLE_EQ(gpus->used[0].memory_share_first.value_or(0), 0.9 * 3 / 5)
      << "three layers' KV of the model, and the draft's two";
  EXPECT_EQ(gpus->used[1].blocks, 77U) << "as many as the model has";
  EXPECT_FALSE(gpus->used[1].allowed) << "it drafts under no schema";
  EXPECT_TRUE(living[0]->draft());
  EXPECT_EQ(living[0]->info().blocks, 77U);
}

TEST_F(CudaLoader, StagesOfAnInstanceAreOnTheDevicesOfAGroupInTheirOrder) {
  ASSERT_EQ(model_->configuration.layers, 6U);
  auto draft = *model_;
  draft.configuration.layers = 2;
  model_->draft = std::make_shared<const gpu::model::model_directory>(draft);
  serve_settings settings;
  settings.instances.pipeline_parallel = 2;
  settings.instances.pipeline_layers = {"4", "2"};
  settings.instances.count = 2;
  const auto gpus = std::make_shared<fake_backend>(5);
  cuda_loader all(gpus, *model_, settings, {});
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {0U, 1U}) living.push_back(all.make(protocols::instance_id{id}));
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U, 1U), ElementsAre(0U), ElementsAre(2U, 3U), ElementsAre(2U)))
      << "each with its draft model on its first device";
  using gpu::pipeline::stage;
  EXPECT_THAT(gpus->stages, ElementsAre(stage{}, stage{0, 2, 0, 4}, stage{1, 2, 4, 2}, stage{}, stage{0, 2, 0, 4},
                                        stage{1, 2, 4, 2}));
  EXPECT_DOUBLE_EQ(gpus->used[0].memory_share, 0.9);
  EXPECT_DOUBLE_EQ(gpus->used[0].memory_share_first.value_or(0), 0.9 * 4 / 6) << "four layers' KV, and the draft's two";
  EXPECT_FALSE(gpus->used[1].memory_share_first);
}

// Scaled in and out again, with ids that nobody had before.
TEST_F(CudaLoader, ANewInstanceGetsTheDeviceOfOneThatHasGone) {
  const auto gpus = std::make_shared<fake_backend>(2);
  auto all = loader(gpus, 1, 2);
  const auto first = all.make(protocols::instance_id{0});
  auto second = all.make(protocols::instance_id{1});
  second.reset();
  const auto third = all.make(protocols::instance_id{2});
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(1U)));
}

TEST_F(CudaLoader, InstancesThatAllStartAgainFindTheirDevicesInWhateverOrderTheyCome) {
  const auto gpus = std::make_shared<fake_backend>(2);
  auto all = loader(gpus, 1, 3);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {0U, 1U, 2U}) living.push_back(all.make(protocols::instance_id{id}));
  living.clear();
  gpus->executors.clear();
  for (const std::uint32_t id : {2U, 0U, 1U}) living.push_back(all.make(protocols::instance_id{id}));
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(0U), ElementsAre(1U)))
      << "the memory of the first is divided among two";
}

/// Keeps what its executors are to keep while they go, as a GPU that hangs.
class keeping_backend final : public fake_backend {
public:
  using fake_backend::fake_backend;
  [[nodiscard]] std::unique_ptr<gpu::executor>
  make_executor(const std::vector<std::shared_ptr<const gpu::cuda::cuda_model>>& parts,
                const gpu::cuda::cuda_executor_settings& settings, std::chrono::nanoseconds wait_max) override {
    auto made = fake_backend::make_executor(parts, settings, wait_max);
    if (std::exchange(refuses, false)) throw std::runtime_error("hung");
    kept.push_back(settings.keep);
    return made;
  }
  std::vector<std::shared_ptr<void>> kept;
  bool refuses = false;
};

TEST_F(CudaLoader, AnInstanceWhoseDeviceHangsGetsAFreeOneAndNobodyElseGetsIts) {
  const auto gpus = std::make_shared<keeping_backend>(4);
  auto all = loader(gpus, 1, 4, 10ms);
  const auto made = [&](std::uint32_t id) { return all.make(protocols::instance_id{id}); };
  auto hung = made(0);
  const auto second = made(1);
  hung.reset();
  const auto again = made(0), third = made(2);
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(2U), ElementsAre(3U)));
  gpus->kept[0].reset();
  const auto fourth = made(3);
  EXPECT_THAT(gpus->executors.back(), ElementsAre(0U)) << "it has gone on";
}

TEST_F(CudaLoader, ADeviceThatHangsIsKnownAfterARetryThatFails) {
  const auto gpus = std::make_shared<keeping_backend>(2);
  auto all = loader(gpus, 1, 2, 10ms);
  auto hung = all.make(protocols::instance_id{0});
  auto other = all.make(protocols::instance_id{1});
  hung.reset();
  gpus->refuses = true;
  EXPECT_THROW((void)all.make(protocols::instance_id{0}), std::runtime_error);
  other.reset();
  gpus->kept[1].reset();
  const auto third = all.make(protocols::instance_id{2});
  EXPECT_THAT(gpus->executors.back(), ElementsAre(1U));
}

TEST_F(CudaLoader, AnInstanceThatStartsAgainWaitsForItsMemory) {
  const auto gpus = std::make_shared<keeping_backend>(2);
  auto all = loader(gpus, 1, 2, 1min);
  all.make(protocols::instance_id{0}).reset();
  std::thread frees([&] {
    std::this_thread::sleep_for(30ms);
    gpus->kept[0].reset();
  });
  const auto again = all.make(protocols::instance_id{0});
  frees.join();
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(0U)));
}

TEST_F(CudaLoader, WhoIsToStopWaitsForNoMemory) {
  const auto gpus = std::make_shared<keeping_backend>(1);
  auto all = loader(gpus, 1, 1, 1h);
  all.make(protocols::instance_id{0}).reset();
  const std::atomic<bool> stop = true;
  EXPECT_TRUE(all.make(protocols::instance_id{0}, &stop));
}

TEST(ChooseGroup, TakesTheFormerOneWhereThereIsRoomAndElseTheOneWithMostRoom) {
  const auto chosen = [](std::vector<group_use> groups, std::optional<std::uint32_t> former = std::nullopt) {
    return choose_group(groups, former);
  };
  EXPECT_EQ(chosen({{2, 0}, {1, 0}}), 0U);
  EXPECT_EQ(chosen({{2, 1}, {1, 0}}), 1U) << "as much room, fewer instances";
  EXPECT_EQ(chosen({{2, 1}, {1, 1}}), 0U);
  EXPECT_EQ(chosen({{2, 2}, {1, 1}}), 1U) << "all are full: beside one and not beside two";
  EXPECT_EQ(chosen({{1, 2}, {1, 1}}), 1U);
  EXPECT_EQ(chosen({{1, 0}, {1, 0}}, 1U), 1U);
  EXPECT_EQ(chosen({{2, 0}, {2, 1}}, 1U), 1U);
  EXPECT_EQ(chosen({{1, 0}, {1, 1}}, 1U), 0U) << "somebody else is there by now";
  EXPECT_EQ(chosen({{3, 1, true}, {1, 0}}, 0U), 1U) << "it hangs, though there is memory";
}

TEST_F(CudaLoader, RefusesAnInstanceOfMoreDevicesThanThereAre) {
  const auto gpus = std::make_shared<fake_backend>(2);
  try {
    (void)loader(gpus, 4, 1);
    FAIL();
  } catch (const std::runtime_error& failure) {
    EXPECT_STREQ(failure.what(), "--tensor-parallel 4 takes 4 GPUs for an instance; this process has 2");
  }
}

TEST(DeviceChoice, WarnsOfDividedInstancesThatShareGpus) {
  EXPECT_THAT(shared_devices(2, {2}, 2), HasSubstr("2 instances share 2 GPUs"));
  EXPECT_THAT(shared_devices(5, {2}, 3), HasSubstr("3 instances share 4 GPUs"));
  EXPECT_EQ(shared_devices(4, {2}, 2), "");
  EXPECT_EQ(shared_devices(2, {2}, 0), "") << "of a head that brings none";
  EXPECT_EQ(shared_devices(1, {1}, 3), "") << "those do not wait for another GPU";
}

TEST(DeviceChoice, OfTooFewGpusIsNoneAndSaysHowManyThereAre) {
  const auto gpus = std::make_shared<fake_backend>(3);
  EXPECT_EQ(use_devices(gpus, {3}, 1, {}).backend, gpus);
  EXPECT_EQ(use_devices(gpus, {2}, 1, {}).backend, gpus);
  const auto refused = use_devices(gpus, {4}, 1, {});
  EXPECT_EQ(refused.backend, nullptr);
  EXPECT_THAT(refused.why_not, HasSubstr("takes 4 GPUs for an instance; this process has 3"));
}

} // namespace
} // namespace godwit::main
