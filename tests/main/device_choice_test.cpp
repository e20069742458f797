#include "main/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

namespace godwit::main {
namespace {

using ::testing::HasSubstr;

/// Of this process: tests run side by side.
std::string own_file(const std::string& name) { return ::testing::TempDir() + std::to_string(::getpid()) + "_" + name; }

serve_settings with(device_choice device, std::string plugin) {
  serve_settings settings;
  settings.instances.device = device;
  settings.instances.cuda_plugin = std::move(plugin);
  return settings;
}

TEST(DeviceChoice, AutoIsTheCpuWhereThereIsNoPlugin) {
  auto settings = with(device_choice::automatic, "nowhere/libgodwit_cuda.so");
  const auto chosen = choose_device(settings, {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, nullptr);
  EXPECT_EQ(settings.instances.device, device_choice::automatic) << "a recording says what was asked for";
}

TEST(DeviceChoice, CudaWithoutAPluginIsAnErrorInOneLine) {
  auto settings = with(device_choice::cuda, "nowhere/libgodwit_cuda.so");
  const auto chosen = choose_device(settings, {});
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().line, "--device cuda: there is no CUDA plug-in (looked for nowhere/libgodwit_cuda.so); "
                                 "--device cpu does without");
}

TEST(DeviceChoice, WhatIsNoPluginIsAnErrorAsWell) {
  // Where NVIDIA's driver is missing, that is said first.
  const auto file = own_file("no_plugin.so");
  std::ofstream(file) << "text";
  auto settings = with(device_choice::cuda, file);
  const auto chosen = choose_device(settings, {});
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().line, HasSubstr("--device cuda: "));
  EXPECT_EQ(chosen.error().line.find('\n'), std::string::npos);
  settings = with(device_choice::automatic, file);
  EXPECT_TRUE(choose_device(settings, {}));
  std::remove(file.c_str());
}

TEST(DeviceChoice, AutoIsTheCpuForWhatGpusDoNotDo) {
  const auto file = own_file("no_plugin.so"); // would be opened, and be refused
  std::ofstream(file) << "text";
  auto settings = with(device_choice::automatic, file);
  settings.instances.kv_type = kv_choice::f32;
  auto chosen = choose_device(settings, {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, nullptr);
  EXPECT_EQ(settings.instances.device, device_choice::automatic);
  std::remove(file.c_str());
}

TEST(DeviceChoice, AModelThatGpusHaveNotIsTheCpusOrRefusedBeforeItIsLoaded) {
  using gpu::model::family;
  for (const auto& [kind, name] :
       {std::pair{family::gemma3, "Gemma3ForCausalLM"}, std::pair{family::gpt_oss, "GptOssForCausalLM"}}) {
    gpu::model::config model;
    model.kind = kind;
    model.architecture = name;
    auto settings = with(device_choice::automatic, "nowhere/libgodwit_cuda.so");
    EXPECT_TRUE(choose_device_for(model, settings, {}));
    EXPECT_EQ(settings.instances.device, device_choice::automatic);
    settings = with(device_choice::cuda, "nowhere/libgodwit_cuda.so");
    const auto chosen = choose_device_for(model, settings, {});
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().line,
              std::string("--device cuda: the CUDA kernels have no ") + name + "; --device cpu serves this model");
    EXPECT_EQ(chosen.error().exit_code, 2);
  }
}

// A cluster may share one file, and its head have no GPU.
TEST(DeviceChoice, AHeadWithoutInstancesLooksForNothing) {
  auto settings = with(device_choice::cuda, "nowhere/libgodwit_cuda.so");
  settings.instances.count = 0;
  const auto chosen = choose_device(settings, {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, nullptr);
  EXPECT_EQ(settings.instances.device, device_choice::cuda) << "a recording says what was asked for";
  settings.scaling.mode = protocols::scaling_mode::on;
  settings.scaling.provisioner = provisioner_choice::process;
  EXPECT_TRUE(choose_device(settings, {})) << "those have devices of their own";
  settings.scaling.provisioner = provisioner_choice::in_process;
  EXPECT_FALSE(choose_device(settings, {})) << "more instances may start here";
}

TEST(DeviceChoice, TheCpuLooksForNothing) {
  auto settings = with(device_choice::cpu, "nowhere/libgodwit_cuda.so");
  EXPECT_TRUE(choose_device(settings, {}));
}

} // namespace
} // namespace godwit::main
