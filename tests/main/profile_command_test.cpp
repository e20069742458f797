#include "main/profile_command.hpp"
#include "main/profile_device.hpp"
#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/sim/profile.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace godwit::main {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ProfileCommand : public ::testing::Test {
protected:
  void SetUp() override {
    if (!gpu::model::embedded_model()) GTEST_SKIP() << "no embedded model";
    options_.device = device_choice::cpu;
    options_.output = file_.string();
    options_.time_max = std::chrono::milliseconds(200);
    options_.threads = 1;
    options_.step_tokens_max = 64;
  }
  void TearDown() override { fs::remove(file_); }

  const fs::path file_ = fs::path(::testing::TempDir()) / ("godwit_profile_" + std::to_string(::getpid()) + ".json");
  profile_options options_;
  std::ostringstream out_;
  std::ostringstream errors_;
};

TEST_F(ProfileCommand, WritesAProfileThatOpensAndThatNoMoreTokensMakeFaster) {
  ASSERT_EQ(measure_profile(options_, out_, errors_), 0) << errors_.str();
  const auto opened = gpu::sim::open_profile(file_.string());
  ASSERT_TRUE(opened) << opened.error().line;
  std::ifstream in(file_);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(to_json(*opened), text);
  EXPECT_EQ(opened->name, "default-cpu");
  EXPECT_THAT(opened->source, HasSubstr(" on " + opened->device));
  EXPECT_THAT(opened->assumptions.front(), HasSubstr("this machine"));
  EXPECT_EQ(opened->layers, 6U);
  EXPECT_GT(opened->kv_blocks, 0U);
  EXPECT_GT(opened->start_ms, 0);
  EXPECT_GE(opened->overhead_us, 0) << "a short measurement beside other tests may not tell it from noise";
  EXPECT_THAT(out_.str(), HasSubstr("serving: "));
  EXPECT_GT(opened->link.bytes_per_second, 1e6);
  const gpu::sim::latency_model model(*opened);
  EXPECT_GT(model.linear.at(1), 0);
  EXPECT_GT(model.per_kv_token_us, 0);
  for (std::uint32_t n = 2; n < 100; ++n) EXPECT_LE(model.linear.at(n), model.linear.at(n + 1)) << n;
  EXPECT_THAT(out_.str(), HasSubstr("not fitted"));
}

TEST_F(ProfileCommand, SaysWhatElseTheMachineDidAndHowTokensWereDrawn) {
  options_.instances = 2;
  options_.temperature = 0;
  options_.context_max = 64;
  ASSERT_EQ(measure_profile(options_, out_, errors_), 0) << errors_.str();
  const auto opened = gpu::sim::open_profile(file_.string());
  ASSERT_TRUE(opened) << opened.error().line;
  EXPECT_THAT(opened->source, HasSubstr("temperature of 0."));
  EXPECT_THAT(opened->source, HasSubstr("1 more instances"));
  EXPECT_GT(opened->positions_max, 64U) << "shorter sequences were measured, longer ones may be simulated";
}

TEST_F(ProfileCommand, GivesOneJsonObjectWithTheProfileAndItsErrors) {
  options_.json = true;
  options_.name = "mine";
  ASSERT_EQ(measure_profile(options_, out_, errors_), 0) << errors_.str();
  const auto parsed = boost::json::parse(out_.str()).as_object();
  const auto profile = gpu::sim::parse_profile(boost::json::serialize(parsed.at("profile")), "stdout");
  ASSERT_TRUE(profile) << profile.error().line;
  EXPECT_EQ(profile->name, "mine");
  const auto opened = gpu::sim::open_profile(file_.string());
  ASSERT_TRUE(opened) << opened.error().line;
  EXPECT_EQ(*opened, *profile);
  const auto& steps = parsed.at("steps").as_array();
  EXPECT_GT(steps.size(), 20U);
  for (const auto& step : steps) EXPECT_GT(step.at("predicted_us").to_number<double>(), 0);
  EXPECT_GE(parsed.at("rounds").to_number<int>(), 3);
}

TEST_F(ProfileCommand, FailsInOneLine) {
  auto wrong = options_;
  wrong.model = "/nonexistent/model";
  EXPECT_EQ(measure_profile(wrong, out_, errors_), 2);
  wrong = options_;
  wrong.device = device_choice::cuda;
  wrong.instances = 3;
  const auto finds_none = [](serve_settings& settings, const auto&) -> protocols::expected<chosen_device, start_error> {
    EXPECT_EQ(settings.instances.device, device_choice::cuda);
    EXPECT_EQ(settings.instances.count, 3U);
    return protocols::unexpected(start_error{"--device cuda: no GPU"});
  };
  EXPECT_EQ(measure_profile(wrong, out_, errors_, finds_none), 1);
  wrong = options_;
  wrong.output = "/nonexistent/profile.json";
  EXPECT_EQ(measure_profile(wrong, out_, errors_), 1);
  wrong = options_;
  wrong.temperature = std::nanf("");
  EXPECT_EQ(measure_profile(wrong, out_, errors_), 2);
  wrong = options_;
  wrong.threads = 1024;
  EXPECT_EQ(measure_profile(wrong, out_, errors_), 2);
  wrong = options_;
  wrong.context_max = 5;
  EXPECT_EQ(measure_profile(wrong, out_, errors_), 2);
  EXPECT_EQ(out_.str(), "");
  const auto text = errors_.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
  EXPECT_THAT(text, HasSubstr("godwit: cannot write /nonexistent/profile.json: there is no folder /nonexistent\n"));
  EXPECT_THAT(text, HasSubstr("godwit: --device cuda: no GPU\n"));
  EXPECT_THAT(text, HasSubstr("godwit: --temperature: expected a number from 0 to 2\n"));
  EXPECT_THAT(text, HasSubstr("godwit: --threads 1024: this process may use "));
  EXPECT_THAT(text, HasSubstr("godwit: --context 5: expected at least 64 tokens"));
}

/// A GPU that takes a second for a byte within, two for one in and four for one out.
struct slow_probe final : gpu::cuda::cuda_probe {
  [[nodiscard]] double copy(gpu::cuda::copy_route route, std::uint64_t bytes, std::uint32_t) override {
    const double each = route == gpu::cuda::copy_route::within_device ? 1
                        : route == gpu::cuda::copy_route::to_device   ? 2
                                                                      : 4;
    return each * static_cast<double>(bytes);
  }
  [[nodiscard]] double product(const gpu::cuda::product_shape&, std::uint32_t) override { return 0; }
  [[nodiscard]] double attention(const gpu::cuda::attention_shape&, std::uint32_t) override { return 0; }
};

TEST(MeasureDeviceCopies, KvTakesTheSlowerWayThroughTheHostWhereInstancesShareNoGpu) {
  slow_probe probe;
  const auto own = measure_device_copies(probe, 1000, false), shared = measure_device_copies(probe, 1000, true);
  EXPECT_DOUBLE_EQ(own.blocks, 1);
  EXPECT_DOUBLE_EQ(own.link, 0.25);
  EXPECT_DOUBLE_EQ(own.host, 0.25);
  EXPECT_DOUBLE_EQ(shared.host, 0.25) << "what waits in the host's memory goes there all the same";
  EXPECT_THAT(own.about, HasSubstr("page-locked"));
  EXPECT_DOUBLE_EQ(shared.blocks, 1);
  EXPECT_DOUBLE_EQ(shared.link, 1);
  EXPECT_THAT(shared.about, HasSubstr("share a GPU"));
}

TEST(ProfileList, HasAllThatAreCompiledIn) {
  std::ostringstream out;
  list_profiles(out);
  for (const auto& name : gpu::sim::profile_names()) EXPECT_THAT(out.str(), HasSubstr(name));
}

// A step that takes too long for the time there is is left out, not waited for.
TEST(MeasureSteps, LeavesOutWhatWouldTakeTooLong) {
  const auto files = gpu::model::embedded_model();
  if (!files) GTEST_SKIP() << "no embedded model";
  const auto model = gpu::model::open_model(files);
  ASSERT_TRUE(model);
  gpu::cpu::cpu_executor_settings settings;
  settings.threads = 1;
  settings.blocks = 512;
  const auto executor = gpu::cpu::make_cpu_executor(model->configuration, model->tensors, settings);
  auto steps = steps_to_measure({512, 256, 2048, 512});
  const auto all = steps.size();
  const auto measured =
      measure_steps(*executor, std::move(steps), std::chrono::microseconds(1), std::chrono::microseconds(1));
  EXPECT_EQ(measured.samples.size() + measured.left_out, all);
  EXPECT_GT(measured.left_out, all / 2);
  EXPECT_EQ(measured.rounds, 3U);
  EXPECT_GT(measure_block_copies(*executor), 1e6);
}

} // namespace
} // namespace godwit::main
