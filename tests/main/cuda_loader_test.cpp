#include "main/cuda_loader.hpp"
#include "main/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct fake_model final : gpu::cuda::cuda_model {
  fake_model(std::uint32_t where, gpu::tensor_parallel::place what, gpu::pipeline::stage which)
      : device(where), part(what), stage(which) {}
  [[nodiscard]] std::uint64_t weight_bytes() const noexcept override { return 1; }
  std::uint32_t device;
  gpu::tensor_parallel::place part;
  gpu::pipeline::stage stage;
};

class fake_executor final : public gpu::executor {
public:
  fake_executor() { info_.blocks = 77; }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override { return nullptr; }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }

private:
  gpu::executor_info info_;
};

/// As many GPUs as wanted, that note what they are asked for.
class fake_backend final : public gpu::cuda::cuda_backend {
public:
  explicit fake_backend(std::uint32_t count) : count_(count) {}
  [[nodiscard]] std::vector<gpu::cuda::cuda_device_info> devices() override {
    std::vector<gpu::cuda::cuda_device_info> all(count_);
    for (std::uint32_t i = 0; i < count_; ++i) all[i].index = i;
    return all;
  }
  [[nodiscard]] std::vector<std::string> skipped() override { return {}; }
  [[nodiscard]] std::shared_ptr<const gpu::cuda::cuda_model> upload(std::uint32_t device, const gpu::model::config&,
                                                                    const gpu::model::weights&,
                                                                    gpu::tensor_parallel::place part,
                                                                    gpu::pipeline::stage stage) override {
    ++uploads;
    stages.push_back(stage);
    uploaded.push_back(device);
    return std::make_shared<fake_model>(device, part, stage);
  }
  [[nodiscard]] std::unique_ptr<gpu::executor>
  make_executor(const std::vector<std::shared_ptr<const gpu::cuda::cuda_model>>& parts,
                const gpu::cuda::cuda_executor_settings& settings, std::chrono::nanoseconds wait_max) override {
    std::vector<std::uint32_t> on;
    for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
      const auto& part = dynamic_cast<const fake_model&>(*parts[rank]);
      if (part.stage.stages > 1) {
        EXPECT_EQ(part.stage.index, rank);
        EXPECT_EQ(part.stage.stages, parts.size());
        EXPECT_EQ(part.part.degree, 1U);
      } else {
        EXPECT_EQ(part.part.rank, rank);
        EXPECT_EQ(part.part.degree, parts.size());
      }
      on.push_back(part.device);
    }
    executors.push_back(on);
    used.push_back(settings);
    waits.push_back(wait_max);
    return std::make_unique<fake_executor>();
  }
  [[nodiscard]] std::shared_ptr<protocols::memory_copier> make_copier(std::uint32_t) override { return nullptr; }
  [[nodiscard]] std::unique_ptr<gpu::cuda::cuda_probe> make_probe(std::uint32_t) override { return nullptr; }
  [[nodiscard]] double time_graphs(gpu::executor&, std::uint32_t) override { return 0; }

  std::uint32_t uploads = 0;
  std::vector<std::uint32_t> uploaded;               ///< to which devices
  std::vector<gpu::pipeline::stage> stages;          ///< of each upload
  std::vector<std::vector<std::uint32_t>> executors; ///< the devices of each
  std::vector<gpu::cuda::cuda_executor_settings> used;
  std::vector<std::chrono::nanoseconds> waits;

private:
  std::uint32_t count_;
};

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
                                   std::uint32_t instances) const {
    serve_settings settings;
    settings.instances.tensor_parallel = degree;
    settings.instances.count = instances;
    settings.instances.step_timeout = 10s;
    return {gpus, *model_, settings, {}};
  }
  std::unique_ptr<gpu::model::model_directory> model_;
};

TEST_F(CudaLoader, InstancesGoRoundTheDevices) {
  const auto gpus = std::make_shared<fake_backend>(2);
  auto all = loader(gpus, 1, 3);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {0U, 1U, 2U, 0U}) living.push_back(all.make(protocols::instance_id{id}));
  EXPECT_THAT(gpus->executors, ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(0U), ElementsAre(0U)));
  EXPECT_EQ(gpus->uploads, 2U);
}

TEST_F(CudaLoader, DividedInstancesGoRoundGroupsOfDevices) {
  const auto gpus = std::make_shared<fake_backend>(5);
  auto all = loader(gpus, 2, 3);
  std::vector<std::shared_ptr<gpu::executor>> living;
  for (const std::uint32_t id : {7U, 8U, 9U, 8U}) living.push_back(all.make(protocols::instance_id{id}));
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
  for (const std::uint32_t id : {0U, 1U, 0U}) living.push_back(all.make(protocols::instance_id{id}));
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
