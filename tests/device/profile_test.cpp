#include "main/profile_command.hpp"
#include "main/profile_fit.hpp"
#include "main/profile_serving.hpp"

#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"

#include <godwit/gpu/model/random_model.hpp>
#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/profile.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

// `godwit profile` on GPUs, whose memory dies of a host thread that touches it. What the times are nobody asks here.
namespace godwit::main {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Little: it is protected anew around each kernel.
constexpr std::uint64_t memory_bytes = 4U << 20U;

chosen_device emulated_gpus(std::size_t count, std::uint64_t bytes = memory_bytes) {
  gpu::cuda::emulated::emulated_settings small;
  small.memory_bytes = bytes;
  return gpu::cuda::make_backend(
      gpu::cuda::emulated::make_emulated_drivers(std::vector<gpu::cuda::emulated::emulated_settings>(count, small)));
}

class ProfileOfGpus : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_TRUE(gpu::model::write_random_model("tiny", folder_ / "tiny"));
    options_.model = (folder_ / "tiny").string();
    options_.output = (folder_ / "profile.json").string();
    options_.time_max = std::chrono::milliseconds(100);
    options_.step_tokens_max = 8;
    options_.sequences_max = 2;
    options_.context_max = 64;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] int measure(chosen_device gpus) {
    return measure_profile(
        options_, out_, errors_,
        [&](serve_settings& settings, const auto&) -> protocols::expected<chosen_device, start_error> {
          asked_ = settings;
          return gpus;
        });
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("godwit_gpu_profile_" + std::to_string(::getpid()));
  profile_options options_;
  serve_settings asked_;
  std::ostringstream out_;
  std::ostringstream errors_;
};

double kv_bytes(const gpu::sim::profile& of) {
  return of.kv_blocks * of.kv_bytes_per_token * protocols::tokens_per_block;
}

TEST_F(ProfileOfGpus, OpensAndNamesTheDevice) {
  ASSERT_EQ(measure(emulated_gpus(1)), 0) << errors_.str();
  const auto opened = gpu::sim::open_profile(options_.output);
  ASSERT_TRUE(opened) << opened.error().line;
  EXPECT_EQ(opened->name, "tiny-emulated-gpu");
  EXPECT_THAT(opened->device, HasSubstr("emulated GPU"));
  EXPECT_THAT(opened->source, HasSubstr(opened->device));
  EXPECT_THAT(out_.str(), StartsWith("tiny on " + opened->device));
  EXPECT_THAT(opened->assumptions.front(), StartsWith("each instance has a GPU of its own"));
  EXPECT_EQ(opened->layers, 2U);
  EXPECT_EQ(opened->kv_bytes_per_token, 2.0 * 2 * 2 * 2 * 16) << "16 bits, K and V, layers, heads, their size";
  EXPECT_GT(kv_bytes(*opened), memory_bytes / 2) << "what the weights and steps leave";
  EXPECT_GT(opened->weight_bytes, 0U);
  EXPECT_GT(opened->start_ms, 0);
  EXPECT_GT(opened->per_copy_us, 0);
  EXPECT_GT(opened->link.bytes_per_second, 0);
  const gpu::sim::latency_model model(*opened);
  EXPECT_EQ(model.linear.points.back().count, 8U);
  EXPECT_EQ(model.logits.points.back().count, 2U);
  for (std::uint32_t n = 2; n < 32; ++n) EXPECT_LE(model.linear.at(n), model.linear.at(n + 1)) << n;
  EXPECT_EQ(asked_.instances.device, device_choice::automatic);
  EXPECT_FALSE(asked_.instances.deterministic);
}

TEST_F(ProfileOfGpus, SharesOneAmongInstancesAsAServerDoes) {
  options_.instances = 2;
  options_.deterministic = true;
  options_.device = device_choice::cuda;
  options_.name = "mine";
  ASSERT_EQ(measure(emulated_gpus(1, 2 * memory_bytes)), 0) << errors_.str();
  const auto opened = gpu::sim::open_profile(options_.output);
  ASSERT_TRUE(opened) << opened.error().line;
  EXPECT_EQ(opened->name, "mine");
  EXPECT_THAT(opened->device, HasSubstr("deterministic"));
  EXPECT_THAT(opened->source, HasSubstr("1 more instances"));
  EXPECT_THAT(opened->assumptions.front(), StartsWith("instances share a GPU"));
  EXPECT_LT(kv_bytes(*opened), memory_bytes);
  EXPECT_EQ(asked_.instances.device, device_choice::cuda);
  EXPECT_TRUE(asked_.instances.deterministic);
  EXPECT_EQ(asked_.instances.count, 2U);
}

TEST_F(ProfileOfGpus, FailsInOneLineWhereTheModelDoesNotFit) {
  ASSERT_EQ(measure(emulated_gpus(1, 128U << 10U)), 1) << "less than the weights alone";
  const auto text = errors_.str();
  EXPECT_THAT(text, StartsWith("godwit: "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(out_.str(), "");
  EXPECT_FALSE(fs::exists(options_.output)) << "nothing is written of what was not measured";
}

TEST(ServeAndWatchGpus, WatchesStepsOfEveryInstance) {
  served_load load;
  load.cuda = emulated_gpus(2);
  load.instances = 2;
  load.step_tokens_max = 16;
  load.sequences_max = 4;
  load.context_max = 64;
  load.time = std::chrono::milliseconds(1);
  gpu::sim::latency_model quick;
  quick.base_us = 0;
  quick.linear.points = {{1, 500}, {512, 5000}};
  const auto watched = serve_and_watch(gpu::model::random_model("tiny"), load, quick);
  ASSERT_EQ(watched.size(), 2U);
  for (const auto& steps : watched) {
    EXPECT_FALSE(steps.empty());
    for (const auto& one : steps) {
      EXPECT_GT(one.us, 0);
      EXPECT_LE(one.shape.tokens(), load.step_tokens_max);
      EXPECT_LE(one.shape.sequences(), load.sequences_max);
    }
  }
}

} // namespace
} // namespace godwit::main
